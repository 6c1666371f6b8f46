// What is done in one place only is done there: the environment is read, device names and levels of processors are
// recognised nowhere else. Each rule is a pattern, the files that may match it, and the reason; the check is tested on
// small trees made here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "base/pattern_test.h"

namespace {

using kiln::Pattern;

namespace fs = std::filesystem;

struct Rule {
  std::vector<std::string> words;  // a line that has none of them cannot match: most have none
  Pattern pattern;
  std::set<std::string> allowed;
  std::string instead;
};

const std::vector<Rule>& rules() {
  static const std::vector<Rule> list = {
      {{"getenv", "environ"},
       Pattern(R"((^|[^[:alnum:]_.])(secure_)?getenv\s*\(|(^|[^[:alnum:]_.])environ\b)"),
       {"src/base/environment.cpp", "src/base/settings.cpp", "src/base/fuzz_seeds.h"},
       "the environment is read in src/base/environment.cpp and by Settings"},
      {{"\"cpu\"", "\"cuda\"", "\"meta\""},
       Pattern(R"re([=!]= "(cpu|cuda|meta)")re"),
       {},
       "device names are read by device_type_from_name (src/types/device_names.h)"},
      {{"\"x86-64"},
       Pattern(R"re("x86-64(-v[0-9])?")re"),
       {"src/base/cpu_levels.cpp", "src/codegen/cpu/target.cpp", "runtime/test_package.h"},
       "levels of processors are known to src/base/cpu_levels.cpp and the targets of src/codegen/cpu/target.cpp"},
      {{"Stmt "},
       Pattern(R"re(\bStmt [a-z_, ]+;)re"),
       {"src/loops/loops.cpp", "src/loops/statements.cpp", "src/loops/parse_statements.cpp",
        "src/loop_passes/rewrite.cpp"},
       "statements are made by src/loops/statements.h"},
  };
  return list;
}

std::vector<std::string> check(const fs::path& root) {
  std::vector<std::string> problems;
  for (const char* top : {"src", "runtime", "cli"}) {
    if (!fs::exists(root / top)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / top)) {
      const std::string name = entry.path().filename().string(), kind = entry.path().extension().string();
      const bool source = kind == ".cpp" || kind == ".h" || kind == ".hpp" || kind == ".c" || kind == ".cu";
      if (!source || name.find("_test.") != std::string::npos || name.find("_fuzz.") != std::string::npos) continue;
      const std::string path = fs::relative(entry.path(), root).string();
      std::ifstream in(entry.path());
      int number = 0;
      for (std::string line; std::getline(in, line);) {
        ++number;
        const std::string code = line.substr(0, line.find("//"));
        const auto found = [&](const std::string& word) { return code.find(word) != std::string::npos; };
        for (const Rule& rule : rules())
          if (!rule.allowed.count(path) && std::any_of(rule.words.begin(), rule.words.end(), found) &&
              rule.pattern.matches(code))
            problems.push_back(path + ":" + std::to_string(number) + ": " + rule.instead);
      }
    }
  }
  std::sort(problems.begin(), problems.end());
  return problems;
}

TEST(SourceRules, WhatIsDoneInOnePlaceIsDoneThere) {
  const char* root = std::getenv("KILN_SOURCE_DIR");
  ASSERT_NE(root, nullptr) << "set KILN_SOURCE_DIR to the repository (ctest does)";
  for (const std::string& problem : check(root)) ADD_FAILURE() << problem;
}

TEST(SourceRules, NamesWhatBreaksThem) {
  const fs::path root = fs::path(testing::TempDir()) / "kiln_source_rules_test";
  const auto write = [&](const std::string& path, const std::string& text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  };
  write("src/base/environment.cpp", "std::getenv(name);\nextern char** environ;\n");
  write("src/pt2/reader.cpp", "f();\nif (type == \"cuda\") std::getenv(\"HOME\");\n");
  write("src/pt2/reader_test.cpp", "std::getenv(\"KILN_SOURCE_DIR\");\n");
  write("runtime/load.cpp", "// getenv(\"HOME\")\nenviron[0];\nout += \"os.environ.get()\";\n");
  write("cli/version.cpp", "supports(\"x86-64-v3\");\n");
  const std::vector<std::string> problems = check(root);
  fs::remove_all(root);
  ASSERT_EQ(problems.size(), 4u);
  EXPECT_EQ(problems[0].substr(0, 18), "cli/version.cpp:1:");
  EXPECT_EQ(problems[1].substr(0, 19), "runtime/load.cpp:2:");
  EXPECT_EQ(problems[2].substr(0, 21), "src/pt2/reader.cpp:2:");
  EXPECT_EQ(problems[3].substr(0, 21), "src/pt2/reader.cpp:2:");
}

}  // namespace
