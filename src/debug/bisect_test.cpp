// Faults put into packages on purpose: bisect names the kernel and the operator, or the fault of the plan; the checked
// run finds what leaves a buffer. And nothing is said about packages that are right.
#include "debug/bisect.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "compile/compile.h"
#include "debug/profile.h"
#include "debug/replay.h"
#include "executable/package_executable.h"
#include "package/step_plan.h"

namespace kiln {
namespace {

// A fused chain into a matrix product, a second product of its result, a third that depends on neither.
constexpr const char* program_text = R"(program "model"
graph main {
  input %x: f32[6, 8] = user
  input %y: f32[8, 10] = user
  %mul: f32[6, 8] = aten.mul.Tensor(self=%x, other=%x)
  %sin: f32[6, 8] = aten.sin.default(self=%mul)
  %add: f32[6, 8] = aten.add.Tensor(self=%sin, other=%x)
  %exp: f32[6, 8] = aten.exp.default(self=%add)
  %mm: f32[6, 10] = aten.mm.default(self=%exp, mat2=%y)
  %tanh: f32[6, 10] = aten.tanh.default(self=%mm)
  %mm_1: f32[6, 10] = aten.mm.default(self=%tanh, mat2=%z)
  %cos: f32[6, 10] = aten.cos.default(self=%mm_1)
  %mm_2: f32[8, 10] = aten.mm.default(self=%y, mat2=%z)
  %sigmoid: f32[8, 10] = aten.sigmoid.default(self=%mm_2)
  output %cos = user
  output %sigmoid = user
  output %mm = user
}
)";

std::string text_with_z() {
  return replace_all(program_text, "  %mul: f32[6, 8]", "  input %z: f32[10, 10] = user\n  %mul: f32[6, 8]");
}

Tensor filled(std::vector<int64_t> sizes, int seed) {
  Tensor t = Tensor::empty(DType::f32, std::move(sizes));
  for (int64_t i = 0; i < t.numel(); ++i) t.set_item(i, Scalar(static_cast<double>((i * 37 + seed) % 23) / 16.0 - 0.6));
  return t;
}

loops::Stmt* find_op(loops::LoopProgram& program, loops::ScalarOp op) {
  loops::Stmt* found = nullptr;
  loops::for_each_item(program.block, [&](loops::Item& item) {
    if (auto* kernel = std::get_if<loops::Kernel>(&item.what))
      loops::for_each_stmt(kernel->body, [&](loops::Stmt& s) {
        if (!found && s.kind == loops::StmtKind::op && s.op == op) found = &s;
      });
  });
  return found;
}

loops::Stmt* find_kind(loops::LoopProgram& program, loops::StmtKind kind, const std::string& buffer = "") {
  loops::Stmt* found = nullptr;
  loops::for_each_item(program.block, [&](loops::Item& item) {
    if (auto* kernel = std::get_if<loops::Kernel>(&item.what))
      loops::for_each_stmt(kernel->body, [&](loops::Stmt& s) {
        const bool named = buffer.empty() || (s.buffer != loops::no_buffer &&
                                              program.buffers[static_cast<size_t>(s.buffer)].name == buffer);
        if (!found && s.kind == kind && named) found = &s;
      });
  });
  return found;
}

class Bisect : public testing::Test {
 protected:
  void compile_with(std::function<void(loops::LoopProgram&)> loops, std::function<void(format::Plan&)> plan = {},
                    bool strip = false) {
    program_ = parse_program(text_with_z());
    CompileOptions options;
    options.inject.loops = std::move(loops), options.inject.plan = std::move(plan);
    options.strip_debug = strip;
    compile(program_, path_, options);
  }
  BisectResult run() {
    BisectOptions options;
    return bisect(path_, inputs_, options);
  }
  std::string checked_run() {
    PackageOptions options;
    options.settings = {"check_bounds=1"}, options.ignore_environment = true;
    try {
      PackageExecutable(path_, options).call(inputs_);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  TemporaryDirectory folder_;
  std::string path_ = join_path(folder_.path(), "model.kiln.pt2");
  Program program_;
  std::vector<Datum> inputs_ = {Datum{filled({6, 8}, 1)}, Datum{filled({8, 10}, 2)}, Datum{filled({10, 10}, 3)}};
};

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(Bisect, SaysNothingAboutARightPackage) {
  compile_with({});
  BisectResult result = run();
  EXPECT_EQ(result.fault, FaultClass::none) << result.text;
  EXPECT_EQ(result.against_graph, result.steps) << result.text;
  EXPECT_EQ(checked_run(), "");
}

// Sums that are rounded to whole steps: one that lies between two goes either way, by the order in which it is added
// up.
TEST_F(Bisect, TakesAStepOfAValueBetweenTwoForRounding) {
  program_ = parse_program(R"(program "steps"
graph main {
  input %x: f32[1000, 20] = user
  %sum: f32[1000] = aten.sum.dim_IntList(self=%x, dim=[1])
  %round: f32[1000] = aten.round.default(self=%sum)
  %steps: f32[1000] = aten.mul.Tensor(self=%round, other=0.5)
  output %steps = user
}
)");
  CompileOptions options;
  options.inject.loops = [](loops::LoopProgram& loops) {
    find_op(loops, loops::ScalarOp::round)->op = loops::ScalarOp::ceil;
  };
  compile(program_, path_, options);
  const auto found = [&](double seventh, std::optional<double> rtol) {
    Tensor x = Tensor::empty(DType::f32, {1000, 20});
    for (int64_t i = 0; i < x.numel(); ++i) x.set_item(i, Scalar(static_cast<double>(i * 7 % 5)));
    for (int64_t i = 0; i < 20; ++i) x.set_item(7 * 20 + i, Scalar(seventh / 20));
    BisectOptions how;
    how.tolerance.rtol = rtol;
    return bisect(path_, {Datum{x}}, how).fault;
  };
  EXPECT_EQ(found(4.4999998, {}), FaultClass::none);
  EXPECT_EQ(found(4.25, {}), FaultClass::kernel);
  EXPECT_EQ(found(2.5, {}), FaultClass::kernel) << "the sum of twenty eighths is exact";
  EXPECT_EQ(found(4.4999998, 1e-6), FaultClass::kernel) << "who asks for this gets it";
}

// What an associative scan begins with is no value of the graph: that step can only be held against its own loops, and
// every other step is right given what it read.
TEST_F(Bisect, WrongOutputsThatNoStepExplainsAreUncertain) {
  program_ = parse_program(R"(program "sums"
graph main {
  input %x: f32[5, 7] = user
  %sums: f32[5, 7] = higher_order.associative_scan(graph combine {
    input %a: f32[7]
    input %b: f32[7]
    %add: f32[7] = aten.add.Tensor(self=%a, other=%b)
    output %add
  }, [%x], [])
  output %sums = user
}
)");
  inputs_ = {Datum{filled({5, 7}, 1)}};
  compile(program_, path_, {});
  EXPECT_EQ(run().fault, FaultClass::none) << run().text;
  CompileOptions options;
  std::string kernel;
  options.inject.loops = [&](loops::LoopProgram& p) {
    find_kind(p, loops::StmtKind::load, "x")->index[0] = Expr(1);
    kernel = std::get<loops::Kernel>(p.block.front().what).name;
  };
  compile(program_, path_, options);
  const BisectResult result = run();
  EXPECT_EQ(result.fault, FaultClass::uncertain) << result.text;
  EXPECT_TRUE(starts_with(result.text, "uncertain: output 0 at [0, 0]: got ")) << result.text;
  EXPECT_EQ(std::count(result.candidates.begin(), result.candidates.end(), kernel), 1) << result.text;
}

TEST_F(Bisect, WorksOnStrippedPackagesWithTheirSidecar) {
  compile_with({}, {}, true);
  EXPECT_EQ(run().fault, FaultClass::none);
  EXPECT_EQ(checked_run(), "");
  remove_tree(path_ + ".debug");
  EXPECT_THROW(run(), Error);
  EXPECT_HAS(checked_run(), "K0639");
}

TEST_F(Bisect, NamesTheOperatorInAStrippedPackageWithItsSidecar) {
  compile_with([](loops::LoopProgram& p) { find_op(p, loops::ScalarOp::sin)->op = loops::ScalarOp::cos; }, {}, true);
  EXPECT_EQ(run().op, "aten.sin.default");
  write_file_atomic(path_ + ".debug", "not an archive");
  EXPECT_THROW(run(), Error);
  remove_tree(path_ + ".debug");
  try {
    run();
    ADD_FAILURE() << "a package without its debug section was bisected";
  } catch (const Error& error) {
    for (const char* part : {"K0540", "--strip-debug", ".debug is not there", "needs the loops and the graph"})
      EXPECT_HAS(std::string(error.what()), part);
  }
}

TEST_F(Bisect, SaysWhyNoOperatorIsNamedWithoutACompiler) {
  program_ = parse_program(text_with_z());
  CompileOptions options;
  options.inject.source = [](std::string& unit) { unit = replace_all(unit, "= k_sin(", "= k_exp("); };
  compile(program_, path_, options);
  BisectOptions without;
  without.compiler = "no-such-compiler";
  const BisectResult result = bisect(path_, inputs_, without);
  EXPECT_EQ(result.fault, FaultClass::code) << result.text;
  EXPECT_EQ(result.op, "") << result.text;
  EXPECT_HAS(result.text, "its code cannot be rebuilt to look inside it: ");
  EXPECT_HAS(result.text, "which operator inside it is uncertain; one of:");
  EXPECT_EQ(join(result.candidates, " "), "mul sin add exp");
  EXPECT_HAS(result.text, "no-such-compiler");
}

// Each fault: how the loops are changed, and the operator that is to be named.
struct OperatorFault {
  const char* name;
  void (*inject)(loops::LoopProgram&);
  const char* op;
};

void PrintTo(const OperatorFault& fault, std::ostream* out) { *out << fault.name; }

class BisectOperator : public Bisect, public testing::WithParamInterface<OperatorFault> {};

TEST_P(BisectOperator, IsNamed) {
  compile_with(GetParam().inject);
  BisectResult result = run();
  EXPECT_EQ(result.fault, FaultClass::kernel) << result.text;
  EXPECT_EQ(result.op, GetParam().op) << result.text;
  ASSERT_TRUE(result.difference.has_value());
  EXPECT_NE(result.difference->got, result.difference->expected);
}

INSTANTIATE_TEST_SUITE_P(
    Faults, BisectOperator,
    testing::Values(
        OperatorFault{"sin_becomes_cos",
                      [](loops::LoopProgram& p) { find_op(p, loops::ScalarOp::sin)->op = loops::ScalarOp::cos; },
                      "aten.sin.default"},
        OperatorFault{"add_becomes_sub",
                      [](loops::LoopProgram& p) { find_op(p, loops::ScalarOp::add)->op = loops::ScalarOp::sub; },
                      "aten.add.Tensor"},
        OperatorFault{"exp_becomes_sin",
                      [](loops::LoopProgram& p) { find_op(p, loops::ScalarOp::exp)->op = loops::ScalarOp::sin; },
                      "aten.exp.default"},
        OperatorFault{"tanh_becomes_sin",
                      [](loops::LoopProgram& p) { find_op(p, loops::ScalarOp::tanh)->op = loops::ScalarOp::sin; },
                      "aten.tanh.default"},
        OperatorFault{"square_becomes_sum",
                      [](loops::LoopProgram& p) { find_op(p, loops::ScalarOp::mul)->op = loops::ScalarOp::add; },
                      "aten.mul.Tensor"}),
    [](const auto& fault) { return fault.param.name; });

// Two products write their parts of a concatenation.
constexpr const char* parts_text = R"(program "model"
graph main {
  input %x: f32[6, 8] = user
  input %y: f32[8, 10] = user
  input %z: f32[10, 10] = user
  %mm: f32[6, 10] = aten.mm.default(self=%x, mat2=%y)
  %tanh: f32[6, 10] = aten.tanh.default(self=%mm)
  %mm_1: f32[8, 10] = aten.mm.default(self=%y, mat2=%z)
  %cos: f32[8, 10] = aten.cos.default(self=%mm_1)
  %joined: f32[14, 10] = aten.cat.default(tensors=[%tanh, %cos], dim=0)
  %mm_2: f32[14, 10] = aten.mm.default(self=%joined, mat2=%z)
  output %mm_2 = user
}
)";

// That the first is wrong shows when the second is done.
TEST_F(Bisect, LooksInsideTheStepThatWroteAPart) {
  CompileOptions options;
  options.inject.loops = [](loops::LoopProgram& p) { find_op(p, loops::ScalarOp::tanh)->op = loops::ScalarOp::sin; };
  compile(parse_program(parts_text), path_, options);
  const BisectResult result = run();
  EXPECT_EQ(result.fault, FaultClass::kernel) << result.text;
  EXPECT_EQ(result.op, "aten.tanh.default") << result.text;
  EXPECT_HAS(result.text, "its part of joined");
  EXPECT_EQ(result.text.find("not written"), std::string::npos) << result.text;
}

// Memory is full of NaN before the run: those of a part that is yet to be written nobody made.
TEST_F(Bisect, NanAssertsKnowPartsThatAreYetToBeWritten) {
  compile(parse_program(parts_text), path_, {});
  PackageOptions options;
  options.settings = {"nan_asserts=1", "PYTORCH_NO_CUDA_MEMORY_CACHING=1"}, options.ignore_environment = true;
  EXPECT_NO_THROW(PackageExecutable(path_, options).call(inputs_));
  Tensor bad = inputs_[1].tensor().clone();
  bad.set_item(0, Scalar(std::nan("")));
  try {
    PackageExecutable(path_, options).call({inputs_[0], Datum{bad}, inputs_[2]});
    FAIL() << "NaN in an input";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), "K0637");
  }
}

