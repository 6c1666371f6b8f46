#include "codegen/cuda/prelude_warpgroups.h"

#include "base/text.h"

namespace kiln::codegen {
namespace {

// The instructions themselves. A compiler of the host has functions of the same names (tests/cuda_stand_in).
// They are of one architecture alone: where the text becomes PTX for newer ones, warps multiply by themselves.
constexpr const char* warpgroup_instructions_text =
    R"(#if !defined(__CUDACC_RTC__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define GPU_WARPGROUPS
#endif
#if defined(__CUDACC_RTC__) && defined(GPU_WARPGROUPS)
K_FN u32 gpu_shared_place(const void* p) { return gpu_shared_address(p); }
K_FN void gpu_show_stages() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
K_FN void gpu_wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
K_FN void gpu_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int left> K_FN void gpu_wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(left) : "memory");
}
// The compiler does not know that an instruction under way has these registers: nothing of them moves across this.
template <int n> K_FN void gpu_hold_sums(f32 (&sums)[n][4]) {
#pragma unroll
  for (int j = 0; j < n; ++j)
    asm volatile("" : "+f"(sums[j][0]), "+f"(sums[j][1]), "+f"(sums[j][2]), "+f"(sums[j][3]) :: "memory");
}
#endif
)";

// $n columns.
constexpr const char* matrix_head = R"(struct gpu_wgmma_$n {
  template <class type, int left_across, int right_across> K_FN void add(f32 (&sums)[$n / 8][4], u64 left, u64 right) {
#if defined(__CUDACC_RTC__) && defined(GPU_WARPGROUPS)
)";
constexpr const char* matrix_tail = R"(#elif defined(GPU_WARPGROUPS)
    gpu_wgmma(sums, left, right, type::is_bf16, left_across, right_across);
#endif
  }
};
)";

// One matrix instruction of 64 rows, so many columns and 16 terms, for either type.
std::string matrix_text(int columns) {
  const int registers = columns / 2;
  std::string names, operands;
  for (int i = 0; i < registers; ++i) {
    names += str(i == 0 ? "%" : ", %", i);
    operands += str(i == 0 ? "" : ", ", "\"+f\"(sums[", i / 4, "][", i % 4, "])");
  }
  std::string out = replace_all(matrix_head, "$n", std::to_string(columns));
  for (const char* type : {"bf16", "f16"})
    out += str("    if constexpr (", type[0] == 'b' ? "" : "!", "type::is_bf16)\n",
               "      asm volatile(\"wgmma.mma_async.sync.aligned.m64n", columns, "k16.f32.", type, ".", type, " {",
               names, "}, %", registers, ", %", registers + 1, ", 1, 1, 1, %", registers + 2, ", %", registers + 3,
               ";\"\n        : ", operands,
               "\n        : \"l\"(left), \"l\"(right), \"n\"(left_across), \"n\"(right_across));\n");
  return out + matrix_tail;
}

// A tile in shared memory has lines of 128 bytes whose words of 16 are exchanged as gpu_chunk_place<8> does it, which
// is what the instructions expect of stages that begin at a multiple of 1024 bytes. Lines along the terms stand below
// one another; of lines across the terms, blocks of 64 columns do, each of 64 terms.
constexpr const char* warpgroup_text = R"(K_FN int gpu_block_place(int line, int chunk) {
  return chunk / 8 * (64 * 8) + gpu_chunk_place<8>(line, chunk % 8);
}
#ifdef GPU_WARPGROUPS
// Where matrices begin, for the instructions: eight lines are 1024 bytes, blocks beside one another 8192 apart. Which
// block of a cluster the memory is, in the upper bits of its address, is not a part of it.
K_FN u64 gpu_matrices(const void* first) {
  return (u64)((gpu_shared_place(first) & 0x3ffff) >> 4) | (u64)(8192 >> 4) << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}
// All products of a tile. While one stage is multiplied, the threads have the one behind the last that is on its way
// fetched; it takes the place of the stage before the last one, whose products everybody has waited for.
template <class type, class matrix, int tile_rows, int tile_columns, bool left_along, bool right_along, int rows,
          int columns, int stages, class T, class F>
