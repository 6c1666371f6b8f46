// Text round trips: print → parse → print is identical for Graph, Loops and scheduled Loops, on every case in
// tests/cases and, where the corpus is at hand, on the cases of the slice.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "compile/pipeline.h"
#include "ops/op_record.h"
#include "pt2/reader.h"

namespace kiln {
namespace {

std::vector<std::string> case_models() {
  const char* source = std::getenv("KILN_SOURCE_DIR");
  std::string root = source ? source : ".";
  std::vector<std::string> models;
  for (const std::string& name : list_directory(root + "/tests/cases")) {
    std::string model = root + "/tests/cases/" + name + "/model.pt2";
    if (file_exists(model)) models.push_back(model);
  }
  const char* corpus = std::getenv("KILN_CORPUS");
  std::string directory = corpus ? corpus : root + "/../shared/corpus";
  std::string list = root + "/tests/corpus_slice.txt";
  if (is_directory(directory) && file_exists(list))
    for (const std::string& line : split(read_file(list), '\n'))
      if (!line.empty() && line[0] != '#' && file_exists(directory + "/" + line + "/model.pt2"))
        models.push_back(directory + "/" + line + "/model.pt2");
  return models;
}

// A call leaves out arguments that have their default: all calls together name them all.
void declare_arguments(const Node& node, CustomOp& custom) {
  if (!custom.schema) custom.schema.emplace();
  auto& declared = custom.schema->args;
  for (const Node::NamedArgument& arg : node.args) {
    if (std::any_of(declared.begin(), declared.end(), [&](const SchemaArg& a) { return a.name == arg.name; })) continue;
    SchemaArg one;
    one.name = arg.name;
    one.writes = !argument_tensors(arg.arg).empty();
    declared.push_back(one);
  }
}

// Operators of the user's own, subgraphs included: they need no library to be printed. One without results is taken to
// write to its tensors.
void collect_custom_ops(const Graph& graph, std::vector<CustomOp>& names) {
  for (const auto& node : graph.nodes) {
    const std::string target = is_auto_functionalized(*node) ? functionalized_target(*node) : node->target;
    if (!Registry::instance().find(target)) {
      auto found = std::find_if(names.begin(), names.end(), [&](const CustomOp& op) { return op.target == target; });
      CustomOp& custom = found != names.end() ? *found : names.emplace_back(CustomOp{target, {}});
      if (node->results.empty()) declare_arguments(*node, custom);
    }
    for (const Node::NamedArgument& arg : node->args)
      if (arg.arg.is_graph()) collect_custom_ops(*arg.arg.as_graph(), names);
  }
}

TEST(RoundTrip, GraphsLoopsAndSchedules) {
  std::vector<std::string> models = case_models();
  ASSERT_FALSE(models.empty());
  for (const std::string& model : models) {
    SCOPED_TRACE(model);
    Program program = read_pt2(model);
    std::string graph = print(program);
    EXPECT_EQ(print(parse_program(graph, program.constants)), graph);
    PipelineOptions options;
    collect_custom_ops(program.graph, options.custom_ops);
    for (bool schedule : {false, true}) {
      options.schedule = schedule;
      std::string text = loops::print(run_pipeline(program, options).loops);
      EXPECT_EQ(loops::print(loops::parse_loops(text)), text);
    }
  }
  RecordProperty("models", static_cast<int>(models.size()));
}

}  // namespace
}  // namespace kiln
