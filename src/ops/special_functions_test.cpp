// References of special functions against Boost.Math, which shares nothing with them: at many points, over the ranges
// where programs use the functions. The only file of Kiln that includes Boost (docs/dependencies.md).
#include <gtest/gtest.h>

#include <boost/math/special_functions/airy.hpp>
#include <boost/math/special_functions/bessel.hpp>
#include <boost/math/special_functions/chebyshev.hpp>
#include <boost/math/special_functions/digamma.hpp>
#include <boost/math/special_functions/erf.hpp>
#include <boost/math/special_functions/expint.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <boost/math/special_functions/hermite.hpp>
#include <boost/math/special_functions/laguerre.hpp>
#include <boost/math/special_functions/legendre.hpp>
#include <boost/math/special_functions/polygamma.hpp>
#include <boost/math/special_functions/sinc.hpp>
#include <boost/math/special_functions/zeta.hpp>
#include <cmath>

#include "ops/sample_reference_test.h"

namespace kiln {
namespace {

namespace bm = boost::math;
using Real = long double;

constexpr int points = 400;

// The operator's f64 results over seeded points, and the points.
struct Evaluated {
  std::vector<Tensor> inputs;
  Tensor result;
};

Evaluated evaluate(const std::string& op, std::vector<Sample::SampleArg> args) {
  const OpRecord* record = Registry::instance().find(op);
  if (!record) fail_bug(str(op, " is not declared"));
  Sample sample;
  sample.args = std::move(args);
  Program program = program_from_sample(*record, sample, false, 11);
  Evaluated out{{}, run_reference(*record, program).at(0).tensor()};
  for (const Datum& input : program.sample_inputs) out.inputs.push_back(input.tensor());
  return out;
}

Sample::TensorSpec many(double low, double high, DType dtype = DType::f64) { return {{points}, dtype, low, high}; }

void expect_close(const std::string& op, double got, Real expected, double tolerance, const std::string& at) {
  const Real error = std::fabs(static_cast<Real>(got) - expected);
  // Zeros of an oscillating function, where only the absolute error means something.
  const Real allowed = tolerance * std::max<Real>(std::fabs(expected), 1e-2L);
  EXPECT_LE(error, allowed) << op << at << ": got " << got << ", Boost says " << static_cast<double>(expected);
}

struct Unary {
  std::string op;
  double low, high;
  Real (*truth)(Real x);
  double tolerance = 1e-13;
};

class UnaryFunctions : public testing::TestWithParam<Unary> {};

TEST_P(UnaryFunctions, AgreeWithBoost) {
  const Unary& row = GetParam();
  Evaluated run = evaluate("aten." + row.op + ".default", {many(row.low, row.high)});
  for (int64_t i = 0; i < points; ++i) {
    const double x = run.inputs[0].item(i).as_double();
    expect_close(row.op, run.result.item(i).as_double(), row.truth(x), row.tolerance, str("(", x, ")"));
  }
}

Real scaled_i(int n, Real x) { return bm::cyl_bessel_i(n, x) * std::exp(-std::fabs(x)); }
Real normal_below(Real x) { return bm::erfc(-x / std::sqrt(2.0L)) / 2; }

const Unary unary_rows[] = {
    {"special_erf", -4, 4, [](Real x) { return bm::erf(x); }},
    {"special_erfc", -4, 10, [](Real x) { return bm::erfc(x); }},
    {"special_erfinv", -0.999, 0.999, [](Real x) { return bm::erf_inv(x); }},
    {"special_erfcx", -3, 20, [](Real x) { return std::exp(x * x) * bm::erfc(x); }},
    {"lgamma", 0.01, 60, [](Real x) { return bm::lgamma(x); }},
    {"special_gammaln", -5.9, -0.1, [](Real x) { return bm::lgamma(x); }, 1e-12},
    {"digamma", 0.05, 60, [](Real x) { return bm::digamma(x); }},
    {"special_psi", -5.9, -5.1, [](Real x) { return bm::digamma(x); }, 1e-12},
    {"i0", -30, 30, [](Real x) { return bm::cyl_bessel_i(0, x); }},
    {"special_i0e", -40, 40, [](Real x) { return scaled_i(0, x); }},
    {"special_i1", -30, 30, [](Real x) { return bm::cyl_bessel_i(1, x); }},
    {"special_i1e", -40, 40, [](Real x) { return scaled_i(1, x); }},
    {"special_modified_bessel_i0", -20, 20, [](Real x) { return bm::cyl_bessel_i(0, x); }},
    {"special_modified_bessel_i1", -20, 20, [](Real x) { return bm::cyl_bessel_i(1, x); }},
    {"special_modified_bessel_k0", 0.01, 30, [](Real x) { return bm::cyl_bessel_k(0, x); }},
    {"special_modified_bessel_k1", 0.01, 30, [](Real x) { return bm::cyl_bessel_k(1, x); }},
    {"special_scaled_modified_bessel_k0", 0.01, 30, [](Real x) { return bm::cyl_bessel_k(0, x) * std::exp(x); }},
    {"special_scaled_modified_bessel_k1", 0.01, 30, [](Real x) { return bm::cyl_bessel_k(1, x) * std::exp(x); }},
    {"special_bessel_j0", -40, 40, [](Real x) { return bm::cyl_bessel_j(0, x); }, 1e-12},
    {"special_bessel_j1", -40, 40, [](Real x) { return bm::cyl_bessel_j(1, x); }, 1e-12},
    {"special_bessel_y0", 0.01, 40, [](Real x) { return bm::cyl_neumann(0, x); }, 1e-12},
    {"special_bessel_y1", 0.01, 40, [](Real x) { return bm::cyl_neumann(1, x); }, 1e-12},
    {"special_spherical_bessel_j0", -20, 20, [](Real x) { return bm::sinc_pi(x); }},
    {"special_sinc", -5, 5, [](Real x) { return bm::sinc_pi(bm::constants::pi<Real>() * x); }},
    {"special_ndtr", -8, 8, [](Real x) { return normal_below(x); }},
    {"special_log_ndtr", -30, 8, [](Real x) { return std::log(normal_below(x)); }},
    {"special_ndtri", 0.001, 0.999, [](Real x) { return -std::sqrt(2.0L) * bm::erfc_inv(2 * x); }},
    {"special_airy_ai", -25, 20, [](Real x) { return bm::airy_ai(x); }, 1e-11},
    {"special_entr", 0.001, 5, [](Real x) { return -x * std::log(x); }},
};
INSTANTIATE_TEST_SUITE_P(All, UnaryFunctions, testing::ValuesIn(unary_rows),
                         [](const testing::TestParamInfo<Unary>& row) { return row.param.op; });

struct Binary {
  std::string op;
  Sample::TensorSpec a, b;
  Real (*truth)(Real a, Real b);
  double tolerance = 1e-12;
};

class BinaryFunctions : public testing::TestWithParam<Binary> {};

TEST_P(BinaryFunctions, AgreeWithBoost) {
  const Binary& row = GetParam();
  Evaluated run = evaluate("aten." + row.op + ".default", {row.a, row.b});
  for (int64_t i = 0; i < points; ++i) {
    const double a = run.inputs[0].item(i).as_double(), b = run.inputs[1].item(i).as_double();
    expect_close(row.op, run.result.item(i).as_double(), row.truth(a, b), row.tolerance, str("(", a, ", ", b, ")"));
  }
}

// Hurwitz's zeta at whole numbers is a derivative of the digamma function.
Real hurwitz(Real s, Real q) {
  const int n = static_cast<int>(s);
  return (n % 2 ? -1 : 1) * bm::polygamma(n - 1, q) / bm::tgamma(static_cast<Real>(n));
}

Sample::TensorSpec degrees() { return many(0, 12, DType::i64); }

const Binary binary_rows[] = {
    {"special_gammainc", many(0.1, 30), many(0, 40), [](Real a, Real x) { return bm::gamma_p(a, x); }},
    {"special_gammaincc", many(0.1, 30), many(0, 40), [](Real a, Real x) { return bm::gamma_q(a, x); }},
    {"special_zeta", many(2, 9, DType::i64), many(0.1, 20), hurwitz},
    {"special_chebyshev_polynomial_t", many(-1, 1), degrees(),
     [](Real x, Real n) { return bm::chebyshev_t(static_cast<unsigned>(n), x); }},
    {"special_chebyshev_polynomial_u", many(-1, 1), degrees(),
     [](Real x, Real n) { return bm::chebyshev_u(static_cast<unsigned>(n), x); }},
    {"special_shifted_chebyshev_polynomial_t", many(0, 1), degrees(),
     [](Real x, Real n) { return bm::chebyshev_t(static_cast<unsigned>(n), 2 * x - 1); }},
    {"special_hermite_polynomial_h", many(-3, 3), degrees(),
     [](Real x, Real n) { return bm::hermite(static_cast<unsigned>(n), x); }},
    {"special_laguerre_polynomial_l", many(0, 8), degrees(),
     [](Real x, Real n) { return bm::laguerre(static_cast<unsigned>(n), x); }},
    {"special_legendre_polynomial_p", many(-1, 1), degrees(),
     [](Real x, Real n) { return bm::legendre_p(static_cast<int>(n), x); }},
};
INSTANTIATE_TEST_SUITE_P(All, BinaryFunctions, testing::ValuesIn(binary_rows),
                         [](const testing::TestParamInfo<Binary>& row) { return row.param.op; });

TEST(SpecialFunctions, PolygammaAgreesWithBoost) {
  for (int n : {0, 1, 2, 5}) {
    Evaluated run = evaluate("aten.special_polygamma.default", {Scalar(static_cast<int64_t>(n)), many(0.1, 20)});
    for (int64_t i = 0; i < points; ++i) {
      const double x = run.inputs[0].item(i).as_double();
      expect_close("polygamma", run.result.item(i).as_double(), bm::polygamma(n, static_cast<Real>(x)), 1e-12,
                   str("(", n, ", ", x, ")"));
    }
  }
}

// Where nearly all of the integral is below x, the rest is about as small as a.
TEST(SpecialFunctions, UpperIncompleteGammaOfSmallNumbers) {
  Evaluated run = evaluate("aten.special_gammaincc.default", {many(1e-15, 1e-9), many(0.001, 0.9)});
  for (int64_t i = 0; i < points; ++i) {
    const double a = run.inputs[0].item(i).as_double(), x = run.inputs[1].item(i).as_double();
    const double ratio = run.result.item(i).as_double() / a;
    expect_close("gammaincc", ratio, bm::expint(1, static_cast<Real>(x)), 1e-7, str("(", a, ", ", x, ")"));
  }
}

// Far below 0 a sum from there up to where its terms are small would have as many terms.
TEST(SpecialFunctions, PolygammaFarBelowZero) {
  for (int n : {1, 2, 5}) {
    Evaluated run = evaluate("aten.special_polygamma.default", {Scalar(static_cast<int64_t>(n)), many(-1e15, -30)});
    Evaluated near = evaluate("aten.special_polygamma.default", {Scalar(static_cast<int64_t>(n)), many(-150, -1)});
    for (const Evaluated* some : {&run, &near})
      for (int64_t i = 0; i < points; ++i) {
        const double x = some->inputs[0].item(i).as_double();
        if (x == std::floor(x)) continue;
        // By the reflection of what is less than one below 0: Boost's own gives far out a wrong sign.
        const Real part = static_cast<Real>(x) - std::floor(static_cast<Real>(x));
        const Real rest = bm::polygamma(n, 2 - part) - bm::polygamma(n, 1 - static_cast<Real>(x));
        expect_close("polygamma", some->result.item(i).as_double(), bm::polygamma(n, part - 1) + (n % 2 ? rest : -rest),
                     1e-11, str("(", n, ", ", x, ")"));
      }
  }
}

TEST(SpecialFunctions, NdtriOfSmallNumbers) {
  Evaluated run = evaluate("aten.special_ndtri.default", {many(1e-18, 1e-9)});
  for (int64_t i = 0; i < points; ++i) {
    const double p = run.inputs[0].item(i).as_double();
    const Real truth = -std::sqrt(2.0L) * bm::erfc_inv(2 * static_cast<Real>(p));
    expect_close("ndtri", run.result.item(i).as_double(), truth, 1e-14, str("(", p, ")"));
  }
}

TEST(SpecialFunctions, IncompleteGammaOfLargeNumbers) {
  for (const char* op : {"aten.special_gammainc.default", "aten.special_gammaincc.default"}) {
    Sample::TensorSpec a = many(2e6, 2e6), x = many(2e6 - 9e3, 2e6 + 9e3);
    a.sizes = x.sizes = {20};
    Evaluated run = evaluate(op, {a, x});
    for (int64_t i = 0; i < 20; ++i) {
      const double at = run.inputs[1].item(i).as_double();
      const bool upper = std::string_view(op).find("incc") != std::string_view::npos;
      const Real truth = upper ? bm::gamma_q<Real>(2e6, at) : bm::gamma_p<Real>(2e6, at);
      expect_close(op, run.result.item(i).as_double(), truth, 1e-10, str("(", at, ")"));
    }
  }
}

}  // namespace
}  // namespace kiln