TEST_F(Bisect, FindsALoopThatEndsTooEarly) {
  compile_with([](loops::LoopProgram& p) {
    loops::for_each_item(p.block, [&](loops::Item& item) {
      auto* kernel = std::get_if<loops::Kernel>(&item.what);
      if (!kernel) return;
      loops::for_each_stmt(kernel->body, [&](loops::Stmt& s) {
        if (s.kind == loops::StmtKind::loop && s.loop->role == loops::AxisRole::reduce)
          s.loop->extent = s.loop->extent - 1;
      });
    });
  });
  BisectResult result = run();
  EXPECT_EQ(result.fault, FaultClass::kernel) << result.text;
  EXPECT_EQ(result.op, "aten.mm.default") << result.text;
}

TEST_F(Bisect, CheckedRunNamesWhatLeavesItsBuffer) {
  compile_with([](loops::LoopProgram& p) {
    loops::Stmt* load = find_kind(p, loops::StmtKind::load, "x");
    load->index[0] = load->index[0] + 3;
  });
  std::string text = checked_run();
  for (const char* part : {"K0330", "loads x[", "outside of its sizes [6, 8]", "dimension 0", "at ", "run 1"})
    EXPECT_HAS(text, part);
}

TEST_F(Bisect, FindsOverlappingLifetimes) {
  // The second product runs between the two kernels of the first, and is told to write where their temporary lives.
  std::string overwritten;
  compile_with({}, [&](format::Plan& plan) {
    const auto writes = [&](const format::Step& step, const std::string& name) {
      for (const format::KernelArg& arg : format::buffers_used(step))
        if (kiln::writes(arg.access) && plan.buffers[static_cast<size_t>(arg.buffer)].name == name) return true;
      return false;
    };
    auto late = std::find_if(plan.steps.begin(), plan.steps.end(),
                             [&](const format::Step& step) { return writes(step, "sigmoid"); });
    ASSERT_NE(late, plan.steps.end());
    const format::Step moved = *late;
    plan.steps.erase(late);
    int32_t temp = -1;
    for (size_t b = 0; b < plan.buffers.size(); ++b)
      if (plan.buffers[b].name == "tanh") temp = static_cast<int32_t>(b);
    ASSERT_GE(temp, 0);
    const auto early = std::find_if(plan.steps.begin(), plan.steps.end(),
                                    [&](const format::Step& step) { return writes(step, "tanh"); });
    ASSERT_NE(early, plan.steps.end());
    overwritten = plan.buffers[static_cast<size_t>(temp)].name;
    plan.steps.insert(early + 1, moved);
    for (format::Buffer& buffer : plan.buffers)
      if (buffer.name == "sigmoid") buffer.same_memory_as = temp;
  });
  BisectResult result = run();
  EXPECT_EQ(result.fault, FaultClass::overlap) << result.text;
  EXPECT_EQ(result.buffer, overwritten);
  EXPECT_HAS(result.text, "which wrote sigmoid");
}

