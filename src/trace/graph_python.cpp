#include "trace/graph_python.h"

#include <set>

#include "base/file.h"
#include "ops/op_record.h"
#include "pt2/tensor_files.h"
#include "trace/python_text.h"

namespace kiln {
namespace {

const char* short_dtype(DType dtype) { return dtype == DType::boolean ? "b8" : dtype_name(dtype); }

std::string type_text(const Value& value) {
  switch (value.kind) {
    case ValueKind::tensor:
      return str(short_dtype(value.type.dtype), "[", shape_text(value.type.sizes), "]",
                 value.type.device.type == DeviceType::cpu ? "" : device_text(value.type.device));
    case ValueKind::sym_int:
    case ValueKind::sym_float:
    case ValueKind::sym_bool:
      return str("Sym(", value.expr.text(), ")");
    case ValueKind::tensor_list:
    case ValueKind::none:
    case ValueKind::object:
      break;
  }
  return "";
}

// Python of one graph and of the graphs inside it.
class PythonPrinter {
 public:
  std::string take() { return std::move(out_); }

  // The nodes of the graph; subgraphs become functions in front of the node that uses them.
  void body(const Graph& graph, int depth) {
    std::string last;
    for (const auto& node : graph.nodes) {
      const std::string where = source_comment(*node);
      if (!where.empty() && where != last) line(depth, where);
      if (!where.empty()) last = where;
      statement(*node, depth);
    }
  }

  std::string argument(const Argument& arg, bool tuples = false) {
    struct Visit {
      PythonPrinter& printer;
      bool tuples;
      std::string operator()(const Argument::None&) const { return "None"; }
      std::string operator()(Value* value) const { return value ? printer.value_text(value) : "None"; }
      std::string operator()(const Argument::List& list) const {
        std::string items = join_map(list, ", ", [&](const Argument& a) { return printer.argument(a, tuples); });
        if (!tuples) return str("[", items, "]");
        return list.size() == 1 ? str("(", items, ",)") : str("(", items, ")");
      }
      std::string operator()(const Scalar& scalar) const { return python_scalar(scalar); }
      std::string operator()(const std::string& text) const { return python_quote(text); }
      std::string operator()(const Expr& expr) const { return printer.expression(expr); }
      std::string operator()(DType dtype) const { return str("torch.", dtype_torch_name(dtype)); }
      std::string operator()(const Device& device) const {
        return str("torch.device(", python_quote(device_text(device)), ")");
      }
      std::string operator()(Layout) const { return "torch.strided"; }
      std::string operator()(MemoryFormat format) const { return str("torch.", memory_format_name(format)); }
      std::string operator()(const std::shared_ptr<Graph>& graph) const {
        return graph ? printer.functions_.at(graph.get()) : "None";
      }
    };
    return std::visit(Visit{*this, tuples}, arg.value);
  }

  std::string name(const Value* value) {
    auto [found, fresh] = names_.try_emplace(value);
    if (fresh) found->second = unique(python_name(value->name));
    return found->second;
  }
  std::string unique(const std::string& wish) {
    std::string out = wish;
    for (int i = 1; !used_.insert(out).second; ++i) out = str(wish, "_", i);
    return out;
  }
  void line(int depth, const std::string& text) {
    out_.append(static_cast<size_t>(depth) * 4, ' ');
    out_ += text;
    out_ += '\n';
  }
  const std::set<std::string>& symbols() const { return symbols_; }

 private:
  // A symbolic value that no node defines stands for its expression.
  std::string value_text(const Value* value) {
    const bool symbolic =
        value->kind == ValueKind::sym_int || value->kind == ValueKind::sym_float || value->kind == ValueKind::sym_bool;
    if (symbolic && !value->producer && !names_.contains(value)) return expression(value->expr);
    return name(value);
  }

  std::string expression(const Expr& expr) {
    collect_symbols(expr, symbols_);
    return python_expression(expr);
  }

  void statement(const Node& node, int depth) {
    for (size_t i = 0; i < node.args.size(); ++i)
      define_functions(node.args[i].arg, depth, node.target == "higher_order.while_loop" && i == 0);
    const std::string call = call_text(node);
    if (node.results.empty()) return line(depth, call);
    std::string targets;
    for (const Value* result : node.results) targets += str(targets.empty() ? "" : ", ", target(result));
    const bool several = node.results.size() > 1 || returns_tuple(node);
    if (several && node.results.size() == 1) targets += ",";
    const std::string type = node.results.size() == 1 && !several ? type_text(*node.results[0]) : "";
    line(depth, type.empty() ? str(targets, " = ", call) : str(targets, ": \"", type, "\" = ", call));
  }

  std::string target(const Value* value) {
    if (value->kind == ValueKind::none) return unique("_none");
    if (value->kind != ValueKind::tensor_list) return name(value);
    return str("[", join_map(value->items, ", ", [&](const Value* v) { return v ? name(v) : unique("_none"); }), "]");
  }

  // Higher-order operators give a tuple even where there is one result.
  static bool returns_tuple(const Node& node) { return starts_with(node.target, "higher_order."); }

