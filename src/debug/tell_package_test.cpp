#include "debug/tell_package.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "base/json.h"
#include "driver/compile.h"
#include "trace/report.h"

namespace kiln {
namespace {

class TellPackage : public testing::Test {
 protected:
  std::string in(const char* name) const { return join_path(directory_.path(), name); }
  void compile_case(bool strip_debug) {
    const char* source = std::getenv("KILN_SOURCE_DIR");
    CompileOptions options;
    options.strip_debug = strip_debug;
    compile(join_path(source ? source : ".", "tests/cases/mlp/model.pt2"), in("p.pt2"), options);
  }
  std::vector<std::string> tell() {
    Settings settings(Phase::run);
    settings.set("debug=1");
    settings.set("debug_dir_root=" + in("root"));
    settings.set("TORCH_LOGS=guards,kernel_code,fusion");
    settings.set("TORCH_LOGS_OUT=" + in("log"));
    return tell_of_package(in("p.pt2"), settings);
  }
  void expect_told() {
    const std::string run = join_path(in("root"), list_directory(in("root")).at(0));
    const std::string folder = join_path(run, list_directory(run).at(0));
    for (const char* name : {"fx_graph_readable.py", "fx_graph_runnable.py", "fx_graph_transformed.py",
                             "ir_pre_fusion.txt", "ir_post_fusion.txt", "output_code.cpp", "output_code.py"})
      EXPECT_FALSE(read_file(join_path(folder, name)).empty()) << name;
    EXPECT_GT(read_file(join_path(folder, "fx_graph_runnable.pt")).size(), 1000u) << "the weights are there";
    const std::string log = read_file(in("log"));
    EXPECT_NE(log.find("[__kernel_code] step "), std::string::npos);
    EXPECT_NE(log.find("[__guards] "), std::string::npos);
    EXPECT_NE(log.find("[__fusion] "), std::string::npos);
  }
  TemporaryDirectory directory_;
};

TEST_F(TellPackage, PackageCompiledWithoutAnyOfIt) {
  compile_case(false);
  const std::vector<std::string> notes = tell();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].rfind("debug directory: ", 0), 0u);
  expect_told();
}

TEST_F(TellPackage, StrippedWithItsSidecar) {
  compile_case(true);
  tell();
  expect_told();
}

TEST_F(TellPackage, StrippedWithoutSidecarSaysWhatIsMissing) {
  compile_case(true);
  remove_tree(in("p.pt2.debug"));
  const std::vector<std::string> notes = tell();
  ASSERT_FALSE(notes.empty());
  EXPECT_NE(notes[0].find("p.pt2.debug"), std::string::npos) << notes[0];
  EXPECT_FALSE(file_exists(in("root")));
}

TEST_F(TellPackage, NothingAskedForNothingRead) {
  EXPECT_TRUE(tell_of_package(in("not there"), Settings(Phase::run)).empty());
}

TEST_F(TellPackage, FailedRunsAreInTheReport) {
  Settings settings(Phase::run);
  settings.set("TORCH_TRACE=" + in("trace"));
  trace_error(Error(ErrorKind::user, "K0601", "no such input"), settings);
  const Json report = report_data(in("trace"), {});
  ASSERT_EQ(report.at("errors").items().size(), 1u);
  EXPECT_EQ(report.at("errors").items()[0].at("message").as_string(), "no such input");
}

}  // namespace
}  // namespace kiln
