// The operators of torch.fft against the definition of the transform, summed in long double: their references go
// through the same decomposition that is compiled.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numbers>

#include "ops/sample_reference_test.h"

namespace kiln {
namespace {

using Real = long double;
using Complex = std::complex<Real>;

// A dense row-major array.
struct Array {
  std::vector<int64_t> sizes;
  std::vector<Complex> values;
  int64_t inner(size_t dim) const {
    int64_t out = 1;
    for (size_t d = dim + 1; d < sizes.size(); ++d) out *= sizes[d];
    return out;
  }
};

Array array_of(const Tensor& tensor) {
  Array out{tensor.sizes, {}};
  for (int64_t i = 0; i < tensor.numel(); ++i) out.values.emplace_back(tensor.item(i).as_complex());
  return out;
}

// Every line along `dim` by f: from its elements the `length` elements of the result.
template <class F>
Array along(const Array& from, size_t dim, int64_t length, F f) {
  Array out{from.sizes, {}};
  out.sizes[dim] = length;
  const int64_t n = from.sizes[dim], inner = from.inner(dim);
  const int64_t outer = static_cast<int64_t>(from.values.size()) / (n * inner);
  out.values.resize(static_cast<size_t>(outer * length * inner));
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      std::vector<Complex> line;
      for (int64_t k = 0; k < n; ++k) line.push_back(from.values[static_cast<size_t>((o * n + k) * inner + i)]);
      for (int64_t k = 0; k < length; ++k) out.values[static_cast<size_t>((o * length + k) * inner + i)] = f(line, k);
    }
  return out;
}

Complex turn(Real sign, int64_t product, int64_t n) {
  return std::polar<Real>(1, sign * 2 * std::numbers::pi_v<Real> * static_cast<Real>(product) / static_cast<Real>(n));
}

Array whole(const Array& from, size_t dim, Real sign, int64_t length) {
  return along(from, dim, length, [&](const std::vector<Complex>& x, int64_t k) {
    const auto n = static_cast<int64_t>(x.size());
    Complex sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += x[static_cast<size_t>(j)] * turn(sign, j * k, n);
    return sum;
  });
}

// From half of a spectrum whose other half is its conjugate: a sum of cosines and sines.
Array from_half(const Array& from, size_t dim, Real sign, int64_t n) {
  return along(from, dim, n, [&](const std::vector<Complex>& x, int64_t j) {
    Real sum = x[0].real();
    for (int64_t k = 1; 2 * k < n; ++k) sum += 2 * (x[static_cast<size_t>(k)] * turn(sign, j * k, n)).real();
    if (n % 2 == 0) sum += x[static_cast<size_t>(n / 2)].real() * (j % 2 ? -1 : 1);
    return Complex(sum);
  });
}

enum class Kind { complex, to_half, from_half };

struct Row {
  const char* name;
  Kind kind;
  bool forward;
};

const Row rows[] = {{"fft", Kind::complex, true},    {"ifft", Kind::complex, false},
                    {"rfft", Kind::to_half, true},   {"irfft", Kind::from_half, false},
                    {"hfft", Kind::from_half, true}, {"ihfft", Kind::to_half, false}};

Array defined(const Array& from, const Row& row, const std::vector<size_t>& dims, const std::string& norm) {
  const Real sign = row.forward ? -1 : 1;
  Array out = from;
  Real count = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool last = i + 1 == dims.size();
    int64_t n = out.sizes[dims[i]];
    if (last && row.kind == Kind::from_half) {
      n = 2 * (n - 1);
      out = from_half(out, dims[i], sign, n);
    } else {
      out = whole(out, dims[i], sign, last && row.kind == Kind::to_half ? n / 2 + 1 : n);
    }
    count *= static_cast<Real>(n);
  }
  const bool by_count = row.forward == (norm == "forward");
  const Real scale = norm == "ortho" ? 1 / std::sqrt(count) : by_count ? 1 / count : 1;
  for (Complex& value : out.values) value *= scale;
  return out;
}

void check(const Row& row, const char* suffix, const std::vector<size_t>& dims, const std::string& norm, DType real) {
  const OpRecord* record = Registry::instance().find(str("aten.fft_", row.name, suffix, ".default"));
  ASSERT_NE(record, nullptr);
  const DType dtype = row.kind == Kind::to_half ? real : complex_of(real);
  Sample sample{{Sample::TensorSpec{{3, 4, 5}, dtype, -2, 2}, Argument::None{}, Argument::None{}, norm}};
  if (*suffix == 0) sample.args[2] = Scalar(static_cast<int64_t>(dims[0]));
  if (*suffix == '2') sample.args[2] = std::vector<int64_t>(dims.begin(), dims.end());
  Program program = program_from_sample(*record, sample, false, 3);
  const Array got = array_of(run_reference(*record, program).at(0).tensor());
  const Array expected = defined(array_of(program.sample_inputs[0].tensor()), row, dims, norm);
  ASSERT_EQ(got.sizes, expected.sizes);
  Real size = 0;
  for (const Complex& value : expected.values) size = std::max(size, std::abs(value));
  const Real tolerance = size * (real == DType::f64 ? 1e-15L : 4e-7L);
  for (size_t i = 0; i < got.values.size(); ++i)
    EXPECT_LE(std::abs(got.values[i] - expected.values[i]), tolerance) << record->name() << " " << norm << " at " << i;
}

TEST(Fourier, TransformsAreTheDefinition) {
  for (const Row& row : rows)
    for (const char* norm : {"backward", "ortho", "forward"})
      for (DType real : {DType::f64, DType::f32}) {
        for (size_t dim : {size_t{0}, size_t{1}, size_t{2}}) check(row, "", {dim}, norm, real);
        check(row, "2", {0, 2}, norm, real);
        check(row, "n", {0, 1, 2}, norm, real);
      }
}

}  // namespace
}  // namespace kiln
