// gebrd, then bdsqr on the bidiagonal matrix, as gesdd does with small ones.
#include <algorithm>
#include <type_traits>

#include "lapack/reflectors.h"
#include "lapack/rotations.h"
#include "lapack/spectral.h"

namespace kiln::lapack {
namespace {

constexpr int64_t max_sweeps = 6;

// Singular values of the upper bidiagonal matrix (d, e); u takes rotations of columns, vt of rows.
class Bidiagonal {
 public:
  Bidiagonal(std::vector<double>& d, std::vector<double>& e, Matrix<double>& u, Matrix<double>& vt, double unit)
      : unit_(unit), d_(d), e_(e), u_(u), vt_(vt), n_(static_cast<int64_t>(d.size())) {}

  bool run() {
    double least = std::fabs(d(0)), mu = least;
    for (int64_t i = 1; i < n_ && least != 0; ++i) {
      mu = std::fabs(d(i)) * (mu / (mu + std::fabs(e(i - 1))));
      least = std::min(least, mu);
    }
    double size = static_cast<double>(n_);
    threshold_ = std::max(tolerance_ * (least / std::sqrt(size)), max_sweeps * size * size * smallest);
    int64_t left = max_sweeps * n_ * n_;
    for (last_ = n_ - 1; last_ > 0;) {
      if (left < 0) return false;
      if (!find_block()) continue;
      if (first_ == last_ - 1) {
        two_by_two();
        continue;
      }
      if (converged()) continue;
      left -= last_ - first_;
      double shift = choose_shift();
      if (shift == 0)
        down_ ? zero_shift_down() : zero_shift_up();
      else
        down_ ? step_down(shift) : step_up(shift);
    }
    finish();
    return true;
  }

 private:
  double& d(int64_t i) { return d_[static_cast<size_t>(i)]; }
  double& e(int64_t i) { return e_[static_cast<size_t>(i)]; }

  // The block that ends at last_; false when its last value is found already.
  bool find_block() {
    largest_ = std::fabs(d(last_));
    for (int64_t k = last_ - 1; k >= 0; --k) {
      double off = std::fabs(e(k));
      if (!(off > threshold_)) {
        e(k) = 0;
        if (k == last_ - 1) {
          --last_;
          return false;
        }
        first_ = k + 1;
        return true;
      }
      largest_ = std::max({largest_, std::fabs(d(k)), off});
    }
    first_ = 0;
    return true;
  }

  void two_by_two() {
    int64_t m = last_;
    Singular2 two = triangular_2x2(d(m - 1), e(m - 1), d(m));
    d(m - 1) = two.largest;
    e(m - 1) = 0;
    d(m) = two.least;
    turn_rows(vt_, m - 1, m, two.cr, two.sr);
    turn_columns(u_, m - 1, m, two.cl, two.sl);
    last_ -= 2;
  }

  // Chooses the direction for a new block, and drops what is negligible.
  bool converged() {
    if (first_ > old_last_ || last_ < old_first_) down_ = std::fabs(d(first_)) >= std::fabs(d(last_));
    int64_t edge = down_ ? last_ - 1 : first_;
    if (std::fabs(e(edge)) <= tolerance_ * std::fabs(d(down_ ? last_ : first_))) {
      e(edge) = 0;
      return true;
    }
    double mu = std::fabs(d(down_ ? first_ : last_));
    least_ = mu;
    for (int64_t k = 0; k < last_ - first_; ++k) {
      int64_t at = down_ ? first_ + k : last_ - 1 - k;
      if (std::fabs(e(at)) <= tolerance_ * mu) {
        e(at) = 0;
        return true;
      }
      mu = std::fabs(d(down_ ? at + 1 : at)) * (mu / (mu + std::fabs(e(at))));
      least_ = std::min(least_, mu);
    }
    old_first_ = first_;
    old_last_ = last_;
    return false;
  }

