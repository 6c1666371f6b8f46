// sytrd / hetrd, then steqr: implicit QL or QR steps, whichever end is smaller.
#include <algorithm>

#include "lapack/reflectors.h"
#include "lapack/rotations.h"
#include "lapack/spectral.h"

namespace kiln::lapack {
namespace {

// Eigenvalues of the tridiagonal matrix (d, e), and the product of all rotations in z.
class Tridiagonal {
 public:
  Tridiagonal(std::vector<double>& d, std::vector<double>& e, Matrix<double>& z, double unit)
      : unit_(unit), d_(d), e_(e), z_(z), n_(static_cast<int64_t>(d.size())), steps_left_(30 * n_) {}

  bool run() {
    for (int64_t begin = 0; begin < n_;) {
      if (begin > 0) e(begin - 1) = 0;
      int64_t end = begin;
      for (; end < n_ - 1; ++end) {
        double size = std::fabs(e(end));
        if (size == 0) break;
        if (size <= std::sqrt(std::fabs(d(end))) * std::sqrt(std::fabs(d(end + 1))) * unit_) {
          e(end) = 0;
          break;
        }
      }
      int64_t first = begin, last = end;
      begin = end + 1;
      if (first == last) continue;
      bool done = std::fabs(d(last)) < std::fabs(d(first)) ? from_below(last, first) : from_above(first, last);
      if (!done) return false;
    }
    sort();
    return true;
  }

 private:
  double& d(int64_t i) { return d_[static_cast<size_t>(i)]; }
  double& e(int64_t i) { return e_[static_cast<size_t>(i)]; }
  bool negligible(int64_t k) {
    double size = e(k) * e(k);
    return size <= unit_ * unit_ * std::fabs(d(k)) * std::fabs(d(k + 1)) + smallest;
  }
  double shift(double p, double near, double off, double far) {
    double g = (near - p) / (2 * off), r = std::hypot(g, 1);
    return far - p + off / (g + sign(r, g));
  }

  // QL: eigenvalues appear at the top, l grows to last.
  bool from_above(int64_t l, int64_t last) {
    while (l <= last) {
      int64_t m = l;
      while (m < last && !negligible(m)) ++m;
      if (m < last) e(m) = 0;
      double p = d(l);
      if (m == l) {
        ++l;
        continue;
      }
      if (m == l + 1) {
        Eigen2 two = symmetric_2x2(d(l), e(l), d(l + 1));
        turn_columns(z_, l, l + 1, two.c, two.s);
        d(l) = two.first;
        d(l + 1) = two.second;
        e(l) = 0;
        l += 2;
        continue;
      }
      if (steps_left_-- == 0) return false;
      double g = shift(p, d(l + 1), e(l), d(m)), s = 1, c = 1;
      p = 0;
      turns_.resize(m - l);
      for (int64_t i = m - 1; i >= l; --i) {
        double f = s * e(i), b = c * e(i);
        Rotation t = make_older_rotation(g, f);
        c = t.c;
        s = t.s;
        if (i != m - 1) e(i + 1) = t.r;
        g = d(i + 1) - p;
        double r = (d(i) - g) * s + 2 * c * b;
        p = s * r;
        d(i + 1) = g + p;
        g = c * r - b;
        turns_.set(i - l, c, -s);
      }
      turn_columns(z_, l, turns_, false);
      d(l) -= p;
      e(l) = g;
    }
    return true;
  }

  // QR: eigenvalues appear at the bottom, l falls to first.
  bool from_below(int64_t l, int64_t first) {
    while (l >= first) {
      int64_t m = l;
      while (m > first && !negligible(m - 1)) --m;
      if (m > first) e(m - 1) = 0;
      double p = d(l);
      if (m == l) {
        --l;
        continue;
      }
      if (m == l - 1) {
        Eigen2 two = symmetric_2x2(d(l - 1), e(l - 1), d(l));
        turn_columns(z_, l - 1, l, two.c, two.s);
        d(l - 1) = two.first;
        d(l) = two.second;
        e(l - 1) = 0;
        l -= 2;
        continue;
      }
      if (steps_left_-- == 0) return false;
      double g = shift(p, d(l - 1), e(l - 1), d(m)), s = 1, c = 1;
      p = 0;
      turns_.resize(l - m);
      for (int64_t i = m; i < l; ++i) {
        double f = s * e(i), b = c * e(i);
        Rotation t = make_older_rotation(g, f);
        c = t.c;
        s = t.s;
        if (i != m) e(i - 1) = t.r;
        g = d(i) - p;
        double r = (d(i + 1) - g) * s + 2 * c * b;
        p = s * r;
        d(i) = g + p;
        g = c * r - b;
        turns_.set(i - m, c, s);
      }
      turn_columns(z_, m, turns_, true);
      d(l) -= p;
      e(l - 1) = g;
    }
    return true;
  }

  void sort() {
    for (int64_t i = 0; i + 1 < n_; ++i) {
      int64_t least = i;
      for (int64_t j = i + 1; j < n_; ++j)
        if (d(j) < d(least)) least = j;
      if (least == i) continue;
      std::swap(d(i), d(least));
      for (int64_t row = 0; row < z_.rows; ++row) std::swap(z_(row, i), z_(row, least));
    }
  }

  double unit_;
  std::vector<double>&d_, &e_;
  Matrix<double>& z_;
  int64_t n_, steps_left_;
  Sequence turns_;
};

// The matrix seen from its other end. LAPACK starts at the last column when it is given the upper triangle.
template <class T>
void reverse_rows(Matrix<T>& a) {
  for (int64_t i = 0; i < a.rows / 2; ++i)
    for (int64_t j = 0; j < a.columns; ++j) std::swap(a(i, j), a(a.rows - 1 - i, j));
}

}  // namespace

template <class T>
bool hermitian_eigen(Matrix<T> a, bool upper, std::vector<double>& values, Matrix<T>& vectors, double unit) {
  int64_t n = a.rows;
  if (upper) std::reverse(a.values.begin(), a.values.end());
  for (int64_t i = 0; i < n; ++i) {
    a(i, i) = T(real_part(a(i, i)));
    for (int64_t j = i + 1; j < n; ++j) a(i, j) = conjugate(a(j, i));
  }
  Reflectors<T> all;
  values.assign(static_cast<size_t>(n), 0);
  std::vector<double> below(static_cast<size_t>(n), 0);
  for (int64_t i = 0; i + 1 < n; ++i) {
    Reflector<T> h = column_reflector(a, i + 1, i);
    below[static_cast<size_t>(i)] = h.beta;
    apply_left(a, h, conjugate(h.tau), i + 1);
    apply_right(a, h, h.tau, i + 1);
    all.push_back(std::move(h));
  }
  for (int64_t i = 0; i < n; ++i) values[static_cast<size_t>(i)] = real_part(a(i, i));
  if (upper) {
    std::reverse(values.begin(), values.end());
    if (n > 1) std::reverse(below.begin(), below.end() - 1);
  }
  Matrix<double> z = identity<double>(n);
  bool done = Tridiagonal(values, below, z, unit).run();
  vectors = Matrix<T>(n, n);
  for (size_t i = 0; i < z.values.size(); ++i) vectors.values[i] = T(z.values[i]);
  if (upper) reverse_rows(vectors);
  apply_all(all, vectors);
  if (upper) reverse_rows(vectors);
  return done;
}

template bool hermitian_eigen(Matrix<double>, bool, std::vector<double>&, Matrix<double>&, double);
template bool hermitian_eigen(Matrix<Complex>, bool, std::vector<double>&, Matrix<Complex>&, double);

}  // namespace kiln::lapack
