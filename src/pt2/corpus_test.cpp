// Reads every file of the corpus of PyTorch-made cases. The corpus lies outside the repository: KILN_CORPUS names it,
// else it is looked for beside the source tree; without it the tests are skipped.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "pt2/reader.h"
#include "pt2/tensor_files.h"

namespace kiln {
namespace {

std::string corpus() {
  if (const char* path = std::getenv("KILN_CORPUS")) return path;
  if (const char* source = std::getenv("KILN_SOURCE_DIR")) {
    std::string path = join_path(source, "../shared/corpus");
    if (is_directory(path)) return path;
  }
  return "";
}

std::vector<std::string> files_of_corpus(std::string_view end) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(corpus()))
    if (entry.is_regular_file() && ends_with(entry.path().string(), end)) out.push_back(entry.path().string());
  std::sort(out.begin(), out.end());
  return out;
}

TEST(Corpus, ReadsEveryModel) {
  if (corpus().empty()) GTEST_SKIP() << "no corpus: set KILN_CORPUS";
  size_t failed = 0;
  const auto files = files_of_corpus("/model.pt2");
  ASSERT_FALSE(files.empty());
  for (const std::string& path : files) {
    try {
      const Program program = read_pt2(path);
      verify(program);
      EXPECT_FALSE(program.graph.outputs.empty()) << path;
      EXPECT_FALSE(program.sample_inputs.empty() && !program.forward_arg_names.empty()) << path;
    } catch (const Error& error) {
      if (++failed <= 20) ADD_FAILURE() << path << "\n" << error.what();
    }
  }
  EXPECT_EQ(failed, 0u) << "of " << files.size();
}

TEST(Corpus, ReadsEveryTensorFile) {
  if (corpus().empty()) GTEST_SKIP() << "no corpus: set KILN_CORPUS";
  const auto files = files_of_corpus(".pt");
  ASSERT_FALSE(files.empty());
  size_t failed = 0;
  for (const std::string& path : files) {
    try {
      read_tensor_file(path);
    } catch (const Error& error) {
      if (++failed <= 20) ADD_FAILURE() << path << "\n" << error.what();
    }
  }
  EXPECT_EQ(failed, 0u) << "of " << files.size();
}

}  // namespace
}  // namespace kiln
