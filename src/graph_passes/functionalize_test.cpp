#include "graph_passes/functionalize.h"

#include "graph_passes/dead_code.h"
#include "graph_passes/pass_test.h"
#include "graph_passes/view_layout.h"
#include "interp/interp.h"
#include "ops/custom_ops.h"

namespace kiln {
namespace {

Tensor counted(DType dtype, std::vector<int64_t> sizes, int64_t start) {
  Tensor out = Tensor::empty(dtype, std::move(sizes));
  for (int64_t i = 0; i < out.numel(); ++i) out.set_item(i, Scalar(start + i));
  return out;
}

std::string values_text(const Tensor& tensor) {
  std::string out;
  for (int64_t i = 0; i < tensor.numel(); ++i) out += str(i ? " " : "", tensor.item(i).text());
  return out;
}

std::string result_text(const InterpretResult& result) {
  std::string out;
  for (const Datum& datum : result.outputs) out += str("out ", values_text(datum.tensor()), "\n");
  for (const Datum& datum : result.inputs) out += str("in ", values_text(datum.tensor()), "\n");
  for (const auto& [name, tensor] : result.state) out += str(name, " ", values_text(tensor), "\n");
  return out;
}

// The mutating program and the functional one must do the same, on two calls in a row (state included).
void expect_same_behaviour(const Program& before, const Program& after) {
  std::vector<Datum> inputs;
  int64_t start = 1;
  for (size_t i = 0; i < before.graph.inputs.size(); ++i) {
    if (before.input_specs[i].kind != InputKind::user) continue;
    const TensorType& type = before.graph.inputs[i]->type;
    std::vector<int64_t> sizes;
    for (const Expr& size : type.sizes) sizes.push_back(size.value());
    inputs.push_back(Datum{counted(type.dtype, sizes, start)});
    start += 10;
  }
  Interpreter mutating(before), functional(after);
  for (int run = 0; run < 2; ++run) EXPECT_EQ(result_text(functional.run(inputs)), result_text(mutating.run(inputs)));
}

Program functional_of(const Program& program) {
  Program after = program.clone();
  PassContext context;
  functionalize(after, context);
  verify(after);
  for (const auto& node : after.graph.nodes) EXPECT_FALSE(node->op && node->op->schema.mutates()) << node->target;
  dead_code(after, context);
  verify(after);
  return after;
}

TEST(Functionalize, WriteToAnInput) {
  Program program = program_of(R"(
  input %x: f32[2] = user
  %a: f32[2] = aten.add_.Tensor(self=%x, other=1)
  %b: f32[2] = aten.mul.Tensor(self=%x, other=%a)
  output %b = user
)");
  Program after = functional_of(program);
  EXPECT_EQ(signed_body_of(after), R"(  input %x: f32[2] = user
  %add: f32[2] = aten.add.Tensor(self=%x, other=1)
  %b: f32[2] = aten.mul.Tensor(self=%add, other=%add)
  output %add = user_input_mutation "x"
  output %b = user
)");
  expect_same_behaviour(program, after);
}

TEST(Functionalize, WriteThroughAView) {
  Program program = program_of(R"(
  input %x: f32[3, 4] = user
  %row: f32[4] strides [1] offset {4} = aten.select.int(self=%x, dim=0, index=1)
  %part: f32[2] strides [1] offset {5} = aten.slice.Tensor(self=%row, dim=0, start=1, end=3)
  %w: f32[2] strides [1] offset {5} = aten.mul_.Tensor(self=%part, other=10)
  %other: f32[3] strides [4] offset {1} = aten.select.int(self=%x, dim=1, index=1)
  %sum: f32[3] = aten.add.Tensor(self=%other, other=1)
  output %sum = user
  output %row = user
)");
  Program after = functional_of(program);
  EXPECT_EQ(signed_body_of(after), R"(  input %x: f32[3, 4] = user
  %row: f32[4] offset {4} = aten.select.int(self=%x, dim=0, index=1)
  %part: f32[2] offset {5} = aten.slice.Tensor(self=%row, dim=0, start=1, end=3)
  %mul: f32[2] = aten.mul.Tensor(self=%part, other=10)
  %slice_scatter: f32[4] offset {4} = aten.slice_scatter.default(self=%row, src=%mul, dim=0, start=1, end=3, step=1)
  %select_scatter: f32[3, 4] = aten.select_scatter.default(self=%x, src=%slice_scatter, dim=0, index=1)
  %other: f32[3] strides [4] offset {1} = aten.select.int(self=%select_scatter, dim=1, index=1)
  %sum: f32[3] = aten.add.Tensor(self=%other, other=1)
  output %select_scatter = user_input_mutation "x"
  output %sum = user
  output %slice_scatter = user
)");
  expect_same_behaviour(program, after);
}

TEST(Functionalize, AViewTakenBeforeTheWriteSeesIt) {
  Program program = program_of(R"(
  input %x: f32[2, 3] = user
  %t: f32[3, 2] strides [1, 3] = aten.transpose.int(self=%x, dim0=0, dim1=1)
  %flat: f32[6] = aten.view.default(self=%x, size=[6])
  %w: f32[6] = aten.add_.Tensor(self=%flat, other=5)
  %y: f32[3, 2] strides [1, 3] = aten.neg.default(self=%t)
  output %y = user
)");
  Program after = functional_of(program);
  expect_same_behaviour(program, after);
}

// x[1:] += 5 as Python has it: the part is added to, and then copied to itself.
TEST(Functionalize, ACopyToItselfIsNoWrite) {
  Program program = program_of(R"(
  input %x: i64[4] = user
  %z: i64[4] = aten.mul.Tensor(self=%x, other=2)
  %part: i64[3] strides [1] offset {1} = aten.slice.Tensor(self=%z, dim=0, start=1, end=4)
  %sum: i64[3] strides [1] offset {1} = aten.add_.Tensor(self=%part, other=5)
  %again: i64[3] strides [1] offset {1} = aten.slice.Tensor(self=%z, dim=0, start=1, end=4)
  %c: i64[3] strides [1] offset {1} = aten.copy_.default(self=%again, src=%sum)
  %y: i64[4] = aten.mul.Tensor(self=%z, other=3)
  output %y = user
  output %c = user
)");
  Program after = functional_of(program);
  expect_same_behaviour(program, after);
  size_t writes = 0;
  for (const auto& node : after.graph.nodes) writes += node->target.find("slice_scatter") != std::string::npos;
  EXPECT_EQ(writes, 1u);
}

TEST(Functionalize, BuffersKeepTheirState) {
  Program program = program_of(R"(
  input %count: i64[2] = buffer "count"
  input %x: i64[2] = user
  %w: i64[2] = aten.add_.Tensor(self=%count, other=%x)
  %c: i64[2] = aten.copy_.default(self=%x, src=%w)
  %y: i64[2] = aten.mul.Tensor(self=%w, other=2)
  output %y = user
)",
                               "constant \"count\": i64[2]\n", {{"count", counted(DType::i64, {2}, 100)}});
  Program after = functional_of(program);
  ASSERT_EQ(after.output_specs.size(), 3u);
  EXPECT_EQ(after.output_specs[0].kind, OutputKind::buffer_mutation);
  EXPECT_EQ(after.output_specs[0].target, "count");
  EXPECT_EQ(after.output_specs[1].kind, OutputKind::user_input_mutation);
  expect_same_behaviour(program, after);
}

TEST(Functionalize, TiedBuffersAreOneBase) {
  Tensor shared = counted(DType::i64, {2}, 5);
  Program program = program_of(R"(
  input %a: i64[2] = buffer "a"
  input %b: i64[2] = buffer "b"
  input %x: i64[2] = user
  %w: i64[2] = aten.add_.Tensor(self=%a, other=%x)
  %y: i64[2] = aten.mul.Tensor(self=%b, other=2)
  output %y = user
)",
                               "constant \"a\": i64[2]\nconstant \"b\": i64[2]\n", {{"a", shared}, {"b", shared}});
  expect_same_behaviour(program, functional_of(program));
}

