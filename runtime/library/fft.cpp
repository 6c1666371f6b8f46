// Discrete Fourier transforms of any length, in double: decimation in time with the length's prime factors as radices,
// and Bluestein's convolution for prime factors that are too large for a butterfly. aten._fft_c2c, _fft_r2c, _fft_c2r.
#include <cmath>
#include <cstring>
#include <memory>
#include <numbers>

#include "runtime/library/kernels.h"
#include "runtime/library/matrices.h"
#include "runtime/library/rows.h"

namespace kiln::runtime {
namespace {

constexpr int64_t largest_radix = 61;

// exp(sign 2πi k / n); the angle is reduced first, so that it is exact for large k.
Complex root_of_unity(int64_t k, int64_t n, double sign) {
  double angle = 2 * std::numbers::pi * static_cast<double>(k % n) / static_cast<double>(n);
  return {std::cos(angle), sign * std::sin(angle)};
}

// Everything that depends on length and direction only.
class Transform {
 public:
  Transform(int64_t n, bool forward) : n_(n), sign_(forward ? -1 : 1) {
    int64_t rest = n;
    for (int64_t p : {int64_t{4}, int64_t{2}, int64_t{3}, int64_t{5}})
      for (; rest % p == 0 && rest > 1; rest /= p) radices_.push_back(p);
    for (int64_t p = 7; p <= largest_radix && p * p <= rest * p; p += 2)
      for (; rest % p == 0 && rest > 1; rest /= p) radices_.push_back(p);
    if (rest > 1) {
      // The part of the length without small factors is one step by convolution, at the bottom of the recursion.
      radices_.push_back(rest);
      if (rest > largest_radix) make_convolution(rest);
    }
    roots_.resize(static_cast<size_t>(n));
    for (int64_t k = 0; k < n; ++k) roots_[static_cast<size_t>(k)] = root_of_unity(k, n, sign_);
  }

  // Not in place. Thread-safe: scratch is the caller's.
  void run(const Complex* in, Complex* out) const {
    if (n_ == 0) return;
    if (n_ == 1) {
      out[0] = in[0];
      return;
    }
    step(in, out, n_, 1, 0);
  }

 private:
  void make_convolution(int64_t length) {
    chirp_length_ = length;
    int64_t padded = 1;
    while (padded < 2 * length - 1) padded *= 2;
    for (int64_t k = 0; k < length; ++k) {
      // exp(sign πi k²/n): k² modulo 2n keeps the angle small.
      auto square = static_cast<int64_t>(static_cast<unsigned __int128>(k) * static_cast<unsigned __int128>(k) %
                                         static_cast<unsigned __int128>(2 * length));
      chirp_.push_back(root_of_unity(square, 2 * length, sign_));
    }
    inner_ = std::make_unique<Transform>(padded, true);
    std::vector<Complex> kernel(static_cast<size_t>(padded));
    for (int64_t k = 0; k < length; ++k) {
      kernel[static_cast<size_t>(k)] = std::conj(chirp_[static_cast<size_t>(k)]);
      if (k > 0) kernel[static_cast<size_t>(padded - k)] = kernel[static_cast<size_t>(k)];
    }
    spectrum_.resize(static_cast<size_t>(padded));
    inner_->run(kernel.data(), spectrum_.data());
  }

  // Bluestein: a transform is a convolution with a chirp.
  void convolve(const Complex* in, Complex* out, int64_t stride) const {
    size_t padded = spectrum_.size();
    std::vector<Complex> x(padded), y(padded);
    for (int64_t k = 0; k < chirp_length_; ++k)
      x[static_cast<size_t>(k)] = in[k * stride] * chirp_[static_cast<size_t>(k)];
    inner_->run(x.data(), y.data());
    // The inverse transform by conjugating before and after.
    for (size_t k = 0; k < padded; ++k) y[k] = std::conj(y[k] * spectrum_[k]);
    inner_->run(y.data(), x.data());
    for (int64_t k = 0; k < chirp_length_; ++k)
      out[k] = std::conj(x[static_cast<size_t>(k)]) / static_cast<double>(padded) * chirp_[static_cast<size_t>(k)];
  }

  void step(const Complex* in, Complex* out, int64_t n, int64_t stride, size_t level) const {
    int64_t p = radices_[level], m = n / p;
    if (m == 1 && p > largest_radix) return convolve(in, out, stride);
    for (int64_t q = 0; q < p; ++q) {
      if (m == 1)
        out[q] = in[q * stride];
      else
        step(in + q * stride, out + q * m, m, stride * p, level + 1);
    }
    if (p == 2) return butterfly2(out, m, n_ / n);
    if (p == 4) return butterfly4(out, m, n_ / n);
    butterfly(out, m, p, n_ / n);
  }

