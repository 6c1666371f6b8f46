// An operator is declared once: one record with its schema, its shape-and-dtype rule, exactly one way to compile it
// (decomposition, lowering to Loops, library kernel), an independent reference evaluation, and samples from which its
// tests are made. Records stand in family files (ops/arithmetic.cpp, ops/reduce.cpp, …); `registry.cpp` lists the
// families. docs/adding-an-operator.md shows one being added.
//
// In-place variants (add_, relu_) are not declared: a record with `inplace = true` makes them. They are the functional
// operator followed by a copy into `self`.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "ops/op_facts.h"

namespace kiln {

enum class SchemaType : uint8_t {
  tensor,
  tensor_list,
  optional_tensor_list,  // Tensor, Tensor[], Tensor?[]
  integer,
  integer_list,
  floating,
  float_list,
  boolean,
  bool_list,
  string,
  scalar,
  scalar_list,
  dtype,
  device,
  layout,
  memory_format,
  generator,
};

struct SchemaArg {
  std::string name;
  SchemaType type = SchemaType::tensor;
  bool optional = false;  // may be None
  bool keyword_only = false;
  bool has_default = false;
  Argument default_value;
  std::string alias;    // "a" of Tensor(a!)
  bool writes = false;  // the "!"
};

struct Schema {
  std::string name;  // "aten.add.Tensor"; without overload: "aten.relu.default"
  std::vector<SchemaArg> args;
  std::vector<SchemaArg> returns;
  int find(std::string_view arg) const;  // -1: none
  bool mutates() const;
  bool is_view() const;  // a result aliases an argument without writing it
};
// PyTorch's own notation: "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor". Throws on bad text.
Schema parse_schema(std::string_view text, std::string_view name_space = "aten");
// The arguments that every operator that makes a tensor has.
inline const std::string creation_options =
    "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None";

// Typed access to a node's arguments with the schema's defaults filled in. Throws K0201 naming operator and argument
// when the kind does not fit.
class OpCall {
 public:
  OpCall(const Node& node, const Schema& schema) : node_(node), schema_(schema) {}
  const Node& node() const { return node_; }
  const Schema& schema() const { return schema_; }
  const Argument& arg(std::string_view name) const;  // given or default
  bool given(std::string_view name) const;           // present and not None
  Value* tensor(std::string_view name) const;
  Value* tensor_or_null(std::string_view name) const;
  std::vector<Value*> tensors(std::string_view name) const;  // None elements are nullptr; accepts a tensor_list value
  Expr integer(std::string_view name) const;                 // constant or symbolic
  std::vector<Expr> integers(std::string_view name) const;
  int64_t constant_integer(std::string_view name) const;  // K0202 when symbolic
  std::vector<int64_t> constant_integers(std::string_view name) const;
  bool boolean(std::string_view name) const;
  std::string string(std::string_view name) const;
  // A number: constant, or the expression of a symbolic value.
  std::variant<Scalar, Expr> scalar(std::string_view name) const;
  std::optional<DType> dtype(std::string_view name) const;
  Where where() const { return node_.where(); }

