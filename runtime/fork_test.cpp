// Child processes of a process that is in the midst of calls: whatever other threads held, the child can call.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <future>
#include <thread>

#include "runtime/test_plan.h"

namespace kiln::runtime {
namespace {

int32_t fork_test_add_one(const kiln_kernel_context*, void* const* b, const int64_t*, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) static_cast<float*>(b[1])[i] = static_cast<const float*>(b[0])[i] + 1;
  return 0;
}
int32_t fork_test_count(const kiln_kernel_context*, void* const* b, const int64_t*, int64_t, int64_t) {
  static_cast<float*>(b[0])[0] += 1;
  static_cast<float*>(b[1])[0] = static_cast<float*>(b[0])[0];
  return 0;
}
std::promise<void> kernel_begun;
std::shared_future<void> kernel_may_end;
std::atomic<bool> kernel_waits{false};
int32_t fork_test_wait(const kiln_kernel_context* context, void* const* b, const int64_t* n, int64_t i, int64_t end) {
  if (kernel_waits.exchange(false)) {
    kernel_begun.set_value();
    kernel_may_end.wait();
  }
  return fork_test_count(context, b, n, i, end);
}
void begin_to_wait(std::promise<void>& enough) {
  kernel_begun = {};
  kernel_may_end = enough.get_future().share();
  kernel_waits = true;
}

// Whether the work is done, and gives true, in a child process.
bool done_in_fork(const std::function<bool()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(work() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool adds_one(Instance& instance, int64_t size) {
  TestTensor<float> x(DType::f32, {size}, std::vector<float>(static_cast<size_t>(size), 0.5f));
  kiln_value in = x.value(), out{};
  instance.run(&in, 1, &out, 1);
  const bool right = elements<float>(out) == std::vector<float>(static_cast<size_t>(size), 1.5f);
  out.owner->deleter(out.owner);
  return right;
}
float count_of(Instance& instance) {
  kiln_value out{};
  instance.run(nullptr, 0, &out, 1);
  const float value = elements<float>(out)[0];
  out.owner->deleter(out.owner);
  return value;
}

// Sizes that come anew are bound under a lock, kernels take threads of the pool, and weights change all the while.
TEST(Fork, AChildCallsWhileOtherThreadsBindSizesAndUpdateWeights) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer allows no threads in a forked child";
#elif defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer's allocator may be locked in a forked child (glibc's is not)";
#endif
  TestPlan t;
  const int32_t size = t.symbol_expr(t.symbol("s0", format::SymbolSource::input_size, 0, 0, 1, 4000));
  const int32_t x = t.input("x", DType::f32, {size}), y = t.output("y", DType::f32, {size});
  t.plan.steps = {t.kernel("add_one", fork_test_add_one, {{x, Access::read}, {y, Access::write}}, size, {}, 256)};
  t.constant<float>("w", DType::f32, {1, 2});
  t.options.threads = 2;
  const auto model = t.build();
  Instance instance(model);
  std::atomic<bool> stop{false}, wrong{false};
  std::vector<std::thread> threads;
  for (int64_t n = 0; n < 2; ++n)
    threads.emplace_back([&, n] {
      for (int64_t i = 1; !stop; ++i)
        if (!adds_one(instance, 1 + (i * 37 + n) % 3000)) wrong = true;
    });
  threads.emplace_back([&] {
    TestTensor<float> value(DType::f32, {2}, {5, 6});
    const int32_t w = model->find_constant("w");
    while (!stop) model->weights().update({{w, model->copy_constant(w, value.tensor)}}, false);
  });
  int done = 0;
  constexpr int forks = 60;
  for (int64_t i = 0; i < forks; ++i)
    done += done_in_fork([&] {
      TestTensor<float> value(DType::f32, {2}, {7, 8});
      const int32_t w = model->find_constant("w");
      model->weights().update({{w, model->copy_constant(w, value.tensor)}}, false);
      return adds_one(instance, 5 + i) && adds_one(instance, 2000 + i);
    });
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, forks);
  EXPECT_FALSE(wrong);
}

TEST(Fork, AnInstanceWhoseCallWasUnderWayCanBeCalledInTheChild) {
  TestPlan t;
  const int32_t counter = t.constant<float>("counter", DType::f32, {10}, true),
                out = t.output("out", DType::f32, {t.number(1)});
  t.plan.steps = {t.kernel("wait", fork_test_wait, {{counter, Access::update}, {out, Access::write}}, t.number(1))};
  const auto model = t.build();
  Instance instance(model);
  std::promise<void> enough;
  begin_to_wait(enough);
  float counted = 0;
  std::thread other([&] { counted = count_of(instance); });
  kernel_begun.get_future().wait();
  EXPECT_TRUE(done_in_fork([&] {
    TestTensor<float> value(DType::f32, {1}, {20});
    instance.write_constant("counter", value.tensor);
    instance.set_hook([](void*, kiln_hook_when, const kiln_step*) { return KILN_HOOK_CONTINUE; }, nullptr);
    return count_of(instance) == 21;
  }));
  enough.set_value();
  other.join();
  EXPECT_EQ(counted, 11);
}

// What is made of a constant is made by kernels, which take long.
TEST(Fork, AnUpdateThatWasUnderWayIsNotSeenInTheChild) {
  TestPlan t;
  const int32_t v = t.constant<float>("v", DType::f32, {10});
  const int32_t made = t.buffer("made", DType::f32, format::BufferRole::derived, {t.number(1)});
  const int32_t out = t.output("out", DType::f32, {t.number(1)});
  t.plan.init = {t.kernel("make", fork_test_add_one, {{v, Access::read}, {made, Access::write}}, t.number(1))};
  t.plan.steps = {t.kernel("out", fork_test_add_one, {{made, Access::read}, {out, Access::write}}, t.number(1))};
  static std::atomic<bool> slow{false};
  static std::promise<void> updating;
  static std::shared_future<void> may_end;
  updating = {};
  std::promise<void> enough;
  may_end = enough.get_future().share();
  t.code->kernels["make"] = [](const kiln_kernel_context* c, void* const* b, const int64_t* n, int64_t i, int64_t end) {
    if (slow.exchange(false)) {
      updating.set_value();
      may_end.wait();
    }
    return fork_test_add_one(c, b, n, i, end);
  };
  const auto model = t.build();
  Instance instance(model);
  const auto update = [&](float to) {
    TestTensor<float> value(DType::f32, {1}, {to});
    const int32_t constant = model->find_constant("v");
    model->weights().update({{constant, model->copy_constant(constant, value.tensor)}}, false);
  };
  slow = true;
  std::thread other([&] { update(50); });
  updating.get_future().wait();
  EXPECT_TRUE(done_in_fork([&] {
    if (count_of(instance) != 12) return false;
    update(30);
    return count_of(instance) == 32;
  }));
  enough.set_value();
  other.join();
  EXPECT_EQ(count_of(instance), 52);
}

}  // namespace
}  // namespace kiln::runtime
