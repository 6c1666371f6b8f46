// The small parts: expressions, placement, copies, elements, quotas.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/file.h"
#include "kiln/custom_op.h"
#include "runtime/element.h"
#include "runtime/expression.h"
#include "runtime/placement.h"
#include "runtime/processors.h"
#include "runtime/step_text.h"
#include "runtime/strided_copy.h"
#include "runtime/tensor_statistics.h"

namespace kiln::runtime {
namespace {

using Code = format::ExprCode;

ExprResult compute(std::vector<format::ExprInstruction> code, int64_t& out) {
  int64_t symbols[] = {7, -7};
  return evaluate({std::move(code), false, ""}, symbols, out);
}
int64_t value(std::vector<format::ExprInstruction> code) {
  int64_t out = 0;
  EXPECT_EQ(compute(std::move(code), out), ExprResult::ok);
  return out;
}

TEST(Expression, FollowsPythonsDivision) {
  for (int64_t a : {7, -7, 6, 0})
    for (int64_t b : {2, -2, 3, -3}) {
      int64_t quotient = value({{Code::constant, a}, {Code::constant, b}, {Code::floordiv, 0}});
      EXPECT_EQ(quotient, static_cast<int64_t>(std::floor(static_cast<double>(a) / static_cast<double>(b))));
      EXPECT_EQ(value({{Code::constant, a}, {Code::constant, b}, {Code::mod, 0}}), a - quotient * b);
    }
}

TEST(Expression, ComputesOnSymbolsAndFloats) {
  EXPECT_EQ(value({{Code::symbol, 0}, {Code::constant, 3}, {Code::mul, 0}, {Code::symbol, 1}, {Code::sub, 0}}), 28);
  EXPECT_EQ(value({{Code::symbol, 0}, {Code::constant, 2}, {Code::pow, 0}}), 49);
  EXPECT_EQ(value({{Code::constant, 0}, {Code::constant, 4}, {Code::constant, 5}, {Code::ite, 0}}), 5);
  EXPECT_EQ(value({{Code::symbol, 0},
                   {Code::to_float, 0},
                   {Code::constant, 2},
                   {Code::to_float, 0},
                   {Code::truediv, 0},
                   {Code::ceil_to_int, 0}}),
            4);
  int64_t root = value({{Code::constant, 9}, {Code::to_float, 0}, {Code::sqrt, 0}});
  EXPECT_EQ(std::bit_cast<double>(root), 3.0);
}

TEST(Expression, ReportsWhatHasNoValue) {
  int64_t out = 0;
  EXPECT_EQ(compute({{Code::constant, INT64_MAX}, {Code::constant, 1}, {Code::add, 0}}, out), ExprResult::overflow);
  EXPECT_EQ(compute({{Code::constant, INT64_MIN}, {Code::neg, 0}}, out), ExprResult::overflow);
  EXPECT_EQ(compute({{Code::constant, INT64_MIN}, {Code::constant, -1}, {Code::floordiv, 0}}, out),
            ExprResult::overflow);
  EXPECT_EQ(compute({{Code::constant, 1}, {Code::constant, 0}, {Code::mod, 0}}, out), ExprResult::division_by_zero);
  EXPECT_EQ(compute({{Code::constant, 10}, {Code::constant, 40}, {Code::pow, 0}}, out), ExprResult::overflow);
}

TEST(Placement, NeverOverlapsWhatLivesTogether) {
  std::vector<PlacedBuffer> buffers;
  uint64_t state = 1;
  auto random = [&](uint64_t below) {
    return state = state * 6364136223846793005u + 1442695040888963407u, (state >> 33) % below;
  };
  for (int i = 0; i < 200; ++i) {
    PlacedBuffer b;
    b.bytes = static_cast<int64_t>(random(5000));
    b.first = static_cast<int32_t>(random(50));
    b.last = b.first + static_cast<int32_t>(random(10));
    buffers.push_back(b);
  }
  int64_t total = place(buffers), sum = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const PlacedBuffer& a = buffers[i];
    sum += a.bytes;
    EXPECT_EQ(a.offset % 64, 0);
    EXPECT_LE(a.offset + a.bytes, total);
    for (size_t j = 0; j < i; ++j) {
      const PlacedBuffer& b = buffers[j];
      bool together = a.first <= b.last && b.first <= a.last;
      EXPECT_FALSE(together && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes);
    }
  }
  EXPECT_LT(total, sum / 3);
}

TEST(StridedCopy, MovesEveryElement) {
  int64_t sizes[] = {3, 4, 5}, row_major[] = {20, 5, 1}, turned[] = {1, 3, 12};
  std::vector<int16_t> from(60), to(60), back(60);
  for (int16_t i = 0; i < 60; ++i) from[static_cast<size_t>(i)] = i;
  strided_copy(to.data(), turned, from.data(), row_major, sizes, 2);
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 4; ++j)
      for (int64_t k = 0; k < 5; ++k) EXPECT_EQ(to[static_cast<size_t>(i + 3 * j + 12 * k)], i * 20 + j * 5 + k);
  strided_copy(back.data(), row_major, to.data(), turned, sizes, 2);
  EXPECT_EQ(back, from);
}

