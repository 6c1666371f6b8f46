#include <atomic>
#include <thread>

#include "runtime/test_plan.h"

namespace kiln::runtime {
namespace {

int32_t k_add(const kiln_kernel_context*, void* const* b, const int64_t*, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    static_cast<float*>(b[2])[i] = static_cast<const float*>(b[0])[i] + static_cast<const float*>(b[1])[i];
  return 0;
}
int32_t k_scale(const kiln_kernel_context*, void* const* b, const int64_t* ints, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    static_cast<float*>(b[1])[i] = static_cast<const float*>(b[0])[i] * static_cast<float>(ints[0]);
  return 0;
}
int32_t k_increment(const kiln_kernel_context*, void* const* b, const int64_t*, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) static_cast<float*>(b[0])[i] += 1;
  return 0;
}
int32_t k_raise(const kiln_kernel_context* context, void* const*, const int64_t*, int64_t, int64_t) {
  context->error->raised = 1, context->error->site = 0, context->error->index = 3, context->error->value = 17;
  return 1;
}

// out = 3 * (x + y) for x, y of [s0, 4], s0 in [2, 100]
TestPlan add_plan() {
  TestPlan t;
  int32_t s0 = t.symbol("s0", format::SymbolSource::input_size, 0, 0, 2, 100);
  int32_t rows = t.symbol_expr(s0), cols = t.number(4);
  int32_t x = t.input("x", DType::f32, {rows, cols}), y = t.input("y", DType::f32, {rows, cols});
  int32_t sum = t.temp("sum", DType::f32, {rows, cols}), out = t.output("out", DType::f32, {rows, cols});
  int32_t items = t.product({rows, cols});
  t.plan.steps.push_back(
      t.kernel("cpp_fused_add_0", k_add, {{x, Access::read}, {y, Access::read}, {sum, Access::write}}, items));
  t.plan.steps.push_back(
      t.kernel("cpp_fused_mul_1", k_scale, {{sum, Access::read}, {out, Access::write}}, items, {t.number(3)}));
  return t;
}

std::vector<float> ramp(int64_t n, float start = 0) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(start + static_cast<float>(i));
  return values;
}

struct Call {
  std::shared_ptr<Model> model;
  Instance instance;
  explicit Call(TestPlan& plan) : model(plan.build()), instance(model) {}
};

TEST(Run, ComputesForSeveralSizesAndKeepsThemApart) {
  TestPlan plan = add_plan();
  Call call(plan);
  for (int64_t rows : {2, 7, 2, 100, 7}) {
    TestTensor<float> x(DType::f32, {rows, 4}, ramp(rows * 4)), y(DType::f32, {rows, 4}, ramp(rows * 4, 1));
    kiln_value in[2] = {x.value(), y.value()}, out{};
    call.instance.run(in, 2, &out, 1);
    ASSERT_EQ(out.kind, KILN_TENSOR);
    EXPECT_EQ(out.as.tensor->shape[0], rows);
    std::vector<float> got = elements<float>(out);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], 3 * (2 * static_cast<float>(i) + 1));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(out.as.tensor->data) % 64, 0u);
    out.owner->deleter(out.owner);
  }
  EXPECT_EQ(call.model->bounds().size(), 3u);
}

TEST(Run, WritesTheCallersOutputWhateverItsStrides) {
  TestPlan plan = add_plan();
  Call call(plan);
  TestTensor<float> x(DType::f32, {2, 4}, ramp(8)), y(DType::f32, {2, 4}, ramp(8));
  TestTensor<float> row_major(DType::f32, {2, 4}, std::vector<float>(8)),
      transposed(DType::f32, {2, 4}, std::vector<float>(8), {1, 2});
  for (auto* out : {&row_major, &transposed}) {
    kiln_value in[2] = {x.value(), y.value()}, value = out->value();
    call.instance.run(in, 2, &value, 1);
    EXPECT_EQ(value.owner, nullptr);
  }
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 4; ++j) {
      EXPECT_EQ(row_major.values[static_cast<size_t>(i * 4 + j)], static_cast<float>(6 * (i * 4 + j)));
      EXPECT_EQ(transposed.values[static_cast<size_t>(i + j * 2)], static_cast<float>(6 * (i * 4 + j)));
    }
}

TEST(Run, TakesInputsWithOtherStrides) {
  TestPlan plan = add_plan();
  Call call(plan);
  TestTensor<float> x(DType::f32, {2, 4}, ramp(8), {1, 2}), y(DType::f32, {2, 4}, {5}, {0, 0});
  kiln_value in[2] = {x.value(), y.value()}, out{};
  call.instance.run(in, 2, &out, 1);
  EXPECT_EQ(elements<float>(out), (std::vector<float>{15, 21, 27, 33, 18, 24, 30, 36}));
  out.owner->deleter(out.owner);
}

