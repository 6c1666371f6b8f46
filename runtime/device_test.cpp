// Runs on a device whose memory the host cannot touch and whose queue runs late (runtime/apart_device.h), compared with
// the same runs on the CPU. Whatever looks at memory behind the device's back ends these tests with a signal.
#include <filesystem>
#include <set>

#include "runtime/apart_device.h"
#include "runtime/package_loader.h"
#include "runtime/test_package.h"

namespace kiln::runtime::device_tests {
namespace {

using format::StepKind;
using format::SymbolSource;

int32_t k_scale(const kiln_kernel_context*, void* const* b, const int64_t* ints, int64_t begin, int64_t end) {
  const auto factor = static_cast<float>(ints[0]);
  for (int64_t i = begin; i < end; ++i) static_cast<float*>(b[1])[i] = static_cast<const float*>(b[0])[i] * factor;
  return 0;
}
int32_t k_increment(const kiln_kernel_context*, void* const* b, const int64_t*, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) static_cast<float*>(b[0])[i] += 1;
  return 0;
}
// n = how many are not zero; go = n < limit
int32_t k_count(const kiln_kernel_context*, void* const* b, const int64_t* ints, int64_t, int64_t) {
  int64_t n = 0;
  for (int64_t i = 0; i < ints[0]; ++i) n += static_cast<const float*>(b[0])[i] != 0;
  *static_cast<int64_t*>(b[1]) = n;
  *static_cast<uint8_t*>(b[2]) = n < 4;
  return 0;
}
int32_t k_take(const kiln_kernel_context* context, void* const* b, const int64_t*, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const int64_t at = static_cast<const int64_t*>(b[1])[i];
    if (at < 0 || at > 99) return *context->error = {1, 0, i, at}, 1;
    static_cast<float*>(b[2])[i] = static_cast<const float*>(b[0])[at];
  }
  return 0;
}
int32_t k_refuse(const kiln_kernel_context* context, void* const* b, const int64_t*, int64_t, int64_t) {
  if (*static_cast<const float*>(b[0]) != 99) return 0;
  return *context->error = {1, 0, 0, 99}, 1;
}
// Through scratch, as a kernel with more than one pass would.
int32_t k_reverse(const kiln_kernel_context* context, void* const* b, const int64_t* ints, int64_t, int64_t) {
  auto* scratch = static_cast<float*>(context->scratch);
  for (int64_t i = 0; i < ints[0]; ++i) scratch[ints[0] - 1 - i] = static_cast<const float*>(b[0])[i];
  for (int64_t i = 0; i < ints[0]; ++i) static_cast<float*>(b[1])[i] = scratch[i];
  return 0;
}
int32_t negated(kiln_op_call* call) {
  const DLTensor* a = kiln_op_tensor(call, 0);
  if (a->device.device_type != kDLCPU) return kiln_op_fail(call, "this operator is the host's"), 1;
  DLTensor* out = kiln_op_output(call, 0, 1, a->shape);
  for (int64_t i = 0; out && i < a->shape[0]; ++i)
    static_cast<float*>(out->data)[i] = -static_cast<const float*>(a->data)[i];
  return out ? 0 : 1;
}