  // `bare`: the function gives its only result as such, not in a tuple.
  void define_functions(const Argument& arg, int depth, bool bare) {
    if (arg.is_list()) {
      for (const Argument& item : arg.as_list()) define_functions(item, depth, bare);
      return;
    }
    if (!arg.is_graph() || !arg.as_graph()) return;
    const Graph& graph = *arg.as_graph();
    const std::string function = unique(python_name(graph.name));
    functions_[&graph] = function;
    const std::string inputs = join_map(graph.inputs, ", ", [&](const Value* input) { return name(input); });
    line(depth, str("def ", function, "(", inputs, "):"));
    body(graph, depth + 1);
    const std::string outputs = join_map(graph.outputs, "", [&](const Argument& a) { return argument(a) + ", "; });
    bare &= graph.outputs.size() == 1;
    line(depth + 1, bare ? str("return ", argument(graph.outputs[0])) : str("return (", outputs, ")"));
  }

  std::string call_text(const Node& node) {
    const std::string& target = node.target;
    // These call a function and do nothing else: it is called right here.
    if (target == "higher_order.wrap_with_set_grad_enabled" || target == "higher_order.wrap_with_autocast")
      return wrapped_call(node);
    if (starts_with(target, "_operator.")) return str(python_path(target.substr(1)), "(", arguments(node), ")");
    if (starts_with(target, "math.") || starts_with(target, "torch."))
      return str(python_path(target), "(", arguments(node), ")");
    return str("torch.ops.", python_path(target), "(", arguments(node), ")");
  }

  std::string wrapped_call(const Node& node) {
    size_t at = 0;
    while (at < node.args.size() && !node.args[at].arg.is_graph()) ++at;
    auto rest = [&](size_t from, size_t to) {
      std::vector<std::string> texts;
      for (size_t i = from; i < to; ++i) texts.push_back(argument(node.args[i].arg, true));
      return texts;
    };
    const std::string function = at < node.args.size() ? argument(node.args[at].arg) : "None";
    const std::string operands = join(rest(std::min(at + 1, node.args.size()), node.args.size()), ", ");
    const std::vector<std::string> how = rest(0, at);
    if (node.target == "higher_order.wrap_with_set_grad_enabled")
      return str("run_with(torch.set_grad_enabled(", join(how, ", "), "), ", function, ", ", operands, ")");
    return str("run_with(torch.autocast(", join(how, ", "), "), ", function, ", ", operands, ")");
  }

  std::string arguments(const Node& node) {
    const bool higher = starts_with(node.target, "higher_order.");
    const bool python = starts_with(node.target, "_operator.") || starts_with(node.target, "math.") ||
                        starts_with(node.target, "torch.");  // functions of Python, not operators: no names
    const Schema* schema = node.op && !higher && !python ? &node.op->schema : nullptr;
    std::vector<std::string> texts;
    bool positional = true;
    for (size_t i = 0; i < node.args.size(); ++i) {
      const auto& named = node.args[i];
      // By position while it is the schema's own order; by name after a default that was left out.
      const int place = schema ? schema->find(named.name) : -1;
      positional &= python || named.name.empty() || (place == static_cast<int>(i) && !schema->args[i].keyword_only);
      const std::string text = argument(named.arg, higher);
      texts.push_back(positional || named.name.empty() ? text : str(python_name(named.name), "=", text));
    }
    return join(texts, ", ");
  }

  static std::string source_comment(const Node& node) {
    if (node.origins.empty()) return "";
    const SourceLine* at = node.origins.front().line();
    if (!at) return "";
    return comment_text(str("# File: ", at->file, ":", at->line, " in ", at->function, ", code: ", at->text));
  }

  std::string out_;
  std::map<const Value*, std::string> names_;
  std::map<const Graph*, std::string> functions_;
  std::set<std::string> used_ = python_reserved_names();
  std::set<std::string> symbols_;
};

bool is_user(const InputSpec& spec) { return spec.kind == InputKind::user || spec.kind == InputKind::constant_value; }

std::string user_inputs(const Program& program, PythonPrinter& printer) {
  std::string out;
  for (size_t i = 0; i < program.graph.inputs.size(); ++i)
    if (is_user(program.input_specs[i])) out += str(", ", printer.name(program.graph.inputs[i]));
  return out;
}

// Symbols that stand in arguments as such, from the sizes of inputs.
std::string symbol_lines(const Program& program, PythonPrinter& printer) {
  std::string out;
  std::set<std::string> done;
  for (const Value* input : program.graph.inputs) {
    auto define = [&](const Expr& expr, const std::string& text) {
      if (expr.is_symbol() && printer.symbols().contains(expr.name()) && done.insert(expr.name()).second)
        out += str("        ", expr.name(), " = ", text, "\n");
    };
    if (input->kind == ValueKind::sym_int) define(input->expr, printer.name(input));
    if (input->kind != ValueKind::tensor) continue;
    for (size_t d = 0; d < input->type.sizes.size(); ++d)
      define(input->type.sizes[d], str(printer.name(input), ".size(", d, ")"));
  }
  return out;
}

void print_returns(const Program& program, PythonPrinter& printer) {
  const Graph& graph = program.graph;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const OutputSpec& spec = program.output_specs[i];
    const std::string text = printer.argument(graph.outputs[i]);
    if (spec.kind == OutputKind::buffer_mutation)
      printer.line(2, str("self.weights[", python_quote(spec.target), "].copy_(", text, ")"));
    if (spec.kind == OutputKind::user_input_mutation)
      if (const Value* input = graph.find_value(spec.target))
        printer.line(2, str(printer.name(input), ".copy_(", text, ")"));
  }
  std::string outputs;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const OutputKind kind = program.output_specs[i].kind;
    if (kind == OutputKind::user || kind == OutputKind::loss) outputs += printer.argument(graph.outputs[i]) + ", ";
  }
  printer.line(2, str("return (", outputs, ")"));
}

}  // namespace

