// Attention as one kernel over blocks of rows: the plain nests run by the loop interpreter, and what the scheduler
// makes of them compiled, checked, and in several threads.
#include <gtest/gtest.h>

#include <cmath>

#include "executable/loops_package_test.h"
#include "schedule/schedule.h"

namespace kiln {
namespace {

struct AttentionSizes {
  int64_t heads, groups, rows, keys, width, out;
};

// softmax(f(q k^T)) v of grouped heads, as lowering and merging leave it. `score`: the lines that make %6, the masked
// score of row i2 and column COLUMN, of %5, the product; `empty`: rows without any score have no weights.
std::string attention(const AttentionSizes& s, bool symbolic, const std::string& score, bool empty) {
  std::string text = R"(loops attention
SYMBOLSbuffer q f32[HEADS, ROWS, WIDTH] strides [ROWS*WIDTH, WIDTH, 1] input position 0
buffer k f32[GROUPS, KEYS, WIDTH] strides [KEYS*WIDTH, WIDTH, 1] input position 1
buffer v f32[GROUPS, KEYS, OUT] strides [KEYS*OUT, OUT, 1] input position 2
buffer allowed bool[ROWS, KEYS] strides [KEYS, 1] input position 3
buffer scores f32[HEADS, ROWS, KEYS] strides [ROWS*KEYS, KEYS, 1] temp
buffer e f32[HEADS, ROWS, KEYS] strides [ROWS*KEYS, KEYS, 1] temp
buffer weights f32[HEADS, ROWS, KEYS] strides [ROWS*KEYS, KEYS, 1] temp
buffer y f32[HEADS, ROWS, OUT] strides [ROWS*OUT, OUT, 1] output position 0
input q = buffer q
input k = buffer k
input v = buffer v
input allowed = buffer allowed
output buffer y
init {
}
main {
  kernel scores ops [matmul, softmax] {
    for i1 in [HEADS] parallel {
      for i2 in [ROWS] parallel {
        for i3 in [KEYS] parallel {
          %0 = for r0 in [WIDTH] reduce sum.f32 {
            %1 = load.f32 q[i1, i2, r0]
            %2 = load.f32 k[i1 // SHARED, i3, r0]
            %3 = mul.f32 %1, %2
            yield %3
          }
          store scores[i1, i2, i3] = %0
        }
        %10 = for r1 in [KEYS] reduce max.f32 {
FIRST
          yield %16
        }
        for i4 in [KEYS] parallel {
SECOND
          %27 = sub.f32 %26, %10
          %28 = exp.f32 %27
          store e[i1, i2, i4] = %28
        }
        %30 = for r2 in [KEYS] reduce sum.f32 {
          %31 = load.f32 e[i1, i2, r2]
          yield %31
        }
        for i5 in [KEYS] parallel {
          %40 = load.f32 e[i1, i2, i5]
          %41 = div.f32 %40, %30
EMPTY
        }
      }
    }
  }
  kernel output ops [matmul] {
    for i1 in [HEADS] parallel {
      for i2 in [ROWS] parallel {
        for i3 in [OUT] parallel {
          %0 = for r0 in [KEYS] reduce sum.f32 {
            %1 = load.f32 weights[i1, i2, r0]
            %2 = load.f32 v[i1 // SHARED, r0, i3]
            %3 = mul.f32 %1, %2
            yield %3
          }
          store y[i1, i2, i3] = %0
        }
      }
    }
  }
}
)";
  auto with = [&](const std::string& column, int first) {
    std::string lines = replace_all(score, "COLUMN", column);
    for (int i = 1; i <= 10; ++i)
      lines = replace_all(lines, str("%", i, "_"), str("%", i <= 6 ? first + i : 5 * first + i));
    return lines;
  };
  text = replace_all(text, "FIRST", with("r1", 10));
  text = replace_all(text, "SECOND", with("i4", 20));
  text = replace_all(text, "EMPTY",
                     empty ? R"(          %42 = constant.f32 -inf
          %43 = eq.bool %10, %42
          %44 = constant.f32 0.0
          %45 = select.f32 %43, %44, %41
          store weights[i1, i2, i5] = %45)"
                           : "          store weights[i1, i2, i5] = %41");
  text =
      replace_all(text, "SYMBOLS", symbolic ? "symbol s0 in [1, 4096] hint 40\nsymbol s1 in [1, 4096] hint 40\n" : "");
  text = replace_all(text, "HEADS", std::to_string(s.heads));
  text = replace_all(text, "GROUPS", std::to_string(s.groups));
  text = replace_all(text, "SHARED", std::to_string(s.heads / s.groups));
  text = replace_all(text, "ROWS", symbolic ? "s0" : std::to_string(s.rows));
  text = replace_all(text, "KEYS", symbolic ? "s1" : std::to_string(s.keys));
  text = replace_all(text, "WIDTH", std::to_string(s.width));
  return replace_all(text, "OUT", std::to_string(s.out));
}

const char* const plain_score = R"(          %1_ = load.f32 scores[i1, i2, COLUMN]
          %2_ = constant.f32 0.25
          %6_ = mul.f32 %1_, %2_)";
const char* const masked_score = R"(          %1_ = load.f32 scores[i1, i2, COLUMN]
          %2_ = load.bool allowed[i2, COLUMN]
          %3_ = constant.f32 -inf
          %6_ = select.f32 %2_, %1_, %3_)";
