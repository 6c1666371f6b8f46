#include "check/compare.h"

#include <charconv>
#include <cmath>
#include <complex>

#include "base/text.h"
#include "check/elements.h"
#include "check/rounding_samples.h"
#include "check/usual_error.h"

namespace kiln {
namespace {

bool near_reference(std::complex<double> reference, std::complex<double> got, std::complex<double> expected) {
  return std::abs(got - reference) <= 2 * std::abs(expected - reference);
}

bool rescued_by(std::complex<double> reference, std::complex<double> got, std::complex<double> expected,
                const Tolerance& tolerance) {
  const double allowed = tolerance.atol + tolerance.rtol * std::abs(expected);
  const double expected_error = std::abs(expected - reference);
  // Written so that a NaN anywhere says no.
  return std::isfinite(allowed) && expected_error <= 10 * allowed && near_reference(reference, got, expected);
}

std::string compare_layout(const Tensor& got, const Tensor& expected) {
  if (got.dtype != expected.dtype)
    return str("dtype is ", dtype_torch_name(got.dtype), ", expected ", dtype_torch_name(expected.dtype));
  if (got.sizes != expected.sizes)
    return str("sizes are ", list_text(got.sizes), ", expected ", list_text(expected.sizes));
  if (expected.numel() == 0) return "";  // no element lies anywhere
  if (!dense_and_not_overlapping(expected.sizes, expected.strides)) return "";
  for (size_t dim = 0; dim < expected.sizes.size(); ++dim)
    if (expected.sizes[dim] != 1 && got.strides[dim] != expected.strides[dim])
      return str("strides are ", list_text(got.strides), ", expected ", list_text(expected.strides), " (sizes ",
                 list_text(expected.sizes), ")");
  return "";
}

// The fp64 reference's tensor, if it exists and has the expected sizes.
class LazyReference {
 public:
  LazyReference(const Fp64Lookup& lookup, const std::vector<int64_t>& sizes) : lookup_(lookup), sizes_(sizes) {}
  const Tensor* get() {
    if (!asked_) {
      asked_ = true;
      const Datum* datum = lookup_(0);
      if (datum && datum->is_tensor() && datum->tensor().sizes == sizes_) tensor_ = &datum->tensor();
    }
    return tensor_;
  }

