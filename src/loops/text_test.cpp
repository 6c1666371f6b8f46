// Printing, parsing and verifying.
#include <gtest/gtest.h>

#include "loops/builder.h"
#include "loops/loops.h"
#include "loops/narrow_tile_test.h"
#include "loops/sample_text.h"

namespace kiln::loops {
namespace {

std::string code_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.code();
  }
  return "";
}

TEST(LoopsText, SampleRoundTrips) {
  LoopProgram program = parse_loops(sample_text);
  EXPECT_EQ(print(program), sample_text);
  verify(program);
  LoopProgram copy = program.clone();
  EXPECT_EQ(print(copy), sample_text);
  EXPECT_EQ(program.sites[0].origin.stack.at(0).line, 12);
  EXPECT_EQ(program.buffers[0].sizes[0], Expr::symbol("s0"));
}

TEST(LoopsText, OneKernel) {
  LoopProgram program = parse_loops(sample_text);
  std::string text = print(std::get<Kernel>(program.block[1].what), program);
  EXPECT_TRUE(starts_with(text, "kernel cpp_red_argmax_1 {\n  %0, %1 = for r0 in [s0] reduce argmax.f32 {\n")) << text;
}

TEST(LoopsText, CommentsAndBlankLines) {
  LoopProgram program = parse_loops("# hello\nloops m\n\n  # more\nmain {\n}\n# end\n");
  EXPECT_EQ(print(program), "loops m\ninit {\n}\nmain {\n}\n");
}

TEST(LoopsText, OddNamesSurvive) {
  LoopProgram program;
  program.name = "a b\"c\n";
  Buffer b;
  b.name = "none";
  b.sizes = b.strides = {Expr::symbol("odd name"), min_expr(Expr::symbol("x"), 3)};
  program.symbols["odd name"] = {"odd name", {}, {}, false};
  program.symbols["x"] = {"x", {-5, INT64_MAX}, -3, true};
  program.add_buffer(b);
  EXPECT_EQ(program.buffers[static_cast<size_t>(program.add_buffer(b))].name, "none_1");
  std::string text = print(program);
  EXPECT_EQ(print(parse_loops(text)), text);
  EXPECT_EQ(parse_loops(text).name, program.name);
}

TEST(LoopsText, ErrorsNameTheLine) {
  auto message = [](const std::string& text) {
    try {
      parse_loops(text);
    } catch (const Error& e) {
      return e.code() + " " + e.message();
    }
    return std::string();
  };
  EXPECT_NE(message("loops m\nmain {\n  kernel k {\n    %0 = bogus.f32 %1\n  }\n}\n").find("K0320 line 4"),
            std::string::npos);
  EXPECT_NE(message("loops m\nmain {\n  kernel k {\n").find("K0320"), std::string::npos);
  EXPECT_NE(message("loops m\nmain {\n  bind u0 = nowhere\n}\n").find("nowhere"), std::string::npos);
  EXPECT_NE(message("loops m\nguard [1 +] because \"x\"\nmain {\n}\n").find("K0320 line 2"), std::string::npos);
  EXPECT_NE(message("").find("K0320"), std::string::npos);
}

// Every prefix and every text with one line left out must be refused or read, never crash.
TEST(LoopsText, BrokenTextsThrow) {
  std::string text = sample_text;
  auto attempt = [](const std::string& t) {
    try {
      verify(parse_loops(t));
    } catch (const Error&) {
    }
  };
  for (size_t n = 0; n < text.size(); n += 3) attempt(text.substr(0, n));
  std::vector<std::string> lines = split(text, '\n');
  for (size_t skip = 0; skip < lines.size(); ++skip) {
    std::vector<std::string> kept = lines;
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(skip));
    attempt(join(kept, "\n"));
  }
  for (size_t n = 0; n < text.size(); n += 5) {
    std::string changed = text;
    changed[n] = "{}[]%\"9 "[n % 8];
    attempt(changed);
  }
  std::string deep = "loops m\nmain {\n kernel k {\n";
  for (int i = 0; i < 5000; ++i) deep += str("for i", i, " in [1] parallel {\n");
  EXPECT_EQ(code_of([&] { parse_loops(deep); }), "K0320");
}

