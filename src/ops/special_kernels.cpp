// Special functions without a short formula: Bessel functions, incomplete gamma functions, the scaled error function,
// and the distributions drawn by their quantiles (gamma, binomial). kiln.special_… is the library kernel on f64;
// the operators of PyTorch convert to it and back. References use other methods than the kernels: the standard
// library's functions, sums of integrals, series from the other end.
#include <cmath>
#include <numbers>

#include "ops/composite.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

using std::numbers::pi;

// ---- References ----

double reference_erfcx(double x) {
  if (x < 5)
    return static_cast<double>(std::exp(static_cast<long double>(x) * x) * std::erfc(static_cast<long double>(x)));
  // Laplace's continued fraction, from its end.
  double tail = x;
  for (int k = 120; k > 0; --k) tail = x + k / 2.0 / tail;
  return 1 / (tail * std::sqrt(pi));
}

double reference_log_ndtr(double x) {
  double t = x * std::sqrt(0.5);
  return x < 0 ? std::log(reference_erfcx(-t) / 2) - t * t : std::log1p(-std::erfc(t) / 2);
}

// exp(-|x|) I_n(x) as the mean of exp(|x| (cos t - 1)) cos(n t) over a circle.
double reference_scaled_i(int n, double x) {
  if (std::isnan(x)) return x;
  if (std::isinf(x)) return 0;
  double size = std::fabs(x), square = x * x;
  // The sum below cancels near 0, where the series has few terms.
  if (n == 1 && size < 1e-2) return std::exp(-size) * x / 2 * (1 + square / 8 * (1 + square / 24));
  if (size > 1e8) return std::copysign(1 / (std::sqrt(2 * pi) * std::sqrt(size)), n % 2 ? x : 1);
  int points = 64 + static_cast<int>(12 * std::sqrt(size));
  double sum = 0;
  for (int k = 0; k < points; ++k) {
    double t = 2 * pi * k / points, half = std::sin(t / 2);
    sum += std::exp(-2 * size * half * half) * std::cos(n * t);
  }
  return n % 2 && x < 0 ? -sum / points : sum / points;
}

double reference_k(int n, double x, bool scaled) {
  if (std::isnan(x) || x < 0) return NAN;
  if (x == 0) return INFINITY;
  if (x > 600) {  // Hankel's expansion
    double sum = 1, term = 1;
    for (int k = 1; k < 20; ++k) sum += term *= (4.0 * n * n - (2.0 * k - 1) * (2.0 * k - 1)) / (8 * x * k);
    return sum * std::sqrt(pi / (2 * x)) * (scaled ? 1 : std::exp(-x));
  }
  return std::cyl_bessel_k(static_cast<double>(n), x) * (scaled ? std::exp(x) : 1);
}

// Far out the standard library's functions lose their digits; the C library's do not.
double reference_j(int n, double x) {
  if (std::isnan(x)) return x;
  double size = std::fabs(x);
  double value = size < 500 ? std::cyl_bessel_j(static_cast<double>(n), size) : ::jn(n, size);
  return n && x < 0 ? -value : value;
}
double reference_y(int n, double x) {
  if (std::isnan(x) || x < 0) return NAN;
  if (x == 0) return -INFINITY;
  return x < 500 ? std::cyl_neumann(static_cast<double>(n), x) : ::yn(n, x);
}

