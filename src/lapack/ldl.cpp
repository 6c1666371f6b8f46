#include "lapack/ldl.h"

#include <cmath>

namespace kiln::lapack {
namespace {

template <class T>
class Ldl {
 public:
  Ldl(Matrix<T>& a, std::vector<int64_t>& pivots, bool hermitian)
      : a_(a), pivots_(pivots), hermitian_(hermitian), n_(a.rows) {}

  int64_t run() {
    const double alpha = (1 + std::sqrt(17.0)) / 8;
    int64_t info = 0;
    pivots_.assign(static_cast<size_t>(n_), 0);
    for (int64_t k = 0; k < n_;) {
      int64_t step = 1, pivot = k, best = largest_below(k, k + 1);
      double own = diagonal_size(k), column = best < n_ ? rough(a_(best, k)) : 0;
      if (!(std::max(own, column) > 0)) {
        if (info == 0) info = k + 1;
      } else {
        if (own < alpha * column) {
          double row = 0;
          for (int64_t j = k; j < best; ++j) row = std::max(row, rough(a_(best, j)));
          for (int64_t i = best + 1; i < n_; ++i) row = std::max(row, rough(a_(i, best)));
          if (own >= alpha * column * (column / row)) {
            pivot = k;
          } else {
            pivot = best;
            step = diagonal_size(best) >= alpha * row ? 1 : 2;
          }
        }
        exchange(k, k + step - 1, pivot, step);
        step == 1 ? eliminate_one(k) : eliminate_two(k);
      }
      for (int64_t i = 0; i < step; ++i) pivots_[static_cast<size_t>(k + i)] = step == 1 ? pivot + 1 : -(pivot + 1);
      k += step;
    }
    for (int64_t i = 0; i < n_; ++i)
      for (int64_t j = i + 1; j < n_; ++j) a_(i, j) = T{};
    return info;
  }

 private:
  T mirrored(T x) const { return hermitian_ ? conjugate(x) : x; }
  double diagonal_size(int64_t i) const { return hermitian_ ? std::fabs(real_part(a_(i, i))) : rough(a_(i, i)); }
  int64_t largest_below(int64_t column, int64_t from) const {
    int64_t best = from;
    for (int64_t i = from + 1; i < n_; ++i)
      if (rough(a_(i, column)) > rough(a_(best, column))) best = i;
    return best;
  }

  void exchange(int64_t k, int64_t from, int64_t to, int64_t step) {
    if (from == to) return;
    for (int64_t i = to + 1; i < n_; ++i) std::swap(a_(i, from), a_(i, to));
    for (int64_t i = from + 1; i < to; ++i) {
      T old = mirrored(a_(i, from));
      a_(i, from) = mirrored(a_(to, i));
      a_(to, i) = old;
    }
    a_(to, from) = mirrored(a_(to, from));
    std::swap(a_(from, from), a_(to, to));
    if (step == 2) std::swap(a_(from, k), a_(to, k));
  }

  void eliminate_one(int64_t k) {
    T inverse = T(1) / (hermitian_ ? T(real_part(a_(k, k))) : a_(k, k));
    for (int64_t j = k + 1; j < n_; ++j) {
      T factor = mirrored(a_(j, k)) * inverse;
      for (int64_t i = j; i < n_; ++i) a_(i, j) -= a_(i, k) * factor;
    }
    for (int64_t i = k + 1; i < n_; ++i) a_(i, k) *= inverse;
  }

  // With D = [d11 m(d21); d21 d22], m for the mirrored entry: W = X D⁻¹ for the two columns X, and A -= W m(X)ᵀ.
  void eliminate_two(int64_t k) {
    T d21 = a_(k + 1, k), d11 = a_(k, k), d22 = a_(k + 1, k + 1), d12 = mirrored(d21), det = d11 * d22 - d21 * d12;
    Matrix<T> w(n_, 2);
    for (int64_t i = k + 2; i < n_; ++i) {
      w(i, 0) = (a_(i, k) * d22 - a_(i, k + 1) * d21) / det;
      w(i, 1) = (a_(i, k + 1) * d11 - a_(i, k) * d12) / det;
    }
    for (int64_t j = k + 2; j < n_; ++j)
      for (int64_t i = j; i < n_; ++i) a_(i, j) -= w(i, 0) * mirrored(a_(j, k)) + w(i, 1) * mirrored(a_(j, k + 1));
    for (int64_t i = k + 2; i < n_; ++i) {
      a_(i, k) = w(i, 0);
      a_(i, k + 1) = w(i, 1);
    }
  }

  Matrix<T>& a_;
  std::vector<int64_t>& pivots_;
  bool hermitian_;
  int64_t n_;
};

template <class T>
void swap_rows(Matrix<T>& b, int64_t i, int64_t j) {
  for (int64_t c = 0; c < b.columns && i != j; ++c) std::swap(b(i, c), b(j, c));
}

}  // namespace

template <class T>
int64_t factor_ldl(Matrix<T>& a, std::vector<int64_t>& pivots, bool hermitian) {
  return Ldl<T>(a, pivots, hermitian).run();
}

template <class T>
bool solve_ldl(const Matrix<T>& f, const std::vector<int64_t>& pivots, Matrix<T>& b, bool hermitian) {
  int64_t n = f.rows;
  auto mirrored = [&](T x) { return hermitian ? conjugate(x) : x; };
  auto pivot = [&](int64_t k) { return std::abs(pivots[static_cast<size_t>(k)]) - 1; };
  auto width = [&](int64_t k) { return pivots[static_cast<size_t>(k)] < 0 ? 2 : 1; };
  for (int64_t k = 0; k < n; ++k)
    if (pivot(k) < 0 || pivot(k) >= n || (width(k) == 2 && k + 1 == n && (k == 0 || width(k - 1) == 1))) return false;
  std::vector<int64_t> starts;
  for (int64_t k = 0; k < n;) {
    int64_t step = std::min<int64_t>(width(k), n - k);
    starts.push_back(k);
    swap_rows(b, k + step - 1, pivot(k));
    for (int64_t c = 0; c < b.columns; ++c) {
      for (int64_t i = k + step; i < n; ++i)
        for (int64_t s = 0; s < step; ++s) b(i, c) -= f(i, k + s) * b(k + s, c);
      if (step == 1) {
        b(k, c) /= f(k, k);
      } else {
        T d21 = f(k + 1, k), d12 = mirrored(d21), det = f(k, k) * f(k + 1, k + 1) - d21 * d12;
        T x = b(k, c), y = b(k + 1, c);
        b(k, c) = (x * f(k + 1, k + 1) - d12 * y) / det;
        b(k + 1, c) = (f(k, k) * y - d21 * x) / det;
      }
    }
    k += step;
  }
  for (size_t at = starts.size(); at-- > 0;) {
    int64_t k = starts[at], step = std::min<int64_t>(width(k), n - k);
    for (int64_t c = 0; c < b.columns; ++c)
      for (int64_t s = 0; s < step; ++s)
        for (int64_t i = k + step; i < n; ++i) b(k + s, c) -= mirrored(f(i, k + s)) * b(i, c);
    swap_rows(b, k + step - 1, pivot(k));
  }
  return true;
}

template int64_t factor_ldl(Matrix<double>&, std::vector<int64_t>&, bool);
template int64_t factor_ldl(Matrix<Complex>&, std::vector<int64_t>&, bool);
template bool solve_ldl(const Matrix<double>&, const std::vector<int64_t>&, Matrix<double>&, bool);
template bool solve_ldl(const Matrix<Complex>&, const std::vector<int64_t>&, Matrix<Complex>&, bool);

}  // namespace kiln::lapack
