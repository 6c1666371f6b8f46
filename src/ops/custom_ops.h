// What a user's library says of its operators, and how a Graph keeps it.
//
// A .pt2 names a custom operator and its arguments, but not its schema. What such an operator writes to is told by the
// library that brings it, or by the file itself where it has higher_order.auto_functionalized_v2. A node of a custom
// operator (Node::op is nullptr) then has one more argument, a list of names, that no library sees:
//
//   mylib.inc_.default(x=%x, k=2, _kiln_writes=["x"])                    writes to %x, as PyTorch's in-place operators
//   %n: f32[2] = mylib.inc_.default(x=%x, k=2, _kiln_updates=["x"])      after functionalize: %n is the new x
//
// With _kiln_updates, the node's last results are the new values of the tensors of these arguments, in order. An entry
// "y=x" says that argument y is the same memory as x, so that the operator sees there what it writes to x.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/called_operator.h"
#include "ops/op_record.h"

namespace kiln {

struct CustomOp {
  std::string target;            // "mylib.foo.default"
  std::optional<Schema> schema;  // as its library declares it
};
std::vector<CustomOp> undeclared(const std::vector<std::string>& targets);

// resolve_operators, and _kiln_writes for the operators that say what they write to. An operator that gives no result
// must write to something: if nobody says to what, K0234.
void resolve_with_custom(Graph& graph, const std::vector<CustomOp>& custom_ops);

inline constexpr std::string_view writes_argument = "_kiln_writes";
inline constexpr std::string_view updates_argument = "_kiln_updates";
bool is_custom_note(std::string_view argument);  // one of the two: not an argument of the operator

std::vector<std::string> custom_writes(const Node& node);  // empty: it writes to nothing
struct CustomUpdates {
  std::vector<std::string> names;                         // of the arguments that the last results renew
  std::vector<std::pair<std::string, std::string>> same;  // (y, x): y is the memory of x
};
CustomUpdates custom_updates(const Node& node);
Argument names_argument(const std::vector<std::string>& names);
// The tensors of an argument, one by one: of a tensor, a list, a tensor_list value. None is left out.
std::vector<Value*> argument_tensors(const Argument& arg);

}  // namespace kiln
