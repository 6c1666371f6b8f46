#include "trace/graph_python.h"

#include <gtest/gtest.h>

#include "ops/op_record.h"
#include "trace/python_text.h"

namespace kiln {
namespace {

Program resolved(const char* text) {
  Program program = parse_program(text);
  resolve_operators(program.graph, {});
  return program;
}

const char* const clamp_text = R"(program "m"
symbol s0 [2, 64] hint 8
graph main {
  input %x: f32[s0, 4] = user
  input %p_w: f32[4] = parameter "layer.w"
  %mul: f32[s0, 4] = aten.mul.Tensor(self=%x, other=%p_w) @0
  %clamp: f32[s0, 4] = aten.clamp.default(self=%mul, max=2.5)
  %n: int {s0} = aten.sym_size.int(self=%x, dim=0)
  %view: f32[s0*4] = aten.view.default(self=%clamp, size=[{s0*4}])
  output %view = user
}
line 0 "model.py":42 in "forward": "y = x * self.w"
origin 0 node "mul" op "aten.mul.Tensor" module "layer" stack 0
)";

TEST(GraphPython, ReadableHasTypesAndSourceLines) {
  const std::string text = readable_python(resolved(clamp_text));
  EXPECT_NE(text.find("def forward(self, x: \"f32[s0, 4]\", p_w: \"f32[4]\"):"), std::string::npos) << text;
  EXPECT_NE(text.find("# File: model.py:42 in forward, code: y = x * self.w"), std::string::npos) << text;
  EXPECT_NE(text.find("mul: \"f32[s0, 4]\" = torch.ops.aten.mul.Tensor(x, p_w)"), std::string::npos) << text;
  EXPECT_NE(text.find("return (view, )"), std::string::npos) << text;
}

// A file can have any text where a name should be: it stays text in what is written for people to run.
TEST(GraphPython, NamesOfADamagedFileAreNoCode) {
  Program program = parse_program(clamp_text);
  const std::string evil = "x\nimport evil\r\nimport evil\n";
  Node& node = *program.graph.nodes.front();
  node.target = "aten.mul" + evil;
  node.args[1].name = "other=1)" + evil;
  node.origins[0].stack[0] = {"model.py" + evil, 42, evil, evil + " \\"};
  program.input_specs[1].target = evil;
  for (const std::string& text :
       {readable_python(program), runnable_python(program, "values" + evil + ".pt", "made of " + evil)})
    for (const std::string& line : split(replace_all(text, "\r", "\n"), '\n'))
      EXPECT_FALSE(starts_with(trim(line), "import evil")) << text;
}

TEST(GraphPython, SkippedDefaultsGoByNameAndSymbolsComeFromInputs) {
  const std::string text = runnable_python(resolved(clamp_text), "values.pt", "about");
  EXPECT_NE(text.find("torch.ops.aten.clamp.default(mul, max=2.5)"), std::string::npos) << text;
  EXPECT_NE(text.find("        s0 = x.size(0)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("p_w = self.weights['layer.w']"), std::string::npos) << text;
  EXPECT_NE(text.find("# about\n"), std::string::npos);
  EXPECT_NE(text.find("'values.pt'"), std::string::npos);
}

TEST(GraphPython, BranchesBecomeFunctionsAndMutationsAreWrittenBack) {
  const std::string text = runnable_python(resolved(R"(program "m"
graph main {
  input %b: f32[2] = buffer "count"
  input %x: f32[2] = user
  input %p: bool[] = user
  %c: f32[2] = higher_order.cond(%p, graph yes {
    input %a: f32[2]
    %neg: f32[2] = aten.neg.default(self=%a)
    output %neg
  }, graph no {
    input %a2: f32[2]
    output %a2
  }, [%x])
  %add: f32[2] = aten.add.Tensor(self=%b, other=%c)
  output %add = buffer_mutation "count"
  output %c = user
}
)"),
                                           "v.pt", "");
  EXPECT_NE(text.find("def yes(a):"), std::string::npos) << text;
  EXPECT_NE(text.find("return (neg, )"), std::string::npos) << text;
  EXPECT_NE(text.find("c, = torch.ops.higher_order.cond(p, yes, no, (x,))"), std::string::npos) << text;
  EXPECT_NE(text.find("self.weights['count'].copy_(add)"), std::string::npos) << text;
  EXPECT_NE(text.find("return (c, )"), std::string::npos) << text;
}

TEST(PythonText, LiteralsAndNames) {
  EXPECT_EQ(python_scalar(Scalar(true)), "True");
  EXPECT_EQ(python_scalar(Scalar(1.0)), "1.0");
  EXPECT_EQ(python_scalar(Scalar(-INFINITY)), "-float('inf')");
  EXPECT_EQ(python_quote("it's\n\x01"), "'it\\'s\\n\\x01'");
  EXPECT_EQ(python_name("lambda"), "lambda_");
  EXPECT_EQ(python_name("1.x"), "_1_x");
  EXPECT_EQ(python_expression(parse_expr("s0*2 + max(s1, 3)")).find("max("),
            1u + python_expression(parse_expr("s0*2")).size() + 3u);
}

}  // namespace
}  // namespace kiln
