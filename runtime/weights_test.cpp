#include <atomic>
#include <thread>

#include "runtime/test_plan.h"

namespace kiln::runtime {
namespace {

std::atomic<int> packs{0};

int32_t k_double(const kiln_kernel_context*, void* const* b, const int64_t*, int64_t begin, int64_t end) {
  ++packs;
  for (int64_t i = begin; i < end; ++i) static_cast<float*>(b[1])[i] = 2 * static_cast<const float*>(b[0])[i];
  return 0;
}
// out[i] = a[i] + 1000 * b[i]
int32_t k_combine(const kiln_kernel_context*, void* const* b, const int64_t*, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    static_cast<float*>(b[2])[i] = static_cast<const float*>(b[0])[i] + 1000 * static_cast<const float*>(b[1])[i];
  return 0;
}
int32_t k_count(const kiln_kernel_context*, void* const* b, const int64_t*, int64_t, int64_t) {
  static_cast<float*>(b[0])[0] += 1;
  static_cast<float*>(b[1])[0] = static_cast<float*>(b[0])[0];
  return 0;
}

// out = 2*v + 1000 * 2*w, both doubled by the init section
TestPlan derived_plan() {
  TestPlan t;
  int32_t two = t.number(2);
  int32_t v = t.constant<float>("v", DType::f32, {1, 2}), w = t.constant<float>("layer.w", DType::f32, {3, 4});
  int32_t dv = t.buffer("dv", DType::f32, format::BufferRole::derived, {two}),
          dw = t.buffer("dw", DType::f32, format::BufferRole::derived, {two});
  int32_t out = t.output("out", DType::f32, {two});
  t.plan.init = {t.kernel("pack_v", k_double, {{v, Access::read}, {dv, Access::write}}, two),
                 t.kernel("pack_w", k_double, {{w, Access::read}, {dw, Access::write}}, two)};
  t.plan.steps = {t.kernel("combine", k_combine, {{dv, Access::read}, {dw, Access::read}, {out, Access::write}}, two)};
  return t;
}

std::vector<float> run(Instance& instance) {
  kiln_value out{};
  instance.run(nullptr, 0, &out, 1);
  std::vector<float> got = elements<float>(out);
  out.owner->deleter(out.owner);
  return got;
}

void update(Model& model, const char* name, std::vector<float> values, bool inactive = false) {
  TestTensor<float> tensor(DType::f32, {static_cast<int64_t>(values.size())}, values);
  int32_t index = model.find_constant(name);
  model.weights().update({{index, model.copy_constant(index, tensor.tensor)}}, inactive);
}

TEST(Weights, InitRunsAtLoadAndAgainForWhatAnUpdateTouches) {
  TestPlan plan = derived_plan();
  packs = 0;
  auto model = plan.build();
  EXPECT_EQ(packs, 2);
  Instance instance(model);
  EXPECT_EQ(run(instance), (std::vector<float>{6002, 8004}));
  EXPECT_EQ(packs, 2);
  update(*model, "layer.w", {5, 6});
  EXPECT_EQ(packs, 3);
  EXPECT_EQ(run(instance), (std::vector<float>{10002, 12004}));
}

TEST(Weights, InactiveSetIsSeenOnlyAfterTheSwap) {
  TestPlan plan = derived_plan();
  auto model = plan.build();
  Instance instance(model);
  EXPECT_NE(error_of([&] { model->weights().swap(); }).find("K0642"), std::string::npos);
  update(*model, "v", {10, 20}, true);
  EXPECT_EQ(run(instance), (std::vector<float>{6002, 8004}));
  model->weights().swap();
  EXPECT_EQ(run(instance), (std::vector<float>{6020, 8040}));
  model->weights().swap();
  EXPECT_EQ(run(instance), (std::vector<float>{6002, 8004}));
}

TEST(Weights, WrongUpdatesAreRefused) {
  TestPlan plan = derived_plan();
  auto model = plan.build();
  EXPECT_NE(error_of([&] { update(*model, "layer.v", {1, 2}); }).find("did you mean"), std::string::npos);
  EXPECT_NE(error_of([&] {
              update(*model, "v", {1, 2, 3});
            }).find("unmatched sizes, expected: [2], but got: [3]"),
            std::string::npos);
}

TEST(Weights, RunsSeeAllOfAnUpdateOrNothing) {
  TestPlan plan = derived_plan();
  auto model = plan.build();
  Instance instance(model);
  std::atomic<bool> stop{false};
  std::atomic<int> torn{0}, reads{0};
  std::thread reader([&] {
    while (!stop) {
      std::vector<float> got = run(instance);
      torn += got != std::vector<float>{6002, 8004} && got != std::vector<float>{2, 4};
      ++reads;
    }
  });
  for (int i = 0; i < 200 || reads < 100; ++i)
    update(*model, "layer.w", i % 2 ? std::vector<float>{3, 4} : std::vector<float>{0, 0});
  stop = true;
  reader.join();
  EXPECT_EQ(torn, 0);
}

TEST(Weights, IdleRunsDoNotKeepOldVersionsAlive) {
  TestPlan plan = derived_plan();
  auto model = plan.build();
  Instance instance(model);
  run(instance);
  std::weak_ptr<const Weights> old = model->weights().active();
  update(*model, "v", {7, 7});
  model->runs().drop_weights_except(model->weights().version());
  EXPECT_TRUE(old.expired());
}

TEST(Weights, MutableBuffersBelongToTheInstance) {
  TestPlan t;
  int32_t counter = t.constant<float>("counter", DType::f32, {10}, true),
          out = t.output("out", DType::f32, {t.number(1)});
  t.plan.steps = {t.kernel("count", k_count, {{counter, Access::update}, {out, Access::write}}, t.number(1))};
  auto model = t.build();
  EXPECT_TRUE(model->program().stateful);
  Instance first(model), second(model);
  EXPECT_EQ(run(first), std::vector<float>{11});
  EXPECT_EQ(run(first), std::vector<float>{12});
  EXPECT_EQ(run(second), std::vector<float>{11});
  TestTensor<float> value(DType::f32, {1}, {100}), read(DType::f32, {1}, {0});
  second.write_constant("counter", value.tensor);
  EXPECT_EQ(run(second), std::vector<float>{101});
  second.read_constant("counter", read.tensor);
  EXPECT_EQ(read.values[0], 101);

  // Calls on one instance come one after the other: none is lost.
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 100; ++k) run(first);
    });
  for (std::thread& thread : threads) thread.join();
  first.read_constant("counter", read.tensor);
  EXPECT_EQ(read.values[0], 412);
}

}  // namespace
}  // namespace kiln::runtime
