// Runs on a GPU beside each other: graphs, streams, weights that change, several GPUs. With the driver's stand-in
// (runs_test.sh), which runs everything as late as it may; the same program runs on a GPU.
//
// KILN_GPU_PACKAGES: the folder of the packages that runs_test.sh has compiled.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <optional>
#include <thread>

#include "gpu_memory.h"
#include "kiln/kiln.hpp"

namespace {
using namespace kiln_test;

std::string package(const char* name) { return std::string(std::getenv("KILN_GPU_PACKAGES")) + "/" + name + ".pt2"; }

kiln::Model load(const char* name, std::vector<std::string> settings = {}, int gpu = 0) {
  kiln::LoadOptions options;
  options.settings = std::move(settings);
  options.device_index = gpu;
  return kiln::Model(package(name), options);
}

std::vector<float> input(size_t rows, size_t seed) {
  std::vector<float> out(rows * 10);
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>((i * 7 + seed * 13) % 23) / 8 - 1.2f;
  return out;
}

// What the MLP gives on the CPU, with its weights multiplied.
class Expected {
 public:
  explicit Expected(float factor = 1) : model_(package("mlp.cpu")), instance_(model_) {
    if (factor != 1) scale(model_, instance_, factor);
  }
  std::vector<float> operator()(const std::vector<float>& x) {
    std::vector<float> copy = x;
    kiln::Outputs out = instance_.run_by_name({{"x", kiln::tensor(copy, {static_cast<int64_t>(x.size() / 10), 10})}});
    const kiln::Span<float> y = out[0].elements<float>();
    return {y.begin(), y.end()};
  }
  static std::vector<float> scaled(kiln::Instance& instance, float factor) {
    std::vector<float> weight(160);
    const kiln::Value to = kiln::tensor(weight, {16, 10});
    instance.read_constant("fc1.weight", *to.raw().as.tensor);
    for (float& w : weight) w *= factor;
    return weight;
  }
  static void scale(kiln::Model& model, kiln::Instance& instance, float factor, uint32_t flags = 0) {
    std::vector<float> weight = scaled(instance, factor);
    const kiln::Value value = kiln::tensor(weight, {16, 10});
    const char* name = "fc1.weight";
    const DLTensor* tensor = value.raw().as.tensor;
    ASSERT_EQ(kiln_constants_update(model.handle(), &name, &tensor, 1, flags), KILN_OK) << kiln_last_error();
  }

 private:
  kiln::Model model_;
  kiln::Instance instance_;
};

bool near(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::fabs(a[i] - b[i]) < 1e-5f)) return false;
  return true;
}

kiln_status run_on(kiln::Instance& instance, GpuTensor& x, GpuTensor& y, void* stream = nullptr, int32_t wait = 0) {
  kiln_value in = x.value(), out = y.value();
  kiln_run_options options{sizeof(kiln_run_options), stream, wait, 0, 0};
  return kiln_run_with(instance.handle(), &in, 1, &out, 1, &options);
}

TEST(GpuRuns, StretchesAreReplayed) {
  if (!is_stand_in()) GTEST_SKIP() << "counts are the stand-in's";
  kiln::Model model = load("mlp.cuda");
  kiln::Instance instance(model);
  const std::vector<float> values = input(8, 1);
  GpuTensor x({8, 10}, values), y({8, 1}), elsewhere({8, 10}, values);
  const std::vector<float> expected = Expected()(values);
  ASSERT_EQ(run_on(instance, x, y), KILN_OK) << kiln_last_error();
  const kiln_stand_in_counts first = counts();
  for (int i = 0; i < 4; ++i) {
    y.write(std::vector<float>(8, -1));
    ASSERT_EQ(run_on(instance, x, y), KILN_OK) << kiln_last_error();
    EXPECT_TRUE(near(y.read(), expected)) << i;
  }
  const kiln_stand_in_counts then = counts();
  EXPECT_EQ(then.launches, first.launches) << "kernels were launched one by one";
  EXPECT_EQ(then.graphs, first.graphs + 1);
  EXPECT_EQ(then.replays, first.replays + 4);
  EXPECT_EQ(then.changed_nodes, first.changed_nodes);
  // Another address: the graph stays, the kernel that reads it is changed.
  elsewhere.write(input(8, 2));
  ASSERT_EQ(run_on(instance, elsewhere, y), KILN_OK) << kiln_last_error();
  EXPECT_TRUE(near(y.read(), Expected()(input(8, 2))));
  EXPECT_EQ(counts().graphs, then.graphs);
  EXPECT_EQ(counts().changed_nodes, then.changed_nodes + 1);
}