TEST(StridedCopy, KnowsLayouts) {
  int64_t sizes[] = {2, 1, 3}, a[] = {3, 99, 1}, b[] = {3, 3, 1}, expanded[] = {0, 0, 1}, empty[] = {0, 5, 5};
  EXPECT_TRUE(same_layout(sizes, a, b));
  EXPECT_TRUE(is_row_major(sizes, a));
  EXPECT_FALSE(is_row_major(sizes, expanded));
  EXPECT_TRUE(same_layout(empty, a, expanded));
}

TEST(Element, ReadsNarrowFloats) {
  EXPECT_EQ(half_value(0x3c00), 1.0f);
  EXPECT_EQ(half_value(0xfbff), -65504.0f);
  EXPECT_EQ(half_value(0x0001), std::ldexp(1.0f, -24));
  EXPECT_TRUE(std::isinf(half_value(0x7c00)));
  EXPECT_EQ(bfloat_value(0xc040), -3.0f);
  EXPECT_EQ(float8_value(DType::f8e4m3fn, 0x7e), 448.0f);
  EXPECT_TRUE(std::isnan(float8_value(DType::f8e4m3fn, 0x7f)));
  EXPECT_EQ(float8_value(DType::f8e5m2, 0x7b), 57344.0f);
  EXPECT_EQ(float8_value(DType::f8e4m3fnuz, 0x7f), 240.0f);
  EXPECT_TRUE(std::isnan(float8_value(DType::f8e5m2fnuz, 0x80)));
}

TEST(Element, MapsDtypesBothWays) {
  for (int i = 0; i < dtype_count; ++i) {
    auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_of(dl_dtype(dtype)), dtype);
    EXPECT_EQ(dl_dtype(dtype).bits, dtype_bytes(dtype) * 8);
  }
  EXPECT_FALSE(dtype_of({kDLFloat, 32, 4}));
}

TEST(Statistics, CountAndIgnoreWhatIsNotFinite) {
  float values[] = {1, NAN, 0, INFINITY, 3, 0};
  int64_t sizes[] = {6}, strides[] = {1};
  DLTensor tensor{values, {kDLCPU, 0}, 1, dl_dtype(DType::f32), sizes, strides, 0};
  TensorStatistics s = tensor_statistics(tensor, 3);
  EXPECT_EQ(s.nan, 1);
  EXPECT_EQ(s.infinite, 1);
  EXPECT_EQ(s.zero, 2);
  EXPECT_EQ(s.minimum, 0);
  EXPECT_EQ(s.maximum, INFINITY);
  EXPECT_EQ(s.mean, 1);
  EXPECT_NEAR(s.deviation, std::sqrt(2.0), 1e-12);
  EXPECT_EQ(s.first.size(), 3u);
}

