#include "base/environment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/file.h"
#include "base/settings.h"

namespace kiln {
namespace {

// A variable of this process for as long as the object lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* had = std::getenv(name)) had_ = had;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { had_ ? setenv(name_, had_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> had_;
};

TEST(Environment, TemporaryDirectoryHasADefault) {
  {
    const Variable given("TMPDIR", "/var/tmp");
    EXPECT_EQ(temporary_root(), "/var/tmp");
  }
  const Variable empty("TMPDIR", "");
  EXPECT_EQ(temporary_root(), "/tmp");
}

TEST(Environment, CacheLiesInTheUsersOwnPlace) {
  const Variable home("HOME", "/somebody"), none("XDG_CACHE_HOME", nullptr);
  EXPECT_EQ(user_cache_root(), "/somebody/.cache");
  {
    const Variable xdg("XDG_CACHE_HOME", "/cache");
    EXPECT_EQ(user_cache_root(), "/cache");
  }
  const Variable relative("XDG_CACHE_HOME", "cache"), nowhere("HOME", nullptr);
  EXPECT_EQ(user_cache_root(), "");
}

TEST(Environment, SwitchesReadAsTheSettingsDo) {
  for (const char* off : {"0", "false", "off", "no", ""}) {
    const Variable variable("TORCH_SHOW_CPP_STACKTRACES", off);
    EXPECT_FALSE(native_stacks_of_environment()) << off;
  }
  const Variable variable("TORCH_SHOW_CPP_STACKTRACES", "1"), colour("NO_COLOR", "1");
  EXPECT_TRUE(native_stacks_of_environment());
  EXPECT_TRUE(colours_refused());
}

TEST(Environment, DebugDirectoriesLieWhereTheyAreAskedFor) {
  const Variable none("TORCH_COMPILE_DEBUG_DIR", nullptr);
  Settings settings(Phase::compile);
  EXPECT_EQ(debug_directory_root(settings), "torch_compile_debug");
  settings.set("debug_dir_root", "mine");
  EXPECT_EQ(debug_directory_root(settings), "mine");
  const Variable above("TORCH_COMPILE_DEBUG_DIR", "above");
  Settings of_environment(Phase::compile);
  of_environment.read_environment();
  EXPECT_EQ(debug_directory_root(of_environment), "above/torch_compile_debug");
  EXPECT_EQ(debug_directory_root(settings), "mine");
  const std::vector<std::string> all = environment_assignments();
  EXPECT_NE(std::find(all.begin(), all.end(), "TORCH_COMPILE_DEBUG_DIR=above"), all.end());
}

}  // namespace
}  // namespace kiln
