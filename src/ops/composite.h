// Declares operators that PyTorch itself defines in terms of others (pad, hstack, losses, attention): one decomposition
// is the whole record. The rule runs it on a scratch graph and takes the types of its results; the reference runs it on
// concrete tensors through the references of its parts. What is intricate in itself has a reference of its own.
#pragma once
#include "ops/decompose_call.h"
#include "ops/layout.h"
#include "ops/promotion.h"

namespace kiln {

// A shorter way to write decompositions: b("mul.Tensor", {x, y}); "aten." and ".default" are added.
class Build {
 public:
  explicit Build(DecomposeCall& call) : call_(call) {}
  DecomposeCall& call() { return call_; }
  Value* operator()(std::string_view op, std::vector<Argument> args) {
    return call_.call(full_name(op), std::move(args));
  }
  std::vector<Value*> all(std::string_view op, std::vector<Argument> args) {
    return call_.call_all(full_name(op), std::move(args));
  }
  Argument ints(const std::vector<Expr>& values) { return call_.int_list(values); }
  Argument ints(std::initializer_list<int64_t> values) { return call_.int_list(Sizes(values.begin(), values.end())); }
  // Arithmetic with promotion; a side may be a number.
  Value* add(Argument a, Argument b) { return (*this)("add.Tensor", {std::move(a), std::move(b)}); }
  Value* sub(Argument a, Argument b) { return (*this)("sub.Tensor", {std::move(a), std::move(b)}); }
  Value* mul(Argument a, Argument b) { return (*this)("mul.Tensor", {std::move(a), std::move(b)}); }
  Value* div(Argument a, Argument b) { return (*this)("div.Tensor", {std::move(a), std::move(b)}); }
  Value* view(Value* x, const Sizes& sizes) { return (*this)("reshape", {x, ints(sizes)}); }
  Value* to(Value* x, DType dtype) { return x->type.dtype == dtype ? x : (*this)("_to_copy", {x, dtype}); }
  Value* sum(Value* x, std::initializer_list<int64_t> dims, bool keep) {
    return (*this)("sum.dim_IntList", {x, ints(dims), Scalar(keep)});
  }
  // A value with the strides that eager's result has; `value` itself where it has them.
  Value* contiguous(Value* x) {
    return is_contiguous(x->type.sizes, x->type.strides) ? x : (*this)("clone", {x, MemoryFormat::contiguous});
  }

 private:
  static std::string full_name(std::string_view op) {
    return str("aten.", op, op.find('.') == std::string_view::npos ? ".default" : "");
  }
  DecomposeCall& call_;
};

inline const Sizes& sizes_of(const Value* value) { return value->type.sizes; }
inline Value* singular_values(Build& b, Value* a) { return b.all("_linalg_svd", {a, Scalar(false), Scalar(false)})[1]; }

using CompositeFn = std::function<void(Build&)>;

struct CompositeRow {
  std::string schema;
  CompositeFn build;
  std::vector<Sample> samples = {};
  bool inplace = false;
  bool early = false;          // writes to its arguments, by copy_, or gives views of several
  bool random = false;         // draws random numbers
  ReferenceFn reference = {};  // empty: through the parts
  std::string name_space = "aten";
  OpFacts facts = {};
};
void add_composite(Registry& registry, CompositeRow row);
// A reference that runs another decomposition than the one that is compiled (steps unrolled instead of a loop).
ReferenceFn reference_by(CompositeFn build, const std::string& schema, std::string_view name_space = "aten");

// Integer lists and sizes that reductions of losses use.
enum class LossReduction : uint8_t { none = 0, mean = 1, sum = 2 };
Value* reduce_loss(Build& b, Value* loss);  // by the argument "reduction"

}  // namespace kiln
