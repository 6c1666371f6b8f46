#include "codegen/cuda/prelude_attention.h"

namespace kiln::codegen {

// A warp has sixteen rows. As matrix instructions have it, a thread has two neighbours of every eight keys, of the row
// lane / 4 and of the one eight below; four threads have a row together.
const char* cuda_attention_prelude() {
  return R"(K_FN u32 gpu_bits(f32 x) { return __builtin_bit_cast(u32, x); }
K_FN f32 gpu_of_four(f32 x, bool greatest) {
#pragma unroll
  for (int apart = 1; apart < 4; apart *= 2) {
    const f32 other = __builtin_bit_cast(f32, __shfl_xor_sync(0xffffffffu, gpu_bits(x), apart));
    x = greatest ? k_max(x, other) : x + other;
  }
  return x;
}
// Two weights as pairs of narrow numbers whose sum they are; with one part they are rounded.
template <int parts> K_FN void gpu_weights(u32 (&out)[parts], f32 x, f32 y, gpu_of_bf16) {
  if (parts == 1) {
    u16 pair[2];
    k_set_bf16(pair, x), k_set_bf16(pair + 1, y);
    out[0] = pair[0] | (u32)pair[1] << 16;
    return;
  }
#pragma unroll
  for (int part = 0; part < parts; ++part) {  // eight bits at a time; none is infinite
    const u32 u = gpu_bits(x), v = gpu_bits(y);
    out[part] = (u >> 16) | (v & 0xffff0000u);
    x -= __builtin_bit_cast(f32, u & 0xffff0000u), y -= __builtin_bit_cast(f32, v & 0xffff0000u);
  }
}
template <int parts> K_FN void gpu_weights(u32 (&out)[parts], f32 x, f32 y, gpu_of_f16) {
#pragma unroll
  for (int part = 0; part < parts; ++part) {
    u16 pair[2];
    k_set_f16(pair, x), k_set_f16(pair + 1, y);
    out[part] = pair[0] | (u32)pair[1] << 16;
    x -= k_get_f16(pair), y -= k_get_f16(pair + 1);
  }
}
// A stage has the keys of `slices` warps, of which this one has those of number `slice`; the stage `step` of this block
// is the number step * apart + first of all.
template <class type, int width, int line, int keys, int slices, int columns, int stages, int parts, class T, class F, class S>
K_FN void gpu_attend(const T* row_tile, const T* key_tiles, const T* value_tiles, int warp_row, int slice, i64 first_row,
                     i64 last_row, i64 all_keys, int first, int apart, int steps, F fetch, S score,
                     f32 (&sums)[columns / 8][4], f32 (&top)[2], f32 (&total)[2]) {
  const int lane = threadIdx.x % 32;
  const f32 lowest = -__builtin_inff();
  top[0] = top[1] = lowest, total[0] = total[1] = 0;
  i64 rows[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) rows[half] = k_min((i64)(first_row + lane / 4 + half * 8), last_row);
  gpu_staged<stages>(steps, fetch, [&](int step) {
    const T* const key_tile = key_tiles + (step % stages * slices + slice) * (keys * line);
    const T* const value_tile = value_tiles + (step % stages * slices + slice) * (keys * columns);
    f32 scores[keys / 8][4] = {};
#pragma unroll
    for (int term = 0; term < width; term += 16) {
      u32 a[4];
      gpu_load_matrices(a, row_tile + gpu_chunk_place<line / 8>(warp_row + lane % 16, term / 8 + lane / 16) * 8);
#pragma unroll
      for (int j = 0; j < keys / 16; ++j) {
        u32 b[4];
        gpu_load_matrices(b, key_tile + gpu_chunk_place<line / 8>(j * 16 + lane % 8 + lane / 16 * 8,
                                                                  term / 8 + lane / 8 % 2) * 8);
        type::mma(scores[j * 2], a, b[0], b[1]);
        type::mma(scores[j * 2 + 1], a, b[2], b[3]);
      }
    }
    f32 high[2] = {top[0], top[1]}, base[2];
    const i64 first_key = (((i64)step * apart + first) * slices + slice) * keys + lane % 4 * 2;
    const int left = (int)k_min((i64)(all_keys - first_key), (i64)keys);
#pragma unroll
    for (int j = 0; j < keys / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int key = j * 8 + e % 2;
        scores[j][e] = key < left ? score(scores[j][e], rows[e / 2], first_key + key) : lowest;
        high[e / 2] = k_max(high[e / 2], scores[j][e]);
      }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      high[half] = gpu_of_four(high[half], true);
      base[half] = high[half] == lowest ? 0.0f : high[half];  // weights of 0, not NaN, while there is no score
      const f32 scale = exp(top[half] - base[half]);
      top[half] = high[half];
      total[half] *= scale;
#pragma unroll
      for (int j = 0; j < columns / 8; ++j) sums[j][half * 2] *= scale, sums[j][half * 2 + 1] *= scale;
    }
#pragma unroll
    for (int j = 0; j < keys / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        scores[j][e] = exp(scores[j][e] - base[e / 2]);
        total[e / 2] += scores[j][e];
      }
#pragma unroll
    for (int key = 0; key < keys; key += 16) {
      u32 a[parts][4];
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        u32 one[parts];
        gpu_weights<parts>(one, scores[key / 8 + m / 2][m % 2 * 2], scores[key / 8 + m / 2][m % 2 * 2 + 1], type());
#pragma unroll
        for (int part = 0; part < parts; ++part) a[part][m] = one[part];
      }
#pragma unroll
      for (int j = 0; j < columns / 16; ++j) {
        u32 b[4];
        gpu_load_matrices_across(b, value_tile + gpu_chunk_place<columns / 8>(key + lane % 16, j * 2 + lane / 16) * 8);
#pragma unroll
        for (int part = parts - 1; part >= 0; --part) {
          type::mma(sums[j * 2], a[part], b[0], b[1]);
          type::mma(sums[j * 2 + 1], a[part], b[2], b[3]);
        }
      }
    }
  });
}
template <int columns>
K_FN void gpu_shares(f32 (&sums)[columns][4], f32 (&top)[2], f32 (&total)[2], bool empty_rows_are_zero) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const f32 all = gpu_of_four(total[half], false);
    const f32 share = empty_rows_are_zero && top[half] == -__builtin_inff() ? 1.0f : 1.0f / all;
