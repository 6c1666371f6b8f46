// Memory of outputs that callers have released: the next call's, whoever releases it, wherever and whenever.
#include "runtime/kept_memory.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>

#include "runtime/guard_memory.h"
#include "runtime/test_plan.h"

namespace kiln::runtime {
namespace {

using format::SymbolSource;

int32_t doubled(const kiln_kernel_context*, void* const* buffers, const int64_t*, int64_t begin, int64_t end) {
  const auto* x = static_cast<const float*>(buffers[0]);
  auto* y = static_cast<float*>(buffers[1]);
  for (int64_t i = begin; i < end; ++i) y[i] = 2 * x[i];
  return 0;
}

// y = 2 * x, for x of any length.
std::shared_ptr<Model> doubling_model(const ModelOptions& options = {}) {
  TestPlan t;
  t.options = options;
  t.options.threads = 1;
  t.symbol("n", SymbolSource::input_size, 0, 0);
  const int32_t n = t.symbol_expr(0), x = t.input("x", DType::f32, {n}), y = t.output("y", DType::f32, {n});
  t.plan.steps.push_back(t.kernel("double", doubled, {{x, Access::read}, {y, Access::write}}, n));
  return t.build();
}

struct Doubling {
  explicit Doubling(const ModelOptions& options = {}) : model(doubling_model(options)), instance(model) {}
  kiln_value call(int64_t n) {
    TestTensor<float> x(DType::f32, {n}, std::vector<float>(static_cast<size_t>(n), 3));
    const kiln_value in = x.value();
    kiln_value out{};
    instance.run(&in, 1, &out, 1);
    return out;
  }
  std::shared_ptr<Model> model;
  Instance instance;
};

void release(kiln_value& value) { value.owner->deleter(value.owner); }
const void* address(const kiln_value& value) { return value.as.tensor->data; }
bool is_right(const kiln_value& value) {
  const std::vector<float> all = elements<float>(value);
  return all == std::vector<float>(all.size(), 6);
}

constexpr int64_t large = 1 << 18;

TEST(KeptMemory, TheNextCallHasTheMemoryOfTheLastOutput) {
  Doubling d;
  kiln_value first = d.call(large);
  const void* there = address(first);
  release(first);
  for (int i = 0; i < 3; ++i) {
    kiln_value next = d.call(large);
    EXPECT_EQ(address(next), there);
    EXPECT_TRUE(is_right(next));
    release(next);
  }
}

TEST(KeptMemory, OutputsThatAreHeldHaveMemoryOfTheirOwn) {
  Doubling d;
  std::vector<kiln_value> held;
  std::set<const void*> places;
  for (int i = 0; i < 5; ++i) {
    held.push_back(d.call(large));
    places.insert(address(held.back()));
  }
  EXPECT_EQ(places.size(), 5u);
  for (kiln_value& value : held) {
    EXPECT_TRUE(is_right(value));
    release(value);
  }
}

#if defined(__SANITIZE_ADDRESS__)
TEST(KeptMemory, AddressSanitizerSeesWhoReadsWhatWasReleased) {
  Doubling d;
  kiln_value out = d.call(large + 1);
  const auto* values = static_cast<const volatile float*>(address(out));
  EXPECT_DEATH((void)values[large + 1], "use-after-poison");  // the room beyond the output
  release(out);
  EXPECT_DEATH((void)values[5], "use-after-poison");
}
#endif

// A cache of keys and values that grows by a row per call stays where it is until the room of an eighth is used up;
// a size that is quite another has memory of its own.
TEST(KeptMemory, IsForSizesThatAreNearlyTheSame) {
  Doubling d;
  kiln_value out = d.call(large + 1);
  const void* there = address(out);
  release(out);
  out = d.call(large + 1000);
  EXPECT_EQ(address(out), there);
  EXPECT_TRUE(is_right(out));
  release(out);
  for (const int64_t n : {2 * large, int64_t{5}, int64_t{0}, int64_t{5000}, large}) {
    out = d.call(n);
    EXPECT_TRUE(is_right(out)) << n;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(address(out)) % memory_alignment, 0u);
    release(out);
  }
}

TEST(KeptMemory, TheModelMayBeUnloadedBeforeItsOutputsAreReleased) {
  auto d = std::make_unique<Doubling>();
  kiln_value kept = d->call(large), a = d->call(large), b = d->call(large);
  release(kept);
  d.reset();
  EXPECT_TRUE(is_right(a));
  release(a);
  EXPECT_TRUE(is_right(b));
  release(b);
}

TEST(KeptMemory, ACallersOwnMemoryEndsTheKeeping) {
  Doubling d;
  kiln_value out = d.call(large), held = d.call(large);
  release(out);
  TestTensor<float> x(DType::f32, {large}, std::vector<float>(large, 3)), y(DType::f32, {large}, {});
  y.values.resize(large), y.tensor.data = y.values.data();
  const kiln_value in = x.value();
  kiln_value into = y.value();
  d.instance.run(&in, 1, &into, 1);
  EXPECT_EQ(y.values.back(), 6);
  release(held);
  out = d.call(large);
  EXPECT_TRUE(is_right(out));
  release(out);
}

TEST(KeptMemory, OutputsMayBeReleasedOnAnyThread) {
  Doubling d;
  std::atomic<int> wrong{0};
  std::atomic<DLManagedTensorVersioned*> handed[4] = {};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        kiln_value out = d.call(8192 + 8192 * (i / 50 % 2));
        if (!is_right(out)) ++wrong;
        // Another thread's output is released here, and this one there.
        if (auto* other = handed[(t + i) % 4].exchange(out.owner)) other->deleter(other);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (auto& left : handed)
    if (auto* owner = left.load()) owner->deleter(owner);
  EXPECT_EQ(wrong, 0);
}

// Where a Run ends while its outputs are released, each block goes back once: AddressSanitizer counts.
TEST(KeptMemory, ClosingAndReleasingMayMeet) {
  for (int i = 0; i < 200; ++i) {
    KeptMemory::Owner kept = KeptMemory::make();
    std::atomic<int> ready{0};
    auto block = std::make_unique<Block>(kept->allocator(), int64_t{1} << 15);
    std::thread other([&] {
      for (++ready; ready != 2;) continue;
      block.reset();
    });
    for (++ready; ready != 2;) continue;
    kept = nullptr;
    other.join();
  }
}

TEST(KeptMemory, AChildProcessHasItsOwn) {
  Doubling d;
  kiln_value out = d.call(large), held = d.call(large);
  release(out);
  const pid_t child = fork();
  if (child == 0) {
    release(held);
    kiln_value of_child = d.call(large);
    const bool right = is_right(of_child);
    release(of_child);
    _exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(is_right(held));
  release(held);
}

// An embedder's allocator is asked for every output, and guard pages are made for each.
TEST(KeptMemory, OthersAllocatorsSeeEveryOutput) {
  static std::atomic<int> asked, live;
  ModelOptions options;
  options.allocator = {[](void*, size_t bytes, size_t alignment) {
                         ++asked, ++live;
                         return system_allocator().allocate(nullptr, bytes, alignment);
                       },
                       [](void*, void* memory, size_t bytes) {
                         --live;
                         system_allocator().release(nullptr, memory, bytes);
                       },
                       nullptr};
  asked = live = 0;
  {
    Doubling d(options);
    EXPECT_FALSE(d.model->keeps_outputs());
    const int before = asked;
    for (int i = 0; i < 3; ++i) {
      kiln_value out = d.call(large);
      EXPECT_EQ(asked, before + i + 1);
      const int held = live;
      release(out);
      EXPECT_EQ(live, held - 1);
    }
  }
  EXPECT_EQ(live, 0);
  options.allocator = guard_allocator();
  EXPECT_FALSE(Doubling(options).model->keeps_outputs());
  EXPECT_TRUE(Doubling().model->keeps_outputs());
}

}  // namespace
}  // namespace kiln::runtime