// For large a: Simpson's rule on the density, about a in units of its width, from x to where nothing is left.
double reference_gamma_of_large(double a, double x, bool upper) {
  const long double width = std::sqrt(static_cast<long double>(a)), from = (static_cast<long double>(x) - a) / width;
  if (std::fabs(from) > 45) return (from > 0) == upper ? 0 : 1;
  auto density = [&](long double u) {
    const long double m = u / width;
    long double half = m - std::log1p(m);
    if (std::fabs(m) < 1e-3L)
      half = m * m * (1 / 2.0L - m * (1 / 3.0L - m * (1 / 4.0L - m * (1 / 5.0L - m * (1 / 6.0L - m / 7)))));
    return std::exp(-a * half - 1 / (12.0L * a)) / (1 + m);
  };
  constexpr int steps = 40000;
  const long double step = (from > 0 ? 12.0L : -12.0L) / steps;
  long double sum = density(from) + density(from + step * steps);
  for (int k = 1; k < steps; ++k) sum += density(from + step * k) * (k % 2 ? 4 : 2);
  const auto tail = static_cast<double>(std::fabs(step) / 3 * sum * 0.39894228040143267794L);
  return (from > 0) == upper ? tail : 1 - tail;
}

// Q for a below 1, where P may be all but 1: the integral of exp(a u - exp(u)) over the logarithm u of what is
// integrated over, by Gauss and Legendre's rule of five points on short pieces.
double reference_gamma_of_small(double a, double x) {
  const long double from = std::log(static_cast<long double>(x)), to = std::log(12000.0L);
  const long double outer = 0.90617984593866399280L, inner = 0.53846931010568309104L;
  const long double places[] = {0, inner, -inner, outer, -outer};
  const long double weights[] = {128 / 225.0L, 0.47862867049936646804L, 0.47862867049936646804L,
                                 0.23692688505618908751L, 0.23692688505618908751L};
  const auto pieces = static_cast<int>((to - from) * 8) + 1;
  const long double half = (to - from) / pieces / 2;
  long double sum = 0;
  for (int i = pieces - 1; i >= 0; --i)
    for (int k = 0; k < 5; ++k) {
      const long double u = from + half * (2 * i + 1 + places[k]);
      sum += weights[k] * std::exp(a * u - std::exp(u));
    }
  return static_cast<double>(sum * half * a / std::tgamma(1 + static_cast<long double>(a)));
}

// P by its series at every x, Q by Legendre's continued fraction from its end.
double reference_gamma(double a, double x, bool upper) {
  if (std::isnan(a) || std::isnan(x) || a < 0 || x < 0) return NAN;
  if (a == 0) return x > 0 ? (upper ? 0 : 1) : NAN;
  if (x == 0) return upper ? 1 : 0;
  if (std::isinf(a)) return std::isinf(x) ? NAN : upper ? 1 : 0;
  if (std::isinf(x)) return upper ? 0 : 1;
  if (a >= 1e6) return reference_gamma_of_large(a, x, upper);
  auto log_factor = static_cast<double>(static_cast<long double>(a) * std::log(static_cast<long double>(x)) - x -
                                        std::lgamma(static_cast<long double>(a)));
  if (x >= a + 1) {
    double tail = x + 8001 - a;
    for (int k = 4000; k > 0; --k) tail = x + 2.0 * k - 1 - a + k * (a - k) / tail;
    double rest = std::exp(log_factor) / tail;
    return upper ? rest : 1 - rest;
  }
  if (upper && a < 1) return reference_gamma_of_small(a, x);
  double term = 1 / a, sum = term;
  for (double k = 1; term > sum * 1e-18; ++k) sum += term *= x / (a + k);
  double lower = sum * std::exp(log_factor);
  return upper ? 1 - lower : lower;
}

double reference_gamma_quantile(double a, double u) {
  if (!(a > 0)) return a == 0 ? 0 : NAN;
  double low = -745, high = std::log(a + 12 * std::sqrt(a) + 60);
  for (int step = 0; step < 90; ++step) {
    double middle = (low + high) / 2;
    (reference_gamma(a, std::exp(middle), false) < u ? low : high) = middle;
  }
  return std::exp(high);
}

