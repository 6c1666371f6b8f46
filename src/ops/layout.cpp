#include "ops/layout.h"

#include <numeric>

namespace kiln {

int64_t rank_of(const Value* value) { return static_cast<int64_t>(value->type.sizes.size()); }

int64_t wrap_dim(const OpCall& call, int64_t dim, int64_t rank) {
  int64_t limit = std::max<int64_t>(rank, 1);
  if (dim < -limit || dim >= limit) {
    fail_user("K0205", str(call.schema().name, ": dimension ", dim, " is out of range [", -limit, ", ", limit - 1, "]"),
              call.where());
  }
  return dim < 0 ? dim + limit : dim;
}

std::vector<bool> wrap_dims(const OpCall& call, const std::vector<int64_t>& dims, int64_t rank, bool empty_is_all) {
  std::vector<bool> out(static_cast<size_t>(std::max<int64_t>(rank, 1)), dims.empty() && empty_is_all);
  for (int64_t dim : dims) {
    size_t at = static_cast<size_t>(wrap_dim(call, dim, rank));
    if (out[at]) fail_user("K0205", str(call.schema().name, ": dimension ", at, " appears twice"), call.where());
    out[at] = true;
  }
  out.resize(static_cast<size_t>(rank));
  return out;
}

bool is_one(const Expr& size) { return size.is_constant(1); }

bool is_zero_numel(const Sizes& sizes) {
  for (const Expr& size : sizes)
    if (size.is_constant(0)) return true;
  return false;
}

Sizes broadcast_sizes(const OpCall& call, const std::vector<Sizes>& shapes, const RangeEnv& ranges) {
  size_t rank = 0;
  for (const Sizes& shape : shapes) rank = std::max(rank, shape.size());
  Sizes out(rank, Expr(1));
  for (const Sizes& shape : shapes) {
    for (size_t d = 0; d < shape.size(); ++d) {
      Expr& have = out[rank - shape.size() + d];
      const Expr& size = shape[d];
      if (is_one(size) || have == size) continue;
      if (is_one(have)) {
        have = size;
        continue;
      }
      if (prove_eq(have, size, ranges) == Proof::no) {
        fail_user("K0206",
                  str(call.schema().name, ": sizes cannot be broadcast together: ", have.text(), " and ", size.text(),
                      " at dimension ", rank - shape.size() + d),
                  call.where());
      }
      if (size.is_constant()) have = size;
    }
  }
  return out;
}

bool is_contiguous(const Sizes& sizes, const Sizes& strides) {
  if (is_zero_numel(sizes)) return true;
  Expr expected(1);
  for (size_t d = sizes.size(); d-- > 0;) {
    if (is_one(sizes[d])) continue;
    if (strides[d] != expected) return false;
    expected = expected * sizes[d];
  }
  return true;
}

bool is_dense(const Sizes& sizes, const Sizes& strides) {
  if (is_zero_numel(sizes)) return is_contiguous(sizes, strides);
  std::vector<size_t> left;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (!is_one(sizes[d])) left.push_back(d);
  Expr expected(1);
  while (!left.empty()) {
    auto next = std::find_if(left.begin(), left.end(), [&](size_t d) { return strides[d] == expected; });
    if (next == left.end()) return false;
    expected = expected * sizes[*next];
    left.erase(next);
  }
  return true;
}

namespace {

// Row-major strides over the dimensions taken in this order, fastest first. Sizes of 0 count as 1, as in PyTorch.
Sizes strides_in_order(const Sizes& sizes, const std::vector<size_t>& fastest_first) {
  Sizes strides(sizes.size(), Expr(1));
  Expr next(1);
  for (size_t d : fastest_first) {
    strides[d] = next;
    if (!sizes[d].is_constant(0)) next = next * sizes[d];
  }
  return strides;
}

std::vector<size_t> channels_last_order(size_t rank) {
  std::vector<size_t> order{1};
  for (size_t d = rank - 1; d >= 2; --d) order.push_back(d);
  order.push_back(0);
  return order;
}

// TensorIterator's comparison of two dimensions: > 0 when `a` must come after `b` (fastest first), 0 when unknown.
int compare_dims(size_t a, size_t b, const Sizes& sizes, const std::vector<Sizes>& strides, const RangeEnv& ranges) {
  for (const Sizes& s : strides) {
    if (s[a].is_constant(0) || s[b].is_constant(0)) continue;
    if (s[a] == s[b]) {
      if (prove_lt(sizes[b], sizes[a], ranges) == Proof::yes) return 1;
      continue;
    }
    if (prove_lt(s[a], s[b], ranges) == Proof::yes) return -1;
    if (prove_lt(s[b], s[a], ranges) == Proof::yes) return 1;
  }
  return 0;
}

std::vector<size_t> iteration_order(const Sizes& sizes, const std::vector<Sizes>& strides, const RangeEnv& ranges) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.rbegin(), order.rend(), size_t{0});
  // Insertion sort that tolerates ambiguous comparisons, as TensorIterator's.
  for (size_t i = 1; i < order.size(); ++i) {
    size_t at = i;
    for (size_t before = i; before-- > 0;) {
      int order_of = compare_dims(order[before], order[at], sizes, strides, ranges);
      if (order_of > 0) {
        std::swap(order[before], order[at]);
        at = before;
      } else if (order_of < 0) {
        break;
      }
    }
  }
  return order;
}