TEST_F(Bisect, FindsAMissingDependency) {
  bool swapped = false;
  compile_with({}, [&](format::Plan& plan) {
    for (size_t i = 0; i + 1 < plan.steps.size() && !swapped; ++i)
      for (const format::KernelArg& written : format::buffers_used(plan.steps[i]))
        for (const format::KernelArg& read : format::buffers_used(plan.steps[i + 1]))
          if (!swapped && written.buffer == read.buffer && writes(written.access) && read.access == Access::read) {
            std::swap(plan.steps[i], plan.steps[i + 1]);
            swapped = true;
          }
  });
  ASSERT_TRUE(swapped);
  BisectResult result = run();
  EXPECT_EQ(result.fault, FaultClass::missing_dependency) << result.text;
  EXPECT_HAS(result.text, "no step has written yet");
}

// Vectors of singular values that are close are far off by the matrix's rounding alone, and so are eager's.
TEST_F(Bisect, TakesWhatAMatrixMagnifiesForRounding) {
  constexpr int64_t n = 24;
  const Program program = parse_program(R"(program "model"
graph main {
  input %x: f32[24, 24] = user
  %u: f32[24, 24] strides [1, 24], %s: f32[24], %v: f32[24, 24] strides [1, 24] = aten._linalg_svd.default(A=%x)
  %mul: f32[24, 24] = aten.mul.Tensor(self=%u, other=2)
  output %mul = user
  output %s = user
}
)");
  // A reflection of both sides of a diagonal matrix.
  double v[n], length = 0;
  for (int64_t i = 0; i < n; ++i) v[i] = std::cos(static_cast<double>(i * i)), length += v[i] * v[i];
  const auto q = [&](int64_t i, int64_t j) { return (i == j) - 2 * v[i] * v[j] / length; };
  Tensor x = Tensor::empty(DType::f32, {n, n});
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < n; ++k) sum += q(i, k) * (1 + 1e-3 * static_cast<double>(k)) * q(k, j);
      x.set_item(i * n + j, Scalar(sum));
    }
  compile(program, path_, {});
  const BisectResult result = bisect(path_, {Datum{x}}, {});
  EXPECT_EQ(result.fault, FaultClass::none) << result.text;
  EXPECT_GT(result.against_graph, 0);
}