std::string refuse(Call& call, std::vector<kiln_value> in, std::vector<kiln_value> out = {kiln_value{}}) {
  std::string text = error_of([&] { call.instance.run(in.data(), in.size(), out.data(), out.size()); });
  free_outputs(out);
  return text;
}

TEST(Run, RefusesInputsThatDoNotFit) {
  TestPlan plan = add_plan();
  Call call(plan);
  TestTensor<float> good(DType::f32, {2, 4}, ramp(8)), one(DType::f32, {1, 4}, ramp(4)),
      three(DType::f32, {3, 4}, ramp(12)), flat(DType::f32, {8}, ramp(8)), wide(DType::f32, {2, 5}, ramp(10));
  TestTensor<double> other(DType::f64, {2, 4}, std::vector<double>(8));
  TestTensor<float> gpu = good;
  gpu.tensor.shape = gpu.sizes.data();
  gpu.tensor.device = {kDLCUDA, 0};
  auto contains = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  EXPECT_TRUE(
      contains(refuse(call, {gpu.value(), good.value()}),
               "Error: input_handles[0]: unmatched device type, expected: 0(cpu), but got: 1(cuda) (input 'x')"));
  EXPECT_TRUE(
      contains(refuse(call, {good.value(), other.value()}),
               "Error: input_handles[1]: unmatched dtype, expected: 6(float32), but got: 7(float64) (input 'y')"));
  EXPECT_TRUE(
      contains(refuse(call, {flat.value(), good.value()}), "unmatched number of dimensions, expected: 2, but got: 1"));
  EXPECT_TRUE(
      contains(refuse(call, {wide.value(), wide.value()}), "unmatched dim value at 1, expected: 4, but got: 5"));
  EXPECT_TRUE(contains(refuse(call, {one.value(), one.value()}),
                       "dim value is too small at 0, expected it to be >= 2, but got: 1 (s0) (input 'x')"));
  EXPECT_TRUE(contains(refuse(call, {good.value(), three.value()}),
                       "input_handles[1]: unmatched dim value at 0, expected: 2 (s0; s0 = 2 from input_handles[0] 'x' "
                       "dim 0), but got: 3 (input 'y')"));
  EXPECT_TRUE(contains(refuse(call, {good.value()}), "expected 2 inputs (x, y), but got 1"));
  EXPECT_TRUE(contains(refuse(call, {good.value(), int_value(3)}), "expected: a tensor, but got: 3"));
  good.tensor.data = nullptr;
  EXPECT_TRUE(contains(refuse(call, {good.value(), good.value()}), "has no data"));
  EXPECT_EQ(refuse(call, {three.value(), three.value()}), "");
}

TEST(Run, RefusesOutputsThatDoNotFitOrOverlap) {
  TestPlan plan = add_plan();
  Call call(plan);
  TestTensor<float> x(DType::f32, {2, 4}, ramp(8)), y(DType::f32, {2, 4}, ramp(8)), small(DType::f32, {1, 4}, ramp(4));
  EXPECT_NE(refuse(call, {x.value(), y.value()}, {small.value()}).find("output_handles[0]: unmatched dim value at 0"),
            std::string::npos);
  EXPECT_NE(refuse(call, {x.value(), y.value()}, {y.value()}).find("it shares memory with input 'y'"),
            std::string::npos);
}

TEST(Run, ChecksGuardsAndNamesWhereSymbolsComeFrom) {
  TestPlan plan = add_plan();
  format::Guard guard;
  guard.condition = plan.expr({{TestPlan::Code::symbol, 0},
                               {TestPlan::Code::constant, 2},
                               {TestPlan::Code::mod, 0},
                               {TestPlan::Code::constant, 0},
                               {TestPlan::Code::eq, 0}},
                              "s0 % 2 == 0");
  guard.text = "s0 % 2 == 0", guard.reason = "L['x'].size()[0] % 2 == 0";
  plan.plan.guards.push_back(guard);
  Call call(plan);
  TestTensor<float> three(DType::f32, {3, 4}, ramp(12));
  EXPECT_NE(refuse(call, {three.value(), three.value()})
                .find("Error: the inputs do not satisfy s0 % 2 == 0 (L['x'].size()[0] % 2 == 0; s0 = 3 from "
                      "input_handles[0] 'x' dim 0)"),
            std::string::npos);
}