// A prepared constant, a mutable buffer, a library kernel and a custom operator of the host, a size found in data, a
// branch and a loop that depend on it, scratch, an output that is returned twice.
struct Everything {
  TestPlan t;
  explicit Everything(bool apart) {
    const int32_t six = t.number(6), one = t.number(1);
    const int32_t u0 = t.symbol("u0", SymbolSource::step, -1, -1, 0, 6), count = t.symbol_expr(u0);
    const int32_t x = t.input("x", DType::f32, {six});
    const int32_t w = t.constant<float>("w", DType::f32, {1, 2, 3, 4, 5, 6});
    const int32_t steps_done = t.constant<float>("steps_done", DType::f32, {0}, true);
    const int32_t w2 = t.buffer("w2", DType::f32, format::BufferRole::derived, {six});
    const int32_t y = t.temp("y", DType::f32, {six}), reversed = t.temp("reversed", DType::f32, {six}),
                  minus = t.temp("minus", DType::f32, {six}), n = t.temp("n", DType::i64, {}),
                  go = t.temp("go", DType::boolean, {}), found = t.temp("found", DType::i64, {count, one});
    const int32_t out = t.output("out", DType::f32, {six}), picked = t.output("picked", DType::f32, {count, one});
    t.plan.sites.push_back({"index out of range", "aten.take", "take_0", "model.py:3"});
    t.plan.init = {t.kernel("prepare", k_scale, {{w, Access::read}, {w2, Access::write}}, six, {t.number(10)})};
    format::Step negate = t.step(StepKind::custom, "my::negated"), find = t.step(StepKind::library, "lib_nonzero_0"),
                 cond = t.step(StepKind::cond, "cond_0"), loop = t.step(StepKind::while_loop, "while_0"),
                 bind = t.step(StepKind::bind_symbol, "bind_u1");
    const int32_t u1 = t.symbol("u1", SymbolSource::step, -1, -1, 0, 6), factor = t.symbol_expr(u1);
    negate.target = "my.negated.default", negate.outputs = {minus};
    negate.call_args = {{"a", format::ArgKind::buffer, {reversed}, 0, ""}};
    t.custom["my::negated"] = {"my::negated", negated, nullptr};
    find.target = "nonzero", find.outputs = {found}, find.defines = {u0};
    find.call_args = {{"self", format::ArgKind::buffer, {x}, 0, ""}};
    bind.args = {{n, Access::read}}, bind.defines = {u1};
    cond.args = {{go, Access::read}};
    cond.blocks = {{t.kernel("few", k_scale, {{minus, Access::read}, {out, Access::write}}, six, {factor})},
                   {t.kernel("many", k_scale, {{minus, Access::read}, {out, Access::write}}, six, {t.number(100)})}};
    loop.condition =
        t.expr({{TestPlan::Code::symbol, 2}, {TestPlan::Code::symbol, u1}, {TestPlan::Code::lt, 0}}, "i < u1");
    loop.iteration_symbol = t.symbol("i", SymbolSource::iteration);
    loop.blocks = {{}, {t.kernel("count_up", k_increment, {{steps_done, Access::update}}, one)}};
    format::Step reverse = t.kernel("reverse", k_reverse, {{y, Access::read}, {reversed, Access::write}}, one, {six});
    reverse.scratch = t.number(64);
    t.plan.steps = {
        t.kernel("scale", k_scale, {{x, Access::read}, {y, Access::write}}, six, {t.number(2)}),
        reverse,
        negate,
        t.kernel("count", k_count, {{x, Access::read}, {n, Access::write}, {go, Access::write}}, one, {six}),
        bind,
        cond,
        find,
        t.kernel("take", k_take, {{w2, Access::read}, {found, Access::read}, {picked, Access::write}}, count),
        loop};
    t.plan.steps[7].sites = {0};
    format::Output again;
    again.name = "again", again.buffer = out;
    t.plan.outputs.push_back(again);
    if (!apart) return;
    move_to_device(t.plan);
    t.device = ApartDevice::get();
  }
};

template <class T>
std::vector<T> values_of(const kiln_value& value, bool apart) {
  const DLTensor& tensor = *value.as.tensor;
  int64_t n = 1;
  for (int32_t d = 0; d < tensor.ndim; ++d) n *= tensor.shape[d];
  EXPECT_EQ(tensor.device.device_type, apart ? kDLCUDA : kDLCPU);
  const auto* data = reinterpret_cast<const T*>(apart ? ApartDevice::get()->values(tensor.data)
                                                      : static_cast<const std::byte*>(tensor.data));
  return {data, data + n};
}

struct Results {
  std::vector<std::vector<float>> outputs;
  std::vector<float> steps_done;
  bool operator==(const Results&) const = default;
};

