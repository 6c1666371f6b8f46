#include "minify/cut.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "executable/executable.h"
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

Program with_scan() {
  Program program = parse_program(R"(program "model"
symbol s0 [2, 64] hint 5
graph main {
  input %c: f32[4] = user
  input %x: f32[s0, 4] = user
  %u: f32[s0, 4] = aten.sin.default(self=%x)
  %last: f32[4], %all: f32[s0, 4] = higher_order.scan(graph body {
    input %a: f32[4]
    input %b: f32[4]
    %sum: f32[4] = aten.add.Tensor(self=%a, other=%b)
    %out: f32[4] = aten.relu.default(self=%sum)
    output %sum
    output %out
  }, [%c], [%u], [])
  %z: f32[s0, 4] = aten.tanh.default(self=%all)
  output %last = user
  output %z = user
}
)");
  program.sample_inputs = {Datum{random_tensor(DType::f32, {4}, {1}, 3)},
                           Datum{random_tensor(DType::f32, {5, 4}, {4, 1}, 4)}};
  return program;
}

TEST(Edits, AScanIsInlinedByOneRound) {
  const Program program = with_scan();
  const RecordedValues recorded(program, {}, 1 << 20);
  Program inlined = program.clone();
  const std::vector<Edit> edits = inline_edits(program, recorded);
  ASSERT_EQ(edits.size(), 1u);
  ASSERT_TRUE(edits[0].apply(inlined));
  verify(inlined);
  const std::vector<Datum> out = outputs_of(inlined), whole = outputs_of(program);
  ASSERT_EQ(out[1].tensor().sizes, whole[1].tensor().sizes);
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_EQ(out[1].tensor().item(i).as_double(), whole[1].tensor().item(i).as_double()) << "the first round";
}

TEST(Edits, ASubgraphBecomesTheProgramOnTheInputsOfItsFirstRound) {
  const Program program = with_scan();
  const RecordedValues recorded(program, {}, 1 << 20);
  Program body = program.clone();
  ASSERT_TRUE(subgraph_edits(program, recorded)[0].apply(body));
  tidy(body, recorded.symbols());
  verify(body);
  EXPECT_EQ(count_calls(body.graph), 2);
  const std::vector<Datum> out = outputs_of(body), whole = outputs_of(program);
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_FLOAT_EQ(std::tanh(static_cast<float>(out[1].tensor().item(i).as_double())),
                    static_cast<float>(whole[1].tensor().item(i).as_double()));
}

TEST(Edits, SizesShrinkInSubgraphsAndWhereTheyAreDynamic) {
  Program program = with_scan();
  resize(program, 4, 1);
  verify(program);
  EXPECT_EQ(outputs_of(program)[1].tensor().sizes, (std::vector<int64_t>{5, 1}));
  const RecordedValues recorded(program, {}, 1 << 20);
  resize_symbol(program, recorded.symbols(), "s0", 2);
  verify(program);
  EXPECT_EQ(outputs_of(program)[1].tensor().sizes, (std::vector<int64_t>{2, 1}));
  EXPECT_THROW(resize_symbol(program, recorded.symbols(), "s0", 9), Error) << "an input would have to grow";
}

TEST(Edits, AValueOfALoopsBodyBecomesAnOperand) {
  const Program program = with_scan();
  const RecordedValues recorded(program, {}, 1 << 20);
  for (const Edit& edit : branch_edits(program, recorded)) {
    if (edit.what != "lift sum") continue;
    Program lifted = program.clone();
    ASSERT_TRUE(edit.apply(lifted));
    verify(lifted);
    EXPECT_EQ(lifted.graph.inputs.size(), 3u);
    EXPECT_EQ(count_calls(lifted.graph), count_calls(program.graph) - 1);
    outputs_of(lifted);
    return;
  }
  FAIL() << "no such edit";
}

TEST(Recorded, ALoopWithoutEndEndsTheRecording) {
  Program program = parse_program(R"(program "model"
graph main {
  input %x: f32[4] = user
  %u: f32[4] = aten.sin.default(self=%x)
  %r: f32[4] = higher_order.while_loop(graph go {
    input %a: f32[4]
    %s: f32[] = aten.sum.default(self=%a)
    %g: bool[] = aten.eq.Tensor(self=%s, other=%s)
    output %g
  }, graph body {
    input %a: f32[4]
    %t: f32[4] = aten.sin.default(self=%a)
    output %t
  }, [%u], [])
  output %r = user
}
)");
  program.sample_inputs = {Datum{random_tensor(DType::f32, {4}, {1}, 3)}};
  const RecordedValues recorded(program, {}, 1 << 20, 0.2);
  EXPECT_NE(recorded.find("main", "u"), nullptr);
  EXPECT_EQ(recorded.find("main", "r"), nullptr);
}

}  // namespace
}  // namespace kiln::minify
