// tests/operator_coverage.txt says which operators the cases in tests/cases call: it must be up to date.
#include <gtest/gtest.h>

#include "base/file.h"
#include "ops/called_operator.h"
#include "ops/op_record.h"
#include "ops/record_lists_test.h"
#include "pt2/reader.h"

namespace kiln {
namespace {

void collect(const Graph& graph, std::set<std::string>& names) {
  for (const auto& node : graph.nodes) {
    for (const std::string& name : {node->target, called_operator(*node)})
      if (Registry::instance().find(name)) names.insert(name);
    for (const auto& named : node->args)
      if (named.arg.is_graph() && named.arg.as_graph()) collect(*named.arg.as_graph(), names);
  }
}

TEST(OperatorCoverage, TheListSaysWhatTheCasesCall) {
  const std::string cases = std::string(std::getenv("KILN_SOURCE_DIR")) + "/tests/cases";
  std::set<std::string> called, listed;
  for (const std::string& name : list_directory(cases))
    if (const std::string model = cases + "/" + name + "/model.pt2"; file_exists(model))
      collect(read_pt2(model).graph, called);
  for (const auto& [name, where] : read_test_list("operator_coverage.txt")) {
    const bool aten = Registry::instance().find(name) != nullptr;
    if (aten && starts_with(where, "cases")) listed.insert(name);
  }
  std::erase_if(called, [](const std::string& name) {  // Python's functions, which the list leaves out
    return starts_with(name, "_operator.") || starts_with(name, "math.") || starts_with(name, "torch.");
  });
  for (const std::string& name : called)
    EXPECT_TRUE(listed.contains(name)) << name << " is missing: run tools/list_case_operators.py";
  for (const std::string& name : listed)
    EXPECT_TRUE(called.contains(name)) << name << " is called by no case: run tools/list_case_operators.py";
}

}  // namespace
}  // namespace kiln