// By the ratio of neighbours, from k = 0.
double reference_binomial_quantile(double count, double chance, double u) {
  if (!(count >= 0) || !(chance >= 0 && chance <= 1)) return NAN;
  if (chance == 0) return 0;
  if (chance == 1) return count;
  double log_chance = count * std::log1p(-chance), odds = std::log(chance) - std::log1p(-chance), below = 0;
  for (double k = 0; k < count; ++k) {
    below += std::exp(log_chance);
    if (below > u) return k;
    log_chance += odds + std::log(count - k) - std::log(k + 1);
  }
  return count;
}

// ---- Kernels ----

using KernelNumbers = std::vector<double>;

// A library kernel on dense f64 tensors of equal sizes.
void add_kernel(Registry& r, const std::string& name, std::vector<std::string> operands,
                std::function<double(const KernelNumbers&)> f, std::vector<Sample> samples) {
  OpRecord record;
  record.name_space = "kiln";
  record.schema_text = name + "(";
  for (const std::string& operand : operands)
    record.schema_text += (operand == operands[0] ? "Tensor " : ", Tensor ") + operand;
  record.schema_text += ") -> Tensor";
  record.library = name;
  record.infer = [first = operands[0]](InferCall& call) {
    const TensorType& x = call.tensor(first)->type;
    call.results = {contiguous_type(DType::f64, x.sizes, x.device)};
  };
  record.reference = [operands, f](ReferenceCall& call) {
    std::vector<KernelNumbers> columns;
    for (const std::string& operand : operands) columns.push_back(read_dense<double>(call.tensor(operand)));
    KernelNumbers out;
    for (size_t i = 0; i < columns[0].size(); ++i) {
      KernelNumbers row;
      for (const KernelNumbers& column : columns) row.push_back(column[i]);
      out.push_back(f(row));
    }
    Tensor result = new_result(call, call.tensor(operands[0]).sizes);
    write_dense(result, out);
    call.results = {Datum{result}};
  };
  record.samples = std::move(samples);
  r.add(std::move(record));
}

DType result_dtype(const Value* x) { return is_float(x->type.dtype) ? x->type.dtype : default_float; }
Value* dense(Build& b, Value* x) { return b.contiguous(b.to(x, DType::f64)); }

struct UnaryRow {
  const char* kernel;
  std::vector<std::pair<const char*, const char*>> names;  // operators of PyTorch and their argument
  double (*reference)(double);
  double low, high;
};

