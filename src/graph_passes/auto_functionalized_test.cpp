#include "graph_passes/auto_functionalized.h"

#include "graph_passes/wrappers.h"
#include "ops/functionalized_call_test.h"

namespace kiln {
namespace {

TEST(AutoFunctionalized, AFunctionalizedCallIsExpanded) {
  Program program = unresolved_program(functionalized_call());
  resolve_with_custom(program.graph, undeclared({"mylib.inc_.default"}));
  EXPECT_TRUE(inline_wrapper_calls(program.graph, program.ranges()));
  verify(program);
  const std::string text = print(program.graph);
  EXPECT_NE(text.find("aten.clone.default(self=%x)"), std::string::npos) << text;
  EXPECT_NE(text.find("aten.slice.Tensor(self=%clone, dim=0, start=1, end=3)"), std::string::npos) << text;
  EXPECT_NE(text.find("mylib.inc_.default(k=2, x=%slice, _kiln_writes=[\"x\"])"), std::string::npos) << text;
  EXPECT_NE(text.find("output %clone"), std::string::npos) << text;
}

TEST(AutoFunctionalized, ABaseThatIsNotThere) {
  std::string body = functionalized_call();
  body.replace(body.find("_x_base_index=0"), 15, "_x_base_index=7");
  Program program = unresolved_program(body);
  resolve_with_custom(program.graph, undeclared({"mylib.inc_.default"}));
  std::string message;
  EXPECT_EQ(refusal_of([&] { inline_wrapper_calls(program.graph, program.ranges()); }, message), "K0235");
  EXPECT_NE(message.find("7 of 1 bases"), std::string::npos) << message;
}

}  // namespace
}  // namespace kiln