const char* const causal_score = R"(          %1_ = load.f32 scores[i1, i2, COLUMN]
          %2_ = index.i64 [COLUMN]
          %3_ = index.i64 [i2]
          %4_ = le.bool %2_, %3_
          %5_ = constant.f32 -inf
          %6_ = select.f32 %4_, %1_, %5_)";

// As a model writes it that sees three keys ahead, and has a mask beside it.
const char* const added_mask_score = R"(          %1_ = load.f32 scores[i1, i2, COLUMN]
          %2_ = index.i64 [COLUMN]
          %3_ = index.i64 [i2 + 4]
          %4_ = lt.bool %2_, %3_
          %7_ = load.bool allowed[i2, COLUMN]
          %8_ = logical_and.bool %4_, %7_
          %9_ = constant.f32 0.0
          %5_ = constant.f32 -inf
          %10_ = select.f32 %8_, %9_, %5_
          %6_ = add.f32 %1_, %10_)";

loops::LoopProgram attention_schedule(const std::string& text, const codegen::Target& target, std::string& log_text) {
  loops::LoopProgram program = loops::parse_loops(text);
  loops::verify(program);
  loops::Log log;
  loops::hoist_invariants(program, log);
  loops::find_contractions(program, log);
  loops::fuse_attention(program, target, log);
  loops::remove_dead_kernels(program, log);
  loops::verify(program);
  schedule_axes(program, target, log);
  for (const loops::Decision& decision : log.decisions()) log_text += decision.text() + "\n";
  return program;
}

// The same with queries, keys and values of bf16, and with weights of bf16 too or not.
std::string of_bf16(std::string text, bool weights = true) {
  std::vector<std::pair<const char*, std::string>> factors = {{"%1", "q"}, {"%2", "k"}, {"%2", "v"}};
  if (weights) factors.push_back({"%1", "weights"});
  for (const auto& [value, name] : factors) {
    text = replace_all(text, str("buffer ", name, " f32"), str("buffer ", name, " bf16"));
    const size_t at = text.find(str(value, " = load.f32 ", name, "[")), end = text.find('\n', at);
    const std::string line = text.substr(at, end - at), narrow = str("%20", value[1]);
    text.replace(
        at, end - at,
        str(narrow, replace_all(line.substr(2), "f32", "bf16"), "\n            ", value, " = cast.f32 ", narrow));
  }
  return text;
}

std::vector<Datum> attention_inputs(const AttentionSizes& s, DType dtype = DType::f32) {
  Tensor allowed = Tensor::empty(DType::boolean, {s.rows, s.keys});
  // Some rows have nothing at all.
  for (int64_t i = 0; i < allowed.numel(); ++i)
    allowed.set_item(i, Scalar(int64_t{(i / s.keys) % 5 != 2 && (i * 31) % 7 != 3}));
  return {{filled(dtype, {s.heads, s.rows, s.width}, 1)},
          {filled(dtype, {s.groups, s.keys, s.width}, 2)},
          {filled(dtype, {s.groups, s.keys, s.out}, 3)},
          {allowed}};
}

