#include "codegen/cuda/prelude.h"

#include "base/text.h"
#include "codegen/c_family/prelude.h"
#include "codegen/cuda/prelude_attention.h"
#include "codegen/cuda/prelude_tiles.h"
#include "codegen/cuda/prelude_warpgroups.h"

namespace kiln::codegen {
namespace {

// GCC's names in NVRTC. A compiler of the host has them itself.
constexpr const char* compiler_text = R"(#ifdef __CUDACC_RTC__
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000ll)
#define __builtin_nanf(x) __int_as_float(0x7fc00000)
#define __builtin_nan(x) __longlong_as_double(0x7ff8000000000000ll)
#define __builtin_sqrtf(x) sqrtf(x)
#define __builtin_sqrt(x) sqrt(x)
#define __builtin_clzl(x) __clzll(x)
#define __builtin_clzll(x) __clzll(x)
#define __builtin_rint(x) rint(x)
#define __builtin_floor(x) floor(x)
#define __builtin_ceil(x) ceil(x)
#define __builtin_trunc(x) trunc(x)
#endif
)";

// docs/gpu.md has the layout; the device library of the runtime fills it in.
constexpr const char* arguments_text =
    R"(struct kiln_gpu_error { i32 raised, site; i64 index, value; i32 step, reserved; };
template <int buffer_count, int int_count>
struct kiln_arguments {
  i64 items;
  u64 seed;
  kiln_gpu_error* error;
  char* scratch;
  i64 scratch_bytes;
  i32 step, reserved;
  void* buffers[buffer_count];
  i64 ints[int_count];
};
)";

// The first one wins, in the order of the launches.
constexpr const char* raise_text = R"(template <class A>
K_FN void gpu_raise(const A& args, i32 site, i64 index, i64 value) {
  if (atomicCAS(&args.error->raised, 0, 1) != 0) return;
  args.error->site = site;
  args.error->index = index;
  args.error->value = value;
  args.error->step = args.step;
}
)";

constexpr const char* wrapping_text = R"(template <class T> struct gpu_wide { typedef u32 type; };
template <> struct gpu_wide<i64> { typedef u64 type; };
template <> struct gpu_wide<u64> { typedef u64 type; };
K_FN f32 gpu_add(f32 x, f32 y) { return x + y; }
K_FN f64 gpu_add(f64 x, f64 y) { return x + y; }
K_FN f32 gpu_mul(f32 x, f32 y) { return x * y; }
K_FN f64 gpu_mul(f64 x, f64 y) { return x * y; }
template <class T> K_FN T gpu_add(T x, T y) { typedef typename gpu_wide<T>::type U; return (T)((U)x + (U)y); }
template <class T> K_FN T gpu_sub(T x, T y) { typedef typename gpu_wide<T>::type U; return (T)((U)x - (U)y); }
template <class T> K_FN T gpu_mul(T x, T y) { typedef typename gpu_wide<T>::type U; return (T)((U)x * (U)y); }
)";

// Indices are 64 bits wide and nearly always small: dividing 32 bits costs a fraction.
constexpr const char* divide_text = R"(K_FN i64 gpu_quotient(i64 a, i64 b) {
  return (((u64)a | (u64)b) >> 32) == 0 ? (i64)((u32)a / (u32)b) : a / b;
}
K_FN i64 gpu_remainder(i64 a, i64 b) {
  return (((u64)a | (u64)b) >> 32) == 0 ? (i64)((u32)a % (u32)b) : a % b;
}
)";

// Neighbours in one word, where the buffers begin at a multiple of 16 bytes and all of them are there.
constexpr const char* word_text = R"(template <class T, int n>
struct alignas(sizeof(T) * n < 16 ? sizeof(T) * n : 16) gpu_word { T items[n]; };
template <class... P> K_FN bool gpu_aligned(P... p) { return (((u64)p | ...) & 15) == 0; }
template <int n, class T> K_FN gpu_word<T, n> gpu_fetch_some(const T* p, i64 left) {
  gpu_word<T, n> out;
#pragma unroll
  for (int e = 0; e < n; ++e) out.items[e] = e < left ? p[e] : (T)0;
  return out;
}
template <int n, class T> K_FN gpu_word<T, n> gpu_fetch(const T* p, bool wide, i64 left = n) {
  if (wide && left >= n) return *(const gpu_word<T, n>*)p;
  return gpu_fetch_some<n>(p, left);
}
template <int n, class T> K_FN gpu_word<T, n> gpu_fetch_fixed(const T* p, bool wide, i64 left = n) {
#ifdef __CUDACC_RTC__
  constexpr int bytes = n * sizeof(T);
  if (wide && left >= n) {
    gpu_word<T, n> out;
    if (bytes % 16 == 0) {
#pragma unroll
      for (int i = 0; i < bytes / 16; ++i) ((uint4*)&out)[i] = __ldg((const uint4*)p + i);
      return out;
    }
    if (bytes == 8) { *(uint2*)&out = __ldg((const uint2*)p); return out; }
  }
#endif
  return gpu_fetch<n>(p, wide, left);
}
template <int n, class T> K_FN void gpu_put(T* p, const gpu_word<T, n>& word, bool wide, i64 left = n) {
  if (wide && left >= n) { *(gpu_word<T, n>*)p = word; return; }
#pragma unroll
  for (int e = 0; e < n; ++e) if (e < left) p[e] = word.items[e];
}
)";

