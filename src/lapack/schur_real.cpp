// lahqr: the QR algorithm with implicit double shifts on a real Hessenberg matrix, and lanv2 for what is left of two
// rows.
#include "lapack/deflation.h"

namespace kiln::lapack {
namespace {

// Brings [a b; c d] to standard form: c = 0, or a = d with b and c of opposite signs.
struct Standard2 {
  double a, b, c, d, cs = 1, sn = 0;
};

Standard2 standard_2x2(double a, double b, double c, double d) {
  Standard2 o{a, b, c, d};
  if (c == 0) return o;
  if (b == 0) return {d, -c, 0, a, 0, 1};
  if (a - d == 0 && std::signbit(b) != std::signbit(c)) return o;
  double temp = a - d, p = temp / 2, most = std::max(std::fabs(b), std::fabs(c));
  double least = std::min(std::fabs(b), std::fabs(c)) * sign(1, b) * sign(1, c);
  double scale = std::max(std::fabs(p), most), z = p / scale * p + most / scale * least;
  if (z >= 0x1p-50) {
    z = p + sign(std::sqrt(scale) * std::sqrt(z), p);
    double tau = std::hypot(c, z);
    return {d + z, b - c, 0, d - most / z * least, z / tau, c / tau};
  }
  double sigma = b + c, tau = std::hypot(sigma, temp);
  o.cs = std::sqrt((1 + std::fabs(sigma) / tau) / 2);
  o.sn = -(p / (tau * o.cs)) * sign(1, sigma);
  double aa = a * o.cs + b * o.sn, bb = -a * o.sn + b * o.cs, cc = c * o.cs + d * o.sn, dd = -c * o.sn + d * o.cs;
  o.a = aa * o.cs + cc * o.sn;
  o.b = bb * o.cs + dd * o.sn;
  o.c = -aa * o.sn + cc * o.cs;
  o.d = -bb * o.sn + dd * o.cs;
  o.a = o.d = (o.a + o.d) / 2;
  if (o.c == 0) return o;
  if (o.b == 0) return {o.a, -o.c, 0, o.d, -o.sn, o.cs};
  if (std::signbit(o.b) != std::signbit(o.c)) return o;
  double sab = std::sqrt(std::fabs(o.b)), sac = std::sqrt(std::fabs(o.c)), shift = sign(sab * sac, o.c);
  double size = 1 / std::sqrt(std::fabs(o.b + o.c)), cs = sab * size, sn = sac * size;
  return {o.a + shift, o.b - o.c, 0, o.d - shift, o.cs * cs - o.sn * sn, o.cs * sn + o.sn * cs};
}

class RealSchur {
 public:
  RealSchur(Matrix<double>& h, Matrix<double>& z, const Balance& balance, std::vector<Complex>& values, double unit)
      : ulp_(2 * unit), h_(h), z_(z), balance_(balance), n_(h.rows), values_(values) {}

  bool run() {
    for (int64_t i = 0; i < n_; ++i)
      if (i < balance_.low || i > balance_.high) values_[static_cast<size_t>(i)] = h_(i, i);
    return deflate(
        h_, balance_, ulp_, 2, [this](int64_t l, int64_t i, int sweeps) { sweep(l, i, sweeps); },
        [this](int64_t l, int64_t i) { finish(l, i); });
  }

 private:
  double size(int64_t i, int64_t j) const { return std::fabs(h_(i, j)); }

  // Two shifts: the eigenvalues of the last block, or after ten steps in vain something else.
  void choose_shifts(int64_t l, int64_t i, int deflated) {
    double h11 = h_(i - 1, i - 1), h21 = h_(i, i - 1), h12 = h_(i - 1, i), h22 = h_(i, i);
    if (deflated % 10 == 0) {
      bool bottom = deflated % 20 == 0;
      double s = bottom ? size(i, i - 1) + size(i - 1, i - 2) : size(l + 1, l) + size(l + 2, l + 1);
      h11 = h22 = 0.75 * s + (bottom ? h_(i, i) : h_(l, l));
      h12 = -0.4375 * s;
      h21 = s;
    }
    double s = std::fabs(h11) + std::fabs(h12) + std::fabs(h21) + std::fabs(h22);
    first_ = second_ = 0;
    if (s == 0) return;
    h11 /= s, h12 /= s, h21 /= s, h22 /= s;
    double trace = (h11 + h22) / 2, det = (h11 - trace) * (h22 - trace) - h12 * h21, root = std::sqrt(std::fabs(det));
    if (det >= 0) {
      first_ = Complex(trace * s, root * s);
      second_ = std::conj(first_);
      return;
    }
    double one = trace + root, two = trace - root;
    first_ = second_ = (std::fabs(one - h22) <= std::fabs(two - h22) ? one : two) * s;
  }

