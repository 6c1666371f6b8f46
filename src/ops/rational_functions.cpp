// Special functions by Cephes' rational functions, as eager's: the inverse of the normal distribution and Airy's
// function. In f64 whatever the tensor's type is.
#include <cmath>
#include <numbers>

#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

template <size_t N>
ValueId emit_polynomial(Emit& e, ValueId x, const double (&factors)[N]) {
  ValueId sum = e.number(factors[0]);
  for (size_t i = 1; i < N; ++i) sum = e.op(ScalarOp::add, e.op(ScalarOp::mul, sum, x), e.number(factors[i]));
  return sum;
}
template <size_t N, size_t M>
ValueId emit_quotient(Emit& e, ValueId x, const double (&above)[N], const double (&below)[M]) {
  return e.op(ScalarOp::div, emit_polynomial(e, x, above), emit_polynomial(e, x, below));
}

ComputeTypes in_f64(const OpCall&, DType promoted) {
  return {DType::f64, is_float(promoted) ? promoted : default_float};
}

// ---- The inverse of the normal distribution ----

constexpr double ndtri_middle[] = {-5.99633501014107895267E1, 9.80010754185999661536E1, -5.66762857469070293439E1,
                                   1.39312609387279679503E1, -1.23916583867381258016E0};
constexpr double ndtri_middle_below[] = {1.0,
                                         1.95448858338141759834E0,
                                         4.67627912898881538453E0,
                                         8.63602421390890590575E1,
                                         -2.25462687854119370527E2,
                                         2.00260212380060660359E2,
                                         -8.20372256168333339912E1,
                                         1.59056225126211695515E1,
                                         -1.18331621121330003142E0};
// With z = 1 / sqrt(-2 log y), for z above 1/8,
constexpr double ndtri_near[] = {4.05544892305962419923E0,   3.15251094599893866154E1,   5.71628192246421288162E1,
                                 4.40805073893200834700E1,   1.46849561928858024014E1,   2.18663306850790267539E0,
                                 -1.40256079171354495875E-1, -3.50424626827848203418E-2, -8.57456785154685413611E-4};
constexpr double ndtri_near_below[] = {1.0,
                                       1.57799883256466749731E1,
                                       4.53907635128879210584E1,
                                       4.13172038254672030440E1,
                                       1.50425385692907503408E1,
                                       2.50464946208309415979E0,
                                       -1.42182922854787788574E-1,
                                       -3.80806407691578277194E-2,
                                       -9.33259480895457427372E-4};
// and below it.
constexpr double ndtri_far[] = {3.23774891776946035970E0,  6.91522889068984211695E0,  3.93881025292474443415E0,
                                1.33303460815807542389E0,  2.01485389549179081538E-1, 1.23716634817820021358E-2,
                                3.01581553508235416007E-4, 2.65806974686737550832E-6, 6.23974539184983293730E-9};
constexpr double ndtri_far_below[] = {1.0,
                                      6.02427039364742014255E0,
                                      3.67983563856160859403E0,
                                      1.37702099489081330271E0,
                                      2.16236993594496635890E-1,
                                      1.34204006088543189037E-2,
                                      3.28014464682127739104E-4,
                                      2.89247864745380683936E-6,
                                      6.79019408009981274425E-9};

ValueId emit_ndtri(Emit& e) {
  auto times = [&](ValueId x, ValueId y) { return e.op(ScalarOp::mul, x, y); };
  auto minus = [&](ValueId x, ValueId y) { return e.op(ScalarOp::sub, x, y); };
  constexpr double tail = 0.13533528323661269189;  // exp(-2)
  const ValueId p = e.x[0], high = e.op(ScalarOp::gt, p, e.number(1 - tail));
  const ValueId y = e.k.select(high, minus(e.number(1), p), p);
  const ValueId m = minus(y, e.number(0.5)), square = times(m, m);
  const ValueId bend = times(square, emit_quotient(e, square, ndtri_middle, ndtri_middle_below));
  const ValueId middle = times(e.op(ScalarOp::add, m, times(m, bend)), e.number(2.50662827463100050242));
  const ValueId x = e.op(ScalarOp::sqrt, times(e.number(-2), e.op(ScalarOp::log, y)));
  const ValueId z = e.op(ScalarOp::div, e.number(1), x);
  const ValueId slope =
      e.k.select(e.op(ScalarOp::lt, x, e.number(8)), emit_quotient(e, z, ndtri_near, ndtri_near_below),
                 emit_quotient(e, z, ndtri_far, ndtri_far_below));
  const ValueId far = minus(minus(x, e.op(ScalarOp::div, e.op(ScalarOp::log, x), x)), times(z, slope));
  const ValueId outer = e.k.select(high, far, e.op(ScalarOp::neg, far));
  const ValueId out = e.k.select(e.op(ScalarOp::gt, y, e.number(tail)), middle, outer);
  // At 0 and 1 the logarithm of an infinity is divided by it; beyond them that of what is negative is NaN.
  const ValueId finite = e.k.select(e.op(ScalarOp::eq, p, e.number(0)), e.number(-INFINITY), out);
  return e.k.select(e.op(ScalarOp::eq, p, e.number(1)), e.number(INFINITY), finite);
}