constexpr const char* atomic_text = R"(K_FN void gpu_atomic_add_f32(f32* p, f32 v) { atomicAdd(p, v); }
K_FN void gpu_atomic_add_f64(f64* p, f64 v) { atomicAdd(p, v); }
K_FN void gpu_atomic_add_i32(i32* p, i32 v) { atomicAdd(p, v); }
K_FN void gpu_atomic_add_i64(i64* p, i64 v) { atomicAdd((unsigned long long*)p, (unsigned long long)v); }
)";
// $d: f16 or bf16.
constexpr const char* atomic_narrow_text = R"(K_FN void gpu_atomic_add_$d($d* p, f32 v) {
  u16 seen, old = *(volatile u16*)p;
  do {
    seen = old;
    u16 sum = seen;
    k_set_$d(&sum, k_get_$d(&seen) + v);
    old = atomicCAS((u16*)p, seen, sum);
  } while (old != seen);
}
)";

// Every thread of the team gets the same bits: of a warp those of its first lane, of a block the parts of its warps
// added up in one order by all.
constexpr const char* team_text = R"(template <class T, class F>
K_FN T gpu_each_word(T x, F f) {
  u32 words[(sizeof(T) + 3) / 4] = {};
  memcpy(words, &x, sizeof(T));
  for (u32& word : words) word = f(word);
  memcpy(&x, words, sizeof(T));
  return x;
}
template <int team, class T, class F>
K_FN T team_reduce(T x, F combine) {
  constexpr int lanes = team < 32 ? team : 32;
#pragma unroll
  for (int apart = lanes / 2; apart > 0; apart /= 2)
    x = combine(x, gpu_each_word(x, [=](u32 word) { return __shfl_xor_sync(0xffffffffu, word, apart); }));
  if (team <= 32) return gpu_each_word(x, [](u32 word) { return __shfl_sync(0xffffffffu, word, 0, lanes); });
  alignas(16) __shared__ char memory[32 * sizeof(T)];
  T* const parts = (T*)memory;
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  x = parts[0];
  for (int warp = 1; warp < team / 32; ++warp) x = combine(x, parts[warp]);
  return x;
}
)";

constexpr const char* place_text = R"(template <class T> struct gpu_place { T value; i64 index; };
template <class T> K_FN bool gpu_is_better(const gpu_place<T>& a, const gpu_place<T>& b, bool ahead) {
  if (b.value == b.value) return ahead || (a.value == b.value && a.index < b.index) || a.value != a.value;
  return a.value != a.value && a.index < b.index;
}
template <class T> K_FN gpu_place<T> gpu_greatest(gpu_place<T> a, gpu_place<T> b) {
  return gpu_is_better(b, a, b.value > a.value) ? b : a;
}
template <class T> K_FN gpu_place<T> gpu_least(gpu_place<T> a, gpu_place<T> b) {
  return gpu_is_better(b, a, b.value < a.value) ? b : a;
}
)";

constexpr const char* moments_text = R"(template <class T> struct gpu_moments { T mean, m2, count; };
template <class T> K_FN gpu_moments<T> gpu_together(gpu_moments<T> a, gpu_moments<T> b) {
  if (!(b.count > 0)) return a;
  const T n = a.count + b.count, d = b.mean - a.mean;
  return {a.mean + d * b.count / n, a.m2 + b.m2 + d * d * a.count * b.count / n, n};
}
)";

}  // namespace

std::string cuda_unit(const std::string& kernels) {
  auto uses = [&](std::string_view name) { return kernels.find(name) != std::string::npos; };
  std::string own = arguments_text;
  if (uses("gpu_raise(")) own += raise_text;
  if (uses("gpu_add(") || uses("gpu_sub(") || uses("gpu_mul(")) own += wrapping_text;
  if (uses("gpu_quotient(") || uses("gpu_remainder(")) own += divide_text;
  const bool attention = uses("gpu_attend<"), tiles = attention || uses("_products<") || uses("gpu_tile_sums<");
  if (tiles || uses("gpu_word<") || uses("gpu_fetch") || uses("gpu_aligned(")) own += word_text;
  if (tiles) own += cuda_tile_prelude();
  if (uses("gpu_warpgroup_products<")) own += cuda_warpgroup_prelude(kernels);
  if (attention) own += cuda_attention_prelude();
  if (uses("gpu_join<")) own += cuda_cluster_prelude();
  if (uses("gpu_atomic_add_")) own += atomic_text;
  for (const char* narrow : {"f16", "bf16"})
    if (uses(str("gpu_atomic_add_", narrow, "("))) own += replace_all(atomic_narrow_text, "$d", narrow);
  if (uses("team_reduce<")) own += team_text;
  if (uses("gpu_place<")) own += place_text;
  if (uses("gpu_moments<")) own += moments_text;
  PreludeRequest request;
  request.for_gpu = true;
  collect_prelude_names(kernels, request);
  collect_prelude_names(own, request);
  return str(compiler_text, prelude(request), own, "\n", kernels);
}

}  // namespace kiln::codegen
