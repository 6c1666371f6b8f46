// Advanced indexing: index, index_put, and both under a mask.
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/index_parts.h"
#include "ops/index_plan.h"
#include "ops/updates.h"

namespace kiln {

namespace {

using loops::KernelBuilder;

// The size that the file gives the broadcast dimensions of the indices, where the node has a type already.
std::optional<Expr> known_count(const OpCall& call, const std::vector<Value*>& indices, const Sizes& self) {
  const auto& results = call.node().results;
  if (results.empty() || results[0]->type.sizes.empty()) return std::nullopt;
  auto guess = index_arguments(call, indices, std::nullopt);
  IndexPlan plan = plan_index(call, self, guess, RangeEnv{});
  const Sizes& sizes = results[0]->type.sizes;
  if (plan.index_sizes.empty() || sizes.size() != plan.result.size()) return std::nullopt;
  return sizes[plan.place + plan.index_sizes.size() - 1];
}

// TensorIterator sees self with stride 0 along the indexed dimensions, and the indices along theirs.
Sizes index_strides(const IndexPlan& plan, const TensorType& self, const std::vector<Value*>& indices,
                    const RangeEnv& ranges) {
  size_t rank = plan.result.size(), width = plan.index_sizes.size();
  std::vector<Sizes> inputs(1, Sizes(rank, Expr(0)));
  for (size_t i = 0; i < plan.kept.size(); ++i) inputs[0][i < plan.place ? i : i + width] = self.strides[plan.kept[i]];
  for (const IndexPlan::Source& source : plan.sources) {
    Sizes strides(rank, Expr(0));
    if (source.column >= 0) {
      strides[plan.place + width - 1] = Expr(1);
    } else {
      const TensorType& index = indices[source.argument]->type;
      for (size_t d = 0; d < index.sizes.size(); ++d)
        if (!is_one(index.sizes[d])) strides[plan.place + width - index.sizes.size() + d] = index.strides[d];
    }
    inputs.push_back(std::move(strides));
  }
  return iteration_strides(plan.result, inputs, ranges);
}

void infer_index(InferCall& call) {
  const TensorType& self = call.tensor("self")->type;
  auto indices = call.tensors("indices");
  auto arguments = index_arguments(call, indices, known_count(call, indices, self.sizes));
  IndexPlan plan = plan_index(call, self.sizes, arguments, call.ranges());
  Sizes strides = index_strides(plan, self, indices, call.ranges());
  call.results = {strided_type(self.dtype, plan.result, std::move(strides), self.device)};
}

// Splits an index of the result into its broadcast part and its kept part.
struct SplitIndex {
  std::vector<Expr> broadcast, kept;
};
SplitIndex split_index(const IndexPlan& plan, const std::vector<Expr>& i) {
  SplitIndex out;
  auto begin = i.begin() + static_cast<std::ptrdiff_t>(plan.place);
  auto end = begin + static_cast<std::ptrdiff_t>(plan.index_sizes.size());
  out.broadcast.assign(begin, end);
  out.kept.assign(i.begin(), begin);
  out.kept.insert(out.kept.end(), end, i.end());
  return out;
}

// And back.
std::vector<Expr> joined_index(const IndexPlan& plan, const std::vector<Expr>& broadcast,
                               const std::vector<Expr>& kept) {
  std::vector<Expr> i(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(plan.place));
  i.insert(i.end(), broadcast.begin(), broadcast.end());
  i.insert(i.end(), kept.begin() + static_cast<std::ptrdiff_t>(plan.place), kept.end());
  return i;
}

void lower_index(LowerCall& call) {
  const TensorType& self = call.tensor("self")->type;
  auto indices = call.tensors("indices");
  auto arguments = index_arguments(call, indices, known_count(call, indices, self.sizes));
  IndexPlan plan = plan_index(call, self.sizes, arguments, call.ranges());
  IndexLowering lowering(call, plan, self.sizes, indices, arguments);
  call.kernel([&](KernelBuilder& k) {
    k.parallel(call.output_type().sizes, [&](const std::vector<Expr>& i) {
      SplitIndex split = split_index(plan, i);
      k.store(call.output(), i, k.load(call.input("self"), lowering.at(k, split.broadcast, split.kept)));
    });
  });
}

Sizes concrete_index_strides(const ConcreteIndex& index, const Tensor& self,
                             const std::vector<std::optional<Tensor>>& indices) {
  TensorType type;
  type.strides = to_exprs(self.strides);
  std::vector<Value> storage(indices.size());
  std::vector<Value*> values;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i]) {
      storage[i].type.sizes = to_exprs(indices[i]->sizes);
      storage[i].type.strides = to_exprs(indices[i]->strides);
    }
    values.push_back(indices[i] ? &storage[i] : nullptr);
  }
  return index_strides(index.plan, type, values, RangeEnv{});
}