struct ScoreForm {
  const char* score;
  bool empty, nan;
};

void check_attention(const AttentionSizes& s, bool symbolic, const ScoreForm& form,
                     const std::vector<AttentionSizes>& called, DType dtype = DType::f32) {
  const bool narrow = dtype == DType::bf16;
  const double tolerance = narrow ? 1e-2 : 2e-6;  // weights are rounded as well
  std::string text = attention(s, symbolic, form.score, form.empty);
  if (narrow) text = of_bf16(text);
  const codegen::Target target = codegen::cpu_backend().target(codegen::cpu_backend().host_target_name());
  std::string log;
  const loops::LoopProgram program = attention_schedule(text, target, log);
  ASSERT_EQ(program.block.size(), 1u) << log;
  EXPECT_EQ(log.find("; pairs of bf16") != std::string::npos, narrow) << log;
  const std::string once = loops::print(program);
  EXPECT_EQ(loops::print(loops::parse_loops(once)), once);
  const LoopsPackage package(once);
  loops::LoopProgram plain = loops::parse_loops(text);
  for (const AttentionSizes& size : called) {
    const std::vector<Datum> inputs = attention_inputs(size, dtype);
    const std::vector<Datum> want = loops::LoopInterpreter(plain, {}, {}).run(inputs).outputs;
    const Tensor& result = want.at(0).tensor();
    bool nan = false;
    for (int64_t i = 0; i < result.numel(); ++i) nan |= std::isnan(result.item(i).as_double());
    EXPECT_EQ(nan, form.nan);
    expect_near(package.interpreted(inputs), want, tolerance);
    expect_runs(package, inputs, want, tolerance, tolerance);
  }
}

// Rows, weights and values in pairs: of even and of odd numbers of keys, all at once and in chunks, masked, of sizes
// that are not known, with columns that fill no vector.
TEST(Attention, TakesPairsOfBf16) {
  const codegen::Target target = codegen::cpu_backend().target(codegen::cpu_backend().host_target_name());
  if (!target.bf16_pairs) GTEST_SKIP() << "no instructions for pairs of bf16";
  for (const AttentionSizes& s : {AttentionSizes{2, 2, 32, 32, 16, 32},
                                  {3, 1, 37, 61, 20, 20},
                                  {1, 1, 9, 300, 40, 5},
                                  {2, 1, 70, 333, 24, 64},
                                  {1, 1, 33, 480, 16, 48}})
    check_attention(s, false, {plain_score, false, false}, {s}, DType::bf16);
  const AttentionSizes masked{2, 1, 33, 51, 24, 33};
  check_attention(masked, false, {masked_score, false, true}, {masked}, DType::bf16);
  check_attention(masked, false, {masked_score, true, false}, {masked}, DType::bf16);
  const AttentionSizes causal{2, 1, 333, 333, 24, 64};
  check_attention(causal, false, {causal_score, false, false}, {causal}, DType::bf16);
  check_attention({2, 2, 0, 0, 16, 40}, true, {causal_score, false, false},
                  {{2, 2, 1, 1, 16, 40}, {2, 2, 7, 5, 16, 40}, {2, 2, 65, 519, 16, 40}}, DType::bf16);
}