  const Complex& root(int64_t k) const { return roots_[static_cast<size_t>(k)]; }

  void butterfly2(Complex* out, int64_t m, int64_t unit) const {
    for (int64_t k = 0; k < m; ++k) {
      Complex a = out[k], b = product(out[k + m], root(k * unit));
      out[k] = a + b;
      out[k + m] = a - b;
    }
  }

  void butterfly4(Complex* out, int64_t m, int64_t unit) const {
    for (int64_t k = 0; k < m; ++k) {
      Complex a = out[k], b = product(out[k + m], root(k * unit));
      Complex c = product(out[k + 2 * m], root(2 * k * unit)), d = product(out[k + 3 * m], root(3 * k * unit));
      Complex even = a + c, odd = a - c, sum = b + d, difference = b - d;
      Complex turned(-sign_ * difference.imag(), sign_ * difference.real());
      out[k] = even + sum;
      out[k + m] = odd + turned;
      out[k + 2 * m] = even - sum;
      out[k + 3 * m] = odd - turned;
    }
  }

  void butterfly(Complex* out, int64_t m, int64_t p, int64_t unit) const {
    Complex in[largest_radix];
    for (int64_t k = 0; k < m; ++k) {
      for (int64_t q = 0; q < p; ++q) in[q] = product(out[k + q * m], root(q * k * unit));
      for (int64_t r = 0; r < p; ++r) {
        Complex sum = in[0];
        for (int64_t q = 1; q < p; ++q) sum += product(in[q], root(q * r % p * m * unit));
        out[k + r * m] = sum;
      }
    }
  }

  // Without the special cases of infinities that operator* looks for.
  static Complex product(const Complex& a, const Complex& b) {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  }

  int64_t n_;
  double sign_;
  std::vector<int64_t> radices_;
  std::vector<Complex> roots_;
  int64_t chirp_length_ = 0;
  std::vector<Complex> chirp_, spectrum_;
  std::unique_ptr<Transform> inner_;
};

Complex read_element(DType dtype, const std::byte* at) {
  float f[2] = {0, 0};
  double d[2] = {0, 0};
  switch (dtype) {
    case DType::f32:
    case DType::c64:
      std::memcpy(f, at, static_cast<size_t>(dtype_bytes(dtype)));
      return {f[0], f[1]};
    default:
      std::memcpy(d, at, static_cast<size_t>(dtype_bytes(dtype)));
      return {d[0], d[1]};
  }
}

// Of a real type: the real part.
void write_element(DType dtype, std::byte* at, Complex value) {
  float f[2] = {static_cast<float>(value.real()), static_cast<float>(value.imag())};
  double d[2] = {value.real(), value.imag()};
  bool narrow = dtype == DType::f32 || dtype == DType::c64;
  std::memcpy(at, narrow ? static_cast<const void*>(f) : static_cast<const void*>(d),
              static_cast<size_t>(dtype_bytes(dtype)));
}

double scale_of(LibraryCall& call, double elements) {
  int64_t normalization = call.integer("normalization", 0);
  return normalization == 0 ? 1.0 : normalization == 1 ? 1 / std::sqrt(elements) : 1 / elements;
}

int64_t grain_of(int64_t length) { return std::max<int64_t>(1, 4096 / std::max<int64_t>(length, 1)); }

// One dimension of `from` transformed into `to` (which may be the same memory). Missing elements of a half spectrum
// are the conjugates of the others; a shorter `to` takes the first elements.
void transform_rows(LibraryCall& call, const TensorView& from, const TensorView& to, int64_t dim, int64_t n,
                    bool forward, double scale, bool half_spectrum) {
  Rows source(from, dim), target(to, dim);
  Transform transform(n, forward);
  int64_t given = std::min(source.length(), n);
  call.parallel(source.count(), grain_of(n), [&](int64_t begin, int64_t end) {
    std::vector<Complex> x(static_cast<size_t>(n)), y(static_cast<size_t>(n));
    for (int64_t r = begin; r < end; ++r) {
      const std::byte* in = source.row(r);
      for (int64_t i = 0; i < given; ++i) x[static_cast<size_t>(i)] = read_element(from.dtype, in + i * source.step());
      if (half_spectrum) {
        // What must be real is taken as real.
        x[0] = x[0].real();
        if (n % 2 == 0) x[static_cast<size_t>(n / 2)] = x[static_cast<size_t>(n / 2)].real();
        for (int64_t i = n / 2 + 1; i < n; ++i) x[static_cast<size_t>(i)] = std::conj(x[static_cast<size_t>(n - i)]);
      }
      transform.run(x.data(), y.data());
      std::byte* out = target.row(r);
      for (int64_t i = 0; i < target.length(); ++i)
        write_element(to.dtype, out + i * target.step(), y[static_cast<size_t>(i)] * scale);
    }
  });
}

// A temporary complex tensor of double, row-major.
struct Scratch {
  Scratch(std::span<const int64_t> from) : sizes(from.begin(), from.end()), strides(from.size()) {
    int64_t stride = 1;
    for (size_t d = sizes.size(); d-- > 0;) {
      strides[d] = stride;
      stride *= sizes[d];
    }
    values.resize(static_cast<size_t>(stride));
  }
  TensorView view() { return {DType::c128, sizes, strides, reinterpret_cast<std::byte*>(values.data())}; }
  std::vector<int64_t> sizes, strides;
  std::vector<Complex> values;
};

void copy_values(LibraryCall& call, const TensorView& from, const TensorView& to) {
  Rows source(from, from.rank() - 1), target(to, to.rank() - 1);
  call.parallel(source.count(), grain_of(source.length()), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t i = 0; i < target.length(); ++i)
        write_element(to.dtype, target.row(r) + i * target.step(),
                      read_element(from.dtype, source.row(r) + i * source.step()));
  });
}