void reference_index(ReferenceCall& call, const Schema& schema) {
  OpCall typed(call.node(), schema);
  Tensor self = call.tensor("self");
  auto indices = call.tensors("indices");
  ConcreteIndex index = concrete_index(typed, self, indices);
  Tensor dense = Tensor::empty(self.dtype, index.result);
  size_t bytes = static_cast<size_t>(dtype_bytes(self.dtype));
  index.for_each(self, [&](int64_t offset, int64_t linear) {
    std::memcpy(dense.data() + static_cast<size_t>(linear) * bytes, self.data() + offset * static_cast<int64_t>(bytes),
                bytes);
  });
  Tensor out =
      Tensor::empty_strided(self.dtype, index.result, to_numbers(concrete_index_strides(index, self, indices)));
  copy_into(dense, out);
  call.results = {Datum{out}};
}

// ---- index_put ----

bool one_element(const Sizes& sizes) { return std::all_of(sizes.begin(), sizes.end(), is_one); }

// x[mask] = number needs no positions: every element chooses.
bool is_plain_mask(const LowerCall& call, const std::vector<IndexArgument>& arguments) {
  return arguments.size() == 1 && arguments[0].mask && !call.boolean("accumulate") &&
         one_element(call.tensor("values")->type.sizes);
}

void lower_masked_put(LowerCall& call, const Value* mask) {
  const TensorType& self = call.tensor("self")->type;
  call.kernel([&](KernelBuilder& k) {
    k.parallel(self.sizes, [&](const std::vector<Expr>& i) {
      std::vector<Expr> at(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(mask->type.sizes.size()));
      ValueId chosen = k.as(DType::boolean, k.load(call.buffer(mask), at));
      const Value* values = call.tensor("values");
      ValueId value = k.load(call.buffer(values), std::vector<Expr>(values->type.sizes.size(), Expr(0)));
      k.store(call.output(), i, k.select(chosen, k.as(self.dtype, value), k.load(call.input("self"), i)));
    });
  });
}

void lower_index_put(LowerCall& call) {
  const TensorType& self = call.tensor("self")->type;
  auto indices = call.tensors("indices");
  auto arguments = index_arguments(call, indices, std::nullopt);
  if (is_plain_mask(call, arguments)) return lower_masked_put(call, indices[0]);
  const Value* values = call.tensor("values");
  // The number of true elements is the values' first size where that is a symbol of its own.
  IndexPlan plan = plan_index(call, self.sizes, arguments, call.ranges());
  IndexLowering lowering(call, plan, self.sizes, indices, arguments);
  loops::StoreMode mode = call.boolean("accumulate") ? loops::StoreMode::add : loops::StoreMode::plain;
  lower_base_copy(call);
  Sizes kept_sizes;
  for (size_t d : plan.kept) kept_sizes.push_back(self.sizes[d]);
  call.kernel([&](KernelBuilder& k) {
    k.parallel(kept_sizes, [&](const std::vector<Expr>& kept) {
      // Equal indices meet: in order, so that the result does not depend on threads.
      k.serial(plan.index_sizes, [&](const std::vector<Expr>& broadcast) {
        std::vector<Expr> i = joined_index(plan, broadcast, kept);
        ValueId value = k.load(call.buffer(values), call.broadcast(values->type.sizes, i));
        k.store(call.output(), lowering.at(k, broadcast, kept), k.as(self.dtype, value), mode);
      });
    });
  });
}

template <class T>
void put_values(const ConcreteIndex& index, const Tensor& out, const std::vector<T>& values, bool accumulate) {
  Tensor dense = out.clone();
  std::vector<T> current = read_dense<T>(dense);
  index.for_each(dense, [&](int64_t offset, int64_t linear) {
    T& to = current[static_cast<size_t>(offset)];
    to = accumulate ? to + values[static_cast<size_t>(linear)] : values[static_cast<size_t>(linear)];
  });
  write_dense(out, current);
}

