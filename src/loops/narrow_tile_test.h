// A product of bf16 or f16 as a tile, in text.
#pragma once
#include "base/text.h"

namespace kiln::loops {

struct NarrowTile {
  const char *dtype, *result;
  const char* scratch;   // as a buffer of the program
  const char* schedule;  // behind "schedule"
  int rows;              // of the tile
  const char* order;     // of the sum
};

inline constexpr NarrowTile brain_float_tile = {
    "bf16",
    "f32",
    "a_rows bf16[32, 32]",
    "items [2] grain 1 lanes 16 tile 32 rows 2 vectors matrix rows_in a_rows",
    32,
    "fused pairs blocks(32, f32)"};

inline std::string text_of(const NarrowTile& tile) {
  const std::string text = R"(loops t
buffer a DTYPE[40, 32] strides [32, 1] input position 0
buffer b DTYPE[32, 32] strides [32, 1] input position 1
buffer SCRATCH strides [32, 1] scratch
buffer y RESULT[40, 32] strides [32, 1] output position 0
input a = buffer a
input b = buffer b
output buffer y
init {
}
main {
  kernel cpp_mm_0 ops [mm] {
    contraction batch [] rows [i0] columns [i1] sums [r0] left %2 of [%1, %2] right %4 of [%3, %4] shared []
    schedule SCHEDULE
    for i0 in [40] parallel @item(ROWS, mask) {
      for i1 in [32] parallel @lane(16, mask) {
        %0 = for r0 in [32] reduce sum.f32 ORDER {
          %1 = load.DTYPE a[i0, r0]
          %2 = cast.f32 %1
          %3 = load.DTYPE b[r0, i1]
          %4 = cast.f32 %3
          %5 = mul.f32 %2, %4
          yield %5
        }
        store y[i0, i1] = %0
      }
    }
  }
}
)";
  std::string out = replace_all(replace_all(text, "DTYPE", tile.dtype), "RESULT", tile.result);
  out = replace_all(replace_all(out, "SCRATCH", tile.scratch), "SCHEDULE", tile.schedule);
  return replace_all(replace_all(out, "ROWS", std::to_string(tile.rows)), "ORDER", tile.order);
}

}  // namespace kiln::loops