Results run_everything(Instance& instance, bool apart, std::vector<float> x, std::vector<int64_t> strides = {}) {
  ApartTensor<float> there(DType::f32, {6}, x, strides);
  TestTensor<float> here(DType::f32, {6}, x, strides);
  kiln_value in = apart ? there.value() : here.value();
  std::vector<kiln_value> out(3);
  instance.run(&in, 1, out.data(), out.size());
  Results results;
  for (const kiln_value& value : out) results.outputs.push_back(values_of<float>(value, apart));
  free_outputs(out);
  TestTensor<float> state(DType::f32, {1}, {-1});
  instance.read_constant("steps_done", state.tensor);
  results.steps_done = state.values;
  return results;
}

TEST(Device, RunsAlikeOnMemoryThatTheHostCannotTouch) {
  Everything cpu(false), apart(true);
  Instance there(apart.t.build()), here(cpu.t.build());
  const ApartDevice& device = *ApartDevice::get();
  const int launches = device.launches;
  for (const std::vector<float>& x : {std::vector<float>{0, 1, 0, 2, 3, 0}, {1, 2, 3, 4, 5, 6}, {0, 0, 0, 0, 0, 0}})
    EXPECT_EQ(run_everything(there, true, x), run_everything(here, false, x));
  EXPECT_GE(device.launches - launches, 3 * 5);
  // Strides that the kernels do not take: the device copies.
  std::vector<float> wide(12, 7);
  EXPECT_EQ(run_everything(there, true, wide, {2}), run_everything(here, false, wide, {2}));
}

TEST(Device, CallersOutputsAndConstantsAreTheDevices) {
  Everything cpu(false), apart(true);
  auto model = apart.t.build();
  Instance there(model);
  ApartTensor<float> x(DType::f32, {6}, {1, 0, 2, 0, 3, 0}), out(DType::f32, {6}, std::vector<float>(12, 9), {2}),
      again(DType::f32, {6}, std::vector<float>(6));
  std::vector<kiln_value> outputs = {out.value(), {}, again.value()};
  kiln_value in = x.value();
  there.run(&in, 1, outputs.data(), outputs.size());
  // Every other element is the caller's own, and stays.
  EXPECT_EQ(out.now(), (std::vector<float>{0, 9, -18, 9, 0, 9, -12, 9, 0, 9, -6, 9}));
  EXPECT_EQ(again.now(), (std::vector<float>{0, -18, 0, -12, 0, -6}));
  EXPECT_EQ(values_of<float>(outputs[1], true), (std::vector<float>{10, 30, 50}));
  free_outputs(outputs);
  // Updates from the host and from the device, read back to either.
  TestTensor<float> w(DType::f32, {6}, {6, 5, 4, 3, 2, 1});
  model->weights().update({{0, model->copy_constant(0, w.tensor)}}, false);
  ApartTensor<float> back(DType::f32, {6}, std::vector<float>(6)), start(DType::f32, {1}, {5});
  there.read_constant("w", back.tensor);
  EXPECT_EQ(back.now(), w.values);
  there.write_constant("steps_done", start.tensor);
  Results results = run_everything(there, true, {1, 0, 2, 0, 3, 0});
  EXPECT_EQ(results.outputs[1], (std::vector<float>{60, 40, 20}));
  EXPECT_EQ(results.steps_done, (std::vector<float>{8}));
}

TEST(Device, TensorsOfAnotherDeviceAreRefused) {
  Everything apart(true), cpu(false);
  Instance there(apart.t.build()), here(cpu.t.build());
  TestTensor<float> host(DType::f32, {6}, std::vector<float>(6));
  ApartTensor<float> device(DType::f32, {6}, std::vector<float>(6));
  const auto refuse = [](Instance& instance, kiln_value in, kiln_value first) {
    std::vector<kiln_value> out = {first, {}, {}};
    return error_of([&] { instance.run(&in, 1, out.data(), out.size()); });
  };
  EXPECT_NE(refuse(there, host.value(), {}).find("unmatched device type, expected: 1(cuda), but got: 0(cpu)"),
            std::string::npos);
  EXPECT_NE(refuse(here, device.value(), {}).find("unmatched device type, expected: 0(cpu), but got: 1(cuda)"),
            std::string::npos);
  EXPECT_NE(refuse(there, device.value(), host.value()).find("unmatched device type, expected: 1(cuda)"),
            std::string::npos);
}