// Strides of an input seen with the result's sizes: 0 where it is broadcast.
Sizes expanded_strides(const Sizes& sizes, const Layouted& input) {
  Sizes out(sizes.size(), Expr(0));
  size_t lead = sizes.size() - input.sizes.size();
  for (size_t d = 0; d < input.sizes.size(); ++d) {
    bool broadcast = is_one(input.sizes[d]) && !is_one(sizes[lead + d]);
    out[lead + d] = broadcast ? Expr(0) : input.strides[d];
  }
  return out;
}

}  // namespace

Sizes channels_last_strides(const Sizes& sizes) {
  Sizes strides(sizes.size(), Expr(1));
  Expr next(1);
  for (size_t d : channels_last_order(sizes.size())) {
    strides[d] = next;
    next = next * sizes[d];
  }
  return strides;
}

bool is_channels_last(const Sizes& sizes, const Sizes& strides) {
  if ((sizes.size() != 4 && sizes.size() != 5) || is_contiguous(sizes, strides)) return false;
  Sizes expected = channels_last_strides(sizes);
  for (size_t d = 0; d < sizes.size(); ++d)
    if (!is_one(sizes[d]) && strides[d] != expected[d]) return false;
  return true;
}

Sizes elementwise_strides(const Sizes& sizes, const std::vector<Layouted>& inputs, const RangeEnv& ranges) {
  bool same_shape = true, contiguous = true, channels_last = true, same_strides = true;
  for (const Layouted& input : inputs) {
    if (input.sizes != sizes) same_shape = false;
  }
  if (same_shape && !inputs.empty()) {
    for (const Layouted& input : inputs) {
      contiguous &= is_contiguous(input.sizes, input.strides);
      channels_last &= is_channels_last(input.sizes, input.strides);
      same_strides &= is_dense(input.sizes, input.strides) && input.strides == inputs.front().strides;
    }
    if (contiguous) return contiguous_strides(sizes);
    if (channels_last) return channels_last_strides(sizes);
    if (same_strides) return inputs.front().strides;
  }
  std::vector<Sizes> strides;
  for (const Layouted& input : inputs) strides.push_back(expanded_strides(sizes, input));
  return iteration_strides(sizes, strides, ranges);
}

Sizes iteration_strides(const Sizes& sizes, const std::vector<Sizes>& strides, const RangeEnv& ranges) {
  return strides_in_order(sizes, iteration_order(sizes, strides, ranges));
}

Sizes like_strides(const Sizes& sizes, const Sizes& strides, MemoryFormat format, const RangeEnv& ranges) {
  if (format == MemoryFormat::preserve) {
    if (is_dense(sizes, strides)) return strides;
    return strides_in_order(sizes, iteration_order(sizes, {strides}, ranges));
  }
  return format == MemoryFormat::contiguous ? contiguous_strides(sizes) : channels_last_strides(sizes);
}

MemoryFormat memory_format(const OpCall& call, std::string_view arg, MemoryFormat otherwise) {
  const auto* format = std::get_if<MemoryFormat>(&call.arg(arg).value);
  return format ? *format : otherwise;
}

