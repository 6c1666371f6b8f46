#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/leftovers.h"

namespace kiln {
namespace {

std::string code_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.code();
  }
  return "";
}

TEST(File, ReadsWhatTheSystemSaysIsEmpty) {
  EXPECT_NE(read_file("/proc/self/status").find("VmData:"), std::string::npos);
  EXPECT_NE(read_file("/proc/meminfo").find("MemAvailable:"), std::string::npos);
}

TEST(File, WritesAtomicallyAndReadsBack) {
  TemporaryDirectory directory("kiln_file_test");
  const std::string path = join_path(directory.path(), "a.bin");
  write_file_atomic(path, std::string_view("one\0two", 7));
  write_file_atomic(path, std::string_view("x\0y", 3));
  EXPECT_EQ(read_file(path), std::string("x\0y", 3));
  EXPECT_EQ(list_directory(directory.path()), std::vector<std::string>{"a.bin"});  // no temporary left
  const auto mapped = MappedFile::open(path);
  EXPECT_EQ(as_text(mapped->bytes()), std::string_view("x\0y", 3));
}

TEST(File, AbandonedAtomicFileLeavesNothing) {
  TemporaryDirectory directory("kiln_file_test");
  {
    AtomicFile file(join_path(directory.path(), "a"));
    file.write(as_bytes("half"));
  }
  EXPECT_TRUE(list_directory(directory.path()).empty());
}

// As kill -9 leaves it, beside one that somebody is writing and names of the user's own.
TEST(File, WhatNobodyFinishesIsRemovedAndOnlyThat) {
  TemporaryDirectory directory("kiln_file_test");
  auto in = [&](const std::string& name) { return join_path(directory.path(), name); };
  write_file_atomic(in("a.pt2"), "good");
  const std::vector<std::string> others = {"a.pt2.0123456789abcde", "a.pt2.0123456789abcdeg",
                                           "ab.pt2.0123456789abcdef"};
  for (const std::string& name : others) write_file_atomic(in(name), "");
  write_file_atomic(in("a.pt2.0123456789abcdef"), "ha");
  AtomicFile being_written(in("a.pt2"));
  being_written.write(as_bytes("better"));
  make_directories(in("a.pt2.00000000deadbeef"));
  remove_unfinished(in("a.pt2"));
  EXPECT_FALSE(file_exists(in("a.pt2.0123456789abcdef")));
  EXPECT_TRUE(is_directory(in("a.pt2.00000000deadbeef")));
  for (const std::string& name : others) EXPECT_TRUE(file_exists(in(name))) << name;
  EXPECT_EQ(read_file(in("a.pt2")), "good");
  being_written.commit();
  EXPECT_EQ(read_file(in("a.pt2")), "better");
  remove_unfinished(in("missing/a.pt2"));
  remove_unfinished("/dev/null");
}

TEST(File, ErrorsNameThePathAndTheReason) {
  TemporaryDirectory directory("kiln_file_test");
  const std::string missing = join_path(directory.path(), "missing");
  try {
    MappedFile::open(missing);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), "K0101");
    EXPECT_NE(error.message().find(missing), std::string::npos);
    EXPECT_NE(error.message().find("No such file"), std::string::npos);
  }
  EXPECT_EQ(code_of([&] { read_file(directory.path()); }), "K0101");
  EXPECT_EQ(code_of([&] { write_file_atomic(join_path(missing, "x"), ""); }), "K0104");
  EXPECT_EQ(code_of([&] { list_directory(missing); }), "K0107");
}

TEST(File, EmptyFileMapsToNothing) {
  TemporaryDirectory directory("kiln_file_test");
  const std::string path = join_path(directory.path(), "empty");
  write_file_atomic(path, "");
  EXPECT_TRUE(MappedFile::open(path)->bytes().empty());
}

TEST(File, TemporaryDirectoryIsPrivateAndRemoved) {
  std::string path;
  {
    TemporaryDirectory directory("kiln_file_test");
    path = directory.path();
    make_directories(join_path(path, "a/b/c"));
    make_directories(join_path(path, "a/b/c"));
    EXPECT_TRUE(is_directory(join_path(path, "a/b/c")));
    struct stat info {};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
  }
  EXPECT_FALSE(file_exists(path));
}

TEST(File, Paths) {
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_EQ(join_path("a", "/b"), "/b");
  EXPECT_EQ(file_name("a/b.tar.GZ"), "b.tar.GZ");
  EXPECT_EQ(extension("a/b.tar.GZ"), ".gz");
  EXPECT_EQ(extension("a.b/c"), "");
  EXPECT_EQ(extension(".hidden"), "");
  EXPECT_EQ(stem("a/b.tar.gz"), "b.tar");
  EXPECT_EQ(parent_path("a/b"), "a");
  EXPECT_EQ(parent_path("b"), ".");
  EXPECT_EQ(parent_path("/b"), "/");
}

}  // namespace
}  // namespace kiln
