#include "ops/index_plan.h"

#include "ops/dense.h"

namespace kiln {

namespace {

bool is_mask_type(DType dtype) { return dtype == DType::boolean || dtype == DType::u8; }

void check_index_type(const OpCall& call, DType dtype) {
  if (dtype == DType::i64 || dtype == DType::i32 || is_mask_type(dtype)) return;
  fail_user("K0203", "tensors used as indices must be long, int, byte or bool tensors", call.where());
}

bool neighbours(const std::vector<IndexPlan::Source>& sources) {
  for (size_t i = 1; i < sources.size(); ++i)
    if (sources[i].dim != sources[i - 1].dim + 1) return false;
  return true;
}

}  // namespace

IndexPlan plan_index(const OpCall& call, const Sizes& self, const std::vector<IndexArgument>& indices,
                     const RangeEnv& ranges) {
  IndexPlan plan;
  std::vector<Sizes> shapes;
  size_t dim = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    const IndexArgument& index = indices[i];
    size_t takes = index.given && index.mask ? index.sizes.size() : 1;
    if (dim + takes > self.size())
      fail_user("K0213", str("too many indices for tensor of dimension ", self.size()), call.where());
    if (!index.given) {
      plan.kept.push_back(dim++);
      continue;
    }
    for (size_t column = 0; column < takes; ++column, ++dim) {
      if (index.mask && prove_eq(index.sizes[column], self[dim], ranges) == Proof::no) {
        fail_user("K0213",
                  str("the shape of the mask [", shape_text(index.sizes), "] at index ", column,
                      " does not match the shape of the indexed tensor [", shape_text(self), "]"),
                  call.where());
      }
      plan.sources.push_back({dim, i, index.mask ? static_cast<int>(column) : -1});
    }
    // A mask without dimensions adds one of its own; that is not supported.
    if (index.mask && takes == 0)
      fail_unsupported("K0213", str(call.schema().name, ": a mask without dimensions is not supported"), call.where());
    shapes.push_back(index.mask ? Sizes{index.count} : index.sizes);
  }
  for (; dim < self.size(); ++dim) plan.kept.push_back(dim);
  plan.index_sizes = broadcast_sizes(call, shapes, ranges);
  if (!plan.sources.empty() && neighbours(plan.sources)) plan.place = plan.sources.front().dim;
  for (size_t i = 0; i < plan.place; ++i) plan.result.push_back(self[plan.kept[i]]);
  plan.result.insert(plan.result.end(), plan.index_sizes.begin(), plan.index_sizes.end());
  for (size_t i = plan.place; i < plan.kept.size(); ++i) plan.result.push_back(self[plan.kept[i]]);
  return plan;
}

std::vector<IndexArgument> index_arguments(const OpCall& call, const std::vector<Value*>& indices,
                                           const std::optional<Expr>& known) {
  std::vector<IndexArgument> out;
  bool named = false;
  // A lone mask has as many elements as the file says, be it a number or a size of an input; nonzero checks that.
  // Among other indices it may have one element and be broadcast, so only a symbol of its own can be its count.
  bool lone = std::count_if(indices.begin(), indices.end(), [](const Value* index) { return index != nullptr; }) == 1;
  for (size_t i = 0; i < indices.size(); ++i) {
    IndexArgument argument;
    if (const Value* index = indices[i]) {
      check_index_type(call, index->type.dtype);
      argument.given = true;
      argument.mask = is_mask_type(index->type.dtype);
      argument.sizes = index->type.sizes;
      if (argument.mask) {
        bool use_known = known && (known->is_symbol() || lone) && !named;
        argument.count = use_known ? *known : Expr::symbol(str("u_", call.node().name, "_", i));
        named |= use_known;
      }
    }
    out.push_back(std::move(argument));
  }
  return out;
}

IndexLowering::IndexLowering(LowerCall& call, const IndexPlan& plan, const Sizes& self,
                             const std::vector<Value*>& indices, const std::vector<IndexArgument>& arguments)
    : call_(call), plan_(plan), self_(self), site_(call.site(str("index out of range in ", call.schema().name))) {
  std::map<size_t, loops::BufferId> columns;  // argument -> result of nonzero
  for (const IndexPlan::Source& source : plan.sources) {
    const IndexArgument& argument = arguments[source.argument];
    if (!argument.mask) {
      loaded_.push_back({call.buffer(indices[source.argument]), argument.sizes});
      continue;
    }
    if (!columns.contains(source.argument)) {
      bool named = argument.count.is_symbol();
      std::string symbol = named ? argument.count.name() : "";
      auto& symbols = call.program().symbols;
      if (named && !symbols.contains(symbol))
        symbols[symbol] = SymbolInfo{symbol, Interval{0, INT64_MAX}, std::nullopt, true};
      loops::BufferId found =
          call.temp(DType::i64, {argument.count, Expr(static_cast<int64_t>(argument.sizes.size()))}, "nonzero");
      loops::Call made;
      made.target = "aten.nonzero.default";
      made.library = "nonzero";
      made.name = "lib_nonzero";
      made.args = {{"self", call.buffer(indices[source.argument])}};
      made.outputs = {found};
      if (named) made.defines = {symbol};
      call.call(std::move(made));
      columns[source.argument] = found;
    }
    loaded_.push_back({columns[source.argument], {argument.count}});
  }
}