  void sweep(int64_t l, int64_t i, int deflated) {
    choose_shifts(l, i, deflated);
    std::vector<double> v(3);
    int64_t m = i - 2;
    for (;; --m) {
      double below = size(m + 1, m);
      double s = std::fabs(h_(m, m) - second_.real()) + std::fabs(second_.imag()) + below, h21 = h_(m + 1, m) / s;
      v[0] = h21 * h_(m, m + 1) + (h_(m, m) - first_.real()) * ((h_(m, m) - second_.real()) / s) -
             first_.imag() * (second_.imag() / s);
      v[1] = h21 * (h_(m, m) + h_(m + 1, m + 1) - first_.real() - second_.real());
      v[2] = h21 * h_(m + 2, m + 1);
      s = std::fabs(v[0]) + std::fabs(v[1]) + std::fabs(v[2]);
      for (double& x : v) x /= s;
      if (m == l) break;
      double near = size(m - 1, m - 1) + size(m, m) + size(m + 1, m + 1);
      if (size(m, m - 1) * (std::fabs(v[1]) + std::fabs(v[2])) <= ulp_ * std::fabs(v[0]) * near) break;
    }
    for (int64_t k = m; k < i; ++k) {
      auto count = static_cast<size_t>(std::min<int64_t>(3, i - k + 1));
      if (k > m) {
        v.assign(count, 0);
        for (size_t r = 0; r < count; ++r) v[r] = h_(k + static_cast<int64_t>(r), k - 1);
      }
      v.resize(count);
      Reflector<double> t = make_reflector(v, k);
      if (k > m) {
        h_(k, k - 1) = t.beta;
        for (size_t r = 1; r < count; ++r) h_(k + static_cast<int64_t>(r), k - 1) = 0;
      } else if (m > l) {
        h_(k, k - 1) *= 1 - t.tau;
      }
      apply_left(h_, t, t.tau, k);
      Matrix<double>& h = h_;
      int64_t rows = std::min(k + 3, i) + 1;
      for (Matrix<double>* target : {&h, &z_}) {
        int64_t end = target == &h ? rows : target->rows;
        for (int64_t r = 0; r < end; ++r) {
          double dot = 0;
          for (size_t c = 0; c < count; ++c) dot += (*target)(r, k + static_cast<int64_t>(c)) * t.v[c];
          dot *= t.tau;
          for (size_t c = 0; c < count; ++c) (*target)(r, k + static_cast<int64_t>(c)) -= dot * t.v[c];
        }
      }
    }
  }

  void finish(int64_t l, int64_t i) {
    if (l == i) {
      values_[static_cast<size_t>(i)] = h_(i, i);
      return;
    }
    Standard2 s = standard_2x2(h_(i - 1, i - 1), h_(i - 1, i), h_(i, i - 1), h_(i, i));
    h_(i - 1, i - 1) = s.a;
    h_(i - 1, i) = s.b;
    h_(i, i - 1) = s.c;
    h_(i, i) = s.d;
    double imaginary = s.c == 0 ? 0 : std::sqrt(std::fabs(s.b)) * std::sqrt(std::fabs(s.c));
    values_[static_cast<size_t>(i - 1)] = Complex(s.a, imaginary);
    values_[static_cast<size_t>(i)] = Complex(s.d, -imaginary);
    for (int64_t j = i + 1; j < n_; ++j) {
      double x = h_(i - 1, j), y = h_(i, j);
      h_(i - 1, j) = s.cs * x + s.sn * y;
      h_(i, j) = s.cs * y - s.sn * x;
    }
    for (int64_t r = 0; r < i - 1; ++r) {
      double x = h_(r, i - 1), y = h_(r, i);
      h_(r, i - 1) = s.cs * x + s.sn * y;
      h_(r, i) = s.cs * y - s.sn * x;
    }
    turn_columns(z_, i - 1, i, s.cs, s.sn);
  }

  double ulp_;
  Matrix<double>&h_, &z_;
  const Balance& balance_;
  int64_t n_;
  std::vector<Complex>& values_;
  Complex first_, second_;
};

}  // namespace

bool schur(Matrix<double>& a, Matrix<double>& q, const Balance& balance, std::vector<Complex>& values, double unit) {
  return RealSchur(a, q, balance, values, unit).run();
}

}  // namespace kiln::lapack