void reference_index_put(ReferenceCall& call, const Schema& schema) {
  OpCall typed(call.node(), schema);
  Tensor self = call.tensor("self"), values = call.tensor("values");
  ConcreteIndex index = concrete_index(typed, self, call.tensors("indices"));
  Tensor out = changed_copy(self, false);
  bool accumulate = call.boolean("accumulate");
  if (reference_compute(call, nominal_argument_dtype(call, "self")) == DType::i64) {
    put_values(index, out, read_dense<int64_t>(values, index.result), accumulate);
  } else {
    put_values(index, out, read_dense<double>(values, index.result), accumulate);
  }
  call.results = {Datum{out}};
}

void infer_index_put(InferCall& call) {
  const TensorType &self = call.tensor("self")->type, &values = call.tensor("values")->type;
  auto arguments = index_arguments(call, call.tensors("indices"), std::nullopt);
  IndexPlan plan = plan_index(call, self.sizes, arguments, call.ranges());
  if (self.dtype != values.dtype) {
    fail_user("K0203",
              str("Index put requires the source and destination dtypes match, got ", dtype_torch_name(self.dtype),
                  " for the destination and ", dtype_torch_name(values.dtype), " for the source."),
              call.where());
  }
  refuse_complex(call, self.dtype);
  if (broadcast_sizes(call, {values.sizes, plan.result}, call.ranges()).size() != plan.result.size())
    fail_user("K0206", str(call.schema().name, ": values have more dimensions than what is indexed"), call.where());
  call.results = {changed_type(call, call.tensor("self"), false)};
}

// ---- under a mask: what it leaves out is neither read nor checked; the other indices are cut to the range ----

void refuse_mask_indices(const OpCall& call) {
  for (const Value* index : call.tensors("indices"))
    if (index && index->type.dtype != DType::i64 && index->type.dtype != DType::i32)
      fail_user("K0203", str(call.schema().name, ": indices must be int32 or int64"), call.where());
}

// Whether the element at `i` of the result is looked up: its mask is true, and there is something to look up.
ValueId looked_up(LowerCall& call, KernelBuilder& k, const std::vector<Expr>& i) {
  const Value* mask = call.tensor("mask");
  ValueId taken = k.as(DType::boolean, k.load(call.buffer(mask), call.broadcast(mask->type.sizes, i)));
  Expr elements = product(call.tensor("self")->type.sizes);
  if (prove_lt(Expr(0), elements, call.ranges()) == Proof::yes) return taken;
  ValueId any = k.op(ScalarOp::gt, k.index_value(elements), k.constant(DType::i64, Scalar(0)));
  return k.op(ScalarOp::logical_and, taken, any);
}

void lower_masked_index(LowerCall& call) {
  const TensorType& self = call.tensor("self")->type;
  auto indices = call.tensors("indices");
  auto arguments = index_arguments(call, indices, std::nullopt);
  IndexPlan plan = plan_index(call, self.sizes, arguments, call.ranges());
  IndexLowering lowering(call, plan, self.sizes, indices, arguments);
  call.kernel([&](KernelBuilder& k) {
    k.parallel(call.output_type().sizes, [&](const std::vector<Expr>& i) {
      SplitIndex split = split_index(plan, i);
      ValueId taken = looked_up(call, k, i);
      ValueId found = k.load(call.input("self"), lowering.at(k, split.broadcast, split.kept, {taken, true}), taken);
      k.store(call.output(), i, k.select(taken, found, call.scalar_value(k, "fill", self.dtype)));
    });
  });
}

