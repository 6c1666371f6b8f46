// Statistics that PyTorch itself defines in terms of other operators: covariance, mean without NaN, Vandermonde
// matrices, a loss for counts, rows of an embedding kept short.
#include <cmath>
#include <complex>

#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

using List = std::vector<int64_t>;

[[noreturn]] void refuse_statistic(const OpCall& call, std::string_view why) {
  fail_user("K0201", str(op_short_name(call.schema().name), ": ", why), call.where());
}

Value* floating(Build& b, Value* x) {
  return is_float(x->type.dtype) || is_complex(x->type.dtype) ? x : b.to(x, default_float);
}
Value* conjugate_transpose(Build& b, Value* x) { return b(is_complex(x->type.dtype) ? "mH" : "mT", {x}); }

// ---- Covariance ----

// Observations are columns. Weights multiply; aweights also change what is divided by.
Value* covariance(Build& b, Value* self, int64_t correction, Value* counts, Value* importances) {
  DecomposeCall& call = b.call();
  if (rank_of(self) > 2) refuse_statistic(call, "expected input to have two or fewer dimensions");
  Value* x = floating(b, rank_of(self) < 2 ? b("reshape", {self, b.ints({1, -1})}) : self);
  DType real = complex_part(x->type.dtype);
  Value* weights = counts ? b.to(counts, real) : nullptr;
  if (importances) weights = weights ? b.mul(weights, importances) : b.to(importances, real);
  Value *centred, *product, *divisor;
  if (!weights) {
    centred = b.sub(x, b("mean.dim", {x, b.ints({1}), Scalar(true)}));
    product = b("matmul", {centred, conjugate_transpose(b, centred)});
    divisor = b("scalar_tensor", {number(x->type.sizes[1] - Expr(correction)), real});
  } else {
    Value* total = b("sum", {weights});
    Value* sums = b.sum(b.mul(x, weights), {1}, true);
    centred = b.sub(x, b.div(sums, total));
    product = b("matmul", {b.mul(centred, weights), conjugate_transpose(b, centred)});
    if (correction == 0)
      divisor = total;
    else if (!importances)
      divisor = b.sub(total, Scalar(correction));
    else
      divisor = b.sub(total, b.div(b.mul(b("sum", {b.mul(weights, importances)}), Scalar(correction)), total));
  }
  Value* result = b.div(product, b("clamp_min", {divisor, Scalar(0)}));
  return rank_of(self) < 2 ? b("reshape", {result, b.ints(Sizes{})}) : result;
}

void build_correlation(Build& b) {
  Value* c = covariance(b, b.call().tensor("self"), 1, nullptr, nullptr);
  if (rank_of(c) == 0) return b.call().result(b.div(c, c));
  Value* own = b("diagonal", {c});
  Value* spread = b("sqrt", {is_complex(own->type.dtype) ? b("real", {own}) : own});
  Value* scaled = b.div(b.div(c, b("unsqueeze", {spread, Scalar(1)})), b("unsqueeze", {spread, Scalar(0)}));
  if (!is_complex(c->type.dtype)) scaled = b("clamp", {scaled, Scalar(-1), Scalar(1)});
  b.call().result(scaled);
}

// The definition, in complex<double>. Weighted: the count of an observation times its importance.
void reference_covariance(ReferenceCall& call, bool correlation) {
  using Number = std::complex<double>;
  const Tensor self = call.tensor("self");
  const bool matrix = self.rank() == 2;
  const int64_t rows = matrix ? self.sizes[0] : 1, columns = matrix ? self.sizes[1] : self.numel();
  const double correction = correlation ? 1 : static_cast<double>(call.integer("correction"));
  const auto weight_of = [&](const char* name, int64_t i) {
    const std::optional<Tensor> given = correlation ? std::nullopt : call.tensor_or_none(name);
    return given ? given->item(i).as_double() : 1.0;
  };
  double total = 0, weighted = 0;
  std::vector<double> weights;
  for (int64_t i = 0; i < columns; ++i) {
    const double importance = weight_of("aweights", i);
    weights.push_back(weight_of("fweights", i) * importance);
    total += weights.back();
    weighted += weights.back() * importance;
  }
  const bool important = !correlation && call.given("aweights");
  const double divisor = std::max(important ? total - correction * weighted / total : total - correction, 0.0);
  std::vector<std::vector<Number>> x(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    Number mean = 0;
    for (int64_t i = 0; i < columns; ++i) {
      x[static_cast<size_t>(r)].push_back(self.item(r * columns + i).as_complex());
      mean += x[static_cast<size_t>(r)].back() * weights[static_cast<size_t>(i)];
    }
    for (Number& value : x[static_cast<size_t>(r)]) value -= mean / total;
  }
  const auto covariance_of = [&](int64_t r, int64_t c) {
    Number sum = 0;
    for (size_t i = 0; i < weights.size(); ++i)
      sum += weights[i] * x[static_cast<size_t>(r)][i] * std::conj(x[static_cast<size_t>(c)][i]);
    return sum / divisor;
  };
  Tensor out = Tensor::empty(call.result_dtype(), matrix ? std::vector<int64_t>{rows, rows} : std::vector<int64_t>{});
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < rows; ++c) {
      Number value = covariance_of(r, c);
      if (correlation) value /= std::sqrt(covariance_of(r, r).real() * covariance_of(c, c).real());
      out.set_item(r * rows + c, is_complex(out.dtype) ? Scalar(value) : Scalar(value.real()));
    }
  call.results = {Datum{out}};
}

