#include <set>

#include "graph/graph_text.h"

namespace kiln {

namespace graph_text {

uint64_t constant_hash(const Tensor& tensor) {
  uint64_t hash = 14695981039346656037ull;
  auto eat = [&](const void* data, int64_t bytes) {
    const auto* at = static_cast<const unsigned char*>(data);
    for (int64_t i = 0; i < bytes; ++i) hash = (hash ^ at[i]) * 1099511628211ull;
  };
  std::string type = tensor_type_text(tensor);
  eat(type.data(), static_cast<int64_t>(type.size()));
  if (tensor.numel() == 0) return hash;
  constexpr int64_t block = 1024, blocks = 64;
  int64_t bytes = storage_bytes_needed(tensor.dtype, tensor.sizes, tensor.strides, 0);
  if (bytes <= block * blocks) {
    eat(tensor.data(), bytes);
  } else {
    for (int64_t i = 0; i < blocks; ++i) eat(tensor.data() + (bytes - block) / (blocks - 1) * i, block);
  }
  return hash;
}

}  // namespace graph_text

namespace {

using graph_text::is_plain_name;

std::string name_text(std::string_view name, bool dots = false) {
  return is_plain_name(name, dots) ? std::string(name) : quote(name);
}
std::string value_text(const Value* value) { return value ? "%" + name_text(value->name) : "None"; }

std::string exprs_text(const std::vector<Expr>& exprs) { return str("[", shape_text(exprs), "]"); }

std::string type_text(const TensorType& type) {
  std::string out = str(dtype_name(type.dtype), exprs_text(type.sizes));
  if (!(type.strides == contiguous_strides(type.sizes))) out += str(" strides ", exprs_text(type.strides));
  if (!type.offset.is_constant(0)) out += str(" offset {", type.offset.text(), "}");
  if (!(type.device == Device{})) out += str(" device ", device_text(type.device));
  return out;
}

std::string bound_text(int64_t bound) {
  if (bound == INT64_MIN) return "-oo";
  if (bound == INT64_MAX) return "oo";
  return str(bound);
}

// One line for a comment: what people read, not what the parser reads.
std::string comment_text(const SourceLine& line) {
  std::string out = str(line.file, ":", line.line, " in ", line.function, ": ", line.text);
  for (char& c : out)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  return out;
}

// Origins are numbered in order of first use; stack lines too, since nodes share most of theirs.
class OriginTable {
 public:
  std::string refs(const std::vector<Origin>& origins) {
    return join_map(origins, ",", [&](const Origin& origin) { return str(number(origin)); });
  }
  std::string text() const {
    std::string out;
    for (const std::string& line : lines_) out += line;
    for (const std::string& origin : origins_) out += origin;
    return out;
  }

 private:
  size_t number(const Origin& origin) {
    std::string body =
        str(" node ", quote(origin.node), " op ", quote(origin.op), " module ", quote(origin.module_path), " stack");
    for (const SourceLine& line : origin.stack) body += str(" ", line_number(line));
    auto [found, fresh] = numbers_.emplace(body, numbers_.size());
    if (fresh) origins_.push_back(str("origin ", found->second, body, "\n"));
    return found->second;
  }
  size_t line_number(const SourceLine& line) {
    std::string body = str(" ", quote(line.file), ":", line.line, " in ", quote(line.function), ": ", quote(line.text));
    auto [found, fresh] = line_numbers_.emplace(body, line_numbers_.size());
    if (fresh) lines_.push_back(str("line ", found->second, body, "\n"));
    return found->second;
  }
  std::map<std::string, size_t> numbers_, line_numbers_;
  std::vector<std::string> origins_, lines_;
};

class GraphPrinter {
 public:
  GraphPrinter(const Program* program, OriginTable& origins) : program_(program), origins_(origins) {}

