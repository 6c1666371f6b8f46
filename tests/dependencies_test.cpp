// Checks that includes point the allowed way: every #include "…" (and <kiln/…>) under src/, include/, runtime/ and cli/
// against tools/dependencies.txt; and that docs/architecture.md lists the folders that there are. The checks themselves
// are tested on small trees made here.
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
using Problems = std::vector<std::string>;

struct Rules {
  std::vector<std::string> order;                                 // folders as listed
  std::map<std::string, std::set<std::string>> allowed;           // by folder
  std::map<std::string, std::set<std::string>> allowed_in_tests;  // more for *_test.cpp
  std::map<std::string, std::set<std::string>> allowed_inside;    // by "folder/inner": of its own folder
  bool knows(const std::string& folder) const { return allowed.count(folder) > 0; }
};

Rules read_rules(const fs::path& file, Problems& problems) {
  Rules rules;
  std::ifstream in(file);
  if (!in) problems.push_back("cannot read " + file.string());
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string place = file.filename().string() + ":" + std::to_string(number) + ": ";
    const size_t colon = line.find(':');
    if (colon == std::string::npos) {
      problems.push_back(place + "expected \"folder: what it may include\"");
      continue;
    }
    std::istringstream left(line.substr(0, colon)), right(line.substr(colon + 1));
    std::string folder, tests, name;
    left >> folder >> tests;
    if (folder.find('/') != std::string::npos) {
      const std::string outer = folder.substr(0, folder.find('/'));
      if (!rules.knows(outer)) problems.push_back(place + outer + " is not listed above " + folder);
      for (rules.allowed_inside[folder]; right >> name; rules.allowed_inside[folder].insert(name))
        if (!name.starts_with(outer + "/") ||
            (name.find('.') == std::string::npos && !rules.allowed_inside.count(name)))
          problems.push_back(place + folder + " may not name " + name + ", which is not listed above it in " + outer);
      continue;
    }
    if (tests.empty()) {
      if (rules.knows(folder)) problems.push_back(place + folder + " is listed twice");
      rules.order.push_back(folder);
      rules.allowed[folder];
    }
    auto& list = tests.empty() ? rules.allowed[folder] : rules.allowed_in_tests[folder];
    while (right >> name) {
      const std::string named = name.substr(0, name.find('/'));
      if (named == folder || !rules.knows(named))
        problems.push_back(place + folder + " may not name " + named + ", which is not listed above it");
      list.insert(name);
    }
  }
  return rules;
}

// The folder a file belongs to ("types" for src/types/expr.h, "runtime" for runtime/x.cpp) and its path inside
// ("types/expr.h").
struct Place {
  std::string folder, path;
  // "codegen/cpu" for codegen/cpu/target.cpp; the folder itself for what lies in it.
  std::string inner() const {
    const size_t end = path.find('/', folder.size() + 1);
    return end == std::string::npos ? folder : path.substr(0, end);
  }
};
Place place_of(const fs::path& relative) {
  auto part = relative.begin();
  if (*part == "src") ++part;
  Place place{part->string(), ""};
  for (; part != relative.end(); ++part) place.path += (place.path.empty() ? "" : "/") + part->string();
  return place;
}

// The file of the repository that an include names, relative to its root; empty when there is none.
fs::path resolve(const fs::path& root, const fs::path& from, const std::string& name) {
  for (const fs::path& base : {root / from.parent_path(), root / "src", root / "include", root}) {
    std::error_code error;
    if (fs::is_regular_file(base / name, error))
      return fs::weakly_canonical(base / name).lexically_relative(fs::weakly_canonical(root));
  }
  return {};
}

void check_file(const fs::path& root, const fs::path& relative, const Rules& rules, Problems& problems) {
  const Place from = place_of(relative);
  const bool is_test = relative.stem().string().ends_with("_test");
  static const Pattern include(R"re(^\s*#\s*include\s*("([^"]+)"|<(kiln/[^>]+)>))re");
  std::ifstream in(root / relative);
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const auto match = include.find(line);
    if (!match) continue;
    const std::string name = match->groups[2] + match->groups[3];
    const std::string where = relative.string() + ":" + std::to_string(number) + ": ";
    const fs::path target = resolve(root, relative, name);
    if (target.empty()) {
      problems.push_back(where + "includes \"" + name + "\", which does not exist");
      continue;
    }
    const Place to = place_of(target);
    const auto allows = [&](const std::map<std::string, std::set<std::string>>& lists) {
      const auto list = lists.find(from.folder);
      return list != lists.end() && (list->second.count(to.folder) || list->second.count(to.path));
    };
    if (to.folder == from.folder) {
      const auto inside = rules.allowed_inside.find(from.inner());
      if (inside == rules.allowed_inside.end() || to.inner() == from.inner() || inside->second.count(to.inner()) ||
          inside->second.count(to.path))
        continue;
      problems.push_back(where + "includes \"" + name + "\", but " + from.inner() + " may not depend on " + to.path +
                         " (tools/dependencies.txt)");
      continue;
    }
    if (allows(rules.allowed) || (is_test && allows(rules.allowed_in_tests))) continue;
    problems.push_back(where + "includes \"" + name + "\", but " + from.folder + " may not depend on " + to.folder +
                       " (tools/dependencies.txt)");
  }
}

