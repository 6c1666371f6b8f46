#include "codegen/cuda/prelude_tiles.h"

#include "base/text.h"

namespace kiln::codegen {
namespace {

// The instructions themselves. A compiler of the host has functions of the same names (tests/cuda_stand_in).
constexpr const char* matrix_instructions_text = R"(#ifdef __CUDACC_RTC__
#define gpu_dynamic_shared(name) extern __shared__ __align__(1024) char name[]
K_FN u32 gpu_shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
K_FN void gpu_load_matrices(u32 (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(gpu_shared_address(row)) : "memory");
}
K_FN void gpu_load_matrices_across(u32 (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(gpu_shared_address(row)) : "memory");
}
#define GPU_MMA(name, shape) \
  K_FN void name(f32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) { \
    asm volatile("mma.sync.aligned." shape " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1)); \
  }
GPU_MMA(gpu_mma_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32")
GPU_MMA(gpu_mma_f16, "m16n8k16.row.col.f32.f16.f16.f32")
GPU_MMA(gpu_mma_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32")
K_FN u32 gpu_to_tf32(u32 x) {
  u32 out;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(out) : "f"(__uint_as_float(x)));
  return out;
}
K_FN void gpu_copy_16(void* to, const void* from, bool wanted) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"(gpu_shared_address(to)), "l"(from), "r"(wanted ? 16 : 0) : "memory");
}
template <class T> K_FN void gpu_copy_element(T* to, const T* from, bool wanted) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
               :: "r"(gpu_shared_address(to)), "l"(from), "n"(sizeof(T)), "r"(wanted ? (int)sizeof(T) : 0) : "memory");
}
K_FN void gpu_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int left> K_FN void gpu_copy_wait() { asm volatile("cp.async.wait_group %0;" :: "n"(left) : "memory"); }
#endif
)";

// A tile in shared memory has lines of `chunks` words of 16 bytes, whose places in a line are exchanged so that eight
// lines below one another lie in different banks.
constexpr const char* tile_text = R"(template <int chunks> K_FN int gpu_chunk_place(int line, int chunk) {
  return line * chunks + (chunk ^ (chunks >= 8 ? line & 7 : chunks == 4 ? line >> 1 & 3 : chunks == 2 ? line >> 2 & 1 : 0));
}
// So many neighbours of a factor on their way into shared memory; what is not wanted is 0.
template <int n, class T> K_FN void gpu_copy_chunk(T* to, const T* from, bool wanted, bool wide) {
  if (wide) return gpu_copy_16(to, from, wanted);
#pragma unroll 1
  for (int e = 0; e < n; ++e) to[e] = wanted ? from[e] : (T)0;
}
// Runs `each` for every step while the next ones are on their way.
template <int stages, class F, class E> K_FN void gpu_staged(int steps, F fetch, E each) {
#pragma unroll
  for (int step = 0; step < stages - 1; ++step) fetch(step);
  for (int step = 0; step < steps; ++step) {
    gpu_copy_wait<stages - 2>();
    __syncthreads();
    fetch(step + stages - 1);
    each(step);
  }
}
// Where the rows (or columns) of a thread's part lie in the tile: in groups of four neighbours, far apart.
template <int tile, int each> K_FN int gpu_of_part(int part, int i) {
  constexpr int group = each < 4 ? each : 4;
  return i / group * (tile / (each / group)) + part * group + i % group;
}
template <int tile_rows, int tile_columns, int tile_terms, int left_line, int right_line, int stages, class T, class F,
          int rows, int columns>
