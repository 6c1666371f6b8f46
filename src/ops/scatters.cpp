// Writing by index along one dimension: scatter, index_add, index_copy and their relatives. The base is copied, then
// the elements are stored in order along that dimension, so that equal indices meet in a defined order.
#include <cmath>
#include <limits>

#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/index_parts.h"
#include "ops/layout.h"
#include "ops/size_needs.h"
#include "ops/updates.h"

namespace kiln {

namespace {

using loops::BufferId;
using loops::KernelBuilder;
using loops::StoreMode;
using Index = std::vector<Expr>;

enum class ScatterMode : uint8_t { plain, sum, prod, amax, amin, mean };

struct ScatterRow {
  std::string schema;
  bool vector_index = false;  // index is one-dimensional: index_add and the like
  std::string source;         // tensor or number
  std::function<ScatterMode(const OpCall&)> mode;
  bool alpha = false;  // source is multiplied by the argument alpha
  std::vector<Sample> samples = {};
};

ScatterMode named_mode(const OpCall& call) {
  std::string name = call.string("reduce");
  if (name == "sum" || name == "add") return ScatterMode::sum;
  if (name == "prod" || name == "multiply") return ScatterMode::prod;
  if (name == "amax") return ScatterMode::amax;
  if (name == "amin") return ScatterMode::amin;
  if (name == "mean") return ScatterMode::mean;
  fail_user("K0201", str(call.schema().name, ": reduce must be sum, prod, mean, amax or amin, not '", name, "'"),
            call.where());
}
std::function<ScatterMode(const OpCall&)> always(ScatterMode mode) {
  return [mode](const OpCall&) { return mode; };
}

bool includes_self(const OpCall& call) {
  return call.schema().find("include_self") < 0 || call.boolean("include_self");
}

// ---- Rule ----

void check_index(const OpCall& call, const ScatterRow& row) {
  const Value *self = call.tensor("self"), *index = call.tensor("index");
  DType dtype = index->type.dtype;
  // Eager does not ask for the type of an index without elements.
  if (dtype != DType::i64 && dtype != DType::i32 && !is_zero_numel(index->type.sizes))
    fail_user("K0203", str(call.schema().name, ": expected int32 or int64 for index, not ", dtype_torch_name(dtype)),
              call.where());
  wrap_dim(call, call.constant_integer("dim"), rank_of(self));
  if (row.vector_index ? rank_of(index) > 1
                       : std::max<int64_t>(rank_of(index), 1) != std::max<int64_t>(rank_of(self), 1))
    fail_user("K0213", str(call.schema().name, ": index has ", rank_of(index), " dimensions, self ", rank_of(self)),
              call.where());
}

void infer_scatter(InferCall& call, const ScatterRow& row) {
  const TensorType& self = call.tensor("self")->type;
  check_index(call, row);
  row.mode(call);
  refuse_complex(call, self.dtype);
  Operand source = operand(call, row.source);
  if (source.tensor && source.tensor->type.dtype != self.dtype)
    fail_user("K0203",
              str(call.schema().name, ": Expected self.dtype to be equal to src.dtype, got ",
                  dtype_torch_name(self.dtype), " and ", dtype_torch_name(source.tensor->type.dtype)),
              call.where());
  call.results = {changed_type(call, call.tensor("self"), true)};
}

// ---- Lowering ----

class ScatterLowering {
 public:
  ScatterLowering(LowerCall& call, const ScatterRow& row)
      : call_(call),
        row_(row),
        self_(call.tensor("self")->type),
        index_(call.tensor("index")),
        dim_(static_cast<size_t>(wrap_dim(call, call.constant_integer("dim"), rank_of(call.tensor("self"))))),
        site_(call.site(str("index out of range in ", call.schema().name))) {
    visited_ = row.vector_index ? self_.sizes : index_->type.sizes;
    if (row.vector_index && !visited_.empty())
      visited_[dim_] = index_->type.sizes.empty() ? Expr(1) : index_->type.sizes[0];
  }