// A functional export: what is written is an output, under one of the names.
TEST(Functionalize, TiedBuffersAreWrittenByEitherName) {
  const Tensor shared = counted(DType::i64, {2}, 5);
  for (const char* written : {"a", "b"}) {
    Program program = program_of(str(R"(
  input %a: i64[2] = buffer "a"
  input %b: i64[2] = buffer "b"
  input %x: i64[2] = user
  %w: i64[2] = aten.add.Tensor(self=%b, other=%x)
  %y: i64[2] = aten.mul.Tensor(self=%a, other=2)
  output %w = buffer_mutation ")",
                                     written, R"("
  output %y = user
)"),
                                 "constant \"a\": i64[2]\nconstant \"b\": i64[2]\n", {{"a", shared}, {"b", shared}});
    const Program after = functional_of(program);
    std::set<std::string> names;
    for (const OutputSpec& spec : after.output_specs)
      if (spec.kind == OutputKind::buffer_mutation) names.insert(spec.target);
    EXPECT_EQ(names, (std::set<std::string>{"a", "b"})) << written;
  }
}

TEST(Functionalize, AsStridedSeesTheWholeStorage) {
  Program program = program_of(R"(
  input %x: f32[6] = user
  %part: f32[2] strides [1] offset {2} = aten.slice.Tensor(self=%x, dim=0, start=2, end=4)
  %all: f32[3] strides [2] offset {0} = aten.as_strided.default(self=%part, size=[3], stride=[2], storage_offset=0)
  %w: f32[3] strides [2] offset {0} = aten.neg_.default(self=%all)
  %y: f32[2] = aten.add.Tensor(self=%part, other=0)
  output %y = user
)");
  Program after = functional_of(program);
  EXPECT_NE(body_of(after).find("aten.as_strided.default(self=%x"), std::string::npos) << body_of(after);
  expect_same_behaviour(program, after);
}