void register_covariance(Registry& r) {
  add_composite(r, {.schema = "cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> "
                              "Tensor",
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          b.call().result(covariance(b, call.tensor("self"), call.constant_integer("correction"),
                                                     call.tensor_or_null("fweights"), call.tensor_or_null("aweights")));
                        },
                    .samples = {{{spec({3, 5})}},
                                {{spec({5}), Scalar(0)}},
                                {{spec({3, 5}), Scalar(1), spec({5}, DType::i64, 1, 4)}},
                                {{spec({3, 5}), Scalar(1), spec({5}, DType::i64, 1, 4), spec({5}, DType::f32, 0.5, 2)}},
                                {{spec({3, 5}, DType::i64, -5, 5)}},
                                {{spec({2, 5}, DType::c64)}},
                                {{spec({2, 3, 4})}, true}},
                    .reference = [](ReferenceCall& call) { reference_covariance(call, false); }});
  add_composite(r, {.schema = "corrcoef(Tensor self) -> Tensor",
                    .build = build_correlation,
                    .samples = {{{spec({3, 6})}}, {{spec({6})}}, {{spec({2, 5}, DType::c64)}}},
                    .reference = [](ReferenceCall& call) { reference_covariance(call, true); }});
}

// ---- Means and losses ----

void build_nanmean(Build& b) {
  DecomposeCall& call = b.call();
  Value* self = call.tensor("self");
  if (!is_float(self->type.dtype)) refuse_dtype(call, self->type.dtype);
  Argument dims = call.given("dim") ? call.arg("dim") : b.ints(Sizes{});
  Value* sum = b("nansum", {self, dims, call.arg("keepdim"), call.arg("dtype")});
  Value* counted = b("sum.dim_IntList", {b("logical_not", {b("isnan", {self})}), dims, call.arg("keepdim")});
  call.result(b.div(sum, counted));
}

void build_count_loss(Build& b) {
  DecomposeCall& call = b.call();
  Value *x = call.tensor("input"), *target = call.tensor("target");
  Value* loss = call.boolean("log_input") ? b.sub(b("exp", {x}), b.mul(target, x))
                                          : b.sub(x, b.mul(target, b("log", {b.add(x, call.arg("eps"))})));
  if (call.boolean("full")) {
    Value* half_log = b.mul(b("log", {b.mul(target, Scalar(2 * 3.14159265358979323846))}), Scalar(0.5));
    Value* stirling = b.add(b.sub(b.mul(target, b("log", {target})), target), half_log);
    loss = b.add(loss, b("masked_fill.Scalar", {stirling, b("le.Scalar", {target, Scalar(1)}), Scalar(0)}));
  }
  call.result(reduce_loss(b, loss));
}

void register_means(Registry& r) {
  add_composite(
      r, {.schema = "nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> "
                    "Tensor",
          .build = build_nanmean,
          .samples = {{{spec({3, 4})}}, {{spec({3, 4}), List{1}, Scalar(true)}}, {{spec({3}, DType::i64)}, true}}});
  Sample::TensorSpec x = spec({4}, DType::f32, 0.1, 3), y = spec({4}, DType::f32, 0.5, 4);
  add_composite(r, {.schema = "poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int "
                              "reduction) -> Tensor",
                    .build = build_count_loss,
                    .samples = {{{x, y, Scalar(true), Scalar(false), Scalar(1e-8), Scalar(1)}},
                                {{x, y, Scalar(false), Scalar(true), Scalar(1e-8), Scalar(0)}}}});
  add_composite(r, {.schema = "log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)",
                    .build =
                        [](Build& b) {
                          Value* self = b.call().tensor("self");
                          b.call().result(0, b("log_sigmoid", {self}));
                          b.call().result(1, b("exp", {b("neg", {b("abs", {self})})}));
                        },
                    .samples = {{{spec({2, 3})}}}});
}