// Weights that the program rounds by a cast are rounded when they are whole, and all keys are there for that: results
// differ from the plain nests' by what sums of f32 lose.
TEST(Attention, RoundsWeightsWhereTheProgramDoes) {
  const std::string host = codegen::cpu_backend().host_target_name();
  if (host == "generic") GTEST_SKIP();
  for (const std::string& name : {host, std::string("x86-64-v3")})
    for (const AttentionSizes& s : {AttentionSizes{2, 2, 32, 49, 16, 32}, {2, 1, 70, 333, 24, 64}}) {
      const codegen::Target target = codegen::cpu_backend().target(name);
      std::string text = of_bf16(attention(s, false, plain_score, false)), log;
      text = replace_all(text, "store weights[i1, i2, i5] = %41",
                         "%46 = cast.bf16 %41\n          store weights[i1, i2, i5] = %46");
      const loops::LoopProgram program = attention_schedule(text, target, log);
      ASSERT_EQ(program.block.size(), 1u) << log;
      EXPECT_EQ(log.find("; pairs of bf16") != std::string::npos, target.bf16_pairs) << log;
      EXPECT_EQ(log.find("keys in chunks of "), std::string::npos) << log;
      const std::vector<Datum> inputs = attention_inputs(s, DType::bf16);
      const std::vector<Datum> want = loops::LoopInterpreter(loops::parse_loops(text), {}, {}).run(inputs).outputs;
      const LoopsPackage package(loops::print(program));
      expect_near(package.interpreted(inputs), want, 2e-5);
      if (name == host) expect_runs(package, inputs, want, 2e-5, 2e-5);
    }
}

// Of an odd number of terms, or where a factor is of f32, products take one term at a time.
TEST(Attention, LeavesWhatHasNoPairs) {
  const codegen::Target target = codegen::cpu_backend().target(codegen::cpu_backend().host_target_name());
  const AttentionSizes s{2, 2, 32, 32, 16, 32}, odd{2, 2, 32, 32, 15, 32};
  const std::string plain = attention(s, false, plain_score, false);
  for (const std::string& text : {of_bf16(attention(odd, false, plain_score, false)), plain}) {
    std::string log;
    attention_schedule(text, target, log);
    EXPECT_EQ(log.find("; pairs of bf16"), std::string::npos) << log;
  }
}

TEST(Attention, RunsAsThePlainNestsDo) {
  if (codegen::cpu_backend().host_target_name() == "generic") GTEST_SKIP();
  for (const AttentionSizes& s :
       {AttentionSizes{2, 2, 32, 32, 16, 32}, {3, 1, 37, 61, 20, 20}, {4, 2, 100, 17, 7, 80}, {1, 1, 9, 300, 40, 5}})
    check_attention(s, false, {plain_score, false, false}, {s});
}

// Chunks that are alike, and with a shorter last one.
TEST(Attention, TakesManyKeysInChunks) {
  if (codegen::cpu_backend().host_target_name() == "generic") GTEST_SKIP();
  for (const AttentionSizes& s : {AttentionSizes{2, 1, 70, 333, 24, 64}, {1, 1, 33, 480, 16, 48}}) {
    std::string log;
    const codegen::Target target = codegen::cpu_backend().target(codegen::cpu_backend().host_target_name());
    attention_schedule(attention(s, false, plain_score, false), target, log);
    EXPECT_NE(log.find("keys in chunks of "), std::string::npos) << log;
    check_attention(s, false, {plain_score, false, false}, {s});
  }
}

TEST(Attention, RowsWithoutScoresAreNaNOrZeroAsTheyAreWritten) {
  if (codegen::cpu_backend().host_target_name() == "generic") GTEST_SKIP();
  const AttentionSizes s{2, 1, 33, 50, 24, 33};
  check_attention(s, false, {masked_score, false, true}, {s});
  check_attention(s, false, {masked_score, true, false}, {s});
}

TEST(Attention, OfSizesThatAreNotKnown) {
  if (codegen::cpu_backend().host_target_name() == "generic") GTEST_SKIP();
  const AttentionSizes s{2, 2, 0, 0, 16, 40};
  check_attention(s, true, {causal_score, false, false},
                  {{2, 2, 1, 1, 16, 40}, {2, 2, 7, 5, 16, 40}, {2, 2, 64, 64, 16, 40}, {2, 2, 65, 519, 16, 40}});
}

