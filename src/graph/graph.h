// Graph: tensors and ATen operators, exactly what a .pt2 says.
//
// A Graph is a list of nodes in execution order. A node calls one operator (by its full name, "aten.add.Tensor") with
// named arguments and defines values. Values are tensors, symbolic numbers, lists of tensors, or nothing. A graph read
// from a file may mutate (aten.add_.Tensor) and alias (aten.view.default), with PyTorch's meaning; after the pass
// `functionalize` it does neither.
//
// Ownership: the Graph owns its nodes and values; pointers stay valid until the node is erased or the Graph destroyed.
// Names of values are unique within one Graph (subgraphs are Graphs of their own and see only their inputs).
// Thread safety: none; a Graph belongs to one compile.
#pragma once
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/error.h"
#include "types/device.h"
#include "types/dtype.h"
#include "types/expr.h"
#include "types/scalar.h"
#include "types/tensor.h"

namespace kiln {

struct OpRecord;
class Graph;
struct Node;

enum class ValueKind : uint8_t { tensor, tensor_list, sym_int, sym_float, sym_bool, none, object };

struct TensorType {
  DType dtype = DType::f32;
  Device device;
  std::vector<Expr> sizes;
  std::vector<Expr> strides;  // eager's; always as many as sizes
  Expr offset;                // storage offset
  bool operator==(const TensorType&) const = default;
};
TensorType contiguous_type(DType dtype, std::vector<Expr> sizes, Device device = {});

struct Value {
  std::string name;
  ValueKind kind = ValueKind::tensor;
  TensorType type;            // of a tensor
  std::vector<Value*> items;  // of a tensor_list: its element values (a None element is nullptr)
  Expr expr;                  // of sym_int, sym_float, sym_bool: its value over the program's symbols
  Node* producer = nullptr;   // nullptr: a graph input
  int result = 0;             // which result of the producer
};

enum class MemoryFormat : uint8_t { contiguous = 1, channels_last = 2, channels_last_3d = 3, preserve = 4 };
enum class Layout : uint8_t { strided };
const char* memory_format_name(MemoryFormat format);  // PyTorch's: "contiguous_format", "channels_last", …
std::optional<MemoryFormat> memory_format_from_name(std::string_view name);

// One argument of a node. Lists of ints mix numbers and symbolic values freely: [2, %sym_size, 16].
struct Argument {
  struct None {
    bool operator==(const None&) const = default;
  };
  using List = std::vector<Argument>;
  std::variant<None, Value*, List, Scalar, std::string, Expr, DType, Device, Layout, MemoryFormat,
               std::shared_ptr<Graph>>
      value;
  Argument() = default;
  template <class T>
  Argument(T v) : value(std::move(v)) {}
  bool is_none() const { return std::holds_alternative<None>(value); }
  bool is_value() const { return std::holds_alternative<Value*>(value); }
  bool is_list() const { return std::holds_alternative<List>(value); }
  bool is_scalar() const { return std::holds_alternative<Scalar>(value); }
  bool is_graph() const { return std::holds_alternative<std::shared_ptr<Graph>>(value); }
  Value* as_value() const { return std::get<Value*>(value); }
  const List& as_list() const { return std::get<List>(value); }
  const Scalar& as_scalar() const { return std::get<Scalar>(value); }
  const std::shared_ptr<Graph>& as_graph() const { return std::get<std::shared_ptr<Graph>>(value); }
};

// Where a node comes from, for errors, hooks and reports.
struct Origin {
  std::string node;                // name of the node in the file the user gave
  std::string op;                  // its operator there
  std::string module_path;         // "layers.3.mlp"
  std::vector<SourceLine> stack;   // outermost first
  const SourceLine* line() const;  // the innermost line of the user's own: not inside torch itself
};

struct Node {
  std::string name;              // usually the name of its first result
  std::string target;            // "aten.add.Tensor", "higher_order.cond", "_operator.add", "mylib.foo.default"
  const OpRecord* op = nullptr;  // filled by resolve_operators (ops/); nullptr while unknown
  // In schema order; positional arguments of higher-order operators have empty names. Defaults are not stored.
  struct NamedArgument {
    std::string name;
    Argument arg;
  };
  std::vector<NamedArgument> args;
  std::vector<Value*> results;
  std::vector<Origin> origins;  // several after a rewrite that merges nodes

  const Argument* find(std::string_view arg_name) const;  // nullptr: not given (use the schema's default)
  Where where() const;
};

class Graph {
 public:
  Graph() = default;
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;