  void run(ScatterMode mode) {
    bool include = includes_self(call_);
    DType compute = compute_dtype(self_.dtype);
    bool apart = mode == ScatterMode::mean || (mode != ScatterMode::plain && compute != self_.dtype);
    BufferId to = apart ? call_.temp(compute, self_.sizes, "sums") : call_.output();
    fill(to, [&](KernelBuilder& k, const Index& i) { return k.load_compute(call_.input("self"), i); });
    if (mode != ScatterMode::plain && !include)
      visit(to, StoreMode::plain,
            [&](KernelBuilder& k, const Index&) { return k.constant(compute, start(mode, compute)); });
    visit(to, store_mode(mode), [&](KernelBuilder& k, const Index& i) { return source(k, i, compute); });
    if (!apart) return;
    BufferId counts = mode == ScatterMode::mean ? count(include) : loops::no_buffer;
    fill(call_.output(), [&](KernelBuilder& k, const Index& i) {
      ValueId sum = k.load(to, i);
      return mode == ScatterMode::mean ? divided(k, sum, k.load(counts, i)) : sum;
    });
  }

 private:
  void fill(BufferId to, const std::function<ValueId(KernelBuilder&, const Index&)>& value) {
    call_.kernel(
        [&](KernelBuilder& k) { k.parallel(self_.sizes, [&](const Index& i) { k.store(to, i, value(k, i)); }); });
  }

  // Stores at every indexed place, in order along the dimension.
  void visit(BufferId to, StoreMode mode, const std::function<ValueId(KernelBuilder&, const Index&)>& value) {
    call_.kernel([&](KernelBuilder& k) {
      Sizes others;
      for (size_t d = 0; d < visited_.size(); ++d)
        if (d != dim_) others.push_back(visited_[d]);
      k.parallel(others, [&](const Index& outer) {
        Sizes along = visited_.empty() ? Sizes{Expr(1)} : Sizes{visited_[dim_]};
        k.serial(along, [&](const Index& inner) {
          Index i = outer;
          if (!visited_.empty()) i.insert(i.begin() + static_cast<std::ptrdiff_t>(dim_), inner[0]);
          Index from = index_->type.sizes.empty() ? Index{} : row_.vector_index ? Index{inner[0]} : i;
          ValueId position = k.as(DType::i64, k.load(call_.buffer(index_), from));
          k.raise_if(k.op(ScalarOp::lt, position, k.constant(DType::i64, Scalar(0))), site_);
          Expr place = k.check_index(position, self_.sizes.empty() ? Expr(1) : self_.sizes[dim_], site_);
          Index target = i;
          if (!self_.sizes.empty()) {
            if (target.empty()) target = {place};
            target[dim_] = place;
          }
          k.store(to, target, value(k, i), mode);
        });
      });
    });
  }

  ValueId source(KernelBuilder& k, const Index& i, DType compute) {
    Operand from = operand(call_, row_.source);
    if (!from.tensor) return number_value(k, from.number, compute);
    Index at = from.tensor->type.sizes.empty() ? Index{} : i;
    ValueId value = k.as(compute, k.load_compute(call_.buffer(from.tensor), at));
    if (!row_.alpha) return value;
    auto alpha = call_.scalar("alpha");
    const auto* constant = std::get_if<Scalar>(&alpha);
    if (constant && constant->as_double() == 1) return value;
    ValueId factor = number_value(k, alpha, compute);
    return k.op(compute == DType::boolean ? ScalarOp::logical_and : ScalarOp::mul, value, factor);
  }

  BufferId count(bool include) {
    BufferId counts = call_.temp(DType::i64, self_.sizes, "counts");
    fill(counts, [&](KernelBuilder& k, const Index&) { return k.constant(DType::i64, Scalar(include ? 1 : 0)); });
    visit(counts, StoreMode::add, [&](KernelBuilder& k, const Index&) { return k.constant(DType::i64, Scalar(1)); });
    return counts;
  }

