// Who may read what is written, what is followed and what is not, and what a process leaves behind when it is ended.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/leftovers.h"
#include "base/trace_file.h"

namespace kiln {
namespace {

std::string access_code_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.code();
  }
  return "";
}

unsigned mode_of(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

bool is_link(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
}

// Runs f in a child; gives how it ended, as waitpid says.
int in_child(const std::function<void()>& f) {
  const pid_t pid = fork();
  if (pid == 0) {
    f();
    _exit(0);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  return status;
}

constexpr uid_t other_user = 65534;

class FileAccessTest : public ::testing::Test {
 protected:
  std::string in(const std::string& name) const { return join_path(directory_.path(), name); }
  TemporaryDirectory directory_{"kiln-access"};
};

TEST_F(FileAccessTest, LinksAreFollowedAndStay) {
  write_file_atomic(in("file"), "old");
  ASSERT_EQ(symlink("file", in("link").c_str()), 0);
  write_file_atomic(in("link"), "new");
  EXPECT_TRUE(is_link(in("link")));
  EXPECT_EQ(read_file(in("file")), "new");
  ASSERT_EQ(symlink("not-yet", in("dangling").c_str()), 0);
  write_file_atomic(in("dangling"), "made");
  EXPECT_TRUE(is_link(in("dangling")));
  EXPECT_EQ(read_file(in("not-yet")), "made");
  ASSERT_EQ(symlink("round", in("round").c_str()), 0);
  EXPECT_EQ(access_code_of([&] { write_file_atomic(in("round"), ""); }), "K0104");
  EXPECT_EQ(access_code_of([&] { write_file_atomic(directory_.path(), ""); }), "K0104");
  EXPECT_EQ(access_code_of([&] { write_file_atomic("", ""); }), "K0104");
}

TEST_F(FileAccessTest, WhatIsNoFileIsWrittenThrough) {
  ASSERT_EQ(mkfifo(in("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(is_stream(in("pipe")));
  EXPECT_EQ(access_code_of([&] { read_file(in("pipe")); }), "K0101");  // and does not wait for a writer
  EXPECT_EQ(access_code_of([&] { MappedFile::open(in("pipe")); }), "K0101");
  const pid_t writer = fork();
  if (writer == 0) {
    write_file_atomic(in("pipe"), "through");
    _exit(0);
  }
  char got[16] = {};
  FILE* reader = fopen(in("pipe").c_str(), "r");
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(fread(got, 1, sizeof got, reader), 7u);
  fclose(reader);
  waitpid(writer, nullptr, 0);
  EXPECT_STREQ(got, "through");
  struct stat info {};
  ASSERT_EQ(lstat(in("pipe").c_str(), &info), 0);
  EXPECT_TRUE(S_ISFIFO(info.st_mode));
  write_file_atomic("/dev/null", "nothing");
  ASSERT_EQ(stat("/dev/null", &info), 0);
  EXPECT_TRUE(S_ISCHR(info.st_mode));
  EXPECT_EQ(access_code_of([&] { write_file_atomic("/dev/full", "x"); }), "K0104");
}

TEST_F(FileAccessTest, ADescriptorIsWrittenToAndItsFileStays) {
  const int status = in_child([&] {
    FILE* out = freopen(in("out").c_str(), "w", stdout);
    if (!out || named_descriptor("/dev/stdout") != 1) _exit(1);
    printf("before\n");
    write_file_atomic("/dev/stdout", "written\n");
    printf("after\n");
    fflush(stdout);
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_file(in("out")), "before\nwritten\nafter\n");
  EXPECT_EQ(named_descriptor(in("out")), -1);
  EXPECT_EQ(list_directory(directory_.path()), std::vector<std::string>{"out"});
}

TEST_F(FileAccessTest, ModesAreThoseOfTheUserOrClosed) {
  const mode_t before = umask(027);
  write_file_atomic(in("usual"), "");
  write_file_atomic(in("private"), "", FileAccess::owner);
  umask(before);
  EXPECT_EQ(mode_of(in("usual")), 0640u);
  EXPECT_EQ(mode_of(in("private")), 0600u);
  ASSERT_EQ(chmod(in("usual").c_str(), 0600), 0);
  write_file_atomic(in("usual"), "again");
  EXPECT_EQ(mode_of(in("usual")), 0600u);  // what was closed to others stays closed
  // What lies at a private place is replaced, never followed.
  write_file_atomic(in("victim"), "mine");
  ASSERT_EQ(symlink("victim", in("planted").c_str()), 0);
  write_file_atomic(in("planted"), "new", FileAccess::owner);
  EXPECT_EQ(read_file(in("victim")), "mine");
  EXPECT_FALSE(is_link(in("planted")));
}

TEST_F(FileAccessTest, PrivateDirectoriesAreOurs) {
  make_private_directory(in("a/b"));
  EXPECT_EQ(mode_of(in("a")), 0700u);
  EXPECT_EQ(mode_of(in("a/b")), 0700u);
  ASSERT_EQ(chmod(in("a/b").c_str(), 0777), 0);
  make_private_directory(in("a/b"));
  EXPECT_EQ(mode_of(in("a/b")), 0700u);
  ASSERT_EQ(symlink("a", in("link").c_str()), 0);
  EXPECT_EQ(access_code_of([&] { make_private_directory(in("link")); }), "K0145");
  EXPECT_EQ(access_code_of([&] { make_private_directory(in("link/")); }), "K0145");
  if (geteuid() != 0) GTEST_SKIP() << "what belongs to others is made by root";
  ASSERT_EQ(mkdir(in("other").c_str(), 0777), 0);
  ASSERT_EQ(chown(in("other").c_str(), other_user, other_user), 0);
  EXPECT_EQ(access_code_of([&] { make_private_directory(in("other")); }), "K0145");
}

TEST_F(FileAccessTest, NothingPlantedInAnOpenDirectoryIsFollowed) {
  if (geteuid() != 0) GTEST_SKIP() << "what belongs to others is made by root";
  write_file_atomic(in("victim"), "mine");
  ASSERT_EQ(mkdir(in("tmp").c_str(), 0777), 0);
  ASSERT_EQ(chmod(in("tmp").c_str(), 01777), 0);
  const auto plant = [&](const char* name) { ASSERT_EQ(lchown(in(name).c_str(), other_user, other_user), 0); };
  ASSERT_EQ(symlink("../victim", in("tmp/link").c_str()), 0);
  plant("tmp/link");
  ASSERT_EQ(mkfifo(in("tmp/pipe").c_str(), 0666), 0);
  plant("tmp/pipe");
  EXPECT_EQ(access_code_of([&] { write_file_atomic(in("tmp/link"), "bad"); }), "K0104");
  EXPECT_EQ(access_code_of([&] { write_file_atomic(in("tmp/pipe"), "bad"); }), "K0104");
  EXPECT_EQ(read_file(in("victim")), "mine");
  // The trace's file, whose name can be known.
  const std::string trace = str("tmp/kiln_trace_", process_stamp(), ".jsonl");
  ASSERT_EQ(symlink("../victim", in(trace).c_str()), 0);
  EXPECT_EQ(access_code_of([&] { TraceFile file(in("tmp")); }), "K0101");
  EXPECT_EQ(read_file(in("victim")), "mine");
}

TEST_F(FileAccessTest, TracesAreClosedToOthers) {
  const TraceFile file(in("trace"));
  EXPECT_EQ(mode_of(in("trace")), 0700u);
  EXPECT_EQ(mode_of(file.path()), 0600u);
}

class LeftoversTest : public FileAccessTest {
 protected:
  LeftoversTest() { setenv("TMPDIR", directory_.path().c_str(), 1); }
  ~LeftoversTest() override { unsetenv("TMPDIR"); }
  std::vector<std::string> left() const { return list_directory(directory_.path()); }
  // Makes a temporary directory with something in it and a file that is not finished, then sends itself the signal.
  int ended_by(int signal, bool handlers) const {
    return in_child([&] {
      if (handlers) remove_leftovers_on_signals();
      const TemporaryDirectory temporary("kiln-build");
      make_directories(join_path(temporary.path(), "deep/er"));
      write_file_atomic(join_path(temporary.path(), "deep/er/file"), "x");
      AtomicFile file(in("package.pt2"));
      file.write(as_bytes("half"));
      raise(signal);
    });
  }
};

TEST_F(LeftoversTest, SignalsThatEndTheProcessLeaveNothing) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const int status = ended_by(signal, true);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    EXPECT_TRUE(left().empty()) << join(left(), " ");
  }
}

TEST_F(LeftoversTest, AnIgnoredSignalStaysIgnored) {
  const auto before = signal(SIGHUP, SIG_IGN);
  const int status = ended_by(SIGHUP, true);
  signal(SIGHUP, before);
  EXPECT_TRUE(WIFEXITED(status));
}

TEST_F(LeftoversTest, AChildRemovesNothingOfItsParent) {
  const TemporaryDirectory ours("kiln-build");
  const int status = in_child([] {
    remove_leftovers_on_signals();
    raise(SIGTERM);
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(is_directory(ours.path()));
}

TEST_F(LeftoversTest, StraysOfAKilledProcessAreRemovedAndNothingElse) {
  EXPECT_TRUE(WIFSIGNALED(ended_by(SIGKILL, true)));
  const auto count = [&](const char* prefix) {
    const std::vector<std::string> names = left();
    return std::count_if(names.begin(), names.end(), [&](const std::string& n) { return starts_with(n, prefix); });
  };
  ASSERT_EQ(count("kiln-build_"), 1);
  const TemporaryDirectory in_use("kiln-build");
  TemporaryDirectory kept("kiln-build");
  kept.keep();
  make_directories(in("kiln-build_latest"));       // a user's own
  make_directories(in("other_0123456789abcdef"));  // somebody else's
  ASSERT_EQ(symlink("kiln-build_latest", in("kiln-build_0123456789abcdef").c_str()), 0);
  EXPECT_EQ(remove_stray_directories().size(), 1u);
  EXPECT_TRUE(is_directory(in_use.path()));
  EXPECT_TRUE(is_directory(kept.path()));
  EXPECT_TRUE(is_directory(in("kiln-build_latest")));
  EXPECT_TRUE(is_directory(in("other_0123456789abcdef")));
  EXPECT_TRUE(is_link(in("kiln-build_0123456789abcdef")));
  EXPECT_EQ(count("kiln-build_"), 3);
  EXPECT_TRUE(remove_stray_directories().empty());
}

}  // namespace
}  // namespace kiln
