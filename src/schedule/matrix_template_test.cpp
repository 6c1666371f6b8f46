// use_templates on products of bf16 in text: what is taken by matrix instructions and by those for pairs, how the
// weight is packed, what is refused and why.
#include <gtest/gtest.h>

#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

struct MatrixCase {
  int64_t rows = 64, columns = 64, terms = 64;
  const char *left = "i0, r0", *right_role = "constant named \"w\"";
  const char* left_type = "bf16";
  const char* after = "";  // follows the cast of the left factor
};

std::string matrix_product(const MatrixCase& c) {
  const bool transposed = std::string(c.left) == "r0, i0";
  const int64_t outer = transposed ? c.terms : c.rows, inner = transposed ? c.rows : c.terms;
  return str("loops product\nbuffer x ", c.left_type, "[", outer, ", ", inner, "] strides [", inner,
             ", 1] input position 0\nbuffer w bf16[", c.columns, ", ", c.terms, "] strides [", c.terms, ", 1] ",
             c.right_role, "\nbuffer y bf16[", c.rows, ", ", c.columns, "] strides [", c.columns,
             ", 1] output position 0\ninput x = buffer x\n",
             std::string(c.right_role).find("input") == 0 ? "input w = buffer w\n" : "",
             "output buffer y\ninit {\n}\nmain {\n  kernel product ops [linear] {\n    for i0 in [", c.rows,
             "] parallel {\n      for i1 in [", c.columns, "] parallel {\n        %0 = for r0 in [", c.terms,
             "] reduce sum.f32 {\n          %1 = load.", c.left_type, " x[", c.left, "]\n          %2 = cast.f32 %1\n",
             c.after, R"(          %3 = load.bf16 w[i1, r0]
          %4 = cast.f32 %3
          %5 = mul.f32 %2, %4
          yield %5
        }
        store y[i0, i1] = %0
      }
    }
  }
}
)");
}

Target with_matrices() {
  Target target;
  target.bf16_pairs = target.matrix_tiles = true;
  return target;
}

struct MatrixMade {
  std::string text, decisions;
};

MatrixMade made_of(const MatrixCase& c, const Target& target) {
  LoopProgram program = parse_loops(matrix_product(c));
  verify(program);
  Log log;
  find_contractions(program, log);
  use_templates(program, target, log);
  verify(program);
  MatrixMade out{print(program), ""};
  for (const Decision& decision : log.decisions()) out.decisions += str(decision.verdict, " ", decision.reason, "\n");
  return out;
}

void expect_matrix_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(MatrixTemplate, TakesRowsAsTheyLieAndPacksPairs) {
  const std::string text = made_of({}, with_matrices()).text;
  for (const char* part :
       {"tile 32 rows 2 vectors high 2 beside matrix\n",
        "buffer w_packed bf16[2, 32, 32, 2] strides [2048, 64, 2, 1] derived",
        "load.bf16 w_packed[i1 // 32, r0 // 2, i1 % 32, r0 % 2]", "load.bf16 w[i0*32 + i2, i1*2 + i3]"})
    expect_matrix_part(text, part);
}

TEST(MatrixTemplate, CopiesRowsWithARestOfTerms) {
  MatrixCase c;
  c.terms = 40;
  const std::string text = made_of(c, with_matrices()).text;
  for (const char* part : {" matrix rows_in x_rows\n", "buffer x_rows bf16[32, 64] strides [64, 1] scratch",
                           "buffer w_packed bf16[2, 32, 32, 2]", "load.bf16 w[i0*32 + i2, i1*2 + i3] mask"})
    expect_matrix_part(text, part);
}

TEST(MatrixTemplate, HasSmallerTilesForLess) {
  MatrixCase c;
  c.rows = 7, c.columns = 16;
  expect_matrix_part(made_of(c, with_matrices()).text, " tile 16 rows 1 vectors");
}

TEST(MatrixTemplate, SaysWhyNot) {
  MatrixCase transposed, wide, changed, varying;
  transposed.left = "r0, i0";
  wide.left_type = "f32";
  changed.after = "          %6 = neg.f32 %2\n";
  varying.right_role = "input position 1";
  EXPECT_EQ(made_of(changed, with_matrices()).text.find(" matrix"), std::string::npos);
  for (const auto& [c, why] : std::vector<std::pair<MatrixCase, const char*>>{
           {transposed, "terms of the left factor are not neighbours in memory"},
           {wide, "the factors are not bf16 as they lie in memory"},
           {varying, "the right factor is not a constant"}}) {
    const MatrixMade m = made_of(c, with_matrices());
    EXPECT_EQ(m.text.find(" matrix\n"), std::string::npos) << m.text;
    expect_matrix_part(m.decisions, why);
  }
  expect_matrix_part(made_of({}, Target()).decisions, "no matrix instructions");
}

TEST(MatrixTemplate, LeavesTheRestToPairs) {
  Target target;
  target.bf16_pairs = true;
  const std::string text = made_of({}, target).text;
  expect_matrix_part(text, " pairs\n");
  expect_matrix_part(text, "load.bf16 w_packed[r0 // 2, i1, r0 % 2]");
  MatrixCase odd;
  odd.terms = 63;
  EXPECT_EQ(made_of(odd, target).text.find(" pairs\n"), std::string::npos);
}

}  // namespace
}  // namespace kiln::loops