#pragma unroll
    for (int j = 0; j < columns; ++j) sums[j][half * 2] *= share, sums[j][half * 2 + 1] *= share;
  }
}
)";
}

// What blocks of a cluster, and warps of a block, have of the same rows comes together: each has weighed some of the
// keys, relative to the greatest score that it has seen.
const char* cuda_joined_attention_prelude() {
  return R"(K_FN void gpu_row_ends(f32* ends, const f32 (&top)[2], const f32 (&total)[2]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const f32 all = gpu_of_four(total[half], false);
    f32* const to = ends + (lane / 4 + half * 8) * 4;
    if (lane % 4 == 0) to[0] = top[half], to[1] = all;
  }
}
// Eight results of a row; the warps' are `apart` elements from one another.
template <int parts, int slices, int apart>
K_FN void gpu_join_shares(f32 (&result)[8], const f32* own, const f32* ends, bool empty_rows_are_zero) {
  f32 end[parts * slices][4], of[parts * slices][2][4];
#pragma unroll
  for (int i = 0; i < parts * slices; ++i) {
    gpu_fetch_of_block(end[i], ends + i % slices * apart, i / slices);
    gpu_fetch_of_block(of[i][0], own + i % slices * apart, i / slices);
    gpu_fetch_of_block(of[i][1], own + i % slices * apart + 4, i / slices);
  }
  const f32 lowest = -__builtin_inff();
  f32 top = lowest, all = 0;
#pragma unroll
  for (int i = 0; i < parts * slices; ++i) top = k_max(top, end[i][0]);
  const f32 base = top == lowest ? 0.0f : top;
#pragma unroll
  for (int e = 0; e < 8; ++e) result[e] = 0;
#pragma unroll
  for (int i = 0; i < parts * slices; ++i) {
    const f32 scale = exp(end[i][0] - base);
    all += end[i][1] * scale;
#pragma unroll
    for (int e = 0; e < 8; ++e) result[e] += of[i][e / 4][e % 4] * scale;
  }
  const f32 share = empty_rows_are_zero && top == lowest ? 1.0f : 1.0f / all;
#pragma unroll
  for (int e = 0; e < 8; ++e) result[e] *= share;
}
)";
}

}  // namespace kiln::codegen
