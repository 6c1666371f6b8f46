// Orthogonal polynomials (special_chebyshev_polynomial_t and its relatives): a library kernel on f64 that the operators
// convert to and back. The reference uses angles and hyperbolic functions where there are such forms, and recurrences
// in long double for the rest.
#include <cmath>

#include "ops/composite.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

// The order of the kernel's kinds (runtime/library/orthogonal_polynomials.cpp).
constexpr const char* kinds[] = {"chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v",
                                 "chebyshev_polynomial_w", "hermite_polynomial_h",   "hermite_polynomial_he",
                                 "laguerre_polynomial_l",  "legendre_polynomial_p"};
constexpr int64_t chebyshev_kinds = 4;

double sign_of_power(double n) { return std::fmod(n, 2) == 0 ? 1 : -1; }

double reference_chebyshev(int64_t kind, double x, double n) {
  if (std::isnan(x)) return x;
  double t = std::fabs(x) <= 1 ? std::acos(x) : std::acosh(std::fabs(x)), half = n + 0.5;
  if (x == 1) return kind == 0 || kind == 2 ? 1 : kind == 1 ? n + 1 : 2 * n + 1;
  if (x == -1) return sign_of_power(n) * (kind == 0 || kind == 3 ? 1 : kind == 1 ? n + 1 : 2 * n + 1);
  // As eager: zeros of low degrees are zeros, not the rounding of an angle, and infinities may cancel.
  if (n <= 6 || std::isinf(x)) {
    long double last = 1, now = kind == 0 ? x : kind == 1 ? 2.0L * x : kind == 2 ? 2.0L * x - 1 : 2.0L * x + 1;
    for (double k = 1; k < n && !std::isnan(now); ++k) last = std::exchange(now, 2 * x * now - last);
    return static_cast<double>(now);
  }
  if (std::fabs(x) < 1) {
    if (kind == 0) return std::cos(n * t);
    if (kind == 1) return std::sin((n + 1) * t) / std::sin(t);
    return kind == 2 ? std::cos(half * t) / std::cos(t / 2) : std::sin(half * t) / std::sin(t / 2);
  }
  double sign = x < 0 ? sign_of_power(n) : 1;
  if (x < 0 && kind >= 2) kind = 5 - kind;  // the third and the fourth kind are mirror images
  if (kind == 0) return sign * std::cosh(n * t);
  if (kind == 1) return sign * std::sinh((n + 1) * t) / std::sinh(t);
  return sign * (kind == 2 ? std::cosh(half * t) / std::cosh(t / 2) : std::sinh(half * t) / std::sinh(t / 2));
}

double reference_polynomial(int64_t kind, double x, double degree, double limit) {
  double n = std::trunc(degree);
  if (!(n >= 0)) return 0;
  if (degree > limit) return NAN;
  if (n == 0) return 1;
  if (kind < chebyshev_kinds) return reference_chebyshev(kind, x, n);
  long double wide = x, last = 1, now = kind == 4 ? 2 * wide : kind == 6 ? 1 - wide : wide;
  for (long double k = 1; k < n && !std::isnan(now); ++k) {
    long double next = kind == 4   ? 2 * (wide * now - k * last)
                       : kind == 5 ? wide * now - k * last
                       : kind == 6 ? now + (k * (now - last) - wide * now) / (k + 1)
                                   : wide * now + k * (wide * now - last) / (k + 1);
    last = now;
    now = next;
  }
  return static_cast<double>(now);
}

void register_kernel(Registry& r) {
  OpRecord record;
  record.name_space = "kiln";
  record.schema_text = "orthogonal_polynomial(Tensor x, Tensor n, int kind, float limit) -> Tensor";
  record.library = "orthogonal_polynomial";
  record.infer = [](InferCall& call) {
    const TensorType& x = call.tensor("x")->type;
    call.results = {contiguous_type(DType::f64, x.sizes, x.device)};
  };
  record.reference = [](ReferenceCall& call) {
    std::vector<double> x = read_dense<double>(call.tensor("x")), n = read_dense<double>(call.tensor("n")), out;
    for (size_t i = 0; i < x.size(); ++i)
      out.push_back(reference_polynomial(call.integer("kind"), x[i], n[i], call.real("limit")));
    Tensor result = new_result(call, call.tensor("x").sizes);
    write_dense(result, out);
    call.results = {Datum{result}};
  };
  for (int64_t kind = 0; kind < 8; ++kind)
    record.samples.push_back(
        {{spec({4, 5}, DType::f64, -2, 2), spec({4, 5}, DType::f64, -1, 12), Scalar(kind), Scalar(512.0)}});
  record.samples.push_back({{spec({0}, DType::f64), spec({0}, DType::f64), Scalar(0), Scalar(512.0)}});
  r.add(std::move(record));
}

// Degrees beyond which eager gives NaN for Hermite polynomials; the others have no limit.
double degree_limit(int64_t kind, DType dtype) {
  if (kind != 4 && kind != 5) return INFINITY;
  return dtype == DType::f64 ? 512 : 128;
}

void build_polynomial(Build& b, int64_t kind, bool shifted) {
  DecomposeCall& call = b.call();
  Promotion promotion;
  std::vector<Sizes> shapes;
  for (const char* name : {"x", "n"}) {
    Operand given = operand(call, name);
    add_operand(promotion, given);
    if (given.tensor) shapes.push_back(given.tensor->type.sizes);
  }
  DType dtype = to_float(promotion.result());
  if (is_complex(dtype)) refuse_dtype(call, dtype);
  Argument sizes = b.ints(broadcast_sizes(call, shapes, call.ranges()));
  auto dense = [&](const char* name) {
    Operand given = operand(call, name);
    if (!given.tensor) return b("full", {sizes, call.arg(name), DType::f64});
    return b.contiguous(b("expand", {b.to(b.to(call.tensor(name), dtype), DType::f64), sizes}));
  };
  Value* x = dense("x");
  if (shifted) x = b.sub(b.mul(x, Scalar(2.0)), Scalar(1.0));
  Value* value =
      call.call("kiln.orthogonal_polynomial.default", {x, dense("n"), Scalar(kind), Scalar(degree_limit(kind, dtype))});
  call.result(b.to(value, dtype));
}

}  // namespace

void register_orthogonal_polynomials(Registry& r) {
  register_kernel(r);
  Sample::TensorSpec x = spec({2, 3}), n = spec({3}, DType::i64, 0, 6);
  for (bool shifted : {false, true})
    for (int64_t kind = 0; kind < (shifted ? chebyshev_kinds : 8); ++kind) {
      std::string name = str("special_", shifted ? "shifted_" : "", kinds[kind]);
      auto build = [kind, shifted](Build& b) { build_polynomial(b, kind, shifted); };
      add_composite(r, {.schema = name + "(Tensor x, Tensor n) -> Tensor",
                        .build = build,
                        .samples = {{{x, n}}, {{n, n}}, {{spec({2}, DType::c64), n}, true}}});
      add_composite(r, {.schema = name + ".x_scalar(Scalar x, Tensor n) -> Tensor",
                        .build = build,
                        .samples = {{{Scalar(0.5), n}}}});
      add_composite(r, {.schema = name + ".n_scalar(Tensor x, Scalar n) -> Tensor",
                        .build = build,
                        .samples = {{{spec({2, 3}, DType::f64), Scalar(4)}}}});
    }
}

}  // namespace kiln
