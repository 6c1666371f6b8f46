// Settings that watch a run, each switched on for a package that knows nothing of them.
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "base/zip.h"
#include "kiln/kiln.hpp"
#include "runtime/guard_memory.h"
#include "runtime/saved_tensor.h"
#include "runtime/test_package.h"

namespace kiln::runtime {
namespace {

// The package's kernels, replaced by ones that go wrong; FAULT says how relu does.
const char* faulty_source = R"(
#include <sys/mman.h>
#include <unistd.h>
typedef long long i64;
struct context;
static int deeper(volatile char* above) {
  volatile char frame[4096];
  frame[0] = *above;
  return deeper(frame) + frame[0];
}
extern "C" {
int k_linear(const context*, void* const* b, const i64* n, i64 begin, i64 end) {
  float* y = (float*)b[3];
  for (i64 i = begin * n[1]; i < end * n[1]; ++i) y[i] = 1;
  return 0;
}
int k_relu(const context*, void* const* b, const i64* n, i64 begin, i64 end) {
#if FAULT == 0
  const float* x = (const float*)b[0];
  float* y = (float*)b[1];
  for (i64 i = begin * n[0]; i < end * n[0] + 64; ++i) y[i] = x[i];  // 64 elements too many
#elif FAULT == 1
  volatile char top = 1;
  return deeper(&top);
#elif FAULT == 2
  __builtin_trap();
#elif FAULT == 3
  char name[] = "kiln_test";
  volatile char* page = (volatile char*)mmap(0, 4096, 3, MAP_SHARED, memfd_create(name, 0), 0);
  page[0] = 1;  // the file is empty
#elif FAULT == 4
  volatile int zero = 0;
  return 7 / zero;
#endif
  return 0;
}
int k_square(const context*, void* const*, const i64*, i64, i64) { return 0; }
}
)";
enum Fault { too_far, too_deep, no_instruction, no_memory, no_quotient };

struct Logged {
  std::string text;
};
void collect_watched(void* user, kiln_log_level, const char* text) {
  static_cast<Logged*>(user)->text += std::string(text) + "\n";
}

class Watched : public testing::Test {
 protected:
  static void SetUpTestSuite() { good() = compile_shared_object(mlp_source); }
  static std::string& good() {
    static std::string bytes;
    return bytes;
  }
  void use_faulty(Fault fault) {
    mlp.kernels = compile_shared_object(
        faulty_source, str("-D_GNU_SOURCE -fno-optimize-sibling-calls -Wno-infinite-recursion -DFAULT=", int{fault}));
  }
  void SetUp() override {
    mlp.kernels = good();
    for (size_t i = 0; i < 80; ++i) x.push_back(static_cast<float>(i % 7) / 4 - 0.5f);
  }
  // The error's text, or "". Log lines are in `log`.
  std::string run(std::vector<std::string> settings, int runs = 1) {
    std::string bytes = mlp.bytes();
    kiln::LoadOptions options;
    options.settings = std::move(settings), options.ignore_environment = true;
    options.log = collect_watched, options.log_user = &log;
    kiln::Model model(bytes.data(), bytes.size(), options);
    kiln::Instance instance(model);
    return error_of([&] {
      for (int i = 0; i < runs; ++i) instance.run({kiln::tensor(x.data(), {8, 10})});
    });
  }
  MlpPackage mlp;
  std::vector<float> x;
  Logged log;
  TemporaryDirectory folder;
};

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(Watched, SavesEveryArgumentOnceByItsContractName) {
  EXPECT_EQ(run({"aot_inductor.debug_intermediate_value_printer=1", "aot_inductor.filtered_kernel_names=*relu*",
                 str("intermediate_value_dir=", folder.path())},
                2),
            "");
  EXPECT_EQ(
      list_directory(folder.path()),
      (std::vector<std::string>{"after_launch_cpp_fused_relu_1_h_cpu.pt", "after_launch_cpp_fused_relu_1_r_cpu.pt",
                                "before_launch_cpp_fused_relu_1_h_cpu.pt", "cpp_fused_relu_1.step.json", "run_2"}));
  EXPECT_EQ(list_directory(join_path(folder.path(), "run_2")).size(), 4u);
  EXPECT_EQ(log.text, str("saving values of kernels' arguments to ", folder.path(), "\n"));
  std::string step = read_file(join_path(folder.path(), "cpp_fused_relu_1.step.json"));
  EXPECT_HAS(step, "\"symbols\": {\"s0\": 8}");
}

TEST_F(Watched, NanAssertsSayWhoMadeIt) {
  EXPECT_EQ(run({"nan_asserts=1"}), "");
  x[13] = INFINITY;
  std::string from_input = run({"nan_asserts=1"});
  EXPECT_HAS(from_input, "K0637");
  EXPECT_HAS(from_input,
             "before kernel cpp_linear_0 (step 0, run 1): argument x holds inf at [1, 3] (0 NaN, 1 Inf of 80)");
  EXPECT_HAS(from_input, "already in input x of the model");
  EXPECT_HAS(from_input, "nan_asserts_infinities=0 (KILN_NAN_ASSERTS_INFINITIES) stops at NaN alone");
  x[13] = 3e38f, x[14] = -3e38f;
  mlp.weights[3] = 100, mlp.weights[4] = 100;
  std::string made = run({"nan_asserts=1"});
  EXPECT_HAS(made, "after kernel cpp_linear_0");
  EXPECT_HAS(made, "argument h holds nan at [1, 0]");
  EXPECT_HAS(made, "this kernel made it");
  EXPECT_EQ(made.find("infinities"), std::string::npos) << made;
}

// A mask of -inf is what a program means: asked for NaN alone, the check passes it and finds the NaN behind it.
TEST_F(Watched, NanAssertsCanLookForNanAlone) {
  const std::vector<std::string> nan_alone{"nan_asserts=1", "nan_asserts_infinities=0"};
  x[13] = -INFINITY;
  EXPECT_HAS(run({"nan_asserts=1"}), "argument x holds -inf at [1, 3]");
  for (size_t i = 0; i < mlp.weights.size(); ++i) mlp.weights[i] = 1;
  EXPECT_EQ(run(nan_alone), "");
  x[14] = INFINITY;  // their sum is none
  const std::string made = run(nan_alone);
  EXPECT_HAS(made, "K0637");
  EXPECT_HAS(made, "NaN after kernel cpp_linear_0 (step 0, run 1): argument h holds nan at [1, 0]");
  EXPECT_EQ(made.find("NaN or Inf"), std::string::npos) << made;
  x[13] = NAN;
  EXPECT_HAS(run(nan_alone),
             "NaN before kernel cpp_linear_0 (step 0, run 1): argument x holds nan at [1, 3] (1 NaN, 1 Inf of 80)");
}

// What an operator computes on the way to its result may be NaN and never be seen again; where it is seen, it is found.
TEST_F(Watched, NanAssertsLookAtValuesOfTheProgram) {
  mlp.graph_text =
      "graph main {\n  input %x: f32[8, 10]\n  %r: f32[8, 16] = aten.relu.default(self=%x)\n  output %r\n}\n";
  mlp.origins.steps.push_back({0, {"act"}, {"aten.act.default"}, {""}, {"model.py:8 in forward:  a = act(x)"}, {}, {}});
  x[13] = 3e38f, x[14] = -3e38f;
  for (size_t row = 0; row < 16; ++row) mlp.weights[row * 10 + 3] = mlp.weights[row * 10 + 4] = row == 0 ? 100 : 0;
  EXPECT_EQ(run({"nan_asserts=1"}), "") << "h is no value of the program, and r has no NaN: relu gives 0";
  mlp.weights[4] = 0;  // h is infinite now, and so is r
  const std::string seen = run({"nan_asserts=1"});
  EXPECT_HAS(seen, "after kernel cpp_fused_relu_1 (step 1, run 1): argument r holds inf at [1, 0]");
  EXPECT_HAS(seen, "its argument h, a part of an operator, held inf at [1, 0]");
  EXPECT_HAS(seen, "cpp_linear_0 wrote it");
  // In-place forms and copies are values of the program though the text names them otherwise.
  mlp.origins.steps.back().nodes = {"h_"};
  EXPECT_HAS(run({"nan_asserts=1"}), "argument h holds inf");
  // Without a text nobody knows what a part is.
  mlp.origins.steps.back().nodes = {"act"};
  mlp.graph_text = "";
  EXPECT_HAS(run({"nan_asserts=1"}), "argument h holds inf");
}

TEST_F(Watched, FaultBundleIsAPackageThatRunsTheStep) {
  x[13] = 3e38f;
  mlp.weights[3] = 100;
  std::string error = run({"nan_asserts=1", str("fault_dir=", folder.path())});
  EXPECT_HAS(error, "after kernel cpp_linear_0");
  std::vector<std::string> files = list_directory(folder.path());
  ASSERT_EQ(files.size(), 1u);
  EXPECT_HAS(log.text, files[0]);
  std::string path = join_path(folder.path(), files[0]), bytes = read_file(path);
  ZipReader zip(as_bytes(bytes), path);
  std::string about(as_text(zip.stored(zip.at("test/data/kiln/test/fault.json"))));
  for (const char* part : {"\"kernel\": \"cpp_linear_0\"", "\"build_id\": \"b1\"", "\"s0\": 8", "this kernel made it",
                           "float32 [8, 10]", "\"values\": true"})
    EXPECT_HAS(about, part);
  EXPECT_NE(zip.find("test/data/sample_inputs/test.pt"), nullptr);
  kiln::Model step(path);
  ASSERT_EQ(kiln_input_count(step.handle()), 4u);  // x, weight, bias, s0
  std::vector<kiln::Value> out =
      kiln::Instance(step).run({kiln::tensor(x.data(), {8, 10}), kiln::tensor(mlp.weights.data(), {16, 10}),
                                kiln::tensor(mlp.weights.data() + 160, {16}), kiln::Value(int64_t{8})});
  EXPECT_TRUE(std::isinf(out[0].data<float>()[16]));
  run({"nan_asserts=1", "fault_values=0", str("fault_dir=", join_path(folder.path(), "bare"))});
  files = list_directory(join_path(folder.path(), "bare"));
  bytes = read_file(join_path(join_path(folder.path(), "bare"), files.at(0)));
  EXPECT_EQ(ZipReader(as_bytes(bytes), "bare").find("test/data/sample_inputs/test.pt"), nullptr);
}

// How a process ends that a signal killed; the sanitizers end it themselves, after ours has spoken.
auto killed_by(int signal) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  (void)signal;
  return [](int status) { return status != 0; };
#else
  return testing::KilledBySignal(signal);
#endif
}

