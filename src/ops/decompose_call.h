// What an operator's decomposition sees: its arguments, and a way to call other operators in its place. The new nodes
// stand before the node and inherit its origins; `result(i, value)` says what replaces each result. Of an operator
// whose result is a list (split), the results are the list's elements.
#pragma once
#include <functional>
#include <set>

#include "ops/op_record.h"

namespace kiln {

// A number where the size is known, the expression where it is not.
Argument number(const Expr& size);
// An argument that is a list: of numbers, of tensors.
Argument list_of(const std::vector<int64_t>& values);
Argument list_of(const std::vector<Value*>& values);

class DecomposeCall : public OpCall {
 public:
  DecomposeCall(Node& node, const Schema& schema, Graph& graph, const RangeEnv& ranges)
      : OpCall(node, schema), old_(node), graph_(graph), ranges_(ranges), replacements_(result_count(node), nullptr) {}
  const RangeEnv& ranges() const { return ranges_; }

  // Arguments in schema order; trailing ones may be left to their defaults. Types come from the record's rule.
  Value* call(std::string_view op, std::vector<Argument> args) { return call_all(op, std::move(args))[0]; }
  std::vector<Value*> call_all(std::string_view op, std::vector<Argument> args);
  // The same with the results' types given: for operators whose sizes depend on data (nonzero), which no rule can know.
  std::vector<Value*> call_as(std::string_view op, std::vector<Argument> args, const std::vector<TensorType>& types);
  // A loop over the first dimension of `xs` (higher_order.scan). The body gets the carried values, one slice of each x
  // and `extra`, and gives the next carried values and then what is stacked; the results are the same, at the end.
  using ScanBody = std::function<std::vector<Value*>(DecomposeCall&, const std::vector<Value*>&)>;
  std::vector<Value*> scan(const std::vector<Value*>& carried, const std::vector<Value*>& xs,
                           const std::vector<Value*>& extra, const ScanBody& body);
  Argument int_list(const std::vector<Expr>& values);
  // While types are inferred the node has no results yet: the list grows.
  void result(int index, Value* value) {
    if (static_cast<size_t>(index) >= replacements_.size())
      replacements_.resize(static_cast<size_t>(index) + 1, nullptr);
    replacements_[static_cast<size_t>(index)] = value;
  }
  void result(Value* value) { result(0, value); }
  // What the program says of a result; nullptr where it says nothing.
  const TensorType* declared(size_t index) const {
    return index < old_.results.size() && old_.results[index] ? &old_.results[index]->type : nullptr;
  }
  DType declared(size_t index, DType rule) const { return declared(index) ? declared(index)->dtype : rule; }
  const std::vector<Value*>& replacements() const { return replacements_; }
  bool made(const Node* node) const { return node && made_.contains(node); }  // by this decomposition

 private:
  static size_t result_count(const Node& node) {
    bool list = node.results.size() == 1 && node.results[0]->kind == ValueKind::tensor_list;
    return list ? node.results[0]->items.size() : node.results.size();
  }
  Node* add_call(std::string_view op, std::vector<Argument> args);
  Node& old_;
  Graph& graph_;
  const RangeEnv& ranges_;
  std::vector<Value*> replacements_;
  std::set<const Node*> made_;
};

}  // namespace kiln
