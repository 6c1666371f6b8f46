#include "graph_passes/common_subexpressions.h"
#include "graph_passes/dead_code.h"
#include "graph_passes/decompose.h"
#include "graph_passes/fold_constants.h"
#include "graph_passes/inline_wrappers.h"
#include "graph_passes/pass_test.h"
#include "graph_passes/remove_symbolic.h"

namespace kiln {
namespace {

TEST(InlineWrappers, PutsTheSubgraphInPlace) {
  Program program = program_of(R"(
  input %x: f32[2] = user
  %y: f32[2] = higher_order.wrap_with_set_grad_enabled(false, graph g {
    input %a: f32[2]
    %b: f32[2] = aten.relu.default(self=%a)
    %x: f32[2] = aten.neg.default(self=%b)
    output %x
  }, %x)
  %z: f32[2] = aten.exp.default(self=%y)
  output %z = user
)");
  PassContext context;
  EXPECT_TRUE(inline_wrappers(program, context));
  verify(program);
  EXPECT_EQ(body_of(program), R"(  input %x: f32[2]
  %b: f32[2] = aten.relu.default(self=%x)
  %x_1: f32[2] = aten.neg.default(self=%b)
  %z: f32[2] = aten.exp.default(self=%x_1)
  output %z
)");
  EXPECT_FALSE(inline_wrappers(program, context));
}

// A program that gives it back as if it were a result was never exported so.
TEST(InlineWrappers, ATokenIsNoValue) {
  Program program = program_of(R"(
  input %token: f32[0] = token
  input %x: f32[2] = user
  %y: f32[2] = aten.exp.default(self=%x)
  output %token = user
  output %y = user
)");
  PassContext context;
  try {
    inline_wrappers(program, context);
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), "K0238");
  }
}

TEST(InlineWrappers, OperandsInAListAndOptionsWithNames) {
  Program program = program_of(R"(
  input %x: f32[2] = user
  %a: f32[2] = higher_order.strict_mode(graph g {
    input %i: f32[2]
    %n: f32[2] = aten.neg.default(self=%i)
    output %n
  }, [%x])
  %b: f32[2] = higher_order.invoke_subgraph(graph h {
    input %j: f32[2]
    %m: f32[2] = aten.relu.default(self=%j)
    output %m
  }, "region", %a)
  %c: f32[2] = higher_order.tag_activation_checkpoint(graph k {
    input %l: f32[2]
    %o: f32[2] = aten.sin.default(self=%l)
    output %o
  }, %b, use_reentrant=false)
  output %c = user
)");
  expect_changes(inline_wrappers, program);
  EXPECT_EQ(body_of(program), R"(  input %x: f32[2]
  %n: f32[2] = aten.neg.default(self=%x)
  %m: f32[2] = aten.relu.default(self=%n)
  %o: f32[2] = aten.sin.default(self=%m)
  output %o
)");
}

TEST(InlineWrappers, TokensAndPrintsAreDropped) {
  Program program = program_of(R"(
  input %token: f32[0] = token
  input %x: f32[2] = user
  %t1: f32[0], %none: none = higher_order.with_effects(%token, "torch.ops.higher_order.print", "v {}", 3)
  %t2: f32[0], %y: f32[2] = higher_order.with_effects(%t1, "torch.ops.aten.neg.default", %x)
  output %t2 = token
  output %y = user
)");
  expect_changes(inline_wrappers, program);
  ASSERT_EQ(program.input_specs.size(), 1u);
  ASSERT_EQ(program.output_specs.size(), 1u);
  EXPECT_EQ(program.output_specs[0].kind, OutputKind::user);
  ASSERT_EQ(program.graph.nodes.size(), 1u);
  EXPECT_EQ(program.graph.nodes.front()->target, "aten.neg.default");
}

TEST(InlineWrappers, OutDtypeComputesInTheWiderType) {
  Program program = program_of(R"(
  input %x: i8[2, 3] = user
  input %y: i8[3, 2] = user
  %z: i32[2, 2] = higher_order.out_dtype("torch.ops.aten.mm.default", i32, %x, %y)
  output %z = user
)");
  expect_changes(inline_wrappers, program);
  const std::string text = body_of(program);
  EXPECT_NE(text.find("aten._to_copy.default(self=%x, dtype=i32)"), std::string::npos) << text;
  EXPECT_NE(text.find("i32[2, 2] = aten.mm.default("), std::string::npos) << text;
}

