// The minifier on small programs with injected faults, end to end: child processes, compiled code, files.
#include "minify/minify.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <random>

#include "base/error.h"
#include "base/file.h"
#include "minify/cut.h"
#include "minify/dump.h"
#include "minify/kernel_file.h"
#include "minify/recorded_values.h"
#include "minify/trials.h"
#include "pt2/reader.h"
#include "toolchain/process.h"

namespace kiln::minify {
namespace {

// A chain of operators with side arms over f32[rows, 8]; one relu, followed by an erf, reaches an output of its own.
Program random_program(unsigned seed, int nodes, const std::string& rows = "4") {
  static const char* const unary[] = {"sin", "tanh", "sigmoid", "exp", "abs", "neg"};
  std::mt19937 random(seed);
  const std::string type = "f32[" + rows + ", 8]";
  std::string text = "program \"model\"\n";
  if (rows == "s0") text += "symbol s0 [2, 1024] hint 4\n";
  text += str("graph main {\n  input %x: ", type, " = user\n  input %y: ", type, " = user\n");
  std::vector<std::string> values = {"x", "y"};
  const int place = 1 + static_cast<int>(random() % static_cast<unsigned>(nodes - 1));
  for (int i = 0; i < nodes; ++i) {
    const std::string a = values.back(), b = values[random() % values.size()], name = str("v", i);
    if (i == place) {
      text += str("  %fault: ", type, " = aten.relu.default(self=%", a, ")\n");
      text += str("  %after: ", type, " = aten.erf.default(self=%fault)\n");
      values.emplace_back("after");
    }
    if (random() % 3 == 0)
      text += str("  %", name, ": ", type, " = aten.add.Tensor(self=%", values.back(), ", other=%", b, ")\n");
    else
      text += str("  %", name, ": ", type, " = aten.", unary[random() % 6], ".default(self=%", values.back(), ")\n");
    values.push_back(name);
  }
  text += str("  output %", values.back(), " = user\n  output %after = user\n}\n");
  Program program = parse_program(text);
  program.sample_inputs = {Datum{random_tensor(DType::f32, {4, 8}, {8, 1}, seed)},
                           Datum{random_tensor(DType::f32, {4, 8}, {8, 1}, seed + 1)}};
  return program;
}

// Layers as models have them: many operators of each kind, many kernels.
Program layered_program(int layers) {
  std::string text =
      "program \"model\"\ngraph main {\n  input %x: f32[8, 16] = user\n  input %w: f32[16, 16] = user\n"
      "  %h_0: f32[8, 16] = aten.tanh.default(self=%x)\n";
  for (int i = 1; i <= layers; ++i) {
    text += str("  %mm_", i, ": f32[8, 16] = aten.mm.default(self=%h_", i - 1, ", mat2=%w)\n");
    text += str("  %relu_", i, ": f32[8, 16] = aten.relu.default(self=%mm_", i, ")\n");
    text += str("  %add_", i, ": f32[8, 16] = aten.add.Tensor(self=%relu_", i, ", other=%h_", i - 1, ")\n");
    text += str("  %h_", i, ": f32[8, 16] = aten.tanh.default(self=%add_", i, ")\n");
  }
  text += str("  output %h_", layers, " = user\n}\n");
  Program program = parse_program(text);
  program.sample_inputs = {Datum{random_tensor(DType::f32, {8, 16}, {16, 1}, 1)},
                           Datum{random_tensor(DType::f32, {16, 16}, {16, 1}, 2)}};
  return program;
}

class Minify : public testing::Test {
 protected:
  MinifyResult run(const Program& program, const std::string& fault, const std::string& after = "aot") {
    settings_ = Settings(Phase::both);
    settings_.set("inject_fault_TESTING_ONLY", fault);
    settings_.set("cache_dir", join_path(directory_.path(), "cache"));
    MinifyOptions options;
    options.accuracy = true;
    options.save_dir = join_path(directory_.path(), "checkpoints");
    options.copy_to = directory_.path();
    options.settings = &settings_;
    options.after = after;
    options.least_run_seconds = 2;
    options.check_str = check_str_;
    options.runs = runs_;
    if (large_) options.slow_reference_seconds = 0;
    options.say = [this](const std::string& line) {
      said_ += line + "\n";
      if (at_line_) at_line_(line);
    };
    return minify(program, options);
  }
  TemporaryDirectory directory_;
  Settings settings_{Phase::both};
  std::string said_, check_str_;
  int runs_ = 3;
  bool large_ = false;  // treated as a model whose reference takes seconds
  std::function<void(const std::string&)> at_line_;
};

TEST_F(Minify, EveryKindEndsWithTheOneOperator) {
  unsigned seed = 1;
  for (const char* kind : {"internal_error", "compile_error", "runtime_error", "accuracy", "nan", "crash"}) {
    SCOPED_TRACE(kind);
    const MinifyResult result = run(random_program(seed++, 14), str(kind, ":relu"));
    ASSERT_EQ(result.calls, 1);
    EXPECT_EQ(result.program.graph.nodes.front()->target, "aten.relu.default");
    EXPECT_EQ(result.nodes, 3) << "an input, the operator, the output";
    EXPECT_TRUE(result.minimal);
  }
}

TEST_F(Minify, AHangIsCutOff) {
  const MinifyResult result = run(random_program(7, 3), "hang:relu");
  EXPECT_EQ(result.calls, 1);
  EXPECT_EQ(result.failure.kind, FailureKind::hang);
}

TEST_F(Minify, AFaultOfTwoFusedOperatorsKeepsBoth) {
  const MinifyResult result = run(random_program(11, 14), "accuracy:relu+erf");
  ASSERT_EQ(result.calls, 2);
  EXPECT_EQ(result.program.graph.nodes.front()->target, "aten.relu.default");
  EXPECT_EQ(result.program.graph.nodes.back()->target, "aten.erf.default");
}

// bench/minify.py --only models does the same with models of the size that it is about.
TEST_F(Minify, OfALargeModelWhatBisectingBlamesComesFirst) {
  large_ = true;
  for (const char* kind : {"accuracy", "nan", "crash"}) {
    SCOPED_TRACE(kind);
    said_.clear();
    const MinifyResult result = run(layered_program(12), str(kind, ":relu:node=relu_7"));
    ASSERT_EQ(result.calls, 1) << said_;
    EXPECT_EQ(result.program.graph.nodes.front()->name, "relu_7");
    EXPECT_TRUE(result.minimal);
    EXPECT_NE(said_.find("Bisecting blames kernel "), std::string::npos) << said_;
    EXPECT_NE(said_.find("it fails by itself: "), std::string::npos) << said_;
    EXPECT_LT(result.trials, 40) << "halves of the program were not tried";
  }
}

// A fault that needs more than the kernel that shows it: the search goes on with the whole program.
TEST_F(Minify, OfALargeModelNothingIsTakenThatDoesNotFailByItself) {
  large_ = true;
  const MinifyResult result = run(random_program(24, 14), "accuracy:relu+erf");
  ASSERT_EQ(result.calls, 2) << said_;
  EXPECT_TRUE(result.minimal);
}

TEST_F(Minify, AFaultAboveASizeKeepsTheSize) {
  const MinifyResult result = run(random_program(12, 8), "accuracy:relu:above=20");
  ASSERT_EQ(result.calls, 1);
  const int64_t elements = result.program.sample_inputs[0].tensor().numel();
  EXPECT_GT(elements, 20);
  EXPECT_LE(elements, 24);
}

TEST_F(Minify, DynamicSizesStayOnlyWhereTheyMatter) {
  const MinifyResult dynamic = run(random_program(13, 8, "s0"), "accuracy:relu:dynamic");
  EXPECT_EQ(dynamic.calls, 1);
  EXPECT_EQ(dynamic.program.symbols.size(), 1u);
  const MinifyResult fixed = run(random_program(13, 8, "s0"), "accuracy:relu");
  EXPECT_EQ(fixed.calls, 1);
  EXPECT_TRUE(fixed.program.symbols.empty());
}

TEST_F(Minify, AFaultInABranchStaysInABranch) {
  Program program = parse_program(R"(program "model"
graph main {
  input %p: bool[] = user
  input %x: f32[4, 8] = user
  %u: f32[4, 8] = aten.sin.default(self=%x)
  %r: f32[4, 8] = higher_order.cond(%p, graph true_0 {
    input %a: f32[4, 8]
    %s: f32[4, 8] = aten.sin.default(self=%a)
    %t: f32[4, 8] = aten.relu.default(self=%s)
    %v: f32[4, 8] = aten.add.Tensor(self=%t, other=%s)
    output %v
  }, graph false_0 {
    input %a: f32[4, 8]
    %c: f32[4, 8] = aten.cos.default(self=%a)
    output %c
  }, [%u])
  %z: f32[4, 8] = aten.tanh.default(self=%r)
  output %z = user
}
)");
  program.sample_inputs = {Datum{Tensor::scalar(DType::boolean, Scalar(true))},
                           Datum{random_tensor(DType::f32, {4, 8}, {8, 1}, 3)}};
  const MinifyResult inside = run(program, "accuracy:relu:subgraph");
  EXPECT_LE(inside.calls, 3) << print(inside.program);
  const MinifyResult outside = run(program, "accuracy:relu");
  EXPECT_EQ(outside.calls, 1) << "the branch that ran is inlined";
}

TEST_F(Minify, WhatComesBackOnlySometimesIsSaidToAndFoundAllTheSame) {
  runs_ = 20;  // that all of them fail, or none, will not happen
  const MinifyResult result = run(random_program(17, 8), "crash:relu:sometimes");
  EXPECT_EQ(result.calls, 1);
  EXPECT_EQ(result.failure.kind, FailureKind::signal);
  EXPECT_NE(said_.find("It comes back only sometimes: "), std::string::npos) << said_;
  EXPECT_NE(said_.find(" of 20 runs. Every candidate gets up to "), std::string::npos) << said_;
  const std::string python = read_file(join_path(directory_.path(), "repro.py"));
  EXPECT_NE(python.find("fails only sometimes (the whole program in "), std::string::npos) << python;
}

TEST_F(Minify, CheckStrMustBeInTheMessage) {
  check_str_ = "in relu";
  EXPECT_EQ(run(random_program(18, 6), "runtime_error:relu").calls, 1);
  EXPECT_NE(read_file(join_path(directory_.path(), "repro.py")).find("check_str='in relu'"), std::string::npos);
  check_str_ = "no such words";
  try {
    run(random_program(18, 6), "runtime_error:relu");
    FAIL() << "another failure was minified";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("AOTIMinifierError: the failure does not mention 'no such words'; seen instead: "
                                   "error K0630 "),
              std::string::npos)
        << error.message();
    EXPECT_NE(error.message().find("please report it"), std::string::npos);
  }
}

TEST_F(Minify, AnInterruptLeavesTheBestReproSoFar) {
  const pid_t self = getpid();
  int lines = 0;
  at_line_ = [&](const std::string& line) {
    // The first checkpoint: something smaller is known, and the search goes on.
    if (starts_with(line, "Writing checkpoint with ") && lines++ == 0) kill(self, SIGINT);
  };
  const MinifyResult result = run(random_program(19, 30), "crash:relu");
  EXPECT_TRUE(result.interrupted);
  EXPECT_FALSE(result.minimal);
  EXPECT_LT(result.calls, 32);
  EXPECT_NE(said_.find("interrupted: it may not be minimal"), std::string::npos) << said_;
  const Program back = read_pt2(join_path(directory_.path(), "repro.pt2"));
  EXPECT_EQ(count_calls(back.graph), result.calls);
  EXPECT_TRUE(file_exists(join_path(directory_.path(), "repro.sh")));
}

TEST_F(Minify, RunOnceSaysWhatHappens) {
  const Program program = random_program(20, 4);
  settings_.set("inject_fault_TESTING_ONLY", "runtime_error:relu");
  settings_.set("cache_dir", join_path(directory_.path(), "cache"));
  MinifyOptions options;
  options.settings = &settings_;
  const Failure failure = run_once(program, options);
  EXPECT_EQ(failure.code, "K0630");
  EXPECT_EQ(failure.stage, "run");
  settings_.set("inject_fault_TESTING_ONLY", "runtime_error:no_such_operator");
  const Failure none = run_once(program, options);
  EXPECT_FALSE(none.failed());
  EXPECT_EQ(none.message,
            "the fault to inject met no operator: the program has no no_such_operator where it could be put in");
}

TEST_F(Minify, WritesWhatTheMessagesSay) {
  const MinifyResult result = run(random_program(21, 10), "accuracy:relu", "inductor");
  EXPECT_NE(said_.find("Writing checkpoint with 3 nodes to "), std::string::npos) << said_;
  EXPECT_NE(said_.find("Copying repro file for convenience to "), std::string::npos);
  EXPECT_NE(said_.find("Wrote minimal repro out to repro.py"), std::string::npos);
  const std::string python = read_file(join_path(directory_.path(), "repro.py"));
  EXPECT_NE(python.find("torch.ops.aten.relu.default"), std::string::npos);
  EXPECT_NE(python.find("'inject_fault_TESTING_ONLY': 'accuracy:relu'"), std::string::npos);
  EXPECT_NE(python.find("command='run'"), std::string::npos);
  const Program back = read_pt2(join_path(directory_.path(), "repro.pt2"));
  EXPECT_EQ(count_calls(back.graph), 1);
  EXPECT_EQ(back.sample_inputs.size(), 1u);
  EXPECT_TRUE(file_exists(join_path(directory_.path(), "checkpoints/3.pt2")));
  // The kernel alone shows the wrong values, built by the printed command.
  ASSERT_FALSE(result.kernel_file.empty()) << said_;
  const std::string command = kernel_file(result.program, settings_, "repro_kernel.cpp").command;
  const ProcessResult built = run_process({"sh", "-c", str("cd ", directory_.path(), " && ", command)});
  EXPECT_EQ(built.exit_code, 1) << built.output;
  EXPECT_NE(built.output.find("differ from the reference"), std::string::npos) << built.output;
}

// Whatever makes the reference slow: here it has next to no time at all.
TEST_F(Minify, WhatCannotBeJudgedIsNoFailure) {
  Program program = parse_program(R"(program "model"
graph main {
  input %x: f32[600, 600] = user
  %m: f32[600, 600] = aten.mm.default(self=%x, mat2=%x)
  %r: f32[600, 600] = aten.relu.default(self=%m)
  output %r = user
}
)");
  program.sample_inputs = {Datum{random_tensor(DType::f32, {600, 600}, {600, 1}, 5)}};
  settings_.set("inject_fault_TESTING_ONLY", "accuracy:relu");
  settings_.set("cache_dir", join_path(directory_.path(), "cache"));
  MinifyOptions options;
  options.settings = &settings_;
  options.accuracy = true;
  options.judge_seconds = 0.01;
  options.copy_to = options.save_dir = directory_.path();
  const Failure once = run_once(program, options);
  EXPECT_EQ(once.kind, FailureKind::error);
  EXPECT_EQ(once.code, not_judged);
  try {
    minify(program, options);
    FAIL() << "a comparison that was cut off was taken for a failure";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), "K0685") << error.message();
    EXPECT_NE(error.message().find("--timeout"), std::string::npos) << error.message();
  }
}

