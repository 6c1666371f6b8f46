#include "graph/graph_text.h"
#include "graph/text_reader.h"
#include "types/device_names.h"

namespace kiln {

namespace {

using graph_text::TextReader;

constexpr int max_depth = 64;  // of nested lists and subgraphs
constexpr int64_t max_rank = 256;

// Origins stand after the graph: the nodes' numbers are kept and filled in at the end.
using OriginRefs = std::vector<std::pair<Node*, std::vector<size_t>>>;

Device read_device(TextReader& in) {
  const auto type = device_type_from_name(in.word());
  if (!type) in.fail("cpu, cuda or meta before this");
  Device device{*type, -1};
  if (in.take(':')) device.index = static_cast<int>(in.count(65536));
  return device;
}

DType read_dtype(TextReader& in) {
  std::string word = in.word();
  auto dtype = dtype_from_name(word);
  if (!dtype) in.fail(str("a dtype, not '", word, "', before this"));
  return *dtype;
}

TensorType read_type(TextReader& in) {
  TensorType type;
  type.dtype = read_dtype(in);
  type.sizes = in.expr_list();
  if (static_cast<int64_t>(type.sizes.size()) > max_rank) in.fail("fewer dimensions");
  type.strides = in.take_word("strides") ? in.expr_list() : contiguous_strides(type.sizes);
  if (type.strides.size() != type.sizes.size()) in.fail("as many strides as sizes before this");
  if (in.take_word("offset")) type.offset = in.braced_expr();
  if (in.take_word("device")) type.device = read_device(in);
  return type;
}

class GraphParser {
 public:
  GraphParser(TextReader& in, Program* program, OriginRefs& origins, int depth)
      : in_(in), program_(program), origins_(origins), depth_(depth) {
    if (depth > max_depth) in.fail("graphs and lists nested less deeply");
  }

  // After the word "graph".
  void graph(Graph& graph) {
    graph_ = &graph;
    graph.name = in_.name();
    in_.expect('{');
    while (!in_.take('}')) {
      if (in_.take_word("input")) {
        read_input();
      } else if (in_.take_word("value")) {
        define(nullptr);
      } else if (in_.take_word("output")) {
        graph.outputs.push_back(argument(0));
        if (program_) {
          in_.expect('=');
          program_->output_specs.push_back(output_spec());
        }
      } else {
        read_node();
      }
    }
  }

 private:
  Value* find(const std::string& name) {
    Value* value = graph_->find_value(name);
    if (!value) in_.fail(str("a value that is defined, not %", name, ", before this"));
    return value;
  }

  Value* fresh(const std::string& name, ValueKind kind) {
    if (graph_->find_value(name)) in_.fail(str("a new name: %", name, " is defined twice, before this"));
    return graph_->new_value(name, kind);
  }

  // "%name: type"; the value gets its producer from the caller.
  Value* define(Node* producer) {
    in_.expect('%');
    std::string name = in_.name();
    in_.expect(':');
    Value* value = nullptr;
    if (in_.take_word("int")) {
      value = number(name, ValueKind::sym_int);
    } else if (in_.take_word("float")) {
      value = number(name, ValueKind::sym_float);
    } else if (in_.take_word("boolean")) {
      value = number(name, ValueKind::sym_bool);
    } else if (in_.take_word("none")) {
      value = fresh(name, ValueKind::none);
    } else if (in_.take_word("object")) {
      value = fresh(name, ValueKind::object);
    } else if (in_.take_word("list")) {
      value = fresh(name, ValueKind::tensor_list);
      value->items = items(producer);
    } else {
      TensorType type = read_type(in_);
      value = fresh(name, ValueKind::tensor);
      value->type = std::move(type);
    }
    value->producer = producer;
    return value;
  }

  Value* number(const std::string& name, ValueKind kind) {
    Expr expr = in_.braced_expr();
    Value* value = fresh(name, kind);
    value->expr = std::move(expr);
    return value;
  }

  std::vector<Value*> items(Node* producer) {
    std::vector<Value*> out;
    in_.expect('(');
    if (in_.take(')')) return out;
    do {
      if (in_.take_word("None")) {
        out.push_back(nullptr);
        continue;
      }
      in_.expect('%');
      std::string name = in_.name();
      if (!in_.take(':')) {
        out.push_back(find(name));
        continue;
      }
      TensorType type = read_type(in_);
      out.push_back(fresh(name, ValueKind::tensor));
      out.back()->type = std::move(type);
      out.back()->producer = producer;
    } while (in_.take(','));
    in_.expect(')');
    return out;
  }

  void read_input() {
    graph_->inputs.push_back(define(nullptr));
    if (!program_) return;
    in_.expect('=');
    program_->input_specs.push_back(input_spec());
  }

