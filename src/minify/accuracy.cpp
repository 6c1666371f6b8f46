#include "minify/accuracy.h"

#include <cmath>

#include "check/compare.h"
#include "check/rounding_noise.h"
#include "debug/tensor_difference.h"

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

// The largest distances of both results from the fp64 reference, over the places where all are finite. Values that are
// not of the others' kind count for themselves: they are right, or what is got is infinitely far.
struct Distances {
  double got = 0, expected = 0, size = 0, most = 0;
};
Distances distances(const Tensor& got, const Tensor& expected, const Tensor& wide, const Tolerance& tolerance) {
  Distances out;
  out.most = largest_of_its_kind(values_of(wide));
  for (int64_t i = 0; i < expected.numel(); ++i) {
    const std::complex<double> g = got.item(i).as_complex(), e = expected.item(i).as_complex(),
                               w = wide.item(i).as_complex();
    if (!std::isfinite(std::abs(w)) || !std::isfinite(std::abs(e))) continue;
    if (std::abs(w) > out.most) {
      if (!(std::abs(g - w) <= 4 * std::abs(e - w) + tolerance.atol + tolerance.rtol * std::abs(w))) out.got = HUGE_VAL;
      continue;
    }
    out.size = std::max(out.size, std::abs(w));
    out.expected = std::max(out.expected, std::abs(e - w));
    const double error = std::abs(g - w);
    out.got = std::isfinite(error) ? std::max(out.got, error) : HUGE_VAL;
  }
  return out;
}

// The largest distance between two runs of the fp64 reference that differ by rounding only, of values up to `most`.
double spread(const Tensor& one, const Tensor& other, double most) {
  double out = 0;
  for (int64_t i = 0; i < one.numel() && one.sizes == other.sizes; ++i) {
    const std::complex<double> a = one.item(i).as_complex(), b = other.item(i).as_complex();
    if (std::abs(b) > most && std::isfinite(std::abs(a))) continue;
    const double far = std::abs(a - b);
    if (std::isfinite(far)) out = std::max(out, far);
    if (std::isfinite(std::abs(a)) != std::isfinite(std::abs(b))) return HUGE_VAL;
  }
  return out;
}

// The results of one call beside those of the references, which are made when they are asked for.
class Judge {
 public:
  Judge(const Program& program, const AccuracyOptions& options) : program_(program), options_(options) {}

  Failure run(const CallResult& got) {
    std::optional<CallResult> made;
    if (!options_.expected) made = reference(program_, options_, false);
    const CallResult& expected = options_.expected ? *options_.expected : *made;
    check_lists("output", got.outputs, expected.outputs, &CallResult::outputs);
    if (!failure_.failed()) check_lists("input", got.inputs, expected.inputs, &CallResult::inputs);
    for (const auto& [name, tensor] : expected.state) {
      const auto found = got.state.find(name);
      if (found == got.state.end()) continue;
      check(str("buffer ", name), Datum{found->second}, Datum{tensor},
            [key = name](const CallResult& result) -> std::optional<Datum> {
              const auto at = result.state.find(key);
              return at == result.state.end() ? std::nullopt : std::optional(Datum{at->second});
            });
    }
    failure_.stage = "compare";
    return failure_;
  }

 private:
  // The same result in another run.
  using Counterpart = std::function<std::optional<Datum>(const CallResult&)>;

  void check_lists(const char* what, const std::vector<Datum>& got, const std::vector<Datum>& expected,
                   const std::vector<Datum> CallResult::*member) {
    if (got.size() != expected.size()) {
      failure_.kind = FailureKind::accuracy;
      failure_.code = "number";
      failure_.message = str("there are ", got.size(), " ", what, "s, expected ", expected.size());
      return;
    }
    for (size_t i = 0; i < got.size(); ++i)
      check(str(what, " ", i), got[i], expected[i], [member, i](const CallResult& result) -> std::optional<Datum> {
        const std::vector<Datum>& list = result.*member;
        return i < list.size() ? std::optional(list[i]) : std::nullopt;
      });
  }

  void check(const std::string& what, const Datum& got, const Datum& expected, const Counterpart& counterpart) {
    if (failure_.failed()) return;
    CompareOptions compare_options;
    compare_options.rtol = options_.rtol;
    compare_options.atol = options_.atol;
    compare_options.rounded_factors = options_.rounded_factors;
    std::optional<Datum> wide;
    const Comparison comparison = compare(what, got, expected, compare_options, [&]() -> const Datum* {
      wide = counterpart(wide_result());
      return wide ? &*wide : nullptr;
    });
    if (comparison.ok()) return;
    const std::string word = fault_class(got, expected);
    const std::optional<Far> far = word == "values" ? how_far(got, expected, counterpart) : std::nullopt;
    if (far && !options_.as_check && is_rounding(*far, expected.tensor().dtype, counterpart)) {
      // No failure; but if there is none at all, this is what was seen.
      if (failure_.message.empty()) failure_.message = str(comparison.failure, "; rounding explains it");
      return;
    }
    failure_.kind = FailureKind::accuracy;
    failure_.code = word;
    failure_.message = comparison.failure;
    failure_.error = far ? far->allowed > 0 ? far->distance.got / far->allowed : HUGE_VAL : 0;
  }

  struct Far {
    Distances distance;
    double allowed = 0;
    Tensor wide;
  };
  std::optional<Far> how_far(const Datum& got, const Datum& expected, const Counterpart& counterpart) {
    const std::optional<Datum> wide = counterpart(wide_result());
    if (!wide || !wide->is_tensor() || !got.is_tensor() || !expected.is_tensor()) return std::nullopt;
    const Tensor& e = expected.tensor();
    if (wide->tensor().sizes != e.sizes) return std::nullopt;
    Tolerance tolerance = default_tolerance(e.dtype);
    tolerance.atol = options_.atol.value_or(tolerance.atol), tolerance.rtol = options_.rtol.value_or(tolerance.rtol);
    const Distances far = distances(got.tensor(), e, wide->tensor(), tolerance);
    const double allowed = tolerance.atol + tolerance.rtol * far.size;
    return Far{far, allowed, wide->tensor()};
  }

  // Float arithmetic as such is that far off: the program magnifies rounding, and nobody is to blame.
  bool is_rounding(const Far& far, DType dtype, const Counterpart& counterpart) {
    if (is_integral(dtype)) return false;
    if (far.distance.got <= 4 * far.distance.expected + far.allowed) return true;
    double noise = 0;
    for (int sample = 0; sample < 3; ++sample) {
      if (const auto other = counterpart(rounded(sample)); other && other->is_tensor())
        noise = std::max(noise, spread(other->tensor(), far.wide, far.distance.most));
      if (far.distance.got <= 4 * noise + far.allowed) return true;
      // Samples of one distribution are not that far apart.
      if (far.distance.got > 1000 * (noise + far.allowed)) return false;
    }
    return false;
  }

  const CallResult& wide_result() {
    if (!wide_) wide_ = reference(program_, options_, true);
    return *wide_;
  }
  const CallResult& rounded(int sample) {
    while (static_cast<int>(rounded_.size()) <= sample)
      rounded_.push_back(rounded_result(program_, options_.custom_op_libs, static_cast<int>(rounded_.size())));
    return rounded_[static_cast<size_t>(sample)];
  }

  const Program& program_;
  const AccuracyOptions& options_;
  Failure failure_;
  std::optional<CallResult> wide_;
  std::vector<CallResult> rounded_;
};

}  // namespace

Failure judge(const Program& program, const CallResult& got, const AccuracyOptions& options) {
  return Judge(program, options).run(got);
}

}  // namespace kiln::minify
