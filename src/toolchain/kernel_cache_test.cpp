#include "toolchain/kernel_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "base/file.h"
#include "base/text.h"

namespace kiln {
namespace {

std::string key(int n) { return str(std::string(62, 'a'), n / 10, n % 10, ".so"); }

TEST(KernelCache, GivesBackWhatItWasGivenAndForgetsWhatIsDamaged) {
  TemporaryDirectory folder("kiln-cache-test");
  const KernelCache cache(folder.path());
  EXPECT_EQ(cache.get(key(1)), std::nullopt);
  EXPECT_EQ(cache.put(key(1), "code"), "");
  EXPECT_EQ(cache.get(key(1)), "code");
  const std::string path = join_path(folder.path(), key(1));
  std::string bytes = read_file(path);
  for (const std::string& damaged :
       {bytes.substr(0, bytes.size() - 1), bytes.substr(0, 10), std::string(), bytes + "x"}) {
    write_file_atomic(path, damaged);
    EXPECT_EQ(cache.get(key(1)), std::nullopt);
  }
  bytes.back() ^= 1;
  write_file_atomic(path, bytes);
  EXPECT_EQ(cache.get(key(1)), std::nullopt);
  EXPECT_EQ(cache.put(key(1), "code again"), "");
  EXPECT_EQ(cache.get(key(1)), "code again");
  // Neither a link nor a directory is an entry.
  ASSERT_EQ(symlink(path.c_str(), join_path(folder.path(), key(2)).c_str()), 0);
  ASSERT_EQ(mkdir(join_path(folder.path(), key(3)).c_str(), 0700), 0);
  EXPECT_EQ(cache.get(key(2)), std::nullopt);
  EXPECT_EQ(cache.get(key(3)), std::nullopt);
  EXPECT_EQ(cache.entries().size(), 1u);
}

TEST(KernelCache, AFolderThatCannotBeUsedIsSaidAndDoneWithout) {
  TemporaryDirectory folder("kiln-cache-test");
  const std::string file = join_path(folder.path(), "file");
  write_file_atomic(file, "");
  const KernelCache none(file);
  EXPECT_FALSE(none.usable());
  EXPECT_NE(none.problem(), "");
  EXPECT_EQ(none.put(key(1), "code"), "");
  EXPECT_EQ(none.get(key(1)), std::nullopt);
  const std::string open = join_path(folder.path(), "open");
  ASSERT_EQ(mkdir(open.c_str(), 0777), 0);
  ASSERT_EQ(chmod(open.c_str(), 0777), 0);
  EXPECT_NE(KernelCache(open).problem().find("can be written by others"), std::string::npos);
  // What stands in the way of one entry is said, and no error: a directory of its name cannot be replaced.
  const KernelCache cache(join_path(folder.path(), "cache"));
  ASSERT_EQ(mkdir(join_path(cache.directory(), key(1)).c_str(), 0700), 0);
  EXPECT_NE(cache.put(key(1), "code"), "");
  EXPECT_EQ(cache.get(key(1)), std::nullopt);
}

TEST(KernelCache, TwoWritersAtOnceLeaveOneWholeEntry) {
  TemporaryDirectory folder("kiln-cache-test");
  const std::string a(100000, 'a'), b(70000, 'b');
  const auto write = [&](const std::string& bytes) {
    const KernelCache cache(folder.path());
    for (int i = 0; i < 60; ++i) EXPECT_EQ(cache.put(key(1), bytes), "");
  };
  std::thread first(write, a), second(write, b);
  const KernelCache cache(folder.path());
  for (int i = 0; i < 100; ++i) {
    const auto found = cache.get(key(1));
    EXPECT_TRUE(!found || *found == a || *found == b);
  }
  first.join(), second.join();
  const auto found = cache.get(key(1));
  ASSERT_TRUE(found);
  EXPECT_TRUE(*found == a || *found == b);
  EXPECT_EQ(list_directory(folder.path()).size(), 1u);  // nothing half-written is left
}

TEST(KernelCache, PastItsLimitTheLongestUnusedGo) {
  TemporaryDirectory folder("kiln-cache-test");
  const KernelCache cache(folder.path(), 10000);
  const std::string bytes(1900, 'x');  // with its hash nearly 2000
  const auto age = [&](int n, time_t seconds) {
    const timespec times[2] = {{seconds, 0}, {seconds, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, join_path(folder.path(), key(n)).c_str(), times, 0), 0);
  };
  for (int n = 0; n < 5; ++n) cache.put(key(n), bytes), age(n, 1000 + n);
  EXPECT_EQ(cache.entries().size(), 5u);
  EXPECT_TRUE(cache.get(key(0)));  // used now: no longer the oldest
  cache.put(key(5), bytes);
  EXPECT_EQ(cache.entries().size(), 3u);
  for (int n : {0, 5}) EXPECT_TRUE(cache.get(key(n))) << n;
  for (int n : {1, 2}) EXPECT_FALSE(cache.get(key(n))) << n;
  // One that is larger than the limit is kept while it is the newest.
  cache.put(key(6), std::string(20000, 'y'));
  EXPECT_TRUE(cache.get(key(6)));
}

}  // namespace
}  // namespace kiln