// A step of the host makes its results whole: nothing of them is brought from the GPU first.
TEST(GpuRuns, ResultsOfHostStepsAreNotBroughtToTheHost) {
  if (!is_stand_in()) GTEST_SKIP() << "counts are the stand-in's";
  kiln::Model model = load("topk.cuda");
  kiln::Instance instance(model);
  GpuTensor x({5, 9}, std::vector<float>(45, 1)), y({3, 9}, std::vector<float>(27, 2));
  const kiln_stand_in_counts before = counts();
  kiln_value in[2] = {x.value(), y.value()}, out[4] = {};
  ASSERT_EQ(kiln_run(instance.handle(), in, 2, out, 4), KILN_OK) << kiln_last_error();
  EXPECT_EQ(counts().empty_copies, before.empty_copies);
  EXPECT_EQ(GpuTensor::read_floats(*out[0].as.tensor), std::vector<float>(15, 1));
  for (kiln_value& value : out) kiln_value_clear(&value);
}

TEST(GpuRuns, GraphsCanBeTurnedOff) {
  if (!is_stand_in()) GTEST_SKIP() << "counts are the stand-in's";
  kiln::Model model = load("mlp.cuda", {"triton.cudagraphs=0"});
  kiln::Instance instance(model);
  GpuTensor x({8, 10}, input(8, 1)), y({8, 1});
  const kiln_stand_in_counts before = counts();
  for (int i = 0; i < 4; ++i) ASSERT_EQ(run_on(instance, x, y), KILN_OK) << kiln_last_error();
  EXPECT_EQ(counts().replays, before.replays);
  EXPECT_GT(counts().launches, before.launches);
}

TEST(GpuRuns, SizesThatComeAgainHaveGraphsOfTheirOwn) {
  kiln::Model model = load("mlp.cuda");
  kiln::Instance instance(model);
  Expected expected;
  for (int round = 0; round < 4; ++round)
    for (int64_t rows : {1, 5, 8, 300, 17, 2, 3, 4, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20}) {
      const std::vector<float> values = input(static_cast<size_t>(rows), static_cast<size_t>(round));
      GpuTensor x({rows, 10}, values), y({rows, 1});
      ASSERT_EQ(run_on(instance, x, y), KILN_OK) << kiln_last_error();
      EXPECT_TRUE(near(y.read(), expected(values))) << rows << " rows, round " << round;
    }
}

