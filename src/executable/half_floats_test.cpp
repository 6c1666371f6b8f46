// Products of f16, whose rows are widened in front of the products: the same as the interpreter's, for sizes with every
// kind of rest, whatever the number of threads, with every access inside of its buffer.
#include <cstring>

#include "base/cpu_levels.h"
#include "executable/loops_package_test.h"
#include "executable/narrow_window_test.h"
#include "schedule/schedule.h"

namespace kiln {
namespace {

const char* const wide_vectors = "x86-64-v4";

class HalfFloats : public testing::Test {
 protected:
  void SetUp() override {
    if (!check_target(wide_vectors, processor_features()).runs() || !allow_target(wide_vectors))
      GTEST_SKIP() << "this processor has no " << wide_vectors;
  }

  // `part`: what the schedule says.
  void expect_right(const std::string& text, const char* part, std::map<std::string, Tensor> weights,
                    const std::vector<Datum>& inputs) {
    const std::string made = scheduled_tiles(loops::parse_loops(text), codegen::cpu_backend().target(wide_vectors));
    EXPECT_NE(made.find(part), std::string::npos) << made;
    const LoopsPackage package(made, std::move(weights));
    const std::vector<Datum> one = package.run(inputs, {"cpp.threads=1"});
    expect_near(one, package.interpreted(inputs), 1e-3);
    for (const char* setting : {"cpp.threads=2", "cpp.threads=7", "check_bounds=1"}) {
      const std::vector<Datum> again = package.run(inputs, {setting});
      const Tensor &have = again[0].tensor(), &want = one[0].tensor();
      EXPECT_EQ(std::memcmp(have.data(), want.data(), static_cast<size_t>(want.numel()) * 4), 0) << setting;
    }
  }
};

// y = x w^T, in f32: what the sums are, unrounded.
std::string half_product(int64_t rows, int64_t columns, int64_t terms) {
  return str("loops product\nbuffer x f16[", rows, ", ", terms, "] strides [", terms,
             ", 1] input position 0\nbuffer w f16[", columns, ", ", terms, "] strides [", terms,
             ", 1] constant named \"w\"\nbuffer y f32[", rows, ", ", columns, "] strides [", columns,
             ", 1] output position 0\ninput x = buffer x\noutput buffer y\ninit {\n}\nmain {\n",
             "  kernel product ops [linear] {\n    for i0 in [", rows, "] parallel {\n      for i1 in [", columns,
             "] parallel {\n        %0 = for r0 in [", terms, R"(] reduce sum.f32 {
          %1 = load.f16 x[i0, r0]
          %2 = cast.f32 %1
          %3 = load.f16 w[i1, r0]
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

TEST_F(HalfFloats, ProductsAreRight) {
  for (const auto& [rows, columns, terms] : std::vector<std::array<int64_t, 3>>{{32, 64, 64},
                                                                                {70, 50, 48},
                                                                                {5, 40, 96},
                                                                                {33, 17, 17},      // a rest of terms
                                                                                {20, 40, 77},      // in pieces, and one
                                                                                {64, 96, 768},     // in blocks
                                                                                {13, 48, 300}}) {  // and a rest of them
    const Tensor w = filled(DType::f16, {columns, terms}, 3);
    expect_right(half_product(rows, columns, terms), " widened_in x_wide\n", {{"w", w}},
                 {{filled(DType::f16, {rows, terms}, 5)}});
  }
}

// Rows that lie across their terms have no vectors of them, and fewer terms than a vector's are not worth it.
TEST_F(HalfFloats, OtherRowsAreReadAsTheyLie) {
  const Tensor w = filled(DType::f16, {48, 32}, 3);
  std::string text = half_product(40, 48, 32);
  text.replace(text.find("strides [32, 1]"), 15, "strides [1, 40]");
  Tensor x = Tensor::empty_strided(DType::f16, {40, 32}, {1, 40});
  for (int64_t i = 0; i < x.numel(); ++i) x.set_item(i, Scalar(static_cast<double>(i * 7919 % 211 - 105) / 64.0));
  expect_right(text, " vectors high", {{"w", w}}, {{x}});
  expect_right(half_product(40, 48, 7), " vectors", {{"w", filled(DType::f16, {48, 7}, 3)}},
               {{filled(DType::f16, {40, 7}, 5)}});
}

TEST_F(HalfFloats, WindowsAreRight) {
  struct Case {
    int64_t lines, points, channels, columns;
    const char* part;
  };
  for (const Case& c : {Case{9, 28, 32, 64, " rows_in x_line"}, Case{6, 28, 19, 40, " rows_in x_line"},
                        Case{40, 1, 32, 32, " widened_in x_wide"}, Case{23, 1, 21, 40, " widened_in x_wide"}}) {
    const Tensor w = filled(DType::f16, {c.columns, c.channels, 3, 3}, 3);
    expect_right(window_of_three("f16", {c.lines, c.points, c.channels, c.columns}), c.part, {{"w", w}},
                 {{filled(DType::f16, {c.lines, c.points, c.channels}, 5)}});
  }
}

}  // namespace
}  // namespace kiln
