#include "check/differences.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/text.h"
#include "check/elements.h"

namespace kiln {
namespace {

std::string datum_type_text(const Datum& datum) {
  if (!datum.is_tensor()) return kind_name(datum);
  return str(dtype_torch_name(datum.tensor().dtype), list_text(datum.tensor().sizes));
}

// The coarser of the two types decides how near values can be.
Tolerance tolerance_of(DType a, DType b, const CompareOptions& options) {
  const Tolerance one = effective_tolerance(a, options), other = effective_tolerance(b, options);
  return one.rtol > other.rtol ? one : other;
}

// Keeps the places that are furthest over the tolerance, the furthest first; of equal ones those that come first.
class FurthestPlaces {
 public:
  explicit FurthestPlaces(size_t most) : most_(most) {}
  bool takes(double tolerances, double absolute) const {
    return most_ > 0 && (kept_.size() < most_ || further(tolerances, absolute, kept_.back()));
  }
  void add(DifferentPlace place) {
    const auto after = std::find_if(kept_.begin(), kept_.end(), [&](const DifferentPlace& other) {
      return further(place.tolerances, place.absolute, other);
    });
    kept_.insert(after, std::move(place));
    if (kept_.size() > most_) kept_.pop_back();
  }
  std::vector<DifferentPlace> take() { return std::move(kept_); }