  std::string name = "main";
  std::vector<Value*> inputs;
  std::vector<Argument> outputs;  // values, None, constants
  std::list<std::unique_ptr<Node>> nodes;

  Value* add_input(std::string name, ValueKind kind);
  // A value that no node defines yet; its name is made unique.
  Value* new_value(std::string name, ValueKind kind);
  // Appends (or inserts before `before`) a node; its results are made by add_result.
  Node* add_node(std::string target, std::string name, Node* before = nullptr);
  Value* add_result(Node* node, std::string name, ValueKind kind);
  // An element of a tensor_list result; it has the list's producer.
  Value* add_item(Value* list, std::string name);
  void erase(Node* node);                     // its results must be unused
  void replace_uses(Value* from, Value* to);  // in nodes, subgraph-free; and in outputs
  Value* find_value(std::string_view name) const;
  std::string unique_name(std::string_view wish) const;
  // Deep copy, subgraphs included.
  std::unique_ptr<Graph> clone() const;
  size_t value_count() const { return values_.size(); }

 private:
  std::map<std::string, std::unique_ptr<Value>, std::less<>> values_;
  mutable std::map<std::string, int, std::less<>> next_suffix_;
  std::unordered_map<const Node*, std::list<std::unique_ptr<Node>>::iterator> positions_;
  std::list<std::unique_ptr<Node>>::iterator position(const Node* node);
};

// Calls f(Value*&) for every value that the argument mentions (not inside subgraphs).
void for_each_value(Argument& arg, const std::function<void(Value*&)>& f);
void for_each_value(const Argument& arg, const std::function<void(Value*)>& f);
std::map<const Value*, std::vector<Node*>> uses_of(const Graph& graph);

// ---- The program around the graph ----------------------------------------------------------------------------------

enum class InputKind : uint8_t { user, parameter, buffer, constant_tensor, constant_value, token, custom_object };

struct InputSpec {
  InputKind kind = InputKind::user;
  std::string target;      // parameter, buffer, constant: its fully qualified name
  bool persistent = true;  // of a buffer
  Argument constant;       // of a constant_value: the value that the caller must pass
};

enum class OutputKind : uint8_t { user, buffer_mutation, user_input_mutation, loss, token };

struct OutputSpec {
  OutputKind kind = OutputKind::user;
  std::string target;  // mutated buffer's name, or the mutated input's value name
};

struct Guard {
  Expr condition;      // boolean, over the program's symbols
  std::string reason;  // "range of s0 in the export", "L['x'].size()[0] == L['y'].size()[0]"
};

// Everything a .pt2 holds. Weights are Tensors over the mapped file; they are not copied.
struct Program {
  std::string name = "model";
  Graph graph;
  std::vector<InputSpec> input_specs;    // one per graph input
  std::vector<OutputSpec> output_specs;  // one per graph output
  std::map<std::string, SymbolInfo> symbols;
  std::vector<Guard> guards;
  std::map<std::string, Tensor> constants;  // by fully qualified name (parameters, buffers, constants)
  // Hashes of constants that have no values here (the program was read from text): what print writes again.
  std::map<std::string, uint64_t> constant_hashes;
  std::vector<Datum> sample_inputs;  // flat, in graph order; empty when the file has none
  std::string in_spec, out_spec;     // pytrees, as the file has them
  std::vector<std::string> forward_arg_names;
  std::string torch_version;
  int schema_major = 0, schema_minor = 0;
  int opset_version = 0;
  std::shared_ptr<void> keep_alive;  // the mapped file

  RangeEnv ranges() const;  // from symbols
  Program clone() const;    // graph deep-copied, weights shared
};

// All elements of a constant are 0; of one without values here, its hash says so.
bool is_all_zero(const Program& program, const std::string& constant);

// ---- Text (graph/graph_text.h shows the form) -----------------------------------------------------------------------

std::string print(const Graph& graph);
// The program with symbols, guards and signature; constants by name, dtype, sizes, strides and a hash, not by value.
std::string print(const Program& program);
// Reads what print(Program) wrote. Constants are left undefined unless `constants` has them; one that has another
// dtype, other sizes or another hash than the text says is refused. Sample inputs are not part of the text.
// Throws K0220 with the line and what was expected.
Program parse_program(std::string_view text, const std::map<std::string, Tensor>& constants = {});
// Throws fail_bug with the node when an invariant is broken: order of definition, unique names, argument kinds,
// stride and size counts, signature lengths.
void verify(const Program& program);

}  // namespace kiln
