#include "base/trace_file.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "base/native_stack.h"

namespace kiln {
namespace {

TEST(TraceFile, OneObjectPerLine) {
  TemporaryDirectory directory;
  const std::string folder = join_path(directory.path(), "new/trace");
  std::string path;
  for (int i = 0; i < 2; ++i) {  // a second writer of the process continues the same file
    TraceFile file(folder);
    Json record = Json::object();
    record.set("text", "two\nlines \"quoted\"");
    file.write("note", record);
    file.write("empty", Json::object());
    path = file.path();
  }
  EXPECT_EQ(list_directory(folder).size(), 1u);
  std::vector<std::string> lines = split(read_file(path), '\n');
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(parse_json(lines[0], "session").at("type").as_string(), "session");
  EXPECT_EQ(parse_json(lines[0], "session").at("trace_version").as_int(), trace_version);
  const Json note = parse_json(lines[1], "note");
  EXPECT_EQ(note.at("type").as_string(), "note");
  EXPECT_EQ(note.at("text").as_string(), "two\nlines \"quoted\"");
  EXPECT_GT(note.at("time").as_double(), 1e9);
  EXPECT_EQ(parse_json(lines[4], "empty").at("type").as_string(), "empty");
}

TEST(TraceFile, DirectoryThatCannotBeMade) {
  TemporaryDirectory directory;
  const std::string file = join_path(directory.path(), "file");
  write_file_atomic(file, "x");
  EXPECT_THROW(TraceFile(join_path(file, "below")), Error);
}

// Not in an unnamed namespace and not static: its name is in the symbol table whatever the optimiser does.
}  // namespace

__attribute__((noinline)) void fails_with_a_stack() { fail_user("K0101", "as wished"); }

namespace {

TEST(NativeStack, ErrorsCarryItWhenAskedFor) {
  ASSERT_EQ(setenv("TORCH_SHOW_CPP_STACKTRACES", "1", 1), 0);
  std::string text;
  try {
    fails_with_a_stack();
  } catch (Error& error) {
    Where where;
    where.pass = "lower";
    error.locate(where);
    text = error.what();
  }
  unsetenv("TORCH_SHOW_CPP_STACKTRACES");
  EXPECT_NE(text.find("pass lower\n  native stack"), std::string::npos) << text;
  EXPECT_NE(text.find("kiln::fails_with_a_stack()"), std::string::npos) << text;
  EXPECT_NE(text.find("  #0 kiln::"), std::string::npos) << text;
  try {
    fails_with_a_stack();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("native stack"), std::string::npos);
  }
}

}  // namespace
}  // namespace kiln