TEST(Run, SolvesSymbolsFromAffineSizes) {
  TestPlan t;
  int32_t s0 = t.symbol("s0", format::SymbolSource::input_size, 0, 0, 1, 100);
  t.plan.symbols[0].scale = 2;
  t.plan.symbols[0].rest = t.number(1);
  int32_t size = t.expr({{TestPlan::Code::symbol, s0},
                         {TestPlan::Code::constant, 2},
                         {TestPlan::Code::mul, 0},
                         {TestPlan::Code::constant, 1},
                         {TestPlan::Code::add, 0}},
                        "2*s0 + 1");
  int32_t x = t.input("x", DType::f32, {size}), out = t.output("out", DType::f32, {size});
  t.plan.steps.push_back(t.kernel("k", k_scale, {{x, Access::read}, {out, Access::write}}, size, {t.symbol_expr(s0)}));
  Call call(t);
  TestTensor<float> odd(DType::f32, {5}, ramp(5)), even(DType::f32, {4}, ramp(4));
  kiln_value in = odd.value(), result{};
  call.instance.run(&in, 1, &result, 1);
  EXPECT_EQ(elements<float>(result), (std::vector<float>{0, 2, 4, 6, 8}));
  result.owner->deleter(result.owner);
  EXPECT_NE(refuse(call, {even.value()}).find("unmatched dim value at 0"), std::string::npos);
}

TEST(Run, WritesMutatedInputsBackThroughTheirStrides) {
  TestPlan t;
  int32_t x = t.input("x", DType::f32, {t.number(2), t.number(3)}, true);
  t.plan.steps.push_back(t.kernel("inc", k_increment, {{x, Access::update}}, t.number(6)));
  Call call(t);
  TestTensor<float> strided(DType::f32, {2, 3}, ramp(6), {1, 2}), expanded(DType::f32, {2, 3}, {1, 1, 1}, {0, 1});
  kiln_value in = strided.value();
  call.instance.run(&in, 1, nullptr, 0);
  EXPECT_EQ(strided.values, ramp(6, 1));
  EXPECT_NE(refuse(call, {expanded.value()}, {}).find("several of its elements share memory"), std::string::npos);
}

TEST(Run, ReturnsTheSameTensorTwiceAndAnInputAsCopies) {
  TestPlan plan = add_plan();
  format::Output again = plan.plan.outputs[0], input;
  again.name = "again";
  input.name = "x_too", input.buffer = plan.plan.inputs[0].buffer;
  plan.plan.outputs.push_back(again);
  plan.plan.outputs.push_back(input);
  format::Output size;
  size.name = "rows", size.what = format::OutputWhat::integer, size.expr = plan.symbol_expr(0);
  plan.plan.outputs.push_back(size);
  format::Output text;
  text.name = "mode", text.what = format::OutputWhat::string, text.text = "hello";
  plan.plan.outputs.push_back(text);
  Call call(plan);
  TestTensor<float> x(DType::f32, {2, 4}, ramp(8));
  kiln_value in[2] = {x.value(), x.value()}, out[5] = {};
  call.instance.run(in, 2, out, 5);
  EXPECT_EQ(out[4].kind, KILN_STRING);
  EXPECT_STREQ(out[4].as.string, "hello");
  EXPECT_EQ(elements<float>(out[0]), elements<float>(out[1]));
  EXPECT_NE(out[0].as.tensor->data, out[1].as.tensor->data);
  EXPECT_EQ(elements<float>(out[2]), ramp(8));
  EXPECT_NE(out[2].as.tensor->data, x.tensor.data);
  EXPECT_EQ(out[3].kind, KILN_INT);
  EXPECT_EQ(out[3].as.integer, 2);
  for (int i = 0; i < 3; ++i) out[i].owner->deleter(out[i].owner);
}

TEST(Run, NumbersThatDecideNoSizesDoNotBindAgain) {
  TestPlan t;
  int32_t x = t.input("x", DType::f32, {t.number(4)});
  format::Input factor;
  factor.name = "factor", factor.what = format::InputWhat::sym_int;
  factor.symbol = t.symbol("s1", format::SymbolSource::input_value, 1, -1, 0, 50);
  t.plan.inputs.push_back(factor);
  int32_t out = t.output("out", DType::f32, {t.number(4)});
  t.plan.steps.push_back(
      t.kernel("k", k_scale, {{x, Access::read}, {out, Access::write}}, t.number(4), {t.symbol_expr(factor.symbol)}));
  Call call(t);
  TestTensor<float> tensor(DType::f32, {4}, ramp(4));
  for (int64_t f : {3, 5, 7}) {
    kiln_value in[2] = {tensor.value(), int_value(f)}, result{};
    call.instance.run(in, 2, &result, 1);
    EXPECT_EQ(elements<float>(result)[3], static_cast<float>(3 * f));
    result.owner->deleter(result.owner);
  }
  EXPECT_EQ(call.model->bounds().size(), 1u);
  EXPECT_NE(refuse(call, {tensor.value(), int_value(51)})
                .find("input_handles[1]: value is too large, expected it to be <= 50"),
            std::string::npos);
}

