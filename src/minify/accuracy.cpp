#include "minify/accuracy.h"

#include <cmath>

#include "driver/compare.h"

namespace kiln::minify {
namespace {

CallResult reference(const Program& program, const AccuracyOptions& options, bool fp64) {
  ExecutableOptions executable;
  executable.backend = Backend::interpret;
  executable.fp64 = fp64;
  executable.custom_op_libs = options.custom_op_libs;
  return make_executable(program, executable)->call(program.sample_inputs);
}

// What is wrong, in one word: part of the signature.
std::string fault_class(const Datum& got, const Datum& expected) {
  if (!got.is_tensor() || !expected.is_tensor()) return "values";
  const Tensor &g = got.tensor(), &e = expected.tensor();
  if (g.dtype != e.dtype) return "dtype";
  if (g.sizes != e.sizes) return "sizes";
  CompareOptions loose;
  loose.shapes_only = true;
  if (!compare("", got, expected, loose).ok()) return "strides";
  if (is_integral(e.dtype)) return "values";
  for (int64_t i = 0; i < e.numel(); ++i)
    if (std::isnan(std::abs(g.item(i).as_complex())) && !std::isnan(std::abs(e.item(i).as_complex()))) return "nan";
  return "values";
}

// The largest distances of both results from the fp64 reference, over the places where all are finite.
struct Distances {
  double got = 0, expected = 0, size = 0;
};
Distances distances(const Tensor& got, const Tensor& expected, const Tensor& wide) {
  Distances out;
  for (int64_t i = 0; i < expected.numel(); ++i) {
    const std::complex<double> g = got.item(i).as_complex(), e = expected.item(i).as_complex(),
                               w = wide.item(i).as_complex();
    if (!std::isfinite(std::abs(w)) || !std::isfinite(std::abs(e))) continue;
    out.size = std::max(out.size, std::abs(w));
    out.expected = std::max(out.expected, std::abs(e - w));
    const double error = std::abs(g - w);
    out.got = std::isfinite(error) ? std::max(out.got, error) : HUGE_VAL;
  }
  return out;
}

// Float arithmetic as such is that far off: the program magnifies rounding, and nobody is to blame.
bool is_rounding(const Datum& got, const Datum& expected, const Datum* wide, const AccuracyOptions& options) {
  if (!wide || !wide->is_tensor() || !got.is_tensor() || !expected.is_tensor()) return false;
  const Tensor& e = expected.tensor();
  if (is_integral(e.dtype) || wide->tensor().sizes != e.sizes) return false;
  const Tolerance tolerance = default_tolerance(e.dtype);
  const Distances far = distances(got.tensor(), e, wide->tensor());
  const double allowed = options.atol.value_or(tolerance.atol) + options.rtol.value_or(tolerance.rtol) * far.size;
  return far.got <= 4 * far.expected + allowed;
}

}  // namespace

Failure judge(const Program& program, const CallResult& got, const AccuracyOptions& options) {
  const CallResult expected = reference(program, options, false);
  std::optional<CallResult> wide;
  const auto wide_result = [&]() -> const CallResult& {
    if (!wide) wide = reference(program, options, true);
    return *wide;
  };
  Failure failure;
  failure.stage = "compare";
  CompareOptions compare_options;
  compare_options.rtol = options.rtol;
  compare_options.atol = options.atol;
  const auto check = [&](const std::string& what, const Datum& g, const Datum& e,
                         const std::function<const Datum*()>& lookup) {
    if (failure.failed()) return;
    const Comparison comparison = compare(what, g, e, compare_options, lookup);
    if (comparison.ok()) return;
    const std::string word = fault_class(g, e);
    if (word == "values" && is_rounding(g, e, lookup(), options)) return;
    failure.kind = FailureKind::accuracy;
    failure.code = word;
    failure.message = comparison.failure;
  };
  const auto check_lists = [&](const char* what, const std::vector<Datum>& g, const std::vector<Datum>& e,
                               const std::vector<Datum> CallResult::*member) {
    if (g.size() != e.size()) {
      failure.kind = FailureKind::accuracy;
      failure.code = "number";
      failure.message = str("there are ", g.size(), " ", what, "s, expected ", e.size());
      return;
    }
    for (size_t i = 0; i < g.size(); ++i)
      check(str(what, " ", i), g[i], e[i], [&, i]() -> const Datum* {
        const std::vector<Datum>& list = wide_result().*member;
        return i < list.size() ? &list[i] : nullptr;
      });
  };
  check_lists("output", got.outputs, expected.outputs, &CallResult::outputs);
  if (!failure.failed()) check_lists("input", got.inputs, expected.inputs, &CallResult::inputs);
  for (const auto& [name, tensor] : expected.state) {
    const auto found = got.state.find(name);
    if (found == got.state.end()) continue;
    Datum holder;
    check(str("buffer ", name), Datum{found->second}, Datum{tensor}, [&, key = name]() -> const Datum* {
      const auto at = wide_result().state.find(key);
      if (at == wide_result().state.end()) return nullptr;
      holder = Datum{at->second};
      return &holder;
    });
  }
  return failure;
}

}  // namespace kiln::minify