 private:
  // What must be equal is infinitely far over: there the difference itself decides.
  static bool further(double tolerances, double absolute, const DifferentPlace& other) {
    return tolerances != other.tolerances ? tolerances > other.tolerances : absolute > other.absolute;
  }
  size_t most_;
  std::vector<DifferentPlace> kept_;
};

// Of elements of two types: integers exactly, the others as numbers.
Closeness closeness_across(DType a, const Scalar& x, DType b, const Scalar& y, const Tolerance& tolerance) {
  if (!is_integral(a) || !is_integral(b)) return closeness(x.as_complex(), y.as_complex(), tolerance);
  Closeness result = closeness(DType::i64, x, y, tolerance);
  // Past the largest int64 an unsigned number reads as a negative one.
  if ((a == DType::u64 && x.as_int() < 0) != (b == DType::u64 && y.as_int() < 0)) result.close = false;
  return result;
}

void compare_elements(const Tensor& a, const Tensor& b, const DifferenceLimits& limits, OutputDifference& out) {
  out.compared = true;
  out.values = a.numel();
  out.tolerance = tolerance_of(a.dtype, b.dtype, limits.tolerance);
  FurthestPlaces places(limits.most_places);
  double sum = 0;
  ElementWalk a_at(a), b_at(b);
  for (int64_t i = 0; i < out.values; ++i, a_at.next(), b_at.next()) {
    const Scalar x = load_scalar(a.dtype, a_at.at()), y = load_scalar(b.dtype, b_at.at());
    const Closeness close = closeness_across(a.dtype, x, b.dtype, y, out.tolerance);
    if (close.close && close.error == 0) continue;
    ++out.unequal;
    if (!close.close) ++out.outside;
    const double absolute = std::isnan(close.error) ? HUGE_VAL : close.error, size = std::abs(y.as_complex());
    const double relative = std::isfinite(absolute) && size > 0 ? absolute / size : HUGE_VAL;
    if (std::isfinite(absolute)) sum += absolute;
    out.largest_relative = std::max(out.largest_relative, relative);
    const double tolerances = std::isfinite(absolute) && close.allowed > 0 ? absolute / close.allowed : HUGE_VAL;
    if (!places.takes(tolerances, absolute)) continue;
    places.add({b_at.index(), number_text(a.dtype, x), number_text(b.dtype, y), absolute, relative, tolerances});
  }
  out.mean_absolute = out.values > 0 ? sum / static_cast<double>(out.values) : 0;
  out.places = places.take();
  if (out.outside > 0 && static_cast<size_t>(out.outside) < out.places.size())
    out.places.resize(static_cast<size_t>(out.outside));
}

OutputDifference difference_of(const NamedDatum& a, const Datum& b, const DifferenceLimits& limits) {
  OutputDifference out;
  out.name = a.name;
  out.type = datum_type_text(a.value);
  // Files that hold only tensors have numbers as tensors of rank 0.
  const auto as_tensor = [](const Datum& number, const Datum& tensor) {
    return number.is_scalar() && tensor.is_tensor() && tensor.tensor().sizes.empty()
               ? Datum{Tensor::scalar(tensor.tensor().dtype, number.scalar())}
               : number;
  };
  const Datum x = as_tensor(a.value, b), y = as_tensor(b, a.value);
  if (x.is_tensor() && y.is_tensor()) {
    if (x.tensor().sizes != y.tensor().sizes) {
      out.failure = str("sizes are ", list_text(x.tensor().sizes), " and ", list_text(y.tensor().sizes));
      return out;
    }
    if (x.tensor().dtype != y.tensor().dtype) {
      out.type = str(datum_type_text(x), " and ", dtype_torch_name(y.tensor().dtype));
      if (!limits.values_only)
        out.failure =
            str("dtypes are ", dtype_torch_name(x.tensor().dtype), " and ", dtype_torch_name(y.tensor().dtype));
    }
    compare_elements(x.tensor(), y.tensor(), limits, out);
    return out;
  }
  out.failure = compare("", x, y, limits.tolerance).failure;
  if (starts_with(out.failure, ": ")) out.failure = out.failure.substr(2);
  return out;
}

std::string place_text(const DifferentPlace& place) {
  return str(place.index.empty() ? "" : str("at ", list_text(place.index), ": "), place.a, " and ", place.b,
             std::isfinite(place.absolute) ? str(", off by ", distance_text(place.absolute)) : "",
             std::isfinite(place.relative) ? str(", relative ", distance_text(place.relative)) : "");
}

Json number_json(double value) { return std::isfinite(value) ? Json(value) : Json(); }

// A value as it was printed: a number where JSON has it. A NaN, an infinity, a complex number or a text stays text.
Json value_json(const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const long long whole = std::strtoll(text.c_str(), &end, 10);
  if (!text.empty() && *end == 0 && errno == 0) return Json(static_cast<int64_t>(whole));
  const double number = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == 0 && std::isfinite(number) ? Json(number) : Json(text);
}

}  // namespace

std::vector<OutputDifference> find_differences(const std::vector<NamedDatum>& a, const std::vector<Datum>& b,
                                               const DifferenceLimits& limits) {
  KILN_CHECK(a.size() == b.size(), "outputs to compare are not of the same number");
  std::vector<OutputDifference> out;
  for (size_t i = 0; i < a.size(); ++i) out.push_back(difference_of(a[i], b[i], limits));
  return out;
}

std::string difference_text(const OutputDifference& d) {
  std::string text = str(d.name, ": ", d.type, ": ");
  if (!d.failure.empty()) text += str("DIFFERS: ", d.failure, d.compared ? "; " : "\n");
  if (!d.compared) return d.failure.empty() ? text + "equal\n" : text;
  if (d.unequal == 0) return text + str("equal, ", d.values, d.values == 1 ? " value\n" : " values\n");
  const std::string limits = str("rtol ", distance_text(d.tolerance.rtol), ", atol ", distance_text(d.tolerance.atol));
  if (d.outside > 0)
    text += str(d.failure.empty() ? "DIFFERS: " : "", d.outside, " of ", d.values, d.values == 1 ? " value" : " values",
                " outside of the tolerance (", limits, ")");
  else
    text += str(d.unequal, " of ", d.values, d.values == 1 ? " value is" : " values are",
                " not equal, all within the tolerance (", limits, ")");
  text += str("; mean difference ", distance_text(d.mean_absolute), "\n");
  for (const DifferentPlace& place : d.places) text += str("  ", place_text(place), "\n");
  return text;
}

Json difference_json(const OutputDifference& d) {
  Json out = Json::object(), places = Json::array();
  out.set("name", d.name), out.set("type", d.type), out.set("equal", d.ok()), out.set("failure", d.failure);
  if (!d.compared) return out;
  out.set("values", d.values), out.set("not_equal", d.unequal), out.set("outside_tolerance", d.outside);
  out.set("rtol", d.tolerance.rtol), out.set("atol", d.tolerance.atol);
  out.set("mean_absolute", d.mean_absolute), out.set("largest_relative", number_json(d.largest_relative));
  for (const DifferentPlace& place : d.places) {
    Json one = Json::object(), index = Json::array();
    for (const int64_t i : place.index) index.push(i);
    one.set("index", std::move(index)), one.set("a", value_json(place.a)), one.set("b", value_json(place.b));
    one.set("absolute", number_json(place.absolute)), one.set("relative", number_json(place.relative));
    one.set("tolerances", number_json(place.tolerances));
    places.push(std::move(one));
  }
  out.set("largest", std::move(places));
  return out;
}

}  // namespace kiln
