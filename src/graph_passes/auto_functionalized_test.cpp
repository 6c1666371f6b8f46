#include "graph_passes/auto_functionalized.h"

#include <gtest/gtest.h>

#include "graph_passes/wrappers.h"
#include "ops/custom_ops.h"

namespace kiln {
namespace {

Program unresolved_program(const std::string& body) {
  return parse_program("program \"test\"\ngraph main {\n" + body + "}\n");
}

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

std::string refusal_of(const std::function<void()>& f, std::string& message) {
  try {
    f();
  } catch (const Error& error) {
    message = error.message();
    return error.code();
  }
  return "none";
}

TEST(AutoFunctionalized, AFunctionalizedCallIsExpanded) {
  Program program = unresolved_program(on_one_line(functionalized));
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
  std::string body = on_one_line(functionalized);
  body.replace(body.find("_x_base_index=0"), 15, "_x_base_index=7");
  Program program = unresolved_program(body);
  resolve_with_custom(program.graph, undeclared({"mylib.inc_.default"}));
  std::string message;
  EXPECT_EQ(refusal_of([&] { inline_wrapper_calls(program.graph, program.ranges()); }, message), "K0235");
  EXPECT_NE(message.find("7 of 1 bases"), std::string::npos) << message;
}

}  // namespace
}  // namespace kiln