using WatchedDeathTest = Watched;

TEST_F(WatchedDeathTest, GuardPagesAndSignalsNameTheKernel) {
  use_faulty(too_far);
  EXPECT_EXIT(run({"PYTORCH_NO_CUDA_MEMORY_CACHING=1", str("fault_dir=", folder.path()), "cpp.threads=1"}),
              killed_by(SIGSEGV),
              "K0638.*SIGSEGV.*inside kernel cpp_fused_relu_1 \\(step 1, run 1\\)\n  --> model.py:9");
  ASSERT_EQ(list_directory(folder.path()).size(), 1u);  // written by the process that died
  ZipReader zip(as_bytes(read_file(join_path(folder.path(), list_directory(folder.path())[0]))), "bundle");
}

TEST_F(WatchedDeathTest, AStackThatIsUsedUpIsReportedAndLeavesABundle) {
  use_faulty(too_deep);
  EXPECT_EXIT(run({str("fault_dir=", folder.path())}), killed_by(SIGSEGV),
              "K0638.*SIGSEGV.*the stack is used up, inside kernel cpp_fused_relu_1");
  EXPECT_EQ(list_directory(folder.path()).size(), 1u);
  // The same on a thread that is not the first of the process.
  EXPECT_EXIT(std::thread([&] { run({str("fault_dir=", folder.path())}); }).join(), killed_by(SIGSEGV),
              "the stack is used up, inside kernel cpp_fused_relu_1");
  EXPECT_EQ(list_directory(folder.path()).size(), 2u);
}

