// fractional_max_pool2d and 3d: the maxima of windows of one size whose places the caller's random numbers decide. The
// places are rounded step by step in the type of those numbers, as eager does: one place more or less is another
// result.
#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

using List = std::vector<int64_t>;

struct Places {
  Build& b;
  DType dtype;  // of the random numbers

  Value* rounded(Value* x) { return b.to(b.to(x, dtype), compute_dtype(dtype)); }
  Value* whole(Value* x) { return b.to(b("trunc", {x}), DType::i64); }

  // Where the windows begin along one dimension: [images, channels, windows] of `sample`, [images, channels].
  Value* begins(Value* sample, const Expr& input, const Expr& windows, int64_t kernel) {
    const Expr room = input - Expr(kernel), steps = max_expr(windows - Expr(1), Expr(1));
    const DType compute = compute_dtype(dtype);
    auto number_of = [&](const Expr& e) {
      return rounded(b.to(b("full", {b.ints(Sizes{}), number(e), DType::i64}), compute));
    };
    Value* step = rounded(b.div(number_of(room), number_of(steps)));
    Value* s = b("unsqueeze", {b.to(sample, compute), Scalar(-1)});
    Value* count = b("arange", {number(windows), DType::i64});
    Value* moved = rounded(b.mul(rounded(b.add(s, b.to(count, compute))), step));
    Value* place = b.sub(whole(moved), whole(rounded(b.mul(s, step))));
    Value* last = b("eq.Tensor", {count, b("full", {b.ints(Sizes{}), number(windows - Expr(1)), DType::i64})});
    return b("where.self", {last, b("full", {b.ints(Sizes{}), number(room), DType::i64}), place});
  }
};

void build_fractional(Build& b, size_t spatial) {
  DecomposeCall& call = b.call();
  Value *self = call.tensor("self"), *samples = call.tensor("random_samples");
  const auto kernel = call.constant_integers("kernel_size");
  const Sizes windows = call.integers("output_size");
  if (!is_float(self->type.dtype) || samples->type.dtype != self->type.dtype) refuse_dtype(call, samples->type.dtype);
  if (kernel.size() != spatial || windows.size() != spatial || rank_of(samples) != 3)
    refuse(call, "K0219",
           str("needs ", spatial, " kernel sizes, ", spatial, " output sizes, and samples of 3 dimensions"));
  const bool single = rank_of(self) == static_cast<int64_t>(spatial) + 1;
  if (!single && rank_of(self) != static_cast<int64_t>(spatial) + 2)
    refuse(call, "K0219", "wrong number of dimensions of the input");
  if (single) self = b("unsqueeze", {self, Scalar(0)});
  const Sizes sizes = sizes_of(self);
  for (size_t d = 0; d < spatial; ++d)
    if (kernel[d] < 1 || prove_lt(sizes[2 + d], windows[d] + Expr(kernel[d] - 1), call.ranges()) == Proof::yes)
      refuse(call, "K0219", "a window is too large for the input");

  // [images, channels, windows…, places of a window…], as flat places of an image.
  Places places{b, samples->type.dtype};
  Value* flat = nullptr;
  Sizes shape = {sizes[0], sizes[1]};
  Expr area(1), places_in_window(1);
  for (size_t d = 0; d < spatial; ++d) {
    // In two dimensions the first number is for the columns.
    const size_t which = spatial == 2 ? 1 - d : d;
    Value* sample = b("select.int", {samples, Scalar(2), Scalar(static_cast<int64_t>(which))});
    Sizes at = {sizes[0], sizes[1]}, inside;
    at.resize(2 + 2 * spatial, Expr(1));
    inside.resize(spatial, Expr(1));
    at[2 + d] = windows[d];
    inside[d] = Expr(kernel[d]);
    Value* begin = b.view(places.begins(sample, sizes[2 + d], windows[d], kernel[d]), at);
    Value* place = b.add(begin, b.view(b("arange", {Scalar(kernel[d]), DType::i64}), inside));
    flat = flat ? b.add(b.mul(flat, number(sizes[2 + d])), place) : place;
    shape.push_back(windows[d]);
    area = area * sizes[2 + d];
    places_in_window = places_in_window * Expr(kernel[d]);
  }
  Sizes all = shape;
  for (size_t d = 0; d < spatial; ++d) all.push_back(Expr(kernel[d]));
  Expr count(1);
  for (size_t d = 2; d < all.size(); ++d) count = count * all[d];
  flat = b("expand", {flat, b.ints(all)});
  Value* image = b.view(self, {sizes[0], sizes[1], area});
  Value* found = b("gather", {image, Scalar(2), b.view(flat, {sizes[0], sizes[1], count})});
  Sizes rows = shape;
  rows.push_back(places_in_window);
  found = b.view(found, rows);
  flat = b.view(flat, rows);

  // The first of equal values, but the last NaN.
  Value* best = b("amax", {found, b.ints({-1}), Scalar(true)});
  Value* at = b("argmax", {found, Scalar(-1), Scalar(true)});
  Value* number_in_window = b("arange", {number(places_in_window), DType::i64});
  Value* of_nan = b("where.ScalarOther", {b("isnan", {found}), number_in_window, Scalar(-1)});
  at = b("where.self", {b("isnan", {best}), b("amax", {of_nan, b.ints({-1}), Scalar(true)}), at});
  Value* index = b("gather", {flat, Scalar(-1), at});
  Value* results[] = {best, index};
  for (int i = 0; i < 2; ++i) {
    Value* result = b("squeeze.dim", {results[i], Scalar(-1)});
    if (single) result = b("squeeze.dim", {result, Scalar(0)});
    call.result(i, b.contiguous(result));
  }
}

}  // namespace

void register_fractional_pooling(Registry& r) {
  for (size_t spatial : {2, 3}) {
    const auto rank = static_cast<int64_t>(spatial);
    List image = {2, 3, 9, 8, 7}, kernel(spatial, 2), windows(spatial, 3);
    image.resize(spatial + 2);
    const List single(image.begin() + 1, image.end());
    add_composite(
        r, {.schema = str("fractional_max_pool", spatial, "d(Tensor self, int[", spatial, "] kernel_size, int[",
                          spatial, "] output_size, Tensor random_samples) -> (Tensor, Tensor)"),
            .build = [spatial](Build& b) { build_fractional(b, spatial); },
            .samples = {{{spec(image), kernel, windows, spec({2, 3, rank}, DType::f32, 0, 0.99)}},
                        {{spec(single, DType::f64), kernel, windows, spec({1, 3, rank}, DType::f64, 0, 0.99)}},
                        {{spec(image, DType::bf16), kernel, windows, spec({2, 3, rank}, DType::bf16, 0, 0.99)}},
                        {{spec(image), kernel, List(spatial, 9), spec({2, 3, rank}, DType::f32, 0, 0.99)}, true}}});
  }
}

}  // namespace kiln
