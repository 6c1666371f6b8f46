#include "debug/machine_arithmetic.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/cpu_levels.h"

namespace kiln {
namespace {

constexpr int chains = 12;  // independent of one another: more than an instruction takes to finish

// Independent multiply-adds on vectors held in registers.
template <class Vector>
__attribute__((always_inline)) inline float multiply_adds(int64_t rounds) {
  Vector a[chains], b = Vector{} + 0.999999f, c = Vector{} + 1e-6f;
  for (int i = 0; i < chains; ++i) a[i] = Vector{} + static_cast<float>(i);
  asm volatile("" : "+x"(b), "+x"(c));  // or the compiler sees that 1 stays 1, and leaves that one out
  for (int64_t r = 0; r < rounds; ++r)
    for (int i = 0; i < chains; ++i) a[i] = a[i] * b + c;
  float sum = 0;
  for (const Vector& v : a) sum += v[0];
  return sum;
}
typedef float Vector4 __attribute__((vector_size(16)));
typedef float Vector8 __attribute__((vector_size(32)));
typedef float Vector16 __attribute__((vector_size(64)));

float run_4(int64_t rounds) { return multiply_adds<Vector4>(rounds); }

#if defined(__x86_64__)
__attribute__((target("avx512f"), optimize("fp-contract=fast", "O2", "unroll-loops"))) float run_16(int64_t rounds) {
  return multiply_adds<Vector16>(rounds);
}
__attribute__((target("avx2,fma"), optimize("fp-contract=fast", "O2", "unroll-loops"))) float run_8(int64_t rounds) {
  return multiply_adds<Vector8>(rounds);
}

// Each lane adds the products of a pair of bf16.
__attribute__((target("avx512f,avx512bf16"), optimize("O2", "unroll-loops"))) float run_pairs(int64_t rounds) {
  __m512 sums[chains];
  for (int i = 0; i < chains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  __m512 left = _mm512_set1_ps(1e-3f), right = _mm512_set1_ps(1e-3f);
  asm volatile("" : "+v"(left), "+v"(right));
  for (int64_t r = 0; r < rounds; ++r)
    for (int i = 0; i < chains; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], (__m512bh)left, (__m512bh)right);
  __m512 all = sums[0];
  for (int i = 1; i < chains; ++i) all = _mm512_add_ps(all, sums[i]);
  return _mm512_cvtss_f32(all);
}

// Each lane adds the products of four bytes.
__attribute__((target("avx512f,avx512vnni"), optimize("O2", "unroll-loops"))) float run_quads(int64_t rounds) {
  __m512i sums[chains];
  for (int i = 0; i < chains; ++i) sums[i] = _mm512_set1_epi32(i);
  __m512i left = _mm512_set1_epi32(0x01010101), right = _mm512_set1_epi32(0x01010101);
  asm volatile("" : "+v"(left), "+v"(right));
  for (int64_t r = 0; r < rounds; ++r)
    for (int i = 0; i < chains; ++i) sums[i] = _mm512_dpbusd_epi32(sums[i], left, right);
  __m512i all = sums[0];
  for (int i = 1; i < chains; ++i) all = _mm512_add_epi32(all, sums[i]);
  int kept[16];
  __builtin_memcpy(kept, &all, sizeof(kept));
  return static_cast<float>(kept[0]);
}

// 16 rows of 64 bytes each, in all eight tiles.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr int tiles_in_a_round = 4;

// Four tiles of sums, of two factors on either side, as a product of matrices has them.
__attribute__((target("amx-tile,amx-bf16"), optimize("O2"))) float run_tiles(int64_t rounds) {
  const TileShapes shapes;
  alignas(64) uint16_t factor[16 * 32];
  alignas(64) float sums[16 * 16] = {};
  for (uint16_t& value : factor) value = 0x3a83;  // 0.001
  _tile_loadconfig(&shapes);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, factor, 64);
  _tile_loadd(5, factor, 64);
  _tile_loadd(6, factor, 64);
  _tile_loadd(7, factor, 64);
  for (int64_t r = 0; r < rounds; ++r) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums, 64);
  _tile_release();
  return sums[0];
}
#endif

}  // namespace

std::optional<BusyArithmetic> busy_arithmetic(Arithmetic arithmetic) {
#if defined(__x86_64__)
  const CpuFeatures features = processor_features();
  switch (arithmetic) {
    case Arithmetic::single_terms:
      if (features.contains("avx512f")) return BusyArithmetic{run_16, 2.0 * 16 * chains};
      if (features.contains("avx2") && features.contains("fma")) return BusyArithmetic{run_8, 2.0 * 8 * chains};
      break;
    case Arithmetic::bf16_pairs:
      if (features.contains("avx512bf16")) return BusyArithmetic{run_pairs, 2.0 * 32 * chains};
      return std::nullopt;
    case Arithmetic::byte_quads:
      if (features.contains("avx512vnni")) return BusyArithmetic{run_quads, 2.0 * 64 * chains};
      return std::nullopt;
    case Arithmetic::bf16_tiles:
      if (features.contains("amx-bf16") && allow_target("x86-64-v4+bf16+amx"))
        return BusyArithmetic{run_tiles, 2.0 * 16 * 16 * 32 * tiles_in_a_round};
      return std::nullopt;
  }
#endif
  if (arithmetic != Arithmetic::single_terms) return std::nullopt;
  return BusyArithmetic{run_4, 2.0 * 4 * chains};
}

}  // namespace kiln
