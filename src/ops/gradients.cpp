// torch.gradient: finite differences along each dimension, with equal or given spacing. The gradients of operators
// (*_backward) are in backward.cpp and backward_layers.cpp.
#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

using List = std::vector<int64_t>;
using Specs = std::vector<Sample::TensorSpec>;

// Pieces of one dimension, counted from either end.
class GradientAxis {
 public:
  GradientAxis(Build& b, Value* x, int64_t dim) : b_(b), x_(x), dim_(dim) {}
  Value* from(int64_t first, int64_t left_out) {  // x[first : size - left_out]
    Expr size = x_->type.sizes[static_cast<size_t>(dim_)];
    return b_("slice.Tensor", {x_, Scalar(dim_), Scalar(first), number(size - Expr(left_out))});
  }
  // One element, as a dimension of size 1.
  Value* first(int64_t i) { return one(Expr(i)); }
  Value* last(int64_t i) { return one(x_->type.sizes[static_cast<size_t>(dim_)] - Expr(i + 1)); }

 private:
  Value* one(const Expr& at) {
    return b_("unsqueeze", {b_("select.int", {x_, Scalar(dim_), number(at)}), Scalar(dim_)});
  }
  Build& b_;
  Value* x_;
  int64_t dim_;
};

Value* joined(Build& b, Value* first, Value* middle, Value* last, int64_t dim) {
  return b("cat", {Argument(Argument::List{Argument(first), Argument(middle), Argument(last)}), Scalar(dim)});
}

Value* evenly_spaced(Build& b, Value* x, int64_t dim, const Argument& spacing, int64_t edge_order) {
  GradientAxis at(b, x, dim);
  auto per_step = [&](Value* v) { return b.div(v, spacing); };
  Value* middle = b.div(per_step(b.sub(at.from(2, 0), at.from(0, 2))), Scalar(2));
  Value *start, *end;
  if (edge_order == 1) {
    start = per_step(b.sub(at.first(1), at.first(0)));
    end = per_step(b.sub(at.last(0), at.last(1)));
  } else {
    // (-3 a + 4 b - c) / 2 from either end, in eager's order: narrow floats round after each step.
    Value* from_start = b.add(b.mul(at.first(0), Scalar(-1.5)), b.mul(at.first(1), Scalar(2)));
    start = per_step(b.sub(from_start, b.mul(at.first(2), Scalar(0.5))));
    Value* from_end = b.sub(b.mul(at.last(2), Scalar(0.5)), b.mul(at.last(1), Scalar(2)));
    end = per_step(b.add(from_end, b.mul(at.last(0), Scalar(1.5))));
  }
  return joined(b, start, middle, end, dim);
}

Value* sum_of_products(Build& b, const std::vector<std::pair<Value*, Value*>>& terms) {
  Value* sum = nullptr;
  for (const auto& [weight, value] : terms) {
    Value* term = b.mul(weight, value);
    sum = sum ? b.add(sum, term) : term;
  }
  return sum;
}

// Weights of three neighbours whose distances are d (left) and e (right).
Value* unevenly_spaced(Build& b, Value* x, int64_t dim, Value* places, int64_t edge_order) {
  Sizes shape(x->type.sizes.size(), Expr(1));
  shape[static_cast<size_t>(dim)] = places->type.sizes[0];
  GradientAxis at(b, x, dim), place(b, b.view(places, shape), dim);
  Value* steps = b.sub(place.from(1, 0), place.from(0, 1));
  GradientAxis step(b, steps, dim);
  Value *d = step.from(0, 1), *e = step.from(1, 0), *both = b.add(d, e);
  Value* middle = sum_of_products(b, {{b("neg", {b.div(e, b.mul(d, both))}), at.from(0, 2)},
                                      {b.div(b.sub(e, d), b.mul(d, e)), at.from(1, 1)},
                                      {b.div(d, b.mul(e, both)), at.from(2, 0)}});
  if (edge_order == 1)
    return joined(b, b.div(b.sub(at.first(1), at.first(0)), step.first(0)), middle,
                  b.div(b.sub(at.last(0), at.last(1)), step.last(0)), dim);
  auto slope = [&](Value* near, Value* far, Value* edge, Value* next, Value* beyond) {
    Value* sum = b.add(near, far);
    return sum_of_products(b, {{b("neg", {b.div(b.add(sum, near), b.mul(near, sum))}), edge},
                               {b.div(sum, b.mul(near, far)), next},
                               {b("neg", {b.div(near, b.mul(far, sum))}), beyond}});
  };
  Value* start = slope(step.first(0), step.first(1), at.first(0), at.first(1), at.first(2));
  Value* end = b("neg", {slope(step.last(0), step.last(1), at.last(0), at.last(1), at.last(2))});
  return joined(b, start, middle, end, dim);
}

