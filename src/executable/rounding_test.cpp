// How far long sums are from the fp64 reference, by each backend, with fixed and symbolic sizes. Bounds are in units of
// float32's epsilon times the largest result: about what eager's own errors are (bench/rounding.py measures those), and
// less than what one f32 accumulator after the other would give.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "executable/executable.h"
#include "ops/op_record.h"
#include "ops/sample_program.h"

namespace kiln {
namespace {

using List = std::vector<int64_t>;

struct LongSum {
  std::string op;
  std::vector<Sample::SampleArg> args;
  double most;  // units
};

std::vector<LongSum> long_sums() {
  auto f32 = [](List sizes, double low) { return Sample::TensorSpec{std::move(sizes), DType::f32, low, 2}; };
  // Each addition is rounded the same way.
  auto alike = [](List sizes) { return Sample::TensorSpec{std::move(sizes), DType::f32, 0.7, 0.7}; };
  // Squares of which f32 has no place, or no place for their sum.
  auto far = [](List sizes, double most) { return Sample::TensorSpec{std::move(sizes), DType::f32, -most, most}; };
  return {
      {"aten.mm.default", {f32({9, 4096}, 0), f32({4096, 33}, 0)}, 4},
      {"aten.mm.default", {f32({9, 500}, 0), f32({500, 33}, 0)}, 4},
      {"aten.bmm.default", {f32({2, 5, 3000}, 0), f32({2, 3000, 17}, 0)}, 4},
      {"aten.mv.default", {f32({5, 4000}, 0), f32({4000}, 0)}, 2},
      {"aten.sum.dim_IntList", {f32({4000, 20}, 0), List{0}}, 2},
      {"aten.sum.dim_IntList", {f32({20, 4000}, 0), List{1}}, 2},
      {"aten.sum.dim_IntList", {alike({4000, 20}), List{0}}, 4},
      {"aten.sum.dim_IntList", {alike({20, 4000}), List{1}}, 4},
      {"aten.linalg_vecdot.default", {alike({20, 4000}), alike({20, 4000})}, 4},
      {"aten.var.correction", {f32({3, 4000}, -2), List{1}}, 2},
      {"aten.var.correction", {f32({4000, 3}, -2), List{0}}, 2},
      {"aten.var.correction", {far({3, 40}, 1e19), List{1}}, 2},
      {"aten.var.correction", {far({300, 20}, 1e19), List{0}}, 2},
      {"aten.std.correction", {far({3, 40}, 1e25), List{1}}, 2},
      {"aten.std.correction", {far({3, 400}, 1e-25), List{1}}, 2},
      {"aten.std.correction", {far({30, 20}, 1e-25), List{0}}, 2},
  };
}

Tensor computed(const Program& program, ExecutableOptions options) {
  return make_executable(program, options)->call(program.sample_inputs).outputs.at(0).tensor();
}

double units(const Tensor& got, const Tensor& truth) {
  double worst = 0, largest = 0;
  for (int64_t i = 0; i < truth.numel(); ++i) {
    largest = std::max(largest, std::abs(truth.item(i).as_double()));
    worst = std::max(worst, std::abs(got.item(i).as_double() - truth.item(i).as_double()));
  }
  return worst / (largest * static_cast<double>(std::numeric_limits<float>::epsilon()));
}

TEST(Rounding, LongSumsAreAsGoodAsEagers) {
  for (const LongSum& sum : long_sums())
    for (bool symbolic : {false, true}) {
      SCOPED_TRACE(str(sum.op, symbolic ? " with symbols" : ""));
      Program program = program_from_sample(*Registry::instance().find(sum.op), Sample{sum.args}, symbolic, 7);
      ExecutableOptions exact;
      exact.backend = Backend::interpret;
      exact.fp64 = true;
      Tensor truth = computed(program, exact);
      for (Backend backend : {Backend::compiled, Backend::loops}) {
        ExecutableOptions options;
        options.backend = backend;
        EXPECT_LE(units(computed(program, options), truth), sum.most) << backend_name(backend);
      }
    }
}

}  // namespace
}  // namespace kiln