K_FN void gpu_tile_sums(const T* left_tiles, const T* right_tiles, int row_part, int column_part, int steps, F fetch,
                        T (&sums)[rows][columns]) {
  constexpr int row_group = rows < 4 ? rows : 4, column_group = columns < 4 ? columns : 4;
  gpu_staged<stages>(steps, fetch, [&](int step) {
    const T* const left = left_tiles + step % stages * (tile_terms * left_line);
    const T* const right = right_tiles + step % stages * (tile_terms * right_line);
#pragma unroll
    for (int term = 0; term < tile_terms; ++term) {
      T a[rows], b[columns];
#pragma unroll
      for (int i = 0; i < rows; i += row_group) {
        const auto word = *(const gpu_word<T, row_group>*)(left + term * left_line + gpu_of_part<tile_rows, rows>(row_part, i));
#pragma unroll
        for (int e = 0; e < row_group; ++e) a[i + e] = word.items[e];
      }
#pragma unroll
      for (int j = 0; j < columns; j += column_group) {
        const auto word =
            *(const gpu_word<T, column_group>*)(right + term * right_line + gpu_of_part<tile_columns, columns>(column_part, j));
#pragma unroll
        for (int e = 0; e < column_group; ++e) b[j + e] = word.items[e];
      }
#pragma unroll
      for (int i = 0; i < rows; ++i)
#pragma unroll
        for (int j = 0; j < columns; ++j) sums[i][j] = fma(a[i], b[j], sums[i][j]);
    }
  });
}
struct gpu_of_bf16 {
  static constexpr int per_chunk = 8, terms = 16;
  static constexpr bool is_bf16 = true;
  K_FN void mma(f32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) { gpu_mma_bf16(d, a, b0, b1); }
};
struct gpu_of_f16 {
  static constexpr int per_chunk = 8, terms = 16;
  static constexpr bool is_bf16 = false;
  K_FN void mma(f32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) { gpu_mma_f16(d, a, b0, b1); }
};
struct gpu_of_tf32 {
  static constexpr int per_chunk = 4, terms = 8;
  K_FN void mma(f32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    const u32 cut[4] = {gpu_to_tf32(a[0]), gpu_to_tf32(a[1]), gpu_to_tf32(a[2]), gpu_to_tf32(a[3])};
    gpu_mma_tf32(d, cut, gpu_to_tf32(b0), gpu_to_tf32(b1));
  }
};
// One step of the terms of a warp's part of a tile: the matrices of `rows` rows and `columns` columns, and their
// products. along: the factor's lines run along the terms, else along its rows or columns.
template <class type, int tile_rows, int tile_columns, int tile_terms, bool left_along, bool right_along, int rows,
          int columns>
struct gpu_part {
  static constexpr int n = type::per_chunk, steps = tile_terms / type::terms;
  static constexpr int left_chunks = (left_along ? tile_terms : tile_rows) / n;
  static constexpr int right_chunks = (right_along ? tile_terms : tile_columns) / n;
  u32 a[rows / 16][4], b[columns / 16][4];
  template <class T> K_FN_MEMBER void load(const T* left, const T* right, int first_row, int first_column, int term) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < rows / 16; ++i) {
      const int row = first_row + i * 16;
      if (left_along)
        gpu_load_matrices(a[i], left + gpu_chunk_place<left_chunks>(row + lane % 16, term / n + lane / 16) * n);
      else
        gpu_load_matrices_across(
            a[i], left + gpu_chunk_place<left_chunks>(term + lane % 8 + lane / 16 * 8, row / n + lane / 8 % 2) * n);
    }
#pragma unroll
    for (int j = 0; j < columns / 16; ++j) {
      const int column = first_column + j * 16;
      if (right_along)
        gpu_load_matrices(b[j], right + gpu_chunk_place<right_chunks>(column + lane % 8 + lane / 16 * 8,
                                                                      term / n + lane / 8 % 2) * n);
      else
        gpu_load_matrices_across(
            b[j], right + gpu_chunk_place<right_chunks>(term + lane % 16, column / n + lane / 16) * n);
    }
  }
  K_FN_MEMBER void multiply(f32 (&sums)[rows / 16][columns / 8][4]) const {
#pragma unroll
    for (int i = 0; i < rows / 16; ++i)
#pragma unroll
      for (int j = 0; j < columns / 8; ++j) type::mma(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
  }
};
// All products of a tile: `fetch` has stages on their way, and the next matrices are loaded while these are multiplied.
template <class type, int tile_rows, int tile_columns, int tile_terms, bool left_along, bool right_along, int rows,
          int columns, int stages, class T, class F>
K_FN void gpu_products(const T* left_tiles, const T* right_tiles, int first_row, int first_column, int steps, F fetch,
                       f32 (&sums)[rows / 16][columns / 8][4]) {
  typedef gpu_part<type, tile_rows, tile_columns, tile_terms, left_along, right_along, rows, columns> part;
  gpu_staged<stages>(steps, fetch, [&](int step) {
    const T* const left = left_tiles + step % stages * (tile_rows * tile_terms);
    const T* const right = right_tiles + step % stages * (tile_columns * tile_terms);
    part parts[2];
    parts[0].load(left, right, first_row, first_column, 0);
#pragma unroll
    for (int at = 0; at < part::steps; ++at) {
      if (at + 1 < part::steps)
        parts[(at + 1) % 2].load(left, right, first_row, first_column, (at + 1) * type::terms);
      parts[at % 2].multiply(sums);
    }
  });
}
// Two numbers of f32 as three pairs of bf16, whose sum they are: a number's bits, eight at a time.
K_FN void gpu_split(u32 (&out)[3], f32 x, f32 y) {
#pragma unroll
  for (int part = 0; part < 3; ++part) {
    const u32 u = __builtin_bit_cast(u32, x), v = __builtin_bit_cast(u32, y);
    out[part] = (u >> 16) | (v & 0xffff0000u);
    // What is infinite or no number has no rest.
    x = (u & 0x7f800000u) == 0x7f800000u ? 0.0f : x - __builtin_bit_cast(f32, u & 0xffff0000u);
    y = (v & 0x7f800000u) == 0x7f800000u ? 0.0f : y - __builtin_bit_cast(f32, v & 0xffff0000u);
  }
}
// The same where the left factor is f32, with lines along the terms, and the right one bf16.
template <int tile_rows, int tile_columns, int tile_terms, bool left_along, bool right_along, int rows, int columns,
          int stages, class F>
