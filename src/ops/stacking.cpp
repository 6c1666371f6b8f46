// Operators that arrange several tensors: hstack, meshgrid, block_diag and their relatives, as decompositions.
#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/view_inverse.h"

namespace kiln {

namespace {

using List = std::vector<int64_t>;
using Specs = std::vector<Sample::TensorSpec>;

std::vector<Value*> given_tensors(Build& b) {
  auto tensors = b.call().tensors("tensors");
  if (tensors.empty()) refuse(b.call(), "K0201", "expects a non-empty list of tensors");
  for (const Value* tensor : tensors)
    if (!tensor) refuse(b.call(), "K0201", "the list must hold tensors only");
  return tensors;
}

Value* joined(Build& b, const std::vector<Value*>& tensors, int64_t dim) {
  return b("cat", {list_of(tensors), Scalar(dim)});
}

void register_stacks(Registry& r) {
  std::vector<Sample> samples = {
      {{Specs{spec({2, 3}), spec({2, 3})}}}, {{Specs{spec({3}), spec({3})}}}, {{Specs{spec({}), spec({})}}}};
  auto stack = [&](const char* name, const char* widen, std::function<int64_t(const Value*)> dim) {
    add_composite(r, {.schema = str(name, "(Tensor[] tensors) -> Tensor"),
                      .build =
                          [widen = std::string(widen), dim](Build& b) {
                            std::vector<Value*> wide;
                            for (Value* tensor : given_tensors(b)) wide.push_back(b(widen, {tensor}));
                            b.call().result(joined(b, wide, dim(wide[0])));
                          },
                      .samples = samples});
  };
  stack("hstack", "atleast_1d", [](const Value* first) { return rank_of(first) == 1 ? int64_t{0} : int64_t{1}; });
  stack("vstack", "atleast_2d", [](const Value*) { return int64_t{0}; });
  stack("dstack", "atleast_3d", [](const Value*) { return int64_t{2}; });
  add_composite(r, {.schema = "column_stack(Tensor[] tensors) -> Tensor",
                    .build =
                        [](Build& b) {
                          std::vector<Value*> wide;
                          for (Value* tensor : given_tensors(b))
                            wide.push_back(rank_of(tensor) < 2 ? b("reshape", {tensor, b.ints({-1, 1})}) : tensor);
                          b.call().result(joined(b, wide, 1));
                        },
                    .samples = {{{Specs{spec({3}), spec({3, 2})}}}}});
}

// Views of several tensors: taken apart early, so that a write to one of them is seen through its view.
void register_broadcasts(Registry& r) {
  add_composite(r, {.schema = "broadcast_tensors(Tensor[] tensors) -> Tensor[]",
                    .build =
                        [](Build& b) {
                          auto tensors = given_tensors(b);
                          std::vector<Sizes> shapes;
                          for (const Value* tensor : tensors) shapes.push_back(tensor->type.sizes);
                          Sizes sizes = broadcast_sizes(b.call(), shapes, b.call().ranges());
                          for (size_t i = 0; i < tensors.size(); ++i)
                            b.call().result(static_cast<int>(i), b("expand", {tensors[i], b.ints(sizes)}));
                        },
                    .samples = {{{Specs{spec({2, 1}), spec({3})}}}, {{Specs{spec({2}), spec({3})}}, true}},
                    .early = true});
  auto meshgrid = [](Build& b, bool swapped) {
    auto tensors = given_tensors(b);
    if (swapped && tensors.size() > 1) std::swap(tensors[0], tensors[1]);
    Sizes sizes;
    for (const Value* tensor : tensors) {
      if (rank_of(tensor) > 1) refuse(b.call(), "K0201", "expects scalars or vectors");
      sizes.push_back(product(tensor->type.sizes));
    }
    std::vector<Value*> grids;
    for (size_t i = 0; i < tensors.size(); ++i) {
      Sizes own(sizes.size(), Expr(1));
      own[i] = sizes[i];
      grids.push_back(b("expand", {b.view(tensors[i], own), b.ints(sizes)}));
    }
    if (swapped && grids.size() > 1) std::swap(grids[0], grids[1]);
    for (size_t i = 0; i < grids.size(); ++i) b.call().result(static_cast<int>(i), grids[i]);
  };
  add_composite(r, {.schema = "meshgrid(Tensor[] tensors) -> Tensor[]",
                    .build = [meshgrid](Build& b) { meshgrid(b, false); },
                    .samples = {{{Specs{spec({2}), spec({3})}}}, {{Specs{spec({2, 2})}}, true}},
                    .early = true});
  add_composite(r, {.schema = "meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]",
                    .build =
                        [meshgrid](Build& b) {
                          std::string how = b.call().string("indexing");
                          if (how != "ij" && how != "xy") refuse(b.call(), "K0201", "indexing must be 'ij' or 'xy'");
                          meshgrid(b, how == "xy");
                        },
                    .samples = {{{Specs{spec({2}), spec({3})}, std::string("ij")}},
                                {{Specs{spec({2}), spec({3}), spec({4})}, std::string("xy")}},
                                {{Specs{spec({2})}, std::string("ba")}, true}},
                    .early = true});
}

// [[a, 0], [0, b]]
void build_block_diag(Build& b) {
  auto tensors = given_tensors(b);
  Promotion promotion;
  std::vector<Value*> blocks;
  Expr columns(0);
  for (Value* tensor : tensors) {
    if (rank_of(tensor) > 2) refuse(b.call(), "K0201", "expects at most 2 dimensions");
    promotion.add_tensor(tensor->type.dtype, !tensor->type.sizes.empty());
    blocks.push_back(b("atleast_2d", {tensor}));
    columns = columns + blocks.back()->type.sizes[1];
  }
  std::vector<Value*> rows;
  Expr before(0);
  for (Value* block : blocks) {
    Expr width = block->type.sizes[1];
    rows.push_back(b("constant_pad_nd", {b.to(block, promotion.result()), b.ints({before, columns - before - width})}));
    before = before + width;
  }
  b.call().result(joined(b, rows, 0));
}

void build_cartesian(Build& b) {
  auto tensors = given_tensors(b);
  for (const Value* tensor : tensors)
    if (rank_of(tensor) != 1) refuse(b.call(), "K0201", "expects vectors");
  if (tensors.size() == 1) return b.call().result(b("alias", {tensors[0]}));
  Sizes sizes;
  for (const Value* tensor : tensors) sizes.push_back(tensor->type.sizes[0]);
  std::vector<Value*> columns;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Sizes own(sizes.size(), Expr(1));
    own[i] = sizes[i];
    columns.push_back(b.view(b("expand", {b.view(tensors[i], own), b.ints(sizes)}), {product(sizes)}));
  }
  b.call().result(b("stack", {list_of(columns), Scalar(1)}));
}

void register_arrangements(Registry& r) {
  add_composite(r, {.schema = "block_diag(Tensor[] tensors) -> Tensor",
                    .build = build_block_diag,
                    .samples = {{{Specs{spec({2, 3}), spec({2}), spec({})}}},
                                {{Specs{spec({2}, DType::i64), spec({1, 2})}}},
                                {{Specs{spec({1, 1, 1})}}, true}}});
  add_composite(r, {.schema = "cartesian_prod(Tensor[] tensors) -> Tensor",
                    .build = build_cartesian,
                    .samples = {{{Specs{spec({2}), spec({3})}}}, {{Specs{spec({2})}}}, {{Specs{spec({2, 2})}}, true}}});
  add_composite(
      r, {.schema = "sum_to_size(Tensor(a) self, SymInt[] size) -> Tensor(a)",
          .build =
              [](Build& b) {
                Value* self = b.call().tensor("self");
                Sizes want = b.call().integers("size"), dims;
                const Sizes& have = self->type.sizes;
                if (want.size() > have.size()) refuse(b.call(), "K0201", "more sizes than the tensor has dimensions");
                if (want.empty()) return b.call().result(b("sum", {self}));
                size_t lead = have.size() - want.size();
                for (size_t d = 0; d < have.size(); ++d) {
                  if (d < lead || (is_one(want[d - lead]) && !is_one(have[d])))
                    dims.push_back(Expr(static_cast<int64_t>(d)));
                  else if (prove_eq(want[d - lead], have[d], b.call().ranges()) == Proof::no)
                    refuse(b.call(), "K0201", "sizes do not fit");
                }
                Value* out = dims.empty() ? self : b("sum.dim_IntList", {self, b.ints(dims), Scalar(true)});
                b.call().result(lead > 0 ? b.view(out, want) : out == self ? b("alias", {self}) : out);
              },
          .samples = {{{spec({2, 3, 4}), List{3, 1}}}, {{spec({2, 3}), List{2, 3}}}, {{spec({2, 3}), List{4}}, true}}});
}

}  // namespace

void register_stacking(Registry& registry) {
  register_stacks(registry);
  register_broadcasts(registry);
  register_arrangements(registry);
  registry.describe({"column_stack", "dstack", "hstack", "sum_to_size", "vstack"}, complex_by(ComplexRule::parts));
  registry.describe({"sum_to_size"}, {.inverse_view = view_inverse::itself});
  registry.describe({"sum_to_size"}, {.shares = Sharing::same_sizes});
}

}  // namespace kiln
