#include "graph_passes/split_complex.h"

#include "graph_passes/pass_test.h"

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

}  // namespace
}  // namespace kiln
