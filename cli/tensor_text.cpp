#include "tensor_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/text.h"

namespace kiln::cli {
namespace {

constexpr int64_t shown_whole = 64;  // tensors with more elements are shortened
constexpr int64_t edge = 3;          // elements shown at either end of a shortened dimension

// Which indices of a dimension are shown; -1 stands for the gap.
std::vector<int64_t> shown_indices(int64_t size, bool shorten) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < size; ++i) {
    if (shorten && size > 2 * edge && i == edge) {
      indices.push_back(-1);
      i = size - edge;
    }
    indices.push_back(i);
  }
  return indices;
}

// How all numbers of one tensor are written, chosen as torch._tensor_str does.
struct NumberFormat {
  bool whole = true;  // floats without a fraction: "3."
  bool scientific = false;
};

std::string real_text(double value, const NumberFormat& format) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char text[64];
  if (format.scientific)
    std::snprintf(text, sizeof text, "%.4e", value);
  else if (format.whole)
    std::snprintf(text, sizeof text, "%.0f.", value);
  else
    std::snprintf(text, sizeof text, "%.4f", value);
  return text;
}

std::string number_text(DType dtype, const Scalar& value, const NumberFormat& format) {
  if (dtype == DType::boolean) return value.as_int() != 0 ? "True" : "False";
  if (dtype == DType::u64) return std::to_string(static_cast<uint64_t>(value.as_int()));
  if (is_integral(dtype)) return std::to_string(value.as_int());
  if (!is_complex(dtype)) return real_text(value.as_double(), format);
  const std::complex<double> z = value.as_complex();
  const std::string imaginary = real_text(z.imag(), format);
  return str(real_text(z.real(), format), imaginary[0] == '-' ? "" : "+", imaginary, "j");
}

class Writer {
 public:
  Writer(const Tensor& tensor, size_t indent)
      : tensor_(tensor), indent_(indent), shorten_(tensor.numel() > shown_whole) {
    std::vector<int64_t> index(tensor.sizes.size());
    if (!is_integral(tensor.dtype)) {
      collect(index, 0);
      choose();
    }
    measure(index, 0);
  }

  std::string text() {
    std::vector<int64_t> index(tensor_.sizes.size());
    std::string out;
    write(index, 0, out);
    return out;
  }

 private:
  template <class F>
  void for_shown(std::vector<int64_t>& index, size_t dim, const F& f) {
    if (dim == index.size()) return f(tensor_.at(index));
    for (const int64_t i : shown_indices(tensor_.sizes[dim], shorten_)) {
      if (i < 0) continue;
      index[dim] = i;
      for_shown(index, dim + 1, f);
    }
  }
  void collect(std::vector<int64_t>& index, size_t dim) {
    for_shown(index, dim, [&](const Scalar& value) {
      const std::complex<double> z = value.as_complex();
      for (const double part : {z.real(), z.imag()})
        if (std::isfinite(part) && (part != 0 || is_complex(tensor_.dtype))) magnitudes_.push_back(std::abs(part));
    });
  }
  void choose() {
    double least = HUGE_VAL, most = 0;
    for (const double m : magnitudes_) {
      if (m != std::floor(m)) format_.whole = false;
      if (m != 0) least = std::min(least, m);
      most = std::max(most, m);
    }
    if (most == 0) return;
    format_.scientific =
        format_.whole ? most / least > 1e8 || most > 1e8 : most / least > 1000 || most > 1e8 || least < 1e-4;
    if (format_.scientific) format_.whole = false;
  }
  void measure(std::vector<int64_t>& index, size_t dim) {
    for_shown(index, dim, [&](const Scalar& value) {
      width_ = std::max(width_, number_text(tensor_.dtype, value, format_).size());
    });
  }

  void write(std::vector<int64_t>& index, size_t dim, std::string& out) {
    if (dim == index.size()) {
      const std::string number = number_text(tensor_.dtype, tensor_.at(index), format_);
      out += std::string(width_ - number.size(), ' ') + number;
      return;
    }
    const bool innermost = dim + 1 == index.size();
    const std::string separator = innermost ? ", " : ",\n" + std::string(indent_ + dim + 1, ' ');
    out += "[";
    bool first = true;
    for (const int64_t i : shown_indices(tensor_.sizes[dim], shorten_)) {
      if (!first) out += separator;
      first = false;
      if (i < 0) {
        out += "...";
        continue;
      }
      index[dim] = i;
      write(index, dim + 1, out);
    }
    out += "]";
  }

  const Tensor& tensor_;
  size_t indent_;
  bool shorten_;
  std::vector<double> magnitudes_;
  NumberFormat format_;
  size_t width_ = 0;
};

}  // namespace

std::string type_text(const Tensor& tensor) {
  return str(dtype_torch_name(tensor.dtype), "[",
             join_map(tensor.sizes, ", ", [](int64_t size) { return std::to_string(size); }), "]");
}

std::string values_text(const Tensor& tensor, size_t indent) {
  if (tensor.numel() == 0) return "[]";
  return Writer(tensor, indent).text();
}

std::string datum_text(const Datum& datum, size_t indent) {
  if (datum.is_none()) return "None";
  if (datum.is_scalar())
    return datum.scalar().is_bool() ? (datum.scalar().as_int() ? "True" : "False") : datum.scalar().text();
  if (datum.is_list())
    return str("[", join_map(datum.list(), ", ", [&](const Datum& item) { return datum_text(item, indent); }), "]");
  if (!datum.is_tensor()) return quote(std::get<std::string>(datum.value));
  const std::string type = type_text(datum.tensor());
  return str(type, "  ", values_text(datum.tensor(), indent + type.size() + 2));
}

}  // namespace kiln::cli