 private:
  const Fp64Lookup& lookup_;
  const std::vector<int64_t>& sizes_;
  bool asked_ = false;
  const Tensor* tensor_ = nullptr;
};

// The worst of the values that differ, for the message.
struct WorstValue {
  int64_t count = 0;
  double ratio = -1;
  std::vector<int64_t> index;
  Scalar got, expected, reference;
  bool has_reference = false;
  double error = 0, allowed = 0;
  int64_t near = 0;  // of the count: as near to the fp64 reference as a rescue asks for, which is itself too far off
};

std::string worst_text(const WorstValue& worst, int64_t total, DType dtype) {
  std::string text = str(worst.count, " of ", total, total == 1 ? " value differs" : " values differ");
  if (!worst.index.empty()) text += str(", worst at ", list_text(worst.index));
  text += str(": got ", number_text(dtype, worst.got), ", expected ", number_text(dtype, worst.expected));
  if (!is_integral(dtype) && std::isfinite(worst.error))
    text += str(", off by ", distance_text(worst.error), ", allowed ", distance_text(worst.allowed));
  if (worst.has_reference)
    text += str(", fp64 reference ", number_text(is_complex(dtype) ? DType::c128 : DType::f64, worst.reference));
  return text;
}

bool is_narrow(DType dtype) { return dtype_bytes(dtype) == 2 || dtype == DType::c32; }

// The less exact of what a result is stored in and what it was computed in.
DType rounded_as(DType dtype, const CompareOptions& options) {
  return options.computed_in && dtype_epsilon(*options.computed_in) > dtype_epsilon(dtype) ? *options.computed_in
                                                                                           : dtype;
}

// Root mean square distance of a tensor from the fp64 reference.
double distance_from(const Tensor& reference, const Tensor& tensor) {
  double sum = 0;
  ElementWalk at(tensor);
  for (int64_t i = 0, n = tensor.numel(); i < n; ++i, at.next())
    sum += std::norm(load_scalar(tensor.dtype, at.at()).as_complex() - reference.item(i).as_complex());
  return std::sqrt(sum / static_cast<double>(tensor.numel()));
}

// Where values have few digits, a few that differ may be rounding: what the whole tensor says of it.
std::string rounding_text(const WorstValue& worst, const Tensor& got, const Tensor& expected, const Tensor& reference) {
  const double distance = distance_from(reference, got), usual = distance_from(reference, expected);
  std::string text;
  if (worst.near > 0)
    text += str("; ", worst.count == 1 ? "it is" : str(worst.near, " of the ", worst.count, " are"),
                " at most twice as far from the reference as the expected value, which rounding does, and an error "
                "that the reference shares");
  if (expected.numel() > 1)
    text += str("; root mean square distance from the reference ", distance_text(distance), ", of the expected values ",
                distance_text(usual));
  if (worst.near > 0 || distance <= 1.5 * usual)
    text += ": if the values are right, give a tolerance that fits them (--atol; docs/commands.md, kiln check)";
  return text;
}

Comparison compare_values(const Tensor& got, const Tensor& expected, const CompareOptions& options,
                          const Fp64Lookup& fp64) {
  const Tolerance tolerance = effective_tolerance(expected.dtype, options);
  Comparison result;
  WorstValue worst;
  LazyReference reference(fp64, expected.sizes);
  const DType dtype = expected.dtype;
  const bool exact = is_integral(dtype);
  const int64_t total = expected.numel();
  const bool rounded =
      options.rounded_factors && !options.rtol && !options.atol && (dtype == DType::f32 || dtype == DType::c64);
  std::optional<UsualError> usual;
  std::vector<int64_t> failing;
  ElementWalk got_at(got), expected_at(expected);
  for (int64_t i = 0; i < total; ++i, got_at.next(), expected_at.next()) {
    const Scalar g = load_scalar(dtype, got_at.at()), e = load_scalar(dtype, expected_at.at());
    const Closeness close = closeness(dtype, g, e, tolerance);
    if (close.close) {
      if (close.error > 0) result.worst = std::max(result.worst, close.error / close.allowed);
      continue;
    }
    if (rounded) {
      if (!usual) usual = UsualError::of_rounded_factors(got, expected);
      if (usual->sound() && usual->allows(expected_at.index(), std::abs(g.as_complex() - e.as_complex()))) continue;
    }
    const Tensor* fp64_tensor = exact ? nullptr : reference.get();
    const Scalar r = fp64_tensor ? fp64_tensor->item(i) : Scalar();
    if (fp64_tensor && rescued_by(r.as_complex(), g.as_complex(), e.as_complex(), tolerance)) {
      ++result.rescued;
      continue;
    }
    if (fp64_tensor) {
      if (!usual) usual.emplace(got, expected, *fp64_tensor, rounded_as(dtype, options));
      if (usual->sound() && usual->allows(expected_at.index(), std::abs(g.as_complex() - r.as_complex()))) {
        ++result.rescued;
        continue;
      }
    }
    failing.push_back(i);
    worst.near += fp64_tensor && near_reference(r.as_complex(), g.as_complex(), e.as_complex());
    double ratio = close.error / std::max(close.allowed, 1e-300);
    if (std::isnan(ratio)) ratio = HUGE_VAL;
    if (ratio <= worst.ratio) continue;
    worst = {0, ratio, expected_at.index(), g, e, r, fp64_tensor != nullptr, close.error, close.allowed, worst.near};
  }
  if (!failing.empty() && explained_by_rounding(failing, got, expected, tolerance, fp64)) {
    result.rescued += static_cast<int64_t>(failing.size());
    return result;
  }
  worst.count = static_cast<int64_t>(failing.size());
  if (worst.count > 0) result.failure = worst_text(worst, total, dtype);
  if (worst.count > 0 && is_narrow(rounded_as(dtype, options)) && reference.get())
    result.failure += rounding_text(worst, got, expected, *reference.get());
  return result;
}

Comparison compare_scalars(const Scalar& got, const Scalar& expected, const CompareOptions& options,
                           const Fp64Lookup& fp64) {
  Comparison result;
  if (options.shapes_only) return result;
  if (expected.is_bool() || expected.is_int()) {
    if (got == expected) return result;
    if (explained_by_rounding(got, expected, {}, fp64))
      result.rescued = 1;
    else
      result.failure = str("got ", got.text(), ", expected ", expected.text());
    return result;
  }
  const Tolerance tolerance = effective_tolerance(DType::f64, options);
  const Closeness close = closeness(got.as_complex(), expected.as_complex(), tolerance);
  if (close.close) return result;
  const Datum* reference = fp64(0);
  if (reference && reference->is_scalar() &&
      (rescued_by(reference->scalar().as_complex(), got.as_complex(), expected.as_complex(), tolerance) ||
       explained_by_rounding(got, expected, tolerance, fp64))) {
    result.rescued = 1;
    return result;
  }
  result.failure = str("got ", got.text(), ", expected ", expected.text(), ", off by ", distance_text(close.error),
                       ", allowed ", distance_text(close.allowed));
  return result;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype != b.dtype || a.sizes != b.sizes) return false;
  const size_t bytes = static_cast<size_t>(dtype_bytes(a.dtype));
  ElementWalk x(a), y(b);
  for (int64_t i = 0, n = a.numel(); i < n; ++i, x.next(), y.next())
    if (std::memcmp(x.at(), y.at(), bytes) != 0) return false;
  return true;
}

}  // namespace