std::vector<int64_t> wrapped_dims(LibraryCall& call, int64_t rank) {
  std::vector<int64_t> dims = call.integers("dim");
  for (int64_t& dim : dims) dim = wrap_dim(call, dim, rank);
  return dims;
}

double elements_of(const TensorView& tensor, const std::vector<int64_t>& dims) {
  double count = 1;
  for (int64_t dim : dims) count *= static_cast<double>(tensor.sizes[static_cast<size_t>(dim)]);
  return count;
}

}  // namespace

void run_fft_c2c(LibraryCall& call) {
  TensorView self = call.tensor("self"), out = call.output(0);
  std::vector<int64_t> dims = wrapped_dims(call, self.rank());
  double scale = scale_of(call, elements_of(self, dims));
  bool forward = call.boolean("forward", true);
  if (dims.empty()) return copy_values(call, self, out);
  if (dims.size() == 1)
    return transform_rows(call, self, out, dims[0], self.sizes[static_cast<size_t>(dims[0])], forward, scale, false);
  Scratch scratch(self.sizes);
  for (size_t i = 0; i < dims.size(); ++i) {
    bool last = i + 1 == dims.size();
    transform_rows(call, i == 0 ? self : scratch.view(), last ? out : scratch.view(), dims[i],
                   self.sizes[static_cast<size_t>(dims[i])], forward, last ? scale : 1.0, false);
  }
}

// The last of `dim` is the one whose result is halved; it goes first, on real numbers.
void run_fft_r2c(LibraryCall& call) {
  TensorView self = call.tensor("self"), out = call.output(0);
  std::vector<int64_t> dims = wrapped_dims(call, self.rank());
  double scale = scale_of(call, elements_of(self, dims));
  if (dims.size() == 1)
    return transform_rows(call, self, out, dims[0], self.sizes[static_cast<size_t>(dims[0])], true, scale, false);
  Scratch scratch(out.sizes);
  for (size_t i = dims.size(); i-- > 0;) {
    bool first = i + 1 == dims.size();
    transform_rows(call, first ? self : scratch.view(), i == 0 ? out : scratch.view(), dims[i],
                   self.sizes[static_cast<size_t>(dims[i])], true, i == 0 ? scale : 1.0, false);
  }
}

void run_fft_c2r(LibraryCall& call) {
  TensorView self = call.tensor("self"), out = call.output(0);
  std::vector<int64_t> dims = wrapped_dims(call, self.rank());
  double scale = scale_of(call, elements_of(out, dims));
  int64_t n = call.integer("last_dim_size", 0);
  if (dims.size() == 1) return transform_rows(call, self, out, dims[0], n, false, scale, true);
  Scratch scratch(self.sizes);
  for (size_t i = 0; i + 1 < dims.size(); ++i)
    transform_rows(call, i == 0 ? self : scratch.view(), scratch.view(), dims[i],
                   self.sizes[static_cast<size_t>(dims[i])], false, 1.0, false);
  transform_rows(call, scratch.view(), out, dims.back(), n, false, scale, true);
}

}  // namespace kiln::runtime
