// When the rows of a tile are points of one line.
#include <gtest/gtest.h>

#include "loop_passes/pass_test.h"
#include "loops/line_windows.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// A window of 3 × 3 over `lines` × `width` points of 32 channels, `step` apart, with or without padding.
struct LineConvolution {
  int64_t width = 56, step = 1, columns = 64, depth = 32;
  std::string in_line = "lt.bool %8, %12";
  int64_t points() const { return (width - 1) / step + 1; }
  std::string text() const {
    const std::string at = step == 1 ? "i3 + r2 - 1" : str("i3*", step, " + r2 - 1");
    return str("loops window\nbuffer x f32[9, ", width, ", 32] strides [", width * depth, ", ", depth,
               ", 1] input position 0\nbuffer w f32[", columns,
               ", 32, 3, 3] strides [288, 9, 3, 1] constant named \"w\"\nbuffer y f32[9, ", points(), ", ", columns,
               "] strides [", points() * columns, ", ", columns,
               ", 1] output position 0\ninput x = buffer x\noutput buffer y\ninit {\n}\nmain {\n",
               "  kernel window ops [convolution] {\n    for i2 in [9] parallel {\n      for i3 in [", points(),
               "] parallel {\n        for i1 in [", columns, R"(] parallel {
          %0 = index.i64 [0]
          %3 = index.i64 [9]
          %12 = index.i64 [)",
               width, R"(]
          %19 = for r0 in [32] reduce sum.f32 {
            %21 = for r1 in [3] reduce sum.f32 {
              %1 = index.i64 [i2 + r1 - 1]
              %2 = ge.bool %1, %0
              %5 = lt.bool %1, %3
              %6 = logical_and.bool %2, %5
              %18 = for r2 in [3] reduce sum.f32 {
                %8 = index.i64 [)",
               at, R"(]
                %9 = ge.bool %8, %0
                %10 = logical_and.bool %6, %9
                %13 = )",
               in_line, R"(
                %14 = logical_and.bool %10, %13
                %15 = load.f32 x[i2 + r1 - 1, )",
               at, R"(, r0] mask %14
                %16 = load.f32 w[i1, r0, r1, r2]
                %17 = mul.f32 %15, %16
                yield %17
              }
              yield %18
            }
            yield %21
          }
          store y[i2, i3, i1] = %19
        }
      }
    }
  }
}
)");
  }
};

LoopProgram tiled_lines(const std::string& text) {
  LoopProgram program = parsed(text);
  Log log;
  simplify_bodies(program, log);
  hoist_invariants(program, log);
  find_contractions(program, log);
  use_templates(program, Target(), log);
  verify(program);
  bind_axes(program, Target(), log);
  order_sums(program, log);
  count_items(program, log);
  verify(program);
  const std::string made = print(program);
  EXPECT_EQ(print(parse_loops(made)), made);
  return program;
}

LoopProgram tiled_lines(const LineConvolution& convolution) { return tiled_lines(convolution.text()); }

const Kernel& line_kernel(const LoopProgram& program) { return std::get<Kernel>(program.block[0].what); }
bool tile_is_on_lines(const LineConvolution& convolution) {
  return takes_lines(line_kernel(tiled_lines(convolution)).schedule->tile);
}

TEST(LineTiles, AWindowWithPadding) {
  const LoopProgram program = tiled_lines(LineConvolution());
  const Kernel& kernel = line_kernel(program);
  const Tile& tile = kernel.schedule->tile;
  ASSERT_TRUE(takes_lines(tile)) << print(program);
  EXPECT_EQ(tile.rows, 14);  // four to a line of 56
  const auto window = line_window(kernel, program);
  ASSERT_TRUE(window.has_value());
  EXPECT_EQ(window->span(tile.rows), 16);
  EXPECT_TRUE(window->tiles(tile.rows).is_constant(4));
  EXPECT_EQ(window->before, 1);
  EXPECT_EQ(window->lines.size(), 1u);
  const Buffer& copy = program.buffers[static_cast<size_t>(tile.rows_copy)];
  EXPECT_EQ(copy.role, BufferRole::scratch);
  EXPECT_TRUE(copy.sizes[0].is_constant(16) && copy.sizes[1].is_constant(32));
}

// Tiles may end behind the end of a line, not far.
TEST(LineTiles, LinesThatAreNoMultiple) {
  LineConvolution wide;
  wide.width = 256;
  const LoopProgram program = tiled_lines(wide);
  const Tile& tile = line_kernel(program).schedule->tile;
  ASSERT_TRUE(takes_lines(tile));
  const int64_t tiles = (256 + tile.rows - 1) / tile.rows;
  EXPECT_LE(static_cast<double>(tiles * tile.rows), 256 * 1.07);
  EXPECT_TRUE(line_kernel(program).schedule->items.is_constant((9 * tiles + tile.high - 1) / tile.high));
}

// Rows beyond the last point of a line of unknown length cost less than each row's own place and mask.
TEST(LineTiles, LinesOfAnyLength) {
  for (const int64_t columns : {16, 64}) {
    LineConvolution any;
    any.columns = columns;
    std::string text = replace_all(any.text(), "loops window\n", "loops window\nsymbol s0 in [1, 999] hint 56\n");
    text = replace_all(replace_all(text, "[9, 56, ", "[9, s0, "), "[56]", "[s0]");
    text = replace_all(replace_all(text, "strides [1792,", "strides [s0*32,"), str("strides [", 56 * columns, ","),
                       str("strides [s0*", columns, ","));
    const LoopProgram program = tiled_lines(text);
    const Tile& tile = line_kernel(program).schedule->tile;
    ASSERT_TRUE(takes_lines(tile)) << print(program);
    EXPECT_LT(tile.rows, 14);  // of which many would lie beyond
    EXPECT_EQ(line_window(line_kernel(program), program)->tiles(tile.rows), ceildiv(Expr::symbol("s0"), tile.rows));
    EXPECT_EQ(line_kernel(program).schedule->items,
              ceildiv(9 * ceildiv(Expr::symbol("s0"), tile.rows) * tile.rows, tile.rows * tile.high));
  }
}

TEST(LineTiles, EverySecondPoint) {
  LineConvolution second;
  second.step = 2;
  const LoopProgram program = tiled_lines(second);
  const Tile& tile = line_kernel(program).schedule->tile;
  ASSERT_TRUE(takes_lines(tile));
  EXPECT_EQ(line_window(line_kernel(program), program)->span(tile.rows), 2 * tile.rows + 1);
}

TEST(LineTiles, PointsFurtherApartThanTheirChannels) {
  LineConvolution part;
  part.depth = 96;
  const LoopProgram program = tiled_lines(part);
  ASSERT_TRUE(takes_lines(line_kernel(program).schedule->tile));
  EXPECT_EQ(line_window(line_kernel(program), program)->distance, 96);
}

TEST(LineTiles, NotUnderAnotherMask) {
  LineConvolution shorter;
  shorter.in_line = "lt.bool %8, %3";  // ends in the middle of the line
  EXPECT_FALSE(tile_is_on_lines(shorter));
}

}  // namespace
}  // namespace kiln::loops
