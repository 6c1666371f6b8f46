#include "ops/called_operator.h"

namespace kiln {

namespace {

// "torch.ops.mylib.log.default" -> "mylib.log.default"
std::string named_operator(const Node& node, size_t argument, const char* code) {
  const std::string* name =
      node.args.size() <= argument ? nullptr : std::get_if<std::string>(&node.args[argument].arg.value);
  if (!name) fail_user(code, str(node.target, " does not say which operator it calls"), node.where());
  constexpr std::string_view prefix = "torch.ops.";
  return starts_with(*name, prefix) ? name->substr(prefix.size()) : *name;
}

}  // namespace

bool is_auto_functionalized(const Node& node) {
  return node.target == "higher_order.auto_functionalized" || node.target == "higher_order.auto_functionalized_v2";
}

bool is_out_dtype(const Node& node) { return node.target == "higher_order.out_dtype"; }
bool is_with_effects(const Node& node) { return node.target == "higher_order.with_effects"; }
std::string functionalized_target(const Node& node) { return named_operator(node, 0, "K0235"); }
std::string effect_target(const Node& node) { return named_operator(node, 1, "K0238"); }

std::string called_operator(const Node& node) {
  if (is_auto_functionalized(node) || is_out_dtype(node)) return functionalized_target(node);
  return is_with_effects(node) ? effect_target(node) : node.target;
}

}  // namespace kiln
