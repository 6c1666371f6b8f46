#include "ops/custom_ops.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

Program program_of(const std::string& body) { return parse_program("program \"test\"\ngraph main {\n" + body + "}\n"); }

const char* const plain = R"(
  input %x: f32[4] = user
  mylib.inc_.default(x=%x, k=2) named inc_1
  output %x = user
)";

const char* const functionalized = R"(
  input %x: f32[4] = user
  %none: none, %new: f32[4] = higher_order.auto_functionalized_v2("torch.ops.mylib.inc_.default", k=2, _x_base_index=0,
      _x_slice_dim=0, _x_slice_start=1, _x_slice_end=3, _all_bases=[%x]) named auto_functionalized_v2
  output %new = user
)";

std::string on_one_line(std::string text) {
  for (size_t at; (at = text.find(",\n      ")) != std::string::npos;) text.replace(at, 8, ", ");
  return text;
}

std::string code_of(const std::function<void()>& f, std::string& message) {
  try {
    f();
  } catch (const Error& error) {
    message = error.message();
    return error.code();
  }
  return "none";
}

TEST(CustomOps, TheLibrarySaysWhatIsWritten) {
  Program program = program_of(plain);
  resolve_with_custom(program.graph,
                      {{"mylib.inc_.default", parse_schema("inc_(Tensor(a!) x, int k) -> ()", "mylib")}});
  EXPECT_EQ(custom_writes(*program.graph.nodes.front()), std::vector<std::string>{"x"});
}

TEST(CustomOps, NobodySaysWhatIsWritten) {
  Program program = program_of(plain);
  std::string message;
  EXPECT_EQ(code_of([&] { resolve_with_custom(program.graph, undeclared({"mylib.inc_.default"})); }, message), "K0234");
  EXPECT_NE(message.find("mylib.inc_.default gives no result"), std::string::npos) << message;
}

TEST(CustomOps, AnArgumentThatTheSchemaDoesNotHave) {
  Program program = program_of(plain);
  std::string message;
  const CustomOp op{"mylib.inc_.default", parse_schema("inc_(Tensor(a!) y, int k) -> ()", "mylib")};
  EXPECT_EQ(code_of([&] { resolve_with_custom(program.graph, {op}); }, message), "K0201");
  EXPECT_NE(message.find("no argument x"), std::string::npos) << message;
}

TEST(CustomOps, TheMissingOperatorOfAFunctionalizedCallIsNamed) {
  Program program = program_of(on_one_line(functionalized));
  std::string message;
  EXPECT_EQ(code_of([&] { resolve_with_custom(program.graph, {}); }, message), "K0200");
  EXPECT_NE(message.find("mylib.inc_.default"), std::string::npos) << message;
  EXPECT_NE(message.find("--custom-op-lib"), std::string::npos) << message;
}

}  // namespace
}  // namespace kiln
