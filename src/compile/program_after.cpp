#include "compile/program_after.h"

#include "base/error.h"
#include "compile/compilation.h"
#include "graph/walk.h"
#include "ops/op_record.h"

namespace kiln {
namespace {

void collect_unknown(const Graph& graph, std::vector<CustomOp>& names) {
  for_each_node(graph, [&](const Node& node) {
    const std::string target = is_auto_functionalized(node) ? functionalized_target(node) : node.target;
    if (Registry::instance().find(target) == nullptr) names.push_back({target, {}});
  });
}

}  // namespace

Program program_after(const Program& program, const std::string& pass) {
  for (const PassListing& listed : list_passes())
    if (listed.name == pass && listed.stage != "graph")
      fail_user("K0221", str("the pass ", pass, " is none over the graph: it makes or changes loops"));
  CompilationOptions options;
  options.stop_after = pass;
  collect_unknown(program.graph, options.custom_ops);
  Compilation compilation(program, std::move(options));
  const Program& graph = compilation.graph();
  Program after = parse_program(print(graph), graph.constants);
  after.sample_inputs = program.sample_inputs;
  return after;
}

}  // namespace kiln
