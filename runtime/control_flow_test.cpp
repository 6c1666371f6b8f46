#include "runtime/test_plan.h"

namespace kiln::runtime {
namespace {

using format::StepKind;
using format::SymbolSource;

int32_t k_fill(const kiln_kernel_context*, void* const* b, const int64_t* ints, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) static_cast<int64_t*>(b[0])[i] = ints[0];
  return 0;
}
int32_t k_copy_add(const kiln_kernel_context*, void* const* b, const int64_t* ints, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) static_cast<int64_t*>(b[1])[i] = static_cast<const int64_t*>(b[0])[i] + ints[0];
  return 0;
}
// pred = value[0] < limit
int32_t k_less(const kiln_kernel_context*, void* const* b, const int64_t* ints, int64_t, int64_t) {
  *static_cast<uint8_t*>(b[1]) = *static_cast<const int64_t*>(b[0]) < ints[0];
  return 0;
}

std::string refuse(Instance& instance, std::vector<kiln_value> in, std::vector<kiln_value> out) {
  std::string text = error_of([&] { instance.run(in.data(), in.size(), out.data(), out.size()); });
  free_outputs(out);
  return text;
}
std::vector<int64_t> run_ints(Instance& instance, std::vector<kiln_value> in) {
  kiln_value out{};
  instance.run(in.data(), in.size(), &out, 1);
  std::vector<int64_t> got = elements<int64_t>(out);
  out.owner->deleter(out.owner);
  return got;
}

TEST(ControlFlow, CondTakesOneBranch) {
  TestPlan t;
  int32_t predicate = t.input("p", DType::boolean, {}), out = t.output("out", DType::i64, {t.number(2)});
  format::Step cond = t.step(StepKind::cond, "cond_0");
  cond.args = {{predicate, Access::read}};
  cond.blocks = {{t.kernel("then", k_fill, {{out, Access::write}}, t.number(2), {t.number(1)})},
                 {t.kernel("else", k_fill, {{out, Access::write}}, t.number(2), {t.number(2)})}};
  t.plan.steps = {cond};
  Instance instance(t.build());
  TestTensor<uint8_t> yes(DType::boolean, {}, {1}), no(DType::boolean, {}, {0});
  EXPECT_EQ(run_ints(instance, {yes.value()}), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(run_ints(instance, {no.value()}), (std::vector<int64_t>{2, 2}));
}

// while (x < limit) { step = x + iteration; x = step }, started from an input. `step` and others share the arena.
TEST(ControlFlow, LoopCarriesValuesAndCounts) {
  TestPlan t;
  int32_t start = t.input("start", DType::i64, {t.number(1)}), out = t.output("out", DType::i64, {t.number(1)});
  int32_t x = t.temp("x", DType::i64, {t.number(1)}), step = t.temp("step", DType::i64, {t.number(1)});
  int32_t predicate = t.temp("predicate", DType::boolean, {});
  int32_t counter = t.symbol("i", SymbolSource::iteration);
  int32_t one = t.number(1), zero = t.number(0);
  t.plan.steps.push_back(t.kernel("start", k_copy_add, {{start, Access::read}, {x, Access::write}}, one, {zero}));
  format::Step loop = t.step(StepKind::while_loop, "while_0");
  loop.args = {{predicate, Access::read}};
  loop.iteration_symbol = counter;
  int32_t counted = t.symbol_expr(counter);
  loop.blocks = {{t.kernel("less", k_less, {{x, Access::read}, {predicate, Access::write}}, one, {t.number(20)})},
                 {t.kernel("add", k_copy_add, {{x, Access::read}, {step, Access::write}}, one, {counted}),
                  t.kernel("carry", k_copy_add, {{step, Access::read}, {x, Access::write}}, one, {t.number(1)})}};
  t.plan.steps.push_back(loop);
  t.plan.steps.push_back(t.kernel("end", k_copy_add, {{x, Access::read}, {out, Access::write}}, one, {zero}));
  Instance instance(t.build());
  TestTensor<int64_t> from(DType::i64, {1}, {3}), past(DType::i64, {1}, {100});
  int64_t expected = 3;
  for (int64_t i = 0; expected < 20; ++i) expected += i + 1;
  EXPECT_EQ(run_ints(instance, {from.value()}), (std::vector<int64_t>{expected}));
  EXPECT_EQ(run_ints(instance, {past.value()}), (std::vector<int64_t>{100}));
}

TEST(ControlFlow, CarriedTempsLiveThroughTheLoopAndLocalOnesDoNot) {
  TestPlan t;
  int32_t one = t.number(1), zero = t.number(0), x = t.input("x", DType::i64, {one});
  int32_t carried = t.temp("carried", DType::i64, {one}), a = t.temp("a", DType::i64, {one}),
          b = t.temp("b", DType::i64, {one});
  int32_t predicate = t.temp("predicate", DType::boolean, {});
  t.plan.steps.push_back(t.kernel("k0", k_copy_add, {{x, Access::read}, {carried, Access::write}}, one, {zero}));
  format::Step loop = t.step(StepKind::while_loop, "while_0");
  loop.args = {{predicate, Access::read}};
  loop.blocks = {{t.kernel("k1", k_less, {{carried, Access::read}, {predicate, Access::write}}, one, {zero})},
                 {t.kernel("k2", k_copy_add, {{carried, Access::read}, {a, Access::write}}, one, {zero}),
                  t.kernel("k3", k_copy_add, {{a, Access::read}, {b, Access::write}}, one, {zero}),
                  t.kernel("k4", k_copy_add, {{b, Access::read}, {carried, Access::write}}, one, {zero})}};
  t.plan.steps.push_back(loop);
  auto model = t.build();
  const auto& life = model->program().lifetime;
  auto at = [&](int32_t buffer) { return life[static_cast<size_t>(buffer)]; };
  EXPECT_EQ(at(carried).first, 0);
  EXPECT_EQ(at(carried).last, 5);
  EXPECT_EQ(at(a).first, 3);
  EXPECT_EQ(at(a).last, 4);
  EXPECT_EQ(at(b).last, 5);
  EXPECT_EQ(at(predicate).last, 5);
}

// nonzero(x) -> [u0, 1]; then a kernel over u0 elements: a second segment of the memory plan.
TestPlan nonzero_plan() {
  TestPlan t;
  int32_t s0 = t.symbol("s0", SymbolSource::input_size, 0, 0), u0 = t.symbol("u0", SymbolSource::step, -1, -1, 0, 5);
  int32_t x = t.input("x", DType::f32, {t.symbol_expr(s0)}), count = t.symbol_expr(u0), one = t.number(1);
  int32_t found = t.temp("found", DType::i64, {count, one}), out = t.output("out", DType::i64, {count, one});
  format::Step step = t.step(StepKind::library, "lib_nonzero_0");
  step.target = "nonzero", step.outputs = {found}, step.defines = {u0};
  step.call_args.push_back({"self", format::ArgKind::buffer, {x}, 0, ""});
  t.plan.steps = {step,
                  t.kernel("shift", k_copy_add, {{found, Access::read}, {out, Access::write}}, count, {t.number(100)})};
  format::Output size;
  size.name = "u0", size.what = format::OutputWhat::integer, size.expr = count;
  t.plan.outputs.push_back(size);
  return t;
}

TEST(ControlFlow, SizesFoundWhileRunningStartANewSegment) {
  TestPlan t = nonzero_plan();
  Instance instance(t.build());
  for (const std::vector<float>& values : {std::vector<float>{0, 1, 0, 2, 3}, {0, 0}, {1, 1, 1, 1, 1, 0, 0}, {4}}) {
    TestTensor<float> x(DType::f32, {static_cast<int64_t>(values.size())}, values);
    kiln_value in = x.value(), out[2] = {};
    instance.run(&in, 1, out, 2);
    std::vector<int64_t> expected;
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i] != 0) expected.push_back(static_cast<int64_t>(i) + 100);
    EXPECT_EQ(elements<int64_t>(out[0]), expected);
    EXPECT_EQ(out[1].as.integer, static_cast<int64_t>(expected.size()));
    out[0].owner->deleter(out[0].owner);
  }
}