// By Newton's steps on the logarithm of the distribution, which is concave: from below they do not overshoot.
double reference_ndtri(double p) {
  if (!(p >= 0 && p <= 1)) return NAN;
  if (p == 0 || p == 1) return p == 0 ? -INFINITY : INFINITY;
  const bool high = p > 0.5;
  const long double target = std::log(high ? 1 - static_cast<long double>(p) : static_cast<long double>(p));
  long double x = -40;
  for (int step = 0; step < 60; ++step) {
    const long double below = std::erfc(-x * std::sqrt(0.5L)) / 2;
    const long double density = std::exp(-x * x / 2) * 0.39894228040143267793994605993438187L;
    x += (target - std::log(below)) * below / density;
  }
  return static_cast<double>(high ? -x : x);
}

void register_ndtri(Registry& r) {
  const Sample::SampleArg tiny = spec({4}, DType::f64, 1e-17, 1e-12), beyond = spec({2, 3}, DType::f32, -1, 2);
  add_pointwise(r, {.schema = "special_ndtri(Tensor self) -> Tensor",
                    .operands = "self",
                    .rule = ResultRule::floating,
                    .emit = emit_ndtri,
                    .formula = float_formula<1>([](auto p) { return reference_ndtri(static_cast<double>(p)); }),
                    .inplace = false,
                    .low = 0.01,
                    .high = 0.99,
                    .samples = {{{tiny}}, {{beyond}}},
                    .types = in_f64});
}

// ---- Airy's function ----

// Of ζ = 2/3 |x|^(3/2), in 1/ζ: what the exponential is multiplied by,
constexpr double airy_right[] = {3.46538101525629032477E-1, 1.20075952739645805542E1, 7.62796053615234516538E1,
                                 1.68089224934630576269E2,  1.59756391350164413639E2, 7.05360906840444183113E1,
                                 1.40264691163389668864E1,  9.99999999999999995305E-1};
constexpr double airy_right_below[] = {5.67594532638770212846E-1, 1.47562562584847203173E1, 8.45138970141474626562E1,
                                       1.77318088145400459522E2,  1.64234692871529701831E2, 7.14778400825575695274E1,
                                       1.40959135607834029598E1,  1.00000000000000000470E0};
// and in 1/ζ² the sine and the cosine.
constexpr double airy_sine[] = {-1.31696323418331795333E-1, -6.26456544431912369773E-1, -6.93158036036933542233E-1,
                                -2.79779981545119124951E-1, -4.91900132609500318020E-2, -4.06265923594885404393E-3,
                                -1.59276496239262096340E-4, -2.77649108155232920844E-6, -1.67787698489114633780E-8};
constexpr double airy_sine_below[] = {1.0,
                                      1.33560420706553243746E1,
                                      3.26825032795224613948E1,
                                      2.67367040941499554804E1,
                                      9.18707402907259625840E0,
                                      1.47529146771666414581E0,
                                      1.15687173795188044134E-1,
                                      4.40291641615211203805E-3,
                                      7.54720348287414296618E-5,
                                      4.51850092970580378464E-7};
constexpr double airy_cosine[] = {1.97339932091685679179E-2, 3.91103029615688277255E-1, 1.06579897599595591108E0,
                                  9.39169229816650230044E-1, 3.51465656105547619242E-1, 6.33888919628925490927E-2,
                                  5.85804113048388458567E-3, 2.82851600836737019778E-4, 6.98793669997260967291E-6,
                                  8.11789239554389293311E-8, 3.41551784765923618484E-10};