TEST_F(Minify, NothingToMinifyIsSaid) {
  try {
    run(random_program(31, 4), "accuracy:no_such_operator");
    FAIL() << "nothing was wrong";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), "K0680");
    EXPECT_TRUE(starts_with(error.message(), "AOTIMinifierError: the failure does not come back: in 3 runs "))
        << error.message();
    EXPECT_NE(error.message().find("(the fault to inject met no operator"), std::string::npos) << error.message();
  }
}

TEST(Dump, WritesTheDirectoryOnFailure) {
  const TemporaryDirectory directory;
  Settings settings(Phase::both);
  settings.set("debug_dir_root", directory.path());
  settings.set("aot_inductor.dump_aoti_minifier", "1");
  settings.set("cpp.inject_relu_bug_TESTING_ONLY", "compile_error");
  std::vector<std::string> said;
  DumpOnFailure dump(
      settings, {}, [] { return random_program(1, 4); }, [&](const std::string& line) { said.push_back(line); });
  ASSERT_TRUE(dump.wanted());
  dump.before();
  EXPECT_TRUE(said.empty()) << "level 2 waits for a failure";
  dump.failed();
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[0], "Writing minified repro to:");
  EXPECT_TRUE(ends_with(said[1], "/minifier/minifier_launcher.py"));
  const std::string launcher = read_file(said[1]);
  EXPECT_NE(launcher.find("command='minify'"), std::string::npos);
  EXPECT_NE(launcher.find("'cpp.inject_relu_bug_TESTING_ONLY': 'compile_error'"), std::string::npos);
  EXPECT_NE(launcher.find("check_str=None"), std::string::npos);
  for (const char* line :
       {"# kiln version: ", "# C++ compiler: ", "# CPU: ", "# GPU: ", "save_dir='", "accuracy=False"})
    EXPECT_NE(launcher.find(line), std::string::npos) << line;
  EXPECT_EQ(launcher.find("# CPU: unknown"), std::string::npos);
  EXPECT_EQ(launcher.find("# C++ compiler: none"), std::string::npos);
  const std::string folder = parent_path(said[1]);
  EXPECT_EQ(read_pt2(join_path(folder, "checkpoints/exported_program.pt2")).sample_inputs.size(), 2u);
  EXPECT_TRUE(file_exists(join_path(folder, "minifier_launcher.sh")));
}

TEST(Dump, NobodyAskedNothingIsWritten) {
  Settings settings(Phase::both);
  DumpOnFailure dump(
      settings, {}, []() -> Program { throw std::logic_error("not asked for"); }, [](const std::string&) { FAIL(); });
  EXPECT_FALSE(dump.wanted());
  dump.before();
  dump.failed();
}

}  // namespace
}  // namespace kiln::minify
