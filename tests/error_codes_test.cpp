// Checks that an error code has one meaning: every code in the sources stands in the table of docs/errors.md with the
// folders that may throw it, and every code of the table is thrown there. A code taken for something else in another
// folder is found by this; the check itself is tested on small trees made here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/pattern_test.h"

namespace {

using kiln::Pattern;

namespace fs = std::filesystem;
using Folders = std::set<std::string>;
using Codes = std::map<std::string, Folders>;

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t`"), end = text.find_last_not_of(" \t\r`");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

// Rows "| K0101 | what it means | base, pt2 |".
Codes read_table(const fs::path& document, std::vector<std::string>& problems) {
  Codes codes;
  std::ifstream in(document);
  const Pattern row(R"(^\| (K0[0-9]{3}) \| ([^|]*)\| ([^|]*)\|\s*$)");
  for (std::string line; std::getline(in, line);) {
    const auto match = row.find(line);
    if (!match) continue;
    const std::string code = match->groups[1];
    if (codes.count(code) > 0) problems.push_back(code + " has two rows in the table");
    if (trimmed(match->groups[2]).empty()) problems.push_back(code + " has no meaning in the table");
    std::istringstream folders(match->groups[3]);
    for (std::string folder; std::getline(folders, folder, ',');) codes[code].insert(trimmed(folder));
  }
  return codes;
}

// The folder's name as the table has it: "pt2" for src/pt2/reader.cpp, "runtime" for runtime/run.cpp.
std::string folder_of(const fs::path& relative) {
  auto part = relative.begin();
  return *part == "src" ? (++part)->string() : part->string();
}

bool compared(const std::string& line, size_t at) {
  return at >= 3 && (line.compare(at - 3, 3, "== ") == 0 || line.compare(at - 3, 3, "!= ") == 0);
}

Codes read_sources(const fs::path& root) {
  Codes codes;
  const Pattern literal(R"re(("|error\[)(K0[0-9]{3})[]"])re");
  const Pattern python_literal(R"re((code = "|error\[)(K0[0-9]{3})[]"])re");  // others are compared with
  for (const char* top : {"src", "runtime", "cli", "python", "include"}) {
    if (!fs::exists(root / top)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / top)) {
      const std::string name = entry.path().filename().string();
      const std::string kind = entry.path().extension().string();
      const bool source = kind == ".cpp" || kind == ".h" || kind == ".hpp" || kind == ".py";
      if (!source || name.find("_test.") != std::string::npos) continue;
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        // A code that is only compared with is not thrown there.
        if (line.find("between(") != std::string::npos) continue;
        const std::string code = line.substr(0, std::min(line.find("//"), line.find("/*")));
        for (const auto& match : (kind == ".py" ? python_literal : literal).find_all(code))
          if (!compared(code, match.position))
            codes[match.groups[2]].insert(folder_of(fs::relative(entry.path(), root)));
      }
    }
  }
  return codes;
}

std::vector<std::string> check(const fs::path& root) {
  std::vector<std::string> problems;
  const Codes table = read_table(root / "docs/errors.md", problems), sources = read_sources(root);
  for (const auto& [code, folders] : sources) {
    const auto row = table.find(code);
    for (const std::string& folder : folders)
      if (row == table.end())
        problems.push_back(code + " is thrown in " + folder + " and is not in the table of docs/errors.md");
      else if (row->second.count(folder) == 0)
        problems.push_back(code + " is thrown in " + folder +
                           ", where the table of docs/errors.md does not have it: is it the same mistake?");
  }
  for (const auto& [code, folders] : table)
    for (const std::string& folder : folders)
      if (sources.count(code) == 0 || sources.at(code).count(folder) == 0)
        problems.push_back(code + " is not thrown in " + folder + " any more");
  return problems;
}

TEST(ErrorCodes, EveryCodeHasOneMeaning) {
  const char* source = std::getenv("KILN_SOURCE_DIR");
  ASSERT_NE(source, nullptr) << "set KILN_SOURCE_DIR to the top of the repository";
  for (const std::string& problem : check(source)) ADD_FAILURE() << problem;
}

class SmallTree : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) / "kiln_error_codes_test";
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  fs::path root_;
};

TEST_F(SmallTree, FindsWhatIsWrong) {
  write("docs/errors.md", "| K0101 | a file is missing | `base` |\n| K0102 | unused | `base` |\n");
  write("src/base/file.cpp", "fail_user(\"K0101\", x);  // not \"K0104\"\nif (code == \"K0105\") return;\n");
  write("src/base/file_test.cpp", "EXPECT_EQ(code, \"K0106\");\n");
  EXPECT_EQ(check(root_), (std::vector<std::string>{"K0102 is not thrown in base any more"}));
  write("src/pt2/reader.cpp", "fail_user(\"K0101\", y); fail_user(\"K0103\", y);\n");
  EXPECT_EQ(check(root_).size(), 3u);
  write("cli/main.cpp", "puts(\"error[K0107]: out of memory\");\n");  // one that is only printed
  EXPECT_EQ(check(root_).size(), 4u);
}

TEST_F(SmallTree, ARowIsThereOnce) {
  write("docs/errors.md", "| K0101 | one thing | `base` |\n| K0101 | another | `base` |\n");
  write("src/base/file.cpp", "fail_user(\"K0101\", x);\n");
  EXPECT_EQ(check(root_), (std::vector<std::string>{"K0101 has two rows in the table"}));
}

}  // namespace