TEST_F(WatchedDeathTest, EveryWatchedSignalIsNamed) {
  const std::vector<std::string> settings{"aot_inductor.debug_intermediate_value_printer=3"};
  use_faulty(no_quotient);
  EXPECT_EXIT(run(settings), killed_by(SIGFPE), "SIGFPE.*inside kernel cpp_fused_relu_1");
  use_faulty(no_instruction);
  EXPECT_EXIT(run(settings), killed_by(SIGILL), "SIGILL.*inside kernel cpp_fused_relu_1");
  use_faulty(no_memory);
  EXPECT_EXIT(run(settings), killed_by(SIGBUS), "SIGBUS.*inside kernel cpp_fused_relu_1");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
sigjmp_buf recovered;

TEST_F(WatchedDeathTest, TheEmbeddersHandlerComesAfterwards) {
  use_faulty(no_instruction);
  EXPECT_EXIT(
      {
        struct sigaction own {};
        own.sa_handler = [](int) {
          if (write(STDERR_FILENO, "the embedder's handler\n", 23) == 23) _exit(42);
        };
        sigaction(SIGILL, &own, nullptr);
        run({str("fault_dir=", folder.path())});
      },
      testing::ExitedWithCode(42), "SIGILL.*inside kernel(.|\n)*the embedder's handler");
  EXPECT_EQ(list_directory(folder.path()).size(), 1u);
  // One that goes on: the next fault is reported again.
  EXPECT_EXIT(
      {
        struct sigaction own {};
        own.sa_handler = [](int) { siglongjmp(recovered, 1); };
        sigaction(SIGILL, &own, nullptr);
        volatile int faults = 0;
        if (sigsetjmp(recovered, 1) != 0) faults = faults + 1;
        if (faults == 2) _exit(43);
        run({"aot_inductor.debug_intermediate_value_printer=3"});
      },
      testing::ExitedWithCode(43), "SIGILL.*inside kernel(.|\n)*SIGILL.*inside kernel");
}
#endif

// No setting that watches: the kernel, the step and the lines are there all the same, and the embedder is told.
TEST_F(WatchedDeathTest, AFaultIsNamedWithoutAnythingElse) {
  const auto crash = [&](std::vector<std::string> settings) {
    std::string bytes = mlp.bytes();
    kiln::LoadOptions options;
    options.settings = std::move(settings), options.ignore_environment = true;
    options.fault = [](void*, const char* text) { fprintf(stderr, "told: %s\n", text); };
    kiln::Model model(bytes.data(), bytes.size(), options);
    kiln::Instance(model).run({kiln::tensor(x.data(), {8, 10})});
  };
  const std::string named = "inside kernel cpp_fused_relu_1 \\(step 1\\)\n  --> model.py:9(.|\n)*told: SIG";
  use_faulty(no_quotient);
  EXPECT_EXIT(crash({"name_faults=1"}), killed_by(SIGFPE), "error\\[K0638\\]: SIGFPE.*" + named);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which report every signal themselves
  EXPECT_EXIT(crash({"name_faults=0"}), killed_by(SIGFPE), "^$");
  EXPECT_EXIT(crash({}), killed_by(SIGFPE), "^$");
#endif
  use_faulty(no_memory);
  EXPECT_EXIT(crash({"name_faults=1"}), killed_by(SIGBUS), "SIGBUS.*" + named);
  use_faulty(too_deep);
  EXPECT_EXIT(crash({"name_faults=1"}), killed_by(SIGSEGV), "the stack is used up, " + named);
  // A program that has only the library: the minifier's directory is written too.
  use_faulty(no_instruction);
  const std::vector<std::string> dump{"name_faults=1", "aot_inductor.dump_aoti_minifier=1",
                                      str("debug_dir_root=", folder.path())};
  EXPECT_EXIT(crash(dump), killed_by(SIGILL), "Writing minified repro to:");
  EXPECT_EQ(list_directory(folder.path()).size(), 1u);
}

TEST_F(Watched, WrittenValuesAsTableAndAsJson) {
  const std::string print = "aot_inductor.debug_intermediate_value_printer=2";
  EXPECT_EQ(run({print, "intermediate_value_style=table"}), "");
  EXPECT_HAS(log.text, "value");
  EXPECT_EQ(log.text.find("checksum"), std::string::npos);
  EXPECT_EQ(log.text.find("\n0   "), std::string::npos) << "the preparation of weights\n" << log.text;
  log.text.clear();
  EXPECT_EQ(run({print, "intermediate_value_style=json"}), "");
  EXPECT_HAS(log.text, "{\"run\":1");
  EXPECT_HAS(log.text, "\"kernel\":\"cpp_fused_relu_1\"");
  log.text.clear();
  EXPECT_EQ(run({print, "intermediate_value_style=written"}), "");
  EXPECT_HAS(log.text, "[ after_launch - cpp_fused_relu_1 ]");
  EXPECT_EQ(log.text.find("before_launch"), std::string::npos);
  EXPECT_EQ(log.text.find(" read "), std::string::npos);
  EXPECT_THROW(run({print, "intermediate_value_style=colour"}), kiln::Exception);
}

TEST_F(Watched, RunsOfSeveralThreadsAreToldApart) {
  struct Lines {
    std::mutex mutex;
    std::map<std::string, std::vector<std::string>> by_run;
  } lines;
  std::string bytes = mlp.bytes();
  kiln::LoadOptions options;
  options.settings = {"aot_inductor.debug_intermediate_value_printer=3"}, options.ignore_environment = true;
  options.log_user = &lines;
  options.log = [](void* user, kiln_log_level, const char* text) {
    auto* to = static_cast<Lines*>(user);
    const std::string line = text;
    const size_t run = line.find(" ] run ") + 7;
    const std::lock_guard lock(to->mutex);
    to->by_run[line.substr(run, line.find(' ', run) - run)].push_back(line.substr(0, run));
  };
  kiln::Model model(bytes.data(), bytes.size(), options);
  kiln::Instance instance(model);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) instance.run({kiln::tensor(x.data(), {8, 10})});
    });
  for (std::thread& thread : threads) thread.join();
  lines.by_run.erase("0");  // weights are prepared
  ASSERT_EQ(lines.by_run.size(), 20u);
  for (const auto& [run, seen] : lines.by_run) {
    EXPECT_EQ(seen.size(), 4u) << run;
    EXPECT_EQ(seen, lines.by_run.begin()->second) << run;  // every launch of the run, in order
  }
}