  ValueId divided(KernelBuilder& k, ValueId sum, ValueId number) {
    ValueId at_least_one = k.op(ScalarOp::max, number, k.constant(DType::i64, Scalar(1)));
    DType dtype = k.type(sum);
    return k.op(is_float(dtype) ? ScalarOp::div : ScalarOp::floordiv, sum, k.as(dtype, at_least_one));
  }

  static Scalar start(ScatterMode mode, DType dtype) {
    if (mode == ScatterMode::prod) return scalar_as(Scalar(1), dtype);
    if (mode == ScatterMode::sum || mode == ScatterMode::mean || dtype == DType::boolean)
      return scalar_as(Scalar(mode == ScatterMode::amin ? 1 : 0), dtype);
    bool lowest = mode == ScatterMode::amax;
    if (is_float(dtype)) return Scalar(lowest ? -INFINITY : INFINITY);
    int64_t bits = dtype_bytes(dtype) * 8;
    if (!is_signed(dtype)) return Scalar(lowest ? int64_t{0} : bits == 64 ? int64_t{-1} : (int64_t{1} << bits) - 1);
    int64_t low = std::numeric_limits<int64_t>::min() >> (64 - bits);
    return Scalar(lowest ? low : ~low);
  }

  static StoreMode store_mode(ScatterMode mode) {
    switch (mode) {
      case ScatterMode::plain:
        return StoreMode::plain;
      case ScatterMode::prod:
        return StoreMode::prod;
      case ScatterMode::amax:
        return StoreMode::max;
      case ScatterMode::amin:
        return StoreMode::min;
      default:
        return StoreMode::add;
    }
  }