void register_unary(Registry& r) {
  const UnaryRow rows[] = {
      {"special_erfcx", {{"special_erfcx", "self"}}, reference_erfcx, -4, 40},
      {"special_log_ndtr", {{"special_log_ndtr", "self"}}, reference_log_ndtr, -40, 5},
      {"special_i0e", {{"special_i0e", "self"}}, [](double x) { return reference_scaled_i(0, x); }, -50, 50},
      {"special_i1e", {{"special_i1e", "self"}}, [](double x) { return reference_scaled_i(1, x); }, -50, 50},
      {"special_i1",
       {{"special_i1", "self"}, {"special_modified_bessel_i1", "self"}},
       [](double x) {
         double half = std::exp(std::fabs(x) / 2);
         return std::isinf(x) ? NAN : reference_scaled_i(1, x) * half * half;  // as eager
       },
       -35,
       35},
      {"special_j0", {{"special_bessel_j0", "self"}}, [](double x) { return reference_j(0, x); }, -20, 20},
      {"special_j1", {{"special_bessel_j1", "self"}}, [](double x) { return reference_j(1, x); }, -20, 20},
      {"special_y0", {{"special_bessel_y0", "self"}}, [](double x) { return reference_y(0, x); }, -1, 20},
      {"special_y1", {{"special_bessel_y1", "self"}}, [](double x) { return reference_y(1, x); }, -1, 20},
      {"special_k0",
       {{"special_modified_bessel_k0", "self"}},
       [](double x) { return reference_k(0, x, false); },
       -1,
       9},
      {"special_k1",
       {{"special_modified_bessel_k1", "self"}},
       [](double x) { return reference_k(1, x, false); },
       -1,
       9},
      {"special_k0e",
       {{"special_scaled_modified_bessel_k0", "x"}},
       [](double x) { return reference_k(0, x, true); },
       0,
       9},
      {"special_k1e",
       {{"special_scaled_modified_bessel_k1", "x"}},
       [](double x) { return reference_k(1, x, true); },
       0,
       9}};
  for (const UnaryRow& row : rows) {
    add_kernel(r, row.kernel, {"x"}, [f = row.reference](const KernelNumbers& x) { return f(x[0]); },
               {{{spec({3, 4}, DType::f64, row.low, row.high)}}, {{spec({0}, DType::f64)}}});
    for (auto [name, arg] : row.names)
      add_composite(r, {.schema = str(name, "(Tensor ", arg, ") -> Tensor"),
                        .build =
                            [kernel = row.kernel, arg = arg](Build& b) {
                              Value* x = b.call().tensor(arg);
                              if (is_complex(x->type.dtype)) refuse_dtype(b.call(), x->type.dtype);
                              Value* out = b.call().call(str("kiln.", kernel, ".default"), {dense(b, x)});
                              b.call().result(b.to(out, result_dtype(x)));
                            },
                        .samples = {{{spec({2, 3}, DType::f32, row.low, row.high)}},
                                    {{spec({4}, DType::i64, 1, 4)}},
                                    {{spec({2}, DType::c64)}, true}}});
  }
  add_composite(r, {.schema = "special_modified_bessel_i0(Tensor self) -> Tensor",
                    .build = [](Build& b) { b.call().result(b("i0", {b.call().tensor("self")})); },
                    .samples = {{{spec({2, 3})}}}});
  add_composite(r, {.schema = "special_spherical_bessel_j0(Tensor x) -> Tensor",
                    .build =
                        [](Build& b) {
                          Value *x = b.call().tensor("x"), *wide = b.to(x, DType::f64);
                          Value* value = b.div(b("sin", {wide}), wide);
                          value = b("masked_fill.Scalar", {value, b("eq.Scalar", {wide, Scalar(0)}), Scalar(1.0)});
                          value = b("masked_fill.Scalar", {value, b("isinf", {wide}), Scalar(0.0)});
                          b.call().result(b.to(value, result_dtype(x)));
                        },
                    .samples = {{{spec({2, 3}, DType::f32, -9, 9)}}, {{spec({2}, DType::i64, 0, 4)}}}});
}

// ---- Incomplete gamma functions ----

void register_incomplete_gamma(Registry& r) {
  Sample::TensorSpec a = spec({3, 4}, DType::f64, 0, 30), x = spec({3, 4}, DType::f64, 0, 40);
  for (bool upper : {false, true}) {
    std::string kernel = upper ? "special_igammac" : "special_igamma";
    add_kernel(r, kernel, {"x", "y"}, [upper](const KernelNumbers& v) { return reference_gamma(v[0], v[1], upper); },
               {{{a, x}},
                {{spec({3}, DType::f64, 1e18, 1e18), spec({3}, DType::f64, 1e18 - 3e9, 1e18 + 3e9)}},
                {{spec({5}, DType::f64, 0, 1), spec({5}, DType::f64, 0, 1.5)}},
                {{spec({2}, DType::f64, -1, 0), spec({2}, DType::f64, 0, 1)}}});
    for (const char* name : {upper ? "igammac" : "igamma", upper ? "special_gammaincc" : "special_gammainc"})
      add_composite(
          r,
          {.schema = str(name, "(Tensor self, Tensor other) -> Tensor"),
           .build =
               [kernel](Build& b) {
                 DecomposeCall& call = b.call();
                 Value *self = call.tensor("self"), *other = call.tensor("other");
                 Promotion promotion;
                 for (Value* v : {self, other}) promotion.add_tensor(v->type.dtype, !v->type.sizes.empty());
                 DType dtype = promotion.result();
                 if (!is_float(dtype)) refuse_dtype(call, dtype);
                 Argument sizes = b.ints(broadcast_sizes(call, {self->type.sizes, other->type.sizes}, call.ranges()));
                 auto operand = [&](Value* v) {
                   return b.contiguous(b("expand", {b.to(b.to(v, dtype), DType::f64), sizes}));
                 };
                 Value* out = call.call(str("kiln.", kernel, ".default"), {operand(self), operand(other)});
                 call.result(b.to(out, dtype));
               },
           .samples = {{{spec({2, 3}, DType::f32, 0.1, 9), spec({3}, DType::f32, 0, 12)}},
                       {{spec({2}, DType::i64, 1, 9), spec({2}, DType::i64, 1, 9)}, true}},
           .inplace = std::string_view(name).starts_with("igamma")});
  }
}