TEST_F(Watched, ProfilesTimeEveryKernelBesideAHook) {
  std::string bytes = mlp.bytes();
  kiln::Model model(bytes.data(), bytes.size());
  kiln::Instance instance(model);
  int seen = 0;
  instance.set_hook(
      [](void* user, kiln_hook_when, const kiln_step*) {
        ++*static_cast<int*>(user);
        return KILN_HOOK_CONTINUE;
      },
      &seen);
  EXPECT_HAS(error_of([&] { instance.stop_profile(); }), "without kiln_profile_start");
  instance.start_profile();
  for (int i = 0; i < 3; ++i) instance.run({kiln::tensor(x.data(), {8, 10})});
  const kiln::Profile profile = instance.stop_profile();
  instance.run({kiln::tensor(x.data(), {8, 10})});  // not counted any more
  EXPECT_EQ(seen, 4 * 2 * 4);
  EXPECT_EQ(profile.total().runs, 3);
  const std::vector<kiln_kernel_profile> kernels = profile.kernels();
  ASSERT_EQ(kernels.size(), 4u);
  double seconds = 0;
  for (const kiln_kernel_profile& kernel : kernels) {
    EXPECT_EQ(kernel.calls, 3);
    EXPECT_GE(kernel.seconds, 3 * kernel.least_seconds);
    seconds += kernel.seconds;
    if (std::string_view(kernel.name) != "cpp_fused_relu_1") continue;
    EXPECT_EQ(kernel.bytes, 3 * 2 * 8 * 16 * 4);
    EXPECT_HAS(std::string(kernel.origin), "model.py:9");
    EXPECT_LT(kernel.flops, 0);  // a package in memory: nobody can tell
  }
  EXPECT_NEAR(profile.total().kernel_seconds, seconds, 1e-12);
  EXPECT_GT(profile.total().overhead_seconds, 0);
  EXPECT_GE(kernels[0].seconds, kernels[3].seconds);
  profile.write_trace(join_path(folder.path(), "trace.json"));
  const std::string trace = read_file(join_path(folder.path(), "trace.json"));
  EXPECT_HAS(trace, "\"name\": \"cpp_fused_relu_1\"");
  EXPECT_EQ(std::count(trace.begin(), trace.end(), 'X'), 12);
}

