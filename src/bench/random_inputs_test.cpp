#include "bench/random_inputs.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "package/expr_table.h"

namespace kiln {
namespace {

// A plan with tensors of these sizes ("s0, 2*s1") whose symbols come from the first size that is one.
class SizesPlan {
 public:
  SizesPlan& symbol(const std::string& name, int32_t input, int32_t dim, int64_t low = 1, int64_t high = INT64_MAX) {
    exprs_.define_symbol(name, static_cast<int>(plan_.symbols.size()));
    format::Symbol symbol;
    symbol.name = name, symbol.input = input, symbol.dim = dim, symbol.low = low, symbol.high = high;
    plan_.symbols.push_back(symbol);
    return *this;
  }
  SizesPlan& tensor(const std::string& name, DType dtype, const std::vector<std::string>& sizes) {
    std::vector<Expr> exprs;
    for (const std::string& size : sizes) exprs.push_back(parse_expr(size));
    format::Buffer buffer;
    buffer.name = name, buffer.dtype = dtype, buffer.role = format::BufferRole::input;
    buffer.sizes = exprs_.add_all(exprs), buffer.strides = exprs_.add_all(contiguous_strides(exprs));
    format::Input input;
    input.name = name, input.buffer = static_cast<int32_t>(plan_.buffers.size());
    plan_.buffers.push_back(buffer), plan_.inputs.push_back(input);
    return *this;
  }
  SizesPlan& guard(const std::string& text) {
    plan_.guards.push_back({exprs_.add(parse_expr(text)), text, "the test says so"});
    return *this;
  }
  format::Plan take() {
    plan_.exprs = exprs_.take();
    return std::move(plan_);
  }

 private:
  format::Plan plan_;
  ExprTable exprs_;
};

std::string code_of(const format::Plan& plan, const SymbolValues& given) {
  try {
    random_inputs(plan, {}, given, 0);
  } catch (const Error& error) {
    return error.code();
  }
  return "";
}

std::vector<int64_t> sizes_of(const RandomInputs& made, size_t input) { return made.inputs.at(input).tensor().sizes; }

TEST(RandomInputs, SizesAreThoseGivenElseTheSamples) {
  const format::Plan plan = SizesPlan()
                                .symbol("s0", 0, 0, 1, 64)
                                .symbol("s1", 0, 1, 2, 1024)
                                .tensor("x", DType::f32, {"s0", "s1"})
                                .tensor("y", DType::f32, {"2*s1 + 1"})
                                .take();
  const std::vector<Datum> samples = {{Tensor::empty(DType::f32, {3, 5})}, {Tensor::empty(DType::f32, {11})}};
  EXPECT_EQ(sizes_of(random_inputs(plan, samples, {}, 0), 0), (std::vector<int64_t>{3, 5}));
  const RandomInputs made = random_inputs(plan, samples, {{"s1", 128}}, 0);
  EXPECT_EQ(sizes_of(made, 0), (std::vector<int64_t>{3, 128}));
  EXPECT_EQ(sizes_of(made, 1), (std::vector<int64_t>{257}));
  EXPECT_TRUE(made.notes.empty());
  EXPECT_EQ(symbol_values(plan, made.inputs), (SymbolValues{{"s0", 3}, {"s1", 128}}));
}

TEST(RandomInputs, OpenSizesAreFoundWithinTheGuards) {
  const format::Plan plan = SizesPlan()
                                .symbol("s0", 0, 0)
                                .symbol("s1", 1, 0)
                                .tensor("x", DType::f32, {"s0"})
                                .tensor("y", DType::f32, {"s1"})
                                .guard("s1 % 8 == 0")
                                .guard("s0 < s1")
                                .take();
  const std::vector<Datum> samples = {{Tensor::empty(DType::f32, {3})}, {Tensor::empty(DType::f32, {16})}};
  EXPECT_EQ(sizes_of(random_inputs(plan, samples, {}, 0), 1), (std::vector<int64_t>{16}));
  const int64_t found = sizes_of(random_inputs(plan, samples, {{"s0", 100}}, 0), 1)[0];
  EXPECT_GT(found, 100);
  EXPECT_EQ(found % 8, 0);
}

TEST(RandomInputs, WhatDoesNotFitIsRefused) {
  const format::Plan plan = SizesPlan()
                                .symbol("s0", 0, 0, 2, 64)
                                .symbol("s1", 1, 0)
                                .tensor("x", DType::f32, {"s0"})
                                .tensor("y", DType::f32, {"s1"})
                                .guard("s1 == 1000003*s0")
                                .take();
  EXPECT_EQ(code_of(plan, {{"s2", 3}}), "K0730");
  EXPECT_EQ(code_of(plan, {{"s0", 65}}), "K0731");
  EXPECT_EQ(code_of(plan, {{"s0", 2}, {"s1", 2}}), "K0731");
  EXPECT_EQ(code_of(plan, {{"s0", 2}}), "K0732");
  EXPECT_EQ(code_of(plan, {{"s0", 2}, {"s1", 2000006}}), "");
}

TEST(RandomInputs, ValuesAreDrawnFromTheSamples) {
  const format::Plan plan = SizesPlan().symbol("s0", 0, 0).tensor("tokens", DType::i64, {"s0"}).take();
  Tensor tokens = Tensor::empty(DType::i64, {3});
  for (int64_t i = 0; i < 3; ++i) tokens.set_item(i, Scalar(int64_t{500} + i));
  const RandomInputs made = random_inputs(plan, {{tokens}}, {{"s0", 200}}, 7);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 200; ++i) seen.insert(made.inputs[0].tensor().item(i).as_int());
  EXPECT_EQ(seen, (std::set<int64_t>{500, 501, 502}));
  const RandomInputs again = random_inputs(plan, {{tokens}}, {{"s0", 200}}, 7);
  for (int64_t i = 0; i < 200; ++i)
    ASSERT_EQ(made.inputs[0].tensor().item(i).as_int(), again.inputs[0].tensor().item(i).as_int());
}

TEST(RandomInputs, WithoutSamplesItSaysWhatItDrew) {
  const format::Plan plan =
      SizesPlan().symbol("s0", 0, 0).tensor("x", DType::bf16, {"s0"}).tensor("flags", DType::boolean, {"4"}).take();
  const RandomInputs made = random_inputs(plan, {}, {{"s0", 50}}, 0);
  ASSERT_EQ(made.notes.size(), 1u);
  EXPECT_NE(made.notes[0].find("x, flags"), std::string::npos);
  for (int64_t i = 0; i < 50; ++i) EXPECT_LE(std::abs(made.inputs[0].tensor().item(i).as_double()), 1);
}

}  // namespace
}  // namespace kiln
