// embedding_bag: rows of a table, gathered and reduced bag by bag. Which bag an index belongs to follows from the
// offsets; sums and maxima are then accumulated by bag. Where all bags are as long, as those of a matrix of indices
// are, a sum is one over a dimension: each bag is computed by itself, and there are no offsets to check.
#include <cmath>

#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/size_needs.h"

namespace kiln {

namespace {

enum class BagMode : uint8_t { sum = 0, mean = 1, max = 2 };

struct Bags {
  Value *weight = nullptr, *indices = nullptr, *offsets = nullptr, *per_sample = nullptr;
  BagMode mode = BagMode::sum;
  bool include_last = false;
  std::optional<int64_t> padding;  // its rows do not count
  Expr count, length;
  std::optional<int64_t> each;  // indices of a bag, where all have as many
};

// What F.embedding_bag makes of a matrix of indices: arange(0, indices, indices of a row).
std::optional<int64_t> equal_bags(const DecomposeCall& call, const Bags& bags) {
  const Node* range = bags.offsets->producer;
  if (!range || range->target != "aten.arange.start_step" || bags.include_last) return {};
  const auto integer = [&](const char* name) -> std::optional<int64_t> {
    const Argument* arg = range->find(name);
    if (!arg || !arg->is_scalar() || !std::get<Scalar>(arg->value).is_int()) return {};
    return std::get<Scalar>(arg->value).as_int();
  };
  const auto start = integer("start"), step = integer("step");
  if (start != 0 || !step || *step < 1) return {};
  return prove_eq(bags.count * Expr(*step), bags.length, call.ranges()) == Proof::yes ? step : std::nullopt;
}

Bags bags_of(DecomposeCall& call) {
  Bags out;
  out.weight = call.tensor("weight");
  out.indices = call.tensor("indices");
  out.offsets = call.tensor("offsets");
  out.per_sample = call.tensor_or_null("per_sample_weights");
  for (const Value* x : {out.indices, out.offsets})
    if (x->type.dtype != DType::i64 && x->type.dtype != DType::i32) refuse_dtype(call, x->type.dtype);
  if (!is_float(out.weight->type.dtype)) refuse_dtype(call, out.weight->type.dtype);
  if (rank_of(out.weight) != 2 || rank_of(out.indices) != 1 || rank_of(out.offsets) != 1)
    refuse(call, "K0201", "expected a matrix of weights, a vector of indices and a vector of offsets");
  int64_t mode = call.constant_integer("mode");
  if (mode < 0 || mode > 2) refuse(call, "K0201", "mode must be 0 (sum), 1 (mean) or 2 (max)");
  out.mode = static_cast<BagMode>(mode);
  if (out.per_sample && out.mode != BagMode::sum)
    refuse(call, "K0201", "per_sample_weights only supported with mode='sum'");
  out.include_last = call.boolean("include_last_offset");
  if (call.schema().find("padding_idx") >= 0 && call.given("padding_idx")) {
    int64_t padding = call.constant_integer("padding_idx");
    // The public overload counts from the end; the private one says -1 for none.
    bool none = padding < 0 && call.schema().name.starts_with("aten._");
    const Expr& rows = out.weight->type.sizes[0];
    if (padding < 0 && !none) {
      if (!rows.is_constant())
        fail_unsupported("K0202", str(call.schema().name, ": a negative padding_idx needs a known number of rows"),
                         call.where());
      padding += rows.value();
    }
    if (!none) out.padding = padding;
  }
  out.length = out.indices->type.sizes[0];
  out.count = out.offsets->type.sizes[0] - Expr(out.include_last ? 1 : 0);
  if (out.mode != BagMode::max) out.each = equal_bags(call, out);
  return out;
}

// Eager's checks, and that bags do not overlap: it refuses that for sums and means.
void check_offsets(Build& b, const Bags& bags) {
  const Expr size = bags.offsets->type.sizes[0];
  auto part = [&](const Expr& from, const Expr& to) {
    return b("slice.Tensor", {bags.offsets, Scalar(0), number(from), number(to)});
  };
  const std::string name = "embedding_bag: ";
  require_all(b.call(), b("eq.Scalar", {part(Expr(0), Expr(1)), Scalar(0)}), name + "offsets[0] has to be 0");
  Value* last = part(max_expr(size - Expr(1), Expr(0)), size);
  if (bags.include_last)
    require_all(b.call(), b("eq.Scalar", {last, number(bags.length)}),
                name + "the last offset has to be the number of indices");
  else
    require_all(b.call(), b("le.Scalar", {last, number(bags.length)}),
                name + "offsets[-1] can not be greater than the number of indices");
  if (size.is_constant() && size.value() < 2) return;
  const Expr end = max_expr(size - Expr(1), Expr(0));
  require_all(b.call(), b("ge.Tensor", {part(min_expr(Expr(1), size), size), part(Expr(0), end)}),
              name + "offsets have to be in ascending order");
}

// The bag of each index: the last one that starts at it or before. Offsets ascend from 0 and end within the indices.
Value* bag_of_index(Build& b, const Bags& bags) {
  Value* starts = bags.offsets;
  if (bags.include_last) starts = b("slice.Tensor", {starts, Scalar(0), Scalar(0), number(bags.count)});
  Value* none = b("new_zeros", {starts, b.ints(Sizes{bags.length + Expr(1)})});
  Value* begun = b("index_add", {none, Scalar(0), starts, b("ones_like", {starts})});
  Value* here = b("slice.Tensor", {begun, Scalar(0), Scalar(0), number(bags.length)});
  Value* so_far = b.to(b("cumsum", {here, Scalar(0)}), bags.offsets->type.dtype);
  return b("clamp_min", {b.sub(so_far, Scalar(1)), Scalar(0)});
}

// Eager takes a bag's first row that counts, then whatever is greater: a NaN there stays, and others are passed over.
Value* without_later_nan(Build& b, const Bags& bags, Value* rows, Value* left_out, Value* bag) {
  Value *places = b("arange", {number(bags.length)}), *none = b("full_like", {places, number(bags.length)});
  Value* candidates = left_out ? b("where.self", {left_out, none, places}) : places;
  Value* start = b("new_full", {places, b.ints(Sizes{bags.count}), number(bags.length)});
  Value* first = b("index_reduce", {start, Scalar(0), bag, candidates, std::string("amin"), Scalar(true)});
  Value* later = b("ne.Tensor", {places, b("index_select", {first, Scalar(0), bag})});
  Value* passed = b("logical_and", {b("isnan", {rows}), b("unsqueeze", {later, Scalar(1)})});
  return b("masked_fill.Scalar", {rows, passed, Scalar(-INFINITY)});
}

// Position of the row that gave each maximum, as an index into the table.
Value* chosen_rows(Build& b, const Bags& bags, Value* rows, Value* maxima, Value* bag) {
  Value* here =
      b("logical_or", {b("eq.Tensor", {rows, b("index_select", {maxima, Scalar(0), bag})}), b("isnan", {rows})});
  Value* places = b("unsqueeze", {b("arange", {number(bags.length)}), Scalar(1)});
  Value* candidates = b("where.self", {here, places, b("full_like", {places, number(bags.length)})});
  Value* start = b("new_full", {places, b.ints(maxima->type.sizes), number(bags.length)});
  Value* first = b("index_reduce", {start, Scalar(0), bag, candidates, std::string("amin"), Scalar(true)});
  Value* padded =
      b("cat", {Argument(Argument::List{Argument(bags.indices), Argument(b("new_zeros", {bags.indices, b.ints({1})}))}),
                Scalar(0)});
  return b("take", {padded, first});
}

bool sums_directly(const Bags& bags) {
  DType dtype = bags.weight->type.dtype;
  return bags.mode == BagMode::sum && !bags.padding && (dtype == DType::f32 || dtype == DType::f16);
}

// With include_last_offset the sizes of the bags have one place per offset where no gradient was wanted, else one per
// bag. The private names say which; of the public ones the program does.
bool sizes_have_an_end(const DecomposeCall& call, const Bags& bags) {
  const std::string& name = call.schema().name;
  if (!bags.include_last) return false;
  if (name.starts_with("aten._")) return name.starts_with("aten._embedding_bag_forward_only");
  const TensorType* said = call.declared(2);
  return !said || said->sizes.size() != 1 || prove_eq(said->sizes[0], bags.count, call.ranges()) != Proof::yes;
}

// What belongs to an index, of each bag its sum.
Value* sum_of_bags(Build& b, const Bags& bags, Value* x, Value* bag) {
  Sizes shape = x->type.sizes;
  shape[0] = bags.count;
  if (!bags.each) return b("index_add", {b("new_zeros", {x, b.ints(shape)}), Scalar(0), bag, x});
  shape.insert(shape.begin() + 1, Expr(*bags.each));
  return b.sum(b.view(x, shape), {1}, false);
}

void build_embedding_bag(Build& b) {
  DecomposeCall& call = b.call();
  Bags bags = bags_of(call);
  DType wide = compute_dtype(bags.weight->type.dtype), integer = bags.offsets->type.dtype;
  Sizes shape = {bags.count, bags.weight->type.sizes[1]};
  if (!bags.each) check_offsets(b, bags);
  Value* bag = bag_of_index(b, bags);
  Value* rows = b.to(b("index_select", {bags.weight, Scalar(0), bags.indices}), wide);
  if (bags.per_sample) rows = b.mul(rows, b("unsqueeze", {b.to(bags.per_sample, wide), Scalar(1)}));
  Value* ones = b("new_ones", {rows, b.ints(Sizes{bags.length})});
  Value* left_out = nullptr;
  if (bags.padding) {
    left_out = b("eq.Scalar", {bags.indices, Scalar(*bags.padding)});
    ones = b("masked_fill.Scalar", {ones, left_out, Scalar(0.0)});
    double nothing = bags.mode == BagMode::max ? -INFINITY : 0.0;
    rows = b("masked_fill.Scalar", {rows, b("unsqueeze", {left_out, Scalar(1)}), Scalar(nothing)});
  }
  Value* counts = sum_of_bags(b, bags, ones, bag);
  Value *out = nullptr, *indices = nullptr;
  if (bags.mode == BagMode::max) {
    rows = without_later_nan(b, bags, rows, left_out, bag);
    Value* lowest = b("new_full", {rows, b.ints(shape), Scalar(-INFINITY)});
    Value* maxima = b("index_reduce", {lowest, Scalar(0), bag, rows, std::string("amax"), Scalar(true)});
    out = b("masked_fill.Scalar",
            {maxima, b("unsqueeze", {b("eq.Scalar", {counts, Scalar(0)}), Scalar(1)}), Scalar(0.0)});
    indices = b.to(chosen_rows(b, bags, rows, maxima, bag), integer);
  } else {
    out = sum_of_bags(b, bags, rows, bag);
    if (bags.mode == BagMode::mean) out = b.div(out, b("unsqueeze", {b("clamp_min", {counts, Scalar(1)}), Scalar(1)}));
  }
  call.result(0, b.to(out, bags.weight->type.dtype));
  call.result(1, sums_directly(bags) ? b("new_zeros", {bags.offsets, b.ints({0})}) : b.to(bag, integer));
  // What eager gives besides the rows: a sum does not count, and without maxima their place shows the counts.
  bool counted = bags.mode != BagMode::sum || bags.padding;
  Value* sizes = counted ? b.to(counts, integer) : b("new_zeros", {bags.offsets, b.ints(Sizes{bags.count})});
  Value* end = sizes_have_an_end(call, bags) ? b("new_zeros", {bags.offsets, b.ints({1})}) : nullptr;
  call.result(2, end ? b("cat", {Argument::List{Argument(sizes), Argument(end)}, Scalar(0)}) : sizes);
  call.result(3, indices ? indices : sizes);
}

}  // namespace

void register_embedding_bag(Registry& r) {
  Sample::TensorSpec table = spec({5, 3}), indices = spec({6}, DType::i64, 0, 4), starts = spec({1}, DType::i64, 0, 0);
  Sample::SampleArg none = Argument::None{};
  std::string results = ") -> (Tensor, Tensor, Tensor, Tensor)";
  add_composite(r, {.schema = "embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool "
                              "scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? "
                              "per_sample_weights=None, bool include_last_offset=False" +
                              results,
                    .build = build_embedding_bag,
                    .samples = {{{table, indices, starts}},
                                {{table, indices, starts, Scalar(false), Scalar(1)}},
                                {{table, indices, starts, Scalar(false), Scalar(2)}},
                                {{table, indices, starts, Scalar(false), Scalar(0), Scalar(false), spec({6})}},
                                {{table, spec({0}, DType::i64), spec({2}, DType::i64, 0, 0), Scalar(false), Scalar(0),
                                  Scalar(false), none, Scalar(true)}},
                                {{table, indices, starts, Scalar(false), Scalar(3)}, true}}});
  add_composite(
      r,
      {.schema = "embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool "
                 "scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, bool "
                 "include_last_offset, int? padding_idx" +
                 results,
       .build = build_embedding_bag,
       .samples = {{{table, indices, starts, Scalar(false), Scalar(1), Scalar(false), none, Scalar(false), Scalar(2)}},
                   {{table, indices, starts, Scalar(false), Scalar(2), Scalar(false), none, Scalar(false), Scalar(1)}},
                   {{spec({5, 3}, DType::bf16), indices, starts, Scalar(false), Scalar(0), Scalar(false), none,
                     Scalar(false), none}}}});
  for (const char* name : {"_embedding_bag", "_embedding_bag_forward_only"})
    add_composite(r, {.schema = str(name,
                                    "(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, "
                                    "int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool "
                                    "include_last_offset=False, int padding_idx=-1",
                                    results),
                      .build = build_embedding_bag,
                      .samples = {{{table, indices, starts, Scalar(false), Scalar(1)}}}});
}

}  // namespace kiln