// ---- Verifier: each change breaks one invariant --------------------------------------------------------------------

std::string verify_error(const std::string& from, const std::string& to) {
  std::string text = replace_all(sample_text, from, to);
  EXPECT_NE(text, sample_text) << from;
  try {
    verify(parse_loops(text));
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bug) << e.what();
    return e.message();
  }
  return "";
}

TEST(LoopsVerify, FindsBrokenInvariants) {
  auto expect = [](const std::string& from, const std::string& to, const std::string& part) {
    std::string message = verify_error(from, to);
    EXPECT_NE(message.find(part), std::string::npos) << to << ": " << message;
  };
  expect("%4 = sub.f32 %3, %0", "%4 = sub.f32 %3, %9", "%9 is used where it is not defined");
  expect("%7 = sub.f32 %6, %0", "%7 = sub.f32 %5, %0", "%5 is used where it is not defined");
  expect("%4 = sub.f32 %3, %0", "%3 = sub.f32 %3, %0", "defined twice");
  expect("%3 = mul.f32 %1, %2", "%3 = mul.f32 %0, %2", "mul");
  expect("%1 = load.f32 x[i0, r0]", "%1 = load.f32 x[i0]", "2 dimensions");
  expect("%1 = load.f32 x[i0, r0]", "%1 = load.f32 x[i0, q]", "symbol q");
  expect("%1 = load.f32 x[i0, r0]", "%1 = load.f64 x[i0, r0]", "as f64");
  expect("store y[i0, i1] = %9", "store z[] = %9", "store of f32 to z");
  expect("raise_if %4 site 1", "raise_if %3 site 1", "not bool");
  expect("raise_if %4 site 1", "raise_if %4 site 7", "site 7");
  expect("for i1 in [4] parallel @lane(16, mask)", "for i0 in [4] parallel", "hides");
  expect("for i1 in [4] parallel @lane(16, mask)", "for s0 in [4] parallel", "hides");
  expect("yield %4, %5", "yield %5, %5", "yielded");
  expect("yield %4\n", "yield %4, %4\n", "yields 2");
  expect("store \"picked rows\"[i0, i1] = %2", "store table[i0, i1] = %2", "mutated");
  expect("%8 = load.i64 idx[7] mask %7", "%8 = load.i64 idx[7] mask %5", "mask");
  expect("%6 = bitcast.i32 %5", "%6 = bitcast.i64 %5", "widths");
  expect("counter i64[] strides []", "counter i64[] strides [1]", "strides");
  expect("assert [u0 <= 64]", "assert [u7 <= 64]", "u7");
  expect("%2 = lt.bool %0, %1", "%2 = lt.i64 %0, %1", "does not give");
}

TEST(LoopsBuilder, BuildsNestedReductions) {
  LoopProgram program;
  Buffer x;
  x.name = "x";
  x.dtype = DType::bf16;
  x.sizes = {Expr::symbol("s0"), 3, 4};
  x.strides = contiguous_strides(x.sizes);
  x.role = BufferRole::input;
  program.symbols["s0"] = {"s0", {1, 100}, 2, false};
  BufferId in = program.add_buffer(x);
  Buffer y;
  y.name = "y";
  y.dtype = DType::i64;
  y.sizes = {Expr::symbol("s0")};
  y.strides = {1};
  BufferId out = program.add_buffer(y);
  Kernel kernel;
  kernel.name = "k";
  KernelBuilder k(program, kernel);
  k.parallel({Expr::symbol("s0")}, [&](const std::vector<Expr>& i) {
    auto best = k.reduce(ReduceOp::argmax, DType::f32, {3, 4}, [&](const std::vector<Expr>& r) {
      return std::vector<ValueId>{k.load_compute(in, {i[0], r[0], r[1]})};
    });
    k.store(out, i, best[1]);
  });
  EXPECT_EQ(print(kernel, program), R"(kernel k {
  for i0 in [s0] parallel {
    %5, %6 = for r0 in [3] reduce argmax.f32 {
      %3, %4 = for r1 in [4] reduce argmax.f32 {
        %0 = load.bf16 x[i0, r0, r1]
        %1 = cast.f32 %0
        %2 = index.i64 [r0*4 + r1]
        yield %1, %2
      }
      yield %3, %4
    }
    store y[i0] = %6
  }
}
)");
  program.block.push_back({std::move(kernel)});
  verify(program);
}

