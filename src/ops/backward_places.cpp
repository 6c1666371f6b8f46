// Gradients of operators that take elements from places: selections, windows, paddings. Each element's gradient goes
// back to where the element came from, and meets others there.
#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

using List = std::vector<int64_t>;

Value* zeros(Build& b, Value* like, const Sizes& sizes) { return b("new_zeros", {like, b.ints(sizes)}); }

void register_selections(Registry& r) {
  add_composite(
      r, {.schema = "index_select_backward(Tensor grad, SymInt[] self_sizes, int dim, Tensor index) -> Tensor",
          .build =
              [](Build& b) {
                DecomposeCall& call = b.call();
                Value* g = call.tensor("grad");
                call.result(b("index_add",
                              {zeros(b, g, call.integers("self_sizes")), call.arg("dim"), call.tensor("index"), g}));
              },
          .samples = {{{spec({3, 4}), List{5, 4}, Scalar(0), spec({3}, DType::i64, 0, 4)}}}});
  add_composite(r, {.schema = "trace_backward(Tensor grad, SymInt[] sizes) -> Tensor",
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          Value *g = call.tensor("grad"), *none = zeros(b, g, call.integers("sizes"));
                          Value* part = b("diagonal", {none});
                          call.result(b("diagonal_scatter", {none, b("expand", {g, b.ints(sizes_of(part))})}));
                        },
                    .samples = {{{spec({}), List{3, 4}}}}});
  add_composite(r,
                {.schema = "value_selecting_reduction_backward(Tensor grad, int dim, Tensor indices, SymInt[] sizes, "
                           "bool keepdim) -> Tensor",
                 .build =
                     [](Build& b) {
                       DecomposeCall& call = b.call();
                       Value *g = call.tensor("grad"), *index = call.tensor("indices");
                       const Sizes sizes = call.integers("sizes");
                       if (!call.boolean("keepdim") && !sizes.empty()) {
                         g = b("unsqueeze", {g, call.arg("dim")});
                         index = b("unsqueeze", {index, call.arg("dim")});
                       }
                       call.result(b("scatter.src", {zeros(b, g, sizes), call.arg("dim"), index, g}));
                     },
                 .samples = {{{spec({3}), Scalar(1), spec({3}, DType::i64, 0, 3), List{3, 4}, Scalar(false)}},
                             {{spec({1, 4}), Scalar(0), spec({1, 4}, DType::i64, 0, 2), List{3, 4}, Scalar(true)}}}});
  add_composite(r, {.schema = "cummaxmin_backward(Tensor grad, Tensor input, Tensor indices, int dim) -> Tensor",
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          Value *g = call.tensor("grad"), *none = zeros(b, g, sizes_of(call.tensor("input")));
                          call.result(b("scatter_add", {none, call.arg("dim"), call.tensor("indices"), g}));
                        },
                    .samples = {{{spec({3, 4}), spec({3, 4}), spec({3, 4}, DType::i64, 0, 2), Scalar(0)}}}});
  add_composite(r, {.schema = "masked_select_backward(Tensor grad, Tensor input, Tensor mask) -> Tensor",
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          Value* none = b("zeros_like", {call.tensor("input")});
                          call.result(b("masked_scatter", {none, call.tensor("mask"), call.tensor("grad")}));
                        },
                    .samples = {{{spec({6}), spec({2, 3}), spec({2, 3}, DType::boolean, 0, 1)}}}});
}

// Each place of the input is in several windows.
void build_unfold(Build& b) {
  DecomposeCall& call = b.call();
  Value* g = call.tensor("grad_in");
  const Sizes sizes = call.integers("input_sizes");
  if (sizes.empty()) return call.result(b("reshape", {g, b.ints(Sizes{})}));
  int64_t dim = call.constant_integer("dim");
  if (dim < 0) dim += static_cast<int64_t>(sizes.size());
  Value* places = b("arange", {number(sizes.at(static_cast<size_t>(dim))), DType::i64});
  Value* windows = b("unfold", {places, Scalar(0), call.arg("size"), call.arg("step")});
  Value* beside = b("movedim.int", {g, Scalar(-1), Scalar(dim + 1)});
  Value* flat = b("flatten.using_ints", {beside, Scalar(dim), Scalar(dim + 1)});
  call.result(b("index_add",
                {zeros(b, g, sizes), Scalar(dim), b("flatten.using_ints", {windows, Scalar(0), Scalar(-1)}), flat}));
}

// The places that a padding takes its elements from are had by padding the places.
void build_padding(Build& b, size_t spatial, const char* pad) {
  DecomposeCall& call = b.call();
  Value *g = call.tensor("grad_output"), *self = call.tensor("self");
  const Sizes padding = call.integers("padding");
  if (padding.size() != 2 * spatial) refuse(call, "K0206", "padding has the wrong number of values");
  for (size_t d = 0; d < spatial; ++d) {
    const int64_t dim = rank_of(self) - 1 - static_cast<int64_t>(d);
    const Expr& size = sizes_of(self)[static_cast<size_t>(dim)];
    Value* places = b("unsqueeze", {b("arange", {number(size), DType::f64}), Scalar(0)});
    Value* from = b(pad, {places, b.ints(Sizes{padding[2 * d], padding[2 * d + 1]})});
    from = b.to(b("squeeze.dim", {from, Scalar(0)}), DType::i64);
    Sizes sizes = sizes_of(g);
    sizes[static_cast<size_t>(dim)] = size;
    g = b("index_add", {zeros(b, g, sizes), Scalar(dim), from, g});
  }
  call.result(g);
}

void register_windows_and_paddings(Registry& r) {
  add_composite(
      r, {.schema = "unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> Tensor",
          .build = build_unfold,
          .samples = {{{spec({3, 4, 2}), List{3, 5}, Scalar(1), Scalar(2), Scalar(1)}},
                      {{spec({2, 4, 3}), List{6, 4}, Scalar(0), Scalar(3), Scalar(2)}}}});
  for (size_t spatial : {1, 2, 3})
    for (bool reflect : {true, false}) {
      List in = {2, 3, 5, 6, 4}, out, padding;
      in.resize(spatial + 2);
      out = in;
      for (size_t d = 0; d < spatial; ++d) {
        out[out.size() - 1 - d] += 3;
        padding.insert(padding.end(), {1, 2});
      }
      add_composite(
          r, {.schema = str(reflect ? "reflection" : "replication", "_pad", spatial,
                            "d_backward(Tensor grad_output, Tensor self, SymInt[", 2 * spatial, "] padding) -> Tensor"),
              .build = [spatial, reflect](
                           Build& b) { build_padding(b, spatial, reflect ? "reflection_pad1d" : "replication_pad1d"); },
              .samples = {{{spec(out), spec(in), padding}}}});
    }
}

}  // namespace

void register_backward_places(Registry& r) {
  register_selections(r);
  register_windows_and_paddings(r);
}

}  // namespace kiln
