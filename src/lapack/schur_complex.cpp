// lahqr for complex matrices: single shifts, subdiagonal entries kept real.
#include "lapack/deflation.h"

namespace kiln::lapack {
namespace {

class ComplexSchur {
 public:
  ComplexSchur(Matrix<Complex>& h, Matrix<Complex>& z, const Balance& balance, std::vector<Complex>& values,
               double unit)
      : ulp_(2 * unit), h_(h), z_(z), balance_(balance), n_(h.rows), values_(values) {}

  bool run() {
    for (int64_t i = 0; i < n_; ++i)
      if (i < balance_.low || i > balance_.high) values_[static_cast<size_t>(i)] = h_(i, i);
    for (int64_t i = balance_.low + 1; i <= balance_.high; ++i)
      if (h_(i, i - 1).imag() != 0) {
        Complex entry = h_(i, i - 1), turn = std::conj(entry) / std::abs(entry);
        h_(i, i - 1) = std::abs(entry);
        scale_row(i, i, turn);
        scale_column(i, std::min(n_ - 1, i + 1), std::conj(turn));
      }
    return deflate(
        h_, balance_, ulp_, 1, [this](int64_t l, int64_t i, int sweeps) { sweep(l, i, choose_shift(l, i, sweeps)); },
        [this](int64_t, int64_t i) { values_[static_cast<size_t>(i)] = h_(i, i); });
  }

 private:
  void scale_row(int64_t i, int64_t from, Complex by) {
    for (int64_t j = from; j < n_; ++j) h_(i, j) *= by;
  }
  // Rows 0 … last of the column, and the whole column of z.
  void scale_column(int64_t j, int64_t last, Complex by) {
    for (int64_t i = 0; i <= last; ++i) h_(i, j) *= by;
    for (int64_t i = 0; i < n_; ++i) z_(i, j) *= by;
  }

  Complex choose_shift(int64_t l, int64_t i, int deflated) const {
    if (deflated % 20 == 0) return 0.75 * std::fabs(h_(i, i - 1).real()) + h_(i, i);
    if (deflated % 10 == 0) return 0.75 * std::fabs(h_(l + 1, l).real()) + h_(l, l);
    Complex t = h_(i, i), u = std::sqrt(h_(i - 1, i)) * std::sqrt(h_(i, i - 1));
    double s = rough(u);
    if (s == 0) return t;
    Complex x = 0.5 * (h_(i - 1, i - 1) - t);
    double size = rough(x);
    s = std::max(s, size);
    Complex y = s * std::sqrt((x / s) * (x / s) + (u / s) * (u / s));
    if (size > 0 && (x / size).real() * y.real() + (x / size).imag() * y.imag() < 0) y = -y;
    return t - u * (u / (x + y));
  }

  void sweep(int64_t l, int64_t i, Complex t) {
    std::vector<Complex> v(2);
    int64_t m = i - 1;
    for (;; --m) {
      Complex h11 = h_(m, m), h22 = h_(m + 1, m + 1), shifted = h11 - t;
      double h21 = h_(m + 1, m).real(), s = rough(shifted) + std::fabs(h21);
      shifted /= s;
      h21 /= s;
      v = {shifted, Complex(h21)};
      if (m == l) break;
      double h10 = h_(m, m - 1).real();
      if (std::fabs(h10) * std::fabs(h21) <= ulp_ * (rough(shifted) * (rough(h11) + rough(h22)))) break;
    }
    for (int64_t k = m; k < i; ++k) {
      if (k > m) v = {h_(k, k - 1), h_(k + 1, k - 1)};
      Reflector<Complex> h = make_reflector(v, k);
      if (k > m) {
        h_(k, k - 1) = h.beta;
        h_(k + 1, k - 1) = 0;
      }
      reflect(h, k, i);
      if (k != m || m <= l) continue;
      Complex turn = 1.0 - h.tau;
      turn /= std::abs(turn);
      h_(m + 1, m) *= std::conj(turn);
      if (m + 2 <= i) h_(m + 2, m + 1) *= turn;
      for (int64_t j = m; j <= i; ++j) {
        if (j == m + 1) continue;
        scale_row(j, j + 1, turn);
        scale_column(j, j - 1, std::conj(turn));
      }
    }
    Complex corner = h_(i, i - 1);
    if (corner.imag() == 0) return;
    h_(i, i - 1) = std::abs(corner);
    corner /= std::abs(corner);
    scale_row(i, i + 1, std::conj(corner));
    scale_column(i, i - 1, corner);
  }

  void reflect(const Reflector<Complex>& h, int64_t k, int64_t i) {
    apply_left(h_, h, std::conj(h.tau), k);
    auto columns = [&](Matrix<Complex>& target, int64_t end) {
      for (int64_t r = 0; r < end; ++r) {
        Complex dot = h.tau * (target(r, k) + target(r, k + 1) * h.v[1]);
        target(r, k) -= dot;
        target(r, k + 1) -= dot * std::conj(h.v[1]);
      }
    };
    columns(h_, std::min(k + 2, i) + 1);
    columns(z_, n_);
  }

  double ulp_;
  Matrix<Complex>&h_, &z_;
  const Balance& balance_;
  int64_t n_;
  std::vector<Complex>& values_;
};

}  // namespace

bool schur(Matrix<Complex>& a, Matrix<Complex>& q, const Balance& balance, std::vector<Complex>& values, double unit) {
  return ComplexSchur(a, q, balance, values, unit).run();
}

}  // namespace kiln::lapack