TEST(InlineWrappers, AutocastWritesItsCasts) {
  Program program = program_of(R"(
  input %x: f32[4, 4] = user
  input %w: f32[4, 4] = user
  %y: bf16[4, 4] = higher_order.wrap_with_autocast("cpu", bf16, true, false, graph g {
    input %a: f32[4, 4]
    input %b: f32[4, 4]
    %mm: bf16[4, 4] = aten.mm.default(self=%a, mat2=%b)
    output %mm
  }, %x, %w)
  output %y = user
)");
  expect_changes(inline_wrappers, program);
  EXPECT_EQ(body_of(program), R"(  input %x: f32[4, 4]
  input %w: f32[4, 4]
  %autocast: bf16[4, 4] = aten._to_copy.default(self=%x, dtype=bf16)
  %autocast_1: bf16[4, 4] = aten._to_copy.default(self=%w, dtype=bf16)
  %mm: bf16[4, 4] = aten.mm.default(self=%autocast, mat2=%autocast_1)
  output %mm
)");
}

// torch.export in strict mode traces without autocast: the file's dtypes are f32 throughout. The lists decide, inside
// nested regions too, and what follows the region takes the dtypes that come out.
TEST(InlineWrappers, AutocastGoesByTheListsNotByTheFilesDtypes) {
  Program program = program_of(R"(
  input %x: f32[4, 4] = user
  %y: f32[4, 4], %z: f32[] = higher_order.wrap_with_autocast("cpu", f16, true, None, graph g {
    input %a: f32[4, 4]
    %off: f32[4, 4] = higher_order.wrap_with_autocast("cpu", None, false, None, graph h {
      input %b: f32[4, 4]
      %mm: f32[4, 4] = aten.mm.default(self=%b, mat2=%b)
      output %mm
    }, %a)
    %on: f32[4, 4] = higher_order.wrap_with_set_grad_enabled(false, graph k {
      input %c: f32[4, 4]
      %mv: f32[4, 4] = aten.mm.default(self=%c, mat2=%c)
      aten._assert_tensor_metadata.default(a=%mv, dtype=f32) named check
      %sin: f32[4, 4] = aten.sin.default(self=%mv)
      output %sin
    }, %off)
    %loss: f32[] = aten.mse_loss.default(self=%on, target=%on)
    output %on
    output %loss
  }, %x)
  %w: f32[4, 4] = aten.neg.default(self=%y)
  output %w = user
  output %z = user
)");
  PassContext context;
  EXPECT_TRUE(inline_wrappers(program, context));
  EXPECT_EQ(body_of(program), R"(  input %x: f32[4, 4]
  %mm: f32[4, 4] = aten.mm.default(self=%x, mat2=%x)
  %autocast: f16[4, 4] = aten._to_copy.default(self=%mm, dtype=f16)
  %autocast_1: f16[4, 4] = aten._to_copy.default(self=%mm, dtype=f16)
  %mv: f16[4, 4] = aten.mm.default(self=%autocast, mat2=%autocast_1)
  %sin: f16[4, 4] = aten.sin.default(self=%mv)
  %autocast_2: f32[4, 4] = aten._to_copy.default(self=%sin, dtype=f32)
  %autocast_3: f32[4, 4] = aten._to_copy.default(self=%sin, dtype=f32)
  %loss: f32[] = aten.mse_loss.default(self=%autocast_2, target=%autocast_3)
  %w: f16[4, 4] = aten.neg.default(self=%sin)
  output %w
  output %loss
)");
}

TEST(DeadCode, RemovesWhatNobodyUses) {
  Program program = program_of(R"(
  input %x: f32[2] = user
  %a: f32[2] = aten.relu.default(self=%x)
  %b: f32[2] = aten.neg.default(self=%a)
  %c: f32[2] = aten.exp.default(self=%a)
  output %c = user
)");
  PassContext context;
  EXPECT_TRUE(dead_code(program, context));
  verify(program);
  EXPECT_EQ(program.graph.nodes.size(), 2u);
  EXPECT_EQ(program.graph.find_value("b"), nullptr);
  EXPECT_FALSE(dead_code(program, context));
}