TEST_F(Watched, CheckedRunSaysWhatItNeeds) {
  std::string bytes = mlp.bytes();
  kiln::LoadOptions options;
  options.settings = {"check_bounds=1"}, options.ignore_environment = true;
  std::string text = error_of([&] { kiln::Model(bytes.data(), bytes.size(), options); });
  EXPECT_HAS(text, "K0639");
  EXPECT_HAS(text, "debug/loops.txt");
}

TEST(GuardMemory, BlocksAreWholeAlignedAndFreed) {
  for (int64_t bytes : {1, 63, 64, 4095, 4096, 4097, 100000}) {
    Block block(guard_allocator(), bytes, 64);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.data()) % 64, 0u);
    for (int64_t i = 0; i < bytes; ++i) block.data()[i] = std::byte{1};
  }
}

int32_t k_watched_add(const kiln_kernel_context*, void* const* b, const int64_t*, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) static_cast<int64_t*>(b[0])[i] += 1;
  return 0;
}
int32_t k_below_three(const kiln_kernel_context*, void* const* b, const int64_t*, int64_t, int64_t) {
  *static_cast<uint8_t*>(b[1]) = *static_cast<const int64_t*>(b[0]) < 3;
  return 0;
}

TEST(GuardMemory, ARegionHasNotOneByteTooMany) {
  for (const int64_t bytes : {0, 4, 740, 4096, 5000}) {
    for (const auto flush : {GuardRegion::Flush::end, GuardRegion::Flush::start}) {
      GuardRegion region(bytes, flush);
      std::fill_n(region.data(), bytes, std::byte{1});
      EXPECT_FALSE(region.written_beside().has_value());
      const auto at =
          reinterpret_cast<uintptr_t>(flush == GuardRegion::Flush::end ? region.data() + bytes : region.data());
      EXPECT_EQ(at % 4096, 0u);
      if (bytes % 4096 == 0) continue;
      const int64_t beside = flush == GuardRegion::Flush::end ? -1 : bytes;
      region.data()[beside] = std::byte{1};
      EXPECT_EQ(region.written_beside(), beside < 0 ? -1 : 0);
    }
  }
}

