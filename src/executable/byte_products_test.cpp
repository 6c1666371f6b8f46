// Products of bytes by the instruction that adds four of them: the same as the interpreter's, for sizes with every kind
// of rest, whatever the number of threads, with every access inside of its buffer; and weights that change.
#include <cmath>
#include <cstring>

#include "base/cpu_levels.h"
#include "executable/loops_package_test.h"
#include "loops/work_count.h"
#include "schedule/quantised_loops_test.h"

namespace kiln {
namespace {

const char* const with_bytes = "x86-64-v4+vnni";

loops::LoopProgram of_bytes(const std::string& text) {
  loops::LoopProgram program = loops::parse_loops(text);
  loops::Log log;
  EXPECT_TRUE(loops::multiply_bytes(program, codegen::cpu_backend().target(with_bytes), log,
                                    [](const std::string&) { return true; }));
  return program;
}

std::string scheduled(loops::LoopProgram program) {
  loops::Log log;
  loops::hoist_invariants(program, log);
  const std::string made = scheduled_tiles(std::move(program), codegen::cpu_backend().target(with_bytes));
  EXPECT_NE(made.find(" quads\n"), std::string::npos) << made;
  return made;
}

std::map<std::string, Tensor> weights(const QuantisedSizes& s, int64_t window) {
  return {{"w", filled(DType::i8, {s.columns, s.channels, window, window}, 3)},
          {"s", filled(DType::f32, {s.columns}, 4)},
          {"z", Tensor::empty(DType::i64, {s.columns})}};
}

struct Product {
  QuantisedSizes sizes;
  const char* byte;
  int zero;
  int64_t window;
};

class ByteProducts : public testing::TestWithParam<Product> {};

TEST_P(ByteProducts, AreRight) {
  const auto& [s, byte, zero, window] = GetParam();
  if (!check_target(with_bytes, processor_features()).runs()) GTEST_SKIP() << "this processor has no " << with_bytes;
  const std::string text = quantised_window(s, byte, zero, window);
  const LoopsPackage package(scheduled(of_bytes(text)), weights(s, window));
  const std::vector<Datum> inputs = {{filled(DType::f32, {s.lines, s.points, s.channels}, 5)}};
  // Beside the program as it was: the sums of f32 are rounded there.
  loops::LoopProgram plain = loops::parse_loops(text);
  expect_near(package.interpreted(inputs), loops::LoopInterpreter(plain, weights(s, window), {}).run(inputs).outputs,
              1e-2);
  expect_runs(package, inputs, package.interpreted(inputs), 0);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ByteProducts,
                         testing::Values(Product{{8, 8, 64, 64}, "u8", 0, 1},      // whole tiles
                                         Product{{5, 7, 36, 50}, "u8", 3, 1},      // rests of rows and columns
                                         Product{{1, 5, 4, 17}, "u8", 255, 1},     // one instruction's terms
                                         Product{{1, 2, 8, 16}, "i8", -7, 1},      // two rows
                                         Product{{3, 41, 260, 40}, "i8", 0, 1},    // a sign, no zero point
                                         Product{{6, 9, 16, 33}, "u8", 0, 3},      // a border of zeros
                                         Product{{7, 5, 12, 64}, "u8", 131, 3},    // a border of zero points
                                         Product{{5, 11, 20, 24}, "i8", 9, 3},     // the same, with a sign
                                         Product{{1, 3, 8, 20}, "i8", -128, 3},    // more border than picture
                                         Product{{14, 14, 32, 128}, "u8", 60, 3})  // several items
);

// What profile counts: multiply-adds of bytes, beside what instructions for them can do.
TEST(ByteProductsOf, AreCountedAsSuch) {
  const QuantisedSizes s = {8, 8, 64, 32};
  const loops::LoopProgram program = loops::parse_loops(scheduled(of_bytes(quantised_window(s, "u8", 0, 1))));
  const auto& kernel = std::get<loops::Kernel>(program.block.back().what);
  EXPECT_EQ(arithmetic_of(kernel), Arithmetic::byte_quads);
  const double products = 8 * 8 * 64 * 32;
  EXPECT_NEAR(count_work(kernel, program.buffers, {}).flops, 2 * products, 0.1 * products);
}

// Zero points of a weight that were 0 are looked at again when weights are loaded: others are refused by name.
TEST(ByteProductsOf, OtherZeroPointsAreRefused) {
  if (!check_target(with_bytes, processor_features()).runs()) GTEST_SKIP() << "this processor has no " << with_bytes;
  const QuantisedSizes s = {8, 8, 64, 64};
  std::map<std::string, Tensor> changed = weights(s, 1);
  changed["z"].set_item(5, Scalar(int64_t{1}));
  const LoopsPackage package(scheduled(of_bytes(quantised_window(s, "u8", 3, 1))), changed);
  const std::string why = package.refused({{filled(DType::f32, {s.lines, s.points, s.channels}, 5)}});
  EXPECT_NE(why.find("the zero points z of a weight were 0 when the program was compiled"), std::string::npos) << why;
}

// So are scales that are not finite, also where no zero point needs the sums of the weights.
TEST(ByteProductsOf, InfiniteScalesOfAWeightAreRefused) {
  if (!check_target(with_bytes, processor_features()).runs()) GTEST_SKIP() << "this processor has no " << with_bytes;
  const QuantisedSizes s = {8, 8, 64, 64};
  for (const int zero : {0, 3}) {
    std::map<std::string, Tensor> changed = weights(s, 1);
    changed["s"].set_item(5, Scalar(static_cast<double>(INFINITY)));
    const LoopsPackage package(scheduled(of_bytes(quantised_window(s, "u8", zero, 1))), changed);
    const std::string why = package.refused({{filled(DType::f32, {s.lines, s.points, s.channels}, 5)}});
    EXPECT_NE(why.find("the scales s of a weight are not all finite"), std::string::npos) << why;
  }
}

}  // namespace
}  // namespace kiln
