// softmax and log_softmax, as decompositions to amax, exp and sum: fusion makes one kernel of them. Narrow floats are
// converted to f32 first and rounded once at the end, as eager's kernels do.
#include <cmath>

#include "ops/decompose_call.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/layout.h"
#include "ops/reduce_parts.h"
#include "ops/reduce_table.h"

namespace kiln {

namespace {

struct SoftmaxRow {
  std::string schema;
  bool logarithm = false;
};

DType result_type(const OpCall& call) {
  DType self = call.tensor("self")->type.dtype;
  if (call.schema().find("half_to_float") >= 0) {
    if (!call.boolean("half_to_float")) return self;
    if (self != DType::f16 && self != DType::bf16)
      fail_user("K0203", "conversion is supported for Half type only", call.where());
    return DType::f32;
  }
  return call.dtype("dtype").value_or(self);
}

void infer_softmax(InferCall& call) {
  const TensorType& self = call.tensor("self")->type;
  DType dtype = result_type(call);
  if (!is_float(dtype)) refuse_dtype(call, dtype);
  refuse_complex(call, self.dtype);
  wrap_dim(call, call.constant_integer("dim"), rank_of(call.tensor("self")));
  call.results = {contiguous_type(dtype, self.sizes, self.device)};
}

Value* converted_input(DecomposeCall& call, Value* value, DType dtype) {
  return value->type.dtype == dtype ? value : call.call("aten._to_copy.default", {value, dtype});
}

void decompose_softmax(DecomposeCall& call, const SoftmaxRow& row) {
  DType dtype = result_type(call);
  Value* x = converted_input(call, converted_input(call, call.tensor("self"), dtype), compute_dtype(dtype));
  int64_t dim = wrap_dim(call, call.constant_integer("dim"), rank_of(x));
  if (is_zero_numel(x->type.sizes)) {
    Value* empty = converted_input(call, x, dtype);
    call.result(call.call("aten.clone.default", {empty, MemoryFormat::contiguous}));
    return;
  }
  Argument dims = call.int_list({Expr(dim)});
  Value* largest = call.call("kiln.amax.default", {x, dims, Scalar(true)});
  Value* shifted = call.call("aten.sub.Tensor", {x, largest});
  Value* powers = call.call("aten.exp.default", {shifted});
  Value* sum = call.call("aten.sum.dim_IntList", {powers, dims, Scalar(true)});
  Value* out = row.logarithm ? call.call("aten.sub.Tensor", {shifted, call.call("aten.log.default", {sum})})
                             : call.call("aten.div.Tensor", {powers, sum});
  out = converted_input(call, out, dtype);
  if (!is_contiguous(out->type.sizes, out->type.strides))
    out = call.call("aten.clone.default", {out, MemoryFormat::contiguous});
  call.result(out);
}

void reference_softmax(ReferenceCall& call, const SoftmaxRow& row) {
  Tensor self = call.tensor("self");
  int64_t dim = call.integer("dim"), rank = std::max<int64_t>(self.rank(), 1);
  std::vector<bool> reduced(self.sizes.size(), false);
  if (!reduced.empty()) reduced[static_cast<size_t>(dim < 0 ? dim + rank : dim)] = true;
  if (!call.fp64 && call.nominal_dtype() != nominal_argument_dtype(call, "self"))
    self = convert(self, call.nominal_dtype());
  auto groups = read_groups<double>(self, reduced, true);
  for (int64_t g = 0; g < groups.groups; ++g) {
    double* x = groups.values.data() + g * groups.count;
    double largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < groups.count; ++i)
      largest = x[i] != x[i] || largest != largest ? NAN : std::max(largest, x[i]);
    for (int64_t i = 0; i < groups.count; ++i) sum += std::exp(x[i] - largest);
    for (int64_t i = 0; i < groups.count; ++i)
      x[i] = row.logarithm ? x[i] - largest - std::log(sum) : std::exp(x[i] - largest) / sum;
  }
  Tensor out = new_result(call, self.sizes);
  write_dense(innermost_view(out, reduced), groups.values);
  call.results = {Datum{out}};
}

void add_softmax(Registry& r, const SoftmaxRow& row) {
  OpRecord record;
  record.schema_text = row.schema;
  record.infer = infer_softmax;
  record.decompose = [row](DecomposeCall& call) { decompose_softmax(call, row); };
  record.reference = [row](ReferenceCall& call) { reference_softmax(call, row); };
  bool half = row.schema.find("half_to_float") != std::string::npos;
  auto sample = [&](Sample::TensorSpec t, int64_t dim, bool refused = false) {
    Sample s{{t, Scalar(dim)}, refused};
    if (half) s.args.emplace_back(Scalar(false));
    record.samples.push_back(s);
  };
  sample(spec({2, 3, 4}), 1);
  sample(spec({2, 3, 4}), -1);
  sample(spec({}), 0);
  sample(spec({2, 0}), 1);
  sample(spec({0, 3}), 1);
  sample(spec({5}, DType::bf16, -9, 9), 0);
  sample(spec({5}, DType::f64, -90, 90), 0);
  sample(spec({5}), 1, true);
  sample(spec({5}, DType::i64), 0, true);
  if (half)
    record.samples.push_back({{spec({5}, DType::f16), Scalar(0), Scalar(true)}});
  else
    record.samples.push_back({{spec({5}, DType::i64), Scalar(0), DType::f32}});
  r.add(std::move(record));
}

}  // namespace

void register_softmax(Registry& r) {
  add_softmax(r, {"softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"});
  add_softmax(r, {"_softmax(Tensor self, int dim, bool half_to_float) -> Tensor"});
  add_softmax(r, {"log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", true});
  add_softmax(r, {"_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", true});
}

}  // namespace kiln