void lower_masked_put_accumulate(LowerCall& call) {
  const TensorType& self = call.tensor("self")->type;
  const Value* values = call.tensor("values");
  auto indices = call.tensors("indices");
  auto arguments = index_arguments(call, indices, std::nullopt);
  IndexPlan plan = plan_index(call, self.sizes, arguments, call.ranges());
  IndexLowering lowering(call, plan, self.sizes, indices, arguments);
  lower_base_copy(call);
  Sizes kept_sizes;
  for (size_t d : plan.kept) kept_sizes.push_back(self.sizes[d]);
  call.kernel([&](KernelBuilder& k) {
    k.parallel(kept_sizes, [&](const std::vector<Expr>& kept) {
      k.serial(plan.index_sizes, [&](const std::vector<Expr>& broadcast) {
        std::vector<Expr> i = joined_index(plan, broadcast, kept);
        ValueId taken = looked_up(call, k, i);
        ValueId value = k.load(call.buffer(values), call.broadcast(values->type.sizes, i));
        k.store(call.output(), lowering.at(k, broadcast, kept, {taken, true}), k.as(self.dtype, value),
                loops::StoreMode::add, taken);
      });
    });
  });
}

// The same indices, cut to the range.
std::vector<std::optional<Tensor>> clamped_indices(const ReferenceCall& call, const Tensor& self) {
  auto indices = call.tensors("indices");
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d]) continue;
    Tensor cut = Tensor::empty(DType::i64, indices[d]->sizes);
    std::vector<int64_t> positions = read_dense<int64_t>(*indices[d]);
    for (int64_t& p : positions) p = std::min(std::max(p, -self.sizes.at(d)), self.sizes[d] - 1);
    write_dense(cut, positions);
    indices[d] = cut;
  }
  return indices;
}

void reference_masked_index(ReferenceCall& call, const Schema& schema) {
  OpCall typed(call.node(), schema);
  Tensor self = call.tensor("self"), mask = call.tensor("mask");
  auto indices = call.tensors("indices");
  Tensor fill = convert(Tensor::scalar(number_kind(call.scalar("fill")), call.scalar("fill")), self.dtype);
  if (self.numel() == 0) {
    std::vector<IndexArgument> arguments;
    for (const auto& index : indices)
      arguments.push_back({index.has_value(), false, index ? to_exprs(index->sizes) : Sizes{}, {}});
    IndexPlan plan = plan_index(typed, to_exprs(self.sizes), arguments, RangeEnv{});
    Tensor out = Tensor::empty(self.dtype, to_numbers(plan.result));
    copy_into(broadcast_view(fill, out.sizes), out);
    call.results = {Datum{out}};
    return;
  }
  indices = clamped_indices(call, self);
  ConcreteIndex index = concrete_index(typed, self, indices);
  Tensor out =
      Tensor::empty_strided(self.dtype, index.result, to_numbers(concrete_index_strides(index, self, indices)));
  Tensor dense = Tensor::empty(self.dtype, index.result);
  std::vector<int64_t> taken = read_dense<int64_t>(mask, index.result);
  size_t bytes = static_cast<size_t>(dtype_bytes(self.dtype));
  index.for_each(self, [&](int64_t offset, int64_t linear) {
    const std::byte* from =
        taken[static_cast<size_t>(linear)] != 0 ? self.data() + offset * static_cast<int64_t>(bytes) : fill.data();
    std::memcpy(dense.data() + static_cast<size_t>(linear) * bytes, from, bytes);
  });
  copy_into(dense, out);
  call.results = {Datum{out}};
}

template <class T>
void add_masked(const ConcreteIndex& index, const Tensor& out, const Tensor& mask, const Tensor& values) {
  std::vector<T> added = read_dense<T>(values, index.result);
  std::vector<int64_t> taken = read_dense<int64_t>(mask, index.result);
  for (size_t i = 0; i < added.size(); ++i)
    if (taken[i] == 0) added[i] = T{0};
  put_values(index, out, added, true);
}

void reference_masked_put_accumulate(ReferenceCall& call, const Schema& schema) {
  OpCall typed(call.node(), schema);
  Tensor self = call.tensor("self"), out = changed_copy(self, false);
  if (self.numel() > 0) {
    ConcreteIndex index = concrete_index(typed, self, clamped_indices(call, self));
    if (reference_compute(call, nominal_argument_dtype(call, "self")) == DType::i64)
      add_masked<int64_t>(index, out, call.tensor("mask"), call.tensor("values"));
    else
      add_masked<double>(index, out, call.tensor("mask"), call.tensor("values"));
  }
  call.results = {Datum{out}};
}