TEST(ControlFlow, FoundSizesAreCheckedAgainstRangeAndCallersOutput) {
  TestPlan t = nonzero_plan();
  Instance instance(t.build());
  TestTensor<float> six(DType::f32, {6}, {1, 1, 1, 1, 1, 1}), two(DType::f32, {3}, {1, 0, 1});
  TestTensor<int64_t> right(DType::i64, {2, 1}, {0, 0}), wrong(DType::i64, {3, 1}, {0, 0, 0});
  EXPECT_NE(refuse(instance, {six.value()}, {kiln_value{}, kiln_value{}})
                .find("the value of u0 is 6, and the program was exported for u0 <= 5"),
            std::string::npos);
  EXPECT_NE(refuse(instance, {two.value()}, {wrong.value(), kiln_value{}})
                .find("unmatched dim value at 0, expected: 2, but got: 3"),
            std::string::npos);
  EXPECT_EQ(refuse(instance, {two.value()}, {right.value(), kiln_value{}}), "");
  EXPECT_EQ(right.values, (std::vector<int64_t>{100, 102}));
}

TEST(ControlFlow, SymbolsReadFromDataAndAssertions) {
  TestPlan t;
  int32_t n = t.input("n", DType::i64, {}), u0 = t.symbol("u0", SymbolSource::step);
  int32_t count = t.symbol_expr(u0), out = t.output("out", DType::i64, {count});
  format::Step bind = t.step(StepKind::bind_symbol, "item"), assertion = t.step(StepKind::assert_that, "assert");
  bind.args = {{n, Access::read}}, bind.defines = {u0};
  assertion.condition =
      t.expr({{TestPlan::Code::symbol, u0}, {TestPlan::Code::constant, 4}, {TestPlan::Code::lt, 0}}, "u0 < 4");
  assertion.message = "Runtime assertion failed";
  t.plan.steps = {bind, assertion, t.kernel("fill", k_fill, {{out, Access::write}}, count, {count})};
  t.origins.steps.push_back({assertion.number,
                             {"_assert_scalar"},
                             {"aten._assert_scalar.default"},
                             {""},
                             {"model.py:7 in forward:  torch._check(n < 4)"},
                             {},
                             {}});
  Instance instance(t.build());
  TestTensor<int64_t> three(DType::i64, {}, {3}), four(DType::i64, {}, {4}), negative(DType::i64, {}, {-1});
  EXPECT_EQ(run_ints(instance, {three.value()}), (std::vector<int64_t>{3, 3, 3}));
  std::string text = refuse(instance, {four.value()}, {kiln_value{}});
  EXPECT_NE(text.find("Runtime assertion failed: u0 < 4 with u0 = 4"), std::string::npos) << text;
  EXPECT_NE(text.find("model.py:7"), std::string::npos) << text;
  EXPECT_NE(refuse(instance, {negative.value()}, {kiln_value{}}).find("the value of u0 is -1"), std::string::npos);
}

