// An operator is described in one place, its record: outside of src/ops, and of src/pt2 which reads and writes files,
// no source spells an operator of ATen. Two searches over the strings of the sources (comments aside, tests aside):
// - everywhere "aten." and "aten::";
// - in the folders that work on graphs also the bare name of an operator ("view_as_real"), since that is how a table of
//   operators would be written there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "ops/op_record.h"

namespace {

namespace fs = std::filesystem;
using Problems = std::vector<std::string>;

// The strings of a source file with their lines; comments are skipped.
std::vector<std::pair<int, std::string>> strings_of(const std::string& text) {
  std::vector<std::pair<int, std::string>> out;
  int line = 1;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') {
      ++line;
    } else if (text.compare(i, 2, "//") == 0) {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (text.compare(i, 2, "/*") == 0) {
      const size_t end = std::min(text.find("*/", i), text.size() - 2);
      line += static_cast<int>(std::count(text.begin() + static_cast<std::ptrdiff_t>(i),
                                          text.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
      i = end + 1;
    } else if (text.compare(i, 2, "R\"") == 0) {
      const size_t open = text.find('(', i);
      const std::string close = ")" + text.substr(i + 2, open - i - 2) + "\"";
      const size_t end = std::min(text.find(close, open), text.size());
      out.emplace_back(line, text.substr(open + 1, end - open - 1));
      line += static_cast<int>(std::count(out.back().second.begin(), out.back().second.end(), '\n'));
      i = end + close.size() - 1;
    } else if (text[i] == '\'') {
      const bool digit_separator = i > 0 && std::isalnum(static_cast<unsigned char>(text[i - 1]));
      if (!digit_separator) i += text[i + 1] == '\\' ? 3 : 2;
    } else if (text[i] == '"') {
      std::string value;
      for (++i; i < text.size() && text[i] != '"'; ++i) {
        if (text[i] == '\\') ++i;
        value += text[i];
      }
      out.emplace_back(line, value);
    }
  }
  return out;
}

// The folders that work on graphs; "loops" and what follows have scalar operators of their own with like names.
bool works_on_graphs(const fs::path& relative) {
  for (const char* folder : {"src/graph_passes/", "src/interp/"})
    if (relative.string().rfind(folder, 0) == 0) return true;
  return false;
}

// Arguments that are called like operators.
bool is_argument_name(const std::string& text) {
  static const std::set<std::string> names = {"index", "values", "copy", "real", "imag", "input", "where"};
  return names.count(text) > 0;
}

Problems check_source(const fs::path& relative, const std::string& text, const std::set<std::string>& operators) {
  Problems problems;
  for (const auto& [line, value] : strings_of(text)) {
    const std::string where = relative.string() + ":" + std::to_string(line) + ": ";
    const std::string bare = value.substr(0, value.find('.'));
    if (value.find("aten.") != std::string::npos || value.find("aten::") != std::string::npos)
      problems.push_back(where + "\"" + value.substr(0, 60) + "\" names an operator of ATen");
    else if (works_on_graphs(relative) && operators.count(bare) && !is_argument_name(value))
      problems.push_back(where + "\"" + value + "\" is an operator's name");
  }
  return problems;
}

// Tests, and texts that are samples for them.
bool is_of_tests(const fs::path& path) {
  const std::string name = path.filename().string();
  if (path.stem().string().ends_with("_test") || path.stem().string().ends_with("_fuzz")) return true;
  return name == "sample_text.h" || name == "test_package.h" || name.rfind("seeded_", 0) == 0;
}

std::set<std::string> operator_names() {
  std::set<std::string> out;
  for (const kiln::OpRecord* record : kiln::Registry::instance().all())
    if (record->name_space == "aten") out.insert(kiln::op_short_name(record->name()));
  return out;
}

TEST(OperatorNames, NoneOutsideOfTheRecords) {
  const char* source = std::getenv("KILN_SOURCE_DIR");
  ASSERT_NE(source, nullptr) << "set KILN_SOURCE_DIR to the repository (ctest does)";
  const fs::path root = source;
  const std::set<std::string> operators = operator_names();
  Problems problems;
  int files = 0;
  for (const char* top : {"src", "include", "runtime", "cli"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      const fs::path relative = entry.path().lexically_relative(root);
      const std::string kind = entry.path().extension().string(), path = relative.string();
      if (kind != ".h" && kind != ".hpp" && kind != ".cpp" && kind != ".c") continue;
      if (path.rfind("src/ops/", 0) == 0 || path.rfind("src/pt2/", 0) == 0 || is_of_tests(relative)) continue;
      std::ifstream in(entry.path());
      const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
      for (std::string& problem : check_source(relative, text, operators)) problems.push_back(std::move(problem));
      ++files;
    }
  }
  EXPECT_GT(files, 200);
  for (const std::string& problem : problems) ADD_FAILURE() << problem;
}

TEST(OperatorNames, AreFoundInStringsAndNotInComments) {
  const std::set<std::string> operators = {"mm", "index"};
  auto in = [&](const char* path, const char* text) { return check_source(path, text, operators); };
  EXPECT_EQ(in("src/debug/a.cpp", "// aten.mm\n/* \"aten.mm\" */ f(\"x\", 'a', '\"');\n").size(), 0u);
  EXPECT_EQ(in("src/debug/a.cpp", "\n\nf(\"aten.mm.default\");"),
            Problems{"src/debug/a.cpp:3: \"aten.mm.default\" names an operator of ATen"});
  EXPECT_EQ(in("runtime/a.cpp", "f(R\"(torch.ops.aten::mm)\");").size(), 1u);
  EXPECT_EQ(in("src/debug/a.cpp", "f(\"mm\");").size(), 0u);
  EXPECT_EQ(in("src/graph_passes/a.cpp", "f(\"mm\");"),
            Problems{"src/graph_passes/a.cpp:1: \"mm\" is an operator's name"});
  EXPECT_EQ(in("src/graph_passes/a.cpp", "f(\"mm.out\", \"index\", \"mmm\");").size(), 1u);
}

}  // namespace
