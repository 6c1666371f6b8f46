// split_phases on transposed convolutions in text: which become a loop over phases, what their sums and places are
// then, and that the results stay the same.
#include <gtest/gtest.h>

#include "loops/interpreter.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// Along one dimension: 6 points, 2 channels to 3; the picture's points lie `stride` apart, `padding` are cut off.
std::string transposed(int64_t stride, int64_t window, int64_t padding, int64_t points, const char* condition = "eq",
                       const char* after = "") {
  const std::string spread = str("i2 - r1 + ", padding);
  return str(
      "loops transposed\nbuffer x f32[2, 6] strides [6, 1] input position 0\nbuffer w f32[2, 3, ", window,
      "] strides [", 3 * window, ", ", window, ", 1] constant named \"w\"\nbuffer y f32[3, ", points, "] strides [",
      points, ", 1] output position 0\ninput x = buffer x\noutput buffer y\ninit {\n}\nmain {\n",
      "  kernel transposed ops [convolution] {\n    for i1 in [3] parallel {\n      for i2 in [", points,
      "] parallel {\n        %0 = for r0 in [2] reduce sum.f32 {\n          %1 = for r1 in [", window,
      "] reduce sum.f32 {\n            %2 = index.i64 [", spread, "]\n            %3 = index.i64 [0]\n",
      "            %4 = ge.bool %2, %3\n            %5 = index.i64 [(", spread, ") % ", stride,
      "]\n            %6 = ", condition, ".bool %5, %3\n            %7 = logical_and.bool %4, %6\n",
      "            %8 = index.i64 [(", spread, ") // ", stride,
      "]\n            %9 = index.i64 [6]\n            %10 = lt.bool %8, %9\n",
      "            %11 = logical_and.bool %7, %10\n            %12 = load.f32 x[r0, (", spread, ") // ", stride,
      "] mask %11\n            %13 = load.f32 w[r0, i1, r1]\n            %14 = mul.f32 %12, %13\n",
      "            yield %14\n          }\n          yield %1\n        }\n        store y[i1, i2] = %0\n      }\n",
      after, "    }\n  }\n}\n");
}

LoopProgram in_phases(const std::string& text) {
  LoopProgram program = parse_loops(text);
  verify(program);
  Log log;
  split_phases(program, Target(), log);
  verify(program);
  return program;
}

std::vector<double> results_of(const LoopProgram& program, int64_t window) {
  Tensor x = Tensor::empty(DType::f32, {2, 6}), w = Tensor::empty(DType::f32, {2, 3, window});
  for (int64_t i = 0; i < 2 * 6; ++i) x.set_item(i, Scalar(static_cast<double>(i % 7) - 2.5));
  for (int64_t i = 0; i < 2 * 3 * window; ++i) w.set_item(i, Scalar(static_cast<double>(i % 5) * 0.5 - 0.75));
  LoopInterpreter interpreter(program, {{"w", w}});
  const Tensor y = interpreter.run({Datum{x}}).outputs.at(0).tensor();
  std::vector<double> out;
  for (int64_t i = 0; i < count_elements(y.sizes); ++i) out.push_back(y.item(i).as_double());
  return out;
}

void expect_parts(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(SplitPhases, EachPhaseHasAPlaceOfTheWindow) {
  const std::string text = print(in_phases(transposed(2, 2, 0, 12)));
  expect_parts(text, {"for p0 in [2] parallel {\n      for i1 in [3]", "for i2 in [6] parallel", "load.f32 x[r0, i2]\n",
                      "load.f32 w[r0, i1, p0]", "store y[i1, i2*2 + p0]"});
  EXPECT_EQ(text.find("for r1"), std::string::npos) << text;
  EXPECT_EQ(text.find("mask"), std::string::npos) << text;
}

TEST(SplitPhases, PlacesOfAPhaseAreStrideApart) {
  const std::string text = print(in_phases(transposed(2, 4, 1, 12)));
  expect_parts(text, {"for r1 in [2] reduce", "load.f32 w[r0, i1, r1*2 + (p0 + 1) % 2]", "mask"});
  EXPECT_EQ(text.find("% 2 == 0"), std::string::npos) << text;
}

TEST(SplitPhases, ResultsStay) {
  for (const auto& [stride, window, padding] : std::vector<std::array<int64_t, 3>>{
           {2, 2, 0}, {2, 4, 1}, {2, 3, 1}, {3, 3, 0}, {3, 2, 0}, {3, 5, 1}, {2, 1, 0}, {4, 9, 3}, {2, 5, 4}}) {
    const std::string before = transposed(stride, window, padding, 6 * stride);
    const LoopProgram after = in_phases(before);
    EXPECT_NE(print(after).find("for p0 in"), std::string::npos) << stride << " " << window << " " << padding;
    EXPECT_EQ(results_of(after, window), results_of(parse_loops(before), window))
        << stride << " " << window << " " << padding;
  }
}

TEST(SplitPhases, OthersStayAsTheyAre) {
  const std::string following = "      for j0 in [12] parallel {\n      }\n";
  for (const std::string& text : {transposed(2, 3, 1, 11),                            // phases of different lengths
                                  transposed(2, 2, 0, 12, "ne"),                      // another condition
                                  transposed(2, 2, 0, 12, "eq", following.c_str())})  // what follows wants all points
    EXPECT_EQ(print(in_phases(text)), print(parse_loops(text)));
}

}  // namespace
}  // namespace kiln::loops
