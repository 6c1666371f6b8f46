#include <algorithm>

#include "ops/custom_ops.h"
#include "ops/op_record.h"

namespace kiln {

namespace {

struct Unknown {
  Where first;
  int count = 0;
};

// Python functions come without argument names or with names of their own (_operator.add: a, b); from here on they are
// named as in the schema.
void name_arguments(Node& node) {
  const auto& declared = node.op->schema.args;
  for (size_t i = 0; i < node.args.size() && i < declared.size(); ++i)
    if (node.args[i].name.empty() || node.op->schema.find(node.args[i].name) < 0) node.args[i].name = declared[i].name;
}

bool is_number(SchemaType type) {
  return type == SchemaType::integer || type == SchemaType::floating || type == SchemaType::boolean ||
         type == SchemaType::scalar;
}

bool is_list(SchemaType type) { return type == SchemaType::tensor_list || type == SchemaType::optional_tensor_list; }

void check_names(const Node& node) {
  std::set<std::string_view> names;
  for (const auto& named : node.args)
    if (!named.name.empty() && !names.insert(named.name).second)
      fail_user("K0201", str(node.target, ": argument ", named.name, " is given twice"), node.where());
}

// In the order of the schema: a file may give named arguments in any, and later passes look at the first.
void order_arguments(Node& node) {
  const Schema& schema = node.op->schema;
  auto place = [&](const Node::NamedArgument& named) { return schema.find(named.name); };
  for (const auto& named : node.args)
    if (place(named) < 0) return;
  auto before = [&](const auto& a, const auto& b) { return place(a) < place(b); };
  if (!std::is_sorted(node.args.begin(), node.args.end(), before))
    std::stable_sort(node.args.begin(), node.args.end(), before);
}

// What the file calls a result must be what the operator gives: a tensor is no number.
void check_result_kinds(const Node& node) {
  if (node.op->kind == OpKind::control_flow) return;
  const auto& declared = node.op->schema.returns;
  // The elements of a list may stand for the list.
  const bool list = declared.size() == 1 && is_list(declared[0].type);
  const bool none = node.results.empty();
  if (none ? !declared.empty() && !node.op->schema.mutates() : !list && node.results.size() < declared.size())
    fail_user("K0237", str("the program leaves out what ", node.target, " gives"), node.where());
  for (const Value* result : node.results)
    if (declared.empty() && result->kind != ValueKind::none)
      fail_user("K0237", str("the program says that ", node.target, " gives ", result->name, ", but it gives nothing"),
                node.where());
  for (size_t i = declared.size(); !list && i < node.results.size(); ++i)
    if (node.results[i]->kind != ValueKind::none)
      fail_user("K0237",
                str("the program says that ", node.target, " gives ", node.results[i]->name, ", but it gives only ",
                    declared.size(), declared.size() == 1 ? " result" : " results"),
                node.where());
  for (size_t i = 0; i < node.results.size() && i < declared.size(); ++i) {
    const ValueKind kind = node.results[i]->kind;
    if (kind == ValueKind::tensor_list && !is_list(declared[i].type))
      fail_user("K0237",
                str("the program says that ", node.results[i]->name, " is a list, but ", node.target, " gives none"),
                node.where());
    const bool tensor = kind == ValueKind::tensor || kind == ValueKind::tensor_list;
    if (kind != ValueKind::none && tensor == is_number(declared[i].type))
      fail_user("K0237",
                str("the program says that ", node.results[i]->name, " is ", tensor ? "a tensor" : "a number", ", but ",
                    node.target, " gives ", tensor ? "a number" : "a tensor"),
                node.where());
  }
}

void resolve_in(Graph& graph, const std::vector<std::string>& custom, std::map<std::string, Unknown>& unknown) {
  const Registry& registry = Registry::instance();
  for (auto& node : graph.nodes) {
    node->op = registry.find(node->target);
    if (node->op && node->op->kind != OpKind::control_flow) name_arguments(*node);
    check_names(*node);
    if (node->op && node->op->kind != OpKind::control_flow) order_arguments(*node);
    if (node->op) check_result_kinds(*node);
    const std::string called = called_operator(*node);
    if (!registry.find(called) && std::find(custom.begin(), custom.end(), called) == custom.end()) {
      Unknown& entry = unknown[called];
      if (entry.count++ == 0) entry.first = node->where();
    }
    for (auto& named : node->args)
      if (named.arg.is_graph() && named.arg.as_graph()) resolve_in(*named.arg.as_graph(), custom, unknown);
  }
}

bool is_custom_name(const std::string& target) {
  for (const char* own : {"aten.", "prims.", "higher_order.", "_operator.", "math.", "torch."})
    if (starts_with(target, own)) return false;
  return true;
}

}  // namespace

void resolve_operators(Graph& graph, const std::vector<std::string>& custom_ops) {
  std::map<std::string, Unknown> unknown;
  resolve_in(graph, custom_ops, unknown);
  if (unknown.empty()) return;
  std::string message = str(unknown.size(), unknown.size() == 1 ? " operator is" : " operators are", " not known:");
  for (const auto& [target, entry] : unknown) {
    message += str("\n  ", target);
    if (entry.count > 1) message += str(" (", entry.count, " times)");
    const SourceLine& source = entry.first.source;
    if (source.known()) message += str(", first at ", source.file, ":", source.line, " in ", source.function);
  }
  if (std::any_of(unknown.begin(), unknown.end(), [](const auto& entry) { return is_custom_name(entry.first); }))
    message += "\nOperators that are not PyTorch's own come from a library of custom operators: --custom-op-lib";
  Where where = unknown.size() == 1 ? unknown.begin()->second.first : Where{};
  fail_unsupported("K0200", message, where);
}

}  // namespace kiln