// Doubles have 53 bits: of integers every digit is kept beside them.
TEST(Statistics, IntegersHaveAllTheirDigits) {
  int64_t values[] = {INT64_MAX, INT64_MIN, 9007199254740993};
  int64_t sizes[] = {3}, strides[] = {1};
  TensorStatistics s = tensor_statistics({values, {kDLCPU, 0}, 1, dl_dtype(DType::i64), sizes, strides, 0}, 2);
  EXPECT_EQ(s.minimum_text(), "-9223372036854775808");
  EXPECT_EQ(s.maximum_text(), "9223372036854775807");
  EXPECT_EQ(s.first_texts(), (std::vector<std::string>{"9223372036854775807", "-9223372036854775808"}));
  EXPECT_EQ(json_text(number_json(s.maximum, s.exact_maximum)), "9223372036854775807");
  uint64_t large[] = {UINT64_MAX, 7, 8};
  s = tensor_statistics({large, {kDLCPU, 0}, 1, dl_dtype(DType::u64), sizes, strides, 0}, 1);
  EXPECT_EQ(s.maximum_text(), "18446744073709551615");
  EXPECT_EQ(s.minimum_text(), "7");
  int8_t small[] = {-128, 5, 127};
  s = tensor_statistics({small, {kDLCPU, 0}, 1, dl_dtype(DType::i8), sizes, strides, 0}, 3);
  EXPECT_EQ(s.first_texts(), (std::vector<std::string>{"-128", "5", "127"}));
}

TEST(StepText, TheOperatorThatAValueIsNamedAfterComesFirst) {
  const kiln_origin origins[] = {{"linear", "aten.linear.default", "", "a.py:1"},
                                 {"div_", "aten.div_.Tensor", "", "a.py:2"}};
  kiln_step step{};
  step.origins = origins, step.origin_count = 2;
  const ValueOrigins unknown({});
  const auto text = [&](const char* value) { return origins_text(step, unknown.of(step, value)); };
  EXPECT_EQ(text("div").find("\n  --> a.py:2"), 0u);
  EXPECT_EQ(text("linear_3").find("\n  --> a.py:1"), 0u);
  EXPECT_EQ(text("exp").find("\n  --> a.py:1"), 0u);
  EXPECT_EQ(unknown.of(step, "exp"), nullptr);
}

TEST(StepText, WhatTheCompilerNotedOfAValueGoesBeforeNames) {
  const kiln_origin origins[] = {{"add_1", "aten.add.Tensor", "l.0", "a.py:1"},
                                 {"add_2", "aten.add.Tensor", "l.1", "a.py:2"},
                                 {"sdpa", "aten.scaled_dot_product_attention.default", "l.0", "a.py:1"}};
  kiln_step step{};
  step.number = 7, step.origins = origins, step.origin_count = 3;
  format::Origins noted;
  noted.steps.resize(1);
  noted.steps[0].number = 7, noted.steps[0].values = {"matmul", "add_1"}, noted.steps[0].value_origins = {2, 1};
  const ValueOrigins values(noted);
  EXPECT_EQ(values.of(step, "matmul"), &origins[2]);
  EXPECT_EQ(values.of(step, "add_1"), &origins[1]);
  EXPECT_EQ(values.of(step, "add_2"), &origins[1]) << "a node of this name";
  EXPECT_EQ(values.of(step, "add_5"), nullptr) << "two operators have such a name: neither is guessed";
  EXPECT_EQ(values.of(step, "exp"), nullptr);
  EXPECT_EQ(origins_text(step, values.of(step, "matmul")),
            "\n  --> a.py:1\n  module l.0 · operator aten.scaled_dot_product_attention.default · node sdpa"
            "\n  module l.0 · operator aten.add.Tensor · node add_1"
            "\n  --> a.py:2\n  module l.1 · operator aten.add.Tensor · node add_2");
}

