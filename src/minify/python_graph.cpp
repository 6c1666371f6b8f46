#include "base/error.h"
#include "minify/repro_files.h"
#include "ops/op_record.h"

namespace kiln::minify {
namespace {

std::string argument_text(const Argument& arg, std::vector<std::pair<std::string, const Graph*>>& graphs);

std::string list_text(const Argument::List& list, std::vector<std::pair<std::string, const Graph*>>& graphs) {
  return str("[", join_map(list, ", ", [&](const Argument& element) { return argument_text(element, graphs); }), "]");
}

std::string scalar_text(const Scalar& scalar) {
  if (scalar.is_bool()) return scalar.as_int() ? "True" : "False";
  return scalar.text();
}

std::string argument_text(const Argument& arg, std::vector<std::pair<std::string, const Graph*>>& graphs) {
  if (arg.is_none()) return "None";
  if (arg.is_value()) return arg.as_value()->name;
  if (arg.is_list()) return list_text(arg.as_list(), graphs);
  if (arg.is_scalar()) return scalar_text(arg.as_scalar());
  if (arg.is_graph()) {
    const std::string name = arg.as_graph() ? arg.as_graph()->name : "None";
    if (arg.as_graph()) graphs.emplace_back(name, arg.as_graph().get());
    return "self." + name;
  }
  if (const auto* text = std::get_if<std::string>(&arg.value)) return quote(*text);
  if (const auto* expr = std::get_if<Expr>(&arg.value)) return expr->text();
  if (const auto* dtype = std::get_if<DType>(&arg.value)) return dtype_torch_name(*dtype);
  if (std::holds_alternative<Device>(arg.value)) return "device('cpu')";
  if (std::holds_alternative<Layout>(arg.value)) return "torch.strided";
  if (const auto* format = std::get_if<MemoryFormat>(&arg.value)) return str("torch.", memory_format_name(*format));
  return "?";
}

std::string call_text(const Node& node, std::vector<std::pair<std::string, const Graph*>>& graphs) {
  const OpRecord* record = Registry::instance().find(node.target);
  std::vector<std::string> args;
  bool positional = true;
  for (size_t i = 0; i < node.args.size(); ++i) {
    const auto& named = node.args[i];
    if (record && !named.name.empty()) {
      const int place = record->schema.find(named.name);
      const bool keyword = place < 0 || record->schema.args[static_cast<size_t>(place)].keyword_only;
      positional = positional && !keyword && place == static_cast<int>(i);
    }
    const std::string text = argument_text(named.arg, graphs);
    args.push_back(positional || named.name.empty() ? text : str(named.name, " = ", text));
  }
  const bool python = starts_with(node.target, "_operator.");
  return str(python ? "" : "torch.ops.", python ? node.target.substr(1) : node.target, "(", join(args, ", "), ")");
}

void print_graph(const Graph& graph, const std::string& name, int depth, std::string& out) {
  const std::string indent(static_cast<size_t>(depth) * 4, ' ');
  out += str(indent, "class ", name, "(torch.nn.Module):\n", indent, "    def forward(self");
  for (const Value* input : graph.inputs) out += ", " + input->name;
  out += "):\n";
  std::vector<std::pair<std::string, const Graph*>> graphs;
  for (const auto& node : graph.nodes) {
    const std::string call = call_text(*node, graphs);
    const std::string results = join_map(node->results, ", ", [](const Value* value) { return value->name; });
    out += str(indent, "        ", results, results.empty() ? "" : " = ", call, "\n");
    for (const Value* result : node->results)
      for (size_t i = 0; i < result->items.size(); ++i)
        if (result->items[i])
          out += str(indent, "        ", result->items[i]->name, " = ", result->name, "[", i, "]\n");
  }
  out += str(indent, "        return (",
             join_map(graph.outputs, ", ", [&](const Argument& output) { return argument_text(output, graphs); }),
             graph.outputs.size() == 1 ? ",)\n" : ")\n");
  for (const auto& [inner, subgraph] : graphs) {
    out += "\n";
    print_graph(*subgraph, inner, depth + 1, out);
  }
}

}  // namespace

std::string python_graph(const Program& program) {
  std::string out;
  print_graph(program.graph, "Repro", 0, out);
  return out;
}

}  // namespace kiln::minify