TEST(Run, ANumberThatIsAlsoASizeMustAgreeWithIt) {
  TestPlan t;
  int32_t s0 = t.symbol("s0", format::SymbolSource::input_size, 0, 0);
  t.input("x", DType::f32, {t.symbol_expr(s0)});
  format::Input n;
  n.name = "n", n.what = format::InputWhat::sym_int, n.symbol = s0;
  t.plan.inputs.push_back(n);
  Call call(t);
  TestTensor<float> x(DType::f32, {4}, ramp(4));
  EXPECT_EQ(refuse(call, {x.value(), int_value(4)}, {}), "");
  EXPECT_NE(refuse(call, {x.value(), int_value(5)}, {})
                .find("input_handles[1]: unmatched value, expected: 4 (s0; s0 = 4 from input_handles[0] 'x' dim 0), "
                      "but got: 5"),
            std::string::npos);
}

TEST(Run, TakesNegativeStridesAndSeesTheirOverlap) {
  TestPlan plan = add_plan();
  Call call(plan);
  TestTensor<float> x(DType::f32, {2, 4}, ramp(8), {-4, -1}), y(DType::f32, {2, 4}, ramp(8));
  x.tensor.data = x.values.data() + 7;
  kiln_value in[2] = {x.value(), y.value()}, out{};
  call.instance.run(in, 2, &out, 1);
  EXPECT_EQ(elements<float>(out), std::vector<float>(8, 21));
  out.owner->deleter(out.owner);
  TestTensor<float> inside(DType::f32, {2, 4}, {});
  inside.tensor.data = x.values.data();
  EXPECT_NE(refuse(call, {x.value(), y.value()}, {inside.value()}).find("it shares memory with input 'x'"),
            std::string::npos);
}

TEST(Run, TempsWhoseLivesDoNotMeetShareMemory) {
  TestPlan t;
  int32_t n = t.number(1000), items = n;
  int32_t x = t.input("x", DType::f32, {n}), out = t.output("out", DType::f32, {n});
  int32_t last = x;
  for (int i = 0; i < 6; ++i) {
    int32_t next = t.temp(str("t", i), DType::f32, {n});
    t.plan.steps.push_back(
        t.kernel(str("k", i), k_scale, {{last, Access::read}, {next, Access::write}}, items, {t.number(1)}));
    last = next;
  }
  t.plan.steps.push_back(
      t.kernel("k_out", k_scale, {{last, Access::read}, {out, Access::write}}, items, {t.number(2)}));
  Call call(t);
  EXPECT_LE(bind_plan(call.model->program(), {}, true)->arena_bytes, 2 * 4032);
  TestTensor<float> tensor(DType::f32, {1000}, ramp(1000));
  kiln_value in = tensor.value(), result{};
  call.instance.run(&in, 1, &result, 1);
  EXPECT_EQ(elements<float>(result)[999], 1998);
  result.owner->deleter(result.owner);
}

TEST(Run, InPlaceBuffersLiveInTheOutput) {
  TestPlan t;
  int32_t n = t.number(4);
  int32_t x = t.input("x", DType::f32, {n}), sum = t.temp("sum", DType::f32, {n}),
          out = t.output("out", DType::f32, {n});
  t.plan.buffers[static_cast<size_t>(out)].same_memory_as = sum;
  t.plan.steps.push_back(t.kernel("add", k_add, {{x, Access::read}, {x, Access::read}, {sum, Access::write}}, n));
  t.plan.steps.push_back(t.kernel("inc", k_increment, {{out, Access::update}}, n));
  Call call(t);
  TestTensor<float> tensor(DType::f32, {4}, ramp(4)), mine(DType::f32, {4}, std::vector<float>(4));
  kiln_value in = tensor.value(), result = mine.value();
  call.instance.run(&in, 1, &result, 1);
  EXPECT_EQ(mine.values, (std::vector<float>{1, 3, 5, 7}));
}