 private:
  const Node& node_;
  const Schema& schema_;
};

// The call is one that eager refuses too: K0201 and the like, named by the operator and the user's line.
[[noreturn]] void refuse(const OpCall& call, const char* code, std::string_view why);

// Shape-and-dtype rule: sets the types of the node's results from its arguments. It uses the program's ranges to decide
// questions about symbolic sizes and never specialises silently.
class InferCall : public OpCall {
 public:
  InferCall(const Node& node, const Schema& schema, const RangeEnv& ranges) : OpCall(node, schema), ranges_(ranges) {}
  const RangeEnv& ranges() const { return ranges_; }
  std::vector<TensorType> results;  // to be filled, one per tensor result (of a list result: one per element)
  std::vector<Expr> numbers;        // of an operator that gives symbolic numbers: one per such result, may stay empty
 private:
  const RangeEnv& ranges_;
};

// Reference evaluation: concrete tensors in, concrete tensors out, with PyTorch's meaning. Views share storage, writes
// go to the argument's storage. In fp64 mode every float tensor is stored as f64; `result_dtype` says what to allocate.
class ReferenceCall {
 public:
  ReferenceCall(const Node& node, const Schema& schema) : node_(node), schema_(schema) {}
  const Node& node() const { return node_; }
  bool given(std::string_view name) const;
  Tensor tensor(std::string_view name) const;
  std::optional<Tensor> tensor_or_none(std::string_view name) const;
  std::vector<std::optional<Tensor>> tensors(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  std::vector<int64_t> integers(std::string_view name) const;
  double real(std::string_view name) const;
  bool boolean(std::string_view name) const;
  Scalar scalar(std::string_view name) const;
  std::string string(std::string_view name) const;
  std::optional<DType> dtype(std::string_view name) const;
  DType result_dtype(int result = 0) const;   // storage type of a result: its nominal type, or f64 in fp64 mode
  DType nominal_dtype(int result = 0) const;  // as the graph says
  bool fp64 = false;
  uint64_t seed = 0;  // of random operators; already mixed with the node's position

  // Filled by the interpreter: argument name -> evaluated value (schema defaults included).
  std::map<std::string, Datum, std::less<>> values;
  std::vector<Datum> results;  // to be filled by the reference

 private:
  const Node& node_;
  const Schema& schema_;
};

// "aten.add.Tensor" -> "add"
std::string op_short_name(std::string_view target);
// The storage type of fp64 mode: f64 for floats, c128 for complex numbers, itself otherwise.
DType wide_dtype(DType dtype);
// An argument without values as a Datum: dtypes, devices, layouts and memory formats are their names as strings.
Datum constant_datum(const Argument& arg);

class LowerCall;      // ops/lower_call.h
class DecomposeCall;  // ops/decompose_call.h

// One sample call, for the generated tests: a small graph text is built from it.
struct Sample {
  // Positional arguments in schema order; tensors are given by sizes and dtype and filled with seeded values.
  struct TensorSpec {
    std::vector<int64_t> sizes;
    DType dtype = DType::f32;
    double low = -2.0, high = 2.0;  // range of the values
  };
  using SampleArg = std::variant<Argument::None, TensorSpec, std::vector<TensorSpec>, Scalar, std::vector<int64_t>,
                                 std::string, DType>;
  std::vector<SampleArg> args;
  bool refused = false;  // a bad call: infer must throw
};

using InferFn = std::function<void(InferCall&)>;
using LowerFn = std::function<void(LowerCall&)>;
using DecomposeFn = std::function<void(DecomposeCall&)>;
using ReferenceFn = std::function<void(ReferenceCall&)>;

enum class OpKind : uint8_t {
  plain,
  symbolic,      // computes on symbolic numbers only (_operator.add, aten.sym_size.int); gone after remove_symbolic
  assertion,     // _assert_scalar and the like
  control_flow,  // cond, while_loop: the drivers of interpreter and lowering know them
};

struct OpRecord {
  std::string schema_text;
  OpKind kind = OpKind::plain;
  bool inplace = false;     // also declare the in-place variant
  bool random = false;      // draws random numbers: two calls with equal arguments differ
  bool reads_data = false;  // a number, or the number of rows, is found in the data
  bool early = false;       // decomposed before functionalize: its parts write what it writes, or are its views
  InferFn infer;
  // Exactly one of the three for a plain operator.
  DecomposeFn decompose;
  LowerFn lower;
  std::string library;  // name of the runtime's library kernel; arguments are passed by name
  ReferenceFn reference;
  std::vector<Sample> samples;
  std::string name_space = "aten";
  OpFacts facts = {};  // complex numbers, autocast, views: what others ask about it

  // A composite's reference may be its decomposition over again, run through the references of the parts: it shows that
  // the parts are compiled right, and says nothing about the decomposition. Then PyTorch itself is the oracle: a case
  // made by it must exist (tests/operator_cases.txt; a test looks).
  bool reference_by_parts = false;

  // Derived when registered.
  Schema schema;
  const OpRecord* functional = nullptr;  // of an in-place variant: the operator it stands for
  const std::string& name() const { return schema.name; }
};

class Registry {
 public:
  static const Registry& instance();                  // built once, immutable afterwards
  const OpRecord* find(std::string_view name) const;  // "aten.add.Tensor"
  std::vector<const OpRecord*> all() const;           // sorted by name

  void add(OpRecord record);  // used by the families while building; throws on a second declaration
  void finish();              // after the last family: references of operators that take complex numbers do so
  // Facts about operators declared by now, for families that state them together: "mul" means all overloads,
  // "div.Tensor" one. In-place variants follow from the functional operator and have none of their own.
  void describe(std::initializer_list<std::string_view> names, const OpFacts& facts);

 private:
  std::map<std::string, std::unique_ptr<OpRecord>, std::less<>> records_;
};

// Names without name space and overload ("mm") of the operators that have a fact: what a kernel's list of operators
// has.
std::set<std::string, std::less<>> short_names_with(bool OpFacts::*fact);
std::set<std::string, std::less<>> names_with(bool OpFacts::*fact);

// Fills Node::op of the whole graph (subgraphs too). Unknown operators outside `custom` are collected and reported in
// one error (K0200) that lists every one of them with its first source line.
void resolve_operators(Graph& graph, const std::vector<std::string>& custom_ops);

// What is missing in the records, one line each; empty when all are complete. A plain operator needs a rule, a
// reference, samples and exactly one way to compile it.
std::vector<std::string> incomplete_records(const Registry& registry);

// Runs the record's rule on a node and stores the types in its results (making them where missing).
void infer_types(Node& node, Graph& graph, const RangeEnv& ranges);

}  // namespace kiln
