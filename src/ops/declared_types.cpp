#include "ops/declared_types.h"

#include <algorithm>

#include "ops/op_record.h"
#include "ops/wrappers.h"

namespace kiln {
namespace {

std::string type_text(const TensorType& type) { return str(dtype_name(type.dtype), "[", shape_text(type.sizes), "]"); }

bool is_number(const Value& value) {
  return value.kind == ValueKind::sym_int || value.kind == ValueKind::sym_float || value.kind == ValueKind::sym_bool;
}

bool has_types(const Node& node) {
  return std::any_of(node.results.begin(), node.results.end(), [](const Value* result) {
    return result->kind == ValueKind::tensor || !result->items.empty() || is_number(*result);
  });
}

class TypeCheck {
 public:
  explicit TypeCheck(const Program& program) : ranges_(program.ranges()) {
    // Of a size of an input any value will do, the others (read from data) are open without the export's value.
    std::set<std::string> of_inputs;
    for (const Value* input : program.graph.inputs)
      for (const Expr& size : input->type.sizes) collect_symbols(size, of_inputs);
    for (const auto& [name, info] : program.symbols)
      if (info.hint || of_inputs.count(name)) hints_[name] = info.hint.value_or(std::max<int64_t>(info.range.low, 2));
  }

  void check(const Graph& graph) const {
    for (const auto& node : graph.nodes) {
      try {
        const bool has_rule = node->op != nullptr && node->op->infer && node->op->kind != OpKind::control_flow;
        if (has_rule && has_types(*node)) check(*node);
      } catch (Error& error) {
        error.locate(node->where());
        throw;
      }
      if (is_wrapper(*node)) continue;
      for (const auto& named : node->args)
        if (named.arg.is_graph() && named.arg.as_graph()) check(*named.arg.as_graph());
    }
  }

 private:
  void check(const Node& node) const {
    InferCall call(node, node.op->schema, ranges_);
    node.op->infer(call);
    for (const TensorType& rule : call.results)
      for (const Expr& size : rule.sizes)
        if (range_of(size, ranges_).high < 0)
          fail_user("K0243", str(node.target, " would give a tensor with the negative size ", size.text()));
    const auto& declared = node.op->schema.returns;
    size_t next = 0, next_number = 0;
    for (size_t i = 0; i < node.results.size(); ++i) {
      const bool aliases = i < declared.size() && !declared[i].alias.empty();
      const Value& result = *node.results[i];
      if (result.kind == ValueKind::tensor && next < call.results.size())
        check(node, result, call.results[next++], aliases);
      if (is_number(result) && next_number < call.numbers.size()) check(node, result, call.numbers[next_number++]);
      for (const Value* item : result.items) {
        if (item != nullptr && next < call.results.size()) check(node, *item, call.results[next], aliases);
        ++next;
      }
    }
  }

  void check(const Node& node, const Value& value, const Expr& rule) const {
    const bool undecided = open(value.expr) || open(rule);
    const bool floats = value.expr.is_float() || rule.is_float();
    if (floats ? undecided || evaluate_float(value.expr, hints_) == evaluate_float(rule, hints_)
               : same(value.expr, rule))
      return;
    fail_user("K0237", str("the program says that ", value.name, " is ", value.expr.text(), ", but ", node.target,
                           " gives ", rule.text()));
  }

  void check(const Node& node, const Value& value, const TensorType& rule, bool aliases) const {
    const TensorType& said = value.type;
    bool same_sizes = said.sizes.size() == rule.sizes.size();
    for (size_t d = 0; same_sizes && d < said.sizes.size(); ++d)
      same_sizes = prove_eq(said.sizes[d], rule.sizes[d], ranges_) != Proof::no;
    if (said.dtype != rule.dtype || !same_sizes)
      fail_user("K0237", str("the program says that ", value.name, " is ", type_text(said), ", but ", node.target,
                             " gives ", type_text(rule)));
    // A library kernel makes tensors of its own, also where eager gives views (tensor_split by a tensor).
    if (!node.op->library.empty()) return;
    if (is_empty(said) || (same_strides(said, rule) && (!aliases || same(said.offset, rule.offset)))) return;
    if (!aliases && is_dense(said)) return;
    fail_user("K0242", str("the program says that ", value.name, " has the strides [", shape_text(said.strides),
                           "] and the offset ", said.offset.text(), ", but ", node.target, " gives [",
                           shape_text(rule.strides), "] and ", rule.offset.text()));
  }

  bool same_strides(const TensorType& said, const TensorType& rule) const {
    for (size_t d = 0; d < said.sizes.size(); ++d)
      if (!same(said.sizes[d], Expr(1)) && !same(said.strides[d], rule.strides[d])) return false;
    return true;
  }

  // A number with symbols that the export has no value for.
  bool open(const Expr& expr) const {
    std::set<std::string> names;
    collect_symbols(expr, names);
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return !hints_.contains(name); });
  }

  bool same(const Expr& a, const Expr& b) const {
    const Proof proof = prove_eq(a, b, ranges_);
    if (proof != Proof::unknown || open(a) || open(b)) return proof != Proof::no;
    return evaluate(a, hints_) == evaluate(b, hints_);
  }

  bool is_empty(const TensorType& type) const {
    return std::any_of(type.sizes.begin(), type.sizes.end(), [&](const Expr& size) { return same(size, Expr(0)); });
  }

  bool is_dense(const TensorType& type) const {
    std::vector<int64_t> sizes, strides;
    for (size_t d = 0; d < type.sizes.size(); ++d) {
      if (open(type.sizes[d]) || open(type.strides[d])) return true;
      sizes.push_back(evaluate(type.sizes[d], hints_));
      strides.push_back(evaluate(type.strides[d], hints_));
    }
    return dense_and_not_overlapping(sizes, strides);
  }

  RangeEnv ranges_;
  SymbolValues hints_;
};

}  // namespace

void check_declared_types(const Program& program) { TypeCheck(program).check(program.graph); }

}  // namespace kiln