  // `program` of the outermost graph only: its inputs and outputs have specs.
  void graph(const Graph& graph, int depth) {
    const Program* specs = depth == 0 ? program_ : nullptr;
    out_ += str("graph ", name_text(graph.name), " {\n");
    std::set<const Value*> defined;
    free_values(graph, depth + 1);
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      indent(depth + 1);
      out_ += str("input ", definition(graph.inputs[i], defined));
      if (specs && i < specs->input_specs.size()) out_ += str(" = ", spec_text(specs->input_specs[i], depth + 1));
      out_ += "\n";
    }
    for (const auto& node : graph.nodes) print_node(*node, depth + 1, defined);
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      indent(depth + 1);
      out_ += str("output ", argument(graph.outputs[i], depth + 1));
      if (specs && i < specs->output_specs.size()) out_ += str(" = ", spec_text(specs->output_specs[i]));
      out_ += "\n";
    }
    indent(depth);
    out_ += "}";
  }
  std::string take() { return std::move(out_); }

 private:
  void indent(int depth) { out_.append(static_cast<size_t>(depth) * 2, ' '); }

  // Symbolic values that no node defines: they stand for their expression.
  void free_values(const Graph& graph, int depth) {
    std::set<const Value*> known(graph.inputs.begin(), graph.inputs.end());
    std::vector<const Value*> free;
    auto define = [&](const Value* value) {
      known.insert(value);
      known.insert(value->items.begin(), value->items.end());
    };
    for (const Value* input : graph.inputs) define(input);
    auto use = [&](Value* value) {
      if (value && !value->producer && known.insert(value).second) free.push_back(value);
    };
    for (const auto& node : graph.nodes) {
      for (const auto& named : node->args) for_each_value(named.arg, std::function<void(Value*)>(use));
      for (const Value* result : node->results) define(result);
    }
    for (const Argument& output : graph.outputs) for_each_value(output, std::function<void(Value*)>(use));
    std::set<const Value*> defined;
    for (const Value* value : free) {
      indent(depth);
      out_ += str("value ", definition(value, defined), "\n");
    }
  }

  std::string definition(const Value* value, std::set<const Value*>& defined) {
    if (!defined.insert(value).second) return value_text(value);
    return str(value_text(value), ": ", kind_text(*value, defined));
  }

  std::string kind_text(const Value& value, std::set<const Value*>& defined) {
    switch (value.kind) {
      case ValueKind::tensor:
        return type_text(value.type);
      case ValueKind::sym_int:
        return str("int {", value.expr.text(), "}");
      case ValueKind::sym_float:
        return str("float {", value.expr.text(), "}");
      case ValueKind::sym_bool:
        return str("boolean {", value.expr.text(), "}");
      case ValueKind::none:
        return "none";
      case ValueKind::object:
        return "object";
      case ValueKind::tensor_list:
        break;
    }
    return str("list(",
               join_map(value.items, ", ",
                        [&](const Value* item) { return item ? definition(item, defined) : std::string("None"); }),
               ")");
  }

  std::string argument(const Argument& arg, int depth) {
    struct Visit {
      GraphPrinter& printer;
      int depth;
      std::string operator()(const Argument::None&) const { return "None"; }
      std::string operator()(Value* value) const { return value_text(value); }
      std::string operator()(const Argument::List& list) const {
        return str("[", join_map(list, ", ", [&](const Argument& a) { return printer.argument(a, depth); }), "]");
      }
      std::string operator()(const Scalar& scalar) const { return scalar.text(); }
      std::string operator()(const std::string& text) const { return quote(text); }
      std::string operator()(const Expr& expr) const { return str("{", expr.text(), "}"); }
      std::string operator()(DType dtype) const { return dtype_name(dtype); }
      std::string operator()(const Device& device) const { return str("device(", device_text(device), ")"); }
      std::string operator()(Layout) const { return "strided"; }
      std::string operator()(MemoryFormat format) const { return memory_format_name(format); }
      std::string operator()(const std::shared_ptr<Graph>& graph) const {
        if (!graph) return "None";
        GraphPrinter inner(nullptr, printer.origins_);
        inner.graph(*graph, depth);
        return inner.take();
      }
    };
    return std::visit(Visit{*this, depth}, arg.value);
  }