TEST(LoopsBuilder, RefusesZeroDivisors) {
  LoopProgram program;
  Kernel kernel;
  KernelBuilder k(program, kernel);
  ValueId a = k.constant(DType::i64, 7);
  k.op(ScalarOp::div, a, k.constant(DType::i64, 2));
  EXPECT_TRUE(program.sites.empty());
  k.op(ScalarOp::mod, a, k.index_value(Expr::symbol("s0")));
  EXPECT_EQ(program.sites.size(), 1u);
  k.op(ScalarOp::div, k.constant(DType::f32, 1.0), k.constant(DType::f32, 0.0));
  EXPECT_EQ(program.sites.size(), 1u);
  EXPECT_THROW(k.op(ScalarOp::add, a, k.constant(DType::f32, 1.0)), Error);
  EXPECT_THROW(k.op(ScalarOp::exp, a), Error);
}

// In generated code a variable i64 would hide the type.
TEST(LoopsBuilder, NoVariableIsNamedLikeAType) {
  LoopProgram program;
  Kernel kernel;
  KernelBuilder k(program, kernel);
  std::set<std::string> names;
  for (int i = 0; i < 70; ++i)
    k.parallel({Expr(2)}, [&](const std::vector<Expr>& index) { names.insert(index[0].name()); });
  EXPECT_EQ(names.size(), 70u);
  EXPECT_TRUE(names.contains("i65"));
  for (const char* type : {"i8", "i16", "i32", "i64"}) EXPECT_FALSE(names.contains(type)) << type;
}

TEST(LoopsBuilder, WidensNarrowFloats) {
  LoopProgram program;
  Kernel kernel;
  KernelBuilder k(program, kernel);
  ValueId a = k.constant(DType::bf16, 1.0);
  EXPECT_EQ(k.type(k.op(ScalarOp::add, a, a)), DType::f32);
  EXPECT_EQ(k.type(k.op(ScalarOp::lt, a, a)), DType::boolean);
  EXPECT_EQ(k.type(k.select(k.op(ScalarOp::lt, a, a), a, a)), DType::bf16);
}

