// Innermost loops that read in pieces, or from several lines by turns: text in, text out, and the same values.
#include "loop_passes/pass_test.h"
#include "schedule/sample_run_test.h"

namespace kiln::loops {
namespace {

// Lines of `from` elements, of which lines of `to` are made.
std::string lines(const std::string& from, const std::string& to, const std::string& index,
                  const std::string& symbols = "") {
  return "loops lines\n" + symbols + "buffer x f32[4, " + from + "] strides [" + from +
         ", 1] input position 0\nbuffer y f32[4, " + to + "] strides [" + to +
         R"(, 1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel move ops [move] {
    for i0 in [4] parallel {
      %2 = constant.f32 2.0
      for i1 in [)" +
         to + R"(] parallel {
        %0 = load.f32 x[)" +
         index + R"(]
        %1 = mul.f32 %0, %2
        store y[i0, i1] = %1
      }
    }
    name %1 = y[i0, i1]
  }
}
)";
}

std::string in_pieces(const std::string& text) {
  LoopProgram program = parsed(text);
  Log log;
  collapse_loops(program, Target(), log);
  verify(program);
  if (program.symbols.empty()) expect_near(run_on_samples(program), run_on_samples(parsed(text)), 0);
  return print(program);
}

TEST(SplitPieces, ARolledLineHasTwo) {
  const std::string text = in_pieces(lines("96", "96", "i0, (i1 + 93) % 96"));
  EXPECT_TEXT(text, "for i2 in [3] parallel {\n        %3 = load.f32 x[i0, i2 + 93]");
  EXPECT_TEXT(text, "for i3 in [93] parallel {\n        %5 = load.f32 x[i0, i3]");
  EXPECT_TEXT(text, "store y[i0, i3 + 3]");
  EXPECT_TEXT(text, "name %4 = y[i0, i2]");
  EXPECT_TEXT(text, "name %6 = y[i0, i3 + 3]");
}

TEST(SplitPieces, AReflectedLineHasThree) {
  const std::string text =
      in_pieces(lines("40", "46", "i0, 39 - max(39 - max(i1 - 3, 3 - i1), max(i1 - 3, 3 - i1) - 39)"));
  EXPECT_TEXT(text, "for i2 in [3] parallel {\n        %3 = load.f32 x[i0, -i2 + 3]");
  EXPECT_TEXT(text, "load.f32 x[i0, i3]");
  EXPECT_TEXT(text, "load.f32 x[i0, -i4 + ");
}

// The line may be shorter than what it is rolled by: then the second piece has nothing, and the first one is as it was.
TEST(SplitPieces, SizesNeedNotBeKnown) {
  const std::string text = in_pieces(lines("s0", "s0", "i0, (i1 - 3) % s0", "symbol s0 in [2, inf] hint 96\n"));
  EXPECT_TEXT(text, "for i2 in [min(s0, 3)] parallel {\n        %3 = load.f32 x[i0, (i2 - 3) % s0]");
  EXPECT_TEXT(text, "for i3 in [max(0, s0 - 3)] parallel {\n        %5 = load.f32 x[i0, i3]");
}

// While a body is rewritten, what stood before is not in the kernel any more.
TEST(SplitPieces, SeveralLoopsOfABody) {
  std::string text = lines("96", "96", "i0, (i1 + 93) % 96");
  const size_t begin = text.find("      for i1"), end = text.find("    }\n    name");
  std::string second = replace_all(text.substr(begin, end - begin), "i1", "i9");
  for (const char* value : {"%0", "%1 ", "%1\n"})
    second = replace_all(second, value, str("%", value[1] == '0' ? 3 : 4, value + 2));
  text.insert(end, replace_all(second, "+ 93", "+ 92"));
  EXPECT_TEXT(in_pieces(text), "load.f32 x[i0, i4 + 92]");
}

TEST(SplitPieces, WhatGoesAlongMemoryStaysWhole) {
  EXPECT_TEXT(in_pieces(lines("96", "90", "i0, i1 + 6")), "for i1 in [90] parallel {");
  EXPECT_TEXT(in_pieces(lines("96", "96", "i0, (i1*5) % 96")), "for i1 in [96] parallel {");
}

// Three lines are no part of a vector's lanes; of two, lanes take half each (lanes_by_turns).
TEST(SplitTurns, EachLineIsReadAlong) {
  const std::string text = in_pieces(lines("32", "96", "(i1 % 3) + i0 // 4, i1 // 3"));
  EXPECT_TEXT(text, "for o0 in [3] parallel {\n        for i1 in [32] parallel {");
  EXPECT_TEXT(text, "store y[i0, i1*3 + o0]");
}

TEST(SplitTurns, WhatLanesPutTogetherStaysWhole) {
  EXPECT_TEXT(in_pieces(lines("48", "96", "(i1 % 2)*2 + i0 // 2, i1 // 2")), "for i1 in [96] parallel {");
}

TEST(SplitTurns, WhatLanesShareIsDealtOut) {
  EXPECT_TEXT(in_pieces(lines("48", "96", "i0, i1 // 2")), "for i1 in [96] parallel {");
}

}  // namespace
}  // namespace kiln::loops
