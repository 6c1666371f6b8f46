// What a schedule is made for. The backends list theirs (codegen/backend.h).
#pragma once
#include <cstdint>
#include <string>

#include "types/device.h"

namespace kiln::loops {

struct Target {
  std::string name;             // "x86-64-v4", "sm_90a"
  int lanes = 16;               // f32 elements of a vector; 1: scalar code
  int vector_registers = 32;    // that hold such vectors
  bool bf16_pairs = false;      // it adds the products of pairs of bf16 to an f32 by one instruction
  bool byte_quads = false;      // it adds the products of four u8 with four i8 to an i32 by one instruction
  bool matrix_tiles = false;    // it multiplies tiles of bf16 by one instruction: 16 rows by 16 columns by 32 terms
  bool rounds_to_bf16 = false;  // products of f32 round their factors to bf16 (float32_matmul_precision)
  // Bytes of a core's caches and of the pages whose addresses are at hand, and bytes a cycle that come: from the second
  // cache, from more of its pages than that, from beyond it. Of the usual processor: a package runs on others too.
  double near_cache = 32 << 10, page_reach = 192 << 10, second_cache = 1 << 20;
  double second_rate = 24, far_rate = 14, memory_rate = 6;

  DeviceType device = DeviceType::cpu;
  // A GPU: multiprocessors of the usual one of its kind, bytes that the threads of a block can share.
  int multiprocessors = 0;
  int64_t shared_memory = 0;
  int most_parts = 1;       // blocks that can see each other's shared memory
  bool warpgroups = false;  // four warps multiply together what lies in shared memory (wgmma)
  bool tf32 = false;        // products of f32 may round their factors to TF32 (float32_matmul_precision)
  bool is_gpu() const { return device == DeviceType::cuda; }
};

}  // namespace kiln::loops