// What the rows of a tile do beside their sums, and rows that run side by side, read back as they are written.
TEST(LoopsText, TilesAndRowsSideBySide) {
  const std::string text = R"(loops m
buffer a f32[4, 32] strides [32, 1] input position 0
buffer b f32[32, 32] strides [32, 1] input position 1
buffer y f32[4, 32] strides [32, 1] output position 0
buffer z f32[4, 32] strides [32, 1] output position 1
input a = buffer a
input b = buffer b
output buffer y
output buffer z
init {
}
main {
  kernel cpp_mm_0 ops [mm] {
    contraction batch [] rows [i0] columns [i1] sums [r0] left %1 of [%1] right %2 of [%2] shared []
    schedule items [4] grain 1 lanes 16 turns tile 2 rows 1 vectors beside ahead 5
    for i0 in [4] parallel @item(2, mask) {
      for i1 in [32] parallel @lane(16, mask) {
        %0 = for r0 in [32] reduce sum.f32 fused {
          %1 = load.f32 a[i0, r0]
          %2 = load.f32 b[r0, i1]
          %3 = mul.f32 %1, %2
          yield %3
        }
        store y[i0, i1] = %0
      }
    }
  }
  kernel cpp_fused_mm_1 ops [mm] {
    schedule items [1] grain 1 lanes 16
    for i0 in [4] parallel @unroll(3, mask) {
      for i1 in [32] parallel @lane(32, exact) {
        %0 = for r0 in [32] reduce sum.f32 fused {
          %1 = load.f32 a[i0, r0]
          %2 = load.f32 b[r0, i1]
          %3 = mul.f32 %1, %2
          yield %3
        }
        store z[i0, i1] = %0
      }
    }
  }
}
)";
  const LoopProgram program = parse_loops(text);
  verify(program);
  EXPECT_EQ(print(program), text);
  auto refused = [&](const std::string& from, const std::string& to) -> std::string {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    try {
      verify(parse_loops(changed));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refused("@lane(32, exact)", "@lane(24, exact)").find("24 lanes"), std::string::npos);
  EXPECT_NE(refused("@lane(32, exact)", "@serial").find("unrolled around no lanes"), std::string::npos);
  EXPECT_NE(refused("reduce sum.f32 fused {\n          %1 = load.f32 a[i0, r0]\n          %2 = load.f32 b[r0, i1]\n"
                    "          %3 = mul.f32 %1, %2\n          yield %3\n        }\n        store z",
                    "reduce sum.f32 fused {\n          %1 = load.f32 a[i0, r0]\n          %2 = load.f32 b[r0, i1]\n"
                    "          %3 = mul.f32 %1, %2\n          yield %3\n        }\n        store.add z")
                .find("an accumulating store"),
            std::string::npos);
}

// What the verifier says of the text with this replaced.
std::string refusal(const std::string& text, const std::string& from, const std::string& to) {
  try {
    verify(parse_loops(replace_all(text, from, to)));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_refusals(const std::string& text, const std::vector<std::array<const char*, 3>>& all) {
  EXPECT_EQ(print(parse_loops(text)), text);
  EXPECT_EQ(refusal(text, "", ""), "");
  for (const auto& [from, to, why] : all)
    EXPECT_NE(refusal(text, from, to).find(why), std::string::npos) << from << " " << refusal(text, from, to);
}

TEST(LoopsText, TilesOfBrainFloats) {
  const std::string text = text_of(brain_float_tile);
  EXPECT_EQ(refusal(text, "matrix rows_in a_rows", "pairs"), "");
  expect_refusals(text, {{"tile 32 rows", "tile 24 rows", "a tile that is no matrix instruction's"},
                         {"lanes 16 tile", "lanes 8 tile", "not in 16 lanes"},
                         {"rows_in a_rows", "rows_in y", "not copied to scratch"},
                         {"matrix rows_in", "pairs rows_in", "rows of one line under no window"},
                         {"fused pairs", "pairs", "is of pairs but not fused"},
                         {"2 vectors matrix rows_in a_rows", "2 vectors ahead 3 pairs", "half a pair ahead"}});
}

TEST(LoopsText, TilesOfWidenedRows) {
  const std::string text = text_of({"f16", "f16", "a_wide f32[8, 32]",
                                    "items [5] grain 1 lanes 16 tile 8 rows 2 vectors widened_in a_wide", 8, "fused"});
  expect_refusals(
      text, {{"widened_in a_wide", "widened_in y", "not widened to scratch"},
             {"tile 8 rows", "tile 4 rows", "does not hold the rows of a tile"},
             {"a_wide f32[8, 32] strides [32", "a_wide f32[8, 24] strides [24", "does not hold the rows of a tile"},
             {"a f16[40, 32] strides [32, 1]", "a f16[40, 32] strides [1, 40]", "widened where they are not narrow"}});
}

}  // namespace
}  // namespace kiln::loops