// ---- Distributions ----

Value* uniform(Build& b, Value* like) {
  return b.call().call("kiln.random_uniform.default", {b.ints(like->type.sizes), DType::f64});
}

void register_distributions(Registry& r) {
  add_kernel(r, "gamma_quantile", {"x", "y"},
             [](const KernelNumbers& v) { return reference_gamma_quantile(v[0], v[1]); },
             {{{spec({3, 4}, DType::f64, 0.1, 30), spec({3, 4}, DType::f64, 0.001, 0.999)}}});
  add_kernel(r, "binomial_quantile", {"count", "chance", "uniform"},
             [](const KernelNumbers& v) { return reference_binomial_quantile(v[0], v[1], v[2]); },
             {{{spec({3, 4}, DType::f64, 5, 5), spec({3, 4}, DType::f64, 0, 1), spec({3, 4}, DType::f64, 0, 1)}},
              {{spec({5}, DType::f64, 200, 200), spec({5}, DType::f64, 0, 1), spec({5}, DType::f64, 0, 1)}}});
  add_composite(r,
                {.schema = "_standard_gamma(Tensor self, Generator? generator=None) -> Tensor",
                 .build =
                     [](Build& b) {
                       Value* self = b.call().tensor("self");
                       if (!is_float(self->type.dtype)) refuse_dtype(b.call(), self->type.dtype);
                       Value* drawn = b.call().call("kiln.gamma_quantile.default", {dense(b, self), uniform(b, self)});
                       // What underflows is the smallest number instead: logarithms of samples stay finite.
                       drawn = b("clamp_min", {drawn, Scalar(self->type.dtype == DType::f64 ? 2.3e-308 : 1.2e-38)});
                       b.call().result(b.to(drawn, self->type.dtype));
                     },
                 .samples = {{{spec({3, 4}, DType::f32, 0.1, 5)}}, {{spec({2}, DType::i64, 1, 5)}, true}},
                 .random = true});
  add_composite(
      r, {.schema = "binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor",
          .build =
              [](Build& b) {
                Value *count = b.call().tensor("count"), *prob = b.call().tensor("prob");
                if (!is_float(count->type.dtype)) refuse_dtype(b.call(), count->type.dtype);
                Argument sizes =
                    b.ints(broadcast_sizes(b.call(), {count->type.sizes, prob->type.sizes}, b.call().ranges()));
                auto operand = [&](Value* v) { return b.contiguous(b("expand", {b.to(v, DType::f64), sizes})); };
                Value* n = operand(count);
                Value* drawn = b.call().call("kiln.binomial_quantile.default", {n, operand(prob), uniform(b, n)});
                b.call().result(b.to(drawn, count->type.dtype));
              },
          .samples = {{{spec({3, 4}, DType::f32, 9, 9), spec({4}, DType::f32, 0, 1)}},
                      {{spec({2}, DType::i64, 1, 5), spec({2}, DType::f32, 0, 1)}, true}},
          .random = true});
}

}  // namespace

void register_special_kernels(Registry& r) {
  register_unary(r);
  register_incomplete_gamma(r);
  register_distributions(r);
}

}  // namespace kiln