TEST(Functionalize, ResultsOfNarrowTypeAreCast) {
  Program program = program_of(R"(
  input %h: f16[2] = user
  input %f: f32[2] = user
  %w: f16[2] = aten.add_.Tensor(self=%h, other=%f)
  %y: f16[2] = aten.neg.default(self=%h)
  output %y = user
)");
  expect_same_behaviour(program, functional_of(program));
}

TEST(Functionalize, AFreshTensorIsNoOutput) {
  Program program = program_of(R"(
  input %x: f32[2] = user
  %r: f32[2] = aten.relu.default(self=%x)
  %w: f32[2] = aten.add_.Tensor(self=%r, other=1)
  output %r = user
)");
  Program after = functional_of(program);
  EXPECT_EQ(after.output_specs.size(), 1u);
  expect_same_behaviour(program, after);
}

TEST(Functionalize, WhatItCannotDoIsSaid) {
  auto refused = [](const std::string& body, const std::string& code, const std::string& header = "") {
    Program program = program_of(body, header);
    PassContext context;
    try {
      functionalize(program, context);
      ADD_FAILURE() << body;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    }
  };
  refused(R"(
  input %x: f32[1, 2] = user
  %e: f32[3, 2] strides [0, 1] = aten.expand.default(self=%x, size=[3, 2])
  %w: f32[3, 2] strides [0, 1] = aten.add_.Tensor(self=%e, other=1)
  output %w = user
)",
          "K0230");
  refused(R"(
  input %p: bool[] = user
  input %x: f32[2] = user
  %y: f32[2] = higher_order.cond(%p, graph t {
    input %a: f32[2]
    %w: f32[2] = aten.add_.Tensor(self=%a, other=1)
    output %w
  }, graph f {
    input %a: f32[2]
    %w: f32[2] = aten.neg.default(self=%a)
    output %w
  }, [%x])
  output %y = user
)",
          "K0230");
}

