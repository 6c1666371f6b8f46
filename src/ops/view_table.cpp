#include "ops/view_table.h"

#include "ops/dense.h"

namespace kiln {

namespace {

TensorType concrete_type(const ReferenceCall& values) {
  Tensor self = values.tensor("self");
  TensorType type;
  type.dtype = self.dtype;
  type.sizes = to_exprs(self.sizes);
  type.strides = to_exprs(self.strides);
  type.offset = Expr(self.offset);
  return type;
}

TensorType type_of(const ViewLayout& layout, const TensorType& self, bool copy) {
  TensorType type = strided_type(self.dtype, layout.sizes, layout.strides, self.device);
  if (copy) {
    type.strides = contiguous_strides(layout.sizes);
  } else if (!layout.copies) {
    type.offset = layout.offset;
  }
  return type;
}

Tensor evaluate(const Tensor& self, const ViewLayout& layout, bool copy) {
  if (!layout.copies) {
    Tensor view = view_of(self, layout);
    return copy ? view.clone() : view;
  }
  Tensor dense = self.clone();
  dense.sizes = to_numbers(layout.sizes);
  dense.strides = contiguous_strides(dense.sizes);
  return dense;
}

// A group of dimensions on both sides with the same number of elements.
struct Group {
  size_t from_end, to_end;
};

bool same_product(const Expr& a, const Expr& b, const RangeEnv& ranges) {
  return a == b || prove_eq(a, b, ranges) == Proof::yes;
}

// The smallest groups that start at (from, to): tried in order of how many dimensions they take.
Group next_group(const Sizes& from_sizes, size_t from, const Sizes& to_sizes, size_t to, const RangeEnv& ranges) {
  size_t from_left = from_sizes.size() - from, to_left = to_sizes.size() - to;
  for (size_t total = 2; total < from_left + to_left; ++total) {
    for (size_t taken = 1; taken < total; ++taken) {
      if (taken > from_left || total - taken > to_left) continue;
      Expr a(1), b(1);
      for (size_t d = 0; d < taken; ++d) a = a * from_sizes[from + d];
      for (size_t d = 0; d < total - taken; ++d) b = b * to_sizes[to + d];
      if (same_product(a, b, ranges)) return {from + taken, to + total - taken};
    }
  }
  return {from_sizes.size(), to_sizes.size()};
}

// Row-major position inside a group, then taken apart by the other side's sizes.
void map_group(const Sizes& from, size_t from_begin, size_t from_end, const Sizes& to, size_t to_begin, size_t to_end,
               const std::vector<Expr>& index, const RangeEnv& env, std::vector<Expr>& out) {
  Expr position(0);
  for (size_t d = to_begin; d < to_end; ++d) position = position * to[d] + index[d];
  Expr inner(1);
  for (size_t d = from_end; d-- > from_begin;) {
    Expr digit = is_one(inner) ? position : floordiv(position, inner);
    if (d > from_begin) digit = mod(digit, from[d]);
    out[d] = simplify(digit, env);
    inner = inner * from[d];
  }
}

}  // namespace

ConcreteViewArgs::ConcreteViewArgs(const OpCall& call, const ReferenceCall& values)
    : ViewArgs(call, concrete_type(values),
               []() -> const RangeEnv& {
                 static const RangeEnv none;
                 return none;
               }()),
      values_(values) {}

RangeEnv with_indices(const RangeEnv& ranges, const std::vector<Expr>& index, const Sizes& sizes) {
  RangeEnv env = ranges;
  for (size_t d = 0; d < index.size(); ++d) {
    if (!index[d].is_symbol()) continue;
    Interval range{0, INT64_MAX};
    if (sizes[d].is_constant()) {
      range.high = std::max<int64_t>(sizes[d].value() - 1, 0);
    } else {
      env.upper.insert_or_assign(index[d].name(), sizes[d] - Expr(1));
    }
    env.ranges.insert_or_assign(index[d].name(), range);
  }
  return env;
}

std::vector<Expr> reshape_index(const Sizes& from, const Sizes& to, const std::vector<Expr>& index,
                                const RangeEnv& ranges) {
  std::vector<Expr> out(from.size(), Expr(0));
  if (is_zero_numel(from) || is_zero_numel(to)) return out;
  // Sizes of 1 carry no information: leave them out on both sides.
  Sizes from_kept, to_kept;
  std::vector<size_t> from_place;
  std::vector<Expr> index_kept;
  for (size_t d = 0; d < from.size(); ++d) {
    if (is_one(from[d])) continue;
    from_kept.push_back(from[d]);
    from_place.push_back(d);
  }
  for (size_t d = 0; d < to.size(); ++d) {
    if (is_one(to[d])) continue;
    to_kept.push_back(to[d]);
    index_kept.push_back(index[d]);
  }
  RangeEnv env = with_indices(ranges, index, to);
  std::vector<Expr> mapped(from_kept.size(), Expr(0));
  size_t a = 0, b = 0;
  while (a < from_kept.size() && b < to_kept.size()) {
    Group group = next_group(from_kept, a, to_kept, b, ranges);
    map_group(from_kept, a, group.from_end, to_kept, b, group.to_end, index_kept, env, mapped);
    a = group.from_end;
    b = group.to_end;
  }
  for (size_t d = 0; d < mapped.size(); ++d) out[from_place[d]] = mapped[d];
  return out;
}

std::vector<Expr> index_of_address(const OpCall& call, const TensorType& type, const Expr& address,
                                   const RangeEnv& env) {
  // Memory before the base or behind it belongs to a tensor that the base is a view of.
  Interval reached = range_of(address, env);
  Expr count = product(type.sizes);
  if ((reached.low < 0 && reached.low != INT64_MIN) ||
      (count.is_constant() && reached.high != INT64_MAX && reached.high >= count.value()))
    fail_unsupported("K0209", str(call.schema().name, ": elements outside of the base are not supported"),
                     call.where());
  std::vector<Expr> out(type.sizes.size(), Expr(0));
  std::vector<size_t> left;
  for (size_t d = 0; d < type.sizes.size(); ++d)
    if (!is_one(type.sizes[d])) left.push_back(d);
  Expr stride(1);
  while (!left.empty()) {
    auto next =
        std::find_if(left.begin(), left.end(), [&](size_t d) { return same_product(type.strides[d], stride, env); });
    if (next == left.end()) {
      fail_unsupported("K0209",
                       str(call.schema().name, ": the base has strides [", shape_text(type.strides), "] for sizes [",
                           shape_text(type.sizes), "], which leave gaps or overlap"),
                       call.where());
    }
    Expr digit = is_one(stride) ? address : floordiv(address, stride);
    if (left.size() > 1) digit = mod(digit, type.sizes[*next]);
    out[*next] = simplify(digit, env);
    stride = stride * type.sizes[*next];
    left.erase(next);
  }
  return out;
}

void refuse_view(const ViewArgs& args, std::string_view why) {
  fail_user("K0208", str(args.call().schema().name, ": ", why), args.call().where());
}

Tensor view_of(const Tensor& tensor, const ViewLayout& layout) {
  Tensor view = tensor;
  view.sizes = to_numbers(layout.sizes);
  view.strides = to_numbers(layout.strides);
  view.offset = layout.offset.value();
  const auto negative = [](int64_t n) { return n < 0; };
  if (std::any_of(view.sizes.begin(), view.sizes.end(), negative) ||
      std::any_of(view.strides.begin(), view.strides.end(), negative))
    fail_user("K0208", str("a view ", tensor_type_text(view), " with a negative size or stride"));
  // as_strided may name any place; one outside of the storage is refused, as PyTorch does.
  bool inside = view.numel() == 0 || (view.offset >= 0 && storage_bytes_needed(view.dtype, view.sizes, view.strides,
                                                                               view.offset) <= view.storage->bytes);
  if (!inside) fail_user("K0208", str("a view ", tensor_type_text(view), " is out of bounds for its storage"));
  return view;
}

namespace {

OpRecord make_view_record(const ViewRow& row, const std::string& schema_text, bool copy) {
  auto schema = std::make_shared<const Schema>(parse_schema(schema_text));
  OpRecord record;
  record.schema_text = schema_text;
  record.samples = row.samples;
  record.facts.complex = row.facts.complex;
  if (!copy || row.always_copies) record.facts = row.facts;
  record.infer = [layout = row.layout, copy](InferCall& call) {
    SymbolicViewArgs args(call, call.ranges());
    call.results = {type_of(layout(args), args.self(), copy)};
  };
  record.lower = [index = row.index](LowerCall& call) {
    SymbolicViewArgs args(call, call.ranges());
    const Sizes& sizes = call.output_type().sizes;
    call.kernel([&](loops::KernelBuilder& k) {
      k.parallel(sizes, [&](const std::vector<Expr>& i) {
        k.store(call.output(), i, k.load(call.input("self"), index(args, i, sizes)));
      });
    });
  };
  record.reference = [layout = row.layout, copy, schema](ReferenceCall& call) {
    OpCall typed(call.node(), *schema);
    ConcreteViewArgs args(typed, call);
    call.results = {Datum{evaluate(call.tensor("self"), layout(args), copy)}};
  };
  return record;
}

ViewLayout piece_layout(const ViewArgs& args, const SplitRow& row, size_t dim, const Piece& piece) {
  const TensorType& self = args.self();
  ViewLayout out{self.sizes, self.strides, self.offset + piece.start * self.strides[dim]};
  if (row.selects) {
    out.sizes.erase(out.sizes.begin() + static_cast<std::ptrdiff_t>(dim));
    out.strides.erase(out.strides.begin() + static_cast<std::ptrdiff_t>(dim));
  } else {
    out.sizes[dim] = piece.length;
  }
  return out;
}

size_t split_dim(const ViewArgs& args, const SplitRow& row) {
  int64_t dim = row.dim ? row.dim(args) : args.dim("dim");
  if (args.rank() == 0) {
    fail_user("K0205", str(args.call().schema().name, ": a tensor without dimensions cannot be split"),
              args.call().where());
  }
  return static_cast<size_t>(dim);
}

void lower_split(LowerCall& call, const SplitRow& row) {
  SymbolicViewArgs args(call, call.ranges());
  size_t dim = split_dim(args, row);
  std::vector<Piece> pieces = row.pieces(args);
  const std::vector<Value*>& items = call.node().results[0]->items;
  KILN_CHECK(pieces.size() == items.size(), "a split gives as many pieces as its node has results");
  for (size_t p = 0; p < pieces.size(); ++p) {
    if (!items[p]) continue;
    call.kernel([&](loops::KernelBuilder& k) {
      k.parallel(items[p]->type.sizes, [&](const std::vector<Expr>& i) {
        std::vector<Expr> from = i;
        if (row.selects) {
          from.insert(from.begin() + static_cast<std::ptrdiff_t>(dim), pieces[p].start);
        } else {
          from[dim] = from[dim] + pieces[p].start;
        }
        k.store(call.buffer(items[p]), i, k.load(call.input("self"), from));
      });
    });
  }
}

}  // namespace

void add_view(Registry& registry, const ViewRow& row) {
  registry.add(make_view_record(row, row.schema, row.always_copies));
  if (!row.copy_schema.empty()) registry.add(make_view_record(row, row.copy_schema, true));
}

void add_split(Registry& registry, const SplitRow& row) {
  auto shared = std::make_shared<const SplitRow>(row);
  auto schema = std::make_shared<const Schema>(parse_schema(row.schema));
  OpRecord record;
  record.schema_text = row.schema;
  record.samples = row.samples;
  record.facts = row.facts;
  record.infer = [shared](InferCall& call) {
    SymbolicViewArgs args(call, call.ranges());
    size_t dim = split_dim(args, *shared);
    for (const Piece& piece : shared->pieces(args))
      call.results.push_back(type_of(piece_layout(args, *shared, dim, piece), args.self(), shared->copies));
  };
  record.lower = [shared](LowerCall& call) { lower_split(call, *shared); };
  record.reference = [shared, schema](ReferenceCall& call) {
    OpCall typed(call.node(), *schema);
    ConcreteViewArgs args(typed, call);
    size_t dim = split_dim(args, *shared);
    std::vector<Datum> list;
    for (const Piece& piece : shared->pieces(args))
      list.push_back(Datum{evaluate(call.tensor("self"), piece_layout(args, *shared, dim, piece), shared->copies)});
    call.results = {Datum{std::move(list)}};
  };
  registry.add(std::move(record));
}

}  // namespace kiln
