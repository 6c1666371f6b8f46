// Measures the math of generated kernels against the C library, for f32 over all 2^32 bit patterns of each unary
// function.
//
//   vector_math_check [--all | --step N] [--function NAME]… [--type f32|f64] [--lanes 1|4|8|16] [--level
//   v2|v3|v4|generic]
//                     [--compiler C] [--jobs N] [--markdown]
//
// --step N takes every N-th bit pattern of f32. Without either about a million numbers are sampled. Prints one line per
// function with the largest error in units of the last place and where it was; exit status 1 if a documented bound is
// exceeded.
#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstring>
#include <limits>
#include <mutex>
#include <random>
#include <thread>

#include "codegen/c_family/prelude_oracle.h"

using namespace kiln::codegen;
using namespace kiln::codegen::oracle;

namespace {

struct Options {
  uint64_t step = 0;  // 0: sampled
  bool markdown = false;
  std::vector<std::string> only;
  std::string type = "f32";
  Build setup;
  unsigned jobs = std::max(1u, std::thread::hardware_concurrency());
};

struct Worst {
  double error = 0, x = 0, y = 0, got = 0;
  uint64_t checked = 0;
  std::mutex mutex;
  void add(double e, double at, double also, double value) {
    std::lock_guard lock(mutex);
    if (e > error) error = e, x = at, y = also, got = value;
  }
};

template <class T>
void check_block(const Function& f, MathLoop<T>* loop, std::vector<T>& x, const std::vector<T>& y, Worst& worst) {
  f.keep_to_domain(x);
  std::vector<T> out(x.size());
  loop(x.data(), y.data(), out.data(), static_cast<int64_t>(x.size()));
  double largest = 0;
  size_t where = 0;
  for (size_t i = 0; i < x.size(); i++) {
    double error;
    if constexpr (sizeof(T) == 4) {
      double want = f.narrow(x[i], y[i]);
      if (static_cast<float>(want) == out[i] && want != 0 && f.bound_f32 > 0.5) continue;  // within half a unit
      error = std::fabs(out[i] - want) <= f.not_counted<T>() ? 0 : error_ulp(out[i], static_cast<Wide>(want));
    } else {
      Wide want = f.wide(x[i], y[i]);
      error = std::fabs(static_cast<Wide>(out[i]) - want) <= f.not_counted<T>() ? 0 : error_ulp(out[i], want);
    }
    if (error > largest) largest = error, where = i;
  }
  worst.add(largest, x[where], y[where], out[where]);
}

// Bit patterns spread over the whole range, and numbers of everyday size.
template <class T>
void fill_samples(uint64_t seed, std::vector<T>& values) {
  std::mt19937_64 random(seed);
  static const T special[] = {T(0),
                              -T(0),
                              T(1),
                              T(-1),
                              T(0.5),
                              T(-0.5),
                              T(2),
                              T(-2),
                              std::numeric_limits<T>::infinity(),
                              -std::numeric_limits<T>::infinity(),
                              std::numeric_limits<T>::quiet_NaN(),
                              std::numeric_limits<T>::min(),
                              std::numeric_limits<T>::denorm_min(),
                              -std::numeric_limits<T>::denorm_min(),
                              std::numeric_limits<T>::max(),
                              std::numeric_limits<T>::lowest(),
                              T(3),
                              T(-3),
                              T(10),
                              T(1e10)};
  for (size_t i = 0; i < values.size(); i++) {
    uint64_t r = random();
    double unit = static_cast<double>(random() >> 11) * 0x1p-53 * 2 - 1;
    if (i < std::size(special))
      values[i] = special[i];
    else if (r % 4 == 0) {
      uint64_t bits = random();
      std::memcpy(&values[i], &bits, sizeof(T));
    } else
      values[i] = static_cast<T>(unit * std::ldexp(1.0, static_cast<int>(r >> 8) % (r % 4 == 1 ? 3 : 11)));
  }
}

template <class T>
void sampled(const Function& f, MathLoop<T>* loop, const Options& options, Worst& worst) {
  constexpr size_t block = 4096;
  std::atomic<uint64_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned j = 0; j < options.jobs; j++) {
    threads.emplace_back([&] {
      std::vector<T> x(block), y(block);
      for (uint64_t b; (b = next++) < 256;) {
        fill_samples(b * 2, x);
        fill_samples(b * 2 + 1, y);
        if (f.arity == 2 && b == 0) {  // every special value with every other
          for (size_t i = 0; i < 400; i++) y[i] = x[i % 20], x[i] = x[i / 20 % 20];
        }
        check_block(f, loop, x, y, worst);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  worst.checked = 256 * block;
}

void stepped(const Function& f, MathLoop<float>* loop, const Options& options, Worst& worst) {
  constexpr uint64_t block = 1 << 14, end = uint64_t{1} << 32;
  std::atomic<uint64_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned j = 0; j < options.jobs; j++) {
    threads.emplace_back([&] {
      std::vector<float> x(block);
      for (uint64_t first; (first = next.fetch_add(block * options.step)) < end;) {
        for (uint64_t i = 0; i < block; i++) {
          auto bits = static_cast<uint32_t>(std::min(first + i * options.step, end - 1));
          std::memcpy(&x[i], &bits, 4);
        }
        check_block(f, loop, x, x, worst);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  worst.checked = (end + options.step - 1) / options.step;
}

template <class T>
bool check(const Function& f, const Library& library, const Options& options) {
  auto* loop = library.get<MathLoop<T>>(kiln::str("t_", f.name, "_", options.type));
  Worst worst;
  if constexpr (sizeof(T) == 4) {
    if (options.step > 0 && f.arity == 1)
      stepped(f, loop, options, worst);
    else
      sampled(f, loop, options, worst);
  } else {
    sampled(f, loop, options, worst);
  }
  double bound = sizeof(T) == 4 ? f.bound_f32 : f.bound_f64;
  bool good = worst.error <= bound;
  const char* format =
      options.markdown ? "| %s | %s | %.3f | %.3g | %a |\n" : "%-8s %s  max %9.3f ulp (bound %.3g) at %a";
  std::printf(format, f.name, options.type.c_str(), worst.error, bound, worst.x);
  if (!options.markdown) {
    if (f.arity == 2) std::printf(", %a", worst.y);
    std::printf(" -> %a   [%" PRIu64 " checked]%s\n", worst.got, worst.checked, good ? "" : "  EXCEEDED");
  }
  std::fflush(stdout);
  return good;
}

int usage(const char* why) {
  std::fprintf(stderr, "vector_math_check: %s\n", why);
  return 2;
}

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; i++) {
    std::string flag = argv[i];
    if (flag == "--all") {
      options.step = 1;
      continue;
    }
    if (flag == "--markdown") {
      options.markdown = true;
      continue;
    }
    if (i + 1 == argc) return false;
    std::string value = argv[++i];
    if (flag == "--step" && std::atoll(value.c_str()) > 0)
      options.step = static_cast<uint64_t>(std::atoll(value.c_str()));
    else if (flag == "--function")
      options.only.push_back(value);
    else if (flag == "--type" && (value == "f32" || value == "f64"))
      options.type = value;
    else if (flag == "--lanes" && (value == "1" || value == "4" || value == "8" || value == "16"))
      options.setup.lanes = std::stoi(value);
    else if (flag == "--compiler")
      options.setup.compiler = value;
    else if (flag == "--jobs")
      options.jobs = static_cast<unsigned>(std::max(1, std::atoi(value.c_str())));
    else if (flag == "--level" && value == "v2")
      options.setup.level = CpuLevel::x86_64_v2;
    else if (flag == "--level" && value == "v3")
      options.setup.level = CpuLevel::x86_64_v3;
    else if (flag == "--level" && value == "v4")
      options.setup.level = CpuLevel::x86_64_v4;
    else if (flag == "--level" && value == "generic")
      options.setup.level = CpuLevel::generic;
    else
      return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.setup.lanes = 16;
  options.setup.level = host_runs(CpuLevel::x86_64_v4)   ? CpuLevel::x86_64_v4
                        : host_runs(CpuLevel::x86_64_v3) ? CpuLevel::x86_64_v3
                                                         : CpuLevel::generic;
  if (!parse(argc, argv, options)) return usage("bad arguments; see the head of tools/vector_math_check.cpp");
  if (!host_runs(options.setup.level)) return usage("this machine does not run that level");
  bool good = true, any = false;
  try {
    for (const Function& f : functions()) {
      if (!options.only.empty() && std::find(options.only.begin(), options.only.end(), f.name) == options.only.end())
        continue;
      any = true;
      Library library(math_loop(f.name, f.arity, options.type, options.setup.lanes), options.setup);
      bool ok = options.type == "f32" ? check<float>(f, library, options) : check<double>(f, library, options);
      good = good && ok;
    }
  } catch (const std::exception& e) {
    return usage(e.what());
  }
  if (!any) return usage("no such function");
  return good ? 0 : 1;
}
