// The list of passes against the tree and its documents: a pass stands in the folder of its stage, and
// docs/architecture.md names it there.
#include "compile/pipeline.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "base/pattern_test.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

fs::path source_directory() {
  const char* source = std::getenv("KILN_SOURCE_DIR");
  return source ? source : ".";
}

std::string folder_of_stage(const std::string& stage) {
  return stage == "lower"      ? "lower"
         : stage == "schedule" ? "schedule"
         : stage == "loops"    ? "loop_passes"
                               : "graph_passes";
}

// The folders of passes in which a function of this name is defined.
std::set<std::string> folders_that_define(const std::string& function) {
  std::set<std::string> out;
  const Pattern definition(str("(^|\n)[A-Za-z:]+ ", function, "\\("));
  for (const char* folder : {"graph_passes", "lower", "loop_passes", "schedule"})
    for (const auto& entry : fs::directory_iterator(source_directory() / "src" / folder)) {
      const std::string name = entry.path().filename().string();
      if (!ends_with(name, ".cpp") || ends_with(name, "_test.cpp")) continue;
      if (definition.matches(read_file(entry.path().string()))) out.insert(folder);
    }
  return out;
}

TEST(Passes, StandInTheFolderOfTheirStage) {
  size_t found = 0;
  for (const PassListing& pass : list_passes()) {
    const std::set<std::string> folders = folders_that_define(pass.name);
    if (folders.empty()) continue;  // the second run of a function, under a name of its own
    ++found;
    EXPECT_EQ(folders, std::set<std::string>{folder_of_stage(pass.stage)}) << pass.name;
  }
  EXPECT_GE(found, list_passes().size() - 6);
}

// "src/graph_passes/  inline_wrappers, …" and the lines that go on below it: the words of each folder's entry.
std::map<std::string, std::set<std::string>> documented_folders() {
  std::map<std::string, std::set<std::string>> out;
  std::istringstream lines(read_file((source_directory() / "docs/architecture.md").string()));
  const Pattern entry("^src/([a-z_]+)/ "), word("[a-z_]+");
  std::string folder;
  for (std::string line; std::getline(lines, line);) {
    if (const auto match = entry.find(line))
      folder = match->groups[1];
    else if (!starts_with(line, "     "))
      folder.clear();
    if (folder.empty()) continue;
    for (const auto& match : word.find_all(line)) out[folder].insert(match.groups[0]);
  }
  return out;
}

TEST(Passes, AreListedInTheDocumentOfTheLayout) {
  const auto documented = documented_folders();
  for (const PassListing& pass : list_passes()) {
    const std::string folder = folder_of_stage(pass.stage);
    if (folders_that_define(pass.name).empty()) continue;
    ASSERT_TRUE(documented.contains(folder)) << folder;
    EXPECT_TRUE(documented.at(folder).contains(pass.name))
        << pass.name << " is not among the passes of src/" << folder << " in docs/architecture.md";
  }
}

}  // namespace
}  // namespace kiln