// Blocks are looked at in lanes: the same numbers as one value after the other, whatever the strides, and bad values
// are found wherever they stand.
TEST(Statistics, BlocksGiveWhatSingleValuesGive) {
  std::vector<double> values(3 * 700);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>((i * 7919) % 1009) - 400;
  int64_t sizes[] = {700, 3}, strides[] = {1, 700};
  const DLTensor columns{values.data(), {kDLCPU, 0}, 2, dl_dtype(DType::f64), sizes, strides, 0};
  std::vector<double> rows;
  for (size_t i = 0; i < 700; ++i)
    for (size_t j = 0; j < 3; ++j) rows.push_back(values[i + 700 * j]);
  int64_t dense_strides[] = {3, 1};
  const DLTensor dense{rows.data(), {kDLCPU, 0}, 2, dl_dtype(DType::f64), sizes, dense_strides, 0};
  double sum = 0, squares = 0;
  int64_t zeros = 0;
  for (double v : rows) sum += v, zeros += v == 0;
  for (double v : rows) squares += (v - sum / 2100) * (v - sum / 2100);
  for (const DLTensor& tensor : {columns, dense}) {
    const TensorStatistics s = tensor_statistics(tensor, 2);
    EXPECT_EQ(s.minimum, *std::min_element(rows.begin(), rows.end()));
    EXPECT_EQ(s.maximum, *std::max_element(rows.begin(), rows.end()));
    EXPECT_NEAR(s.mean, sum / 2100, 1e-9);
    EXPECT_NEAR(s.deviation, std::sqrt(squares / 2099), 1e-9);
    EXPECT_EQ(s.zero, zeros);
    EXPECT_EQ(s.first, (std::vector<double>{rows[0], rows[1]}));
  }
  EXPECT_EQ(tensor_checksum(columns), tensor_checksum(dense));
  EXPECT_FALSE(first_bad_element(dense));
  for (size_t at : {0u, 511u, 512u, 1023u, 2050u, 2099u}) {
    const double kept = std::exchange(rows[at], at % 2 ? NAN : -INFINITY);
    const auto bad = first_bad_element(dense);
    ASSERT_TRUE(bad) << at;
    EXPECT_EQ(bad->index, (std::vector<int64_t>{static_cast<int64_t>(at / 3), static_cast<int64_t>(at % 3)}));
    EXPECT_EQ(tensor_statistics(dense, 0).nan + tensor_statistics(dense, 0).infinite, 1);
    EXPECT_NE(tensor_checksum(columns), tensor_checksum(dense));
    rows[at] = kept;
  }
}

TEST(Processors, TakeTheTightestQuota) {
  TemporaryDirectory root;
  make_directories(root.path() + "/a/b");
  write_file_atomic(root.path() + "/a/cpu.max", "150000 100000\n");
  write_file_atomic(root.path() + "/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_quota(root.path(), "0::/a/b\n"), 1.5);
  EXPECT_EQ(cgroup_quota(root.path(), "0::/\n"), 0);
  make_directories(root.path() + "/cpu/c");
  write_file_atomic(root.path() + "/cpu/c/cpu.cfs_quota_us", "50000\n");
  write_file_atomic(root.path() + "/cpu/c/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_quota(root.path(), "4:cpu,cpuacct:/c\n"), 0.5);
}

TEST(CustomOpTable, OldLibrariesAreStillRead) {
  auto run = [](kiln_op_call*) { return int32_t{0}; };
  const kiln_custom_op_v1 old_ops[] = {{"mylib::a", run}, {"mylib::b", run}};
  kiln_custom_op_table old{1, 2, nullptr};
  EXPECT_FALSE(kiln_custom_op_table_known(&old));
  old.ops = reinterpret_cast<const kiln_custom_op*>(old_ops);
  ASSERT_TRUE(kiln_custom_op_table_known(&old));
  EXPECT_STREQ(kiln_custom_op_at(&old, 1).name, "mylib::b");
  EXPECT_EQ(kiln_custom_op_at(&old, 1).schema, nullptr);
  const kiln_custom_op ops[] = {{"mylib::a", run, nullptr}, {"mylib::b", run, "b(Tensor(a!) x) -> ()"}};
  kiln_custom_op_table now{KILN_CUSTOM_OP_ABI_VERSION, 2, ops};
  EXPECT_STREQ(kiln_custom_op_at(&now, 1).schema, "b(Tensor(a!) x) -> ()");
  now.abi_version = KILN_CUSTOM_OP_ABI_VERSION + 1;
  EXPECT_FALSE(kiln_custom_op_table_known(&now));
}

}  // namespace
}  // namespace kiln::runtime