std::optional<Sizes> view_strides(const Sizes& sizes, const Sizes& strides, const Sizes& new_sizes,
                                  const RangeEnv& ranges) {
  if (is_zero_numel(sizes)) return new_sizes == sizes ? strides : contiguous_strides(new_sizes);
  if (is_contiguous(sizes, strides)) return contiguous_strides(new_sizes);
  Sizes out(new_sizes.size(), Expr(1));
  size_t view_dim = new_sizes.size();
  Expr base = sizes.empty() ? Expr(1) : strides.back();
  Expr chunk(1), viewed(1);
  auto equal = [&](const Expr& a, const Expr& b) { return a == b || prove_eq(a, b, ranges) == Proof::yes; };
  for (size_t d = sizes.size(); d-- > 0;) {
    chunk = chunk * sizes[d];
    bool ends = d == 0 || (!is_one(sizes[d - 1]) && !equal(strides[d - 1], chunk * base));
    if (!ends) continue;
    while (view_dim > 0 && (!equal(viewed, chunk) || is_one(new_sizes[view_dim - 1]))) {
      --view_dim;
      out[view_dim] = viewed * base;
      viewed = viewed * new_sizes[view_dim];
    }
    if (!equal(viewed, chunk)) return std::nullopt;
    if (d > 0) {
      base = strides[d - 1];
      chunk = Expr(1);
      viewed = Expr(1);
    }
  }
  if (view_dim != 0) return std::nullopt;
  return out;
}

Sizes resolve_view_sizes(const OpCall& call, const Sizes& sizes, Sizes wanted, const RangeEnv& ranges) {
  Expr total = product(sizes), known(1);
  int missing = -1;
  for (size_t d = 0; d < wanted.size(); ++d) {
    if (!wanted[d].is_constant(-1)) {
      known = known * wanted[d];
    } else if (missing >= 0) {
      fail_user("K0207", str(call.schema().name, ": only one size may be -1"), call.where());
    } else {
      missing = static_cast<int>(d);
    }
  }
  auto refuse = [&] {
    fail_user("K0207",
              str(call.schema().name, ": sizes [", shape_text(wanted), "] do not fit a tensor of sizes [",
                  shape_text(sizes), "]"),
              call.where());
  };
  if (missing < 0) {
    if (prove_eq(known, total, ranges) == Proof::no) refuse();
    return wanted;
  }
  if (known.is_constant(0)) refuse();
  if (known.is_constant() && total.is_constant() && total.value() % known.value() != 0) refuse();
  wanted[static_cast<size_t>(missing)] = simplify(floordiv(total, known), ranges);
  return wanted;
}

Expr wrap_index(const Expr& index, const Expr& size, const RangeEnv& ranges) {
  Proof negative = prove_lt(index, Expr(0), ranges);
  if (negative == Proof::no) return index;
  if (negative == Proof::yes) return index + size;
  return Expr::make(ExprOp::ite, {compare_lt(index, Expr(0)), index + size, index});
}

SliceBounds slice_bounds(const std::optional<Expr>& start, const std::optional<Expr>& end, const Expr& step,
                         const Expr& size, const RangeEnv& ranges) {
  auto clamp = [&](const Expr& index) {
    Expr wrapped = wrap_index(index, size, ranges);
    if (prove_lt(wrapped, Expr(0), ranges) != Proof::no) wrapped = max_expr(wrapped, Expr(0));
    if (prove_le(wrapped, size, ranges) != Proof::yes) wrapped = min_expr(wrapped, size);
    return simplify(wrapped, ranges);
  };
  auto is_end = [](const Expr& e) { return e.is_constant() && e.value() == INT64_MAX; };
  Expr first = start ? clamp(*start) : Expr(0);
  Expr last = end && !is_end(*end) ? clamp(*end) : size;
  Expr length = last - first;
  if (prove_le(first, last, ranges) != Proof::yes) length = max_expr(length, Expr(0));
  length = step.is_constant(1) ? length : ceildiv(length, step);
  return {first, simplify(length, ranges), step};
}

Sizes to_exprs(const std::vector<int64_t>& values) { return Sizes(values.begin(), values.end()); }

std::vector<int64_t> to_numbers(const Sizes& values) {
  std::vector<int64_t> out;
  for (const Expr& value : values) {
    KILN_CHECK(value.is_constant(), str("a number was expected, not ", value.text()));
    out.push_back(value.value());
  }
  return out;
}

TensorType strided_type(DType dtype, Sizes sizes, Sizes strides, Device device) {
  TensorType type;
  type.dtype = dtype;
  type.device = device;
  type.sizes = std::move(sizes);
  type.strides = std::move(strides);
  return type;
}

}  // namespace kiln
