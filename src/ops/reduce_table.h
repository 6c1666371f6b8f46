// Declares reductions by a table row: which dimensions go, in which type is accumulated, the Loops reduction with what
// it yields and how its accumulators become results, and an independent formula over one group of elements.
#pragma once
#include "ops/layout.h"
#include "ops/lower_call.h"

namespace kiln {

using loops::ReduceOp;

// out[i] for each result, from the n elements of one group. Floats are always summed in double; `parameter` is the
// row's.
struct GroupFormula {
  void (*real)(const double* x, int64_t n, double* out, double parameter) = nullptr;
  void (*whole)(const int64_t* x, int64_t n, int64_t* out, double parameter) = nullptr;
};
template <class F>
GroupFormula group_formula(F) {
  GroupFormula out;
  out.real = [](const double* x, int64_t n, double* to, double p) { F{}(x, n, to, p); };
  out.whole = [](const int64_t* x, int64_t n, int64_t* to, double p) { F{}(x, n, to, p); };
  return out;
}
template <class F>
GroupFormula float_group_formula(F) {
  GroupFormula out;
  out.real = [](const double* x, int64_t n, double* to, double p) { F{}(x, n, to, p); };
  return out;
}

struct ReduceTypes {
  DType input;  // elements are converted to this
  std::vector<DType> results;
};

enum class ReduceDims : uint8_t {
  all,      // no argument: everything
  list,     // int[] dim; empty or None: everything
  one,      // int dim
  optional  // int? dim; None: everything
};

struct ReduceEmit {
  loops::KernelBuilder& k;
  const LowerCall& call;
  DType dtype;  // compute type of the elements
  Expr count;   // elements of one group
};

struct ReduceRow {
  std::string schema;
  ReduceDims dims = ReduceDims::all;
  std::function<ReduceTypes(const OpCall&, DType self)> types;
  ReduceOp op = ReduceOp::sum;
  ReduceOp bool_op = ReduceOp::any;  // when the elements are bool and the reduction is not any or all itself
  // One element as it is yielded; empty: itself.
  std::function<loops::ValueId(ReduceEmit&, loops::ValueId)> yields = {};
  // Results from accumulators; empty: the first ones.
  std::function<std::vector<loops::ValueId>(ReduceEmit&, const std::vector<loops::ValueId>&)> finish = {};
  GroupFormula formula = {};
  std::function<double(const OpCall&)> parameter = {};
  std::optional<DType> accumulate = {};  // type of the accumulators, where it is not the elements'
  bool needs_elements = false;           // refuses a group without elements
  std::vector<Sample> samples = {};
  bool keeps = true;  // has an argument keepdim
  std::string name_space = "aten";
};
void add_reduction(Registry& registry, ReduceRow row);

// Which dimensions of self go, from the argument `dim` read as `dims` says.
std::vector<bool> reduced_dims(const OpCall& call, ReduceDims dims);

// A tensor's elements group by group: the reduced dimensions are innermost.
template <class T>
struct Groups {
  std::vector<T> values;
  int64_t groups = 0, count = 0;
  std::vector<int64_t> sizes;  // of the result
};
template <class T>
Groups<T> read_groups(const Tensor& tensor, const std::vector<bool>& reduced, bool keepdim);
// The same order as a view of a tensor that is to be written: what read_groups reads, write_dense writes.
Tensor innermost_view(const Tensor& tensor, const std::vector<bool>& reduced);

// Sizes of the result of a reduction.
Sizes reduced_sizes(const Sizes& sizes, const std::vector<bool>& reduced, bool keepdim);

// A nest over the kept dimensions; `body` gets the index of the result, the extents of the reduced dimensions and a
// function from an index over those to an index into self.
using ReduceBody = std::function<void(loops::KernelBuilder&, const std::vector<Expr>& out, const Sizes& extents,
                                      const std::function<std::vector<Expr>(const std::vector<Expr>&)>& at)>;
void lower_over_groups(LowerCall& call, const Sizes& sizes, const std::vector<bool>& reduced, bool keepdim,
                       const ReduceBody& body);

}  // namespace kiln