// ---- Powers in columns ----

Value* powers(Build& b, Value* x, const Expr& count) {
  if (count.is_constant() && count.value() < 1) refuse_statistic(b.call(), "N must be positive");
  Sizes sizes = x->type.sizes, first = sizes;
  sizes.push_back(count - Expr(1));
  first.push_back(Expr(1));
  Value* base = b("expand", {b("unsqueeze", {x, Scalar(-1)}), b.ints(sizes)});
  Value* ones = b("ones", {b.ints(first), x->type.dtype});
  Value* all = b("cat", {Argument::List{Argument(ones), Argument(base)}, Scalar(-1)});
  return b("cumprod", {all, Scalar(-1)});
}

void register_vandermonde(Registry& r) {
  add_composite(
      r, {.schema = "linalg_vander(Tensor x, *, SymInt? N=None) -> Tensor",
          .build =
              [](Build& b) {
                DecomposeCall& call = b.call();
                Value* x = call.tensor("x");
                if (rank_of(x) == 0) x = b("unsqueeze", {x, Scalar(0)});
                call.result(powers(b, x, call.given("N") ? call.integer("N") : x->type.sizes.back()));
              },
          .samples = {
              {{spec({4})}}, {{spec({2, 3}), Scalar(2)}}, {{spec({}), Scalar(3)}}, {{spec({3}), Scalar(0)}, true}}});
  add_composite(r, {.schema = "vander(Tensor x, int? N=None, bool increasing=False) -> Tensor",
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          Value* x = call.tensor("x");
                          if (rank_of(x) != 1) refuse_statistic(call, "x must be a one-dimensional tensor");
                          Value* all = powers(b, x, call.given("N") ? call.integer("N") : x->type.sizes[0]);
                          call.result(call.boolean("increasing") ? all : b("flip", {all, b.ints({1})}));
                        },
                    .samples = {{{spec({4})}}, {{spec({3}), Scalar(5), Scalar(true)}}, {{spec({2, 2})}, true}}});
}

// ---- Embeddings ----

// Rows that are looked up and longer than max_norm are scaled down to it.
Value* renormed(Build& b) {
  DecomposeCall& call = b.call();
  Value *self = call.tensor("self"), *indices = call.tensor("indices");
  if (rank_of(self) != 2) refuse_statistic(call, "'self' must have 2 dimensions");
  Value* flat = b("reshape", {indices, b.ints({-1})});
  Value* none = b("zeros", {b.ints(Sizes{self->type.sizes[0], Expr(1)}), DType::boolean});
  Value* used = b("index_fill.int_Scalar", {none, Scalar(0), b.to(flat, DType::i64), Scalar(true)});
  Value* norm = b("linalg_vector_norm", {self, call.arg("norm_type"), b.ints({1}), Scalar(true)});
  Value* longer = b("logical_and", {used, b("gt.Scalar", {norm, call.arg("max_norm")})});
  Value* scale = b.mul(b("reciprocal", {b.add(norm, Scalar(1e-7))}), call.arg("max_norm"));
  return b("where.self", {longer, b.mul(self, scale), self});
}

void register_renorm(Registry& r) {
  std::vector<Sample> samples = {{{spec({5, 3}), spec({2, 2}, DType::i64, 0, 4), Scalar(1.0), Scalar(2.0)}},
                                 {{spec({5, 3}), spec({3}, DType::i64, 0, 4), Scalar(0.5), Scalar(1.0)}},
                                 {{spec({5}), spec({3}, DType::i64, 0, 4), Scalar(0.5), Scalar(1.0)}, true}};
  add_composite(r,
                {.schema = "embedding_renorm(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor",
                 .build = [](Build& b) { b.call().result(renormed(b)); },
                 .samples = samples});
  add_composite(
      r, {.schema = "embedding_renorm_(Tensor(a!) self, Tensor indices, float max_norm, float norm_type) -> Tensor(a!)",
          .build =
              [](Build& b) {
                b.call().result(b("copy_", {b.call().tensor("self"), renormed(b)}));
              },
          .samples = samples,
          .early = true});
}

}  // namespace

void register_statistics(Registry& r) {
  register_covariance(r);
  register_means(r);
  register_vandermonde(r);
  register_renorm(r);
  r.describe({"linalg_vander"}, complex_by(ComplexRule::native));
  r.describe({"poisson_nll_loss"}, autocast_to(AutocastRule::single));
}

}  // namespace kiln