  InputSpec input_spec() {
    InputSpec spec;
    std::string word = in_.word();
    bool known = false;
    for (const auto& row : graph_text::input_words) {
      if (word != row.word) continue;
      spec.kind = row.kind;
      known = true;
    }
    if (!known) in_.fail(str("a kind of input, not '", word, "', before this"));
    if (in_.peek() == '"') spec.target = in_.quoted();
    if (in_.take_word("non_persistent")) spec.persistent = false;
    if (in_.take_word("value")) spec.constant = argument(0);
    return spec;
  }

  OutputSpec output_spec() {
    OutputSpec spec;
    std::string word = in_.word();
    bool known = false;
    for (const auto& row : graph_text::output_words) {
      if (word != row.word) continue;
      spec.kind = row.kind;
      known = true;
    }
    if (!known) in_.fail(str("a kind of output, not '", word, "', before this"));
    if (in_.peek() == '"') spec.target = in_.quoted();
    return spec;
  }

  void read_node() {
    Node* node = graph_->add_node("", "");
    if (in_.peek() == '%') {
      do {
        node->results.push_back(define(node));
        node->results.back()->result = static_cast<int>(node->results.size()) - 1;
        for (Value* item : node->results.back()->items)
          if (item && item->producer == node) item->result = node->results.back()->result;
      } while (in_.take(','));
      in_.expect('=');
    }
    node->target = in_.name(true);
    in_.expect('(');
    if (!in_.take(')')) {
      do read_named_argument(*node);
      while (in_.take(','));
      in_.expect(')');
    }
    if (in_.take_word("named")) {
      node->name = in_.name();
    } else if (!node->results.empty()) {
      node->name = node->results[0]->name;
    } else {
      in_.fail("'named' and the node's name");
    }
    if (!in_.take('@')) return;
    std::vector<size_t> refs;
    do refs.push_back(in_.count(SIZE_MAX));
    while (in_.take(','));
    origins_.emplace_back(node, std::move(refs));
  }

  void read_named_argument(Node& node) {
    std::string first;
    if (in_.peek() == '"') {
      // A quoted argument name, or a positional string.
      first = in_.quoted();
      if (!in_.take('=')) {
        node.args.push_back({"", Argument(std::move(first))});
        return;
      }
      node.args.push_back({std::move(first), argument(0)});
      return;
    }
    TextReader ahead = in_;
    if (graph_text::is_word_char(in_.peek())) {
      first = in_.word();
      if (graph_text::is_plain_name(first, false) && in_.take('=')) {
        node.args.push_back({std::move(first), argument(0)});
        return;
      }
      in_ = ahead;
    }
    node.args.push_back({"", argument(0)});
  }

  Argument argument(int depth) {
    if (depth + depth_ > max_depth) in_.fail("lists nested less deeply");
    switch (in_.peek()) {
      case '%':
        in_.expect('%');
        return Argument(find(in_.name()));
      case '[':
        return list(depth);
      case '"':
        return Argument(in_.quoted());
      case '{':
        return Argument(in_.braced_expr());
      default:
        break;
    }
    if (in_.take_word("None")) return {};
    if (in_.take_word("true")) return Argument(Scalar(true));
    if (in_.take_word("false")) return Argument(Scalar(false));
    if (in_.take_word("strided")) return Argument(Layout::strided);
    if (in_.take_word("graph")) {
      auto inner = std::make_shared<Graph>();
      GraphParser(in_, nullptr, origins_, depth_ + depth + 1).graph(*inner);
      return Argument(std::move(inner));
    }
    if (in_.take_word("device")) {
      in_.expect('(');
      Device device = read_device(in_);
      in_.expect(')');
      return Argument(device);
    }
    return word_or_number();
  }

  Argument list(int depth) {
    Argument::List out;
    in_.expect('[');
    if (in_.take(']')) return Argument(std::move(out));
    do out.push_back(argument(depth + 1));
    while (in_.take(','));
    in_.expect(']');
    return Argument(std::move(out));
  }

  Argument word_or_number() {
    char c = in_.peek();
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter) return Argument(in_.number());
    TextReader ahead = in_;
    std::string word = in_.word();
    if (auto format = memory_format_from_name(word)) return Argument(*format);
    if (auto dtype = dtype_from_name(word)) return Argument(*dtype);
    in_ = ahead;
    if (word != "inf" && word != "nan") in_.fail("an argument");
    return Argument(in_.number());
  }

  TextReader& in_;
  Program* program_;
  OriginRefs& origins_;
  int depth_;
  Graph* graph_ = nullptr;
};

class ProgramParser {
 public:
  ProgramParser(std::string_view text, const std::map<std::string, Tensor>& constants)
      : in_(text), constants_(constants) {}

  Program read() {
    in_.expect_word("program");
    program_.name = in_.quoted();
    while (!in_.take_word("graph")) header_line();
    GraphParser(in_, &program_, origin_refs_, 0).graph(program_.graph);
    while (!in_.at_end()) table_line();
    for (auto& [node, refs] : origin_refs_) {
      for (size_t ref : refs) {
        if (ref >= origins_.size()) in_.fail(str("origin ", ref));
        node->origins.push_back(origins_[ref]);
      }
    }
    return std::move(program_);
  }