  LowerCall& call_;
  const ScatterRow& row_;
  const TensorType& self_;
  const Value* index_;
  size_t dim_;
  int site_;
  Sizes visited_;
};

// ---- Reference ----

template <class T>
T combined(ScatterMode mode, T a, T b) {
  switch (mode) {
    case ScatterMode::plain:
      return b;
    case ScatterMode::prod:
      return static_cast<T>(a * b);
    case ScatterMode::amax:
      return a != a ? a : b != b || b > a ? b : a;
    case ScatterMode::amin:
      return a != a ? a : b != b || b < a ? b : a;
    default:
      return static_cast<T>(a + b);
  }
}

template <class T>
void evaluate(ReferenceCall& call, const ScatterRow& row, ScatterMode mode) {
  Tensor self = call.tensor("self"), index = call.tensor("index");
  int64_t given = call.integer("dim");
  size_t dim = static_cast<size_t>(given < 0 ? given + std::max<int64_t>(self.rank(), 1) : given);
  std::vector<int64_t> positions = read_dense<int64_t>(index), visited = row.vector_index ? self.sizes : index.sizes;
  if (row.vector_index && !visited.empty()) visited[dim] = index.rank() == 0 ? 1 : index.sizes[0];
  std::vector<T> out = read_dense<T>(self);
  std::vector<int64_t> counts(out.size(), 0), strides = contiguous_strides(self.sizes);
  const Datum& source = call.values.find(row.source)->second;
  bool number = !source.is_tensor();
  // Only the part of the source that the index covers is read.
  Tensor covered = number ? Tensor::scalar(number_kind(source.scalar()), source.scalar()) : source.tensor();
  if (!number && covered.rank() > 0) covered.sizes = visited;
  std::vector<T> values = read_dense<T>(number || covered.rank() == 0 ? broadcast_view(covered, visited) : covered);
  T alpha = row.alpha ? static_cast<T>(call.scalar("alpha").as_double()) : T{1};
  bool include = !call.values.contains("include_self") || call.boolean("include_self");
  int64_t extent = self.rank() == 0 ? 1 : self.sizes[dim];
  std::vector<int64_t> at(visited.size(), 0);
  for (size_t i = 0; i < values.size(); ++i) {
    size_t from = row.vector_index ? (at.empty() ? 0 : static_cast<size_t>(at[dim])) : i;
    int64_t position = positions[from];
    if (position < 0 || position >= extent)
      fail_user("K0630", str("index ", position, " is out of bounds for dimension ", dim, " with size ", extent),
                call.node().where());
    int64_t to = 0;
    for (size_t d = 0; d < self.sizes.size(); ++d) to += (d == dim ? position : at[d]) * strides[d];
    T& place = out[static_cast<size_t>(to)];
    bool first = counts[static_cast<size_t>(to)]++ == 0 && !include && mode != ScatterMode::plain;
    place = first ? values[i] * alpha : combined<T>(mode, place, values[i] * alpha);
    next_index(at, visited);
  }
  if (mode == ScatterMode::mean) {
    const std::vector<T> total = out;
    for (size_t i = 0; i < out.size(); ++i) {
      int64_t n = counts[i] + (include ? 1 : 0);
      if (n <= 1) continue;
      out[i] = out[i] / static_cast<T>(n);
      if constexpr (std::is_integral_v<T>)
        if (total[i] % n != 0 && total[i] < 0) --out[i];  // floored, in whole numbers: a double has too few digits
    }
  }
  Tensor result = new_result(call, self.sizes);
  write_dense(result, out);
  call.results = {Datum{result}};
}

// What an index visits is there: in self, but along the dimension that it indexes, and in the source.
std::vector<SizeNeed> needs_of(const OpCall& call, const ScatterRow& row, const NeedArgs& args) {
  std::vector<SizeNeed> needs;
  const Sizes self = args.sizes("self"), index = args.sizes("index");
  const auto dim = static_cast<size_t>(wrap_dim(call, call.constant_integer("dim"), static_cast<int64_t>(self.size())));
  if (is_zero_numel(index)) return needs;
  const std::string name = op_short_name(call.schema().name);
  Sizes visited = row.vector_index ? self : index;
  if (row.vector_index && !visited.empty()) visited[dim] = index.empty() ? Expr(1) : index[0];
  for (size_t d = 0; d < self.size() && d < visited.size(); ++d)
    if (d != dim)
      needs.push_back(
          {self[d], visited[d], str(name, "(): Expected index to be no larger than self in dimension ", d)});
  if (!operand(call, row.source).tensor) return needs;
  const Sizes source = args.sizes(row.source);
  for (size_t d = 0; d < source.size() && d < visited.size(); ++d)
    needs.push_back({source[d], visited[d],
                     str(name, "(): Expected index to be no larger than ", row.source, " in dimension ", d)});
  return needs;
}

void add_scatter(Registry& r, ScatterRow row) {
  auto shared = std::make_shared<const ScatterRow>(std::move(row));
  auto schema = std::make_shared<const Schema>(parse_schema(shared->schema));
  OpRecord record;
  record.schema_text = shared->schema;
  record.samples = shared->samples;
  record.inplace = true;
  record.infer = [shared](InferCall& call) { infer_scatter(call, *shared); };
  record.lower = [shared](LowerCall& call) { ScatterLowering(call, *shared).run(shared->mode(call)); };
  record.reference = [shared, schema](ReferenceCall& call) {
    OpCall typed(call.node(), *schema);
    ScatterMode mode = shared->mode(typed);
    if (reference_compute(call, nominal_argument_dtype(call, "self")) == DType::i64)
      evaluate<int64_t>(call, *shared, mode);
    else
      evaluate<double>(call, *shared, mode);
  };
  add_needs(record, [shared](const OpCall& call, const NeedArgs& args) { return needs_of(call, *shared, args); });
  r.add(std::move(record));
}

}  // namespace

void register_scatters(Registry& r) {
  Sample::TensorSpec self = spec({3, 5}), index = spec({2, 4}, DType::i64, 0, 2), source = spec({2, 4});
  Sample::SampleArg zero = Scalar(0);
  auto bad = [&](std::vector<Sample::SampleArg> args) { return Sample{std::move(args), true}; };
  add_scatter(r, {"scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
                  false,
                  "src",
                  always(ScatterMode::plain),
                  false,
                  {{{self, zero, spec({1, 4}, DType::i64, 0, 2), source}},
                   {{spec({3, 5}), Scalar(-1), spec({3, 1}, DType::i64, 0, 4), spec({3, 2})}},
                   {{spec({}), zero, spec({}, DType::i64, 0, 0), spec({})}},
                   bad({self, zero, spec({2}, DType::i64), source})}});
  add_scatter(r, {"scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
                  false,
                  "value",
                  always(ScatterMode::plain),
                  false,
                  {{{self, zero, index, Scalar(1.5)}},
                   {{spec({3, 5}, DType::i64), Scalar(1), spec({3, 2}, DType::i64, 0, 4), Scalar(7)}}}});
  add_scatter(
      r, {"scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
          false,
          "src",
          named_mode,
          false,
          {{{self, zero, index, source, std::string("add")}}, {{self, zero, index, source, std::string("multiply")}}}});
  add_scatter(r, {"scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor",
                  false,
                  "value",
                  named_mode,
                  false,
                  {{{self, zero, index, Scalar(2), std::string("add")}}}});
  add_scatter(r, {"scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
                  false,
                  "src",
                  always(ScatterMode::sum),
                  false,
                  {{{self, zero, index, source}},
                   {{spec({3, 5}, DType::bf16), zero, index, spec({2, 4}, DType::bf16)}},
                   {{spec({3, 5}, DType::i64), zero, index, spec({2, 4}, DType::i64)}},
                   bad({self, zero, index, spec({2, 4}, DType::f64)})}});
  std::vector<Sample> reduces;
  for (const char* how : {"sum", "prod", "mean", "amax", "amin"})
    for (bool include : {true, false}) {
      reduces.push_back({{self, zero, index, source, std::string(how), Scalar(include)}});
      reduces.push_back({{spec({3, 5}, DType::i64, -9, 9), zero, index, spec({2, 4}, DType::i64, -9, 9),
                          std::string(how), Scalar(include)}});
    }
  reduces.push_back(bad({self, zero, index, source, std::string("median")}));
  add_scatter(r, {"scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool "
                  "include_self=True) -> Tensor",
                  false, "src", named_mode, false, reduces});
  Sample::TensorSpec rows = spec({4}, DType::i64, 0, 2), many = spec({4, 5});
  add_scatter(r, {"index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
                  true,
                  "source",
                  always(ScatterMode::sum),
                  true,
                  {{{self, zero, rows, many}},
                   {{self, Scalar(1), spec({2}, DType::i64, 0, 4), spec({3, 2}), Scalar(0.5)}},
                   {{spec({3}, DType::i64), zero, rows, spec({4}, DType::i64), Scalar(2)}},
                   {{spec({}), zero, spec({}, DType::i64, 0, 0), spec({})}}}});
  add_scatter(r, {"index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
                  true,
                  "source",
                  always(ScatterMode::plain),
                  false,
                  {{{self, zero, spec({1}, DType::i64, 0, 2), spec({1, 5})}},
                   {{self, Scalar(1), spec({}, DType::i64, 0, 4), spec({3, 1})}}}});
  add_scatter(r,
              {"index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
               true,
               "value",
               always(ScatterMode::plain),
               false,
               {{{self, zero, rows, Scalar(1.5)}}, {{spec({3}, DType::i64), zero, spec({0}, DType::i64), Scalar(2)}}}});
  add_scatter(r, {"index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor",
                  true,
                  "value",
                  always(ScatterMode::plain),
                  false,
                  {{{self, Scalar(1), rows, spec({})}}}});
  std::vector<Sample> index_reduces;
  for (const char* how : {"prod", "mean", "amax", "amin"})
    for (bool include : {true, false})
      index_reduces.push_back({{self, zero, rows, many, std::string(how), Scalar(include)}});
  add_scatter(r, {"index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool "
                  "include_self=True) -> Tensor",
                  true, "source", named_mode, false, index_reduces});
  r.describe({"index_add", "index_copy", "index_fill", "scatter", "scatter_add"}, complex_by(ComplexRule::parts));
  r.describe({"index_copy"}, autocast_to(AutocastRule::promote));
}

}  // namespace kiln
