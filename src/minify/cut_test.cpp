#include "minify/cut.h"

#include <gtest/gtest.h>

#include "driver/executable.h"
#include "minify/edits.h"
#include "minify/specialise.h"

namespace kiln::minify {
namespace {

Program chain() {
  Program program = parse_program(R"(program "model"
graph main {
  input %x: f32[4, 6] = user
  %a: f32[4, 6] = aten.sin.default(self=%x)
  %b: f32[4, 6] = aten.relu.default(self=%a)
  %c: f32[4, 6] = aten.mul.Tensor(self=%b, other=%a)
  %d: f32[6, 4] strides [1, 6] = aten.t.default(self=%c)
  output %d = user
}
)");
  program.sample_inputs = {Datum{random_tensor(DType::f32, {4, 6}, {6, 1}, 3)}};
  return program;
}

std::vector<Datum> outputs_of(const Program& program) {
  ExecutableOptions options;
  options.backend = Backend::interpret;
  return make_executable(program, options)->call(program.sample_inputs).outputs;
}

TEST(Cut, TakesInputsFromTheWholeProgram) {
  const Program program = chain();
  const RecordedValues recorded(program, {}, 1 << 20);
  const auto part = cut(program, {false, false, true, true}, recorded);
  ASSERT_TRUE(part.has_value());
  verify(*part);
  EXPECT_EQ(part->graph.inputs.size(), 2u);
  EXPECT_NE(part->graph.find_value("a"), nullptr) << "values keep their names";
  EXPECT_EQ(count_nodes(*part), 5);
  const auto whole = outputs_of(program), again = outputs_of(*part);
  ASSERT_EQ(again.size(), 1u);
  for (int64_t i = 0; i < 24; ++i) EXPECT_EQ(again[0].tensor().item(i), whole[0].tensor().item(i));
}

TEST(Cut, WhatDroppedNodesUseBecomesAnOutput) {
  const Program program = chain();
  const RecordedValues recorded(program, {}, 1 << 20);
  const auto part = cut(program, {true, true, false, false}, recorded);
  ASSERT_TRUE(part.has_value());
  verify(*part);
  EXPECT_EQ(part->graph.outputs.size(), 2u);
  const auto fewer = keep_outputs(*part, {false, true}, recorded);
  ASSERT_TRUE(fewer.has_value());
  EXPECT_EQ(fewer->graph.outputs.size(), 1u);
  EXPECT_FALSE(cut(program, {false, false, false, false}, recorded).has_value());
}

TEST(Cut, WithoutItsOnlyNodeAProgramHandsItsInputsThrough) {
  const Program program = chain();
  const RecordedValues recorded(program, {}, 1 << 20);
  const auto one = cut(program, {false, true, false, false}, recorded);
  ASSERT_TRUE(one.has_value());
  const auto none = without_node(*one, 0, recorded);
  ASSERT_TRUE(none.has_value());
  verify(*none);
  EXPECT_EQ(none->graph.nodes.size(), 0u);
  ASSERT_EQ(none->graph.outputs.size(), 1u);
  EXPECT_EQ(none->graph.outputs[0].as_value(), none->graph.inputs[0]);
  const auto fewer = without_node(program, 1, recorded);
  ASSERT_TRUE(fewer.has_value());
  EXPECT_EQ(fewer->graph.nodes.size(), program.graph.nodes.size() - 1);
}

Program dynamic() {
  Program program = parse_program(R"(program "model"
symbol s0 [2, 64] hint 4
graph main {
  input %x: f32[s0, 6] = user
  %n: int {s0} = aten.sym_size.int(self=%x, dim=0)
  %a: f32[s0, 6] = aten.relu.default(self=%x)
  %b: f32[6*s0] = aten.view.default(self=%a, size=[-1])
  %c: f32[s0, 6] = aten.view.default(self=%b, size=[%n, 6])
  output %c = user
}
)");
  program.sample_inputs = {Datum{random_tensor(DType::f32, {5, 6}, {6, 1}, 3)}};
  return program;
}

TEST(Cut, SizesThatDroppedNodesComputedStandAsExpressions) {
  const Program program = dynamic();
  const RecordedValues recorded(program, {}, 1 << 20);
  const auto part = cut(program, {false, false, false, true}, recorded);
  ASSERT_TRUE(part.has_value());
  verify(*part);
  EXPECT_TRUE(part->symbols.contains("s0")) << "the input of size 6*s0 gives it";
  EXPECT_EQ(outputs_of(*part)[0].tensor().sizes, (std::vector<int64_t>{5, 6}));
}

TEST(Cut, StaticProgramsHaveNoSymbols) {
  const Program program = dynamic();
  const RecordedValues recorded(program, {}, 1 << 20);
  const Program fixed = make_static(program, recorded.symbols());
  verify(fixed);
  EXPECT_TRUE(fixed.symbols.empty());
  EXPECT_TRUE(used_symbols(fixed).empty());
  EXPECT_EQ(fixed.graph.nodes.size(), 3u) << "the node that asked for the size is gone";
  EXPECT_EQ(outputs_of(fixed)[0].tensor().sizes, (std::vector<int64_t>{5, 6}));
}

TEST(Edits, BypassAndResize) {
  Program program = chain();
  for (Edit& edit : bypass_edits(program)) edit.apply(program);
  verify(program);
  EXPECT_EQ(program.graph.nodes.size(), 1u) << "t changes the type and stays";
  Program small = chain();
  resize(small, 6, 2);
  verify(small);
  EXPECT_EQ(outputs_of(small)[0].tensor().sizes, (std::vector<int64_t>{2, 4}));
}

TEST(Edits, ACondIsInlinedByTheBranchThatRan) {
  Program program = parse_program(R"(program "model"
graph main {
  input %p: bool[] = user
  input %x: f32[4] = user
  %r: f32[4] = higher_order.cond(%p, graph true_0 {
    input %a: f32[4]
    %s: f32[4] = aten.sin.default(self=%a)
    output %s
  }, graph false_0 {
    input %a: f32[4]
    %c: f32[4] = aten.cos.default(self=%a)
    output %c
  }, [%x])
  output %r = user
}
)");
  Tensor no = Tensor::scalar(DType::boolean, Scalar(false));
  program.sample_inputs = {Datum{no}, Datum{random_tensor(DType::f32, {4}, {1}, 3)}};
  const RecordedValues recorded(program, {}, 1 << 20);
  Program inlined = program.clone();
  ASSERT_TRUE(inline_edits(program, recorded)[0].apply(inlined));
  verify(inlined);
  ASSERT_EQ(inlined.graph.nodes.size(), 1u);
  EXPECT_EQ(inlined.graph.nodes.front()->target, "aten.cos.default");
  Program lifted = program.clone();
  for (Edit& edit : branch_edits(program, recorded)) edit.apply(lifted);
  verify(lifted);
  EXPECT_EQ(count_calls(lifted.graph), 1) << "only the cond is left";
  outputs_of(lifted);
}

}  // namespace
}  // namespace kiln::minify