  double choose_shift() {
    if (static_cast<double>(n_) * tolerance_ * (least_ / largest_) <= std::max(unit_, 0.01 * tolerance_)) return 0;
    double start = std::fabs(d(down_ ? first_ : last_));
    double shift = down_ ? smaller_singular_value(d(last_ - 1), e(last_ - 1), d(last_))
                         : smaller_singular_value(d(first_), e(first_), d(first_ + 1));
    return start > 0 && (shift / start) * (shift / start) < unit_ ? 0 : shift;
  }

  void turn(const Sequence& rows, const Sequence& columns, bool forward) {
    turn_rows(vt_, first_, rows, forward);
    turn_columns(u_, first_, columns, forward);
  }
  void clear(int64_t k) {
    if (std::fabs(e(k)) <= threshold_) e(k) = 0;
  }

  void zero_shift_down() {
    a_.resize(last_ - first_);
    b_.resize(last_ - first_);
    double cs = 1;
    Rotation old;
    for (int64_t i = first_; i < last_; ++i) {
      Rotation one = make_rotation(d(i) * cs, e(i));
      cs = one.c;
      if (i > first_) e(i - 1) = old.s * one.r;
      old = make_rotation(old.c * one.r, d(i + 1) * one.s);
      d(i) = old.r;
      a_.set(i - first_, one.c, one.s);
      b_.set(i - first_, old.c, old.s);
    }
    double h = d(last_) * cs;
    d(last_) = h * old.c;
    e(last_ - 1) = h * old.s;
    turn(a_, b_, true);
    clear(last_ - 1);
  }

  void zero_shift_up() {
    a_.resize(last_ - first_);
    b_.resize(last_ - first_);
    double cs = 1;
    Rotation old;
    for (int64_t i = last_; i > first_; --i) {
      Rotation one = make_rotation(d(i) * cs, e(i - 1));
      cs = one.c;
      if (i < last_) e(i) = old.s * one.r;
      old = make_rotation(old.c * one.r, d(i - 1) * one.s);
      d(i) = old.r;
      a_.set(i - first_ - 1, one.c, -one.s);
      b_.set(i - first_ - 1, old.c, -old.s);
    }
    double h = d(first_) * cs;
    d(first_) = h * old.c;
    e(first_) = h * old.s;
    turn(b_, a_, false);
    clear(first_);
  }

  void step_down(double shift) {
    a_.resize(last_ - first_);
    b_.resize(last_ - first_);
    double f = (std::fabs(d(first_)) - shift) * (sign(1, d(first_)) + shift / d(first_)), g = e(first_);
    for (int64_t i = first_; i < last_; ++i) {
      Rotation r = make_rotation(f, g);
      if (i > first_) e(i - 1) = r.r;
      f = r.c * d(i) + r.s * e(i);
      e(i) = r.c * e(i) - r.s * d(i);
      g = r.s * d(i + 1);
      d(i + 1) = r.c * d(i + 1);
      Rotation l = make_rotation(f, g);
      d(i) = l.r;
      f = l.c * e(i) + l.s * d(i + 1);
      d(i + 1) = l.c * d(i + 1) - l.s * e(i);
      if (i < last_ - 1) {
        g = l.s * e(i + 1);
        e(i + 1) = l.c * e(i + 1);
      }
      a_.set(i - first_, r.c, r.s);
      b_.set(i - first_, l.c, l.s);
    }
    e(last_ - 1) = f;
    turn(a_, b_, true);
    clear(last_ - 1);
  }

