#include <cmath>

#include "runtime/test_plan.h"

namespace kiln::runtime {
namespace {

// Runs topk or sort on a [2, 4] tensor along `dim` and gives values and indices.
template <class T>
std::pair<std::vector<T>, std::vector<int64_t>> select(const char* target, DType dtype, std::vector<T> values,
                                                       int64_t dim, int64_t k, bool flag, const char* flag_name) {
  TestPlan t;
  int64_t sizes[2] = {2, 4}, out_sizes[2] = {2, 4};
  out_sizes[dim < 0 ? dim + 2 : dim] = k;
  int32_t x = t.input("x", dtype, {t.number(sizes[0]), t.number(sizes[1])});
  int32_t out = t.output("values", dtype, {t.number(out_sizes[0]), t.number(out_sizes[1])});
  int32_t index = t.output("indices", DType::i64, {t.number(out_sizes[0]), t.number(out_sizes[1])});
  format::Step step = t.step(format::StepKind::library, str("lib_", target, "_0"));
  step.target = target, step.outputs = {out, index};
  step.call_args = {{"self", format::ArgKind::buffer, {x}, 0, ""},
                    {"k", format::ArgKind::expr, {t.number(k)}, 0, ""},
                    {"dim", format::ArgKind::expr, {t.number(dim)}, 0, ""},
                    {flag_name, format::ArgKind::boolean, {}, flag ? 1.0 : 0.0, ""}};
  t.plan.steps = {step};
  Instance instance(t.build());
  TestTensor<T> tensor(dtype, {2, 4}, values);
  kiln_value in = tensor.value(), result[2] = {};
  instance.run(&in, 1, result, 2);
  std::pair<std::vector<T>, std::vector<int64_t>> got{elements<T>(result[0]), elements<int64_t>(result[1])};
  for (kiln_value& r : result) r.owner->deleter(r.owner);
  return got;
}

TEST(Library, TopkTakesTheLargestFirstOfEqualFirst) {
  auto [values, indices] = select<float>("topk", DType::f32, {1, 5, 5, 2, -1, -2, -0.0f, 0.0f}, -1, 2, true, "largest");
  EXPECT_EQ(values, (std::vector<float>{5, 5, 0, 0}));
  EXPECT_EQ(indices, (std::vector<int64_t>{1, 2, 2, 3}));
  auto smallest = select<int64_t>("topk", DType::i64, {INT64_MIN, 5, INT64_MAX, 2, 4, 3, 2, 1}, 1, 3, false, "largest");
  EXPECT_EQ(smallest.first, (std::vector<int64_t>{INT64_MIN, 2, 5, 1, 2, 3}));
}

TEST(Library, SortPutsNanLastAndIsStable) {
  auto [values, indices] =
      select<float>("sort", DType::f32, {NAN, 2, -INFINITY, 2, 1, 1, 0, 3}, 1, 4, false, "descending");
  EXPECT_EQ(indices, (std::vector<int64_t>{2, 1, 3, 0, 2, 0, 1, 3}));
  EXPECT_TRUE(std::isnan(values[3]));
  auto down =
      select<uint64_t>("sort", DType::u64, {UINT64_MAX, 0, 1, UINT64_MAX, 7, 7, 8, 9}, 1, 4, true, "descending");
  EXPECT_EQ(down.second, (std::vector<int64_t>{0, 3, 2, 1, 3, 2, 0, 1}));
  auto columns = select<uint8_t>("sort", DType::boolean, {1, 0, 1, 0, 0, 0, 1, 1}, 0, 2, false, "descending");
  EXPECT_EQ(columns.first, (std::vector<uint8_t>{0, 0, 1, 0, 1, 0, 1, 1}));
  auto halves = select<uint16_t>("sort", DType::f16, {0x3c00, 0xbc00, 0x7e00, 0x0000, 0x4000, 0x3c00, 0x8000, 0x0000},
                                 -1, 4, false, "descending");
  EXPECT_EQ(halves.second, (std::vector<int64_t>{1, 3, 0, 2, 2, 3, 1, 0}));
}

TEST(Library, UnknownKernelsAreRefusedAtLoad) {
  TestPlan t;
  format::Step step = t.step(format::StepKind::library, "lib_svd_0");
  step.target = "svd";
  t.plan.steps = {step};
  EXPECT_NE(error_of([&] { t.build(); }).find("no library kernel \"svd\""), std::string::npos);
}

}  // namespace
}  // namespace kiln::runtime