Problems check_tree(const fs::path& root) {
  Problems problems;
  const Rules rules = read_rules(root / "tools/dependencies.txt", problems);
  std::vector<fs::path> files;
  for (const char* top : {"src", "include", "runtime", "cli", "python"}) {
    if (!fs::exists(root / top)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      const std::string kind = entry.path().extension().string();
      const bool source = kind == ".h" || kind == ".hpp" || kind == ".cpp" || kind == ".c" || kind == ".cu";
      if (entry.is_regular_file() && source) files.push_back(entry.path().lexically_relative(root));
    }
  }
  std::sort(files.begin(), files.end());
  std::set<std::string> unknown;
  for (const fs::path& file : files) {
    const std::string folder = place_of(file).folder;
    if (rules.knows(folder))
      check_file(root, file, rules, problems);
    else if (unknown.insert(folder).second)
      problems.push_back(file.string() + ": the folder " + folder + " is not listed in tools/dependencies.txt");
  }
  return problems;
}

// The list in docs/architecture.md: lines that begin with a folder, "src/types/   dtypes, …", against the folders of
// the rules and of the tree.
Problems check_listed_folders(const fs::path& root) {
  Problems problems;
  std::set<std::string> listed;
  std::ifstream in(root / "docs/architecture.md");
  static const Pattern entry(R"re(^((src/)?([a-z_0-9]+))/([a-z]+/)? +\S)re");
  for (std::string line; std::getline(in, line);) {
    const auto match = entry.find(line);
    if (!match) continue;
    listed.insert(match->groups[3]);
    if (!fs::is_directory(root / match->groups[1]))
      problems.push_back("docs/architecture.md lists " + match->groups[1] + "/, which does not exist");
  }
  for (const std::string& folder : read_rules(root / "tools/dependencies.txt", problems).order) {
    if (!listed.count(folder)) problems.push_back("docs/architecture.md does not list the folder " + folder);
    if (!fs::is_directory(root / "src" / folder) && !fs::is_directory(root / folder))
      problems.push_back("tools/dependencies.txt lists the folder " + folder + ", which does not exist");
  }
  return problems;
}

// Files and folders in `backticks`: a document that names what is gone leads nowhere.
Problems check_named_files(const fs::path& root, const std::string& document) {
  Problems problems;
  std::ifstream in(root / document);
  static const Pattern named(R"re(`((src|runtime|cli|tests|tools|docs|include)/[A-Za-z0-9_./]*)`)re");
  for (std::string line; std::getline(in, line);)
    for (const auto& match : named.find_all(line))
      if (!fs::exists(root / match.groups[1])) problems.push_back(document + " names " + match.groups[1]);
  return problems;
}

std::string joined(const Problems& problems) {
  std::string text;
  for (const std::string& problem : problems) text += "\n  " + problem;
  return text;
}

TEST(Dependencies, EveryIncludePointsTheAllowedWay) {
  const char* root = std::getenv("KILN_SOURCE_DIR");
  ASSERT_NE(root, nullptr) << "set KILN_SOURCE_DIR to the repository (ctest does)";
  const Problems problems = check_tree(root);
  EXPECT_TRUE(problems.empty()) << joined(problems);
}

TEST(Dependencies, TheDocumentListsTheFoldersThatThereAre) {
  const char* root = std::getenv("KILN_SOURCE_DIR");
  ASSERT_NE(root, nullptr) << "set KILN_SOURCE_DIR to the repository (ctest does)";
  const Problems problems = check_listed_folders(root);
  EXPECT_TRUE(problems.empty()) << joined(problems);
}

TEST(Dependencies, TheFilesThatTheDocumentNamesExist) {
  const char* root = std::getenv("KILN_SOURCE_DIR");
  ASSERT_NE(root, nullptr) << "set KILN_SOURCE_DIR to the repository (ctest does)";
  for (const char* document : {"docs/architecture.md", "docs/adding-an-operator.md", "tests/README.md"}) {
    const Problems problems = check_named_files(root, document);
    EXPECT_TRUE(problems.empty()) << joined(problems);
  }
}

// A small repository in a temporary directory.
class SmallTree : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/kiln_dependencies_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root_ = name;
    write("tools/dependencies.txt",
          "include:\nbase:  # nothing\ntypes: base\nruntime: include types/dtype.h\ntypes tests: include\n");
    write("src/base/text.h", "#pragma once\n#include <string>\n");
    write("src/types/dtype.h", "#include \"base/text.h\"\n");
    write("src/types/expr.h", "#include \"dtype.h\"\n");
    write("include/kiln/kiln.h", "");
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  fs::path root_;
};

