// Products of numbers that were quantised to bytes: text in, text out, and the results that the bytes give.
#include <gtest/gtest.h>

#include "loop_passes/pass_test.h"
#include "schedule/quantised_loops_test.h"
#include "schedule/sample_run_test.h"

namespace kiln::loops {
namespace {

const QuantisedSizes some = {5, 6, 8, 16};

Target with_quads() {
  Target target;
  target.byte_quads = true;
  return target;
}

bool multiplied(LoopProgram& program, bool zeros = true, std::string* why = nullptr) {
  Log log;
  const bool changed = multiply_bytes(program, with_quads(), log, [&](const std::string&) { return zeros; });
  verify(program);
  const std::string text = print(program);
  EXPECT_EQ(print(parse_loops(text)), text);
  if (why && !log.decisions().empty()) *why = log.decisions().back().text();
  return changed;
}

// Values that the constants have: whole numbers, and 0 for the zero points.
std::vector<Datum> results(const LoopProgram& program) {
  std::map<std::string, Tensor> constants;
  std::vector<Datum> inputs;
  for (const Buffer& buffer : program.buffers) {
    std::vector<int64_t> sizes;
    for (const Expr& size : buffer.sizes) sizes.push_back(evaluate(size, {}));
    Tensor tensor = Tensor::empty(buffer.dtype, sizes);
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      const int64_t number = (i * 7919 + 31) % 211 - 105;
      if (buffer.constant != "z")
        tensor.set_item(i, is_float(buffer.dtype) ? Scalar(static_cast<double>(number) / 64.0) : Scalar(number));
    }
    if (buffer.role == BufferRole::constant) constants[buffer.constant] = tensor;
    if (buffer.role == BufferRole::input) inputs.push_back({tensor});
  }
  return LoopInterpreter(program, constants, {}).run(inputs).outputs;
}

TEST(MultiplyBytes, StoresTheRowsAsBytesAndSumsThemUpInIntegers) {
  LoopProgram program = parsed(quantised_window(some, "u8", 0, 1));
  const std::vector<Datum> before = results(program);
  ASSERT_TRUE(multiplied(program));
  const std::string text = print(program);
  expect_all(text, {"buffer t_bytes u8[5, 6, 8]", "store t_bytes[i0, i1, i2] = %10", "reduce sum.i32",
                    "load.u8 t_bytes[", "buffer w_sums i32[16] strides [1] derived", "raise_if"});
  EXPECT_EQ(text.find("store t["), std::string::npos) << text;
  expect_near(results(program), before, 1e-4);
}

// A zero point is made good by the sums of the weights, and beyond the border it stands for nothing.
TEST(MultiplyBytes, ZeroPointsAndBordersAreMadeGood) {
  for (const int zero : {7, 128})
    for (const int64_t window : {1, 3}) {
      LoopProgram program = parsed(quantised_window(some, "u8", zero, window));
      const std::vector<Datum> before = results(program);
      ASSERT_TRUE(multiplied(program));
      expect_all(print(program), {"load.i32 w_sums[i1]", "sub.i32"});
      if (window > 1) expect_all(print(program), {"select.i32"});
      expect_near(results(program), before, 1e-3);
    }
}

TEST(MultiplyBytes, BytesWithASignAreStoredWithoutOne) {
  for (const int zero : {0, -5}) {
    LoopProgram program = parsed(quantised_window(some, "i8", zero, 3));
    const std::vector<Datum> before = results(program);
    ASSERT_TRUE(multiplied(program));
    expect_all(print(program), {"buffer t_bytes u8[5, 6, 8]", "constant.i32 128", "select.i32"});
    expect_near(results(program), before, 1e-3);
  }
}

// Who reads what was dequantised still has it.
TEST(MultiplyBytes, OthersReadWhatTheyRead) {
  std::string text = quantised_window(some, "u8", 3, 1);
  text = replace_all(text, "output buffer y\n", "output buffer y\noutput buffer t\n");
  text = replace_all(text, "8, 1] temp", "8, 1] output position 1");
  LoopProgram program = parsed(text);
  const std::vector<Datum> before = results(program);
  ASSERT_TRUE(multiplied(program));
  expect_all(print(program), {"store t[i0, i1, i2] = %14", "store t_bytes[i0, i1, i2] = %10"});
  expect_near(results(program), before, 1e-3);
}

// A zero point that is found in the data may be any whole number; one that is no whole number says so by its type.
TEST(MultiplyBytes, ComputedZeroPoints) {
  const auto with_zero = [](const std::string& type) {
    std::string text =
        replace_all(quantised_window(some, "u8", 3, 1), " mask %13", "");  // nothing is beyond the border
    text = replace_all(text, "input x = buffer x\n", "input x = buffer x\ninput o = buffer o\n");
    text = replace_all(text, "buffer t f32", str("buffer o ", type, "[1] strides [1] input position 1\nbuffer t f32"));
    return replace_all(
        text, "%4 = constant.f32 3.0",
        type == "f32" ? "%4 = load.f32 o[0]" : str("%24 = load.", type, " o[0]\n          %4 = cast.f32 %24"));
  };
  std::string why;
  LoopProgram fraction = parsed(with_zero("f32"));
  EXPECT_FALSE(multiplied(fraction, true, &why));
  EXPECT_TEXT(why, "no whole number");
  LoopProgram whole = parsed(with_zero("i64"));
  const std::vector<Datum> before = results(whole);  // of -74: beyond what u8 has
  ASSERT_TRUE(multiplied(whole, true, &why)) << why;
  expect_all(print(whole), {"load.i64 o[0]", "mul.i64"});
  expect_near(results(whole), before, 1e-3);
}

// Terms that are infinite, of both signs, and 0 times infinity: NaN. Those of a weight are looked at when it is loaded.
TEST(MultiplyBytes, AnInfiniteScaleMakesNaN) {
  std::string text = replace_all(quantised_window(some, "u8", 3, 1), " mask %13", "");
  text = replace_all(text, "input x = buffer x\n", "input x = buffer x\ninput o = buffer o\n");
  text = replace_all(text, "buffer t f32", "buffer o f32[1] strides [1] input position 1\nbuffer t f32");
  text = replace_all(text, "%13 = constant.f32 0.0625", "%13 = load.f32 o[0]");
  const auto outputs = [](const LoopProgram& program, double scale) {
    const QuantisedSizes& s = some;
    std::map<std::string, Tensor> constants = {{"w", Tensor::empty(DType::i8, {s.columns, s.channels, 1, 1})},
                                               {"s", Tensor::empty(DType::f32, {s.columns})},
                                               {"z", Tensor::empty(DType::i64, {s.columns})}};
    for (int64_t i = 0; i < s.columns * s.channels; ++i) constants["w"].set_item(i, Scalar(i % 7 - 3));
    for (int64_t i = 0; i < s.columns; ++i) constants["s"].set_item(i, Scalar(0.5));
    Tensor x = Tensor::empty(DType::f32, {s.lines, s.points, s.channels}), o = Tensor::empty(DType::f32, {1});
    for (int64_t i = 0; i < x.numel(); ++i) x.set_item(i, Scalar(static_cast<double>(i % 11) / 8.0));
    o.set_item(0, Scalar(scale));
    return LoopInterpreter(program, constants, {}).run({{x}, {o}}).outputs;
  };
  LoopProgram program = parsed(text);
  const std::vector<Datum> infinite = outputs(program, INFINITY), finite = outputs(program, 0.25);
  ASSERT_TRUE(multiplied(program));
  expect_near(outputs(program, 0.25), finite, 1e-3);
  const Tensor before = infinite[0].tensor(), after = outputs(program, INFINITY)[0].tensor();
  for (int64_t i = 0; i < after.numel(); ++i) {
    EXPECT_TRUE(std::isnan(before.item(i).as_double()));
    EXPECT_TRUE(std::isnan(after.item(i).as_double()));
  }
}

// Each line has a scale of its own, and those beyond the border have none.
TEST(MultiplyBytes, ScalesOfRowsBeyondTheBorder) {
  const auto with_scales = [](const char* border) {
    std::string text = quantised_window(some, "u8", 3, 1);
    text = replace_all(text, "input x = buffer x\n", "input x = buffer x\ninput o = buffer o\n");
    text = replace_all(text, "buffer t f32", "buffer o f32[5] strides [1] input position 1\nbuffer t f32");
    text = replace_all(text, "%13 = constant.f32 0.0625", "%13 = load.f32 o[i0]");
    return replace_all(text, "i2 + r1 - 0", border);
  };
  std::string why;
  LoopProgram beyond = parsed(with_scales("i2 - 1"));
  EXPECT_FALSE(multiplied(beyond, true, &why));
  EXPECT_TEXT(why, "padding of rows that have scales of their own");
  LoopProgram inside = parsed(with_scales("i2"));
  const std::vector<Datum> before = results(inside);
  ASSERT_TRUE(multiplied(inside, true, &why)) << why;
  expect_near(results(inside), before, 1e-3);
}

TEST(MultiplyBytes, BytesThatAreAddedUpStayAsTheyAre) {
  const std::string text = R"(loops added
buffer x i8[5, 8] strides [8, 1] input position 0
buffer w i8[16, 8] strides [8, 1] constant named "w"
buffer t i8[5, 8] strides [8, 1] temp
buffer y i32[5, 16] strides [16, 1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel copy ops [clone] {
    for i0 in [5] parallel {
      for i1 in [8] parallel {
        %0 = load.i8 x[i0, i1]
        store t[i0, i1] = %0
      }
    }
  }
  kernel add ops [index_add] {
    for i0 in [5] parallel @serial {
      for i1 in [8] parallel {
        %0 = load.i8 x[i0, i1]
        store.add t[0, i1] = %0
      }
    }
  }
  kernel product ops [_int_mm] {
    for i0 in [5] parallel {
      for i1 in [16] parallel {
        %0 = for r0 in [8] reduce sum.i32 {
          %1 = load.i8 t[i0, r0]
          %2 = cast.i32 %1
          %3 = load.i8 w[i1, r0]
          %4 = cast.i32 %3
          %5 = mul.i32 %2, %4
          yield %5
        }
        store y[i0, i1] = %0
      }
    }
  }
}
)";
  std::string why;
  LoopProgram program = parsed(text);
  EXPECT_FALSE(multiplied(program, true, &why));
  EXPECT_TEXT(why, "written by others than kernels");
}

