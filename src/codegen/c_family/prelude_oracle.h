// What the prelude's math is measured against, for prelude_math_test.cpp and tools/vector_math_check.cpp: builds a
// shared library with one loop per function, and compares its results with the C library in a wider type. Not part of
// Kiln.
#pragma once
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numbers>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/text.h"
#include "codegen/c_family/prelude.h"

namespace kiln::codegen::oracle {

using Wide = long double;

inline Wide erfinv_reference(Wide x) {
  if (std::fabs(x) >= 1) return std::fabs(x) > 1 ? NAN : std::copysign(static_cast<Wide>(INFINITY), x);
  if (x == 0) return x;
  const Wide a = std::fabs(x), rest = 1 - a, half_root_pi = 0.886226925452758013649083741670572591L;
  const Wide w = -std::log(rest * (1 + a));
  Wide y = w < 5 ? a * half_root_pi : std::sqrt(w);
  for (int i = 0; i < 100; i++) {
    Wide f = a < 0.5L ? std::erf(y) - a : rest - std::erfc(y);
    Wide u = f * half_root_pi * std::exp(y * y), step = u / (1 + y * u);
    y -= step;
    if (std::fabs(step) <= y * 1e-19L) break;
  }
  return std::copysign(y, x);
}

inline Wide digamma_reference(Wide x) {
  if (x == 0) return std::copysign(static_cast<Wide>(INFINITY), -x);
  const Wide pi = 3.141592653589793238462643383279502884L;
  Wide r = 0;
  if (x < 0) {
    if (x == std::trunc(x)) return NAN;
    r = -pi / std::tan(pi * (x - std::nearbyint(x)));
    x = 1 - x;
  }
  for (; x < 30; x += 1) r -= 1 / x;
  if (std::isinf(x)) return x;
  const Wide z = 1 / (x * x);
  const Wide series =
      z * (1 / 12.0L - z * (1 / 120.0L - z * (1 / 252.0L - z * (1 / 240.0L - z * (1 / 132.0L - z * 691 / 32760.0L)))));
  return r + std::log(x) - 0.5L / x - series;
}

inline Wide sigmoid_reference(Wide x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }

struct Function {
  const char* name;
  int arity;
  Wide (*wide)(Wide, Wide);
  double (*narrow)(double, double);  // quick reference for f32; must agree with `wide` to well below a float's last bit
  double bound_f32, bound_f64;       // documented error in units of the last place
  // Near a zero of the function that is not at 0, relative accuracy is out of reach: errors below this are not counted.
  double absolute = 0;
  bool not_above_zero = false;  // it is a function of such numbers only
  double absolute_f64 = absolute;
  template <class T>
  double not_counted() const {
    return sizeof(T) == 4 ? absolute : absolute_f64;
  }
  template <class T>
  void keep_to_domain(std::vector<T>& x) const {
    if (not_above_zero)
      for (T& value : x) value = value > 0 ? -value : value;
  }
};

#define KILN_MATH(f) \
  [](Wide x, Wide) -> Wide { return std::f(x); }, [](double x, double) -> double { return std::f(x); }
inline const std::vector<Function>& functions() {
  static const std::vector<Function> table = {
      {"exp", 1, KILN_MATH(exp), 1.0, 1.0},
      {"exp_or_zero", 1, [](Wide x, Wide) -> Wide { return x < -87 ? 0 : std::exp(x); },
       [](double x, double) { return x < -87 ? 0 : std::exp(x); }, 5.0, 1.0, 0, true},
      {"exp2", 1, KILN_MATH(exp2), 1.0, 1.0},
      {"expm1", 1, KILN_MATH(expm1), 1.5, 2.0},
      {"log", 1, KILN_MATH(log), 1.0, 1.0},
      {"log2", 1, KILN_MATH(log2), 1.0, 1.0},
      {"log10", 1, KILN_MATH(log10), 1.0, 1.0},
      {"log1p", 1, KILN_MATH(log1p), 1.0, 2.0},
      {"sqrt", 1, KILN_MATH(sqrt), 0.501, 0.501},
      {"rsqrt", 1, [](Wide x, Wide) -> Wide { return 1 / std::sqrt(x); },
       [](double x, double) { return 1 / std::sqrt(x); }, 1.5, 1.5},
      {"sin", 1, KILN_MATH(sin), 1.0, 1.0},
      {"cos", 1, KILN_MATH(cos), 1.0, 1.0},
      {"tan", 1, KILN_MATH(tan), 1.0, 2.5},
      {"asin", 1, KILN_MATH(asin), 1.0, 2.0},
      {"acos", 1, KILN_MATH(acos), 1.0, 2.0},
      {"atan", 1, KILN_MATH(atan), 1.0, 2.0},
      {"atan2", 2, [](Wide x, Wide y) -> Wide { return std::atan2(x, y); },
       [](double x, double y) { return std::atan2(x, y); }, 1.0, 2.5},
      {"sinh", 1, KILN_MATH(sinh), 1.0, 2.5},
      {"cosh", 1, KILN_MATH(cosh), 1.0, 2.0},
      {"tanh", 1, KILN_MATH(tanh), 1.5, 2.5},
      {"asinh", 1, KILN_MATH(asinh), 1.0, 2.5},
      {"acosh", 1, KILN_MATH(acosh), 1.0, 2.5},
      {"atanh", 1, KILN_MATH(atanh), 1.0, 2.5},
      {"erf", 1, KILN_MATH(erf), 1.5, 1.5},
      {"erfc", 1, KILN_MATH(erfc), 1.0, 3.0},
      {"erfinv", 1, [](Wide x, Wide) { return erfinv_reference(x); },
       [](double x, double) { return static_cast<double>(erfinv_reference(x)); }, 1.0, 4.0},
      {"normal_cdf", 1, [](Wide x, Wide) -> Wide { return std::erfc(-x / std::numbers::sqrt2_v<Wide>) / 2; },
       [](double x, double) { return std::erfc(-x / std::numbers::sqrt2) / 2; }, 1.5, 5.0, 5e-8, false, 1e-16},
      {"lgamma", 1, KILN_MATH(lgamma), 1.0, 5.0, 1e-14},
      {"digamma", 1, [](Wide x, Wide) { return digamma_reference(x); },
       [](double x, double) { return static_cast<double>(digamma_reference(x)); }, 1.0, 8.0, 1e-14},
      {"sigmoid", 1, [](Wide x, Wide) { return sigmoid_reference(x); },
       [](double x, double) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }, 2.5, 2.5},
      {"pow", 2, [](Wide x, Wide y) -> Wide { return std::pow(x, y); },
       [](double x, double y) { return std::pow(x, y); }, 1.0, 1.0},
      {"floor", 1, KILN_MATH(floor), 0, 0},
      {"ceil", 1, KILN_MATH(ceil), 0, 0},
      {"round", 1, KILN_MATH(nearbyint), 0, 0},
      {"trunc", 1, KILN_MATH(trunc), 0, 0},
      {"fmod", 2, [](Wide x, Wide y) -> Wide { return std::fmod(x, y); },
       [](double x, double y) { return std::fmod(x, y); }, 0, 0},
  };
  return table;
}
#undef KILN_MATH