K_FN void gpu_split_products(const f32* left_tiles, const u16* right_tiles, int first_row, int first_column, int steps,
                             F fetch, f32 (&sums)[rows / 16][columns / 8][4]) {
  static_assert(left_along, "the wide factor lies along the terms");
  constexpr int right_chunks = (right_along ? tile_terms : tile_columns) / 8;
  const int lane = threadIdx.x % 32;
  gpu_staged<stages>(steps, fetch, [&](int step) {
    const f32* const left = left_tiles + step % stages * (tile_rows * tile_terms);
    const u16* const right = right_tiles + step % stages * (tile_columns * tile_terms);
#pragma unroll
    for (int term = 0; term < tile_terms; term += 16) {
      u32 b[columns / 16][4];
#pragma unroll
      for (int j = 0; j < columns / 16; ++j) {
        const int column = first_column + j * 16;
        if (right_along)
          gpu_load_matrices(b[j], right + gpu_chunk_place<right_chunks>(column + lane % 8 + lane / 16 * 8,
                                                                        term / 8 + lane / 8 % 2) * 8);
        else
          gpu_load_matrices_across(
              b[j], right + gpu_chunk_place<right_chunks>(term + lane % 16, column / 8 + lane / 16) * 8);
      }
#pragma unroll
      for (int i = 0; i < rows / 16; ++i) {
        u32 a[3][4];
#pragma unroll
        for (int m = 0; m < 4; ++m) {
          const int row = first_row + i * 16 + lane / 4 + m % 2 * 8, at = term + lane % 4 * 2 + m / 2 * 8;
          const f32* const from = left + gpu_chunk_place<tile_terms / 4>(row, at / 4) * 4 + at % 4;
          u32 parts[3];
          gpu_split(parts, from[0], from[1]);
#pragma unroll
          for (int part = 0; part < 3; ++part) a[part][m] = parts[part];
        }
#pragma unroll
        for (int part = 2; part >= 0; --part)
#pragma unroll
          for (int j = 0; j < columns / 8; ++j)
            gpu_mma_bf16(sums[i][j], a[part], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
      }
    }
  });
}
// Sixteen rows of a warp's results, as rows of shared memory that its threads read as they like.
template <int columns, int line> K_FN void gpu_spread_to(f32* to, const f32 (&sums)[columns / 8][4]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < columns / 8; ++j) {
    f32* const at = to + lane / 4 * line + j * 8 + lane % 4 * 2;
    at[0] = sums[j][0], at[1] = sums[j][1];
    at[8 * line] = sums[j][2], at[8 * line + 1] = sums[j][3];
  }
}
template <int columns> K_FN void gpu_spread(f32* to, const f32 (&sums)[columns / 8][4]) {
  __syncwarp();
  gpu_spread_to<columns, columns + 8>(to, sums);
  __syncwarp();
}
)";

// Blocks of a cluster see each other's shared memory. Eight results of all of them, added up in the order of the
// blocks.
constexpr const char* cluster_text = R"(#ifdef __CUDACC_RTC__
K_FN void gpu_cluster_wait() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
K_FN void gpu_fetch_of_block(f32 (&out)[4], const f32* own, u32 block) {
  u32 there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(gpu_shared_address(own)), "r"(block));
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(out[0]), "=f"(out[1]), "=f"(out[2]), "=f"(out[3]) : "r"(there) : "memory");
}
#endif
template <int parts> K_FN void gpu_join(f32 (&result)[8], const f32* own) {
  f32 of[parts][2][4];
#pragma unroll
  for (int block = 0; block < parts; ++block)
#pragma unroll
    for (int half = 0; half < 2; ++half) gpu_fetch_of_block(of[block][half], own + half * 4, block);
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    result[e] = of[0][e / 4][e % 4];
#pragma unroll
    for (int block = 1; block < parts; ++block) result[e] += of[block][e / 4][e % 4];
  }
}
)";

}  // namespace

const char* cuda_cluster_prelude() { return cluster_text; }

std::string cuda_tile_prelude() { return str(matrix_instructions_text, tile_text); }

}  // namespace kiln::codegen
