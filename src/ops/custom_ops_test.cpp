#include "ops/custom_ops.h"

#include "ops/functionalized_call_test.h"

namespace kiln {
namespace {

const char* const plain = R"(
  input %x: f32[4] = user
  mylib.inc_.default(x=%x, k=2) named inc_1
  output %x = user
)";

TEST(CustomOps, TheLibrarySaysWhatIsWritten) {
  Program program = unresolved_program(plain);
  resolve_with_custom(program.graph,
                      {{"mylib.inc_.default", parse_schema("inc_(Tensor(a!) x, int k) -> ()", "mylib")}});
  EXPECT_EQ(custom_writes(*program.graph.nodes.front()), std::vector<std::string>{"x"});
}

TEST(CustomOps, NobodySaysWhatIsWritten) {
  Program program = unresolved_program(plain);
  std::string message;
  EXPECT_EQ(refusal_of([&] { resolve_with_custom(program.graph, undeclared({"mylib.inc_.default"})); }, message),
            "K0234");
  EXPECT_NE(message.find("mylib.inc_.default gives no result"), std::string::npos) << message;
}

TEST(CustomOps, AnArgumentThatTheSchemaDoesNotHave) {
  Program program = unresolved_program(plain);
  std::string message;
  const CustomOp op{"mylib.inc_.default", parse_schema("inc_(Tensor(a!) y, int k) -> ()", "mylib")};
  EXPECT_EQ(refusal_of([&] { resolve_with_custom(program.graph, {op}); }, message), "K0201");
  EXPECT_NE(message.find("no argument x"), std::string::npos) << message;
}

TEST(CustomOps, TheMissingOperatorOfAFunctionalizedCallIsNamed) {
  Program program = unresolved_program(functionalized_call());
  std::string message;
  EXPECT_EQ(refusal_of([&] { resolve_with_custom(program.graph, {}); }, message), "K0200");
  EXPECT_NE(message.find("mylib.inc_.default"), std::string::npos) << message;
  EXPECT_NE(message.find("--custom-op-lib"), std::string::npos) << message;
}

}  // namespace
}  // namespace kiln
