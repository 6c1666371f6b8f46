#include "lapack/rotations.h"

#include <utility>

namespace kiln::lapack {

Eigen2 symmetric_2x2(double a, double b, double c) {
  double sum = a + c, difference = a - c, twice = 2 * b;
  double larger = a, lesser = c;
  if (std::fabs(a) <= std::fabs(c)) std::swap(larger, lesser);
  double root = std::hypot(difference, twice);
  Eigen2 out{};
  double sign1 = sum < 0 ? -1 : 1, sign2 = difference >= 0 ? 1 : -1;
  if (sum == 0) {
    out.first = root / 2;
    out.second = -root / 2;
  } else {
    out.first = (sum + sign1 * root) / 2;
    out.second = (larger / out.first) * lesser - (b / out.first) * b;
  }
  double cs = difference + sign2 * root;
  if (std::fabs(cs) > std::fabs(twice)) {
    double t = -twice / cs;
    out.s = 1 / std::sqrt(1 + t * t);
    out.c = t * out.s;
  } else if (twice == 0) {
    out.c = 1;
    out.s = 0;
  } else {
    double t = -cs / twice;
    out.c = 1 / std::sqrt(1 + t * t);
    out.s = t * out.c;
  }
  if (sign1 == sign2) {
    double t = out.c;
    out.c = -out.s;
    out.s = t;
  }
  return out;
}

double smaller_singular_value(double f, double g, double h) {
  double fa = std::fabs(f), ga = std::fabs(g), ha = std::fabs(h), low = std::min(fa, ha), high = std::max(fa, ha);
  if (low == 0) return 0;
  double as = 1 + low / high, at = (high - low) / high;
  if (ga < high) {
    double au = (ga / high) * (ga / high);
    return low * (2 / (std::sqrt(as * as + au) + std::sqrt(at * at + au)));
  }
  double au = high / ga;
  if (au == 0) return low * high / ga;
  double c = 1 / (std::sqrt(1 + (as * au) * (as * au)) + std::sqrt(1 + (at * au) * (at * au)));
  return 2 * (low * c * au);
}

Singular2 triangular_2x2(double f, double g, double h) {
  double ft = f, ht = h, fa = std::fabs(f), ha = std::fabs(h), ga = std::fabs(g);
  bool swapped = ha > fa;
  if (swapped) {
    std::swap(ft, ht);
    std::swap(fa, ha);
  }
  int largest_is = swapped ? 3 : 1;  // f, g or h
  double least = ha, largest = fa, cl = 1, cr = 1, sl = 0, sr = 0;
  if (ga != 0) {
    bool small = true;
    if (ga > fa) {
      largest_is = 2;
      if (fa / ga < 0x1p-53) {
        small = false;
        largest = ga;
        least = ha > 1 ? fa / (ga / ha) : fa / ga * ha;
        cl = 1;
        sl = ht / g;
        sr = 1;
        cr = ft / g;
      }
    }
    if (small) {
      double d = fa - ha, l = d == fa ? 1 : d / fa, m = g / ft, t = 2 - l, s = std::hypot(t, m);
      double r = l == 0 ? std::fabs(m) : std::hypot(l, m), a = (s + r) / 2;
      least = ha / a;
      largest = fa * a;
      if (m == 0) {
        t = l == 0 ? sign(2, ft) * sign(1, g) : g / sign(d, ft) + m / t;
      } else {
        t = (m / (s + t) + m / (r + l)) * (1 + a);
      }
      l = std::hypot(t, 2);
      cr = 2 / l;
      sr = t / l;
      cl = (cr + sr * m) / a;
      sl = ht / ft * sr / a;
    }
  }
  Singular2 out{least, largest, sr, cr, sl, cl};
  if (swapped) out = {least, largest, cl, sl, cr, sr};
  double turned = largest_is == 1   ? sign(1, out.cr) * sign(1, out.cl) * sign(1, f)
                  : largest_is == 2 ? sign(1, out.sr) * sign(1, out.cl) * sign(1, g)
                                    : sign(1, out.sr) * sign(1, out.sl) * sign(1, h);
  out.largest = sign(largest, turned);
  out.least = sign(least, turned * sign(1, f) * sign(1, h));
  return out;
}

}  // namespace kiln::lapack
