#include "debug/tell_package.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "base/json.h"
#include "compile/compile.h"
#include "trace/report.h"

namespace kiln {
namespace {

class TellPackage : public testing::Test {
 protected:
  std::string in(const char* name) const { return join_path(directory_.path(), name); }
  void compile_case(bool strip_debug, const std::vector<std::string>& given = {}) {
    const char* source = std::getenv("KILN_SOURCE_DIR");
    CompileOptions options;
    options.strip_debug = strip_debug;
    Settings settings(Phase::compile);
    for (const std::string& setting : given) settings.set(setting);
    options.settings = &settings;
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

// What is told is what this package recorded: with fewer passes and scalar code it says other things than a compile
// with today's defaults would.
TEST_F(TellPackage, ToldAsItWasCompiled) {
  Settings settings(Phase::run);
  settings.set("TORCH_LOGS=+inductor,schedule,output_code");
  settings.set("TORCH_LOGS_OUT=" + in("log"));
  compile_case(false);
  EXPECT_TRUE(tell_of_package(in("p.pt2"), settings).empty());
  const std::string usual = read_file(in("log"));
  EXPECT_NE(usual.find("inline relu into"), std::string::npos);
  EXPECT_NE(usual.find("mm template for linear"), std::string::npos);
  remove_tree(in("log"));
  compile_case(false, {"disable_pass=inline_producers,inline_simplified,use_templates", "cpp.simdlen=1"});
  EXPECT_TRUE(tell_of_package(in("p.pt2"), settings).empty());
  const std::string other = read_file(in("log"));
  const std::string head = other.substr(0, other.find('\n'));
  EXPECT_NE(head.find("disable_pass=inline_producers,inline_simplified,use_templates"), std::string::npos) << head;
  EXPECT_NE(head.find("cpp.simdlen=1"), std::string::npos) << head;
  EXPECT_EQ(other.find("inline relu into"), std::string::npos);
  EXPECT_EQ(other.find("mm template for linear"), std::string::npos);
  EXPECT_EQ(other.find("pass inline_producers"), std::string::npos);
  EXPECT_NE(other.find("pass merge_kernels"), std::string::npos);
}

// The text that was compiled, a fault put into it included.
TEST_F(TellPackage, CodeIsTheOneThatWasCompiled) {
  compile_case(false, {"inject_fault_TESTING_ONLY=crash:relu"});
  Settings settings(Phase::run);
  settings.set("TORCH_LOGS=kernel_code,output_code");
  settings.set("TORCH_LOGS_OUT=" + in("log"));
  tell_of_package(in("p.pt2"), settings);
  EXPECT_NE(read_file(in("log")).find("*(volatile int*)0 = 0;"), std::string::npos) << read_file(in("log"));
}

TEST_F(TellPackage, WhatNoPackageRecordsIsSaid) {
  compile_case(false);
  Settings settings(Phase::run);
  settings.set("TORCH_LOGS=async_compile,fusion");
  settings.set("TORCH_LOGS_OUT=" + in("log"));
  const std::vector<std::string> notes = tell_of_package(in("p.pt2"), settings);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("TORCH_LOGS=async_compile: a package does not record"), std::string::npos) << notes[0];
}

TEST_F(TellPackage, TheTraceHasGraphGuardsCodeAndOrigins) {
  compile_case(false);
  Settings settings(Phase::run);
  settings.set("TORCH_TRACE=" + in("trace"));
  tell_of_package(in("p.pt2"), settings);
  tell_of_package(in("p.pt2"), settings);  // a second run of the same package
  const Json report = report_data(in("trace"), {});
  ASSERT_EQ(report.at("compiles").items().size(), 1u);
  const Json& compile = report.at("compiles").items()[0];
  EXPECT_TRUE(compile.at("recorded").as_bool());
  EXPECT_GE(compile.at("stages").items().size(), 3u) << "the graph, as exported and as lowered, and its loops";
  EXPECT_FALSE(compile.at("guards").at("guards").items().empty());
  EXPECT_FALSE(compile.at("fusion").items().empty());
  bool code = false, lines = false;
  for (const Json& kernel : compile.at("kernels").items()) {
    const Json* source = kernel.find("source");
    code = code || (source && source->as_string().find("kiln_kernel_context") != std::string::npos);
  }
  for (const Json& value : compile.at("values").items())
    lines =
        lines || (value.find("kernel") && value.at("line").as_string().find("generate_cases.py:") != std::string::npos);
  EXPECT_TRUE(code);
  EXPECT_TRUE(lines) << json_text(compile.at("values"));
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