// The distance of a result from the true value, in units of the last place of the true value; a wrong kind of number
// (NaN, infinity, sign of zero) is infinitely far.
template <class T>
double error_ulp(T got, Wide want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : INFINITY;
  T rounded = static_cast<T>(want);
  if (rounded == got)
    return rounded == 0 && want == 0 && std::signbit(got) != std::signbit(want) ? INFINITY : [&] {
      if (std::isinf(rounded)) return 0.0;
      int e = std::max(rounded == 0 ? std::numeric_limits<int>::min() / 2 : std::ilogb(rounded),
                       std::numeric_limits<T>::min_exponent - 1);
      return static_cast<double>(std::fabs(static_cast<Wide>(got) - want) /
                                 std::ldexp(1.0L, e - (std::numeric_limits<T>::digits - 1)));
    }();
  if (std::isnan(got) || std::isinf(want)) return INFINITY;
  // Overflow is one step past the largest number.
  auto value = [](T x) -> Wide {
    return std::isinf(x) ? std::copysign(std::ldexp(1.0L, std::numeric_limits<T>::max_exponent), x)
                         : static_cast<Wide>(x);
  };
  int e = std::ilogb(static_cast<Wide>(std::isinf(rounded) ? std::numeric_limits<T>::max() : rounded));
  if (rounded == 0) e = std::numeric_limits<T>::min_exponent - 1;
  e = std::max(e, std::numeric_limits<T>::min_exponent - 1);
  return static_cast<double>(std::fabs(value(got) - want) / std::ldexp(1.0L, e - (std::numeric_limits<T>::digits - 1)));
}