// A program for a GPU may have some of its inputs and outputs on the CPU: there they are given, and there they come
// back.
TEST(Device, WhatTheProgramHasOnTheHostStaysThere) {
  Everything cpu(false), apart(true);
  apart.t.plan.inputs[0].on_host = true;
  apart.t.plan.outputs[1].on_host = true;
  Instance here(cpu.t.build()), there(apart.t.build());
  const Results expected = run_everything(here, false, {1, 0, 2, 0, 3, 0});
  TestTensor<float> x(DType::f32, {6}, {1, 0, 2, 0, 3, 0});
  std::vector<kiln_value> outputs(3);
  kiln_value in = x.value();
  there.run(&in, 1, outputs.data(), outputs.size());
  EXPECT_EQ(outputs[1].as.tensor->device.device_type, kDLCPU);
  EXPECT_EQ(outputs[0].as.tensor->device.device_type, kDLCUDA);
  EXPECT_EQ(values_of<float>(outputs[0], true), expected.outputs[0]);
  EXPECT_EQ(values_of<float>(outputs[1], false), expected.outputs[1]);
  free_outputs(outputs);
  ApartTensor<float> device(DType::f32, {6}, std::vector<float>(6));
  in = device.value();
  EXPECT_NE(error_of([&] {
              there.run(&in, 1, outputs.data(), outputs.size());
            }).find("unmatched device type, expected: 0(cpu), but got: 1(cuda)"),
            std::string::npos);
}

