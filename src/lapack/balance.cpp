#include "lapack/hessenberg.h"

namespace kiln::lapack {
namespace {

template <class T>
void exchange(Matrix<T>& a, int64_t j, int64_t m) {
  if (j == m) return;
  for (int64_t i = 0; i < a.rows; ++i) std::swap(a(i, j), a(i, m));
  for (int64_t k = 0; k < a.columns; ++k) std::swap(a(j, k), a(m, k));
}

// Rows whose other entries are zero go to the end, such columns to the front.
template <class T>
void isolate(Matrix<T>& a, Balance& b) {
  auto zero_row = [&](int64_t j) {
    for (int64_t i = b.low; i <= b.high; ++i)
      if (i != j && a(j, i) != T{}) return false;
    return true;
  };
  auto zero_column = [&](int64_t j) {
    for (int64_t i = b.low; i <= b.high; ++i)
      if (i != j && a(i, j) != T{}) return false;
    return true;
  };
  for (bool found = true; found;) {
    found = false;
    for (int64_t j = b.high; j >= b.low; --j) {
      if (!zero_row(j)) continue;
      b.moved[static_cast<size_t>(b.high)] = j;
      exchange(a, j, b.high);
      if (b.high == b.low) return;
      --b.high;
      found = true;
      break;
    }
  }
  for (bool found = true; found;) {
    found = false;
    for (int64_t j = b.low; j <= b.high; ++j) {
      if (!zero_column(j)) continue;
      b.moved[static_cast<size_t>(b.low)] = j;
      exchange(a, j, b.low);
      ++b.low;
      found = true;
      break;
    }
  }
}

template <class T>
bool scale_one(Matrix<T>& a, Balance& b, int64_t i) {
  double c = 0, r = 0;
  for (int64_t k = b.low; k <= b.high; ++k) {
    c += std::norm(a(k, i));
    r += std::norm(a(i, k));
  }
  c = std::sqrt(c);
  r = std::sqrt(r);
  if (c == 0 || r == 0 || !std::isfinite(c + r)) return false;
  double f = 1, before = c + r;
  while (c < r / 2 && f < 1e150) f *= 2, c *= 2, r /= 2;
  while (c / 2 >= r && f > 1e-150) f /= 2, c /= 2, r *= 2;
  if (c + r >= 0.95 * before) return false;
  b.scale[static_cast<size_t>(i)] *= f;
  for (int64_t k = 0; k < a.columns; ++k) a(i, k) /= f;
  for (int64_t k = 0; k < a.rows; ++k) a(k, i) *= f;
  return true;
}

}  // namespace

template <class T>
Balance balance_matrix(Matrix<T>& a) {
  int64_t n = a.rows;
  Balance b{0, n - 1, std::vector<int64_t>(static_cast<size_t>(n)), std::vector<double>(static_cast<size_t>(n), 1)};
  for (int64_t i = 0; i < n; ++i) b.moved[static_cast<size_t>(i)] = i;
  isolate(a, b);
  for (bool changed = b.low < b.high; changed;) {
    changed = false;
    for (int64_t i = b.low; i <= b.high; ++i) changed |= scale_one(a, b, i);
  }
  return b;
}

void undo_balance(const Balance& b, std::vector<Complex>& x) {
  for (size_t i = 0; i < x.size(); ++i) x[i] *= b.scale[i];
  auto back = [&](int64_t i) {
    std::swap(x[static_cast<size_t>(i)], x[static_cast<size_t>(b.moved[static_cast<size_t>(i)])]);
  };
  for (int64_t i = b.low - 1; i >= 0; --i) back(i);
  for (int64_t i = b.high + 1; i < static_cast<int64_t>(x.size()); ++i) back(i);
}

template <class T>
Matrix<T> hessenberg(Matrix<T>& a, const Balance& balance) {
  int64_t n = a.rows;
  Reflectors<T> all;
  for (int64_t i = balance.low; i + 1 <= balance.high; ++i) {
    std::vector<T> x;
    for (int64_t k = i + 1; k <= balance.high; ++k) x.push_back(a(k, i));
    Reflector<T> h = make_reflector(std::move(x), i + 1);
    apply_right(a, h, h.tau);
    apply_left(a, h, conjugate(h.tau), i + 1);
    a(i + 1, i) = T(h.beta);
    for (int64_t k = i + 2; k <= balance.high; ++k) a(k, i) = T{};
    all.push_back(std::move(h));
  }
  Matrix<T> q = identity<T>(n);
  apply_all(all, q);
  return q;
}

template Balance balance_matrix(Matrix<double>&);
template Balance balance_matrix(Matrix<Complex>&);
template Matrix<double> hessenberg(Matrix<double>&, const Balance&);
template Matrix<Complex> hessenberg(Matrix<Complex>&, const Balance&);

}  // namespace kiln::lapack