TEST(Run, KernelErrorsSayWhatWhereAndWhichLine) {
  TestPlan t;
  int32_t x = t.input("x", DType::f32, {t.number(4)});
  t.plan.sites.push_back({"index out of range in aten.embedding", "aten.embedding.default", "embedding_2",
                          "model.py:42 in forward:  y = self.emb(x)"});
  t.plan.steps.push_back(t.kernel("cpp_fused_embedding_0", k_raise, {{x, Access::read}}, t.number(1)));
  t.plan.steps[0].sites = {0};
  Call call(t);
  TestTensor<float> tensor(DType::f32, {4}, ramp(4));
  for (int again = 0; again < 2; ++again) {
    std::string text = refuse(call, {tensor.value()}, {});
    for (const char* part : {"K0630", "index out of range in aten.embedding (value 17, element 3)", "model.py:42",
                             "embedding_2", "cpp_fused_embedding_0"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TEST(Run, EmptyTensorsNeedNoData) {
  TestPlan t;
  int32_t s0 = t.symbol("s0", format::SymbolSource::input_size, 0, 0);
  int32_t n = t.symbol_expr(s0), x = t.input("x", DType::f32, {n}), out = t.output("out", DType::f32, {n});
  t.plan.steps.push_back(t.kernel("k", k_scale, {{x, Access::read}, {out, Access::write}}, n, {t.number(2)}));
  Call call(t);
  TestTensor<float> empty(DType::f32, {0}, {});
  empty.tensor.data = nullptr;
  kiln_value in = empty.value(), result{};
  call.instance.run(&in, 1, &result, 1);
  EXPECT_EQ(result.as.tensor->shape[0], 0);
  result.owner->deleter(result.owner);
}

TEST(Run, AnExpressionThatFailsIsAnErrorOnlyWhereItIsUsed) {
  TestPlan t;
  int32_t s0 = t.symbol("s0", format::SymbolSource::input_size, 0, 0);
  int32_t n = t.symbol_expr(s0), x = t.input("x", DType::f32, {n}), out = t.output("out", DType::f32, {n});
  int32_t divides =
      t.expr({{TestPlan::Code::constant, 6}, {TestPlan::Code::symbol, s0}, {TestPlan::Code::floordiv, 0}}, "6 // s0");
  t.plan.steps.push_back(t.kernel("k", k_scale, {{x, Access::read}, {out, Access::write}}, n, {divides}));
  Call call(t);
  TestTensor<float> three(DType::f32, {3}, ramp(3)), empty(DType::f32, {0}, {});
  EXPECT_EQ(refuse(call, {three.value()}), "");
  EXPECT_NE(refuse(call, {empty.value()}).find("6 // s0 cannot be evaluated: it divides by zero"), std::string::npos);
}

TEST(Run, SeveralThreadsOnOneInstanceAgree) {
  TestPlan plan = add_plan();
  plan.options.threads = 2;
  for (format::Step& step : plan.plan.steps) step.grain = plan.number(16);  // the pool is used too
  Call call(plan);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 300; ++i) {
        int64_t rows = 2 + (i + t) % 30;
        TestTensor<float> x(DType::f32, {rows, 4}, ramp(rows * 4)),
            y(DType::f32, {rows, 4}, ramp(rows * 4, static_cast<float>(t)));
        kiln_value in[2] = {x.value(), y.value()}, out{};
        call.instance.run(in, 2, &out, 1);
        std::vector<float> got = elements<float>(out);
        for (size_t j = 0; j < got.size(); ++j)
          wrong += got[j] != 3 * (2 * static_cast<float>(j) + static_cast<float>(t));
        out.owner->deleter(out.owner);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Run, UsesTheEmbeddersParallelFor) {
  TestPlan plan = add_plan();
  plan.options.threads = 3;
  static std::atomic<int64_t> tasks;
  tasks = 0;
  plan.options.parallel_for = [](void*, int64_t n, void (*task)(void*, int64_t), void* context) {
    tasks += n;
    for (int64_t i = n; i-- > 0;) task(context, i);
  };
  for (format::Step& step : plan.plan.steps) step.grain = plan.number(4);
  Call call(plan);
  TestTensor<float> x(DType::f32, {50, 4}, ramp(200));
  kiln_value in[2] = {x.value(), x.value()}, out{};
  call.instance.run(in, 2, &out, 1);
  EXPECT_EQ(tasks, 6);
  EXPECT_EQ(elements<float>(out)[199], 3 * 2 * 199);
  out.owner->deleter(out.owner);
}

}  // namespace
}  // namespace kiln::runtime