  void print_node(const Node& node, int depth, std::set<const Value*>& defined) {
    indent(depth);
    if (!node.results.empty()) {
      out_ += join_map(node.results, ", ", [&](const Value* result) { return definition(result, defined); });
      out_ += " = ";
    }
    out_ += str(name_text(node.target, true), "(");
    out_ += join_map(node.args, ", ", [&](const Node::NamedArgument& named) {
      std::string text = argument(named.arg, depth);
      return named.name.empty() ? text : str(name_text(named.name), "=", text);
    });
    out_ += ")";
    if (node.results.empty() || node.results[0]->name != node.name) out_ += str(" named ", name_text(node.name));
    if (!node.origins.empty()) {
      out_ += str(" @", origins_.refs(node.origins));
      if (const SourceLine* line = node.origins.front().line()) out_ += str("  # ", comment_text(*line));
    }
    out_ += "\n";
  }

  std::string spec_text(const InputSpec& spec, int depth) {
    std::string out;
    for (const auto& row : graph_text::input_words)
      if (row.kind == spec.kind) out = row.word;
    if (!spec.target.empty()) out += str(" ", quote(spec.target));
    if (!spec.persistent) out += " non_persistent";
    if (spec.kind == InputKind::constant_value || !spec.constant.is_none())
      out += str(" value ", argument(spec.constant, depth));
    return out;
  }
  static std::string spec_text(const OutputSpec& spec) {
    std::string out;
    for (const auto& row : graph_text::output_words)
      if (row.kind == spec.kind) out = row.word;
    if (!spec.target.empty()) out += str(" ", quote(spec.target));
    return out;
  }

  const Program* program_;
  OriginTable& origins_;
  std::string out_;
};

std::string hex_text(uint64_t value) {
  std::string out(16, '0');
  for (size_t i = 16; i-- > 0; value >>= 4) out[i] = "0123456789abcdef"[value & 15];
  return out;
}

std::string constant_text(const Program& program, const std::string& name, const Tensor& tensor) {
  auto numbers = [](const std::vector<int64_t>& list) {
    return str("[", join_map(list, ", ", [](int64_t v) { return str(v); }), "]");
  };
  std::string out = str("constant ", quote(name), ": ", dtype_name(tensor.dtype), numbers(tensor.sizes));
  if (tensor.strides != contiguous_strides(tensor.sizes)) out += str(" strides ", numbers(tensor.strides));
  if (tensor.offset != 0) out += str(" offset {", tensor.offset, "}");
  if (!(tensor.device == Device{})) out += str(" device ", device_text(tensor.device));
  auto known = program.constant_hashes.find(name);
  if (tensor.defined()) {
    out += str(" hash ", hex_text(graph_text::constant_hash(tensor)));
  } else if (known != program.constant_hashes.end()) {
    out += str(" hash ", hex_text(known->second));
  }
  return out + "\n";
}

std::string header_text(const Program& program) {
  std::string out = str("program ", quote(program.name), "\n");
  if (!program.torch_version.empty()) out += str("torch ", quote(program.torch_version), "\n");
  if (program.schema_major || program.schema_minor)
    out += str("schema ", program.schema_major, " ", program.schema_minor, "\n");
  if (program.opset_version) out += str("opset ", program.opset_version, "\n");
  if (!program.in_spec.empty()) out += str("in_spec ", quote(program.in_spec), "\n");
  if (!program.out_spec.empty()) out += str("out_spec ", quote(program.out_spec), "\n");
  for (const std::string& name : program.forward_arg_names) out += str("forward_arg ", quote(name), "\n");
  for (const auto& [name, info] : program.symbols) {
    out += str("symbol ", name_text(name), " [", bound_text(info.range.low), ", ", bound_text(info.range.high), "]");
    if (info.hint) out += str(" hint ", *info.hint);
    if (info.unbacked) out += " unbacked";
    out += "\n";
  }
  for (const Guard& guard : program.guards)
    out += str("guard {", guard.condition.text(), "} because ", quote(guard.reason), "\n");
  for (const auto& [name, tensor] : program.constants) out += constant_text(program, name, tensor);
  return out;
}

}  // namespace

std::string print(const Graph& graph) {
  OriginTable origins;
  GraphPrinter printer(nullptr, origins);
  printer.graph(graph, 0);
  return printer.take() + "\n";
}

std::string print(const Program& program) {
  OriginTable origins;
  GraphPrinter printer(&program, origins);
  printer.graph(program.graph, 0);
  std::string body = printer.take();
  return header_text(program) + body + "\n" + origins.text();
}

}  // namespace kiln