TEST(Functionalize, SubgraphsMayWriteToTheirOwnTensors) {
  Program program = program_of(R"(
  input %p: bool[] = user
  input %x: f32[2] = user
  %y: f32[2] = higher_order.cond(%p, graph t {
    input %a: f32[2]
    %n: f32[2] = aten.neg.default(self=%a)
    %w: f32[2] = aten.add_.Tensor(self=%n, other=1)
    output %n
  }, graph f {
    input %a: f32[2]
    %w: f32[2] = aten.neg.default(self=%a)
    output %w
  }, [%x])
  output %y = user
)");
  expect_same_behaviour(program, functional_of(program));
}

TEST(ViewLayout, WhenAReshapeIsAView) {
  RangeEnv ranges;
  ranges.ranges["s0"] = {2, 100};
  Expr s = Expr::symbol("s0");
  EXPECT_EQ(can_view({2, 3}, {3, 1}, {6}, ranges), Proof::yes);
  EXPECT_EQ(can_view({2, 3}, {1, 2}, {6}, ranges), Proof::no);
  EXPECT_EQ(can_view({2, 3, 4}, {24, 4, 1}, {2, 12}, ranges), Proof::yes);
  EXPECT_EQ(can_view({2, 3, 4}, {24, 4, 1}, {6, 4}, ranges), Proof::no);
  EXPECT_EQ(can_view({2, 1, 3}, {3, 77, 1}, {6}, ranges), Proof::yes);
  EXPECT_EQ(can_view({s, 4}, {4, 1}, {s * Expr(4)}, ranges), Proof::yes);
  EXPECT_EQ(can_view({4, s}, {1, 4}, {s * Expr(4)}, ranges), Proof::no);
  EXPECT_EQ(can_view({0, 3}, {1, 9}, {0}, ranges), Proof::yes);
  EXPECT_EQ(can_view({s, 2, 3}, {12, 3, 1}, {s, 6}, ranges), Proof::yes);
}

TEST(Functionalize, WritesThroughViewsOfAnotherDtype) {
  const std::string bodies[] = {R"(
  input %x: c64[2] = user
  %r: f32[2] strides [2] = aten.real.default(self=%x)
  %w: f32[2] strides [2] = aten.add_.Tensor(self=%r, other=1)
  %i: f32[2] strides [2] offset {1} = aten.imag.default(self=%x)
  %z: f32[2] strides [2] offset {1} = aten.mul_.Tensor(self=%i, other=%r)
  %y: c64[2] = aten.add.Tensor(self=%x, other=%x)
  output %y = user
)",
                                R"(
  input %x: c64[2] = user
  %v: f32[2, 2] = aten.view_as_real.default(self=%x)
  %s: f32[2] strides [2] offset {1} = aten.select.int(self=%v, dim=1, index=1)
  %w: f32[2] strides [2] offset {1} = aten.sub_.Tensor(self=%s, other=5)
  %y: f32[2] = aten.abs.default(self=%x)
  output %y = user
)",
                                R"(
  input %x: f32[3, 2] = user
  %y: f32[3, 2] = aten.mul.Tensor(self=%x, other=2)
  %v: c64[3] = aten.view_as_complex.default(self=%y)
  %w: c64[3] = aten.mul_.Tensor(self=%v, other=%v)
  output %y = user
)",
                                R"(
  input %x: f32[4] = user
  %v: i32[4] = aten.view.dtype(self=%x, dtype=i32)
  %s: i32[2] offset {1} = aten.slice.Tensor(self=%v, dim=0, start=1, end=3)
  %w: i32[2] offset {1} = aten.bitwise_and_.Scalar(self=%s, other=2139095040)
  %y: f32[4] = aten.neg.default(self=%x)
  output %y = user
)"};
  for (const std::string& body : bodies) {
    SCOPED_TRACE(body);
    Program program = program_of(body);
    expect_same_behaviour(program, functional_of(program));
  }
}

