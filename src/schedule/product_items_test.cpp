#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"
#include "schedule/sample_run_test.h"

namespace kiln::loops {
namespace {

LoopProgram product(int64_t rows, int64_t terms, int64_t columns) {
  const std::string of_rows = str("[", rows, ", ", terms, "] strides [", terms, ", 1]"),
                    of_columns = str("[", terms, ", ", columns, "] strides [", columns, ", 1]"),
                    results = str("[", rows, ", ", columns, "] strides [", columns, ", 1]");
  LoopProgram program =
      parse_loops(str("loops product\nbuffer w f32", of_columns, " constant named \"w\"\nbuffer x f32", of_rows,
                      " input position 0\nbuffer y f32", results,
                      " output position 0\ninput x = buffer x\noutput buffer y\ninit {\n}\nmain {\n",
                      "  kernel product ops [mm] {\n    for i0 in [", rows, "] parallel {\n      for i1 in [", columns,
                      "] parallel {\n        %0 = for r0 in [", terms, R"(] reduce sum.f32 {
          %1 = load.f32 x[i0, r0]
          %2 = load.f32 w[r0, i1]
          %3 = mul.f32 %1, %2
          yield %3
        }
        store y[i0, i1] = %0
      }
    }
  }
}
)"));
  Log log;
  Target target;
  find_contractions(program, log);
  use_templates(program, target, log);
  bind_axes(program, target, log);
  order_sums(program, log);
  count_items(program, log);
  verify(program);
  return program;
}

// What the thread that has most of the tiles has, against an equal share. Items are taken in order.
double busiest(const LoopProgram& program, int64_t rows, int64_t columns, int64_t threads) {
  const Kernel& kernel = std::get<Kernel>(program.block.at(0).what);
  const Tile& tile = kernel.schedule->tile;
  const auto parts = [](int64_t all, int64_t of_part) { return (all + of_part - 1) / of_part; };
  const int64_t tiles = parts(rows, tile.rows), below = parts(tiles, tile.high),
                beside = tile.beside ? parts(columns, tile.vectors * kernel.schedule->lanes) : 1;
  EXPECT_TRUE(kernel.schedule->items.is_constant(below * beside)) << print(program);
  std::vector<int64_t> taken(static_cast<size_t>(threads));
  for (int64_t item = 0; item < below * beside; ++item) {
    const int64_t first = item % below * tile.high;
    *std::min_element(taken.begin(), taken.end()) += std::min(tile.high, tiles - first);
  }
  return static_cast<double>(*std::max_element(taken.begin(), taken.end()) * threads) /
         static_cast<double>(tiles * beside);
}

// Of points of 28 by 28 and of 7 by 7, as in networks for pictures: items in rounds of threads, whatever their number.
TEST(ProductItems, ThreadsHaveEqualParts) {
  struct Size {
    int64_t rows, terms, columns;
  };
  for (const Size& size : {Size{784, 128, 512}, Size{784, 512, 128}, Size{49, 160, 960}, Size{128, 768, 768}}) {
    const LoopProgram program = product(size.rows, size.terms, size.columns);
    for (const int64_t threads : {2, 4, 8, 16})
      EXPECT_LE(busiest(program, size.rows, size.columns, threads), 1.15)
          << size.rows << " rows, " << size.columns << " columns, " << threads << " threads\n"
          << print(program);
  }
}

// Threads are not equally fast. Where an item passes through all columns it is small, and several pass together.
TEST(ProductItems, ManyWhereThreadsMayDiffer) {
  const LoopProgram program = product(3136, 64, 256);
  const Kernel& kernel = std::get<Kernel>(program.block.at(0).what);
  const Tile& tile = kernel.schedule->tile;
  ASSERT_FALSE(tile.beside) << print(program);
  EXPECT_GE(kernel.schedule->items.value(), 8 * 16) << print(program);
  EXPECT_GE(tile.together * tile.high * tile.rows, 64) << "rows that a panel serves\n" << print(program);
}

}  // namespace
}  // namespace kiln::loops
