// Declares view operators by a table row: the layout of the result over the argument's storage, and the index map of
// the same view on a functional value (Loops has no views: there a view is a copy nest, which fusion removes).
#pragma once
#include "ops/layout.h"
#include "ops/lower_call.h"

namespace kiln {

// The arguments of a view, symbolic (rule, lowering) or concrete (reference): one row serves all three.
class ViewArgs {
 public:
  ViewArgs(const OpCall& call, TensorType self, const RangeEnv& ranges)
      : call_(call), self_(std::move(self)), ranges_(ranges) {}
  virtual ~ViewArgs() = default;
  const OpCall& call() const { return call_; }
  const TensorType& self() const { return self_; }
  const RangeEnv& ranges() const { return ranges_; }
  int64_t rank() const { return static_cast<int64_t>(self_.sizes.size()); }
  int64_t dim(std::string_view name) const { return wrap_dim(call_, number(name).value(), rank()); }
  size_t at(std::string_view name) const { return static_cast<size_t>(dim(name)); }
  virtual Expr number(std::string_view name) const = 0;
  virtual Sizes numbers(std::string_view name) const = 0;
  virtual bool given(std::string_view name) const = 0;
  virtual Sizes sizes_of(std::string_view tensor) const = 0;

 private:
  const OpCall& call_;
  TensorType self_;
  const RangeEnv& ranges_;
};

class SymbolicViewArgs : public ViewArgs {
 public:
  SymbolicViewArgs(const OpCall& call, const RangeEnv& ranges) : ViewArgs(call, call.tensor("self")->type, ranges) {}
  Expr number(std::string_view name) const override { return call().integer(name); }
  Sizes numbers(std::string_view name) const override { return call().integers(name); }
  bool given(std::string_view name) const override { return call().given(name); }
  Sizes sizes_of(std::string_view tensor) const override { return call().tensor(tensor)->type.sizes; }
};

class ConcreteViewArgs : public ViewArgs {
 public:
  ConcreteViewArgs(const OpCall& call, const ReferenceCall& values);
  Expr number(std::string_view name) const override { return Expr(values_.integer(name)); }
  Sizes numbers(std::string_view name) const override { return to_exprs(values_.integers(name)); }
  bool given(std::string_view name) const override { return values_.given(name); }
  Sizes sizes_of(std::string_view tensor) const override { return to_exprs(values_.tensor(tensor).sizes); }

 private:
  const ReferenceCall& values_;
};

struct ViewLayout {
  Sizes sizes, strides;
  Expr offset;
  bool copies = false;  // a reshape that cannot be a view: the strides are those of a new tensor
};
using LayoutFn = std::function<ViewLayout(const ViewArgs&)>;
// Index into self for an index into the result.
using IndexMapFn =
    std::function<std::vector<Expr>(const ViewArgs&, const std::vector<Expr>& index, const Sizes& sizes)>;

struct ViewRow {
  std::string schema;
  LayoutFn layout;
  IndexMapFn index;
  std::vector<Sample> samples = {};
  std::string copy_schema = {};  // also declare the variant that copies ("permute_copy(…) -> Tensor")
  bool always_copies = false;    // the row itself gives a new tensor
  OpFacts facts = complex_by(ComplexRule::parts);  // of the view; a copying variant has its complex form alone
};
void add_view(Registry& registry, const ViewRow& row);

// The rows of slice.Tensor, select.int and diagonal: writes to such a part have the same arguments.
ViewRow slice_view();
ViewRow select_view();
ViewRow diagonal_view();

// Views that give a list: pieces of one dimension.
struct Piece {
  Expr start, length;
};
struct SplitRow {
  std::string schema;
  std::function<std::vector<Piece>(const ViewArgs&)> pieces;
  std::function<int64_t(const ViewArgs&)> dim = {};  // empty: the argument "dim"
  bool selects = false;                              // unbind: the dimension goes away
  bool copies = false;
  std::vector<Sample> samples = {};
  OpFacts facts = complex_by(ComplexRule::parts);
};
void add_split(Registry& registry, const SplitRow& row);

// The map of a change of sizes with the same elements in row-major order. Dimensions that line up keep their indices;
// only groups that merge or split use products, divisions and remainders.
std::vector<Expr> reshape_index(const Sizes& from, const Sizes& to, const std::vector<Expr>& index,
                                const RangeEnv& ranges);
// The ranges with 0 <= index variable < size added.
RangeEnv with_indices(const RangeEnv& ranges, const std::vector<Expr>& index, const Sizes& sizes);

// The index of the element at an address (in elements, from the tensor's own offset) of a dense layout. Throws K0209
// when the layout has gaps or overlaps: then a functional value has no element there.
std::vector<Expr> index_of_address(const OpCall& call, const TensorType& type, const Expr& address,
                                   const RangeEnv& env);

// Small parts of rows.
inline ViewLayout whole_view(const ViewArgs& args) {
  return {args.self().sizes, args.self().strides, args.self().offset};
}
template <class List>
void insert_at(List& list, size_t at, typename List::value_type value) {
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), std::move(value));
}
template <class List>
void erase_at(List& list, size_t at) {
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
}
[[noreturn]] void refuse_view(const ViewArgs& args, std::string_view why);  // K0208

// The parts of the family of views, each in its file.
void register_reshapes(Registry& registry);
void register_view_parts(Registry& registry);
void register_splits(Registry& registry);

// A tensor over the same storage.
Tensor view_of(const Tensor& tensor, const ViewLayout& layout);

}  // namespace kiln