// Blocks of rows do not look at keys that none of their rows sees: all keys at once, in chunks, of a number of keys
// that no tile divides, with fewer and with more keys than rows.
TEST(Attention, LeavesOutKeysThatNoRowOfABlockSees) {
  if (codegen::cpu_backend().host_target_name() == "generic") GTEST_SKIP();
  const codegen::Target target = codegen::cpu_backend().target(codegen::cpu_backend().host_target_name());
  for (const AttentionSizes& s : {AttentionSizes{8, 8, 128, 128, 16, 32},
                                  {2, 1, 333, 333, 24, 64},
                                  {2, 2, 131, 70, 16, 20},
                                  {1, 1, 70, 200, 16, 20}})
    for (const ScoreForm& form : {ScoreForm{causal_score, false, false}, {added_mask_score, true, false}}) {
      std::string log;
      attention_schedule(attention(s, false, form.score, form.empty), target, log);
      EXPECT_NE(log.find("keys that no row of a block sees are left out"), std::string::npos) << log;
      check_attention(s, false, form, {s});
    }
  // What the last key has does not reach the first rows, though 0 * NaN would.
  const AttentionSizes s{1, 1, 512, 512, 16, 16};
  std::string log;
  const LoopsPackage package(loops::print(attention_schedule(attention(s, false, causal_score, false), target, log)));
  std::vector<Datum> inputs = attention_inputs(s);
  Tensor values = inputs[2].tensor().clone();
  values.set_item(values.numel() - 1, Scalar(NAN));
  inputs[2] = {values};
  const Tensor y = package.run(inputs, {}).at(0).tensor();
  EXPECT_FALSE(std::isnan(y.item(15).as_double()));
  EXPECT_TRUE(std::isnan(y.item(y.numel() - 1).as_double()));
}

// A row that would see no key at all keeps its NaN, and masks the other way round all their keys.
TEST(Attention, LooksAtAllKeysUnderOtherMasks) {
  const codegen::Target target = codegen::cpu_backend().target("x86-64-v3");
  const AttentionSizes s{2, 2, 128, 128, 16, 32};
  const std::string causal = attention(s, false, causal_score, false);
  const auto left_out = [&](const std::string& from, const std::string& to) {
    EXPECT_NE(causal.find(from), std::string::npos);
    std::string log;
    EXPECT_EQ(attention_schedule(replace_all(causal, from, to), target, log).block.size(), 1u);
    return log.find("are left out") != std::string::npos;
  };
  EXPECT_TRUE(left_out("constant.f32 -inf", "constant.f32 -inf"));
  EXPECT_FALSE(left_out("le.bool", "lt.bool"));
  EXPECT_FALSE(left_out("le.bool", "ge.bool"));
  EXPECT_FALSE(left_out("constant.f32 -inf", "constant.f32 -1e9"));
  EXPECT_FALSE(left_out("index.i64 [i2]", "index.i64 [i2*2]"));
  EXPECT_FALSE(left_out("index.i64 [i2]", "index.i64 [127]"));
}

TEST(Attention, IsRefusedWithAReason) {
  const codegen::Target target = codegen::cpu_backend().target("x86-64-v3");
  const AttentionSizes s{2, 2, 32, 32, 16, 32};
  const std::string good = attention(s, false, plain_score, false);
  auto reason = [&](const std::string& from, const std::string& to) {
    EXPECT_NE(good.find(from), std::string::npos) << from;
    std::string log;
    attention_schedule(replace_all(good, from, to), target, log);
    const size_t at = log.find("no attention of");
    return at == std::string::npos ? log : log.substr(at, log.find('\n', at) - at);
  };
  auto expect = [&](const std::string& said, const char* part) {
    EXPECT_NE(said.find(part), std::string::npos) << said;
  };
  expect(reason("%28 = exp.f32 %27", "%28 = expm1.f32 %27"), "not a softmax");
  expect(reason("%41 = div.f32 %40, %30", "%41 = div.f32 %40, %10"), "not a softmax");
  expect(reason("constant.f32 0.25\n          %26", "constant.f32 0.5\n          %26"), "not a softmax");
  expect(reason("%40 = load.f32 e[i1, i2, i5]", "%40 = load.f32 e[i1, i2, 31 - i5]"), "not read as they are stored");
  expect(reason("%30 = for r2 in [32]", "%30 = for r2 in [31]"), "not read as they are stored");
  expect(reason("load.f32 weights[i1, i2, r0]", "load.f32 weights[i1, r0, i2]"), "of other rows");
  expect(reason("%2 = load.f32 v[i1 // 1, r0, i3]", "%2 = load.f32 v[i1 // 1, i3, r0]"), "not neighbours");
}

}  // namespace
}  // namespace kiln
