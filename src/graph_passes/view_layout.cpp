#include "graph_passes/view_layout.h"

#include "ops/op_record.h"

namespace kiln {

namespace {

Proof both(Proof a, Proof b) {
  if (a == Proof::no || b == Proof::no) return Proof::no;
  return a == Proof::yes && b == Proof::yes ? Proof::yes : Proof::unknown;
}

// Strides of dimensions with one element do not matter.
Proof same_layout(const TensorType& a, const TensorType& b, const RangeEnv& ranges) {
  if (a.sizes.size() != b.sizes.size()) return Proof::no;
  Proof out = Proof::yes;
  for (size_t i = 0; i < a.sizes.size(); ++i) {
    if (a.sizes[i].is_constant(1)) continue;
    Proof here = prove_eq(a.strides[i], b.strides[i], ranges);
    // Unequal strides say nothing where the size may turn out to be 1.
    if (here == Proof::no && range_of(a.sizes[i], ranges).contains(1)) here = Proof::unknown;
    out = both(out, here);
  }
  return out;
}

Proof same_sizes(const TensorType& a, const TensorType& b, const RangeEnv& ranges) {
  Proof out = Proof::yes;
  for (size_t i = 0; i < a.sizes.size(); ++i) out = both(out, prove_eq(a.sizes[i], b.sizes[i], ranges));
  return out;
}

}  // namespace

// As at::detail::computeStride: dimensions of the old tensor that lie one after another in memory form a block; the new
// dimensions must split into the same blocks.
Proof can_view(const std::vector<Expr>& sizes, const std::vector<Expr>& strides, const std::vector<Expr>& new_sizes,
               const RangeEnv& ranges) {
  for (const Expr& size : sizes)
    if (size.is_constant(0)) return Proof::yes;
  TensorType given, dense;
  given.sizes = dense.sizes = sizes;
  given.strides = strides;
  dense.strides = contiguous_strides(sizes);
  if (same_layout(given, dense, ranges) == Proof::yes) return Proof::yes;
  Proof sure = Proof::yes;
  size_t next = new_sizes.size();
  Expr block = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    block = block * sizes[d];
    bool ends = d == 0;
    if (!ends && !sizes[d - 1].is_constant(1)) {
      // The block goes on where the outer dimension steps over exactly this block.
      Expr step = sizes[d] * strides[d];
      size_t inner = d;
      while (inner < sizes.size() && sizes[inner].is_constant(1)) ++inner;
      if (inner < sizes.size()) step = sizes[inner] * strides[inner];
      Proof follows = prove_eq(strides[d - 1], step, ranges);
      if (follows == Proof::unknown) return Proof::unknown;
      ends = follows == Proof::no;
      if (ends && range_of(sizes[d - 1], ranges).contains(1)) sure = Proof::unknown;
    }
    if (!ends) continue;
    Expr taken = 1;
    while (next > 0) {
      Proof full = prove_eq(taken, block, ranges);
      if (full == Proof::yes && !new_sizes[next - 1].is_constant(1)) break;
      if (full == Proof::unknown && prove_lt(taken, block, ranges) != Proof::yes) {
        // Symbolic sizes: take dimensions while they divide the block.
        Expr rest = simplify(mod(block, taken * new_sizes[next - 1]), ranges);
        if (!rest.is_constant(0)) break;
      }
      taken = taken * new_sizes[--next];
    }
    Proof full = prove_eq(taken, block, ranges);
    if (full != Proof::yes) return full == Proof::no ? both(Proof::no, sure) : Proof::unknown;
    block = 1;
  }
  while (next > 0 && new_sizes[next - 1].is_constant(1)) --next;
  if (next != 0) return Proof::unknown;
  return sure;
}

Proof shares_memory(const Node& node, const RangeEnv& ranges, bool layout_open) {
  auto by_layout = [&](Proof shares) { return layout_open && shares == Proof::no ? Proof::unknown : shares; };
  OpCall call(node, node.op->schema);
  if (node.results.size() != 1 || node.results[0]->kind != ValueKind::tensor) return Proof::yes;
  const TensorType& result = node.results[0]->type;
  const Sharing sharing = node.op->facts.shares;
  if (sharing == Sharing::always) return Proof::yes;
  const TensorType& self = call.tensor("self")->type;
  switch (sharing) {
    case Sharing::always:
      return Proof::yes;
    case Sharing::same_layout:
      if (self.dtype != result.dtype || self.device.type != result.device.type) return Proof::no;
      if (node.op->schema.find("copy") >= 0 && call.boolean("copy")) return Proof::no;
      return by_layout(same_layout(self, result, ranges));
    case Sharing::dense: {
      TensorType dense = self;
      dense.strides = contiguous_strides(dense.sizes);
      return same_layout(self, dense, ranges);
    }
    case Sharing::viewable:
      return by_layout(can_view(self.sizes, self.strides, result.sizes, ranges));
    case Sharing::same_sizes:
      return self.sizes.size() == result.sizes.size() ? same_sizes(self, result, ranges) : Proof::no;
  }
  return Proof::yes;
}

}  // namespace kiln
