// Householder reflections H = 1 - tau v vᴴ with v(0) = 1, as LAPACK's larfg makes them: Hᴴ x = beta e₁ with real beta.
#pragma once
#include <algorithm>
#include <cmath>

#include "lapack/matrix.h"

namespace kiln::lapack {

template <class T>
struct Reflector {
  int64_t start = 0;  // the row (or column) of v(0)
  std::vector<T> v;
  T tau{};  // 0: H is the identity
  double beta = 0;
};

template <class T>
Reflector<T> make_reflector(std::vector<T> x, int64_t start) {
  Reflector<T> out{start, std::move(x), T{}, 0};
  if (out.v.empty()) return out;
  T alpha = out.v[0];
  double rest = 0, largest = 0;
  for (size_t i = 1; i < out.v.size(); ++i) largest = std::max(largest, std::abs(out.v[i]));
  for (size_t i = 1; i < out.v.size() && largest > 0; ++i) rest += std::norm(out.v[i] / largest);
  rest = largest * std::sqrt(rest);
  out.v[0] = T(1);
  out.beta = real_part(alpha);
  if (rest == 0 && imag_part(alpha) == 0) return out;
  out.beta = -std::copysign(std::hypot(std::abs(alpha), rest), real_part(alpha));
  out.tau = (T(out.beta) - alpha) / out.beta;
  for (size_t i = 1; i < out.v.size(); ++i) out.v[i] /= alpha - T(out.beta);
  return out;
}

// Column c from row r on, and row r from column c on (conjugated: what acts from the right).
template <class T>
Reflector<T> column_reflector(const Matrix<T>& a, int64_t r, int64_t c) {
  std::vector<T> x;
  for (int64_t i = r; i < a.rows; ++i) x.push_back(a(i, c));
  return make_reflector(std::move(x), r);
}
template <class T>
Reflector<T> row_reflector(const Matrix<T>& a, int64_t r, int64_t c) {
  std::vector<T> x;
  for (int64_t j = c; j < a.columns; ++j) x.push_back(conjugate(a(r, j)));
  return make_reflector(std::move(x), c);
}

// a becomes (1 - tau v vᴴ) a; columns from `first` on. Give conj(tau) for Hᴴ.
template <class T>
void apply_left(Matrix<T>& a, const Reflector<T>& h, T tau, int64_t first = 0) {
  if (tau == T{}) return;
  auto count = static_cast<int64_t>(h.v.size());
  for (int64_t j = first; j < a.columns; ++j) {
    T dot{};
    for (int64_t i = 0; i < count; ++i) dot += conjugate(h.v[static_cast<size_t>(i)]) * a(h.start + i, j);
    dot *= tau;
    for (int64_t i = 0; i < count; ++i) a(h.start + i, j) -= h.v[static_cast<size_t>(i)] * dot;
  }
}
// a becomes a (1 - tau v vᴴ); rows from `first` on.
template <class T>
void apply_right(Matrix<T>& a, const Reflector<T>& h, T tau, int64_t first = 0) {
  if (tau == T{}) return;
  auto count = static_cast<int64_t>(h.v.size());
  for (int64_t i = first; i < a.rows; ++i) {
    T dot{};
    for (int64_t j = 0; j < count; ++j) dot += a(i, h.start + j) * h.v[static_cast<size_t>(j)];
    dot *= tau;
    for (int64_t j = 0; j < count; ++j) a(i, h.start + j) -= dot * conjugate(h.v[static_cast<size_t>(j)]);
  }
}

template <class T>
using Reflectors = std::vector<Reflector<T>>;

// a becomes H₀ H₁ … a (Q from the left).
template <class T>
void apply_all(const Reflectors<T>& all, Matrix<T>& a) {
  for (size_t k = all.size(); k-- > 0;) apply_left(a, all[k], all[k].tau);
}

// QR: a becomes R (with zeros below); the reflections make Q.
template <class T>
Reflectors<T> reduce_columns(Matrix<T>& a) {
  Reflectors<T> out;
  for (int64_t k = 0; k < std::min(a.rows, a.columns); ++k) {
    Reflector<T> h = column_reflector(a, k, k);
    apply_left(a, h, conjugate(h.tau), k + 1);
    a(k, k) = T(h.beta);
    for (int64_t i = k + 1; i < a.rows; ++i) a(i, k) = T{};
    out.push_back(std::move(h));
  }
  return out;
}

}  // namespace kiln::lapack