std::string readable_python(const Program& program) {
  PythonPrinter printer;
  const Graph& graph = program.graph;
  std::string signature = "    def forward(self";
  for (const Value* input : graph.inputs) {
    const std::string type = type_text(*input);
    signature += str(", ", printer.name(input), type.empty() ? "" : str(": \"", type, "\""));
  }
  signature += "):\n";
  std::string what;
  for (size_t i = 0; i < graph.inputs.size() && i < program.input_specs.size(); ++i)
    if (!program.input_specs[i].target.empty())
      what +=
          str("        # ", printer.name(graph.inputs[i]), " is ", comment_text(program.input_specs[i].target), "\n");
  printer.body(graph, 2);
  std::string outputs;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    outputs += printer.argument(graph.outputs[i]) + ", ";
    const OutputSpec& spec = program.output_specs[i];
    if (!spec.target.empty()) printer.line(2, comment_text(str("# output ", i, " is written back to ", spec.target)));
  }
  printer.line(2, str("return (", outputs, ")"));
  return str("class GraphModule(torch.nn.Module):\n", signature, what, printer.take());
}

std::string runnable_python(const Program& program, const std::string& values_file, const std::string& heading) {
  PythonPrinter printer;
  const std::string inputs = user_inputs(program, printer);
  std::set<const Value*> used;
  auto use = [&](Value* value) { used.insert(value); };
  for (const auto& node : program.graph.nodes)
    for (const auto& named : node->args) for_each_value(named.arg, std::function<void(Value*)>(use));
  for (const Argument& output : program.graph.outputs) for_each_value(output, std::function<void(Value*)>(use));
  std::string weights;
  for (size_t i = 0; i < program.graph.inputs.size(); ++i) {
    const InputSpec& spec = program.input_specs[i];
    if (is_user(spec) || !used.contains(program.graph.inputs[i])) continue;
    const std::string name = printer.name(program.graph.inputs[i]);
    weights += spec.kind == InputKind::token || spec.kind == InputKind::custom_object
                   ? str("        ", name, " = None\n")
                   : str("        ", name, " = self.weights[", python_quote(spec.target), "]\n");
  }
  printer.body(program.graph, 2);
  print_returns(program, printer);
  const std::string body = printer.take();
  const std::string symbols = symbol_lines(program, printer);
  std::string out = comment_lines(heading, "#");
  out += runnable_prologue;
  out += str("\nclass Model(torch.nn.Module):\n    def __init__(self, weights):\n        super().__init__()\n",
             "        self.weights = weights\n\n    def forward(self", inputs, "):\n", weights, symbols, body);
  return out + replace_all(runnable_epilogue, "$VALUES", python_quote(values_file));
}

void write_runnable_values(const Program& program, const std::string& path) {
  TensorFile file;
  for (const auto& [name, tensor] : program.constants) {
    if (!tensor.defined()) continue;
    file.names.push_back("weights/" + name);
    file.items.push_back(Datum{tensor});
  }
  for (size_t i = 0; i < program.sample_inputs.size(); ++i) {
    file.names.push_back(str("inputs/", i));
    file.items.push_back(program.sample_inputs[i]);
  }
  if (file.items.empty()) {  // an empty list of names would mean a list
    file.names.emplace_back("nothing");
    file.items.emplace_back();
  }
  write_tensor_file(path, file, "", FileAccess::owner);  // weights
}

std::string node_table(const Graph& graph) {
  size_t names = 4, targets = 6;
  for (const auto& node : graph.nodes) {
    names = std::max(names, node->name.size());
    targets = std::max(targets, node->target.size());
  }
  auto padded = [](std::string text, size_t width) {
    text.resize(std::max(width, text.size()), ' ');
    return text;
  };
  PythonPrinter printer;
  std::string out = str(padded("name", names), "  ", padded("target", targets), "  arguments\n");
  for (const auto& node : graph.nodes) {
    std::vector<std::string> texts;
    for (const auto& named : node->args)
      texts.push_back(named.arg.is_graph() ? "graph " + named.arg.as_graph()->name : printer.argument(named.arg));
    out += str(padded(node->name, names), "  ", padded(node->target, targets), "  ", join(texts, ", "), "\n");
  }
  return out;
}

}  // namespace kiln
