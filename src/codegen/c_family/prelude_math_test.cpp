// Accuracy of generated math: special values, numbers of everyday size and random bit patterns, against the C library
// in a wider type. tools/vector_math_check.cpp does the same over all floats.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

#include "codegen/c_family/prelude_oracle.h"

namespace kiln::codegen {
namespace {

using oracle::Build;
using oracle::Function;
using oracle::Library;

template <class T>
std::vector<T> special_values() {
  using L = std::numeric_limits<T>;
  std::vector<T> out = {T(0),   L::denorm_min(), L::min(), L::epsilon(), T(0.25),  T(0.5),       T(0.7),
                        T(1),   T(1.5),          T(2),     T(2.5),       T(3),     T(10),        T(88.8),
                        T(104), T(709.5),        T(1e5),   T(1e10),      L::max(), L::infinity()};
  size_t half = out.size();
  for (size_t i = 0; i < half; i++) out.push_back(-out[i]);
  out.push_back(std::nextafter(T(1), T(0)));
  out.push_back(std::nextafter(T(1), T(2)));
  out.push_back(L::quiet_NaN());
  return out;
}

// Every special value with every other, then a third of each: all magnitudes, everyday size, within [-1, 1].
template <class T>
void samples(std::vector<T>& x, std::vector<T>& y, size_t count) {
  for (T a : special_values<T>()) {
    for (T b : special_values<T>()) x.push_back(a), y.push_back(b);
  }
  std::mt19937_64 random(1234);
  auto draw = [&]() -> T {
    uint64_t bits = random();
    T value;
    if (bits % 3 == 0) {
      bits = random();
      std::memcpy(&value, &bits, sizeof value);
      return value;
    }
    double unit = static_cast<double>(random() >> 11) * 0x1p-52 - 1;
    return static_cast<T>(bits % 3 == 1 ? unit : unit * std::ldexp(1.0, static_cast<int>(bits >> 32) % 10));
  };
  while (x.size() < count || x.size() % 16 != 0) x.push_back(draw()), y.push_back(draw());
}

template <class T>
void check(const Function& f, const Library& library, const char* type, size_t count) {
  std::vector<T> x, y;
  samples(x, y, count);
  f.keep_to_domain(x);
  std::vector<T> out(x.size());
  library.get<oracle::MathLoop<T>>(str("t_", f.name, "_", type))(x.data(), y.data(), out.data(),
                                                                 static_cast<int64_t>(x.size()));
  double worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < x.size(); i++) {
    oracle::Wide want = sizeof(T) == 4 ? static_cast<oracle::Wide>(f.narrow(x[i], y[i])) : f.wide(x[i], y[i]);
    double error =
        std::fabs(static_cast<oracle::Wide>(out[i]) - want) <= f.not_counted<T>() ? 0 : oracle::error_ulp(out[i], want);
    if (error > worst) worst = error, where = i;
  }
  EXPECT_LE(worst, sizeof(T) == 4 ? f.bound_f32 : f.bound_f64)
      << f.name << "_" << type << "(" << x[where] << ", " << y[where] << ") = " << out[where] << ", should be "
      << static_cast<double>(f.wide(x[where], y[where]));
  testing::Test::RecordProperty(str(f.name, "_", type), float_text(worst));
}

class PreludeMath : public testing::TestWithParam<Build> {};

TEST_P(PreludeMath, WithinDocumentedBounds) {
  const Build& build = GetParam();
  if (!oracle::host_runs(build.level)) GTEST_SKIP() << "this machine does not run that level";
  if (!oracle::has_compiler(build.compiler)) GTEST_SKIP() << "no " << build.compiler;
  std::string body;
  for (const Function& f : oracle::functions()) {
    for (const char* type : {"f32", "f64"}) body += oracle::math_loop(f.name, f.arity, type, build.lanes);
  }
  Library library(body, build);
  for (const Function& f : oracle::functions()) {
    check<float>(f, library, "f32", 100000);
    check<double>(f, library, "f64", 20000);
  }
}

std::string build_name(const testing::TestParamInfo<Build>& info) {
  return str(info.param.compiler == "g++" ? "gcc" : "clang", "_level", static_cast<int>(info.param.level), "_lanes",
             info.param.lanes);
}
INSTANTIATE_TEST_SUITE_P(Builds, PreludeMath,
                         testing::Values(Build{"g++", CpuLevel::generic, 1}, Build{"g++", CpuLevel::x86_64_v3, 8},
                                         Build{"g++", CpuLevel::x86_64_v4, 16},
                                         Build{"clang++", CpuLevel::x86_64_v4, 16}),
                         build_name);

// Scalars and tails of a vector kernel use the same polynomials: the result does not depend on where an element lies.
TEST(PreludeMath, ScalarAndVectorAgree) {
  Build build{"g++", oracle::host_runs(CpuLevel::x86_64_v4) ? CpuLevel::x86_64_v4 : CpuLevel::generic, 16};
  std::string body;
  std::vector<const Function*> tested;
  for (const Function& f : oracle::functions()) {
    if (f.arity != 1) continue;
    tested.push_back(&f);
    body += oracle::math_loop(f.name, 1, "f32", 16);
    body += str("extern \"C\" __attribute__((visibility(\"default\"))) void s_", f.name,
                "(const f32* x, const f32*, f32* out, i64 n) { for (i64 i = 0; i < n; i++) out[i] = k_", f.name,
                "(x[i]); }\n");
  }
  Library library(body, build);
  for (const Function* f : tested) {
    std::vector<float> x, y;
    samples(x, y, 8192);
    std::vector<float> a(x.size()), b(x.size());
    f->keep_to_domain(x);
    library.get<oracle::MathLoop<float>>(str("t_", f->name, "_f32"))(x.data(), y.data(), a.data(),
                                                                     static_cast<int64_t>(x.size()));
    library.get<oracle::MathLoop<float>>(str("s_", f->name))(x.data(), y.data(), b.data(),
                                                             static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); i++) {
      ASSERT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))
          << f->name << "(" << x[i] << "): " << a[i] << " and " << b[i];
    }
  }
}

}  // namespace
}  // namespace kiln::codegen
