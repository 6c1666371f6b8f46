// Random operators. One primitive draws uniform numbers from the run's seed and a counter (loops/random.h); every
// distribution is a decomposition over it. Numbers are Kiln's own, not those of PyTorch's generators.
#include "loops/random.h"

#include <cmath>

#include "ops/composite.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/size_needs.h"

namespace kiln {

namespace {

using loops::KernelBuilder;
using List = std::vector<int64_t>;

void add_random(Registry& r, CompositeRow row) {
  row.random = true;
  add_composite(r, std::move(row));
}

// ---- The primitive ----

void lower_uniform(LowerCall& call) {
  const Sizes& sizes = call.output_type().sizes;
  // By the order of what draws, not by names or kernels: a program that draws the same and computes something beside it
  // (the forward half of a training step, and the same without gradients) gets the same numbers from the same seed.
  const Expr base(call.next_draw() << 32);
  call.kernel([&](KernelBuilder& k) {
    k.parallel(sizes, [&](const std::vector<Expr>& i) {
      Expr at(0);
      for (size_t d = 0; d < sizes.size(); ++d) at = at * sizes[d] + i[d];
      k.store(call.output(), i, k.random(call.output_type().dtype, base + at));
    });
  });
}

Tensor drawn(const ReferenceCall& call, std::vector<int64_t> sizes, const std::vector<int64_t>& strides) {
  Tensor out = Tensor::empty_strided(call.result_dtype(), std::move(sizes), strides);
  bool narrow = call.nominal_dtype() == DType::f32;
  std::vector<double> values;
  for (int64_t i = 0, count = out.numel(); i < count; ++i) {
    uint64_t bits = loops::random_bits(call.seed, static_cast<uint64_t>(i));
    values.push_back(narrow ? static_cast<double>(bits >> 40) * 0x1p-24 : static_cast<double>(bits >> 11) * 0x1p-53);
  }
  write_dense(out, values);
  return out;
}

void register_primitive(Registry& r) {
  OpRecord sized;
  sized.name_space = "kiln";
  sized.schema_text = "random_uniform(SymInt[] size, *, ScalarType dtype) -> Tensor";
  sized.infer = [](InferCall& call) {
    Sizes sizes = call.integers("size");
    for (const Expr& size : sizes)
      if (size.is_constant() && size.value() < 0)
        fail_user("K0201", str("Trying to create tensor with negative dimension ", size.value()), call.where());
    call.results = {contiguous_type(*call.dtype("dtype"), std::move(sizes))};
  };
  sized.lower = lower_uniform;
  sized.reference = [](ReferenceCall& call) {
    auto sizes = call.integers("size");
    call.results = {Datum{drawn(call, sizes, contiguous_strides(sizes))}};
  };
  sized.samples = {{{List{2, 3}, DType::f32}}, {{List{}, DType::f64}}, {{List{-1}, DType::f32}, true}};
  sized.random = true;
  r.add(std::move(sized));

  OpRecord like;
  like.name_space = "kiln";
  like.schema_text = "random_uniform_like(Tensor self, *, ScalarType dtype) -> Tensor";
  like.infer = [](InferCall& call) {
    const TensorType& self = call.tensor("self")->type;
    call.results = {strided_type(*call.dtype("dtype"), self.sizes,
                                 like_strides(self.sizes, self.strides, MemoryFormat::preserve, call.ranges()),
                                 self.device)};
  };
  like.lower = lower_uniform;
  like.reference = [](ReferenceCall& call) {
    Tensor self = call.tensor("self");
    auto strides = to_numbers(like_strides(to_exprs(self.sizes), to_exprs(self.strides), MemoryFormat::preserve, {}));
    call.results = {Datum{drawn(call, self.sizes, strides)}};
  };
  like.samples = {{{spec({2, 3}), DType::f32}}, {{spec({}, DType::i64), DType::f64}}};
  like.random = true;
  r.add(std::move(like));
}

// ---- Distributions, from uniform numbers in [0, 1) ----

DType drawing_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

Value* uniform(Build& b, const Sizes& sizes, DType dtype) {
  return b.call().call("kiln.random_uniform.default", {b.ints(sizes), drawing_dtype(dtype)});
}
Value* uniform_like(Build& b, Value* self, DType dtype) {
  return b.call().call("kiln.random_uniform_like.default", {self, drawing_dtype(dtype)});
}

// By the inverse of the distribution function, at the middle of the step a uniform number stands for: never infinite.
Value* to_normal(Build& b, Value* u) {
  double half_step = u->type.dtype == DType::f64 ? 0x1p-53 : 0x1p-24;
  Value* centred = b.add(b.sub(b.mul(u, Scalar(2.0)), Scalar(1.0)), Scalar(half_step));
  return b.mul(b("erfinv", {centred}), Scalar(std::sqrt(2.0)));
}
Value* to_exponential(Build& b, Value* u) {
  // Of a zero the reciprocal and the logarithm are taken: it is kept away from.
  Value* drawn = b("neg", {b("log1p", {b("neg", {u})})});
  return b("clamp_min", {drawn, Scalar(u->type.dtype == DType::f64 ? 0x1p-54 : 0x1p-25)});
}
// Whole numbers of [low, high), as f64.
Value* to_integers(Build& b, Value* u, Argument low, Argument span) {
  Value* steps = b("floor", {b.mul(u, std::move(span))});
  return b.add(steps, std::move(low));
}

Value* integers_between(Build& b, Value* u, const Expr& low, const Expr& high) {
  if (prove_lt(low, high, b.call().ranges()) == Proof::no)
    refuse(b.call(), "K0201", "'from' must be smaller than 'to'");
  return to_integers(b, u, number(low), number(simplify(high - low, b.call().ranges())));
}

DType asked(const OpCall& call, DType otherwise) {
  auto given = call.dtype("dtype");
  return given ? *given : otherwise;
}
void check_float(const OpCall& call, DType dtype) {
  if (!is_float(dtype)) refuse_dtype(call, dtype);
}

void register_sized(Registry& r) {
  for (const char* generator : {"", "Generator? generator, "}) {
    std::string overload = *generator ? ".generator" : "", low = *generator ? ".low_generator" : ".low";
    std::vector<Sample> samples = {{{List{2, 3}}}, {{List{}}}, {{List{0, 2}}}, {{List{-1}}, true}};
    if (*generator) samples = {{{List{2, 3}, Argument::None{}}}};
    for (bool normal : {false, true}) {
      add_random(r, {.schema = str(normal ? "randn" : "rand", overload, "(SymInt[] size, *, ", generator,
                                   creation_options, ") -> Tensor"),
                     .build =
                         [normal](Build& b) {
                           DType dtype = asked(b.call(), default_float);
                           check_float(b.call(), dtype);
                           Value* u = uniform(b, b.call().integers("size"), dtype);
                           b.call().result(b.to(normal ? to_normal(b, u) : u, dtype));
                         },
                     .samples = samples});
    }
    auto whole = [](Build& b) {
      DecomposeCall& call = b.call();
      Expr from = call.schema().find("low") >= 0 ? call.integer("low") : Expr(0);
      Value* u = uniform(b, call.integers("size"), DType::f64);
      call.result(b.to(integers_between(b, u, from, call.integer("high")), asked(call, DType::i64)));
    };
    std::vector<Sample> some = {{{Scalar(5), List{2, 3}}}, {{Scalar(0), List{2}}, true}};
    std::vector<Sample> between = {{{Scalar(-5), Scalar(5), List{4}}}, {{Scalar(5), Scalar(5), List{2}}, true}};
    if (*generator) {
      some = {{{Scalar(5), List{2, 3}, Argument::None{}}}};
      between = {{{Scalar(-5), Scalar(5), List{4}, Argument::None{}}}};
    }
    add_random(r, {.schema = str("randint", overload, "(SymInt high, SymInt[] size, *, ", generator, creation_options,
                                 ") -> Tensor"),
                   .build = whole,
                   .samples = some});
    add_random(r, {.schema = str("randint", low, "(SymInt low, SymInt high, SymInt[] size, *, ", generator,
                                 creation_options, ") -> Tensor"),
                   .build = whole,
                   .samples = between});
    add_random(r, {.schema = str("randperm", overload, "(SymInt n, *, ", generator, creation_options, ") -> Tensor"),
                   .build =
                       [](Build& b) {
                         Value* u = uniform(b, {b.call().integer("n")}, DType::f64);
                         b.call().result(b.to(b("argsort", {u}), asked(b.call(), DType::i64)));
                       },
                   .samples = *generator ? std::vector<Sample>{{{Scalar(5), Argument::None{}}}}
                                         : std::vector<Sample>{{{Scalar(5)}}, {{Scalar(0)}}}});
  }
}

// Uniform numbers with the layout of `self`, in the memory format asked for.
Value* uniform_as(Build& b, Value* self, DType dtype) {
  DecomposeCall& call = b.call();
  MemoryFormat format = memory_format(call, "memory_format", MemoryFormat::preserve);
  if (format == MemoryFormat::contiguous) return uniform(b, self->type.sizes, dtype);
  Value* u = uniform_like(b, self, dtype);
  return format == MemoryFormat::preserve ? u : b("clone", {u, format});
}

void register_like(Registry& r) {
  std::string format = ", MemoryFormat? memory_format=None) -> Tensor";
  for (bool normal : {false, true})
    add_random(r, {.schema = str(normal ? "randn_like" : "rand_like", "(Tensor self, *, ", creation_options, format),
                   .build =
                       [normal](Build& b) {
                         Value* self = b.call().tensor("self");
                         DType dtype = asked(b.call(), self->type.dtype);
                         check_float(b.call(), dtype);
                         Value* u = uniform_as(b, self, dtype);
                         b.call().result(b.to(normal ? to_normal(b, u) : u, dtype));
                       },
                   .samples = {{{spec({2, 3})}}, {{spec({2}, DType::i64)}, true}, {{spec({3}, DType::bf16)}}}});
  auto whole = [](Build& b) {
    DecomposeCall& call = b.call();
    Value* self = call.tensor("self");
    Expr from = call.schema().find("low") >= 0 ? call.integer("low") : Expr(0);
    Value* drawn = integers_between(b, uniform_as(b, self, DType::f64), from, call.integer("high"));
    call.result(b.to(drawn, asked(call, self->type.dtype)));
  };
  add_random(r, {.schema = str("randint_like(Tensor self, SymInt high, *, ", creation_options, format),
                 .build = whole,
                 .samples = {{{spec({2, 3}), Scalar(4)}}, {{spec({2}, DType::i64), Scalar(4)}}}});
  add_random(
      r, {.schema = str("randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, ", creation_options, format),
          .build = whole,
          .samples = {{{spec({2, 3}), Scalar(-4), Scalar(4)}}}});
}

// ---- Operators that fill a tensor, functional and in place ----

struct FillRow {
  std::string functional;  // schema of the functional operator, "" where there is none
  std::string inplace;
  std::function<Value*(Build&, Value* self)> draw;
  std::vector<Sample> samples = {};
};

void add_fill(Registry& r, const FillRow& row) {
  if (!row.functional.empty())
    add_random(r, {.schema = row.functional,
                   .build =
                       [draw = row.draw](Build& b) {
                         Value* self = b.call().tensor("self");
                         b.call().result(b.to(draw(b, self), self->type.dtype));
                       },
                   .samples = row.samples});
  add_random(r, {.schema = row.inplace,
                 .build =
                     [draw = row.draw](Build& b) {
                       Value* self = b.call().tensor("self");
                       b.call().result(b("copy_", {self, b.to(draw(b, self), self->type.dtype)}));
                     },
                 .samples = row.samples,
                 .early = true});
}

std::string functional_schema(std::string name, std::string args) {
  return str(name, "(Tensor self", args, ", *, Generator? generator=None) -> Tensor");
}
std::string inplace_schema(std::string name, std::string args) {
  return str(name, "(Tensor(a!) self", args, ", *, Generator? generator=None) -> Tensor(a!)");
}

void register_continuous_fills(Registry& r) {
  auto u_of = [](Build& b, Value* self) {
    check_float(b.call(), self->type.dtype);
    return uniform_like(b, self, self->type.dtype);
  };
  auto uniform_between = [u_of](Build& b, Value* self) {
    Value* u = u_of(b, self);
    return b.add(b.mul(u, b.sub(b("full_like", {u, b.call().arg("to")}), b.call().arg("from"))), b.call().arg("from"));
  };
  auto normal = [u_of](Build& b, Value* self) {
    return b.add(b.mul(to_normal(b, u_of(b, self)), b.call().arg("std")), b.call().arg("mean"));
  };
  std::vector<Sample> floats = {{{spec({2, 3})}}, {{spec({4}, DType::bf16)}}, {{spec({2}, DType::i64)}, true}};
  std::string ms = ", float mean=0., float std=1.", ft = ", float from=0., float to=1.";
  add_fill(r, {functional_schema("uniform", ft), inplace_schema("uniform_", ft), uniform_between, floats});
  add_fill(r, {functional_schema("normal_functional", ms), inplace_schema("normal_", ms), normal, floats});
  std::string log_ms = ", float mean=1., float std=2.";
  add_fill(r, {functional_schema("log_normal", log_ms), inplace_schema("log_normal_", log_ms),
               [normal](Build& b, Value* self) { return b("exp", {normal(b, self)}); }, floats});
  add_fill(r, {functional_schema("exponential", ", float lambd=1."), inplace_schema("exponential_", ", float lambd=1."),
               [u_of](Build& b, Value* self) { return b.div(to_exponential(b, u_of(b, self)), b.call().arg("lambd")); },
               floats});
  std::string cauchy = ", float median=0., float sigma=1.";
  add_fill(r, {functional_schema("cauchy", cauchy), inplace_schema("cauchy_", cauchy),
               [u_of](Build& b, Value* self) {
                 Value* angle = b.mul(b.sub(u_of(b, self), Scalar(0.5)), Scalar(M_PI));
                 return b.add(b.mul(b("tan", {angle}), b.call().arg("sigma")), b.call().arg("median"));
               },
               floats});
}

// The largest whole number that random_() draws for a type, as PyTorch: what the type holds exactly.
Expr whole_numbers_of(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return Expr(2);
    case DType::f64:
      return Expr(int64_t{1} << 53);
    case DType::f32:
      return Expr(int64_t{1} << 24);
    case DType::f16:
      return Expr(int64_t{1} << 11);
    case DType::bf16:
      return Expr(int64_t{1} << 8);
    default: {
      int64_t bits = 8 * dtype_bytes(dtype) - (is_signed(dtype) ? 1 : 0);
      return Expr(int64_t{1} << std::min<int64_t>(bits, 53));
    }
  }
}

void register_whole_fills(Registry& r) {
  auto between = [](Build& b, Value* self, const Expr& from, const Expr& to) {
    return integers_between(b, uniform_like(b, self, DType::f64), from, to);
  };
  std::vector<Sample> any = {{{spec({2, 3})}}, {{spec({4}, DType::i64)}}};
  add_fill(r,
           {functional_schema("random", ""), inplace_schema("random_", ""),
            [between](Build& b, Value* self) { return between(b, self, Expr(0), whole_numbers_of(self->type.dtype)); },
            any});
  add_fill(r, {functional_schema("random.to", ", int to"),
               inplace_schema("random_.to", ", int to"),
               [between](Build& b, Value* self) { return between(b, self, Expr(0), b.call().integer("to")); },
               {{{spec({2, 3}), Scalar(7)}}, {{spec({2}), Scalar(0)}, true}}});
  add_fill(r, {functional_schema("random.from", ", int from, int? to"),
               inplace_schema("random_.from", ", int from, int? to"),
               [between](Build& b, Value* self) {
                 Expr to = b.call().given("to") ? b.call().integer("to") : whole_numbers_of(self->type.dtype);
                 return between(b, self, b.call().integer("from"), to);
               },
               {{{spec({2, 3}), Scalar(-7), Scalar(7)}}, {{spec({2}, DType::i64), Scalar(3), Argument::None{}}}}});
  add_fill(r, {functional_schema("geometric", ", float p"),
               inplace_schema("geometric_", ", float p"),
               [](Build& b, Value* self) {
                 auto p = b.call().scalar("p");
                 if (const auto* known = std::get_if<Scalar>(&p);
                     known && !(known->as_double() > 0 && known->as_double() < 1))
                   refuse(b.call(), "K0201", "p must be in (0, 1)");
                 Value* u = uniform_like(b, self, DType::f64);
                 Value* failure = b("log1p", {b("neg", {b("full_like", {u, b.call().arg("p")})})});
                 Value* trials = b("ceil", {b.div(b("log1p", {b("neg", {u})}), failure)});
                 return b("clamp_min", {trials, Scalar(1.0)});
               },
               {{{spec({2, 3}), Scalar(0.3)}}, {{spec({2}), Scalar(1.5)}, true}}});
}

// ---- Bernoulli, dropout ----

Value* coin(Build& b, Value* shape, Argument p) {
  bool tensor = p.is_value() && p.as_value()->kind == ValueKind::tensor;
  if (p.is_scalar() && !(p.as_scalar().as_double() >= 0 && p.as_scalar().as_double() <= 1))
    refuse(b.call(), "K0201", "bernoulli expects p to be in [0, 1]");
  if (tensor)
    require_all(b.call(), b("logical_and", {b("ge.Scalar", {p, Scalar(0)}), b("le.Scalar", {p, Scalar(1)})}),
                "bernoulli: expects p to be in [0, 1]");
  Value* u = uniform_like(b, shape, DType::f32);
  return tensor ? b("lt.Tensor", {u, p}) : b("lt.Scalar", {u, p});
}

void register_coins(Registry& r) {
  std::vector<Sample> chances = {{{spec({2, 3}, DType::f32, 0, 1)}}, {{spec({2}, DType::i64, 0, 1)}, true}};
  add_random(r, {.schema = "bernoulli(Tensor self, *, Generator? generator=None) -> Tensor",
                 .build =
                     [](Build& b) {
                       Value* self = b.call().tensor("self");
                       check_float(b.call(), self->type.dtype);
                       b.call().result(b.to(coin(b, self, self), self->type.dtype));
                     },
                 .samples = chances});
  auto toss = [](Build& b, Value* self) { return coin(b, self, b.call().arg("p")); };
  std::vector<Sample> fixed = {{{spec({2, 3}), Scalar(0.3)}}, {{spec({2}, DType::i64), Scalar(0.5)}}};
  add_random(r, {.schema = "bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor",
                 .build =
                     [toss](Build& b) {
                       Value* self = b.call().tensor("self");
                       b.call().result(b.to(toss(b, self), self->type.dtype));
                     },
                 .samples = fixed});
  add_fill(r, {"", "bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? generator=None) -> Tensor(a!)", toss,
               fixed});
  add_fill(r, {"bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor",
               "bernoulli_.Tensor(Tensor(a!) self, Tensor p, *, Generator? generator=None) -> Tensor(a!)",
               toss,
               {{{spec({2, 3}), spec({2, 3}, DType::f32, 0, 1)}}}});
}

double dropout_rate(const OpCall& call) {
  auto p = call.scalar("p");
  const auto* known = std::get_if<Scalar>(&p);
  if (!known) fail_unsupported("K0202", str(call.schema().name, ": p is symbolic"), call.where());
  double rate = known->as_double();
  if (!(rate >= 0 && rate <= 1)) refuse(call, "K0201", "dropout probability has to be between 0 and 1");
  return rate;
}

// What is kept: per element, or per (sample, channel).
Value* kept(Build& b, Value* x, double rate, bool features) {
  if (!features) return coin(b, x, Scalar(1 - rate));
  if (rank_of(x) < 2) refuse(b.call(), "K0201", "Feature dropout requires at least 2 dimensions in the input");
  Sizes sizes(x->type.sizes.size(), Expr(1));
  sizes[0] = x->type.sizes[0];
  sizes[1] = x->type.sizes[1];
  return b("lt.Scalar", {uniform(b, sizes, DType::f32), Scalar(1 - rate)});
}

Value* dropped(Build& b, Value* x, bool features, bool alpha) {
  double rate = dropout_rate(b.call());
  if (!b.call().boolean("train") || rate == 0 || is_zero_numel(x->type.sizes)) return b("alias", {x});
  if (rate == 1) return b.mul(x, Scalar(0.0));
  Value* mask = kept(b, x, rate, features);
  if (!alpha) return b.mul(x, b.to(b.div(b.to(mask, DType::f32), Scalar(1 - rate)), x->type.dtype));
  // Keeps mean and variance of what selu gives: dropped elements get its negative saturation value.
  const double saturation = 1.7580993408473766;
  double a = 1 / std::sqrt((saturation * saturation * rate + 1) * (1 - rate));
  Value* noise = b.to(mask, x->type.dtype);
  Value* shift = b.add(b.mul(b.sub(noise, Scalar(1.0)), Scalar(saturation * a)), Scalar(saturation * a * rate));
  return b.add(b.mul(x, b.mul(noise, Scalar(a))), shift);
}

void register_dropouts(Registry& r) {
  for (const char* name : {"dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"}) {
    bool features = std::string_view(name).starts_with("feature"),
         alpha = std::string_view(name).find("alpha") != std::string_view::npos;
    std::vector<Sample> samples = {{{spec({2, 3}), Scalar(0.5), Scalar(false)}},
                                   {{spec({2, 3, 4}), Scalar(0.5), Scalar(true)}},
                                   {{spec({2, 3}), Scalar(1.5), Scalar(true)}, true}};
    add_random(r, {.schema = str(name, "(Tensor input, float p, bool train) -> Tensor"),
                   .build = [=](Build& b) { b.call().result(dropped(b, b.call().tensor("input"), features, alpha)); },
                   .samples = samples});
    add_random(r, {.schema = str(name, "_(Tensor(a!) self, float p, bool train) -> Tensor(a!)"),
                   .build =
                       [=](Build& b) {
                         Value* self = b.call().tensor("self");
                         b.call().result(b("copy_", {self, dropped(b, self, features, alpha)}));
                       },
                   .samples = samples,
                   .early = true});
  }
  add_random(r,
             {.schema = "native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)",
              .build =
                  [](Build& b) {
                    DecomposeCall& call = b.call();
                    Value* x = call.tensor("input");
                    double rate = dropout_rate(call);
                    if ((call.given("train") && !call.boolean("train")) || rate == 0) {
                      call.result(0, b("clone", {x}));
                      return call.result(1, b("ones_like", {x, DType::boolean}));
                    }
                    Value* mask = coin(b, x, Scalar(1 - rate));
                    Value* scaled = b.mul(x, b.to(mask, x->type.dtype));
                    call.result(0, rate == 1 ? scaled : b.mul(scaled, Scalar(1 / (1 - rate))));
                    call.result(1, mask);
                  },
              .samples = {{{spec({2, 3}), Scalar(0.5), Scalar(true)}}, {{spec({2, 3}), Scalar(0.5), Scalar(false)}}}});
}

// ---- Distributions with tensor parameters ----

void register_normals(Registry& r) {
  std::string generator = ", *, Generator? generator=None) -> Tensor";
  auto build = [](Build& b) {
    DecomposeCall& call = b.call();
    Value *mean = nullptr, *deviation = nullptr;
    if (call.arg("mean").is_value()) mean = call.tensor("mean");
    if (call.arg("std").is_value()) deviation = call.tensor("std");
    Value* like = mean && deviation ? b.add(mean, deviation) : mean ? mean : deviation;
    check_float(call, like->type.dtype);
    Value* z = to_normal(b, uniform_like(b, like, like->type.dtype));
    call.result(b.to(b.add(b.mul(z, call.arg("std")), call.arg("mean")), (mean ? mean : deviation)->type.dtype));
  };
  add_random(r, {.schema = "normal.Tensor_float(Tensor mean, float std=1." + generator,
                 .build = build,
                 .samples = {{{spec({2, 3}), Scalar(0.5)}}}});
  add_random(r, {.schema = "normal.float_Tensor(float mean, Tensor std" + generator,
                 .build = build,
                 .samples = {{{Scalar(0.5), spec({2, 3}, DType::f32, 0, 1)}}}});
  add_random(r, {.schema = "normal.Tensor_Tensor(Tensor mean, Tensor std" + generator,
                 .build = build,
                 .samples = {{{spec({2, 3}), spec({3}, DType::f32, 0, 1)}}}});
  add_random(r, {.schema = "normal.float_float(float mean, float std, SymInt[] size, *, Generator? "
                           "generator=None, " +
                           creation_options + ") -> Tensor",
                 .build =
                     [](Build& b) {
                       DecomposeCall& call = b.call();
                       DType dtype = asked(call, default_float);
                       Value* z = to_normal(b, uniform(b, call.integers("size"), dtype));
                       call.result(b.to(b.add(b.mul(z, call.arg("std")), call.arg("mean")), dtype));
                     },
                 .samples = {{{Scalar(1.0), Scalar(2.0), List{3, 2}}}}});
}

// Without replacement: the largest of weight / exponential. With: where a uniform number falls among the running sums.
void build_multinomial(Build& b) {
  DecomposeCall& call = b.call();
  Value* self = call.tensor("self");
  check_float(call, self->type.dtype);
  if (rank_of(self) != 1 && rank_of(self) != 2) refuse(call, "K0201", "prob_dist must be 1 or 2 dim");
  Expr wanted = call.integer("num_samples"), classes = self->type.sizes.back();
  bool replacement = call.boolean("replacement");
  if (!replacement)
    require(call, {classes, wanted, "multinomial: cannot sample n_sample > prob_dist.size(-1) without replacement"});
  Value* weights = b.to(self, compute_dtype(self->type.dtype));
  require_all(call,
              b("logical_and", {b("ge.Scalar", {weights, Scalar(0)}), b("lt.Scalar", {weights, Scalar(INFINITY)})}),
              "multinomial: probability tensor contains either `inf`, `nan` or element < 0");
  require_all(call, b("gt.Scalar", {b("sum.dim_IntList", {weights, b.ints({-1})}), Scalar(0)}),
              "multinomial: invalid multinomial distribution (sum of probabilities <= 0)");
  if (!replacement) {
    Value* keys = b.div(weights, to_exponential(b, uniform_like(b, weights, weights->type.dtype)));
    return call.result(b.all("topk", {keys, number(wanted), Scalar(-1)})[1]);
  }
  Sizes sizes = self->type.sizes;
  sizes.back() = wanted;
  Value* sums = b("cumsum", {weights, Scalar(-1)});
  Value* total = b("sum.dim_IntList", {weights, b.ints({-1}), Scalar(true)});
  Value* places = b.mul(uniform(b, sizes, weights->type.dtype), total);
  Value* found = b("searchsorted.Tensor", {sums, places, Scalar(false), Scalar(true)});
  call.result(b("clamp_max", {found, number(classes - Expr(1))}));
}

void register_leaky(Registry& r) {
  std::string args =
      "Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, Generator? "
      "generator=None) -> Tensor";
  add_random(r, {.schema = "rrelu(Tensor self, " + args,
                 .build =
                     [](Build& b) {
                       DecomposeCall& call = b.call();
                       Value* self = call.tensor("self");
                       double low = std::get<Scalar>(call.scalar("lower")).as_double(),
                              high = std::get<Scalar>(call.scalar("upper")).as_double();
                       if (!call.boolean("training"))
                         return call.result(b("leaky_relu", {self, Scalar((low + high) / 2)}));
                       Value* slope =
                           b.add(b.mul(uniform_like(b, self, self->type.dtype), Scalar(high - low)), Scalar(low));
                       Value* scaled = b.mul(self, b.to(slope, self->type.dtype));
                       call.result(b("where.self", {b("le.Scalar", {self, Scalar(0)}), scaled, self}));
                     },
                 .samples = {{{spec({2, 3})}}, {{spec({2, 3}), Scalar(0.1), Scalar(0.3), Scalar(true)}}},
                 .inplace = true});
}

}  // namespace

void register_random(Registry& registry) {
  register_primitive(registry);
  register_sized(registry);
  register_like(registry);
  register_continuous_fills(registry);
  register_whole_fills(registry);
  register_coins(registry);
  register_dropouts(registry);
  register_normals(registry);
  add_random(registry, {.schema = "multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? "
                                  "generator=None) -> Tensor",
                        .build = build_multinomial,
                        .samples = {{{spec({2, 5}, DType::f32, 0.1, 1), Scalar(3)}},
                                    {{spec({5}, DType::f32, 0.1, 1), Scalar(7), Scalar(true)}},
                                    {{spec({5}, DType::f32, 0.1, 1), Scalar(7)}, true}}});
  register_leaky(registry);
}

}  // namespace kiln