TEST_F(Bisect, ReplaysAKernelFromSavedValues) {
  compile_with({});
  const std::string saved = join_path(folder_.path(), "saved");
  PackageOptions options;
  options.settings = {"aot_inductor.debug_intermediate_value_printer=1", str("intermediate_value_dir=", saved)};
  options.ignore_environment = true;
  PackageExecutable(path_, options).call(inputs_);
  std::string kernel;
  for (const std::string& file : list_directory(saved))
    if (ends_with(file, ".step.json")) kernel = file.substr(0, file.size() - 10);
  ASSERT_NE(kernel, "");
  Replay replay = replay_kernel(path_, kernel, saved, {});
  EXPECT_HAS(replay.text(), "is as it was saved");
  EXPECT_EQ(replay.text().find("differs"), std::string::npos) << replay.text();
  EXPECT_THROW(replay_kernel(path_, "cpp_fused_nothing", saved, {}), Error);
  EXPECT_THROW(replay_bundle(path_, {}, [](const std::string&) {}), Error);
}

TEST_F(Bisect, ReplaysKernelsThatWriteParts) {
  compile(parse_program(parts_text), path_, {});
  const std::string saved = join_path(folder_.path(), "saved");
  PackageOptions options;
  options.settings = {"aot_inductor.debug_intermediate_value_printer=1", str("intermediate_value_dir=", saved)};
  options.ignore_environment = true;
  PackageExecutable(path_, options).call(inputs_);
  int kernels = 0;
  for (const std::string& file : list_directory(saved)) {
    if (!ends_with(file, ".step.json")) continue;
    const Replay replay = replay_kernel(path_, file.substr(0, file.size() - 10), saved, {});
    EXPECT_EQ(replay.text().find("differs"), std::string::npos) << file << "\n" << replay.text();
    ++kernels;
  }
  EXPECT_GE(kernels, 3);
}