std::vector<Expr> IndexLowering::at(loops::KernelBuilder& k, const std::vector<Expr>& broadcast,
                                    const std::vector<Expr>& kept, IndexGuard guard) const {
  std::vector<Expr> out(self_.size());
  for (size_t i = 0; i < plan_.kept.size(); ++i) out[plan_.kept[i]] = kept[i];
  for (size_t s = 0; s < plan_.sources.size(); ++s) {
    const IndexPlan::Source& source = plan_.sources[s];
    std::vector<Expr> index = call_.broadcast(loaded_[s].sizes, broadcast);
    if (source.column >= 0) index.push_back(Expr(source.column));
    loops::ValueId position = k.as(DType::i64, k.load(loaded_[s].buffer, index));
    const Expr& size = self_[source.dim];
    if (guard.clamped) {
      position = k.op(loops::ScalarOp::max, position, k.index_value(-size));
      position = k.op(loops::ScalarOp::min, position, k.index_value(size - Expr(1)));
    }
    out[source.dim] = k.check_index(position, size, site_, guard.mask);
  }
  return out;
}

namespace {

// Row-major positions of the true elements, one list per dimension.
std::vector<std::vector<int64_t>> true_positions(const Tensor& mask) {
  std::vector<std::vector<int64_t>> out(mask.sizes.size());
  std::vector<int64_t> values = read_dense<int64_t>(mask), index(mask.sizes.size(), 0);
  for (int64_t value : values) {
    if (value != 0)
      for (size_t d = 0; d < index.size(); ++d) out[d].push_back(index[d]);
    next_index(index, mask.sizes);
  }
  return out;
}

void wrap_positions(const OpCall& call, std::vector<int64_t>& positions, int64_t size, size_t dim) {
  for (int64_t& position : positions) {
    if (position < -size || position >= size) {
      fail_user("K0630", str("index ", position, " is out of bounds for dimension ", dim, " with size ", size),
                call.where());
    }
    if (position < 0) position += size;
  }
}

}  // namespace

ConcreteIndex concrete_index(const OpCall& call, const Tensor& self,
                             const std::vector<std::optional<Tensor>>& indices) {
  std::vector<IndexArgument> arguments;
  std::vector<std::vector<std::vector<int64_t>>> masks(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    IndexArgument argument;
    if (indices[i]) {
      check_index_type(call, indices[i]->dtype);
      argument.given = true;
      argument.mask = is_mask_type(indices[i]->dtype);
      argument.sizes = to_exprs(indices[i]->sizes);
      if (argument.mask) {
        masks[i] = true_positions(*indices[i]);
        argument.count = Expr(static_cast<int64_t>(masks[i].empty() ? 0 : masks[i][0].size()));
      }
    }
    arguments.push_back(std::move(argument));
  }
  ConcreteIndex out;
  out.plan = plan_index(call, to_exprs(self.sizes), arguments, RangeEnv{});
  out.index_sizes = to_numbers(out.plan.index_sizes);
  out.result = to_numbers(out.plan.result);
  for (const IndexPlan::Source& source : out.plan.sources) {
    Tensor index;
    if (source.column >= 0) {
      const auto& positions = masks[source.argument][static_cast<size_t>(source.column)];
      index = Tensor::empty(DType::i64, {static_cast<int64_t>(positions.size())});
      write_dense(index, positions);
    } else {
      index = *indices[source.argument];
    }
    out.positions.push_back(read_dense<int64_t>(index, out.index_sizes));
    wrap_positions(call, out.positions.back(), self.sizes[source.dim], source.dim);
  }
  return out;
}

void ConcreteIndex::for_each(const Tensor& self, const std::function<void(int64_t, int64_t)>& f) const {
  int64_t total = count_elements(result);
  if (total == 0) return;
  std::vector<int64_t> index(result.size(), 0);
  for (int64_t linear = 0; linear < total; ++linear) {
    int64_t broadcast = 0, offset = 0;
    for (size_t d = 0; d < index_sizes.size(); ++d) broadcast = broadcast * index_sizes[d] + index[plan.place + d];
    for (size_t i = 0; i < plan.kept.size(); ++i) {
      size_t at = i < plan.place ? i : i + index_sizes.size();
      offset += index[at] * self.strides[plan.kept[i]];
    }
    for (size_t s = 0; s < positions.size(); ++s)
      offset += positions[s][static_cast<size_t>(broadcast)] * self.strides[plan.sources[s].dim];
    f(offset, linear);
    next_index(index, result);
  }
}

}  // namespace kiln