TEST(DeadCode, KeepsEffectsAndSymbolsInUse) {
  Program program =
      program_of(R"(
  input %x: i64[2] = user
  input %t: i64[] = user
  %item: int {u0} = aten.item.default(self=%t)
  %unused: int {u1} = aten.item.default(self=%t)
  %f: i64[u0] = aten.full.default(size=[{u0}], fill_value=1, dtype=i64)
  %p: boolean {u0 <= 4} = _operator.le(%item, 4)
  aten._assert_scalar.default(self=%p, assert_msg="small") named assert_1
  %g: f32[2] = mylib.effect.default(%x)
  output %f = user
)",
                 "symbol u0 [0, oo] unbacked\nsymbol u1 [0, oo] unbacked\n", {}, {"mylib.effect.default"});
  expect_changes(dead_code, program);
  EXPECT_EQ(program.graph.find_value("unused"), nullptr);
  EXPECT_NE(program.graph.find_value("item"), nullptr);
  EXPECT_NE(program.graph.find_value("g"), nullptr);
  EXPECT_EQ(program.graph.nodes.size(), 5u);
}

TEST(DeadCode, AnItemWhoseSymbolAloneIsUsedStays) {
  Program program = program_of(R"(
  input %t: i64[] = user
  %item: int {u0} = aten.item.default(self=%t)
  %f: i64[u0] = aten.full.default(size=[{u0}], fill_value=1, dtype=i64)
  output %f = user
)",
                               "symbol u0 [0, oo] unbacked\n");
  PassContext context;
  EXPECT_FALSE(dead_code(program, context));
}

// torch._check(n == 4) makes the export write 4 for n: the read is all that is left of the check.
TEST(DeadCode, AnItemWhoseValueTheExportKnewStays) {
  Program program = program_of(R"(
  input %t: i64[] = user
  input %x: i64[4] = user
  %item: int {4} = aten.item.default(self=%t)
  %f: i64[4] = aten.neg.default(self=%x)
  output %f = user
)");
  PassContext context;
  EXPECT_FALSE(dead_code(program, context));
}

TEST(CommonSubexpressions, MergesEqualCalls) {
  Program program = program_of(R"(
  input %x: f32[2] = user
  %a: f32[2] = aten.add.Tensor(self=%x, other=%x)
  %b: f32[2] = aten.add.Tensor(other=%x, self=%x, alpha=1)
  %c: f32[2] = aten.add.Tensor(self=%x, other=%x, alpha=2)
  %d: f32[2] = aten.neg.default(self=%a)
  %e: f32[2] = aten.neg.default(self=%b)
  output %d = user
  output %e = user
  output %c = user
)");
  PassContext context;
  EXPECT_TRUE(common_subexpressions(program, context));
  verify(program);
  EXPECT_EQ(body_of(program), R"(  input %x: f32[2]
  %a: f32[2] = aten.add.Tensor(self=%x, other=%x)
  %c: f32[2] = aten.add.Tensor(self=%x, other=%x, alpha=2)
  %d: f32[2] = aten.neg.default(self=%a)
  output %d
  output %d
  output %c
)");
  EXPECT_FALSE(common_subexpressions(program, context));
}

TEST(RemoveSymbolic, SizesBecomeExpressions) {
  Program program = program_of(R"(
  input %x: f32[s0, 3] = user
  %n: int {s0} = aten.sym_size.int(self=%x, dim=0)
  %m: int {s0*2} = _operator.mul(a=%n, b=2)
  %ge: boolean {0 <= s0} = _operator.ge(a=%n, b=0)
  aten._assert_scalar.default(self=%ge, assert_msg="s0 >= 0") named a1
  %le: boolean {s0 <= 100} = _operator.le(a=%n, b=100)
  aten._assert_scalar.default(self=%le, assert_msg="s0 <= 100") named a2
  aten._assert_tensor_metadata.default(a=%x, dtype=f32) named a3
  %y: f32[s0*2] = aten.full.default(size=[%m], fill_value=0.0)
  output %y = user
)",
                               "symbol s0 [2, 1024] hint 10\n");
  expect_changes(remove_symbolic, program);
  EXPECT_EQ(body_of(program), R"(  input %x: f32[s0, 3]
  %y: f32[s0*2] = aten.full.default(size=[{s0*2}], fill_value=0.0)
  output %y
)");
  ASSERT_EQ(program.guards.size(), 1u);
  EXPECT_EQ(program.guards[0].reason, "s0 <= 100");
}

