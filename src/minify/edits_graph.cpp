// Edits of nodes.
#include "base/error.h"
#include "minify/edits.h"
#include "minify/graph_places.h"
#include "minify/infer_program.h"
#include "ops/op_record.h"

namespace kiln::minify {
namespace {

bool same_type(const Value& a, const Value& b) {
  return a.kind == ValueKind::tensor && b.kind == ValueKind::tensor && a.type == b.type;
}

// The only result of a node, if it is a tensor.
void replace_and_erase(Graph& graph, Node& node, Value* by) {
  graph.replace_uses(node.results[0], by);
  graph.erase(&node);
}

// Sizes and dtype only: what follows may be laid out otherwise then.
bool alike(const Value& a, const Value& b) {
  return a.kind == ValueKind::tensor && b.kind == ValueKind::tensor && a.type.sizes == b.type.sizes &&
         a.type.dtype == b.type.dtype;
}

bool bypass(Graph& graph, Node& node, bool (*fits)(const Value&, const Value&)) {
  Value* result = only_tensor(node);
  if (!result) return false;
  Value* twin = nullptr;
  for (auto& named : node.args)
    for_each_value(named.arg, [&](Value*& value) {
      if (!twin && value != result && fits(*value, *result)) twin = value;
    });
  if (!twin) return false;
  replace_and_erase(graph, node, twin);
  return true;
}

bool use_subgraph_input(Graph& graph, Node& node) {
  Value* result = only_tensor(node);
  if (!result) return false;
  for (Value* input : graph.inputs)
    if (same_type(*input, *result)) {
      replace_and_erase(graph, node, input);
      drop_dead_nodes(graph);
      return true;
    }
  return false;
}

Edit bypass_and_infer(const GraphPath& path, const std::string& node) {
  const Edit edit = node_edit("bypass", path, node, [](Graph& g, Node& n) { return bypass(g, n, alike); });
  return {edit.what, [edit](Program& program) {
            if (!edit.apply(program)) return false;
            infer_program(program);
            return true;
          }};
}

}  // namespace

std::vector<Edit> bypass_edits(const Program& program) {
  std::vector<Edit> edits;
  for_each_graph(program, [&](const Graph& graph, const GraphPath& path) {
    for (const auto& node : graph.nodes) {
      if (!only_tensor(*node)) continue;
      edits.push_back(node_edit("bypass", path, node->name, [](Graph& g, Node& n) { return bypass(g, n, same_type); }));
      edits.push_back(bypass_and_infer(path, node->name));
      if (!path.empty()) edits.push_back(node_edit("replace by an input", path, node->name, use_subgraph_input));
    }
  });
  return edits;
}

}  // namespace kiln::minify
