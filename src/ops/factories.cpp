// New tensors: full, zeros, arange, *_like, new_*.
#include <cmath>

#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/layout.h"

namespace kiln {

namespace {

using loops::KernelBuilder;
using List = std::vector<int64_t>;

Device device_of(const OpCall& call, Device otherwise) {
  const auto* device = std::get_if<Device>(&call.arg("device").value);
  return device ? *device : otherwise;
}

// What a factory fills with: a number argument, or a constant.
struct Fill {
  std::string arg = {};
  Scalar constant = Scalar(0);
};

DType number_dtype(DType kind) {
  return kind == DType::f64 ? default_float : kind == DType::c128 ? complex_of(default_float) : kind;
}

struct FactoryRow {
  std::string schema;
  Fill fill;
  std::string like = {};  // tensor argument that gives sizes (unless there is "size"), dtype and strides
  std::vector<Sample> samples = {};
};

std::variant<Scalar, Expr> fill_number(const OpCall& call, const FactoryRow& row) {
  if (row.fill.arg.empty()) return row.fill.constant;
  return call.scalar(row.fill.arg);
}

DType factory_dtype(const OpCall& call, const FactoryRow& row) {
  if (auto given = call.dtype("dtype")) return *given;
  if (!row.like.empty()) return call.tensor(row.like)->type.dtype;
  // torch.full takes the type of its number; the others the default.
  if (row.schema.starts_with("full")) {
    auto number = fill_number(call, row);
    return number_dtype(std::visit([](const auto& v) { return number_kind(v); }, number));
  }
  return default_float;
}

void infer_factory(InferCall& call, const FactoryRow& row) {
  DType dtype = factory_dtype(call, row);
  bool sized = call.schema().find("size") >= 0;
  Device device = device_of(call, row.like.empty() ? Device{} : call.tensor(row.like)->type.device);
  if (!sized && row.like.empty()) {
    call.results = {contiguous_type(dtype, {}, device)};
  } else if (!sized) {
    const TensorType& like = call.tensor(row.like)->type;
    MemoryFormat format = memory_format(call, "memory_format", MemoryFormat::preserve);
    call.results = {
        strided_type(dtype, like.sizes, like_strides(like.sizes, like.strides, format, call.ranges()), device)};
  } else {
    Sizes sizes = call.integers("size");
    for (const Expr& size : sizes)
      if (size.is_constant() && size.value() < 0)
        fail_user("K0201", str("Trying to create tensor with negative dimension ", size.value()), call.where());
    Sizes strides = call.schema().find("stride") >= 0 ? call.integers("stride") : contiguous_strides(sizes);
    if (call.schema().find("memory_format") >= 0) {
      MemoryFormat format = memory_format(call, "memory_format", MemoryFormat::contiguous);
      if (format == MemoryFormat::channels_last || format == MemoryFormat::channels_last_3d)
        strides = channels_last_strides(sizes);
    }
    if (strides.size() != sizes.size())
      fail_user("K0201", str(call.schema().name, ": sizes and strides differ in number"), call.where());
    call.results = {strided_type(dtype, std::move(sizes), std::move(strides), device)};
  }
}

void lower_factory(LowerCall& call, const FactoryRow& row) {
  DType dtype = call.output_type().dtype;
  refuse_complex(call, dtype);
  call.kernel([&](KernelBuilder& k) {
    k.parallel(call.output_type().sizes, [&](const std::vector<Expr>& i) {
      k.store(call.output(), i, number_value(k, fill_number(call, row), dtype));
    });
  });
}

void reference_factory(ReferenceCall& call, const FactoryRow& row, const Schema& schema) {
  std::vector<int64_t> sizes, strides;
  if (schema.find("size") >= 0) {
    sizes = call.integers("size");
    strides = schema.find("stride") >= 0 ? call.integers("stride") : contiguous_strides(sizes);
  } else if (!row.like.empty()) {
    Tensor like = call.tensor(row.like);
    sizes = like.sizes;
    OpCall typed(call.node(), schema);
    MemoryFormat format = memory_format(typed, "memory_format", MemoryFormat::preserve);
    strides = to_numbers(like_strides(to_exprs(sizes), to_exprs(like.strides), format, {}));
  }
  if (schema.find("size") >= 0 && schema.find("memory_format") >= 0) {
    OpCall typed(call.node(), schema);
    MemoryFormat format = memory_format(typed, "memory_format", MemoryFormat::contiguous);
    if (format == MemoryFormat::channels_last || format == MemoryFormat::channels_last_3d)
      strides = to_numbers(channels_last_strides(to_exprs(sizes)));
  }
  Tensor out = Tensor::empty_strided(call.result_dtype(), sizes, strides);
  Scalar value = row.fill.arg.empty() ? row.fill.constant : call.scalar(row.fill.arg);
  copy_into(broadcast_view(Tensor::scalar(number_kind(value), value), sizes), out);
  call.results = {Datum{out}};
}

void add_factory(Registry& r, FactoryRow row) {
  auto schema = std::make_shared<const Schema>(parse_schema(row.schema));
  auto shared = std::make_shared<const FactoryRow>(std::move(row));
  OpRecord record;
  record.schema_text = shared->schema;
  record.samples = shared->samples;
  record.infer = [shared](InferCall& call) { infer_factory(call, *shared); };
  record.lower = [shared](LowerCall& call) { lower_factory(call, *shared); };
  record.reference = [shared, schema](ReferenceCall& call) { reference_factory(call, *shared, *schema); };
  r.add(std::move(record));
}

void register_fills(Registry& r) {
  std::string format = ", MemoryFormat? memory_format=None) -> Tensor";
  std::vector<Sample> sized = {
      {{List{2, 3}}}, {{List{}}}, {{List{0, 2}, DType::i64}}, {{List{3}, DType::bf16}}, {{List{-1}}, true}};
  std::vector<Sample> like = {
      {{spec({2, 3})}}, {{spec({}, DType::i64)}}, {{spec({0, 2}, DType::boolean)}}, {{spec({3}), DType::i32}}};
  add_factory(r, {"full(SymInt[] size, Scalar fill_value, *, " + creation_options + ") -> Tensor",
                  {"fill_value"},
                  "",
                  {{{List{2, 3}, Scalar(1.5)}},
                   {{List{}, Scalar(7)}},
                   {{List{2}, Scalar(true)}},
                   {{List{2}, Scalar(2.7), DType::i64}}}});
  add_factory(r, {"zeros(SymInt[] size, *, " + creation_options + ") -> Tensor", {"", Scalar(0)}, "", sized});
  add_factory(r, {"ones(SymInt[] size, *, " + creation_options + ") -> Tensor", {"", Scalar(1)}, "", sized});
  add_factory(r, {"empty.memory_format(SymInt[] size, *, " + creation_options + format, {"", Scalar(0)}, "", sized});
  add_factory(r, {"empty_strided(SymInt[] size, SymInt[] stride, *, " + creation_options + ") -> Tensor",
                  {"", Scalar(0)},
                  "",
                  {{{List{2, 3}, List{1, 2}}}, {{List{2, 3}, List{1}}, true}}});
  add_factory(r, {"scalar_tensor(Scalar s, *, " + creation_options + ") -> Tensor",
                  {"s"},
                  "",
                  {{{Scalar(1.5)}}, {{Scalar(3), DType::i64}}}});
  add_factory(r, {"full_like(Tensor self, Scalar fill_value, *, " + creation_options + format,
                  {"fill_value"},
                  "self",
                  {{{spec({2, 3}), Scalar(1.5)}}, {{spec({2}, DType::i64), Scalar(1.5)}}}});
  add_factory(r, {"zeros_like(Tensor self, *, " + creation_options + format, {"", Scalar(0)}, "self", like});
  add_factory(r, {"ones_like(Tensor self, *, " + creation_options + format, {"", Scalar(1)}, "self", like});
  add_factory(r, {"empty_like(Tensor self, *, " + creation_options + format, {"", Scalar(0)}, "self", like});
  std::vector<Sample> made = {
      {{spec({2}), List{2, 3}}}, {{spec({2}, DType::i64), List{}}}, {{spec({2}), List{2}, DType::bf16}}};
  add_factory(
      r,
      {"new_zeros(Tensor self, SymInt[] size, *, " + creation_options + ") -> Tensor", {"", Scalar(0)}, "self", made});
  add_factory(
      r,
      {"new_ones(Tensor self, SymInt[] size, *, " + creation_options + ") -> Tensor", {"", Scalar(1)}, "self", made});
  add_factory(
      r,
      {"new_empty(Tensor self, SymInt[] size, *, " + creation_options + ") -> Tensor", {"", Scalar(0)}, "self", made});
  add_factory(r,
              {"new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, " + creation_options + ") -> Tensor",
               {"", Scalar(0)},
               "self",
               {{{spec({2}), List{2, 3}, List{1, 2}}}}});
  add_factory(r, {"new_full(Tensor self, SymInt[] size, Scalar fill_value, *, " + creation_options + ") -> Tensor",
                  {"fill_value"},
                  "self",
                  {{{spec({2}), List{2, 3}, Scalar(1.5)}}, {{spec({2}, DType::i64), List{2}, Scalar(1.5)}}}});
}

// ---- arange ----

using Number = std::variant<Scalar, Expr>;

struct Range {
  Number start = Scalar(0), end, step = Scalar(1);
};

Range range_of_call(const OpCall& call) {
  Range range;
  if (call.schema().find("start") >= 0) range.start = call.scalar("start");
  range.end = call.scalar("end");
  if (call.schema().find("step") >= 0) range.step = call.scalar("step");
  return range;
}

bool is_float_number(const Number& number) {
  return std::visit([](const auto& v) { return number_kind(v) == DType::f64; }, number);
}
Expr as_expr(const Number& number) {
  if (const auto* expr = std::get_if<Expr>(&number)) return *expr;
  return Expr(std::get<Scalar>(number).as_int());
}

DType arange_dtype(const OpCall& call, const Range& range) {
  if (auto given = call.dtype("dtype")) return *given;
  bool real = is_float_number(range.start) || is_float_number(range.end) || is_float_number(range.step);
  return real ? default_float : DType::i64;
}

// ceil((end - start) / step); with numbers of the program as PyTorch computes it, in double.
Expr arange_length(const OpCall& call, const Range& range) {
  auto refuse = [&](const char* why) { fail_user("K0201", str("arange: ", why), call.where()); };
  const auto *start = std::get_if<Scalar>(&range.start), *end = std::get_if<Scalar>(&range.end),
             *step = std::get_if<Scalar>(&range.step);
  if (step && step->as_double() == 0) refuse("step must be nonzero");
  if (start && end && step) {
    double from = start->as_double(), to = end->as_double(), by = step->as_double();
    if (!std::isfinite(from) || !std::isfinite(to)) refuse("unsupported range");
    if ((to - from) * by < 0) refuse("upper bound and lower bound inconsistent with step sign");
    if (!start->is_float() && !end->is_float() && !step->is_float())
      return ceildiv(Expr(end->as_int()) - Expr(start->as_int()), Expr(step->as_int()));
    return Expr(static_cast<int64_t>(std::ceil((to - from) / by)));
  }
  if (is_float_number(range.start) || is_float_number(range.end) || is_float_number(range.step))
    fail_unsupported("K0202", "arange: a symbolic length from floats is not supported", call.where());
  Expr length = as_expr(range.end) - as_expr(range.start);
  return step && step->as_int() == 1 ? length : ceildiv(length, as_expr(range.step));
}

void lower_arange(LowerCall& call) {
  Range range = range_of_call(call);
  DType dtype = call.output_type().dtype;
  DType compute = is_integral(dtype) ? DType::i64 : compute_dtype(dtype);
  bool whole = !is_float_number(range.start) && !is_float_number(range.step);
  call.kernel([&](KernelBuilder& k) {
    k.parallel(call.output_type().sizes, [&](const std::vector<Expr>& i) {
      if (whole) {
        ValueId at = k.index_value(as_expr(range.start) + i[0] * as_expr(range.step));
        k.store(call.output(), i, k.as(compute, at));
        return;
      }
      // start + i * step in double, as eager's accumulation type is.
      ValueId place = k.as(DType::f64, k.index_value(i[0]));
      ValueId offset = k.op(ScalarOp::mul, place, number_value(k, range.step, DType::f64));
      k.store(call.output(), i, k.as(compute, k.op(ScalarOp::add, number_value(k, range.start, DType::f64), offset)));
    });
  });
}

void reference_arange(ReferenceCall& call, const Schema& schema) {
  Scalar start = schema.find("start") >= 0 ? call.scalar("start") : Scalar(0), end = call.scalar("end");
  Scalar step = schema.find("step") >= 0 ? call.scalar("step") : Scalar(1);
  bool whole = !start.is_float() && !end.is_float() && !step.is_float();
  if (step.as_double() == 0) fail_user("K0201", "arange: step must be nonzero", call.node().where());
  int64_t length = static_cast<int64_t>(std::ceil((end.as_double() - start.as_double()) / step.as_double()));
  if (length < 0)
    fail_user("K0201", "arange: upper bound and lower bound inconsistent with step sign", call.node().where());
  Tensor out = new_result(call, {length});
  std::vector<int64_t> integers;
  std::vector<double> reals;
  for (int64_t i = 0; i < length; ++i) {
    if (whole)
      integers.push_back(start.as_int() + i * step.as_int());
    else
      reals.push_back(start.as_double() + static_cast<double>(i) * step.as_double());
  }
  if (whole)
    write_dense(out, integers);
  else
    write_dense(out, reals);
  call.results = {Datum{out}};
}

void add_arange(Registry& r, const std::string& schema_text, std::vector<Sample> samples) {
  OpRecord record;
  record.schema_text = schema_text;
  record.samples = std::move(samples);
  auto schema = std::make_shared<const Schema>(parse_schema(schema_text));
  record.infer = [](InferCall& call) {
    Range range = range_of_call(call);
    Expr length = simplify(arange_length(call, range), call.ranges());
    call.results = {contiguous_type(arange_dtype(call, range), {length}, device_of(call, Device{}))};
  };
  record.lower = lower_arange;
  record.reference = [schema](ReferenceCall& call) { reference_arange(call, *schema); };
  r.add(std::move(record));
}

}  // namespace

void register_factories(Registry& r) {
  register_fills(r);
  add_arange(r, "arange(Scalar end, *, " + creation_options + ") -> Tensor",
             {{{Scalar(5)}},
              {{Scalar(4.5)}},
              {{Scalar(0)}},
              {{Scalar(5), DType::f32}},
              {{Scalar(5), DType::i32}},
              {{Scalar(-1)}, true}});
  add_arange(r, "arange.start(Scalar start, Scalar end, *, " + creation_options + ") -> Tensor",
             {{{Scalar(2), Scalar(7)}}, {{Scalar(-1.5), Scalar(2)}}, {{Scalar(2), Scalar(1)}, true}});
  add_arange(r, "arange.start_step(Scalar start, Scalar end, Scalar step=1, *, " + creation_options + ") -> Tensor",
             {{{Scalar(2), Scalar(9), Scalar(3)}},
              {{Scalar(5), Scalar(0), Scalar(-2)}},
              {{Scalar(0), Scalar(1), Scalar(0.1)}},
              {{Scalar(0), Scalar(5), Scalar(0)}, true}});
  r.describe({"empty", "empty_like", "empty_strided", "full", "full_like", "new_empty", "new_empty_strided", "new_full",
              "new_zeros", "scalar_tensor", "zeros", "zeros_like"},
             complex_by(ComplexRule::fill));
  r.describe({"new_ones", "ones", "ones_like"}, complex_by(ComplexRule::real_unit));
  r.describe({"full", "full_like", "new_full", "new_ones", "new_zeros", "ones", "ones_like", "scalar_tensor", "zeros",
              "zeros_like"},
             {.fills = true});
  r.describe({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}, {.uninitialised = true});
}

}  // namespace kiln
