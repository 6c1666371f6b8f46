#include "compile/program_after.h"

#include "base/error.h"
#include "compile/pipeline.h"
#include "ops/op_record.h"

namespace kiln {
namespace {

void collect_unknown(const Graph& graph, std::vector<CustomOp>& names) {
  for (const auto& node : graph.nodes) {
    const std::string target = is_auto_functionalized(*node) ? functionalized_target(*node) : node->target;
    if (Registry::instance().find(target) == nullptr) names.push_back({target, {}});
    for (const Node::NamedArgument& arg : node->args)
      if (arg.arg.is_graph()) collect_unknown(*arg.arg.as_graph(), names);
  }
}

}  // namespace

Program program_after(const Program& program, const std::string& pass) {
  for (const PassListing& listed : list_passes())
    if (listed.name == pass && listed.stage != "graph")
      fail_user("K0221", str("the pass ", pass, " is none over the graph: it makes or changes loops"));
  PipelineOptions options;
  options.stop_after = pass;
  collect_unknown(program.graph, options.custom_ops);
  const PipelineResult result = run_pipeline(program, options);
  Program after = parse_program(result.graph_text, result.constants);
  after.sample_inputs = program.sample_inputs;
  return after;
}

}  // namespace kiln
