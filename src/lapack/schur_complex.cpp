// lahqr for complex matrices: single shifts, subdiagonal entries kept real.
#include "lapack/hessenberg.h"

namespace kiln::lapack {
namespace {

double rough(Complex x) { return std::fabs(x.real()) + std::fabs(x.imag()); }

class ComplexSchur {
 public:
  ComplexSchur(Matrix<Complex>& h, Matrix<Complex>& z, const Balance& balance, std::vector<Complex>& values,
               double unit)
      : ulp_(2 * unit), h_(h), z_(z), low_(balance.low), high_(balance.high), n_(h.rows), values_(values) {}

  bool run() {
    for (int64_t i = 0; i < n_; ++i)
      if (i < low_ || i > high_) values_[static_cast<size_t>(i)] = h_(i, i);
    for (int64_t i = low_ + 1; i <= high_; ++i)
      if (h_(i, i - 1).imag() != 0) {
        Complex entry = h_(i, i - 1), turn = std::conj(entry) / std::abs(entry);
        h_(i, i - 1) = std::abs(entry);
        scale_row(i, i, turn);
        scale_column(i, std::min(n_ - 1, i + 1), std::conj(turn));
      }
    int64_t most = 30 * std::max<int64_t>(10, high_ - low_ + 1);
    for (int64_t i = high_; i >= low_;) {
      int64_t l = low_;
      int deflated = 0;
      bool found = false;
      for (int64_t step = 0; step <= most && !found; ++step) {
        l = small_below(i, l);
        if (l > low_) h_(l, l - 1) = 0;
        found = l >= i;
        if (!found) sweep(l, i, choose_shift(l, i, ++deflated));
      }
      if (!found) return false;
      values_[static_cast<size_t>(i)] = h_(i, i);
      i = l - 1;
    }
    return true;
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

  int64_t small_below(int64_t i, int64_t l) const {
    double tiny = smallest * (static_cast<double>(high_ - low_ + 1) / ulp_);
    int64_t k = i;
    for (; k > l; --k) {
      if (rough(h_(k, k - 1)) <= tiny) break;
      double test = rough(h_(k - 1, k - 1)) + rough(h_(k, k));
      if (test == 0) {
        if (k - 2 >= low_) test += std::fabs(h_(k - 1, k - 2).real());
        if (k + 1 <= high_) test += std::fabs(h_(k + 1, k).real());
      }
      if (std::fabs(h_(k, k - 1).real()) > ulp_ * test) continue;
      double x = rough(h_(k, k - 1)), y = rough(h_(k - 1, k)), d = rough(h_(k, k));
      double gap = rough(h_(k - 1, k - 1) - h_(k, k));
      double ab = std::max(x, y), ba = std::min(x, y), aa = std::max(d, gap), bb = std::min(d, gap), s = aa + ab;
      if (ba * (ab / s) <= std::max(tiny, ulp_ * (bb * (aa / s)))) break;
    }
    return k;
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
  int64_t low_, high_, n_;
  std::vector<Complex>& values_;
};

}  // namespace

bool schur(Matrix<Complex>& a, Matrix<Complex>& q, const Balance& balance, std::vector<Complex>& values, double unit) {
  return ComplexSchur(a, q, balance, values, unit).run();
}

}  // namespace kiln::lapack