// mylib::foo(a, n): the first n elements of a
int32_t first_elements(kiln_op_call* call) {
  const DLTensor* a = kiln_op_tensor(call, kiln_op_find(call, "a"));
  int64_t n = kiln_op_int(call, kiln_op_find(call, "n"), 2);
  if (n > a->shape[0]) return kiln_op_fail(call, "too many"), 1;
  DLTensor* out = kiln_op_output(call, 0, 1, &n);
  if (!out) return 1;
  for (int64_t i = 0; i < n; ++i)
    static_cast<int64_t*>(out->data)[i] = static_cast<int64_t*>(a->data)[i * a->strides[0]];
  return 0;
}

TEST(ControlFlow, CustomOperatorsMayFindTheSizesOfTheirResults) {
  for (bool given : {true, false}) {
    TestPlan t;
    kiln_custom_op op{"mylib::foo", first_elements, nullptr};
    t.custom["mylib::foo"] = op;
    int32_t a = t.input("a", DType::i64, {t.number(4)}), u0 = t.symbol("u0", SymbolSource::step, -1, -1, 0, 3);
    int32_t count = t.symbol_expr(u0), out = t.output("out", DType::i64, {count});
    format::Step step = t.step(StepKind::custom, "mylib::foo");
    step.target = "mylib.foo.default", step.outputs = {out}, step.defines = {u0};
    step.call_args.push_back({"a", format::ArgKind::buffer, {a}, 0, ""});
    if (given) step.call_args.push_back({"n", format::ArgKind::expr, {t.number(3)}, 0, ""});
    t.plan.steps = {step};
    Instance instance(t.build());
    TestTensor<int64_t> x(DType::i64, {4}, {5, 6, 7, 8});
    EXPECT_EQ(run_ints(instance, {x.value()}), given ? (std::vector<int64_t>{5, 6, 7}) : (std::vector<int64_t>{5, 6}));
  }
}

TEST(ControlFlow, CustomOperatorErrorsCarryTheirMessage) {
  TestPlan t;
  kiln_custom_op op{"mylib::foo", first_elements, nullptr};
  t.custom["mylib::foo"] = op;
  int32_t a = t.input("a", DType::i64, {t.number(4)}), out = t.output("out", DType::i64, {t.number(3)});
  format::Step step = t.step(StepKind::custom, "mylib::foo");
  step.target = "mylib.foo.default", step.outputs = {out};
  step.call_args = {{"a", format::ArgKind::buffer, {a}, 0, ""}, {"n", format::ArgKind::expr, {t.number(9)}, 0, ""}};
  t.plan.steps = {step};
  auto fail_with = [&](int64_t n) {
    TestPlan copy;
    copy.plan = t.plan, copy.custom = t.custom;
    copy.plan.steps[0].call_args[1].items = {copy.number(n)};
    Instance instance(copy.build());
    TestTensor<int64_t> x(DType::i64, {4}, {5, 6, 7, 8});
    return refuse(instance, {x.value()}, {kiln_value{}});
  };
  EXPECT_NE(fail_with(9).find("custom operator mylib::foo: too many"), std::string::npos);
  EXPECT_NE(fail_with(2).find("output 0: dimension 0 is 3 in the program, not 2"), std::string::npos);
  EXPECT_EQ(fail_with(3), "");
  TestPlan missing;
  missing.plan = t.plan;
  EXPECT_NE(error_of([&] { missing.build(); }).find("needs the custom operator mylib::foo"), std::string::npos);
}

}  // namespace
}  // namespace kiln::runtime
