// Norms over dimensions and log-sum-exp: decompositions to pointwise operators and one reduction.
#include <cmath>

#include "ops/composite.h"
#include "ops/decompose_call.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/layout.h"
#include "ops/reduce_parts.h"
#include "ops/reduce_table.h"
#include "ops/size_needs.h"

namespace kiln {

namespace {

using List = std::vector<int64_t>;

struct NormRow {
  std::string schema;
  std::string order;  // name of the argument; None means 2
  bool has_dims = true, has_dtype = true;
  std::vector<Sample> samples = {};
};

double order_of(const OpCall& call, const NormRow& row) {
  if (row.order.empty() || !call.given(row.order)) return 2;
  auto number = call.scalar(row.order);
  const auto* constant = std::get_if<Scalar>(&number);
  if (!constant) fail_unsupported("K0202", str(call.schema().name, ": the order must be a constant"), call.where());
  return constant->as_double();
}

DType norm_dtype(const OpCall& call, const NormRow& row) {
  DType self = call.tensor("self")->type.dtype;
  DType dtype = row.has_dtype ? call.dtype("dtype").value_or(self) : self;
  dtype = complex_part(dtype);  // a norm is that of the absolute values
  if (!is_float(dtype)) refuse_dtype(call, dtype);
  return dtype;
}

std::vector<bool> norm_dims(const OpCall& call, const NormRow& row) {
  return reduced_dims(call, row.has_dims ? ReduceDims::list : ReduceDims::all);
}
bool keeps(const OpCall& call, const NormRow& row) { return row.has_dims && call.boolean("keepdim"); }

void infer_norm(InferCall& call, const NormRow& row) {
  const TensorType& self = call.tensor("self")->type;
  auto reduced = norm_dims(call, row);
  call.results = {
      contiguous_type(norm_dtype(call, row), reduced_sizes(self.sizes, reduced, keeps(call, row)), self.device)};
}

Value* converted(DecomposeCall& call, Value* value, DType dtype) {
  return value->type.dtype == dtype ? value : call.call("aten._to_copy.default", {value, dtype});
}

void decompose_norm(DecomposeCall& call, const NormRow& row) {
  DType dtype = norm_dtype(call, row);
  double order = order_of(call, row);
  Value* self = call.tensor("self");
  if (is_complex(self->type.dtype)) self = call.call("aten.abs.default", {self});
  Value* x = converted(call, converted(call, self, dtype), compute_dtype(dtype));
  auto reduced = norm_dims(call, row);
  Sizes dims;
  for (size_t d = 0; d < reduced.size(); ++d)
    if (reduced[d]) dims.push_back(Expr(static_cast<int64_t>(d)));
  Argument list = call.int_list(dims), keep(Scalar(keeps(call, row)));
  Value* out = nullptr;
  if (order == 2) {
    Value* squares = call.call("aten.mul.Tensor", {x, x});
    out = call.call("aten.sqrt.default", {call.call("aten.sum.dim_IntList", {squares, list, keep})});
  } else if (std::isinf(order)) {
    Value* sizes = call.call("aten.abs.default", {x});
    out = call.call(order > 0 ? "aten.amax.default" : "aten.amin.default", {sizes, list, keep});
  } else if (order == 0) {
    Value* nonzero = call.call("aten._to_copy.default", {call.call("aten.ne.Scalar", {x, Scalar(0)}), x->type.dtype});
    out = call.call("aten.sum.dim_IntList", {nonzero, list, keep});
  } else {
    Value* sizes = call.call("aten.abs.default", {x});
    if (order != 1) sizes = call.call("aten.pow.Tensor_Scalar", {sizes, Scalar(order)});
    out = call.call("aten.sum.dim_IntList", {sizes, list, keep});
    if (order != 1) out = call.call("aten.pow.Tensor_Scalar", {out, Scalar(1 / order)});
  }
  call.result(converted(call, out, dtype));
}

double norm_of(const double* x, int64_t n, double order) {
  double out = std::isinf(order) && order < 0 ? INFINITY : 0;
  for (int64_t i = 0; i < n; ++i) {
    double size = std::fabs(x[i]);
    if (std::isinf(order)) {
      if (size != size) return size;
      out = order > 0 ? std::fmax(out, size) : std::fmin(out, size);
    } else if (order == 0) {
      out += size != 0;
    } else {
      out += order == 1 ? size : order == 2 ? size * size : std::pow(size, order);
    }
  }
  if (order == 2) return std::sqrt(out);
  return std::isinf(order) || order == 0 || order == 1 ? out : std::pow(out, 1 / order);
}

void reference_norm(ReferenceCall& call, const NormRow& row, const Schema& schema) {
  OpCall typed(call.node(), schema);
  Tensor self = call.tensor("self");
  DType dtype = norm_dtype(typed, row);
  if (!call.fp64 && nominal_argument_dtype(call, "self") != dtype) self = convert(self, dtype);
  auto groups = read_groups<double>(self, norm_dims(typed, row), keeps(typed, row));
  std::vector<double> out;
  for (int64_t g = 0; g < groups.groups; ++g)
    out.push_back(norm_of(groups.values.data() + g * groups.count, groups.count, order_of(typed, row)));
  Tensor result = new_result(call, groups.sizes);
  write_dense(result, out);
  call.results = {Datum{result}};
}

void add_norm(Registry& r, NormRow row) {
  auto schema = std::make_shared<const Schema>(parse_schema(row.schema));
  OpRecord record;
  record.schema_text = row.schema;
  record.samples = row.samples;
  record.infer = [row](InferCall& call) { infer_norm(call, row); };
  record.decompose = [row](DecomposeCall& call) { decompose_norm(call, row); };
  record.reference = [row, schema](ReferenceCall& call) { reference_norm(call, row, *schema); };
  add_needs(record, [row](const OpCall& call, const NeedArgs& args) {
    const double order = order_of(call, row);
    if (order >= 0 && !std::isinf(order)) return std::vector<SizeNeed>{};  // the norm of nothing is 0
    std::vector<SizeNeed> needs =
        elements_along(op_short_name(call.schema().name), args.sizes("self"), norm_dims(call, row));
    for (SizeNeed& need : needs) need.message += str(": the ", order, " norm of nothing is not defined");
    return needs;
  });
  r.add(std::move(record));
}

DType log_sum_dtype(const OpCall& call) {
  DType self = call.tensor("self")->type.dtype;
  return is_complex(self) ? self : to_float(self);
}

void register_log_sum_exp(Registry& r) {
  OpRecord record;
  record.schema_text = "logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor";
  record.infer = [](InferCall& call) {
    const TensorType& self = call.tensor("self")->type;
    auto reduced = reduced_dims(call, ReduceDims::list);
    call.results = {
        contiguous_type(log_sum_dtype(call), reduced_sizes(self.sizes, reduced, call.boolean("keepdim")), self.device)};
  };
  record.decompose = [](DecomposeCall& call) {
    DType dtype = log_sum_dtype(call);
    Value* x = converted(call, call.tensor("self"), compute_dtype(dtype));
    Argument dims = call.arg("dim");
    bool keep = call.boolean("keepdim");
    if (is_zero_numel(x->type.sizes)) {
      Value* sum = call.call("aten.sum.dim_IntList", {call.call("aten.exp.default", {x}), dims, Scalar(keep)});
      call.result(converted(call, call.call("aten.log.default", {sum}), dtype));
      return;
    }
    // A maximum of ±inf must not be subtracted from itself.
    Value* size = is_complex(dtype) ? call.call("aten.real.default", {x}) : x;
    Value* top = call.call("kiln.amax.default", {size, dims, Scalar(true)});
    Value* shift = call.call("aten.masked_fill.Scalar", {top, call.call("aten.isinf.default", {top}), Scalar(0.0)});
    Value* powers = call.call("aten.exp.default", {call.call("aten.sub.Tensor", {x, shift})});
    Value* sum = call.call("aten.sum.dim_IntList", {powers, dims, Scalar(true)});
    Value* out = call.call("aten.add.Tensor", {call.call("aten.log.default", {sum}), shift});
    if (!keep) {
      auto reduced = reduced_dims(call, ReduceDims::list);
      out = call.call("aten.view.default", {out, call.int_list(reduced_sizes(x->type.sizes, reduced, false))});
    }
    call.result(converted(call, out, dtype));
  };
  auto schema = std::make_shared<const Schema>(parse_schema(record.schema_text));
  auto by_parts =
      reference_by([decompose = record.decompose](Build& b) { decompose(b.call()); }, record.schema_text, "aten");
  record.reference_by_parts = true;  // of complex numbers
  record.reference = [schema, by_parts](ReferenceCall& call) {
    if (is_complex(call.tensor("self").dtype)) return by_parts(call);
    OpCall typed(call.node(), *schema);
    auto groups =
        read_groups<double>(call.tensor("self"), reduced_dims(typed, ReduceDims::list), call.boolean("keepdim"));
    std::vector<double> out;
    for (int64_t g = 0; g < groups.groups; ++g) {
      const double* x = groups.values.data() + g * groups.count;
      double top = -INFINITY, sum = 0;
      for (int64_t i = 0; i < groups.count; ++i) top = std::fmax(top, x[i]);
      if (std::isinf(top)) top = 0;
      for (int64_t i = 0; i < groups.count; ++i) sum += std::exp(x[i] - top);
      out.push_back(std::log(sum) + top);
    }
    Tensor result = new_result(call, groups.sizes);
    write_dense(result, out);
    call.results = {Datum{result}};
  };
  record.samples = {{{spec({2, 3, 4}), List{1}}},
                    {{spec({2, 3}, DType::bf16), List{0, 1}, Scalar(true)}},
                    {{spec({3}, DType::i64), List{0}}},
                    {{spec({2, 0}), List{1}}},
                    {{spec({}), List{0}}},
                    {{spec({2, 3}, DType::c64), List{0}}},
                    {{spec({2}), List{1}}, true}};
  r.add(std::move(record));
}

}  // namespace

void register_norms(Registry& r) {
  std::vector<Sample> vector = {{{spec({2, 3, 4})}},
                                {{spec({2, 3}), Scalar(1), List{1}}},
                                {{spec({2, 3}), Scalar(3.5), List{0}, Scalar(true)}},
                                {{spec({2, 3}), Scalar(INFINITY)}},
                                {{spec({2, 3}), Scalar(-INFINITY), List{1}}},
                                {{spec({2, 3}), Scalar(0), List{1}}},
                                {{spec({2, 3}, DType::bf16)}},
                                {{spec({3}, DType::i64)}, true}};
  add_norm(r, {"linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? "
               "dtype=None) -> Tensor",
               "ord", true, true, vector});
  add_norm(r, {"norm.Scalar(Tensor self, Scalar p=2) -> Tensor", "p", false, false, {{{spec({2, 3}), Scalar(1)}}}});
  add_norm(r, {"norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor",
               "p",
               true,
               false,
               {{{spec({2, 3}), Argument::None{}, List{1}}}, {{spec({2, 3}), Scalar(1), List{0}, Scalar(true)}}}});
  add_norm(r,
           {"norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor",
            "p",
            true,
            true,
            {{{spec({2, 3}), Argument::None{}, List{1}, Scalar(false), DType::f64}}}});
  add_norm(r, {"norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor",
               "p",
               false,
               true,
               {{{spec({2, 3}), Scalar(2), DType::f64}}}});
  register_log_sum_exp(r);
  r.describe({"linalg_vector_norm", "norm"}, complex_by(ComplexRule::magnitude));
}

}  // namespace kiln