TEST(RemoveSymbolic, AssertionsAboutDataStay) {
  Program program = program_of(R"(
  input %t: i64[] = user
  %item: int {u0} = aten.item.default(self=%t)
  %le: boolean {u0 <= 100} = _operator.le(a=%item, b=100)
  aten._assert_scalar.default(self=%le, assert_msg="u0 <= 100") named a1
  %y: f32[u0] = aten.full.default(size=[%item], fill_value=0.0)
  output %y = user
)",
                               "symbol u0 [0, oo] unbacked\n");
  expect_changes(remove_symbolic, program);
  EXPECT_EQ(program.graph.nodes.size(), 4u);
  EXPECT_TRUE(program.guards.empty());
}

Tensor integers(std::vector<int64_t> values) {
  Tensor out = Tensor::empty(DType::i64, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) out.set_item(static_cast<int64_t>(i), Scalar(values[i]));
  return out;
}

TEST(FoldConstants, ComputesWhatIsConstant) {
  Program program = program_of(R"(
  input %c: i64[3] = constant_tensor "c"
  input %w: i64[3] = parameter "w"
  input %x: i64[3] = user
  %m: i64[3] = aten.mul.Tensor(self=%c, other=2)
  %n: i64[3] = aten.neg.default(self=%m)
  %k: i64[3] = aten.mul.Tensor(self=%w, other=2)
  %z: i64[3] = aten.sub.Tensor(self=%n, other=%n)
  %y: i64[3] = aten.add.Tensor(self=%x, other=%n)
  %v: i64[3] = aten.add.Tensor(self=%y, other=%z)
  output %v = user
  output %k = user
)",
                               "constant \"c\": i64[3]\nconstant \"w\": i64[3]\n",
                               {{"c", integers({1, 2, 3})}, {"w", integers({1, 2, 3})}});
  PassContext context;
  EXPECT_TRUE(fold_constants(program, context));
  verify(program);
  ASSERT_TRUE(program.constants.contains("_folded_0"));
  const Tensor& folded = program.constants.at("_folded_0");
  EXPECT_EQ(folded.item(0).as_int(), -2);
  EXPECT_EQ(folded.item(2).as_int(), -6);
  dead_code(program, context);
  verify(program);
  EXPECT_EQ(signed_body_of(program), R"(  input %c: i64[3] = constant_tensor "c"
  input %w: i64[3] = parameter "w"
  input %c_folded_0: i64[3] = constant_tensor "_folded_0"
  input %x: i64[3] = user
  %k: i64[3] = aten.mul.Tensor(self=%w, other=2)
  %full: i64[3] = aten.full.default(size=[3], fill_value=0, dtype=i64)
  %y: i64[3] = aten.add.Tensor(self=%x, other=%c_folded_0)
  %v: i64[3] = aten.add.Tensor(self=%y, other=%full)
  output %v = user
  output %k = user
)");
}

// A mask that a model makes anew in every call: what counts of the tensor that zeros are to be like is known.
TEST(FoldConstants, ComputesFromFillsThatAreLikeUnknownTensors) {
  Program program = program_of(R"(
  input %x: f32[3] = user
  %a: f32[3] = aten.new_zeros.default(self=%x, size=[3])
  %b: f32[1] = aten.slice.Tensor(self=%a, dim=0, start=0, end=1)
  %c: f32[1] = aten.fill.Scalar(self=%b, value=2)
  %d: f32[3] = aten.slice_scatter.default(self=%a, src=%c, dim=0, start=0, end=1)
  %e: f32[3] = aten.mul.Tensor(self=%x, other=%d)
  %y: f32[3] = aten.add.Tensor(self=%e, other=%a)
  output %y = user
)");
  expect_changes(fold_constants, program, dead_code);
  EXPECT_EQ(program.constants.at("_folded_0").item(0).as_double(), 2);
  EXPECT_EQ(program.constants.at("_folded_0").item(1).as_double(), 0);
  EXPECT_EQ(signed_body_of(program), R"(  input %c_folded_0: f32[3] = constant_tensor "_folded_0"
  input %x: f32[3] = user
  %a: f32[3] = aten.new_zeros.default(self=%x, size=[3])
  %e: f32[3] = aten.mul.Tensor(self=%x, other=%c_folded_0)
  %y: f32[3] = aten.add.Tensor(self=%e, other=%a)
  output %y = user
)");
}

