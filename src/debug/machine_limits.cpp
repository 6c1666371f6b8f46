// What this machine can do, measured: the yardstick of the profiler. A second or less in all.
#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "debug/profile.h"

namespace kiln {
namespace {

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void on_all_threads(unsigned threads, const std::function<void(unsigned)>& work) {
  std::vector<std::thread> pool;
  for (unsigned t = 1; t < threads; ++t) pool.emplace_back(work, t);
  work(0);
  for (std::thread& thread : pool) thread.join();
}

// Independent multiply-adds on vectors held in registers, for the widest vectors the processor has.
template <class Vector>
__attribute__((always_inline)) inline float multiply_adds(int64_t rounds) {
  Vector a[12], b = Vector{} + 0.999999f, c = Vector{} + 1e-6f;
  for (int i = 0; i < 12; ++i) a[i] = Vector{} + static_cast<float>(i);
  for (int64_t r = 0; r < rounds; ++r)
    for (int i = 0; i < 12; ++i) a[i] = a[i] * b + c;
  float sum = 0;
  for (const Vector& v : a) sum += v[0];
  return sum;
}
typedef float Vector4 __attribute__((vector_size(16)));
typedef float Vector8 __attribute__((vector_size(32)));
typedef float Vector16 __attribute__((vector_size(64)));

struct Arithmetic {
  float (*run)(int64_t);
  int lanes;
};
#if defined(__x86_64__)
__attribute__((target("avx512f"), optimize("fp-contract=fast", "O2", "unroll-loops"))) float run_16(int64_t rounds) {
  return multiply_adds<Vector16>(rounds);
}
__attribute__((target("avx2,fma"), optimize("fp-contract=fast", "O2", "unroll-loops"))) float run_8(int64_t rounds) {
  return multiply_adds<Vector8>(rounds);
}
#endif
float run_4(int64_t rounds) { return multiply_adds<Vector4>(rounds); }

Arithmetic widest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {run_16, 16};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {run_8, 8};
#endif
  return {run_4, 4};
}

double measure_gflops(unsigned threads) {
  const Arithmetic arithmetic = widest();
  constexpr int64_t rounds = 1'000'000;
  std::vector<float> results(threads);
  const auto once = [&] { on_all_threads(threads, [&](unsigned t) { results[t] = arithmetic.run(rounds); }); };
  double best = 1e9;
  for (int i = 0; i < 5; ++i) best = std::min(best, seconds_of(once));
  // The sums are used, so that nothing is optimised away.
  const double kept = results[0] == 12345.0f ? 1e-9 : 0;
  return 2.0 * 12 * arithmetic.lanes * static_cast<double>(rounds) * threads / (best + kept) * 1e-9;
}

double measure_gbs(unsigned threads) {
  const size_t each = size_t{64} << 17;  // 64 MB per thread as words of 8 bytes
  std::vector<std::vector<uint64_t>> memory(threads);
  on_all_threads(threads, [&](unsigned t) { memory[t].assign(each, t); });
  std::vector<uint64_t> sums(threads);
  const auto once = [&] {
    on_all_threads(threads, [&](unsigned t) {
      uint64_t s[4] = {};
      const uint64_t* at = memory[t].data();
      for (size_t i = 0; i + 4 <= each; i += 4)
        for (size_t k = 0; k < 4; ++k) s[k] += at[i + k];
      sums[t] = s[0] + s[1] + s[2] + s[3];
    });
  };
  double best = 1e9;
  for (int i = 0; i < 4; ++i) best = std::min(best, seconds_of(once));
  const double kept = sums[0] == 1 ? 1e-9 : 0;
  return static_cast<double>(each) * 8 * threads / (best + kept) * 1e-9;
}

}  // namespace

MachineLimits measure_machine() {
  const unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  return {measure_gflops(threads), measure_gbs(threads)};
}

}  // namespace kiln