Tolerance default_tolerance(DType dtype) {
  switch (dtype) {
    case DType::f16:
    case DType::c32:
      return {1e-3, 1e-5};
    case DType::bf16:
      return {1.6e-2, 1e-5};
    case DType::f32:
    case DType::c64:
      return {1.3e-6, 1e-5};
    case DType::f64:
    case DType::c128:
      return {1e-7, 1e-7};
    default:
      return {0, 0};
  }
}

void Comparison::add(const Comparison& other) {
  if (failure.empty()) failure = other.failure;
  rescued += other.rescued;
  worst = std::max(worst, other.worst);
}

Comparison compare(const std::string& what, const Datum& got, const Datum& expected, const CompareOptions& options,
                   const Fp64Lookup& fp64) {
  Comparison result;
  const auto named = [&](Comparison comparison) {
    if (!comparison.ok()) comparison.failure = str(what, ": ", comparison.failure);
    return comparison;
  };
  if (std::string_view(kind_name(got)) != kind_name(expected)) {
    result.failure = str("is ", kind_name(got), ", expected ", kind_name(expected));
    return named(result);
  }
  if (expected.is_tensor()) {
    result.failure = compare_layout(got.tensor(), expected.tensor());
    if (!result.ok() || options.shapes_only) return named(result);
    return named(compare_values(got.tensor(), expected.tensor(), options, fp64));
  }
  if (expected.is_scalar()) return named(compare_scalars(got.scalar(), expected.scalar(), options, fp64));
  if (expected.is_list()) {
    return compare_lists(what, got.list(), expected.list(), options, [&](size_t i, int sample) -> const Datum* {
      const Datum* list = fp64(sample);
      return list && list->is_list() && i < list->list().size() ? &list->list()[i] : nullptr;
    });
  }
  if (!expected.is_none() && std::get<std::string>(got.value) != std::get<std::string>(expected.value))
    result.failure = str("got ", quote(std::get<std::string>(got.value)), ", expected ",
                         quote(std::get<std::string>(expected.value)));
  return named(result);
}

Comparison compare_lists(const std::string& what, const std::vector<Datum>& got, const std::vector<Datum>& expected,
                         const CompareOptions& options, const ReferenceLookup<size_t>& fp64) {
  Comparison result;
  if (got.size() != expected.size()) {
    result.failure = str("number of ", what, "s is ", got.size(), ", expected ", expected.size());
    return result;
  }
  for (size_t i = 0; i < expected.size(); ++i)
    result.add(compare(str(what, " ", i), got[i], expected[i], options, [&](int sample) { return fp64(i, sample); }));
  return result;
}

Comparison compare_state(const std::map<std::string, Tensor>& got, const std::map<std::string, Tensor>& expected,
                         const CompareOptions& options, const ReferenceLookup<const std::string&>& fp64) {
  Comparison result;
  for (const auto& [name, tensor] : expected) {
    const auto found = got.find(name);
    if (found == got.end()) {
      Comparison missing;
      missing.failure = str("state ", name, ": there is no such buffer after the call");
      result.add(missing);
      continue;
    }
    result.add(compare(str("state ", name), Datum{found->second}, Datum{tensor}, options,
                       [&, &wanted = name](int sample) { return fp64(wanted, sample); }));
  }
  return result;
}

Comparison compare_unchanged(const std::vector<Datum>& after, const std::vector<Datum>& before,
                             const std::vector<bool>& written) {
  Comparison result;
  if (after.size() != before.size()) {
    result.failure = str("number of inputs after the call is ", after.size(), ", expected ", before.size());
    return result;
  }
  for (size_t i = 0; i < before.size(); ++i) {
    if (!before[i].is_tensor()) continue;
    if (after[i].is_tensor() && same_bits(after[i].tensor(), before[i].tensor())) continue;
    const bool meant = i < written.size() && written[i];
    result.failure = str("input ", i, ": was changed by the call",
                         meant ? ", as the program says; the case lacks a mutated_<i>.pt with what it must be then"
                               : ", though the program does not write to it");
    return result;
  }
  return result;
}

}  // namespace kiln