TEST_F(SmallTree, AllowedIncludesPass) {
  write("runtime/load.cpp", "#include <kiln/kiln.h>\n#include \"types/dtype.h\"\n");
  write("src/types/expr_test.cpp", "#include \"kiln/kiln.h\"\n");
  EXPECT_EQ(check_tree(root_), Problems{});
}

TEST_F(SmallTree, IncludeAgainstTheOrderIsNamed) {
  write("src/base/text.cpp", "#include \"base/text.h\"\n  # include \"types/expr.h\"\n");
  EXPECT_EQ(check_tree(root_),
            Problems{"src/base/text.cpp:2: includes \"types/expr.h\", but base may not depend on types "
                     "(tools/dependencies.txt)"});
}

TEST_F(SmallTree, OneAllowedFileDoesNotAllowItsFolder) {
  write("runtime/load.cpp", "#include \"types/expr.h\"\n");
  EXPECT_EQ(check_tree(root_).size(), 1u);
}

TEST_F(SmallTree, WhatTestsMayIncludeSourcesMayNot) {
  write("src/types/expr.cpp", "#include \"kiln/kiln.h\"\n");
  EXPECT_EQ(check_tree(root_).size(), 1u);
}

TEST_F(SmallTree, UnknownFolderIsNamedOnce) {
  write("src/helpers/a.h", "");
  write("src/helpers/b.h", "");
  EXPECT_EQ(check_tree(root_), Problems{"src/helpers/a.h: the folder helpers is not listed in tools/dependencies.txt"});
}

TEST_F(SmallTree, FoldersInsideAFolderMayBeKeptApart) {
  write("tools/dependencies.txt", "include:\nbase:\ntypes: base\ntypes/parts:\ntypes/a: types/parts types/dtype.h\n");
  write("src/types/b/b.h", "#include \"types/a/a.h\"\n");  // nothing is said of it
  write("src/types/parts/part.h", "#include \"base/text.h\"\n");
  write("src/types/a/a.h", "#include \"types/parts/part.h\"\n#include \"types/dtype.h\"\n#include \"other.h\"\n");
  write("src/types/a/other.h", "");
  write("src/types/types.cpp", "#include \"types/a/a.h\"\n");
  EXPECT_EQ(check_tree(root_), Problems{});
  write("src/types/a/wrong.cpp", "#include \"types/b/b.h\"\n#include \"types/expr.h\"\n");
  write("src/types/parts/wrong.cpp", "#include \"types/a/a.h\"\n");
  EXPECT_EQ(check_tree(root_),
            (Problems{"src/types/a/wrong.cpp:1: includes \"types/b/b.h\", but types/a may not depend on types/b/b.h "
                      "(tools/dependencies.txt)",
                      "src/types/a/wrong.cpp:2: includes \"types/expr.h\", but types/a may not depend on types/expr.h "
                      "(tools/dependencies.txt)",
                      "src/types/parts/wrong.cpp:1: includes \"types/a/a.h\", but types/parts may not depend on "
                      "types/a/a.h (tools/dependencies.txt)"}));
  write("tools/dependencies.txt", "include:\nbase:\ntypes: base\ntypes/a: types/parts\ntypes/parts:\nruntime/x:\n");
  EXPECT_EQ(check_tree(root_)[0],
            "dependencies.txt:4: types/a may not name types/parts, which is not listed above it in types");
  EXPECT_EQ(check_tree(root_)[1], "dependencies.txt:6: runtime is not listed above runtime/x");
}

TEST_F(SmallTree, MissingFileIsNamed) {
  write("src/types/x.cpp", "#include \"types/gone.h\"\n");
  EXPECT_EQ(check_tree(root_), Problems{"src/types/x.cpp:1: includes \"types/gone.h\", which does not exist"});
}

TEST_F(SmallTree, RulesMayOnlyPointUp) {
  write("tools/dependencies.txt", "include:\nbase: types\ntypes: base\n");
  EXPECT_EQ(check_tree(root_).front(), "dependencies.txt:2: base may not name types, which is not listed above it");
}

TEST_F(SmallTree, FilesThatAreGoneAreNamed) {
  write("docs/architecture.md", "`src/base/text.h` and `src/base/gone.h`\n");
  EXPECT_EQ(check_named_files(root_, "docs/architecture.md"), Problems{"docs/architecture.md names src/base/gone.h"});
}

TEST_F(SmallTree, FoldersThatTheDocumentLacksOrInventsAreNamed) {
  write("docs/architecture.md", "src/base/   errors\nsrc/old/    gone\nruntime/    loads\ninclude/kiln/   headers\n");
  write("runtime/load.cpp", "");
  EXPECT_EQ(check_listed_folders(root_), (Problems{"docs/architecture.md lists src/old/, which does not exist",
                                                   "docs/architecture.md does not list the folder types"}));
}

}  // namespace