// mylib.inc_: x += 1, in place. What it writes to comes with the node, as resolve_with_custom puts it there.
InterpretOptions with_inc() {
  InterpretOptions options;
  options.custom = [](const Node&, const std::map<std::string, Datum, std::less<>>& args) {
    Tensor x = args.at("x").tensor();
    for (int64_t i = 0; i < x.numel(); ++i) x.set_item(i, Scalar(x.item(i).as_double() + 1));
    return std::vector<Datum>{};
  };
  return options;
}

TEST(Functionalize, CustomOperatorsGiveWhatTheyWrote) {
  Program program = program_of(R"(
  input %x: f32[4] = user
  %s: f32[2] offset {1} = aten.slice.Tensor(self=%x, dim=0, start=1, end=3)
  mylib.inc_.default(x=%s, _kiln_writes=["x"]) named inc_1
  %y: f32[4] = aten.mul.Tensor(self=%x, other=2)
  mylib.inc_.default(x=%y, _kiln_writes=["x"]) named inc_2
  output %y = user
)",
                               "", {}, {"mylib.inc_.default"});
  Program after = functional_of(program);
  EXPECT_NE(signed_body_of(after).find("mylib.inc_.default(x=%s, _kiln_updates=[\"x\"])"), std::string::npos)
      << signed_body_of(after);
  EXPECT_EQ(after.output_specs.at(0).kind, OutputKind::user_input_mutation);
  const std::vector<Datum> inputs = {Datum{counted(DType::f32, {4}, 1)}};
  EXPECT_EQ(result_text(Interpreter(after, with_inc()).run(inputs)),
            result_text(Interpreter(program, with_inc()).run(inputs)));
}

TEST(Functionalize, CustomOperatorsWithSharedMemory) {
  const std::string one_value = R"(
  input %x: f32[4] = user
  %y: f32[4] = aten.mul.Tensor(self=%x, other=2)
  mylib.two.default(a=%y, b=%y, _kiln_writes=["a"]) named two_1
  output %y = user
)";
  Program same = functional_of(program_of(one_value, "", {}, {"mylib.two.default"}));
  EXPECT_NE(body_of(same).find("_kiln_updates=[\"a\", \"b=a\"]"), std::string::npos) << body_of(same);
  const std::string overlap = R"(
  input %x: f32[4] = user
  %a: f32[3] = aten.slice.Tensor(self=%x, dim=0, start=0, end=3)
  %b: f32[3] offset {1} = aten.slice.Tensor(self=%x, dim=0, start=1, end=4)
  mylib.two.default(a=%a, b=%b, _kiln_writes=["a"]) named two_1
  output %x = user
)";
  Program program = program_of(overlap, "", {}, {"mylib.two.default"});
  try {
    functional_of(program);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), "K0230");
    EXPECT_NE(error.message().find("arguments a and b share"), std::string::npos) << error.message();
  }
}

// Files name arguments; nothing says that they stand in the order of the schema.
TEST(Functionalize, ArgumentsMayStandInAnyOrder) {
  Program program = program_of(
      "  input %x: f32[4] = user\n  %y: f32[4] = aten.clone.default(self=%x)\n"
      "  %z: f32[4] = aten.add_.Tensor(alpha=3, other=%x, self=%y)\n  output %z = user\n");
  EXPECT_NE(print(program.graph).find("aten.add_.Tensor(self=%y, other=%x, alpha=3)"), std::string::npos);
  Program before = program.clone();
  PassContext context;
  EXPECT_TRUE(functionalize(program, context));
  verify(program);
  expect_same_behaviour(before, program);
}

}  // namespace
}  // namespace kiln