// Attention leaves out the keys that a mask of known form hides; other masks are read.
TEST(FoldConstants, KeepsACausalMaskAFormula) {
  Program program = program_of(R"(
  input %x: f32[3, 4] = user
  %i: i64[3] = aten.arange.start_step(start=0, end=3, step=1, dtype=i64)
  %j: i64[4] = aten.arange.start_step(start=0, end=4, step=1, dtype=i64)
  %r: i64[3, 1] = aten.unsqueeze.default(self=%i, dim=1)
  %s: i64[3, 1] = aten.add.Tensor(self=%r, other=1)
  %seen: bool[3, 4] = aten.le.Tensor(self=%j, other=%s)
  %hidden: bool[3, 4] = aten.gt.Tensor(self=%j, other=%r)
  %odd: bool[3, 4] = aten.eq.Tensor(self=%j, other=%r)
  %zero: f32[] = aten.full.default(size=[], fill_value=0.0, dtype=f32)
  %low: f32[] = aten.full.default(size=[], fill_value=-inf, dtype=f32)
  %added: f32[3, 4] = aten.where.self(condition=%seen, self=%zero, other=%low)
  %a: f32[3, 4] = aten.where.self(condition=%hidden, self=%low, other=%x)
  %b: f32[3, 4] = aten.where.self(condition=%odd, self=%low, other=%a)
  %y: f32[3, 4] = aten.add.Tensor(self=%b, other=%added)
  output %y = user
)");
  expect_changes(fold_constants, program, dead_code);
  EXPECT_EQ(signed_body_of(program), R"(  input %c_folded_0: bool[3, 4] = constant_tensor "_folded_0"
  input %x: f32[3, 4] = user
  %full: bool[3, 4] = aten.full.default(size=[3, 4], fill_value=true, dtype=bool)
  %triu: bool[3, 4] = aten.triu.default(self=%full, diagonal=1)
  %low: f32[] = aten.full.default(size=[], fill_value=-inf, dtype=f32)
  %full_1: bool[3, 4] = aten.full.default(size=[3, 4], fill_value=true, dtype=bool)
  %tril: bool[3, 4] = aten.tril.default(self=%full_1, diagonal=1)
  %full_2: f32[] = aten.full.default(size=[], fill_value=0.0, dtype=f32)
  %full_3: f32[] = aten.full.default(size=[], fill_value=-inf, dtype=f32)
  %where: f32[3, 4] = aten.where.self(condition=%tril, self=%full_2, other=%full_3)
  %a: f32[3, 4] = aten.where.self(condition=%triu, self=%low, other=%x)
  %b: f32[3, 4] = aten.where.self(condition=%c_folded_0, self=%low, other=%a)
  %y: f32[3, 4] = aten.add.Tensor(self=%b, other=%where)
  output %y = user
)");
}

TEST(FoldConstants, LeavesLargeThingsAndFillsAlone) {
  Program program = program_of(R"(
  input %x: f32[100000] = user
  %a: f32[100000] = aten.full.default(size=[100000], fill_value=1.0)
  %b: f32[100000] = aten.neg.default(self=%a)
  %c: f32[] = aten.full.default(size=[], fill_value=1.0)
  %y: f32[100000] = aten.add.Tensor(self=%x, other=%b)
  %z: f32[100000] = aten.add.Tensor(self=%y, other=%c)
  output %z = user
)");
  PassContext context;
  EXPECT_FALSE(fold_constants(program, context));
}

TEST(Decompose, RunsUntilNothingIsLeft) {
  Program program = program_of(R"(
  input %x: f32[s0, 3] = user
  %y: f32[s0, 3] = aten.softmax.int(self=%x, dim=1)
  output %y = user
)",
                               "symbol s0 [2, 1024] hint 10\n");
  program.graph.nodes.front()->origins = {
      Origin{"softmax", "aten.softmax.int", "head", {{"m.py", 3, "f", "softmax(x)"}}}};
  PassContext context;
  EXPECT_TRUE(decompose(program, context));
  verify(program);
  for (const auto& node : program.graph.nodes) {
    EXPECT_TRUE(node->op && !node->op->decompose) << node->target;
    ASSERT_EQ(node->origins.size(), 1u);
    EXPECT_EQ(node->origins[0].module_path, "head");
  }
  EXPECT_EQ(program.graph.outputs[0].as_value()->type, program.graph.inputs[0]->type);
  EXPECT_FALSE(decompose(program, context));
}

}  // namespace
}  // namespace kiln