K_FN void gpu_warpgroup_products(const T* left_tiles, const T* right_tiles, int first_row, int first_column, int steps,
                                 F fetch, f32 (&sums)[rows / 64][columns / 8][4]) {
  constexpr int terms = 64, left_way = left_along ? 32 : 2048, right_way = right_along ? 32 : 2048;
#pragma unroll 1
  for (int step = 0; step < stages - 2; ++step) fetch(step);
  for (int step = 0; step < steps; ++step) {
    gpu_copy_wait<stages - 3>();
    gpu_show_stages();
    __syncthreads();
    const u64 left = gpu_matrices(left_tiles + (step % stages * tile_rows + first_row) * terms);
    const u64 right = gpu_matrices(right_tiles + (step % stages * tile_columns + first_column) * terms);
#pragma unroll
    for (int i = 0; i < rows / 64; ++i) gpu_hold_sums(sums[i]);
    gpu_wgmma_begin();
#pragma unroll
    for (int at = 0; at < terms / 16; ++at)
#pragma unroll
      for (int i = 0; i < rows / 64; ++i)
        matrix::template add<type, !left_along, !right_along>(sums[i], left + (i * 8192 + at * left_way) / 16,
                                                              right + at * right_way / 16);
    gpu_wgmma_commit();
    fetch(step + stages - 2);
    gpu_wgmma_wait<1>();
#pragma unroll
    for (int i = 0; i < rows / 64; ++i) gpu_hold_sums(sums[i]);
  }
  gpu_wgmma_wait<0>();
#pragma unroll
  for (int i = 0; i < rows / 64; ++i) gpu_hold_sums(sums[i]);
}
#else
// The same by each warp's own matrix instructions.
template <class type, class matrix, int tile_rows, int tile_columns, bool left_along, bool right_along, int rows,
          int columns, int stages, class T, class F>
K_FN void gpu_warpgroup_products(const T* left_tiles, const T* right_tiles, int first_row, int first_column, int steps,
                                 F fetch, f32 (&sums)[rows / 64][columns / 8][4]) {
  constexpr int terms = 64;
  const int lane = threadIdx.x % 32;
  gpu_staged<stages>(steps, fetch, [&](int step) {
    const T* const left = left_tiles + step % stages * tile_rows * terms;
    const T* const right = right_tiles + step % stages * tile_columns * terms;
#pragma unroll
    for (int term = 0; term < terms; term += 16) {
      u32 a[rows / 64][4];
#pragma unroll
      for (int i = 0; i < rows / 64; ++i) {
        const int row = first_row + i * 64 + threadIdx.x / 32 % 4 * 16;
        if (left_along)
          gpu_load_matrices(a[i], left + gpu_chunk_place<8>(row + lane % 16, term / 8 + lane / 16) * 8);
        else
          gpu_load_matrices_across(
              a[i], left + gpu_block_place(term + lane % 8 + lane / 16 * 8, row / 8 + lane / 8 % 2) * 8);
      }
#pragma unroll
      for (int j = 0; j < columns; j += 16) {
        const int column = first_column + j;
        u32 b[4];
        if (right_along)
          gpu_load_matrices(b, right + gpu_chunk_place<8>(column + lane % 8 + lane / 16 * 8, term / 8 + lane / 8 % 2) * 8);
        else
          gpu_load_matrices_across(b, right + gpu_block_place(term + lane % 16, column / 8 + lane / 16) * 8);
#pragma unroll
        for (int i = 0; i < rows / 64; ++i) {
          type::mma(sums[i][j / 8], a[i], b[0], b[1]);
          type::mma(sums[i][j / 8 + 1], a[i], b[2], b[3]);
        }
      }
    }
  });
}
#endif
)";

}  // namespace

std::string cuda_warpgroup_prelude(const std::string& kernels) {
  std::string out = warpgroup_instructions_text;
  for (int columns = 16; columns <= 256; columns += 16)
    if (kernels.find(str("gpu_wgmma_", columns, ",")) != std::string::npos) out += matrix_text(columns);
  return out + warpgroup_text;
}

}  // namespace kiln::codegen