void register_masked_index(Registry& r) {
  using Specs = std::vector<Sample::TensorSpec>;
  Sample::TensorSpec mask = spec({3}, DType::boolean), none = spec({3}, DType::boolean, 0, 0),
                     positions = spec({3}, DType::i64, -7, 7);
  OpRecord index;
  index.schema_text = "_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor";
  auto index_schema = std::make_shared<const Schema>(parse_schema(index.schema_text));
  index.infer = [](InferCall& call) {
    refuse_mask_indices(call);
    infer_index(call);
  };
  index.lower = lower_masked_index;
  index.reference = [index_schema](ReferenceCall& call) { reference_masked_index(call, *index_schema); };
  index.samples = {{{spec({5}), mask, Specs{positions}, Scalar(1.5)}},
                   {{spec({5, 2}), spec({3, 1}, DType::boolean), Specs{positions}, Scalar(2)}},
                   {{spec({0}), mask, Specs{positions}, Scalar(1.5)}},
                   {{spec({5}), mask, Specs{spec({3})}, Scalar(1.5)}, true}};
  r.add(std::move(index));
  OpRecord put;
  put.schema_text =
      "_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, Tensor values) -> Tensor";
  auto put_schema = std::make_shared<const Schema>(parse_schema(put.schema_text));
  put.infer = [](InferCall& call) {
    refuse_mask_indices(call);
    infer_index_put(call);
  };
  put.lower = lower_masked_put_accumulate;
  put.reference = [put_schema](ReferenceCall& call) { reference_masked_put_accumulate(call, *put_schema); };
  put.samples = {{{spec({5}), mask, Specs{positions}, spec({3})}},
                 {{spec({5}), none, Specs{positions}, spec({3})}},
                 {{spec({0}), mask, Specs{positions}, spec({3})}}};
  r.add(std::move(put));
}

}  // namespace

void register_index(Registry& r) {
  using Specs = std::vector<Sample::TensorSpec>;
  auto positions = [](std::vector<int64_t> sizes, int64_t size) {
    return spec(std::move(sizes), DType::i64, static_cast<double>(-size), static_cast<double>(size - 1));
  };
  OpRecord index;
  index.schema_text = "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor";
  auto index_schema = std::make_shared<const Schema>(parse_schema(index.schema_text));
  index.infer = infer_index;
  index.lower = lower_index;
  index.reference = [index_schema](ReferenceCall& call) { reference_index(call, *index_schema); };
  index.samples = {{{spec({5, 4}), Specs{positions({3}, 5)}}},
                   {{spec({5, 4}), Specs{positions({2, 3}, 5), positions({3}, 4)}}},
                   {{spec({5, 4}, DType::i64), Specs{positions({}, 5)}}},
                   {{spec({5, 0}), Specs{positions({2}, 5)}}},
                   {{spec({5}), Specs{positions({0}, 5)}}},
                   {{spec({5}), Specs{spec({2})}}, true},
                   {{spec({5}), Specs{positions({2}, 5), positions({2}, 5)}}, true}};
  r.add(std::move(index));

  for (const char* name : {"index_put", "_unsafe_index_put"}) {
    OpRecord put;
    put.schema_text = str(name, "(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor");
    auto put_schema = std::make_shared<const Schema>(parse_schema(put.schema_text));
    put.inplace = std::string_view(name) == "index_put";
    put.infer = infer_index_put;
    put.lower = lower_index_put;
    put.reference = [put_schema](ReferenceCall& call) { reference_index_put(call, *put_schema); };
    put.samples = {
        {{spec({5, 4}), Specs{positions({3}, 1)}, spec({4})}},
        {{spec({5, 4}), Specs{positions({6}, 5)}, spec({6, 4}), Scalar(true)}},
        {{spec({5, 4}, DType::i64), Specs{positions({3}, 5), positions({3}, 4)}, spec({}, DType::i64), Scalar(true)}},
        {{spec({5}), Specs{spec({5}, DType::boolean)}, spec({})}},
        {{spec({5}), Specs{positions({2}, 5)}, spec({3})}, true},
        {{spec({5}), Specs{positions({2}, 5)}, spec({2}, DType::f64)}, true}};
    r.add(std::move(put));
  }
  register_masked_index(r);
  register_gathers(r);
  register_scatters(r);
  register_searches(r);
  r.describe({"_unsafe_index_put", "index", "index_put"}, complex_by(ComplexRule::parts));
}

}  // namespace kiln
