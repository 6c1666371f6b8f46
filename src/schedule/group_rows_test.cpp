// When a product takes its rows in groups.
#include <gtest/gtest.h>

#include "loop_passes/pass_test.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

std::string product_of(const std::string& rows, int64_t terms, int64_t columns) {
  return str("loops product\nsymbol s0 in [2, 4096] hint 1500\nbuffer x f32[", rows, ", ", terms, "] strides [", terms,
             ", 1] input position 0\nbuffer w f32[", terms, ", ", columns, "] strides [", columns,
             ", 1] constant named \"w\"\nbuffer y f32[", rows, ", ", columns, "] strides [", columns,
             ", 1] output position 0\ninput x = buffer x\noutput buffer y\ninit {\n}\nmain {\n",
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
)");
}

// "4 of 375": groups, and the rows of each.
std::string groups_of(const std::string& rows, int64_t terms, int64_t columns) {
  LoopProgram program = parsed(product_of(rows, terms, columns));
  Log log;
  find_contractions(program, log);
  use_templates(program, Target(), log);
  verify(program);
  bind_axes(program, Target(), log);
  order_sums(program, log);
  count_items(program, log);
  verify(program);
  const std::string text = print(program);
  EXPECT_EQ(print(parse_loops(text)), text);
  const ContractionNest nest = contraction_nest(std::get<Kernel>(program.block[0].what));
  return nest.batch.empty() ? "one" : str(nest.batch[0]->extent.text(), " of ", nest.row_count().text());
}

TEST(GroupRows, WhereTheyAreMoreThanTheCacheHolds) {
  EXPECT_EQ(groups_of("1500", 512, 512), "4 of 375");
  EXPECT_EQ(groups_of("1500", 2048, 512), "25 of 60");
}
TEST(GroupRows, NotWhereTheyFit) { EXPECT_EQ(groups_of("197", 768, 3072), "one"); }
TEST(GroupRows, NotForFewColumns) { EXPECT_EQ(groups_of("1500", 512, 64), "one"); }
TEST(GroupRows, NotWhereThereAreNoEqualOnes) { EXPECT_EQ(groups_of("1499", 512, 512), "one"); }
TEST(GroupRows, NotWhereTheirNumberIsNotKnown) { EXPECT_EQ(groups_of("s0", 512, 512), "one"); }

}  // namespace
}  // namespace kiln::loops