  void step_up(double shift) {
    a_.resize(last_ - first_);
    b_.resize(last_ - first_);
    double f = (std::fabs(d(last_)) - shift) * (sign(1, d(last_)) + shift / d(last_)), g = e(last_ - 1);
    for (int64_t i = last_; i > first_; --i) {
      Rotation r = make_rotation(f, g);
      if (i < last_) e(i) = r.r;
      f = r.c * d(i) + r.s * e(i - 1);
      e(i - 1) = r.c * e(i - 1) - r.s * d(i);
      g = r.s * d(i - 1);
      d(i - 1) = r.c * d(i - 1);
      Rotation l = make_rotation(f, g);
      d(i) = l.r;
      f = l.c * e(i - 1) + l.s * d(i - 1);
      d(i - 1) = l.c * d(i - 1) - l.s * e(i - 1);
      if (i > first_ + 1) {
        g = l.s * e(i - 2);
        e(i - 2) = l.c * e(i - 2);
      }
      a_.set(i - first_ - 1, r.c, -r.s);
      b_.set(i - first_ - 1, l.c, -l.s);
    }
    e(first_) = f;
    clear(first_);
    turn(b_, a_, false);
  }

  // Values without signs, descending.
  void finish() {
    for (int64_t i = 0; i < n_; ++i) {
      if (!std::signbit(d(i))) continue;
      d(i) = -d(i);
      for (int64_t j = 0; j < vt_.columns; ++j) vt_(i, j) = -vt_(i, j);
    }
    for (int64_t end = n_ - 1; end > 0; --end) {
      int64_t least = 0;
      for (int64_t j = 1; j <= end; ++j)
        if (d(j) <= d(least)) least = j;
      if (least == end) continue;
      std::swap(d(least), d(end));
      for (int64_t j = 0; j < vt_.columns; ++j) std::swap(vt_(least, j), vt_(end, j));
      for (int64_t i = 0; i < u_.rows; ++i) std::swap(u_(i, least), u_(i, end));
    }
  }

  double unit_, tolerance_ = std::clamp(std::pow(unit_, -0.125), 10.0, 100.0) * unit_;
  std::vector<double>&d_, &e_;
  Matrix<double>&u_, &vt_;
  int64_t n_, first_ = 0, last_ = 0, old_first_ = -1, old_last_ = -1;
  bool down_ = true;
  double threshold_ = 0, largest_ = 0, least_ = 0;
  Sequence a_, b_;
};

// With u and vt of the bidiagonal matrix; a lower one is turned into an upper one first.
bool bidiagonal_values(std::vector<double>& d, std::vector<double>& e, bool lower, Matrix<double>& u,
                       Matrix<double>& vt, double unit) {
  auto n = static_cast<int64_t>(d.size());
  u = identity<double>(n);
  vt = identity<double>(n);
  if (n == 1) {
    u(0, 0) = sign(1, d[0]);
    d[0] = std::fabs(d[0]);
    return true;
  }
  Sequence turns;
  if (lower) {
    turns.resize(n - 1);
    for (size_t i = 0; i + 1 < d.size(); ++i) {
      Rotation r = make_rotation(d[i], e[i]);
      d[i] = r.r;
      e[i] = r.s * d[i + 1];
      d[i + 1] = r.c * d[i + 1];
      turns.set(static_cast<int64_t>(i), r.c, -r.s);
    }
  }
  bool done = Bidiagonal(d, e, u, vt, unit).run();
  if (lower) turn_rows(u, 0, turns, false);
  return done;
}

template <class T>
Matrix<T> padded(const Matrix<double>& block, int64_t rows, int64_t columns) {
  Matrix<T> out(rows, columns);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      bool inside = i < block.rows && j < block.columns;
      out(i, j) = inside ? T(block(i, j)) : T(i == j && i >= block.rows && j >= block.columns ? 1 : 0);
    }
  return out;
}

// a = Q B Pᴴ by reflections from both sides; upper where there are at least as many rows as columns.
template <class T>
void bidiagonalise(Matrix<T>& a, Reflectors<T>& left, Reflectors<T>& right, std::vector<double>& d,
                   std::vector<double>& e) {
  bool upper = a.rows >= a.columns;
  int64_t n = std::min(a.rows, a.columns);
  for (int64_t i = 0; i < n; ++i) {
    auto columns = [&](int64_t row, std::vector<double>& to) {
      Reflector<T> h = column_reflector(a, row, i);
      to.push_back(h.beta);
      apply_left(a, h, conjugate(h.tau), i + 1);
      left.push_back(std::move(h));
    };
    auto rows = [&](int64_t column, std::vector<double>& to) {
      Reflector<T> g = row_reflector(a, i, column);
      to.push_back(g.beta);
      apply_right(a, g, g.tau, i + 1);
      right.push_back(std::move(g));
    };
    if (upper) {
      columns(i, d);
      if (i + 1 < n) rows(i + 1, e);
    } else {
      rows(i, d);
      if (i + 1 < n) columns(i + 1, e);
    }
  }
}

template <class T>
Matrix<T> bidiagonal_vectors(Matrix<T>& a, bool full, std::vector<double>& values, Matrix<T>& vh, double unit,
                             bool& done) {
  Reflectors<T> left, right;
  std::vector<double> off;
  int64_t m = a.rows, n = a.columns, k = std::min(m, n);
  values.clear();
  bidiagonalise(a, left, right, values, off);
  Matrix<double> inner, outer;
  done = bidiagonal_values(values, off, m < n, inner, outer, unit);
  Matrix<T> u = padded<T>(inner, m, full ? m : k);
  apply_all(left, u);
  // vt Pᴴ = (P v)ᴴ
  Matrix<T> v = adjoint(padded<T>(outer, full ? n : k, n));
  apply_all(right, v);
  vh = adjoint(v);
  return u;
}

// Whether QR (of a tall matrix) or LQ (of a wide one) comes first. The limits are those that the library behind eager
// was seen to have: LAPACK's for complex matrices, another one for tall real ones, and none for wide real ones.
template <class T>
bool reduces_first(int64_t m, int64_t n) {
  constexpr bool real = std::is_same_v<T, double>;
  if (m == n || (real && m < n)) return false;
  return std::max(m, n) >= static_cast<int64_t>(static_cast<double>(std::min(m, n)) * (real ? 1.5 : 17.0 / 9.0));
}

}  // namespace

