#include <algorithm>
#include <cmath>
#include <random>

#include "runtime/test_plan.h"

namespace kiln::runtime {
namespace {

// Runs topk or sort on a tensor of two dimensions along `dim` and gives values and indices.
template <class T>
std::pair<std::vector<T>, std::vector<int64_t>> select_of(const char* target, DType dtype, std::vector<int64_t> sizes,
                                                          std::vector<T> values, int64_t dim, int64_t k, bool flag,
                                                          const char* flag_name) {
  TestPlan t;
  std::vector<int64_t> out_sizes = sizes;
  out_sizes[static_cast<size_t>(dim < 0 ? dim + 2 : dim)] = k;
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
  TestTensor<T> tensor(dtype, sizes, values);
  kiln_value in = tensor.value(), result[2] = {};
  instance.run(&in, 1, result, 2);
  std::pair<std::vector<T>, std::vector<int64_t>> got{elements<T>(result[0]), elements<int64_t>(result[1])};
  for (kiln_value& r : result) r.owner->deleter(r.owner);
  return got;
}

template <class T>
std::pair<std::vector<T>, std::vector<int64_t>> select(const char* target, DType dtype, std::vector<T> values,
                                                       int64_t dim, int64_t k, bool flag, const char* flag_name) {
  return select_of<T>(target, dtype, {2, 4}, std::move(values), dim, k, flag, flag_name);
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

// The positions of the first k of a row as the standard library's algorithms leave them, which are eager's.
template <class T>
std::vector<int64_t> positions(const T* row, int64_t length, int64_t k, bool largest, bool all) {
  std::vector<std::pair<T, int64_t>> items;
  for (int64_t i = 0; i < length; ++i) items.emplace_back(row[i], i);
  auto before = [&](const auto& a, const auto& b) { return largest ? a.first > b.first : a.first < b.first; };
  auto end = items.begin() + k;
  if (all) {
    std::sort(items.begin(), items.end(), before);
  } else if (k > 0 && k * 64 <= length) {
    std::partial_sort(items.begin(), end, items.end(), before);
  } else if (k > 0) {
    std::nth_element(items.begin(), end - 1, items.end(), before);
    std::sort(items.begin(), end - 1, before);
  }
  std::vector<int64_t> out;
  for (int64_t i = 0; i < k; ++i) out.push_back(items[static_cast<size_t>(i)].second);
  return out;
}

// Rows of few and of many distinct values, of lengths and numbers that take every way through topk and sort.
template <class T>
void expect_positions(DType dtype, int64_t length, int64_t k, int64_t distinct, bool largest) {
  SCOPED_TRACE(testing::Message() << length << " elements, " << k << " of " << distinct << " values");
  const int64_t rows = 3;
  std::mt19937_64 random(static_cast<uint64_t>(length * 1000 + k * 7 + distinct));
  std::vector<T> values;
  for (int64_t i = 0; i < rows * length; ++i)
    values.push_back(static_cast<T>(static_cast<int64_t>(random() % static_cast<uint64_t>(distinct)) - distinct / 2));
  auto chosen = select_of<T>("topk", dtype, {rows, length}, values, 1, k, largest, "largest").second;
  auto sorted = select_of<T>("sort", dtype, {rows, length}, values, 1, length, largest, "descending").second;
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = values.data() + r * length;
    EXPECT_EQ(std::vector<int64_t>(chosen.begin() + r * k, chosen.begin() + (r + 1) * k),
              positions(row, length, k, largest, false));
    EXPECT_EQ(std::vector<int64_t>(sorted.begin() + r * length, sorted.begin() + (r + 1) * length),
              positions(row, length, length, largest, true));
  }
}

TEST(Library, TopkAndSortLeaveEqualsAsEagerDoes) {
  for (int64_t length : {1, 2, 3, 8, 17, 64, 130, 700, 5000})
    for (int64_t k : {1, 2, 7, 8, 20, 64, 300})
      for (int64_t distinct : {2, 50, 1 << 30}) {
        if (k > length) continue;
        expect_positions<float>(DType::f32, length, k, distinct, k % 2 == 0);
        expect_positions<int32_t>(DType::i32, length, k, distinct, k % 2 == 1);
        expect_positions<int64_t>(DType::i64, length, k, distinct, k % 2 == 0);
        expect_positions<int64_t>(DType::i64, length, k, distinct << 30, true);
        expect_positions<double>(DType::f64, length, k, distinct, false);
      }
}

TEST(Library, KeysOfNarrowFloatsAreOrderedAsTheirValues) {
  // NaN of both signs, infinities, zeros of both signs, subnormal numbers: four at a time and the rest.
  const std::vector<float> row = {NAN, -NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-40f, -1e-40f, 1, -1, 3};
  auto [values, indices] = select_of<float>("sort", DType::f32, {1, 11}, row, 1, 11, false, "descending");
  EXPECT_EQ(indices, (std::vector<int64_t>{3, 9, 7, 4, 5, 6, 8, 10, 2, 0, 1}));
  const std::vector<uint16_t> halves = {0x7fc0, 0xffc0, 0x7f80, 0xff80, 0x0000, 0x8000, 0x0001, 0x8001};
  auto narrow = select_of<uint16_t>("sort", DType::bf16, {1, 8}, halves, 1, 8, true, "descending");
  EXPECT_EQ(narrow.second, (std::vector<int64_t>{0, 1, 2, 6, 4, 5, 7, 3}));
}

// A library kernel of one vector whose result is a vector as long as it finds.
template <class Out, class T>
std::vector<Out> vector_of(const char* target, DType dtype, DType out_dtype, const std::vector<T>& values,
                           std::optional<int64_t> fixed = std::nullopt) {
  TestPlan t;
  int32_t x = t.input("x", dtype, {t.number(static_cast<int64_t>(values.size()))});
  int32_t found = t.symbol("u0", format::SymbolSource::step), size = fixed ? t.number(*fixed) : t.symbol_expr(found);
  format::Step step = t.step(format::StepKind::library, str("lib_", target, "_0"));
  step.target = target, step.outputs = {t.output("out", out_dtype, {size})}, step.defines = {found};
  if (std::string_view(target) == "unique_consecutive")
    for (const char* other : {"inverse", "counts"}) step.outputs.push_back(t.temp(other, DType::i64, {t.number(0)}));
  step.call_args = {{"self", format::ArgKind::buffer, {x}, 0, ""}};
  t.plan.steps = {step};
  Instance instance(t.build());
  TestTensor<T> tensor(dtype, {static_cast<int64_t>(values.size())}, values);
  kiln_value in = tensor.value(), result{};
  instance.run(&in, 1, &result, 1);
  std::vector<Out> got = elements<Out>(result);
  result.owner->deleter(result.owner);
  return got;
}

TEST(Library, RunsOfEqualsKeepTheirFirst) {
  for (size_t length : {0, 1, 2, 3, 4, 5, 8, 9, 100}) {
    std::vector<int64_t> values, firsts;
    for (size_t i = 0; i < length; ++i) values.push_back(static_cast<int64_t>(i * i % 7 / 3));
    for (size_t i = 0; i < length; ++i)
      if (i == 0 || values[i] != values[i - 1]) firsts.push_back(values[i]);
    EXPECT_EQ(vector_of<int64_t>("unique_consecutive", DType::i64, DType::i64, values), firsts);
    const std::vector<int32_t> narrow(values.begin(), values.end());
    EXPECT_EQ(vector_of<int32_t>("unique_consecutive", DType::i32, DType::i32, narrow),
              std::vector<int32_t>(firsts.begin(), firsts.end()));
  }
  const std::vector<float> odd = {-0.0f, 0.0f, NAN, NAN, 2, 2};
  const std::vector<float> got = vector_of<float>("unique_consecutive", DType::f32, DType::f32, odd);
  ASSERT_EQ(got.size(), 4u);
  EXPECT_TRUE(std::signbit(got[0]) && std::isnan(got[1]) && std::isnan(got[2]));
}

TEST(Library, RunsAndBinsThatAreNotAsManyAsTheProgramSays) {
  const std::vector<int64_t> values = {1, 1, 2, 3, 3, 3, 0, 0, 1};
  for (int64_t size : {0, 1, 2, 4, 6, 9})
    EXPECT_NE(error_of([&] { vector_of<int64_t>("unique_consecutive", DType::i64, DType::i64, values, size); }), "");
  EXPECT_EQ(vector_of<int64_t>("unique_consecutive", DType::i64, DType::i64, values, 5),
            (std::vector<int64_t>{1, 2, 3, 0, 1}));
  for (int64_t size : {0, 3, 5})
    EXPECT_NE(error_of([&] { vector_of<int64_t>("bincount", DType::i64, DType::i64, values, size); }), "");
  EXPECT_EQ(vector_of<int64_t>("bincount", DType::i64, DType::i64, values, 4), (std::vector<int64_t>{2, 3, 1, 3}));
}

TEST(Library, BinsOfVectorsLongerThanABlock) {
  std::vector<int64_t> values, counts(10);
  for (int64_t i = 0; i < 2000; ++i) values.push_back(i * i % 10);
  for (int64_t value : values) ++counts[static_cast<size_t>(value)];
  EXPECT_EQ(vector_of<int64_t>("bincount", DType::i64, DType::i64, values), counts);
  const std::vector<int32_t> narrow(values.begin(), values.end());
  EXPECT_EQ(vector_of<int64_t>("bincount", DType::i32, DType::i64, narrow), counts);
  values[1500] = -1;
  EXPECT_NE(error_of([&] { vector_of<int64_t>("bincount", DType::i64, DType::i64, values); }).find("non-negative"),
            std::string::npos);
}

TEST(Library, UnknownKernelsAreRefusedAtLoad) {
  TestPlan t;
  format::Step step = t.step(format::StepKind::library, "lib_svd_0");
  step.target = "svd";
  t.plan.steps = {step};
  EXPECT_NE(error_of([&] { t.build(); }).find("no library kernel \"svd\""), std::string::npos);
}

// A function of kiln.special_… at points, given as columns of its operands x and y.
std::vector<double> special(const char* target, const std::vector<std::vector<double>>& columns) {
  const auto count = static_cast<int64_t>(columns[0].size());
  TestPlan t;
  format::Step step = t.step(format::StepKind::library, str("lib_", target, "_0"));
  step.target = target;
  std::vector<TestTensor<double>> tensors;
  std::vector<kiln_value> in;
  tensors.reserve(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    const char* name = i == 0 ? "x" : "y";
    const int32_t buffer = t.input(name, DType::f64, {t.number(count)});
    step.call_args.push_back({name, format::ArgKind::buffer, {buffer}, 0, ""});
    in.push_back(tensors.emplace_back(DType::f64, std::vector<int64_t>{count}, columns[i]).value());
  }
  step.outputs = {t.output("out", DType::f64, {t.number(count)})};
  t.plan.steps = {step};
  Instance instance(t.build());
  kiln_value result = {};
  instance.run(in.data(), in.size(), &result, 1);
  std::vector<double> got = elements<double>(result);
  result.owner->deleter(result.owner);
  return got;
}

// Against 50 digits of mpmath.
struct SpecialValue {
  const char* target;
  std::vector<double> x;
  double value;
  double units = 8;  // that it may be off in the last place
};
const SpecialValue special_values[] = {
    {"special_igammac", {1e-300, 0.99}, 2.2309982579017724582e-301, 16},
    {"special_igammac", {1e-30, 0.1}, 1.8229239584193907678e-30, 16},
    {"special_igammac", {1e-17, 1e-08}, 1.7843465089050832258e-16, 16},
    {"special_igammac", {1e-17, 1.05}, 2.0187281322019659547e-18, 16},
    {"special_igammac", {1e-12, 0.5}, 5.5977359477645418028e-13, 16},
    {"special_igammac", {1e-05, 0.01}, 4.0378561781845700183e-5, 16},
    {"special_igammac", {0.01, 0.7}, 3.7659908296018719995e-3, 16},
    {"special_igammac", {0.3, 1.09}, 7.4054501687591337832e-2, 16},
    {"special_igammac", {1e-20, 3.0}, 1.3048381094197036697e-22, 16},
    {"special_igammac", {0.9, 1.2}, 2.6276871792533801357e-1, 32},
    {"special_igamma", {49.0, 0.0001}, 1.6438136066924352463e-259},
    {"special_igamma", {20.0, 1e-08}, 4.1103175841662846385e-179},
    {"special_igamma", {1e-17, 0.5}, 9.999999999999999944e-1},
    {"special_igamma", {5.0, 2.0}, 5.2653017343711156742e-2},
    {"special_erfcx", {0.5}, 6.1569034419292587487e-1},
    {"special_erfcx", {14.3}, 3.9358047337274099293e-2},
    {"special_erfcx", {19.7}, 2.8602309402825202549e-2},
    {"special_erfcx", {23.9}, 2.3585649371803793556e-2},
    {"special_erfcx", {24.99}, 2.2558581482293897158e-2},
    {"special_erfcx", {25.5}, 2.2108108052519826561e-2},
    {"special_erfcx", {-3.3}, 1.0727443593281435841e+5},
    {"special_erfcx", {-20.1}, 5.7589542626497851061e+175},
    {"special_erfcx", {100000.0}, 5.6418958351954680777e-6},
    {"special_zeta", {3.0, -0.5}, 4.143983221171599978e-1, 16},
    {"special_zeta", {3.0, -23.5}, 8.6767917615766633746e-4, 16},
    {"special_zeta", {5.0, -24.5}, 6.39148334143704552e-7, 16},
    {"special_zeta", {3.0, -1023.5}, 4.7683704451635052344e-7, 16},
    {"special_zeta", {2.0, -7.25}, 1.9610354539293269016e+1, 16},
    {"special_zeta", {3.0, -1e-20}, -1.0000000000000001645e+60, 16},
    {"special_zeta", {3.0, -0.9999999}, 1.0000000015790675451e+21, 16},
    {"special_zeta", {INFINITY, -0.5}, INFINITY},
    {"special_zeta", {INFINITY, 1.0}, 1},
    {"special_k0e", {1.7e+308}, 9.6124806334843436792e-155},
    {"special_k1e", {3e+40}, 7.2360125455826763379e-21},
    {"special_erfcx", {1e+307}, 5.6418958354775629483e-308},
    {"special_erfcx", {-INFINITY}, INFINITY},
    {"special_erfcx", {-1e200}, INFINITY},
};

TEST(Library, SpecialFunctionsWhereDigitsAreEasilyLost) {
  for (const SpecialValue& row : special_values) {
    std::vector<std::vector<double>> columns;
    for (const double x : row.x) columns.push_back({x});
    const double got = special(row.target, columns)[0];
    if (std::isinf(row.value)) {
      EXPECT_EQ(got, row.value) << row.target << " of " << row.x[0];
    } else {
      EXPECT_LE(std::fabs(got - row.value), row.units * std::fabs(row.value) * 0x1p-52)
          << row.target << " of " << row.x[0] << ": " << got << ", not " << row.value;
    }
  }
}

}  // namespace
}  // namespace kiln::runtime
