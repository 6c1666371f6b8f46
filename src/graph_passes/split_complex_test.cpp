#include "graph_passes/split_complex.h"

#include <cmath>

#include "graph_passes/pass_test.h"
#include "ops/complex_formulas.h"
#include "ops/elementwise.h"

namespace kiln {
namespace {

std::vector<std::string> targets(const Program& program) {
  std::vector<std::string> out;
  for (const auto& node : program.graph.nodes) out.push_back(node->target);
  return out;
}

TEST(SplitComplex, MultipliesPairsAndJoinsOnlyWhatLeaves) {
  Program program = program_of(R"(
  input %x: f32[3, 2] = user
  input %f: c64[3] = user
  %z: c64[3] = aten.view_as_complex.default(self=%x)
  %p: c64[3] = aten.mul.Tensor(self=%z, other=%f)
  %y: f32[3, 2] = aten.view_as_real.default(self=%p)
  output %y = user
)");
  PassContext context;
  EXPECT_TRUE(split_complex(program, context));
  verify(program);
  // The input is taken apart once; nothing is put together again, since no complex value leaves.
  auto made = targets(program);
  EXPECT_EQ(std::count(made.begin(), made.end(), "kiln.complex_parts.default"), 1);
  EXPECT_EQ(std::count(made.begin(), made.end(), "kiln.complex_join.default"), 0);
  EXPECT_EQ(std::count(made.begin(), made.end(), "aten.mul.Tensor"), 4);
  for (const auto& node : program.graph.nodes)
    for (const Value* result : node->results) EXPECT_FALSE(is_complex(result->type.dtype)) << node->target;
}

TEST(SplitComplex, OutputsKeepTypeAndLayout) {
  Program program = program_of(R"(
  input %x: c64[3, 4] = user
  %t: c64[4, 3] strides [1, 4] = aten.t.default(self=%x)
  %n: c64[4, 3] strides [1, 4] = aten.neg.default(self=%t)
  output %n = user
)");
  PassContext context;
  EXPECT_TRUE(split_complex(program, context));
  verify(program);
  const Value* out = program.graph.outputs[0].as_value();
  EXPECT_EQ(out->producer->target, "kiln.complex_join.default");
  EXPECT_EQ(out->type.dtype, DType::c64);
  EXPECT_EQ(out->type.strides, (std::vector<Expr>{Expr(1), Expr(4)}));
}

TEST(SplitComplex, LeavesRealProgramsAlone) {
  Program program = program_of(R"(
  input %x: f32[3] = user
  %n: f32[3] = aten.neg.default(self=%x)
  output %n = user
)");
  PassContext context;
  EXPECT_FALSE(split_complex(program, context));
}

// docs/adding-an-operator.md: one row is all it takes, with complex numbers too.
TEST(SplitComplex, OneRowIsAllThatAnOperatorTakes) {
  static const ComplexFormula softsign = {
      {"self"},
      [](ComplexBuild& c, const std::vector<Pair>& x) {
        return c.div(x[0], {Argument(c.b.add(c.abs(x[0]), Scalar(1.0))), Argument()});
      },
      [](const std::complex<double>* x) { return x[0] / (1 + std::abs(x[0])); }};
  Registry registry;
  add_pointwise(registry, {.schema = "softsign(Tensor self) -> Tensor",
                           .operands = "self",
                           .rule = ResultRule::floating,
                           .emit =
                               [](Emit& e) {
                                 ValueId below = e.op(ScalarOp::add, e.number(1), e.op(ScalarOp::abs, e.x[0]));
                                 return e.op(ScalarOp::div, e.x[0], below);
                               },
                           .formula = float_formula<1>([](auto x) { return x / (1 + std::abs(x)); }),
                           .facts = complex_by(softsign)});
  registry.finish();
  EXPECT_EQ(incomplete_records(registry), std::vector<std::string>{});
  EXPECT_NE(registry.find("aten.softsign_.default"), nullptr);

  Program program = program_of("  input %z: c64[2] = user\n  output %z = user\n");
  Graph& graph = program.graph;
  Node* node = graph.add_node("aten.softsign.default", "softsign");
  node->op = registry.find(node->target);
  node->args = {{"self", Argument(graph.inputs[0])}};
  infer_types(*node, graph, {});
  EXPECT_EQ(node->results[0]->type.dtype, DType::c64);
  ReferenceCall call(*node, node->op->schema);
  Tensor z = Tensor::empty(DType::c64, {2});
  z.set_item(0, Scalar(std::complex<double>(3, 4)));
  z.set_item(1, Scalar(std::complex<double>(0, 0)));
  call.values["self"] = Datum{z};
  node->op->reference(call);
  EXPECT_NEAR(std::abs(call.results.at(0).tensor().item(0).as_complex() - std::complex<double>(0.5, 4.0 / 6)), 0, 1e-7);

  graph.outputs = {Argument(node->results[0])};
  PassContext context;
  EXPECT_TRUE(split_complex(program, context));
  verify(program);
  for (const std::string& target : targets(program)) EXPECT_NE(target, "aten.softsign.default");
  EXPECT_EQ(graph.outputs[0].as_value()->producer->target, "kiln.complex_join.default");
}

}  // namespace
}  // namespace kiln
