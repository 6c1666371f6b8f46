#include "minify/suspects.h"

#include <algorithm>
#include <set>

#include "base/given_settings.h"
#include "debug/bisect.h"
#include "debug/package_debug.h"
#include "executable/package_executable.h"
#include "graph/walk.h"

namespace kiln::minify {
namespace {

const format::Step* find_step(const std::vector<format::Step>& block, const std::string& name) {
  for (const format::Step& step : block) {
    if (step.name == name) return &step;
    for (const auto& inner : step.blocks)
      if (const format::Step* found = find_step(inner, name)) return found;
  }
  return nullptr;
}

// Of the program that the user gave: those that the kernel computes.
std::vector<std::string> nodes_of_step(const PackageDebug& package, const std::string& name) {
  const format::Step* step = find_step(package.plan().steps, name);
  std::vector<std::string> out;
  if (!step) return out;
  for (const format::StepOrigin& origin : package.origins().steps)
    if (origin.number == step->number)
      for (const std::string& node : origin.nodes)
        if (!node.empty() && std::find(out.begin(), out.end(), node) == out.end()) out.push_back(node);
  return out;
}

// A value of the lowered graph: the nodes of the user's program that it comes from.
std::vector<std::string> nodes_of_value(PackageDebug& package, const std::string& value) {
  std::vector<std::string> out;
  for (const auto& node : package.graph().graph.nodes)
    for (const Value* result : node->results)
      if (result->name == value)
        for (const Origin& origin : node->origins)
          if (!origin.node.empty()) out.push_back(origin.node);
  return out;
}

// Itself, or inside one of its subgraphs.
bool holds(const Node& node, const std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), node.name) != names.end()) return true;
  bool found = false;
  for_each_subgraph(node, [&](const Graph& graph) {
    for (const auto& inner : graph.nodes) found = found || holds(*inner, names);
  });
  return found;
}

void use_neighbours(const Program& program, std::vector<bool>& keep) {
  const std::vector<bool> before = keep;
  std::map<const Node*, size_t> position;
  for (const auto& node : program.graph.nodes) position.emplace(node.get(), position.size());
  for (const auto& node : program.graph.nodes)
    for (const auto& named : node->args)
      for_each_value(named.arg, [&](Value* value) {
        const auto producer = position.find(value->producer);
        if (producer == position.end()) return;
        const size_t user = position.at(node.get());
        if (before[user]) keep[producer->second] = true;
        if (before[producer->second]) keep[user] = true;
      });
}

void widen(std::vector<bool>& keep, size_t around) {
  const std::vector<bool> before = keep;
  for (size_t i = 0; i < keep.size(); ++i)
    for (size_t j = i - std::min(i, around); j < std::min(keep.size(), i + around + 1); ++j)
      if (before[j]) keep[i] = true;
}

}  // namespace

Suspects find_suspects(const Program& program, const ProbeOptions& options, const StageEntered& entering) {
  entering("compile");
  TemporaryDirectory directory;
  const std::string path = compile_into(directory, program, options).package_path;
  entering("bisect");
  BisectOptions bisect_options;
  bisect_options.tolerance.rtol = options.rtol;
  bisect_options.tolerance.atol = options.atol;
  bisect_options.custom_op_libs = options.custom_op_libs;
  bisect_options.inside = false;  // the search itself finds the operator, on smaller sizes
  if (options.settings) bisect_options.settings = run_assignments(*options.settings);
  bisect_options.told = [&](const std::string& where) { entering(str("bisect\t", replace_all(where, "\n", " "))); };
  const BisectResult found = bisect(path, program.sample_inputs, bisect_options);
  Suspects out;
  if (found.fault == FaultClass::none) return out;
  PackageDebug package(path);
  if (!found.node.empty()) out.groups.push_back({found.node});
  for (const std::string& value : found.candidates)
    if (auto nodes = nodes_of_value(package, value); !nodes.empty()) out.groups.push_back(std::move(nodes));
  if (auto nodes = nodes_of_step(package, found.step); !nodes.empty()) out.groups.push_back(std::move(nodes));
  if (out.groups.empty()) return out;
  out.what = found.op.empty() ? str("kernel ", found.step) : str(found.op, " (node ", found.node, ")");
  return out;
}

std::string suspects_text(const Suspects& suspects) {
  Json::Array groups;
  for (const auto& group : suspects.groups) {
    Json::Array nodes;
    for (const std::string& node : group) nodes.emplace_back(node);
    groups.emplace_back(std::move(nodes));
  }
  return json_text(Json(Json::Object{{"what", Json(suspects.what)}, {"groups", Json(std::move(groups))}}));
}

Suspects read_suspects(const std::string& text) {
  const Json json = parse_json(text, "the suspects");
  Suspects out;
  out.what = json.at("what").as_string();
  for (const Json& group : json.at("groups").items()) {
    out.groups.emplace_back();
    for (const Json& node : group.items()) out.groups.back().push_back(node.as_string());
  }
  return out;
}

std::vector<std::vector<bool>> suspected_parts(const Program& program, const Suspects& suspects) {
  std::vector<std::vector<bool>> out;
  std::set<std::vector<bool>> seen;
  const auto add = [&](const std::vector<bool>& keep) {
    const auto kept = std::count(keep.begin(), keep.end(), true);
    if (kept > 0 && kept < static_cast<ptrdiff_t>(keep.size()) && seen.insert(keep).second) out.push_back(keep);
  };
  std::vector<bool> keep;
  for (const std::vector<std::string>& group : suspects.groups) {
    keep.clear();
    for (const auto& node : program.graph.nodes) keep.push_back(holds(*node, group));
    add(keep);
  }
  if (keep.empty()) return out;
  use_neighbours(program, keep);
  add(keep);
  widen(keep, 10);
  add(keep);
  return out;
}

}  // namespace kiln::minify
