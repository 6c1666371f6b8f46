// Advanced indexing: x[:, i, j] with broadcast index tensors, None where a dimension is kept, and bool masks. A mask of
// rank r stands for r index tensors: the columns of its nonzero().
//
// The indexed dimensions are replaced by the broadcast dimensions of the indices; they stand where the first indexed
// dimension was if the indexed ones are neighbours, otherwise in front.
#pragma once
#include "ops/layout.h"
#include "ops/lower_call.h"

namespace kiln {

struct IndexPlan {
  // For each dimension of self that is indexed: which tensor of the argument list, and which column of a mask.
  struct Source {
    size_t dim = 0;
    size_t argument = 0;
    int column = -1;  // -1: an index tensor
  };
  std::vector<Source> sources;
  Sizes index_sizes;         // broadcast sizes of all indices
  size_t place = 0;          // where they stand in the result
  std::vector<size_t> kept;  // dimensions of self that stay, in order
  Sizes result;
};

// What one element of the list is: its sizes, and for a mask the expression for how many of its elements are true.
struct IndexArgument {
  bool given = false, mask = false;
  Sizes sizes;
  Expr count;
};
IndexPlan plan_index(const OpCall& call, const Sizes& self, const std::vector<IndexArgument>& indices,
                     const RangeEnv& ranges);

// The arguments of a symbolic call. The number of true elements of a mask is a size that the file names in the result
// (`known`), or a new symbol.
std::vector<IndexArgument> index_arguments(const OpCall& call, const std::vector<Value*>& indices,
                                           const std::optional<Expr>& known);

// Where `mask` is given and false, an index is not looked at. Clamped ones are cut to the range instead of refused.
struct IndexGuard {
  loops::ValueId mask = loops::no_value;
  bool clamped = false;
};

// Lowering: runs nonzero for masks; afterwards gives the index into self for an index of the broadcast dimensions and
// of the kept ones.
class IndexLowering {
 public:
  IndexLowering(LowerCall& call, const IndexPlan& plan, const Sizes& self, const std::vector<Value*>& indices,
                const std::vector<IndexArgument>& arguments);
  std::vector<Expr> at(loops::KernelBuilder& k, const std::vector<Expr>& broadcast, const std::vector<Expr>& kept,
                       IndexGuard guard = {}) const;

 private:
  struct Loaded {
    loops::BufferId buffer;
    Sizes sizes;  // of one index
  };
  LowerCall& call_;
  const IndexPlan& plan_;
  const Sizes& self_;
  std::vector<Loaded> loaded_;  // by source
  int site_;
};

// Concrete indices: one row-major list of positions per source, wrapped and checked.
struct ConcreteIndex {
  IndexPlan plan;
  std::vector<std::vector<int64_t>> positions;
  std::vector<int64_t> index_sizes, result;
  // Calls f(element offset into self, row-major position in the result) for every element of the result.
  void for_each(const Tensor& self, const std::function<void(int64_t, int64_t)>& f) const;
};
ConcreteIndex concrete_index(const OpCall& call, const Tensor& self, const std::vector<std::optional<Tensor>>& indices);

}  // namespace kiln
