// Matrices of the references (complex, whatever the tensor's type) as src/lapack takes them, and back.
#pragma once
#include "lapack/matrix.h"
#include "ops/linalg_reference.h"

namespace kiln {

// f(T{}) with the type that the steps run in.
template <class F>
void with_real_or_complex(bool real, F f) {
  if (real)
    f(double{});
  else
    f(Complex{});
}

template <class T>
Matrix<T> narrowed(const RefMatrix& a) {
  Matrix<T> out(a.rows, a.columns);
  for (size_t i = 0; i < a.values.size(); ++i) {
    if constexpr (std::is_same_v<T, double>)
      out.values[i] = a.values[i].real();
    else
      out.values[i] = a.values[i];
  }
  return out;
}

template <class T>
RefMatrix widened(const Matrix<T>& a) {
  RefMatrix out(a.rows, a.columns);
  out.values.assign(a.values.begin(), a.values.end());
  return out;
}

}  // namespace kiln
