// Special functions, the special_* names, and factories of numbers in sequence.
#include <cmath>

#include "ops/composite.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/special_functions.h"

namespace kiln {

namespace {

using loops::KernelBuilder;
using List = std::vector<int64_t>;
using Index = std::vector<Expr>;

// ---- Bessel i0: Cephes' Chebyshev series, as eager's ----

constexpr double series_small[] = {
    -4.41534164647933937950E-18, 3.33079451882223809783E-17, -2.43127984654795469359E-16, 1.71539128555513303061E-15,
    -1.16853328779934516808E-14, 7.67618549860493561688E-14, -4.85644678311192946090E-13, 2.95505266312963983461E-12,
    -1.72682629144155570723E-11, 9.67580903537323691224E-11, -5.18979560163526290666E-10, 2.65982372468238665035E-9,
    -1.30002500998624804212E-8,  6.04699502254191894932E-8,  -2.67079385394061173391E-7,  1.11738753912010371815E-6,
    -4.41673835845875056359E-6,  1.64484480707288970893E-5,  -5.75419501008210370398E-5,  1.88502885095841655729E-4,
    -5.76375574538582365885E-4,  1.63947561694133579842E-3,  -4.32430999505057594430E-3,  1.05464603945949983183E-2,
    -2.37374148058994688156E-2,  4.93052842396707084878E-2,  -9.49010970480476444210E-2,  1.71620901522208775349E-1,
    -3.04682672343198398683E-1,  6.76795274409476084995E-1};
constexpr double series_large[] = {
    -7.23318048787475395456E-18, -4.83050448594418207126E-18, 4.46562142029675999901E-17,  3.46122286769746109310E-17,
    -2.82762398051658348494E-16, -3.42548561967721913462E-16, 1.77256013305652638360E-15,  3.81168066935262242075E-15,
    -9.55484669882830764870E-15, -4.15056934728722208663E-14, 1.54008621752140982691E-14,  3.85277838274214270114E-13,
    7.18012445138366623367E-13,  -1.79417853150680611778E-12, -1.32158118404477131188E-11, -3.14991652796324136454E-11,
    1.18891471078464383424E-11,  4.94060238822496958910E-10,  3.39623202570838634515E-9,   2.26666899049817806459E-8,
    2.04891858946906374183E-7,   2.89137052083475648297E-6,   6.88975834691682398426E-5,   3.36911647825569408990E-3,
    8.04490411014108831608E-1};

template <size_t N>
ValueId emit_chebyshev(Emit& e, ValueId x, const double (&terms)[N]) {
  ValueId b0 = e.number(terms[0]), b1 = e.number(0), b2 = e.number(0);
  for (size_t i = 1; i < N; ++i) {
    b2 = b1;
    b1 = b0;
    b0 = e.op(ScalarOp::add, e.op(ScalarOp::sub, e.op(ScalarOp::mul, x, b1), b2), e.number(terms[i]));
  }
  return e.op(ScalarOp::mul, e.number(0.5), e.op(ScalarOp::sub, b0, b2));
}

ValueId emit_i0(Emit& e) {
  ValueId x = e.op(ScalarOp::abs, e.x[0]);
  ValueId small =
      emit_chebyshev(e, e.op(ScalarOp::sub, e.op(ScalarOp::mul, x, e.number(0.5)), e.number(2)), series_small);
  ValueId far = e.op(ScalarOp::max, x, e.number(8));
  ValueId large =
      emit_chebyshev(e, e.op(ScalarOp::sub, e.op(ScalarOp::div, e.number(32), far), e.number(2)), series_large);
  ValueId below = e.op(ScalarOp::le, x, e.number(8));
  ValueId scaled = e.k.select(below, small, e.op(ScalarOp::div, large, e.op(ScalarOp::sqrt, far)));
  return e.op(ScalarOp::mul, e.op(ScalarOp::exp, x), scaled);
}

void register_special_functions(Registry& r) {
  for (const char* name : {"i0", "special_i0"})
    add_pointwise(r, {.schema = str(name, "(Tensor self) -> Tensor"),
                      .operands = "self",
                      .rule = ResultRule::floating,
                      .emit = emit_i0,
                      .formula = float_formula<1>([](auto x) { return bessel_i0(static_cast<double>(x)); }),
                      .inplace = std::string_view(name) == "i0",
                      .low = -12,
                      .high = 12});
  // Names that stand for another operator.
  auto alias = [&](const std::string& schema, std::string target, std::vector<Sample> samples, bool two = false) {
    add_composite(r, {.schema = schema,
                      .build =
                          [target, two](Build& b) {
                            std::vector<Argument> args = {b.call().arg("self")};
                            if (two) args.push_back(b.call().arg("other"));
                            b.call().result(b(target, std::move(args)));
                          },
                      .samples = std::move(samples)});
  };
  std::vector<Sample> unary = {{{spec({4}, DType::f32, 0.1, 0.9)}}, {{spec({2}, DType::i64, 1, 3)}}};
  for (auto [name, target] : std::vector<std::pair<std::string, std::string>>{{"special_erf", "erf"},
                                                                              {"special_erfc", "erfc"},
                                                                              {"special_erfinv", "erfinv"},
                                                                              {"special_exp2", "exp2"},
                                                                              {"special_expm1", "expm1"},
                                                                              {"special_expit", "sigmoid"},
                                                                              {"special_gammaln", "lgamma"},
                                                                              {"special_digamma", "digamma"},
                                                                              {"special_psi", "digamma"},
                                                                              {"special_log1p", "log1p"},
                                                                              {"special_sinc", "sinc"}})
    alias(name + "(Tensor self) -> Tensor", target, unary);
  alias("special_xlogy(Tensor self, Tensor other) -> Tensor", "xlogy.Tensor",
        {{{spec({4}), spec({4}, DType::f32, 0.1)}}}, true);
  // log of the multivariate gamma function: a sum of p of them.
  for (const char* name : {"mvlgamma", "special_multigammaln"})
    add_composite(
        r, {.schema = str(name, "(Tensor self, int p) -> Tensor"),
            .build =
                [](Build& b) {
                  DecomposeCall& call = b.call();
                  int64_t p = call.constant_integer("p");
                  if (p < 1) fail_user("K0201", "mvlgamma: p has to be greater than or equal to 1", call.where());
                  Value* x = call.tensor("self");
                  if (!is_float(x->type.dtype)) x = b.to(x, default_float);
                  Value* sum = nullptr;
                  for (int64_t i = 0; i < p; ++i) {
                    Value* term = b("lgamma", {b.sub(x, Scalar(static_cast<double>(i) / 2))});
                    sum = sum ? b.add(sum, term) : term;
                  }
                  double constant = static_cast<double>(p * (p - 1)) * std::log(3.14159265358979323846) / 4;
                  call.result(b.add(sum, Scalar(constant)));
                },
            .samples = {{{spec({4}, DType::f32, 3, 6), Scalar(3)}}, {{spec({4}, DType::f32, 1, 2), Scalar(0)}, true}},
            .inplace = std::string_view(name) == "mvlgamma"});
}

// ---- Sequences ----

struct SequenceRow {
  std::string schema;
  bool powers = false;  // logspace
  std::vector<Sample> samples = {};
};

DType sequence_dtype(const OpCall& call) {
  DType dtype = call.dtype("dtype").value_or(default_float);
  refuse_complex(call, dtype);
  return dtype;
}

// Counted from both ends towards the middle, as eager does: both ends are exact.
void lower_sequence(LowerCall& call, const SequenceRow& row) {
  DType dtype = call.output_type().dtype, real = dtype == DType::f64 || is_integral(dtype) ? DType::f64 : DType::f32;
  Expr steps = call.integer("steps");
  call.kernel([&](KernelBuilder& k) {
    k.parallel(call.output_type().sizes, [&](const Index& i) {
      auto end_value = [&](const char* name) { return load_operand(call, k, operand(call, name), real, {}); };
      ValueId start = end_value("start"), end = end_value("end");
      auto number = [&](const Expr& e) { return k.as(real, k.index_value(e)); };
      ValueId gaps = k.op(ScalarOp::max, number(steps - Expr(1)), k.constant(real, Scalar(1.0)));
      ValueId step = k.op(ScalarOp::div, k.op(ScalarOp::sub, end, start), gaps);
      ValueId up = k.op(ScalarOp::add, start, k.op(ScalarOp::mul, step, number(i[0])));
      ValueId down = k.op(ScalarOp::sub, end, k.op(ScalarOp::mul, step, number(steps - Expr(1) - i[0])));
      ValueId first = k.op(ScalarOp::lt, k.index_value(i[0]), k.index_value(floordiv(steps, Expr(2))));
      // A single step is the start.
      ValueId only = k.op(ScalarOp::eq, k.index_value(steps), k.index_value(Expr(1)));
      ValueId value = k.select(only, start, k.select(first, up, down));
      if (row.powers) value = k.op(ScalarOp::pow, number_value(k, call.scalar("base"), real), value);
      k.store(call.output(), i, value);
    });
  });
}

void add_sequence(Registry& r, SequenceRow row) {
  auto schema = std::make_shared<const Schema>(parse_schema(row.schema));
  OpRecord record;
  record.schema_text = row.schema;
  record.samples = row.samples;
  record.infer = [](InferCall& call) {
    Expr steps = call.integer("steps");
    if (steps.is_constant() && steps.value() < 0)
      fail_user("K0201", "number of steps must be non-negative", call.where());
    const auto* device = std::get_if<Device>(&call.arg("device").value);
    call.results = {contiguous_type(sequence_dtype(call), {steps}, device ? *device : Device{})};
  };
  record.lower = [row](LowerCall& call) { lower_sequence(call, row); };
  record.reference = [row](ReferenceCall& call) {
    int64_t steps = call.integer("steps");
    double start = call.real("start"), end = call.real("end");
    double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
    std::vector<double> out;
    for (int64_t i = 0; i < steps; ++i) {
      double value = steps == 1 || i < steps / 2 ? start + step * static_cast<double>(i)
                                                 : end - step * static_cast<double>(steps - 1 - i);
      out.push_back(row.powers ? std::pow(call.real("base"), value) : value);
    }
    Tensor result = new_result(call, {steps});
    write_dense(result, out);
    call.results = {Datum{result}};
  };
  r.add(std::move(record));
}

void register_sequences(Registry& r) {
  std::vector<std::pair<std::string, std::string>> forms = {{"", "Scalar start, Scalar end"},
                                                            {".Tensor_Tensor", "Tensor start, Tensor end"},
                                                            {".Tensor_Scalar", "Tensor start, Scalar end"},
                                                            {".Scalar_Tensor", "Scalar start, Tensor end"}};
  for (const auto& [overload, ends] : forms) {
    bool first = ends.starts_with("Tensor"), second = ends.find(", Tensor") != std::string::npos;
    Sample::SampleArg a = Scalar(-1.5), z = Scalar(4.0);
    if (first) a = spec({});
    if (second) z = spec({});
    std::vector<Sample> line = {
        {{a, z, Scalar(5)}}, {{a, z, Scalar(1)}}, {{a, z, Scalar(0)}}, {{a, z, Scalar(-1)}, true}};
    add_sequence(
        r, {str("linspace", overload, "(", ends, ", SymInt steps, *, ", creation_options, ") -> Tensor"), false, line});
    std::vector<Sample> powers = {{{a, z, Scalar(4)}}, {{a, z, Scalar(3), Scalar(2.0)}}};
    add_sequence(r, {str("logspace", overload, "(", ends, ", SymInt steps, float base=10.0, *, ", creation_options,
                         ") -> Tensor"),
                     true, powers});
  }
  auto eye = [](Build& b, const Expr& n, const Expr& m) {
    DecomposeCall& call = b.call();
    DType dtype = call.dtype("dtype").value_or(default_float);
    auto number = [](const Expr& e) { return e.is_constant() ? Argument(Scalar(e.value())) : Argument(e); };
    Value* rows = b("unsqueeze", {b("arange", {number(n), DType::i64, Argument(), call.arg("device")}), Scalar(1)});
    Value* columns = b("arange", {number(m), DType::i64, Argument(), call.arg("device")});
    call.result(b.to(b("eq.Tensor", {rows, columns}), dtype));
  };
  add_composite(r, {.schema = "eye(SymInt n, *, " + creation_options + ") -> Tensor",
                    .build = [eye](Build& b) { eye(b, b.call().integer("n"), b.call().integer("n")); },
                    .samples = {{{Scalar(3)}}, {{Scalar(2), DType::i64}}}});
  add_composite(r, {.schema = "eye.m(SymInt n, SymInt m, *, " + creation_options + ") -> Tensor",
                    .build = [eye](Build& b) { eye(b, b.call().integer("n"), b.call().integer("m")); },
                    .samples = {{{Scalar(3), Scalar(2)}}, {{Scalar(2), Scalar(0)}}}});
}

}  // namespace

void register_special_math(Registry& registry) {
  register_special_functions(registry);
  register_sequences(registry);
  registry.describe({"eye"}, complex_by(ComplexRule::real_unit));
}

}  // namespace kiln
