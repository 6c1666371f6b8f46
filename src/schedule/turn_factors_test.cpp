// A product with its right factor the wrong way round: text in, text out, and the same results.
#include <gtest/gtest.h>

#include "loop_passes/pass_test.h"
#include "schedule/sample_run_test.h"

namespace kiln::loops {
namespace {

// y[b, i, j] = sum over r of t[b, i, r] * t[b, j, r], with t = -x; of so many rows i and terms r.
std::string pairs_of(int64_t rows, int64_t terms) {
  std::string text = R"(loops pairs
buffer x f32[3, 27, TERMS] strides [27*TERMS, TERMS, 1] input position 0
buffer t f32[3, 27, TERMS] strides [27*TERMS, TERMS, 1] temp
buffer y f32[3, ROWS, 27] strides [27*ROWS, 27, 1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel make ops [neg] {
    for i0 in [3] parallel {
      for i1 in [27] parallel {
        for i2 in [TERMS] parallel {
          %0 = load.f32 x[i0, i1, i2]
          %1 = neg.f32 %0
          store t[i0, i1, i2] = %1
        }
      }
    }
  }
  kernel product ops [bmm] {
    for i0 in [3] parallel {
      for i1 in [ROWS] parallel {
        for i2 in [27] parallel {
          %0 = for r0 in [TERMS] reduce sum.f32 {
            %1 = load.f32 t[i0, i1, r0]
            %2 = load.f32 t[i0, i2, r0]
            %3 = mul.f32 %1, %2
            yield %3
          }
          store y[i0, i1, i2] = %0
        }
      }
    }
  }
}
)";
  text = replace_all(text, "27*TERMS", std::to_string(27 * terms));
  text = replace_all(text, "27*ROWS", std::to_string(27 * rows));
  text = replace_all(text, "TERMS", std::to_string(terms));
  return replace_all(text, "ROWS", std::to_string(rows));
}

Target sixteen_lanes() {
  Target target;
  target.lanes = 16;
  return target;
}

TEST(TurnFactors, CopiesAFactorWhoseColumnsAreApart) {
  LoopProgram program = parsed(pairs_of(27, 64));
  const std::vector<Datum> before = run_on_samples(program);
  Log log;
  find_contractions(program, log);
  EXPECT_TRUE(turn_factors(program, sixteen_lanes(), log));
  verify(program);
  const std::string text = print(program);
  EXPECT_EQ(print(parse_loops(text)), text);
  for (const char* part : {"buffer t_turned f32[3, 64, 27] strides [1728, 27, 1] temp", "load.f32 t[i0, i2, i1]",
                           "load.f32 t_turned[i0, r0, i2]", "load.f32 t[i0, i1, r0]"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_EQ(log.decisions().back().text(), "turn t for product: its columns are not neighbours in memory");
  expect_near(run_on_samples(program), before, 0);
  EXPECT_FALSE(turn_factors(program, sixteen_lanes(), log)) << "it is turned once";
  // It runs in tiles now.
  EXPECT_TRUE(use_templates(program, sixteen_lanes(), log));
}

// y[i, c] = sum over a, r of x[i + a, r] * w[c, r, a]: a convolution whose weights are an input.
const char* const window_of_inputs = R"(loops window
buffer x f32[42, 16] strides [16, 1] input position 0
buffer w f32[20, 16, 3] strides [48, 3, 1] input position 1
buffer y f32[40, 20] strides [20, 1] output position 0
input x = buffer x
input w = buffer w
output buffer y
init {
}
main {
  kernel window ops [convolution] {
    for i0 in [40] parallel {
      for i1 in [20] parallel {
        %0 = for r0 in [16] reduce sum.f32 {
          %1 = for r1 in [3] reduce sum.f32 {
            %2 = load.f32 x[i0 + r1, r0]
            %3 = load.f32 w[i1, r0, r1]
            %4 = mul.f32 %2, %3
            yield %4
          }
          yield %1
        }
        store y[i0, i1] = %0
      }
    }
  }
}
)";

TEST(TurnFactors, CopiesTheWeightsOfAWindow) {
  LoopProgram program = parsed(window_of_inputs);
  const std::vector<Datum> before = run_on_samples(program);
  Log log;
  find_contractions(program, log);
  EXPECT_TRUE(turn_factors(program, sixteen_lanes(), log));
  verify(program);
  expect_all(print(program), {"buffer w_turned f32[3, 16, 20] strides [320, 20, 1] temp", "load.f32 w[i2, i1, i0]",
                              "load.f32 w_turned[r1, r0, i1]"});
  EXPECT_FALSE(turn_factors(program, sixteen_lanes(), log)) << "it is turned once";
  EXPECT_TRUE(use_templates(program, sixteen_lanes(), log));
  expect_near(run_on_samples(program), before, 1e-4);
}

TEST(TurnFactors, LeavesWhatACopyDoesNotPayFor) {
  Log log;
  for (const auto& [rows, terms] : {std::pair<int64_t, int64_t>{2, 4096}, {27, 8}}) {
    LoopProgram program = parsed(pairs_of(rows, terms));
    find_contractions(program, log);
    EXPECT_FALSE(turn_factors(program, sixteen_lanes(), log)) << rows << " rows of " << terms << " terms";
  }
  LoopProgram program = parsed(pairs_of(27, 64));
  find_contractions(program, log);
  EXPECT_FALSE(turn_factors(program, an_h200(), log)) << "a GPU brings either way into shared memory";
}

}  // namespace
}  // namespace kiln::loops