// The kernel raises when the queue runs, which is later than its launch: the step is the right one all the same.
TEST(Device, ErrorsNameTheStepThatRaised) {
  Everything apart(true);
  for (format::Step& step : apart.t.plan.steps)
    if (step.name == "take") step.args[1].buffer = step.args[0].buffer;  // floats, read as indices
  Instance there(apart.t.build());
  const std::string text = error_of([&] { run_everything(there, true, {1, 1, 1, 1, 1, 1}); });
  for (const char* part : {"K0630", "index out of range", "model.py:3", "step take"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

// A kernel raises, and a step of the host that waits for it is the first to know. The next call finds nothing of that.
TEST(Device, ACallAfterOneThatFailedIsLikeTheFirst) {
  Everything apart(true), cpu(false);
  format::Step refuse = apart.t.kernel("refuse", k_refuse, {{0, Access::read}}, apart.t.number(1));
  refuse.sites = {0}, refuse.device = DeviceType::cuda;
  apart.t.plan.steps.insert(apart.t.plan.steps.begin() + 2, refuse);  // before the custom operator
  Instance there(apart.t.build()), here(cpu.t.build());
  EXPECT_NE(error_of([&] { run_everything(there, true, {99, 1, 1, 1, 1, 1}); }).find("step refuse"), std::string::npos);
  EXPECT_EQ(run_everything(there, true, {0, 1, 0, 2, 3, 0}), run_everything(here, false, {0, 1, 0, 2, 3, 0}));
}

TEST(Device, TensorsOfTheHostAreCopiedWhereThatIsAskedFor) {
  Everything apart(true), cpu(false);
  apart.t.options.host_tensors = true;
  Instance there(apart.t.build()), here(cpu.t.build());
  const std::vector<float> x = {0, 1, 0, 2, 3, 0};
  EXPECT_EQ(run_everything(there, false, x), run_everything(here, false, x));  // results are the host's too
  std::vector<float> wide(12, 7);
  EXPECT_EQ(run_everything(there, false, wide, {2}), run_everything(here, false, wide, {2}));
  // The caller's memory.
  TestTensor<float> in(DType::f32, {6}, x), mine(DType::f32, {6}, std::vector<float>(6, -1));
  kiln_value given = in.value();
  std::vector<kiln_value> out = {mine.value(), {}, {}};
  there.run(&given, 1, out.data(), out.size());
  EXPECT_EQ(mine.values, values_of<float>(out[2], false));
  out[0] = {};
  free_outputs(out);
}

// ---- Who watches
// -------------------------------------------------------------------------------------------------------

struct Lines {
  std::string text;
  static void add(void* user, kiln_log_level, const char* message) {
    static_cast<Lines*>(user)->text += str(message, "\n");
  }
};

std::string watched(bool apart, const std::function<void(DebugOptions&)>& set,
                    std::vector<float> x = {0, 1, 0, 2, 3, 0}) {
  Everything everything(apart);
  Lines lines;
  everything.t.options.log = {Lines::add, &lines};
  set(everything.t.options.debug);
  const std::string error = error_of([&] {
    Instance instance(everything.t.build());
    run_everything(instance, apart, x);
  });
  return replace_all(lines.text + error, "cuda:0", "cpu");
}

TEST(Device, PrinterPrintsTheSame) {
  for (const std::vector<std::string>& style : {std::vector<std::string>{}, {"table"}, {"json", "init"}, {"written"}}) {
    const auto set = [&](DebugOptions& debug) { debug.printer_mode = 2, debug.printer_style = style; };
    const std::string text = watched(true, set);
    EXPECT_EQ(text, watched(false, set));
    for (const char* part : {"scale", "reverse", "my::negated", "lib_nonzero_0", "take", "count_up", "few"})
      EXPECT_NE(text.find(part), std::string::npos) << part;
  }
  // Names alone need no values.
  const int copies = ApartDevice::get()->copies_out;
  watched(true, [](DebugOptions& debug) { debug.printer_filter = {"scale"}, debug.printer_mode = 3; });
  const int names = ApartDevice::get()->copies_out - copies;
  watched(true, [](DebugOptions& debug) { debug.printer_filter = {"scale"}, debug.printer_mode = 2; });
  EXPECT_GT(ApartDevice::get()->copies_out - copies - names, names);
}

std::map<std::string, std::string> files_in(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      files[replace_all(entry.path().lexically_relative(folder).string(), "cuda:0", "cpu")] =
          read_file(entry.path().string());
  return files;
}

TEST(Device, SaverSavesTheSame) {
  TemporaryDirectory here, there;
  watched(false, [&](DebugOptions& debug) { debug.printer_mode = 1, debug.save_dir = here.path(); });
  watched(true, [&](DebugOptions& debug) { debug.printer_mode = 1, debug.save_dir = there.path(); });
  const auto want = files_in(here.path()), have = files_in(there.path());
  EXPECT_GT(want.size(), 20u);
  EXPECT_EQ(want, have);
  EXPECT_TRUE(file_exists(join_path(there.path(), "after_launch_scale_y_cuda:0.pt")));
}

TEST(Device, NanAssertsFindTheSame) {
  const auto set = [](DebugOptions& debug) { debug.nan_asserts = true; };
  EXPECT_EQ(watched(true, set), "");
  const std::string text = watched(true, set, {0, 1, NAN, 2, 3, 0});
  EXPECT_EQ(text, watched(false, set, {0, 1, NAN, 2, 3, 0}));
  EXPECT_NE(text.find("NaN"), std::string::npos) << text;
}

TEST(Device, FaultBundlesHoldTheValues) {
  std::map<std::string, std::string> bundles[2];
  for (bool apart : {false, true}) {
    TemporaryDirectory folder;
    Everything everything(apart);
    for (format::Step& step : everything.t.plan.steps)
      if (step.name == "take") step.args[1].buffer = step.args[0].buffer;
    Lines lines;
    everything.t.options.log = {Lines::add, &lines};
    everything.t.options.debug.fault_dir = folder.path();
    Instance instance(everything.t.build());
    error_of([&] { run_everything(instance, apart, {1, 1, 1, 1, 1, 1}); });
    const auto files = files_in(folder.path());
    ASSERT_EQ(files.size(), 1u) << lines.text;
    const ZipReader zip(as_bytes(files.begin()->second), "bundle");
    for (const ZipEntry& entry : zip.entries())
      if (ends_with(entry.name, "fault.json") || ends_with(entry.name, ".pt")) {
        std::string text = replace_all(std::string(as_text(zip.stored(entry))), "cuda:0", "cpu");
        // What the kernel was about to write holds what somebody left there.
        if (const size_t unwritten = text.find("{\"name\": \"picked\""); unwritten != std::string::npos)
          text.resize(unwritten);
        bundles[apart][entry.name] = text;
      }
  }
  EXPECT_EQ(bundles[0].size(), 2u);
  EXPECT_EQ(bundles[0], bundles[1]);
}

// A hook looks through `host`; what it writes there in a step's place is the step's result.
TEST(Device, HooksReadAndReplaceThroughTheHost) {
  Everything apart(true);
  Instance instance(apart.t.build());
  std::set<std::string> seen;
  const auto hook = [](void* user, kiln_hook_when when, const kiln_step* step) {
    static_cast<std::set<std::string>*>(user)->insert(step->name);
    if (when == KILN_AFTER_STEP || std::string_view(step->name) != "scale") return KILN_HOOK_CONTINUE;
    const DLTensor *x = step->host(step->host_context, 0), *y = step->host(step->host_context, 1);
    EXPECT_EQ(step->args[0].tensor.device.device_type, kDLCUDA);
    EXPECT_EQ(x->device.device_type, kDLCPU);
    EXPECT_EQ(step->host(step->host_context, 99), nullptr);
    for (int64_t i = 0; i < 6; ++i) static_cast<float*>(y->data)[i] = static_cast<const float*>(x->data)[i] + 1;
    return KILN_HOOK_REPLACE;
  };
  instance.set_hook(hook, &seen);
  EXPECT_EQ(run_everything(instance, true, {1, 0, 2, 0, 3, 0}).outputs[0],
            (std::vector<float>{-3, -12, -3, -9, -3, -6}));
  EXPECT_GE(seen.size(), 7u);
}

// A whole package, its code compiled, with every watcher at once.
TEST(Device, PackagesLoadForTheDeviceTheyWereCompiledFor) {
  MlpPackage package;
  package.kernels = compile_shared_object(mlp_source);
  if (package.kernels.empty()) GTEST_SKIP() << "no C++ compiler";
  move_to_device(package.plan);
  const std::string bytes = package.bytes();
  Log log;
  const auto load = [&](std::shared_ptr<const Device> device) {
    PackageSource source;
    source.bytes = as_bytes(bytes), source.label = "mlp", source.device = std::move(device);
    return load_package(source, {}, system_allocator(), log, processor_features());
  };
  EXPECT_NE(
      error_of([&] { load(cpu_device()); }).find("was compiled for 1(cuda), and this runtime loads it for 0(cpu)"),
      std::string::npos);
  Lines lines;
  ModelOptions options;
  options.log = {Lines::add, &lines};
  options.debug.nan_asserts = true, options.debug.printer_mode = 2;
  Instance instance(std::make_shared<Model>(load(ApartDevice::get()), options));
  std::vector<float> x;
  for (int i = 0; i < 30; ++i) x.push_back(static_cast<float>(i % 7) - 3);
  ApartTensor<float> input(DType::f32, {3, 10}, x);
  kiln_value in = input.value(), out{};
  instance.run(&in, 1, &out, 1);
  EXPECT_EQ(values_of<float>(out, true), package.expected(x));
  out.owner->deleter(out.owner);
  EXPECT_NE(lines.text.find("cpp_linear_2"), std::string::npos);
}

TEST(Device, PlansThatMixDevicesAreRefused) {
  Everything kernel(true), buffer(false), library(true);
  buffer.t.plan.buffers[static_cast<size_t>(buffer.t.plan.inputs[0].buffer)].device = DeviceType::cuda;
  EXPECT_NE(error_of([&] { buffer.t.build(); }).find("K0503"), std::string::npos);  // its kernels are the host's
  for (format::Step& step : library.t.plan.steps)
    if (step.kind == StepKind::library) step.device = DeviceType::cuda;
  EXPECT_NE(error_of([&] { library.t.build(); }).find("K0527"), std::string::npos);
  kernel.t.plan.device = DeviceType::cpu;
  EXPECT_NE(error_of([&] { kernel.t.build(); }).find("K0527"), std::string::npos);
}

}  // namespace
}  // namespace kiln::runtime::device_tests
