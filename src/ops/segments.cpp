// Reductions over what loops do not name as such: consecutive segments of a dimension (segment_reduce), and the
// exclusive or of all bits (hash_tensor).
#include <cmath>

#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

struct Reduction {
  const char* scatter;  // the name that scatter_reduce has for it
  double start;
};

Reduction reduction_of(const OpCall& call) {
  std::string name = call.string("reduce");
  if (name == "sum" || name == "mean") return {"sum", 0};
  if (name == "prod") return {"prod", 1};
  if (name == "max") return {"amax", -INFINITY};
  if (name == "min") return {"amin", INFINITY};
  refuse(call, "K0201", str("unsupported reduction given: ", name));
}

// Ends of the segments and their lengths, along the last dimension.
struct Segments {
  Value *ends, *lengths, *first;
};

Segments segments_of(Build& b) {
  DecomposeCall& call = b.call();
  if (call.given("indices")) refuse(call, "K0201", "indices based reduction is not supported yet.");
  if (call.given("offsets")) {
    Value* offsets = b.to(call.tensor("offsets"), DType::i64);
    const Expr& size = offsets->type.sizes.back();
    Value* starts = b("slice.Tensor", {offsets, Scalar(-1), Scalar(0), number(size - Expr(1))});
    Value* ends = b("slice.Tensor", {offsets, Scalar(-1), Scalar(1), number(size)});
    return {ends, b.sub(ends, starts), b("slice.Tensor", {offsets, Scalar(-1), Scalar(0), Scalar(1)})};
  }
  if (!call.given("lengths")) refuse(call, "K0201", "Either lengths or offsets must be defined.");
  Value* lengths = b.to(call.tensor("lengths"), DType::i64);
  return {b("cumsum", {lengths, Scalar(-1)}), lengths, nullptr};
}

// Elements are added to the segment whose end is the first one behind them; what is before the first segment or behind
// the last goes to one more segment that is cut off.
void build_segment_reduce(Build& b) {
  DecomposeCall& call = b.call();
  Value* data = call.tensor("data");
  Segments segments = segments_of(b);
  auto axis = static_cast<size_t>(wrap_dim(call, call.constant_integer("axis"), rank_of(data)));
  if (segments.lengths->type.sizes.size() != axis + 1)
    refuse(call, "K0201", "Expected lengths and axis to fit: as many dimensions of lengths as up to the axis of data");
  if (!is_float(data->type.dtype)) refuse_dtype(call, data->type.dtype);
  const Sizes& sizes = data->type.sizes;
  const Expr count = segments.lengths->type.sizes.back();
  Sizes lead(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(axis) + 1);
  Value* place = b.contiguous(b("expand", {b("arange", {number(sizes[axis])}), b.ints(lead)}));
  Value* owner = b("searchsorted.Tensor", {b.contiguous(segments.ends), place, Scalar(false), Scalar(true)});
  if (segments.first)
    owner = b("masked_fill.Tensor", {owner, b("lt.Tensor", {place, segments.first}),
                                     b("full", {b.ints(Sizes{}), number(count), DType::i64})});
  for (size_t d = axis + 1; d < sizes.size(); ++d) owner = b("unsqueeze", {owner, Scalar(-1)});
  Reduction reduction = reduction_of(call);
  Sizes all = sizes, wanted = sizes;
  all[axis] = count + Expr(1);
  wanted[axis] = count;
  Argument start = call.given("initial") ? call.arg("initial") : Argument(Scalar(reduction.start));
  Value* out = b("new_full", {data, b.ints(all), start});
  Argument dim = Scalar(static_cast<int64_t>(axis));
  out = b("scatter_reduce.two", {out, dim, b("expand", {owner, b.ints(sizes)}), data, std::string(reduction.scatter)});
  out = b.contiguous(b("slice.Tensor", {out, dim, Scalar(0), number(count)}));
  if (call.string("reduce") == "mean") {
    Value* lengths = segments.lengths;
    for (size_t d = axis + 1; d < sizes.size(); ++d) lengths = b("unsqueeze", {lengths, Scalar(-1)});
    if (call.given("initial")) lengths = b("clamp_min", {lengths, Scalar(1)});  // without elements: the start itself
    out = b.div(out, b.to(lengths, data->type.dtype));
  }
  call.result(out);
}

// Bit by bit: the parity of how often it is set. Floats count with the bits of the double they are.
void build_hash(Build& b) {
  DecomposeCall& call = b.call();
  if (call.constant_integer("mode") != 0) refuse(call, "K0201", "Only mode 0 (exclusive or) is known");
  Value* self = call.tensor("self");
  if (is_complex(self->type.dtype)) refuse_dtype(call, self->type.dtype);
  Value* word = is_float(self->type.dtype) ? b("view.dtype", {b.contiguous(b.to(self, DType::f64)), DType::i64})
                                           : b.to(self, DType::i64);
  Value* shift = b("arange", {Scalar(64)});
  Value* bit = b("bitwise_and.Scalar",
                 {b("bitwise_right_shift.Tensor", {b("unsqueeze", {word, Scalar(-1)}), shift}), Scalar(1)});
  Sizes dims;
  std::vector<bool> reduced = wrap_dims(call, call.constant_integers("dim"), rank_of(self), true);
  for (size_t d = 0; d < reduced.size(); ++d)
    if (reduced[d]) dims.push_back(Expr(static_cast<int64_t>(d)));
  if (!dims.empty()) bit = b("sum.dim_IntList", {bit, b.ints(dims), call.arg("keepdim")});
  bit = b("bitwise_and.Scalar", {bit, Scalar(1)});
  Value* parity = b.sum(b("bitwise_left_shift.Tensor", {bit, shift}), {-1}, false);
  call.result(b.to(parity, DType::u64));
}

}  // namespace

void register_segments(Registry& r) {
  Sample::TensorSpec data = spec({2, 6, 3}), lengths = spec({2, 3}, DType::i64, 2, 2);
  std::vector<Sample> samples;
  for (const char* name : {"sum", "mean", "max", "min", "prod"})
    samples.push_back({{data, std::string(name), lengths, Argument::None{}, Argument::None{}, Scalar(1)}});
  samples.push_back({{spec({4}), std::string("mean"), spec({3}, DType::i64, 0, 1), Argument::None{}, Argument::None{},
                      Scalar(0), Scalar(true), Scalar(3.0)}});
  samples.push_back({{data, std::string("sum")}, true});
  samples.push_back({{data, std::string("median"), lengths}, true});
  add_composite(r, {.schema = "segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, "
                              "Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
                    .build = build_segment_reduce,
                    .samples = samples});
  add_composite(r, {.schema = "hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor",
                    .build = build_hash,
                    .samples = {{{spec({3, 4})}},
                                {{spec({3, 4}, DType::i32), std::vector<int64_t>{1}, Scalar(true)}},
                                {{spec({}, DType::boolean)}},
                                {{spec({3}), std::vector<int64_t>{}, Scalar(false), Scalar(1)}, true}}});
}

}  // namespace kiln