TEST(MultiplyBytes, IntegersOfTheProgramItself) {
  for (const char* byte : {"i8", "u8"}) {
    LoopProgram program = parsed(str("loops integers\nbuffer x ", byte, R"([5, 8] strides [8, 1] input position 0
buffer w i8[16, 8] strides [8, 1] constant named "w"
buffer y i32[5, 16] strides [16, 1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel product ops [_int_mm] {
    for i0 in [5] parallel {
      for i1 in [16] parallel {
        %0 = for r0 in [8] reduce sum.i32 {
          %1 = load.)",
                                     byte, R"( x[i0, r0]
          %2 = cast.i32 %1
          %3 = load.i8 w[i1, r0]
          %4 = cast.i32 %3
          %5 = mul.i32 %2, %4
          yield %5
        }
        store y[i0, i1] = %0
      }
    }
  }
}
)"));
    const std::vector<Datum> before = results(program);
    ASSERT_TRUE(multiplied(program));
    if (byte[0] == 'i') expect_all(print(program), {"kernel bytes_of_x", "load.u8 x_bytes[i0, r0]"});
    expect_near(results(program), before, 0);
  }
}

TEST(MultiplyBytes, SaysWhatItLeaves) {
  std::string why;
  LoopProgram zeros = parsed(quantised_window(some, "u8", 3, 1));
  EXPECT_FALSE(multiplied(zeros, false, &why));
  EXPECT_TEXT(why, "the weight's zero point is not 0");
  LoopProgram odd = parsed(quantised_window({5, 6, 6, 16}, "u8", 3, 3));
  EXPECT_FALSE(multiplied(odd, true, &why));
  EXPECT_TEXT(why, "its terms are no fours");
  LoopProgram row = parsed(quantised_window({1, 1, 8, 16}, "u8", 3, 1));
  EXPECT_FALSE(multiplied(row, true, &why));
  EXPECT_TEXT(why, "one row");
  LoopProgram other = parsed(replace_all(quantised_window(some, "u8", 3, 1), "%11 = cast.f32 %10", "%11 = sin.f32 %9"));
  EXPECT_FALSE(multiplied(other, true, &why));
  EXPECT_TEXT(why, "was not quantised to bytes");
  // A zero point between two steps, beyond the bytes, and bytes that something other than a number was made of.
  const std::string plain = quantised_window(some, "u8", 3, 1);
  LoopProgram half = parsed(replace_all(plain, "%4 = constant.f32 3.0", "%4 = constant.f32 2.5"));
  EXPECT_FALSE(multiplied(half, true, &why));
  EXPECT_TEXT(why, "no whole number");
  LoopProgram far = parsed(replace_all(plain, "%4 = constant.f32 3.0", "%4 = constant.f32 300.0"));
  EXPECT_FALSE(multiplied(far, true, &why));
  EXPECT_TEXT(why, "no byte");
  LoopProgram flags =
      parsed(replace_all(plain, "%11 = cast.f32 %10", "%24 = cast.bool %10\n          %11 = cast.f32 %24"));
  EXPECT_FALSE(multiplied(flags, true, &why));
  EXPECT_TEXT(why, "was not quantised to bytes");
  LoopProgram weights =
      parsed(replace_all(plain, "%17 = cast.i64 %16", "%24 = cast.bool %16\n                %17 = cast.i64 %24"));
  EXPECT_FALSE(multiplied(weights));
  Log log;
  LoopProgram none = parsed(quantised_window(some, "u8", 3, 1));
  EXPECT_FALSE(multiply_bytes(none, Target(), log, [](const std::string&) { return true; }));
}

}  // namespace
}  // namespace kiln::loops
