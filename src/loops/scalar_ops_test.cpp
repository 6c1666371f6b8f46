// Values computed by PyTorch 2.x on x86 where it defines them.
#include "loops/scalar_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "loops/random.h"

namespace kiln::loops {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double nan = std::numeric_limits<double>::quiet_NaN();

double eval(ScalarOp op, DType dtype, std::vector<double> args) {
  Cell cells[3], out;
  for (size_t i = 0; i < args.size(); ++i) cells[i] = cell_of(dtype, Scalar(args[i]));
  EXPECT_TRUE(evaluate_scalar(op, dtype, dtype, cells, out));
  return out.f;
}
int64_t eval_int(ScalarOp op, DType dtype, std::vector<int64_t> args) {
  Cell cells[3], out;
  for (size_t i = 0; i < args.size(); ++i) cells[i].i = args[i];
  EXPECT_TRUE(evaluate_scalar(op, dtype, dtype, cells, out));
  return out.i;
}
int64_t to_int(DType to, double v) {
  Cell in, out;
  in.f = v;
  evaluate_scalar(ScalarOp::cast, to, DType::f32, &in, out);
  return out.i;
}

TEST(ScalarOps, TableIsComplete) {
  for (int i = 0; i < scalar_op_count; ++i) {
    auto op = static_cast<ScalarOp>(i);
    const ScalarOpInfo& info = scalar_op_info(op);
    EXPECT_EQ(info.op, op);
    EXPECT_EQ(scalar_op_from_name(info.name), op);
    if (op == ScalarOp::bitcast) continue;
    bool logical = info.rule == TypeRule::boolean, bits = op >= ScalarOp::bit_and && op <= ScalarOp::shr;
    DType dtype = logical ? DType::boolean : bits ? DType::i32 : DType::f32;
    EXPECT_NE(scalar_function(op, dtype, dtype), nullptr) << info.name;
    EXPECT_EQ(info.floats_only && scalar_function(op, DType::i32, DType::i32), false) << info.name;
  }
  EXPECT_FALSE(scalar_op_from_name("nothing"));
}

TEST(ScalarOps, FloatDivision) {
  struct Row {
    double a, b, floordiv, mod, fmod;
  };
  for (const Row& r :
       {Row{5.5, 2, 2, 1.5, 1.5}, {-5.5, 2, -3, 0.5, -1.5}, {5.5, -2, -3, -0.5, 1.5}, {-5.5, -2, 2, -1.5, -1.5}}) {
    EXPECT_EQ(eval(ScalarOp::floordiv, DType::f32, {r.a, r.b}), r.floordiv);
    EXPECT_EQ(eval(ScalarOp::mod, DType::f32, {r.a, r.b}), r.mod);
    EXPECT_EQ(eval(ScalarOp::fmod, DType::f32, {r.a, r.b}), r.fmod);
  }
  EXPECT_EQ(eval(ScalarOp::floordiv, DType::f32, {3, 0}), inf);
  EXPECT_TRUE(std::isnan(eval(ScalarOp::floordiv, DType::f32, {inf, 2})));
  EXPECT_TRUE(std::isnan(eval(ScalarOp::mod, DType::f32, {3, 0})));
  EXPECT_TRUE(std::signbit(eval(ScalarOp::floordiv, DType::f32, {-0.0, 3})));
}

TEST(ScalarOps, IntegerDivision) {
  int64_t a[] = {7, -7, 7, -7}, b[] = {2, 2, -2, -2};
  int64_t floor[] = {3, -4, -4, 3}, mod[] = {1, 1, -1, -1}, fmod[] = {1, -1, 1, -1}, trunc[] = {3, -3, -3, 3};
  for (int i = 0; i < 4; ++i)
    for (DType d : {DType::i8, DType::i16, DType::i32, DType::i64}) {
      EXPECT_EQ(eval_int(ScalarOp::floordiv, d, {a[i], b[i]}), floor[i]);
      EXPECT_EQ(eval_int(ScalarOp::mod, d, {a[i], b[i]}), mod[i]);
      EXPECT_EQ(eval_int(ScalarOp::fmod, d, {a[i], b[i]}), fmod[i]);
      EXPECT_EQ(eval_int(ScalarOp::div, d, {a[i], b[i]}), trunc[i]);
    }
  EXPECT_EQ(eval_int(ScalarOp::div, DType::i64, {INT64_MIN, -1}), INT64_MIN);
  EXPECT_EQ(eval_int(ScalarOp::div, DType::u64, {-1, 2}), INT64_MAX);
  Cell zero[2], out;
  zero[0].i = 5, zero[1].i = 0;
  EXPECT_FALSE(evaluate_scalar(ScalarOp::mod, DType::i32, DType::i32, zero, out));
  EXPECT_EQ(out.i, 0);
}

TEST(ScalarOps, IntegersWrapAndShift) {
  EXPECT_EQ(eval_int(ScalarOp::add, DType::i8, {127, 1}), -128);
  EXPECT_EQ(eval_int(ScalarOp::sub, DType::u8, {0, 1}), 255);
  EXPECT_EQ(eval_int(ScalarOp::mul, DType::i64, {INT64_MAX, 2}), -2);
  EXPECT_EQ(eval_int(ScalarOp::abs, DType::i32, {INT32_MIN}), INT32_MIN);
  EXPECT_EQ(eval_int(ScalarOp::neg, DType::u16, {1}), 65535);
  EXPECT_EQ(eval_int(ScalarOp::pow, DType::i64, {3, 41}), -420491770248316829);
  EXPECT_EQ(eval_int(ScalarOp::pow, DType::i64, {-2, 3}), -8);
  EXPECT_EQ(eval_int(ScalarOp::pow, DType::i64, {5, -1}), 0);
  EXPECT_EQ(eval_int(ScalarOp::pow, DType::i64, {-1, -3}), -1);
  int64_t a[] = {1, 1, 1, -1}, s[] = {3, 8, -1, 2}, l[] = {8, 0, 0, -4};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(eval_int(ScalarOp::shl, DType::i8, {a[i], s[i]}), l[i]);
  EXPECT_EQ(eval_int(ScalarOp::shr, DType::i8, {-64, 3}), -8);
  EXPECT_EQ(eval_int(ScalarOp::shr, DType::i8, {-64, 8}), -1);
  EXPECT_EQ(eval_int(ScalarOp::shr, DType::i8, {-64, -1}), -1);
  EXPECT_EQ(eval_int(ScalarOp::shr, DType::u8, {200, 9}), 0);
  EXPECT_EQ(eval_int(ScalarOp::max, DType::u64, {-1, 1}), -1);
  EXPECT_EQ(eval_int(ScalarOp::bit_not, DType::u8, {0}), 255);
  EXPECT_EQ(eval_int(ScalarOp::bit_not, DType::boolean, {0}), 1);
  EXPECT_EQ(eval_int(ScalarOp::add, DType::boolean, {1, 1}), 1);
}

TEST(ScalarOps, FloatToIntegerFollowsX86) {
  struct Row {
    double v;
    int64_t i8, u8, i16, i32, i64;
  };
  const int64_t m32 = INT32_MIN, m64 = INT64_MIN;
  for (const Row& r : {Row{1.9, 1, 1, 1, 1, 1},
                       {-1.9, -1, 255, -1, -1, -1},
                       {3e9, 0, 0, 0, m32, 3000000000},
                       {-3e9, 0, 0, 0, m32, -3000000000},
                       {300, 44, 44, 300, 300, 300},
                       {nan, 0, 0, 0, m32, m64},
                       {inf, 0, 0, 0, m32, m64},
                       {1e19, 0, 0, 0, m32, m64}}) {
    EXPECT_EQ(to_int(DType::i8, r.v), r.i8) << r.v;
    EXPECT_EQ(to_int(DType::u8, r.v), r.u8) << r.v;
    EXPECT_EQ(to_int(DType::i16, r.v), r.i16) << r.v;
    EXPECT_EQ(to_int(DType::i32, r.v), r.i32) << r.v;
    EXPECT_EQ(to_int(DType::i64, r.v), r.i64) << r.v;
    EXPECT_EQ(to_int(DType::boolean, r.v), 1) << r.v;
  }
  EXPECT_EQ(to_int(DType::u32, 3e9), 3000000000);
  EXPECT_EQ(static_cast<uint64_t>(to_int(DType::u64, 1e19)), 10000000000000000000ull);
}

TEST(ScalarOps, CastsRoundToEven) {
  auto cast = [](DType to, DType from, Cell in) {
    Cell out;
    evaluate_scalar(ScalarOp::cast, to, from, &in, out);
    return out.f;
  };
  auto f = [](double v) { return Cell{.f = v}; };
  auto i = [](int64_t v) { return Cell{.i = v}; };
  EXPECT_EQ(cast(DType::f16, DType::f32, f(65520)), inf);
  EXPECT_EQ(cast(DType::f16, DType::f32, f(65519)), 65504);
  EXPECT_EQ(cast(DType::f16, DType::f32, f(0.1f)), 0.0999755859375);
  EXPECT_EQ(cast(DType::bf16, DType::f32, f(0.1f)), 0.10009765625);
  EXPECT_EQ(cast(DType::bf16, DType::f32, f(1.00390625)), 1.0);
  EXPECT_EQ(cast(DType::bf16, DType::f32, f(1.01171875)), 1.015625);
  EXPECT_EQ(cast(DType::f32, DType::i64, i(16777217)), 16777216);
  EXPECT_EQ(cast(DType::f32, DType::i64, i(9007199791611905)), 9007200328482816.0);  // not rounded twice
  EXPECT_EQ(cast(DType::f64, DType::u64, i(-1)), 18446744073709551615.0);
}

TEST(ScalarOps, NanAndMinMax) {
  for (ScalarOp op : {ScalarOp::min, ScalarOp::max}) {
    EXPECT_TRUE(std::isnan(eval(op, DType::f32, {1, nan})));
    EXPECT_TRUE(std::isnan(eval(op, DType::f64, {nan, 1})));
  }
  Cell args[2], out;
  args[0].f = nan, args[1].f = nan;
  for (ScalarOp op : {ScalarOp::eq, ScalarOp::lt, ScalarOp::le, ScalarOp::gt, ScalarOp::ge}) {
    evaluate_scalar(op, DType::boolean, DType::f32, args, out);
    EXPECT_EQ(out.i, 0);
  }
  evaluate_scalar(ScalarOp::ne, DType::boolean, DType::f32, args, out);
  EXPECT_EQ(out.i, 1);
}

TEST(ScalarOps, SpecialFunctions) {
  auto near = [](double got, double want) { EXPECT_NEAR(got, want, std::fabs(want) * 1e-14); };
  near(eval(ScalarOp::erfinv, DType::f64, {0.5}), 0.4769362762044699);
  near(eval(ScalarOp::erfinv, DType::f64, {0.999}), 2.3267537655135246);
  EXPECT_EQ(eval(ScalarOp::erfinv, DType::f64, {1}), inf);
  near(eval(ScalarOp::digamma, DType::f64, {0.5}), -1.9635100260214229);
  near(eval(ScalarOp::digamma, DType::f64, {10}), 2.251752589066721);
  near(eval(ScalarOp::digamma, DType::f64, {20.3}), 2.9857881719937196);
  EXPECT_NEAR(eval(ScalarOp::digamma, DType::f64, {-0.5}), 0.03648997397857639, 1e-14);
  EXPECT_TRUE(std::isnan(eval(ScalarOp::digamma, DType::f64, {-3})));
  EXPECT_EQ(eval(ScalarOp::digamma, DType::f64, {0}), -inf);
  near(eval(ScalarOp::lgamma, DType::f64, {-0.5}), 1.2655121234846454);
  EXPECT_EQ(eval(ScalarOp::round, DType::f32, {2.5}), 2);
  EXPECT_EQ(eval(ScalarOp::round, DType::f32, {1.5}), 2);
  EXPECT_EQ(eval(ScalarOp::sigmoid, DType::f32, {-200}), 0);
  EXPECT_EQ(eval(ScalarOp::exp_or_zero, DType::f32, {-88}), 0);
  EXPECT_EQ(eval(ScalarOp::exp_or_zero, DType::f32, {-1}), double{0.36787944117f});
  EXPECT_TRUE(std::isnan(eval(ScalarOp::exp_or_zero, DType::f32, {NAN})));
  EXPECT_EQ(eval(ScalarOp::exp, DType::f32, {1}), double{2.718281828f});
  EXPECT_EQ(eval(ScalarOp::add, DType::f32, {1, 1e-9}), 1);
  EXPECT_NE(eval(ScalarOp::add, DType::f64, {1, 1e-9}), 1);
}

TEST(ScalarOps, MemoryRoundTrips) {
  for (int d = 0; d < dtype_count; ++d) {
    auto dtype = static_cast<DType>(d);
    if (is_complex(dtype)) continue;
    std::byte memory[8] = {};
    write_cell(dtype, memory, cell_of(dtype, Scalar(1)));
    EXPECT_EQ(scalar_of(dtype, read_cell(dtype, memory)).as_double(), 1.0) << dtype_name(dtype);
  }
}

TEST(ScalarOps, RandomNumbersAreUniform) {
  double sum = 0;
  for (uint64_t i = 0; i < 10000; ++i) {
    double v = random_cell(DType::f32, 7, i).f;
    ASSERT_GE(v, 0);
    ASSERT_LT(v, 1);
    sum += v;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.01);
  EXPECT_NE(random_bits(1, 0), random_bits(2, 0));
  EXPECT_EQ(random_bits(0, 0), 16294208416658607535ull);  // SplitMix64's first number for seed 0
}

}  // namespace
}  // namespace kiln::loops
