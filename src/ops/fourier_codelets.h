// Short discrete Fourier transforms, written out in statements of Loops: sums of products with constants, of which only
// those are written that a wanted result needs. Zeros are known (the imaginary parts of real numbers), signs are
// carried along, and a product that is added once is added without being rounded first.
#pragma once
#include <map>

#include "loops/builder.h"

namespace kiln {

class Codelet {
 public:
  // A value with a sign; node -1 is zero.
  struct Real {
    int node = -1;
    bool negative = false;
    bool is_zero() const { return node < 0; }
  };
  struct Complex {
    Real re, im;
  };
  using Reals = std::vector<Real>;
  using Complexes = std::vector<Complex>;

  Codelet(loops::KernelBuilder& k, DType dtype) : k_(k), dtype_(dtype) {}

  // Whether a transform of this length is written out, and how many operations it takes, about.
  static bool takes(int64_t n);
  static double cost(int64_t n);

  Real value(loops::ValueId v) { return {add_node({Kind::leaf, -1, -1, 0, v}), false}; }
  static Real minus(Real x) { return x.is_zero() ? x : Real{x.node, !x.negative}; }
  static Complex conj(Complex x) { return {x.re, minus(x.im)}; }
  Real plus(Real x, Real y);
  Real times(Real x, double factor);
  Real times(Real x, Real y);
  Complex times(Complex x, double factor) { return {times(x.re, factor), times(x.im, factor)}; }
  Complex times(Complex x, Complex y);
  Complex times_root(Complex x, int64_t k, int64_t n, int sign);  // by exp(sign 2πi k/n)

  // The sum over j of x[j] exp(sign 2πi jk/n) for each k: of complex numbers; of real ones, for k up to n/2; of the
  // half spectrum of real numbers (sign is 1), of which what must be real is taken as real.
  Complexes transform(const Complexes& x, int sign);
  Complexes of_real(const Reals& x, int sign);
  Reals to_real(const Complexes& half, int64_t n);

  // Writes what the results need; each is handed over as soon as it is there.
  void want(Complex result, std::function<void(loops::ValueId re, loops::ValueId im)> then);
  void want(Real result, std::function<void(loops::ValueId)> then);
  void write();

 private:
  enum class Kind : uint8_t { leaf, sum, difference, scaled, product };
  struct Node {
    Kind kind;
    int a, b;
    double factor;
    loops::ValueId value;
  };
  struct Result {
    Real parts[2];
    int count = 0;
    std::function<void(loops::ValueId, loops::ValueId)> then;
  };
  int add_node(const Node& node);
  Complex plus(Complex x, Complex y) { return {plus(x.re, y.re), plus(x.im, y.im)}; }
  Complex minus(Complex x, Complex y) { return {plus(x.re, minus(y.re)), plus(x.im, minus(y.im))}; }
  static Complex times_i(Complex x, int sign) {
    return sign > 0 ? Complex{minus(x.im), x.re} : Complex{x.im, minus(x.re)};
  }
  Complexes of_prime(const Complexes& x, int sign);
  loops::ValueId constant(double number);
  loops::ValueId made(Real x);
  // The factors of a product that nobody else wants; false: it is something else.
  bool take_product(int node, loops::ValueId& a, loops::ValueId& b, bool negative);
  void write_node(int node);

  loops::KernelBuilder& k_;
  DType dtype_;
  std::vector<Node> nodes_;
  std::vector<int> uses_;
  std::vector<loops::ValueId> values_;
  std::map<std::tuple<Kind, int, int, double>, int> known_;
  std::map<double, loops::ValueId> constants_;
  std::vector<Result> results_;
};

}  // namespace kiln