TEST(GpuRuns, EightThreadsWithChangingAddressesAndWeights) {
  kiln::Model model = load("mlp.cuda");
  kiln::Instance shared(model);
  Expected plain, doubled(2);
  Expected::scale(model, shared, 2, KILN_UPDATE_INACTIVE);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, failed{0}, with_plain{0}, with_doubled{0};
  std::vector<std::vector<float>> xs, results, other_results;
  for (size_t k = 0; k < 6; ++k) {
    xs.push_back(input(8 + k % 2, k));
    results.push_back(plain(xs[k]));
    other_results.push_back(doubled(xs[k]));
  }
  const auto work = [&](size_t thread) {
    kiln::Instance own(model);
    kiln::Instance& instance = thread % 2 ? own : shared;
    GpuStream stream;
    std::vector<std::unique_ptr<GpuTensor>> in, out;
    for (const auto& x : xs) {
      const auto rows = static_cast<int64_t>(x.size() / 10);
      in.push_back(std::make_unique<GpuTensor>(std::vector<int64_t>{rows, 10}, x));
      out.push_back(std::make_unique<GpuTensor>(std::vector<int64_t>{rows, 1}));
    }
    for (size_t i = 0; i < 120; ++i) {
      const size_t k = (i * 5 + thread) % xs.size();
      const size_t to = k % 2 == 0 ? (i / 7) % 3 * 2 : (i / 5) % 3 * 2 + 1;  // an output of the same size
      if (run_on(instance, *in[k], *out[to], i % 3 == 0 ? nullptr : stream.get()) != KILN_OK) ++failed;
      stream.wait();
      const std::vector<float> got = out[to]->read();
      if (near(got, results[k]))
        ++with_plain;
      else if (near(got, other_results[k]))
        ++with_doubled;
      else
        ++wrong;
    }
  };
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 8; ++t) threads.emplace_back(work, t);
  std::thread swapper([&] {
    while (!stop) {
      EXPECT_EQ(kiln_constants_swap(model.handle()), KILN_OK) << kiln_last_error();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  for (std::thread& thread : threads) thread.join();
  stop = true;
  swapper.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(with_plain, 0);
  EXPECT_GT(with_doubled, 0);
}

TEST(GpuRuns, WorkOfTheCallersStreamComesFirst) {
  kiln::Model model = load("mlp.cuda");
  kiln::Instance instance(model);
  Expected expected;
  GpuStream stream;
  GpuTensor x({8, 10}), y({8, 1});
  for (size_t i = 0; i < 5; ++i) {
    const Pinned values(input(8, i));
    values.copy_to(x, stream.get());  // not there yet
    ASSERT_EQ(run_on(instance, x, y, stream.get()), KILN_OK) << kiln_last_error();
    stream.wait();
    EXPECT_TRUE(near(y.read(), expected(input(8, i)))) << i;
  }
}

TEST(GpuRuns, CallsOnTwoStreamsDoNotDisturbEachOther) {
  kiln::Model model = load("mlp.cuda");
  kiln::Instance instance(model);
  Expected expected;
  GpuStream streams[2];
  GpuTensor x0({8, 10}, input(8, 0)), x1({8, 10}, input(8, 1)), y0({8, 1}), y1({8, 1});
  for (int i = 0; i < 4; ++i) {
    // One after the other the same run, with the same temporary memory.
    ASSERT_EQ(run_on(instance, x0, y0, streams[0].get()), KILN_OK) << kiln_last_error();
    ASSERT_EQ(run_on(instance, x1, y1, streams[1].get()), KILN_OK) << kiln_last_error();
    streams[1].wait(), streams[0].wait();
    EXPECT_TRUE(near(y0.read(), expected(input(8, 0)))) << i;
    EXPECT_TRUE(near(y1.read(), expected(input(8, 1)))) << i;
  }
}

// The default stream's event is recorded when another stream has to wait for it, and not before.
TEST(GpuRuns, ACallOnAStreamComesAfterThoseOnTheDefaultOne) {
  kiln::Model model = load("mlp.cuda");
  kiln::Instance instance(model);
  Expected expected;
  void* const legacy = reinterpret_cast<void*>(1);
  GpuTensor x0({8, 10}), x1({8, 10}, input(8, 1)), y0({8, 1}), y1({8, 1});
  for (void* first : {static_cast<void*>(nullptr), legacy}) {
    GpuStream stream;
    for (size_t i = 0; i < 4; ++i) {
      const Pinned values(input(8, i));
      values.copy_to(x0, nullptr);  // not there yet
      const long events = is_stand_in() ? counts().events : 0;
      ASSERT_EQ(run_on(instance, x0, y0, first, -1), KILN_OK) << kiln_last_error();
      ASSERT_EQ(run_on(instance, x0, y0, first, -1), KILN_OK) << kiln_last_error();
      if (is_stand_in() && i > 0) {
        EXPECT_EQ(counts().events, events) << "an event that nobody waits for";
      }
      ASSERT_EQ(run_on(instance, x1, y1, stream.get()), KILN_OK) << kiln_last_error();
      stream.wait();
      EXPECT_TRUE(near(y1.read(), expected(input(8, 1)))) << i;
      EXPECT_TRUE(near(y0.read(), expected(input(8, i)))) << i;
    }
  }
}

// By its name the default stream is a stream as others are: a call returns before its results are there.
TEST(GpuRuns, TheDefaultStreamByItsNameIsNotWaitedFor) {
  if (!is_stand_in()) GTEST_SKIP() << "the stand-in runs nothing before somebody waits";
  kiln::Model model = load("mlp.cuda");
  kiln::Instance instance(model);
  GpuTensor x({8, 10}, input(8, 1)), y({8, 1}, std::vector<float>(8, -1));
  for (int i = 0; i < 3; ++i) {
    const long runs = counts().kernels_run;
    ASSERT_EQ(run_on(instance, x, y, reinterpret_cast<void*>(1), 0), KILN_OK) << kiln_last_error();
    EXPECT_EQ(counts().kernels_run, runs);
    EXPECT_TRUE(near(y.read(), Expected()(input(8, 1))));
    EXPECT_GT(counts().kernels_run, runs);
  }
}

TEST(GpuRuns, OutputsOfKilnOnAStream) {
  kiln::Model model = load("mlp.cuda");
  kiln::Instance instance(model);
  Expected expected;
  GpuStream stream;
  GpuTensor x0({8, 10}, input(8, 0)), x1({8, 10}, input(8, 1));
  for (int i = 0; i < 4; ++i) {
    kiln_value in[2] = {x0.value(), x1.value()}, out[2] = {};
    kiln_run_options options{sizeof(kiln_run_options), stream.get(), 0, 0, 0};
    for (int k = 0; k < 2; ++k)
      ASSERT_EQ(kiln_run_with(instance.handle(), &in[k], 1, &out[k], 1, &options), KILN_OK) << kiln_last_error();
    stream.wait();
    for (size_t k = 0; k < 2; ++k) {
      EXPECT_TRUE(near(GpuTensor::read_floats(*out[k].as.tensor), expected(input(8, k)))) << i;
      kiln_value_clear(&out[k]);
    }
  }
}

TEST(GpuRuns, AnInstancesBuffersOnTwoStreams) {
  kiln::Model model = load("counter.cuda");
  kiln::Instance instance(model);
  GpuStream streams[2];
  const size_t n = model.input_count(), m = model.output_count();
  ASSERT_EQ(n, 1u);
  std::vector<int64_t> sizes;
  for (int32_t d = 0; d < model.input(0).rank; ++d) sizes.push_back(std::max<int64_t>(model.input(0).sizes[d], 2));
  size_t elements = 1;
  for (int64_t size : sizes) elements *= static_cast<size_t>(size);
  GpuTensor x(sizes, std::vector<float>(elements, 1.0f));
  // The same calls on a second instance, each waited for.
  kiln::Instance other(model);
  const auto call = [&](kiln::Instance& on, void* stream, int32_t wait) {
    std::vector<kiln_value> out(m);
    kiln_value in = x.value();
    kiln_run_options options{sizeof(kiln_run_options), stream, wait, 0, 0};
    EXPECT_EQ(kiln_run_with(on.handle(), &in, 1, out.data(), m, &options), KILN_OK) << kiln_last_error();
    return out;
  };
  for (int i = 0; i < 6; ++i) {
    std::vector<kiln_value> got = call(instance, streams[i % 2].get(), -1), wanted = call(other, nullptr, 1);
    if (i % 3 == 2) {
      streams[i % 2].wait();
      for (size_t o = 0; o < m; ++o) {
        if (got[o].kind != KILN_TENSOR || got[o].as.tensor->dtype.code != kDLFloat) continue;
        EXPECT_TRUE(near(GpuTensor::read_floats(*got[o].as.tensor), GpuTensor::read_floats(*wanted[o].as.tensor))) << i;
      }
    }
    for (auto* list : {&got, &wanted})
      for (kiln_value& value : *list) kiln_value_clear(&value);
  }
}

TEST(GpuRuns, TwoGpusInOneProcess) {
  if (!is_stand_in()) GTEST_SKIP() << "of the stand-in there are two";
  kiln::Model models[2] = {load("mlp.cuda", {}, 0), load("mlp.cuda", {}, 1)};
  Expected expected;
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int gpu = 0; gpu < 2; ++gpu)
    threads.emplace_back([&, gpu] {
      kiln::Instance instance(models[gpu]);
      const std::vector<float> values = input(8, static_cast<size_t>(gpu));
      GpuStream stream(false, gpu);
      GpuTensor x({8, 10}, values, gpu), y({8, 1}, DLDataType{kDLFloat, 32, 1}, gpu);
      for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(run_on(instance, x, y, stream.get()), KILN_OK) << kiln_last_error();
        stream.wait();
        static std::mutex one_cpu;
        const std::lock_guard lock(one_cpu);
        right += near(y.read(), expected(values));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 10);
  // A tensor of the other GPU is refused.
  kiln::Instance second(models[1]);
  GpuTensor x({8, 10}, input(8, 0), 0), y({8, 1}, DLDataType{kDLFloat, 32, 1}, 1);
  EXPECT_EQ(run_on(second, x, y), KILN_ERROR_INPUT);
  EXPECT_NE(std::string(kiln_last_error()).find("cuda:1"), std::string::npos) << kiln_last_error();
}

TEST(GpuRuns, NumbersOfTheHostAreTaken) {
  // As PyTorch takes a tensor of the host without dimensions beside those of a GPU.
  kiln::Model model = load("scaled.cuda");
  kiln::Instance instance(model);
  GpuTensor x({3}, std::vector<float>{1, 2, 3}), y({3});
  float factor = 2.5f;
  DLTensor number{};
  number.data = &factor, number.device = {kDLCPU, 0}, number.dtype = {kDLFloat, 32, 1};
  kiln_value in[2] = {x.value(), {}}, out = y.value();
  in[1].kind = KILN_TENSOR, in[1].as.tensor = &number;
  for (int i = 0; i < 3; ++i) {
    factor = 2.5f + static_cast<float>(i);
    ASSERT_EQ(kiln_run(instance.handle(), in, 2, &out, 1), KILN_OK) << kiln_last_error();
    EXPECT_TRUE(near(y.read(), {factor, 2 * factor, 3 * factor})) << i;
  }
}

TEST(GpuRuns, WeightsComeAfterLoading) {
  kiln::Model model = load("bare.cuda");
  kiln::Instance instance(model);
  GpuTensor x({8, 10}, input(8, 1)), y({8, 1});
  EXPECT_NE(run_on(instance, x, y), KILN_OK);
  EXPECT_STREQ(kiln_last_error_code(), "K0720") << kiln_last_error();
  kiln::Model whole(package("mlp.cpu"));
  kiln::Instance of_whole(whole);
  for (const auto& [name, sizes] : std::vector<std::pair<const char*, std::vector<int64_t>>>{
           {"fc1.weight", {16, 10}}, {"fc1.bias", {16}}, {"fc2.weight", {1, 16}}, {"fc2.bias", {1}}}) {
    size_t count = 1;
    for (int64_t size : sizes) count *= static_cast<size_t>(size);
    std::vector<float> values(count);
    const kiln::Value to = kiln::tensor(values, sizes);
    of_whole.read_constant(name, *to.raw().as.tensor);
    GpuTensor there(sizes, values);  // from memory of the GPU
    const DLTensor* tensor = &there.tensor();
    ASSERT_EQ(kiln_constants_update(model.handle(), &name, &tensor, 1, 0), KILN_OK) << kiln_last_error();
  }
  ASSERT_EQ(run_on(instance, x, y), KILN_OK) << kiln_last_error();
  EXPECT_TRUE(near(y.read(), Expected()(input(8, 1))));
}

TEST(GpuRuns, AnErrorThatNobodyWaitedForComesLater) {
  kiln::Model model = load("embedding.cuda");
  kiln::Instance instance(model);
  GpuStream stream;
  std::vector<int64_t> sizes;
  size_t count = 1;
  for (int32_t d = 0; d < model.input(0).rank; ++d) {
    sizes.push_back(std::max<int64_t>(model.input(0).sizes[d], 2));
    count *= static_cast<size_t>(sizes.back());
  }
  GpuTensor ids(sizes, DLDataType{kDLInt, 64, 1});
  const auto fill = [&](int64_t value) {
    std::vector<float> bytes(2 * count);
    for (size_t i = 0; i < count; ++i) std::memcpy(&bytes[2 * i], &value, sizeof value);
    ids.write(bytes);
  };
  const auto call = [&](int32_t wait) {
    std::vector<kiln_value> out(model.output_count());
    kiln_value in = ids.value();
    kiln_run_options options{sizeof(kiln_run_options), stream.get(), wait, 0, 0};
    const kiln_status status = kiln_run_with(instance.handle(), &in, 1, out.data(), out.size(), &options);
    for (kiln_value& value : out) kiln_value_clear(&value);
    return status;
  };
  fill(0);
  EXPECT_EQ(call(0), KILN_OK) << kiln_last_error();
  fill(1000000);
  EXPECT_EQ(call(0), KILN_ERROR_RUN) << "a call that can raise is waited for";
  EXPECT_EQ(call(-1), KILN_OK) << kiln_last_error();
  stream.wait();
  fill(0);
  EXPECT_EQ(call(-1), KILN_ERROR_RUN);
  EXPECT_NE(std::string(kiln_last_error()).find("in an earlier call"), std::string::npos) << kiln_last_error();
  EXPECT_EQ(call(0), KILN_OK) << kiln_last_error();
}

// What kernels take for granted of sizes is known before one of them is launched.
TEST(GpuRuns, SizesAreRefusedBeforeKernelsTakeThemForGranted) {
  kiln::Model model = load("edge.cuda"), other = load("edge.cpu");
  kiln::Instance instance(model), on_cpu(other);
  GpuStream stream;
  const auto call = [&](GpuTensor& x, kiln_value& out) {
    kiln_value in = x.value();
    kiln_run_options options{sizeof(kiln_run_options), stream.get(), 0, 0, 0};
    return kiln_run_with(instance.handle(), &in, 1, &out, 1, &options);
  };
  for (int round = 0; round < 4; ++round) {
    GpuTensor nothing({0, 2}), five({5, 2}, std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    kiln_value out{};
    const long run = is_stand_in() ? counts().kernels_run : 0;
    EXPECT_EQ(call(nothing, out), KILN_ERROR_RUN);
    EXPECT_STREQ(kiln_last_error_code(), "K0631") << kiln_last_error();
    EXPECT_NE(std::string(kiln_last_error()).find("Expected input to have non-zero size"), std::string::npos)
        << kiln_last_error();
    stream.wait();
    // The sum before it may run: it adds up nothing.
    if (is_stand_in()) {
      EXPECT_LE(counts().kernels_run, run + 1) << "kernels behind what was refused have run";
    }
    const kiln_stand_in_counts before = is_stand_in() ? counts() : kiln_stand_in_counts{};
    ASSERT_EQ(call(five, out), KILN_OK) << kiln_last_error();
    stream.wait();
    if (is_stand_in() && round == 3) {
      EXPECT_EQ(counts().launches, before.launches) << "what is asserted has cut the graph in two";
      EXPECT_EQ(counts().replays, before.replays + 1);
    }
    std::vector<float> values{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    kiln::Outputs expected = on_cpu.run_by_name({{"x", kiln::tensor(values, {5, 2})}});
    const kiln::Span<float> y = expected[0].elements<float>();
    EXPECT_TRUE(near(GpuTensor::read_floats(*out.as.tensor), {y.begin(), y.end()})) << round;
    kiln_value_clear(&out);
  }
}

TEST(GpuRuns, WithoutMemoryTheProcessGoesOn) {
  kiln::Model model = load("scaled.cuda");
  kiln::Instance instance(model);
  GpuTensor small({16}, std::vector<float>(16, 1)), two({}, std::vector<float>{2});
  // More than there is: the input is a view that repeats itself in the caller's strides; the output would be whole.
  int64_t size = int64_t{1} << 40, stride = 0;
  DLTensor huge = small.tensor();
  huge.shape = &size, huge.strides = &stride;
  kiln_value in[2] = {{}, two.value()}, out{};
  in[0].kind = KILN_TENSOR, in[0].as.tensor = &huge;
  EXPECT_EQ(kiln_run(instance.handle(), in, 2, &out, 1), KILN_ERROR_MEMORY) << kiln_last_error();
  EXPECT_STREQ(kiln_last_error_code(), "K0650");
  in[0] = small.value();
  ASSERT_EQ(kiln_run(instance.handle(), in, 2, &out, 1), KILN_OK) << kiln_last_error();
  EXPECT_TRUE(near(GpuTensor::read_floats(*out.as.tensor), std::vector<float>(16, 2)));
  kiln_value_clear(&out);
}

}  // namespace