// The dimensions asked for; none means all.
List dims_of(const OpCall& call, int64_t rank) {
  List dims;
  if (call.given("dim")) {
    const Argument& arg = call.arg("dim");
    dims = arg.is_list() ? call.constant_integers("dim") : List{call.constant_integer("dim")};
    for (int64_t& dim : dims) dim = wrap_dim(call, dim, rank);
  } else {
    for (int64_t d = 0; d < rank; ++d) dims.push_back(d);
  }
  return dims;
}

void build_gradient(Build& b) {
  DecomposeCall& call = b.call();
  Value* x = call.tensor("self");
  refuse_complex(call, x->type.dtype);
  if (x->type.dtype == DType::u8) refuse_dtype(call, x->type.dtype);
  int64_t order = call.constant_integer("edge_order");
  if (order != 1 && order != 2) refuse(call, "K0201", "only supports edge_order=1 and edge_order=2");
  List dims = dims_of(call, rank_of(x));
  bool given = call.schema().find("spacing") >= 0 && call.given("spacing");
  bool places =
      given && call.schema().args[static_cast<size_t>(call.schema().find("spacing"))].type == SchemaType::tensor_list;
  const Argument* list = given && !places && call.arg("spacing").is_list() ? &call.arg("spacing") : nullptr;
  size_t spacings = places ? call.tensors("spacing").size() : list ? list->as_list().size() : dims.size();
  if (spacings != dims.size()) refuse(call, "K0201", "expected one spacing per dimension");
  for (size_t i = 0; i < dims.size(); ++i) {
    const Expr& size = x->type.sizes[static_cast<size_t>(dims[i])];
    if (prove_le(Expr(order + 1), size, call.ranges()) == Proof::no)
      refuse(call, "K0201", "each dimension must have at least edge_order + 1 elements");
    if (places) {
      call.result(static_cast<int>(i), unevenly_spaced(b, x, dims[i], call.tensors("spacing")[i], order));
    } else {
      Argument spacing = list ? list->as_list()[i] : given ? call.arg("spacing") : Argument(Scalar(1));
      call.result(static_cast<int>(i), evenly_spaced(b, x, dims[i], spacing, order));
    }
  }
}

}  // namespace

void register_gradients(Registry& r) {
  std::string tail = ", int edge_order=1) -> Tensor[]";
  auto add = [&](std::string overload, std::string args, std::vector<Sample> samples) {
    add_composite(r, {.schema = str("gradient.", overload, "(Tensor self, *, ", args, tail),
                      .build = build_gradient,
                      .samples = std::move(samples)});
  };
  Sample::SampleArg none = Argument::None{};
  Sample::TensorSpec x = spec({4, 5});
  add("scalarint", "Scalar? spacing=None, int? dim=None",
      {{{x}}, {{x, Scalar(0.5), Scalar(1), Scalar(2)}}, {{spec({1})}, true}, {{x, none, none, Scalar(3)}, true}});
  add("scalararray", "Scalar spacing, int[] dim", {{{x, Scalar(2), List{1, 0}}}});
  add("array", "int[] dim", {{{x, List{0, 1}}}, {{x, List{-1}, Scalar(2)}}});
  add("scalarrayint", "Scalar[] spacing, int? dim=None", {{{x, List{2, 3}}}, {{x, List{2}}, true}});
  add("scalarrayarray", "Scalar[] spacing, int[] dim", {{{x, List{2, 3}, List{0, 1}}}});
  // Distinct steps: places that are all the same have no slope.
  Specs places = {spec({4}, DType::f32, 0, 9), spec({5}, DType::f32, 0, 9)};
  add("tensorarrayint", "Tensor[] spacing, int? dim=None", {{{x, places}}, {{x, places, none, Scalar(2)}}});
  add("tensorarray", "Tensor[] spacing, int[] dim", {{{x, Specs{places[1]}, List{1}}}});
}

}  // namespace kiln
