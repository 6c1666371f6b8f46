// The debug directory, the trace and the log of a real compile.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "base/json.h"
#include "base/zip.h"
#include "compile/compile.h"
#include "compile/pipeline.h"
#include "package/plan_io.h"
#include "trace/report.h"

namespace kiln {
namespace {

std::string source_path(const std::string& path) {
  const char* source = std::getenv("KILN_SOURCE_DIR");
  return join_path(source ? source : ".", path);
}
std::string case_path(const char* name) { return source_path(str("tests/cases/", name, "/model.pt2")); }

// The only folder below a run's folder below root.
std::string model_folder(const std::string& root) {
  const std::string run = join_path(root, list_directory(root).at(0));
  EXPECT_EQ(list_directory(root).at(0).rfind("run_", 0), 0u);
  EXPECT_NE(run.find("-pid_"), std::string::npos);
  return join_path(run, list_directory(run).at(0));
}

const std::vector<std::string> contract_files = {
    "fx_graph_readable.py", "fx_graph_runnable.py", "fx_graph_transformed.py", "ir_pre_fusion.txt",
    "ir_post_fusion.txt",   "output_code.cpp",      "output_code.py"};

class ObservedCompile : public testing::Test {
 protected:
  std::string in(const char* name) const { return join_path(directory_.path(), name); }
  CompileReport compile_with(const std::vector<std::string>& assignments, const std::string& package) {
    Settings settings(Phase::compile);
    for (const std::string& assignment : assignments) settings.set(assignment);
    CompileOptions options;
    options.settings = &settings;
    return compile(case_path("mlp"), package, options);
  }
  TemporaryDirectory directory_;
};

TEST_F(ObservedCompile, DebugDirectoryHasTheContractsFiles) {
  const CompileReport report = compile_with({"debug=1", "debug_dir_root=" + in("root")}, in("p.pt2"));
  const std::string folder = model_folder(in("root"));
  for (const std::string& name : contract_files) EXPECT_FALSE(read_file(join_path(folder, name)).empty()) << name;
  EXPECT_NE(read_file(join_path(folder, "ir_post_fusion.txt")).find("cpp_"), std::string::npos);
  EXPECT_NE(read_file(join_path(folder, "output_code.cpp")).find("aten.linear.default"), std::string::npos)
      << "kernels say which operators they come from";
  bool said = false;
  for (const std::string& note : report.notes) said |= note == "debug directory: " + folder;
  EXPECT_TRUE(said);
}

TEST_F(ObservedCompile, NothingIsWrittenUnlessAskedFor) {
  const CompileReport report = compile_with({"debug_dir_root=" + in("root")}, in("p.pt2"));
  EXPECT_FALSE(file_exists(in("root")));
  EXPECT_TRUE(report.notes.empty());
}

TEST_F(ObservedCompile, PackagesAreTheSameWithAndWithoutObservers) {
  compile_with({}, in("plain.pt2"));
  compile_with({"trace.enabled=1", "debug_dir_root=" + in("root"), "TORCH_TRACE=" + in("trace"), "TORCH_LOGS=+inductor",
                "TORCH_LOGS_OUT=" + in("log")},
               in("watched.pt2"));
  EXPECT_EQ(read_file(in("plain.pt2")), read_file(in("watched.pt2")));
}

std::vector<format::StepOrigin> step_origins(const std::string& package) {
  const std::string bytes = read_file(package);
  const ZipReader zip(as_bytes(bytes), package);
  for (const ZipEntry& entry : zip.entries())
    if (entry.name.ends_with("debug/origins")) return format::read_origins(zip.read(entry).bytes).steps;
  return {};
}
std::map<std::string, std::string> nodes_of_values(const std::vector<format::StepOrigin>& steps) {
  std::map<std::string, std::string> nodes;
  for (const format::StepOrigin& step : steps)
    for (size_t i = 0; i < step.values.size(); ++i)
      nodes[step.values[i]] = step.nodes[static_cast<size_t>(step.value_origins[i])];
  return nodes;
}

// What is fused is still told apart: the value printer and nan_asserts name the operator that a value is of.
TEST_F(ObservedCompile, ValuesOfFusedKernelsKeepTheirOperators) {
  compile(source_path("tests/docs/net.pt2"), in("p.pt2"), CompileOptions{});
  const std::vector<format::StepOrigin> steps = step_origins(in("p.pt2"));
  std::map<std::string, std::string> node_of = nodes_of_values(steps);
  EXPECT_EQ(node_of["exp"], "softmax") << "no node has this name";
  EXPECT_EQ(node_of["linear_1"], "linear_1");
  for (const format::StepOrigin& step : steps)
    if (step.values == std::vector<std::string>{"p_up_weight_packed"}) {
      EXPECT_EQ(step.nodes, std::vector<std::string>{"linear"}) << "what reads the weight is fused with more";
    }
}

// A buffer that the program changes is written by a copy that is no operator of the user's.
TEST_F(ObservedCompile, ChangedBuffersAreOfTheOperatorThatChangesThem) {
  compile(source_path("tests/cases/counter/model.pt2"), in("p.pt2"), CompileOptions{});
  std::map<std::string, std::string> node_of = nodes_of_values(step_origins(in("p.pt2")));
  EXPECT_EQ(node_of["b_calls"], "add_");
  EXPECT_EQ(node_of["b_total"], "add__1");
}

TEST_F(ObservedCompile, TraceMakesAReport) {
  compile_with({"TORCH_TRACE=" + in("trace")}, in("p.pt2"));
  const Json report = report_data(in("trace"), {});
  ASSERT_EQ(report.at("compiles").items().size(), 1u);
  const Json& one = report.at("compiles").items()[0];
  EXPECT_EQ(one.at("passes").items().size(), list_passes().size());
  EXPECT_FALSE(one.at("fusion").items().empty());
  EXPECT_FALSE(one.at("jobs").items().empty());
  EXPECT_FALSE(one.at("guards").at("guards").items().empty());
  bool sourced = false;
  for (const Json& kernel : one.at("kernels").items())
    for (const Json& origin : kernel.at("origins").items())
      sourced |=
          kernel.find("source") && !kernel.at("loops").as_string().empty() && !origin.at("line").as_string().empty();
  EXPECT_TRUE(sourced) << "a kernel with source, loops, operators and lines";
  EXPECT_GT(one.at("end").at("kernels").as_int(), 0);
}

// "last_hidden_state", not "add".
TEST_F(ObservedCompile, AReportHasTheNamesOfTheOutputs) {
  Settings settings(Phase::compile);
  settings.set("TORCH_TRACE", in("trace"));
  CompileOptions options;
  options.settings = &settings;
  compile(source_path("tests/docs/keyed.pt2"), in("p.pt2"), options);
  const Json report = report_data(in("trace"), {});
  const Json& one = report.at("compiles").items()[0];
  const Json::Array& outputs = one.at("guards").at("outputs").items();
  ASSERT_EQ(outputs.size(), 3u);
  EXPECT_EQ(outputs[0].at("name").as_string(), "last_hidden_state");
  EXPECT_EQ(outputs[0].at("value").as_string(), "add");
  EXPECT_EQ(outputs[1].at("name").as_string(), "past.0");
  std::vector<std::string> held;
  for (const Json& buffer : one.at("memory").at("buffers").items())
    if (const Json* output = buffer.find("output")) held.push_back(output->as_string());
  EXPECT_EQ(held.size(), 3u) << join(held, ", ");
}

TEST_F(ObservedCompile, FailureLeavesItsErrorInTheTrace) {
  write_file_atomic(in("broken.pt2"), "not a model");
  Settings settings(Phase::compile);
  settings.set("TORCH_TRACE=" + in("trace"));
  CompileOptions options;
  options.settings = &settings;
  std::vector<std::string> notes;
  options.note = [&](const std::string& note) { notes.push_back(note); };
  EXPECT_THROW(compile(in("broken.pt2"), in("p.pt2"), options), Error);
  EXPECT_EQ(report_data(in("trace"), {}).at("errors").items().size(), 1u);
  EXPECT_EQ(notes.size(), 1u);
}

TEST_F(ObservedCompile, LogSaysDecisionsWithReasons) {
  compile_with({"TORCH_LOGS=+inductor,guards,kernel_code,-schedule", "TORCH_LOGS_OUT=" + in("log")}, in("p.pt2"));
  const std::string log = read_file(in("log"));
  EXPECT_NE(log.find("[__fusion] no merge of linear_1 with linear: each is a matrix product"), std::string::npos)
      << log;
  EXPECT_NE(log.find("[__guards] "), std::string::npos);
  EXPECT_NE(log.find("[__kernel_code] "), std::string::npos);
  EXPECT_EQ(log.find("[__schedule] "), std::string::npos);
}

}  // namespace
}  // namespace kiln