TEST_F(Bisect, ReplaysAFaultBundle) {
  compile_with({});
  const std::string faults = join_path(folder_.path(), "faults");
  PackageOptions options;
  options.settings = {"nan_asserts=1", str("fault_dir=", faults)};
  options.ignore_environment = true;
  Tensor x = filled({6, 8}, 1);
  x.set_item(11, Scalar(200.0));  // exp overflows
  inputs_[0] = Datum{x};
  EXPECT_THROW(PackageExecutable(path_, options).call(inputs_), Error);
  ASSERT_EQ(list_directory(faults).size(), 1u);
  std::string said;
  Replay replay =
      replay_bundle(join_path(faults, list_directory(faults)[0]), {}, [&](const std::string& s) { said += s; });
  EXPECT_HAS(said, "this kernel made it");
  int64_t bad = 0;
  for (const Datum& output : replay.outputs)
    for (int64_t i = 0; i < output.tensor().numel(); ++i) bad += !std::isfinite(output.tensor().item(i).as_double());
  EXPECT_GT(bad, 0) << said << replay.outputs.size();
}

TEST_F(Bisect, ProfileCountsWhatKernelsDo) {
  compile_with({});
  ProfileOptions options;
  options.runs = 3;
  Profile result = profile(path_, inputs_, options);
  ASSERT_FALSE(result.kernels.empty());
  double flops = 0;
  for (const KernelProfile& kernel : result.kernels) {
    EXPECT_EQ(kernel.calls, 1);
    EXPECT_GT(kernel.bytes, 0);
    EXPECT_GT(kernel.seconds, 0);
    flops += kernel.flops;
  }
  // Three products (2·m·n·k) and a few operations per element.
  const double products = 2.0 * (6 * 10 * 8 + 6 * 10 * 10 + 8 * 10 * 10);
  EXPECT_GE(flops, products);
  EXPECT_LE(flops, 2 * products);
  EXPECT_GT(result.machine.gflops, 0);
  EXPECT_GT(result.machine.gbs, 0);
  const std::string table = profile_table(result), trace = chrome_trace(result);
  EXPECT_HAS(table, result.kernels[0].name);
  EXPECT_HAS(table, "overhead");
  EXPECT_HAS(trace, "\"ph\": \"X\"");
  options.sort_by = "colour";
  EXPECT_THROW(profile(path_, inputs_, options), Error);
}

}  // namespace
}  // namespace kiln