TEST(Watch, IterationsAreNamed) {
  TestPlan t;
  int32_t x = t.input("x", DType::i64, {t.number(1)}, true), go = t.temp("go", DType::boolean, {});
  format::Step loop = t.step(format::StepKind::while_loop, "loop_0");
  loop.args = {{go, Access::read}};
  loop.blocks = {{t.kernel("test", k_below_three, {{x, Access::read}, {go, Access::write}}, t.number(1))},
                 {t.kernel("add", k_watched_add, {{x, Access::update}}, t.number(1))}};
  t.plan.steps = {loop};
  Logged log;
  t.options.debug.printer_mode = 3;
  t.options.log = {collect_watched, &log};
  Instance instance(t.build());
  TestTensor<int64_t> in(DType::i64, {1}, {1});
  std::vector<kiln_value> inputs{in.value()};
  instance.run(inputs.data(), 1, nullptr, 0);
  EXPECT_EQ(in.values[0], 3);
  EXPECT_EQ(log.text,
            "[ before_launch - test ] run 1 iteration 0\n[ before_launch - add ] run 1 iteration 0\n"
            "[ before_launch - test ] run 1 iteration 1\n[ before_launch - add ] run 1 iteration 1\n"
            "[ before_launch - test ] run 1 iteration 2\n");
}

}  // namespace
}  // namespace kiln::runtime
