#include "base/log_selection.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log_writer.h"

namespace kiln {
namespace {

TEST(LogSelection, LevelsOfComponents) {
  const LogSelection selection({"+inductor", " dynamic ", "-export"});
  EXPECT_TRUE(selection.any());
  EXPECT_TRUE(selection.wants("inductor", LogLevel::debug));
  EXPECT_TRUE(selection.wants("dynamic", LogLevel::info));
  EXPECT_FALSE(selection.wants("dynamic", LogLevel::debug));
  EXPECT_FALSE(selection.wants("export", LogLevel::warning));
  EXPECT_TRUE(selection.wants("export", LogLevel::error));
  EXPECT_TRUE(selection.wants("cache", LogLevel::warning)) << "what is not named says warnings";
  EXPECT_FALSE(selection.wants("cache", LogLevel::info));
}

TEST(LogSelection, DebugOfInductorIncludesFusion) {
  EXPECT_TRUE(LogSelection({"+inductor"}).artifact("fusion"));
  EXPECT_FALSE(LogSelection({"inductor"}).artifact("fusion"));
  EXPECT_FALSE(LogSelection({"+inductor", "-fusion"}).artifact("fusion"));
  EXPECT_FALSE(LogSelection({"-fusion", "+inductor"}).artifact("fusion")) << "in whatever order";
  EXPECT_TRUE(LogSelection({"-fusion", "+inductor"}).artifact("schedule"));
  EXPECT_FALSE(LogSelection({"-inductor", "all"}).wants("inductor", LogLevel::info));
  EXPECT_TRUE(LogSelection({"-fusion", "fusion"}).artifact("fusion")) << "of one name the last";
  EXPECT_FALSE(LogSelection({"+inductor"}).artifact("output_code"));
  EXPECT_TRUE(LogSelection({"output_code"}).artifact("output_code"));
  EXPECT_TRUE(LogSelection({"+output_code"}).artifact("output_code"));
}

TEST(LogSelection, NamesOfPyTorchAreAccepted) {
  const LogSelection selection(
      {"dynamo", "bytecode", "torch._inductor.scheduler", "+torch.fx.experimental.symbolic_shapes"});
  EXPECT_TRUE(selection.wants("inductor", LogLevel::info));
  EXPECT_TRUE(selection.wants("dynamic", LogLevel::debug));
}

TEST(LogSelection, AllAndHelp) {
  EXPECT_TRUE(LogSelection({"all"}).wants("cache", LogLevel::info));
  const LogSelection help({"help"});
  EXPECT_TRUE(help.help());
  EXPECT_FALSE(help.any());
  EXPECT_NE(LogSelection::help_text().find("fusion"), std::string::npos);
}

TEST(LogSelection, UnknownNamesAreErrorsInPyTorchsWords) {
  try {
    LogSelection selection({"+inductr"});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), "K0143");
    EXPECT_EQ(error.message().rfind("Invalid log settings: +inductr, must be a comma separated list", 0), 0u);
    EXPECT_NE(error.message().find("nearest is \"inductor\""), std::string::npos) << error.message();
  }
}

TEST(LogWriter, SaysOnceThatADiskIsFull) {
  testing::internal::CaptureStderr();
  {
    LogWriter writer("/dev/full");
    for (int i = 0; i < 3; ++i) writer.write(LogLevel::info, "pass", "", "text");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "note: the log in /dev/full is not complete: No space left on device\n");
}

TEST(LogWriter, PrefixOnEveryLineAndNoColoursInFiles) {
  TemporaryDirectory directory;
  const std::string path = join_path(directory.path(), "log");
  {
    LogWriter writer(path);
    EXPECT_FALSE(writer.coloured());
    writer.write(LogLevel::debug, "merge_kernels", "fusion", "one\ntwo\n");
    writer.write(LogLevel::warning, "compile", "", "three");
  }
  const std::vector<std::string> lines = split(read_file(path), '\n');
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0][0], 'V');
  EXPECT_NE(lines[0].find("] [__fusion] one"), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find(" kiln/merge_kernels] [__fusion] two"), std::string::npos) << lines[1];
  EXPECT_EQ(lines[2][0], 'W');
  EXPECT_NE(lines[2].find("kiln/compile] three"), std::string::npos) << lines[2];
  EXPECT_EQ(lines[0].find('\x1b'), std::string::npos);
  EXPECT_THROW(LogWriter(join_path(directory.path(), "no/such/folder")), Error);
}

}  // namespace
}  // namespace kiln
