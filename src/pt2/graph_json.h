// Graphs as torch.export's JSON has them (schema 8.x) -> Graph.
//
// Names are the file's own. A symbolic argument that names a value of the graph becomes that Value, so that data flow
// stays visible; a name that only the tables of symbolic values know becomes its Expr.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/json.h"
#include "graph/graph.h"

namespace kiln {

// The program's symbols as they are met, with the value each had at export where the file says it.
// Also remembers every expression text already read: a model repeats a few of them thousands of times.
class SymbolTable {
 public:
  // Ranges of symbols, known before the graph is read: expressions that have one value over them are that value.
  void set_ranges(RangeEnv ranges) { ranges_ = std::move(ranges); }
  Expr sym_int(const Json& json);  // {"as_int": 2} or {"as_expr": {"expr_str": …, "hint": …}}
  Expr sym_float(const Json& json);
  Expr sym_bool(const Json& json);
  const std::map<std::string, std::optional<int64_t>>& hints() const { return hints_; }
  void note(const Expr& expr);  // its symbols exist

 private:
  Expr expression(const Json& json);
  std::unordered_map<std::string, Expr> read_;
  std::map<std::string, std::optional<int64_t>> hints_;
  RangeEnv ranges_;
};

// Types of tensors, also of weights.
TensorType read_tensor_meta(const Json& json, SymbolTable& symbols);
Device read_device(const Json& json);

class GraphJson {
 public:
  GraphJson(const Json& json, Graph& graph, SymbolTable& symbols);
  // Names of graph inputs that are constants and have none of their own, by position.
  void read(const std::map<size_t, std::string>& constant_names = {});
  // An argument of the graph's own scope; for signatures.
  Argument argument(const Json& json);

 private:
  using Index = std::unordered_map<std::string_view, const Json*>;
  void read_input(size_t position, const Json& json, const std::map<size_t, std::string>& constant_names);
  void read_node(const Json& json);
  void add_result(Node* node, const Json& json);
  Value* define(Node* node, const std::string& name, ValueKind kind);
  Value* define_tensor(Node* node, const std::string& name);
  Value* define_symbolic(Node* node, const std::string& name, ValueKind kind);
  void describe_tensor(Value* value);
  void describe_symbolic(Value* value);
  Argument by_name(const std::string& name);
  Argument optional_tensor(const Json& json);
  template <class Read>
  Argument list(const Json& json, Read read);
  Argument constant_or_list(const std::string& kind, const Json& json);

  const Json& json_;
  Graph& graph_;
  SymbolTable& symbols_;
  Index tensors_, sym_ints_, sym_bools_, sym_floats_;
  std::unordered_map<std::string, Value*> values_;
};

}  // namespace kiln