struct Build {
  std::string compiler = "g++";
  CpuLevel level = CpuLevel::generic;
  int lanes = 1;
  int mask_bits = 32;
};

inline void PrintTo(const Build& build, std::ostream* out) {
  *out << build.compiler << " level " << static_cast<int>(build.level) << " lanes " << build.lanes;
}

inline bool host_runs(CpuLevel level) {
  switch (level) {
    case CpuLevel::x86_64_v4_bf16:
      return host_runs(CpuLevel::x86_64_v4) && __builtin_cpu_supports("avx512bf16");
    case CpuLevel::x86_64_v4:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    case CpuLevel::x86_64_v3:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case CpuLevel::x86_64_v2:
      return __builtin_cpu_supports("sse4.2");
    default:
      return true;
  }
}

inline bool has_compiler(const std::string& compiler) {
  return std::system((compiler + " --version >/dev/null 2>&1").c_str()) == 0;
}

// A body compiled behind its prelude and loaded; the files are gone at once.
class Library {
 public:
  Library(const std::string& body, const Build& setup) {
    PreludeRequest request{setup.lanes, setup.level, setup.mask_bits, {}, {}, false};
    collect_prelude_names(body, request);
    source_ = prelude(request) + body;
    std::string pattern = (std::filesystem::temp_directory_path() / "kiln_prelude_XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary directory");
    std::filesystem::path folder = pattern;
    std::ofstream(folder / "k.cpp") << source_;
    std::string command = setup.compiler;
    for (const std::string& flag : prelude_flags(setup.level, setup.lanes)) command += " " + flag;
    command += str(" -fPIC -shared -nostdlib -Wl,-z,defs -o ", (folder / "k.so").string(), " ",
                   (folder / "k.cpp").string(), " -lc 2> ", (folder / "log").string());
    int status = std::system(command.c_str());
    if (status != 0) {
      std::ifstream log(folder / "log");
      std::string text((std::istreambuf_iterator<char>(log)), std::istreambuf_iterator<char>());
      std::filesystem::remove_all(folder);
      throw std::runtime_error(command + "\n" + text.substr(0, 4000));
    }
    handle_ = dlopen((folder / "k.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    std::string why = handle_ == nullptr ? dlerror() : "";
    std::filesystem::remove_all(folder);
    if (handle_ == nullptr) throw std::runtime_error(why);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  template <class F>
  F* get(const std::string& name) const {
    void* symbol = dlsym(handle_, name.c_str());
    if (symbol == nullptr) throw std::runtime_error("no symbol " + name);
    return reinterpret_cast<F*>(symbol);
  }
  const std::string& source() const { return source_; }

 private:
  std::string source_;
  void* handle_ = nullptr;
};

// A loop over arrays whose length is a multiple of the lanes: void t_exp_f32(const f32* x, const f32* y, f32* out, i64
// n).
inline std::string math_loop(const std::string& name, int arity, const std::string& type, int lanes) {
  std::string argument = str("k_load_", type, "(x + i)");
  if (arity == 2) argument += str(", k_load_", type, "(y + i)");
  return str("extern \"C\" __attribute__((visibility(\"default\"))) void t_", name, "_", type, "(const ", type,
             "* x, const ", type, "* y, ", type, "* out, i64 n) {\n  for (i64 i = 0; i < n; i += ", lanes, ") k_store_",
             type, "(out + i, k_", name, "(", argument, "));\n}\n");
}
template <class T>
using MathLoop = void(const T*, const T*, T*, int64_t);

}  // namespace kiln::codegen::oracle