template <class T>
bool singular_values(Matrix<T> a, bool full, Matrix<T>& u, std::vector<double>& values, Matrix<T>& vh, double unit) {
  int64_t m = a.rows, n = a.columns, least = std::min(m, n), most = std::max(m, n);
  if (least == 0) {
    values.clear();
    u = full ? identity<T>(m) : Matrix<T>(m, 0);
    vh = full ? identity<T>(n) : Matrix<T>(0, n);
    return true;
  }
  bool done = false;
  if (!reduces_first<T>(m, n)) {
    u = bidiagonal_vectors(a, full, values, vh, unit, done);
    return done;
  }
  bool wide = m < n;
  if (wide) a = adjoint(a);
  // Wide: a = (Q R)ᴴ = L Qᴴ; LQ reflects rows, which are the adjoint's columns.
  Reflectors<T> outside = reduce_columns(a);
  Matrix<T> core(least, least);
  for (int64_t i = 0; i < least; ++i)
    for (int64_t j = i; j < least; ++j) core(i, j) = a(i, j);
  if (wide) core = adjoint(core);
  Matrix<T> core_vh, core_u = bidiagonal_vectors(core, false, values, core_vh, unit, done);
  auto lengthen = [&](const Matrix<T>& block) {
    Matrix<T> out(most, full ? most : least);
    for (int64_t i = 0; i < most; ++i)
      for (int64_t j = 0; j < out.columns; ++j)
        out(i, j) = i < least && j < least ? block(i, j) : T(i == j && i >= least ? 1 : 0);
    apply_all(outside, out);
    return out;
  };
  u = wide ? core_u : lengthen(core_u);
  vh = wide ? adjoint(lengthen(adjoint(core_vh))) : core_vh;
  return done;
}

template bool singular_values(Matrix<double>, bool, Matrix<double>&, std::vector<double>&, Matrix<double>&, double);
template bool singular_values(Matrix<Complex>, bool, Matrix<Complex>&, std::vector<double>&, Matrix<Complex>&, double);

}  // namespace kiln::lapack
