#include "ops/reduce_table.h"

#include "ops/dense.h"
#include "ops/promotion.h"
#include "ops/size_needs.h"

namespace kiln {

using loops::ValueId;

namespace {

bool keepdim(const OpCall& call, const ReduceRow& row) { return row.keeps && call.boolean("keepdim"); }

void infer_reduction(InferCall& call, const ReduceRow& row) {
  const TensorType& self = call.tensor("self")->type;
  refuse_complex(call, self.dtype);
  auto reduced = reduced_dims(call, row.dims);
  for (DType dtype : row.types(call, self.dtype).results)
    call.results.push_back(contiguous_type(dtype, reduced_sizes(self.sizes, reduced, keepdim(call, row)), self.device));
}

void lower_reduction(LowerCall& call, const ReduceRow& row) {
  const TensorType& self = call.tensor("self")->type;
  ReduceTypes types = row.types(call, self.dtype);
  auto reduced = reduced_dims(call, row.dims);
  DType compute = compute_dtype(types.input);
  bool logical = row.op == ReduceOp::any || row.op == ReduceOp::all;
  lower_over_groups(
      call, self.sizes, reduced, keepdim(call, row),
      [&](auto& k, const auto& out, const auto& extents, const auto& at) {
        ReduceEmit emit{k, call, compute, product(extents)};
        ReduceOp op = !logical && compute == DType::boolean && row.op != ReduceOp::argmax && row.op != ReduceOp::argmin
                          ? row.bool_op
                          : row.op;
        // argmax of bool compares numbers.
        DType accumulate = logical ? DType::boolean : op == row.op && compute == DType::boolean ? DType::u8 : compute;
        if (row.accumulate) {
          op = row.op;
          accumulate = *row.accumulate;
        }
        auto accumulators = k.reduce(op, accumulate, extents, [&](const std::vector<Expr>& r) {
          ValueId x = k.load(call.input("self"), at(r));
          // An argument dtype= is a conversion of the program: it rounds.
          x = k.as(compute, self.dtype == types.input ? x : k.as(types.input, x));
          return std::vector<ValueId>{k.as(accumulate, row.yields ? row.yields(emit, x) : x)};
        });
        auto results = row.finish ? row.finish(emit, accumulators) : accumulators;
        for (size_t i = 0; i < types.results.size(); ++i) k.store(call.output(static_cast<int>(i)), out, results[i]);
      });
}

template <class T>
void evaluate_groups(ReferenceCall& call, const Groups<T>& groups, size_t results,
                     void (*formula)(const T*, int64_t, T*, double), double parameter) {
  if (!formula) fail_bug(str(call.node().target, " has no reference for this type"), call.node().where());
  std::vector<std::vector<T>> columns(results, std::vector<T>(static_cast<size_t>(groups.groups)));
  std::vector<T> out(results);
  for (int64_t g = 0; g < groups.groups; ++g) {
    formula(groups.values.data() + g * groups.count, groups.count, out.data(), parameter);
    for (size_t i = 0; i < results; ++i) columns[i][static_cast<size_t>(g)] = out[i];
  }
  for (size_t i = 0; i < results; ++i) {
    Tensor result = new_result(call, groups.sizes, static_cast<int>(i));
    write_dense(result, columns[i]);
    call.results.push_back(Datum{result});
  }
}

void reference_reduction(ReferenceCall& call, const ReduceRow& row, const Schema& schema) {
  OpCall typed(call.node(), schema);
  Tensor self = call.tensor("self");
  DType nominal = nominal_argument_dtype(call, "self");
  ReduceTypes types = row.types(typed, nominal);
  auto reduced = reduced_dims(typed, row.dims);
  if (types.input != nominal && !(call.fp64 && is_float(types.input))) self = convert(self, types.input);
  double parameter = row.parameter ? row.parameter(typed) : 0;
  bool keep = row.keeps && call.boolean("keepdim");
  if (reference_compute(call, types.input) == DType::i64) {
    evaluate_groups(call, read_groups<int64_t>(self, reduced, keep), types.results.size(), row.formula.whole,
                    parameter);
  } else {
    evaluate_groups(call, read_groups<double>(self, reduced, keep), types.results.size(), row.formula.real, parameter);
  }
}

}  // namespace

std::vector<bool> reduced_dims(const OpCall& call, ReduceDims dims) {
  int64_t rank = rank_of(call.tensor("self"));
  if (dims == ReduceDims::all || !call.given("dim")) return std::vector<bool>(static_cast<size_t>(rank), true);
  return wrap_dims(call, call.constant_integers("dim"), rank, dims == ReduceDims::list);
}

Sizes reduced_sizes(const Sizes& sizes, const std::vector<bool>& reduced, bool keepdim) {
  Sizes out;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!reduced[d])
      out.push_back(sizes[d]);
    else if (keepdim)
      out.push_back(Expr(1));
  }
  return out;
}