 private:
  void header_line() {
    if (in_.take_word("torch")) {
      program_.torch_version = in_.quoted();
    } else if (in_.take_word("schema")) {
      program_.schema_major = static_cast<int>(in_.count(1 << 30));
      program_.schema_minor = static_cast<int>(in_.count(1 << 30));
    } else if (in_.take_word("opset")) {
      program_.opset_version = static_cast<int>(in_.count(1 << 30));
    } else if (in_.take_word("in_spec")) {
      program_.in_spec = in_.quoted();
    } else if (in_.take_word("out_spec")) {
      program_.out_spec = in_.quoted();
    } else if (in_.take_word("forward_arg")) {
      program_.forward_arg_names.push_back(in_.quoted());
    } else if (in_.take_word("symbol")) {
      symbol();
    } else if (in_.take_word("guard")) {
      Guard guard;
      guard.condition = in_.braced_expr();
      in_.expect_word("because");
      guard.reason = in_.quoted();
      program_.guards.push_back(std::move(guard));
    } else if (in_.take_word("constant")) {
      constant();
    } else {
      in_.fail("symbol, guard, constant, graph or another line of the header");
    }
  }

  int64_t bound() {
    if (in_.take('-')) {
      if (in_.take_word("oo")) return INT64_MIN;
      int64_t value = in_.integer();
      if (value < 0) in_.fail("one sign before this");
      return -value;
    }
    if (in_.take_word("oo")) return INT64_MAX;
    return in_.integer();
  }

  void symbol() {
    SymbolInfo info;
    info.name = in_.name();
    in_.expect('[');
    info.range.low = bound();
    in_.expect(',');
    info.range.high = bound();
    in_.expect(']');
    if (in_.take_word("hint")) info.hint = in_.integer();
    if (in_.take_word("unbacked")) info.unbacked = true;
    std::string name = info.name;
    if (!program_.symbols.emplace(name, std::move(info)).second) in_.fail("a new symbol before this");
  }

  std::vector<int64_t> integers(const std::vector<Expr>& exprs) {
    std::vector<int64_t> out;
    for (const Expr& expr : exprs) {
      if (!expr.is_constant()) in_.fail("a constant with sizes that are numbers, before this");
      out.push_back(expr.value());
    }
    return out;
  }

  void constant() {
    std::string name = in_.quoted();
    in_.expect(':');
    TensorType type = read_type(in_);
    Tensor tensor;
    tensor.dtype = type.dtype;
    tensor.sizes = integers(type.sizes);
    tensor.strides = integers(type.strides);
    tensor.offset = integers({type.offset})[0];
    tensor.device = type.device;
    std::optional<uint64_t> hash;
    if (in_.take_word("hash")) hash = in_.hex();
    auto given = constants_.find(name);
    if (given != constants_.end() && given->second.defined()) {
      const Tensor& value = given->second;
      if (value.dtype != tensor.dtype || value.sizes != tensor.sizes ||
          (hash && graph_text::constant_hash(value) != *hash))
        fail_user("K0233", str("constant '", name, "' has other values than the graph text was written with"));
      tensor = value;
    } else if (hash) {
      program_.constant_hashes[name] = *hash;
    }
    if (!program_.constants.emplace(name, std::move(tensor)).second) in_.fail("a new constant before this");
  }

  void table_line() {
    if (in_.take_word("line")) {
      if (in_.count(SIZE_MAX) != lines_.size()) in_.fail("lines numbered in order, before this");
      SourceLine line;
      line.file = in_.quoted();
      in_.expect(':');
      line.line = static_cast<int>(in_.integer());
      in_.expect_word("in");
      line.function = in_.quoted();
      in_.expect(':');
      line.text = in_.quoted();
      lines_.push_back(std::move(line));
    } else if (in_.take_word("origin")) {
      if (in_.count(SIZE_MAX) != origins_.size()) in_.fail("origins numbered in order, before this");
      Origin origin;
      in_.expect_word("node");
      origin.node = in_.quoted();
      in_.expect_word("op");
      origin.op = in_.quoted();
      in_.expect_word("module");
      origin.module_path = in_.quoted();
      in_.expect_word("stack");
      while (in_.peek() >= '0' && in_.peek() <= '9') origin.stack.push_back(lines_[in_.count(lines_.size())]);
      origins_.push_back(std::move(origin));
    } else {
      in_.fail("line, origin or the end");
    }
  }

  TextReader in_;
  const std::map<std::string, Tensor>& constants_;
  Program program_;
  OriginRefs origin_refs_;
  std::vector<SourceLine> lines_;
  std::vector<Origin> origins_;
};

}  // namespace

Program parse_program(std::string_view text, const std::map<std::string, Tensor>& constants) {
  return ProgramParser(text, constants).read();
}

}  // namespace kiln