constexpr double airy_cosine_below[] = {1.0,
                                        9.30892908077441974853E0,
                                        1.98352928718312140417E1,
                                        1.55646628932864612953E1,
                                        5.47686069422975497931E0,
                                        9.54293611618961883998E-1,
                                        8.64580826352392193095E-2,
                                        4.12656523824222607191E-3,
                                        1.01259085116509135510E-4,
                                        1.17166733214413521882E-6,
                                        4.91834570062930015649E-9};
constexpr double airy_at_0 = 0.355028053887817239260, airy_slope_at_0 = 0.258819403792806798405;

ValueId emit_airy(Emit& e) {
  auto times = [&](ValueId a, ValueId b) { return e.op(ScalarOp::mul, a, b); };
  auto over = [&](ValueId a, ValueId b) { return e.op(ScalarOp::div, a, b); };
  const ValueId x = e.x[0], size = e.op(ScalarOp::abs, x), root = e.op(ScalarOp::sqrt, size);
  const ValueId zeta = times(times(size, root), e.number(2.0 / 3));
  const ValueId z = over(e.number(1), zeta), square = times(z, z);
  const ValueId scale = over(e.number(std::numbers::inv_sqrtpi), e.op(ScalarOp::sqrt, root));
  // Near 0 the two power series in x³.
  double even[17] = {}, odd[17] = {};
  even[16] = airy_at_0, odd[16] = airy_slope_at_0;
  for (int n = 1; n < 17; ++n) {
    even[16 - n] = even[17 - n] / ((3 * n - 1) * 3 * n);
    odd[16 - n] = odd[17 - n] / (3 * n * (3 * n + 1));
  }
  const ValueId cube = times(times(x, x), x);
  const ValueId middle = e.op(ScalarOp::sub, emit_polynomial(e, cube, even), times(x, emit_polynomial(e, cube, odd)));
  const ValueId shrunk = times(times(scale, e.number(0.5)), e.op(ScalarOp::exp, e.op(ScalarOp::neg, zeta)));
  const ValueId right = times(shrunk, emit_quotient(e, z, airy_right, airy_right_below));
  const ValueId angle = e.op(ScalarOp::add, zeta, e.number(std::numbers::pi / 4));
  const ValueId of_sine =
      e.op(ScalarOp::add, e.number(1), times(square, emit_quotient(e, square, airy_sine, airy_sine_below)));
  const ValueId of_cosine = times(z, emit_quotient(e, square, airy_cosine, airy_cosine_below));
  const ValueId left = times(scale, e.op(ScalarOp::sub, times(e.op(ScalarOp::sin, angle), of_sine),
                                         times(e.op(ScalarOp::cos, angle), of_cosine)));
  const ValueId outer = e.k.select(e.op(ScalarOp::lt, x, e.number(0)), left, right);
  const ValueId out = e.k.select(e.op(ScalarOp::lt, size, e.number(2.09)), middle, outer);
  // Of infinities eager gives NaN.
  return e.k.select(e.op(ScalarOp::is_inf, x), e.number(NAN), out);
}

// By the standard library's Bessel functions of order 1/3.
double reference_airy(double x) {
  if (!std::isfinite(x)) return NAN;
  if (x == 0) return airy_at_0;
  const double third = 1.0 / 3, size = std::fabs(x), root = std::sqrt(size), zeta = size * root * 2 / 3;
  if (x > 104) return 0;
  if (x > 0) return root / (std::numbers::pi * std::sqrt(3.0)) * std::cyl_bessel_k(third, zeta);
  return root / 3 * (1.5 * std::cyl_bessel_j(third, zeta) - std::sqrt(0.75) * std::cyl_neumann(third, zeta));
}

void register_airy(Registry& r) {
  const Sample::SampleArg near = spec({5}, DType::f64, -2.5, 2.5), beyond = spec({3}, DType::f64, 90, 110);
  add_pointwise(r, {.schema = "special_airy_ai(Tensor x) -> Tensor",
                    .operands = "x",
                    .rule = ResultRule::floating,
                    .emit = emit_airy,
                    .formula = float_formula<1>([](auto x) { return reference_airy(static_cast<double>(x)); }),
                    .inplace = false,
                    .low = -20,
                    .high = 20,
                    .samples = {{{near}}, {{beyond}}},
                    .types = in_f64});
}

}  // namespace

void register_rational_functions(Registry& r) {
  register_ndtri(r);
  register_airy(r);
}

}  // namespace kiln