Tensor innermost_view(const Tensor& tensor, const std::vector<bool>& reduced) {
  Tensor ordered = tensor;
  ordered.sizes.clear();
  ordered.strides.clear();
  for (bool want : {false, true}) {
    for (size_t d = 0; d < tensor.sizes.size(); ++d) {
      if (reduced[d] != want) continue;
      ordered.sizes.push_back(tensor.sizes[d]);
      ordered.strides.push_back(tensor.strides[d]);
    }
  }
  return ordered;
}

template <class T>
Groups<T> read_groups(const Tensor& tensor, const std::vector<bool>& reduced, bool keepdim) {
  Groups<T> out;
  out.groups = out.count = 1;
  for (size_t d = 0; d < tensor.sizes.size(); ++d) (reduced[d] ? out.count : out.groups) *= tensor.sizes[d];
  out.values = read_dense<T>(innermost_view(tensor, reduced));
  out.sizes = to_numbers(reduced_sizes(to_exprs(tensor.sizes), reduced, keepdim));
  return out;
}
template Groups<double> read_groups(const Tensor&, const std::vector<bool>&, bool);
template Groups<int64_t> read_groups(const Tensor&, const std::vector<bool>&, bool);
template Groups<float> read_groups(const Tensor&, const std::vector<bool>&, bool);

void lower_over_groups(LowerCall& call, const Sizes& sizes, const std::vector<bool>& reduced, bool keepdim,
                       const ReduceBody& body) {
  Sizes kept, extents;
  for (size_t d = 0; d < sizes.size(); ++d) (reduced[d] ? extents : kept).push_back(sizes[d]);
  call.kernel([&](loops::KernelBuilder& k) {
    k.parallel(kept, [&](const std::vector<Expr>& i) {
      std::vector<Expr> out;
      size_t next = 0;
      for (size_t d = 0; d < sizes.size(); ++d) {
        if (!reduced[d])
          out.push_back(i[next++]);
        else if (keepdim)
          out.push_back(Expr(0));
      }
      body(k, out, extents, [&](const std::vector<Expr>& r) {
        std::vector<Expr> index;
        size_t outer = 0, inner = 0;
        for (size_t d = 0; d < sizes.size(); ++d) index.push_back(reduced[d] ? r[inner++] : i[outer++]);
        return index;
      });
    });
  });
}

void add_reduction(Registry& registry, ReduceRow row) {
  auto schema = std::make_shared<const Schema>(parse_schema(row.schema, row.name_space));
  row.keeps = schema->find("keepdim") >= 0;
  auto shared = std::make_shared<const ReduceRow>(std::move(row));
  OpRecord record;
  record.schema_text = shared->schema;
  record.name_space = shared->name_space;
  record.samples = shared->samples;
  record.infer = [shared](InferCall& call) { infer_reduction(call, *shared); };
  record.lower = [shared](LowerCall& call) { lower_reduction(call, *shared); };
  record.reference = [shared, schema](ReferenceCall& call) { reference_reduction(call, *shared, *schema); };
  if (shared->needs_elements)
    add_needs(record, [shared](const OpCall& call, const NeedArgs& args) {
      return elements_along(op_short_name(call.schema().name), args.sizes("self"), reduced_dims(call, shared->dims));
    });
  registry.add(std::move(record));
}

}  // namespace kiln
