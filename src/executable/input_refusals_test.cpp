// Inputs that do not fit, given to all three backends: each refuses them with the same code and the same words, and
// accepts what the others accept.
#include <gtest/gtest.h>

#include "executable/executable.h"
#include "ops/op_record.h"

namespace kiln {
namespace {

const std::vector<Backend> refusing_backends = {Backend::interpret, Backend::loops, Backend::compiled};

Datum zeros(const std::vector<int64_t>& sizes, DType dtype = DType::f32) { return {Tensor::empty(dtype, sizes)}; }
Datum number(int64_t value) { return {Scalar(value)}; }

class InputRefusals : public testing::Test {
 protected:
  void given(const std::string& head, const std::string& body) {
    program_ = parse_program(str("program \"refusals\"\n", head, "graph main {\n", body, "}\n"));
    resolve_operators(program_.graph, {});
    executables_.clear();
    for (Backend backend : refusing_backends) {
      ExecutableOptions options;
      options.backend = backend;
      executables_.push_back(make_executable(program_, options));
    }
  }
  // What they all say, "K0614 Error: …"; "" where they accept.
  std::string refusal(const std::vector<Datum>& inputs) {
    std::string first;
    for (size_t i = 0; i < refusing_backends.size(); ++i) {
      std::string text;
      try {
        executables_[i]->call(inputs);
      } catch (const Error& error) {
        text = str(error.code(), " ", error.message());
      }
      if (i == 0) first = text;
      EXPECT_EQ(text, first) << backend_name(refusing_backends[i]);
    }
    return first;
  }
  Program program_;
  std::vector<std::unique_ptr<Executable>> executables_;
};

TEST_F(InputRefusals, NumberKindDtypeAndRank) {
  given("symbol s0 [2, 8] hint 4\n", R"(
  input %x: f32[s0, 3] = user
  input %n: int {s0} = user
  output %x = user
)");
  EXPECT_EQ(refusal({zeros({4, 3}), number(4)}), "");
  EXPECT_EQ(refusal({zeros({4, 3})}), "K0610 Error: expected 2 inputs (x, n), but got 1");
  EXPECT_EQ(refusal({number(3), number(4)}),
            "K0611 Error: input_handles[0]: expected: a tensor, but got: 3 (input 'x')");
  EXPECT_EQ(refusal({{Scalar(true)}, number(4)}),
            "K0611 Error: input_handles[0]: expected: a tensor, but got: True (input 'x')");
  EXPECT_EQ(refusal({{}, number(4)}), "K0611 Error: input_handles[0]: expected: a tensor, but got: None (input 'x')");
  EXPECT_EQ(refusal({zeros({4, 3}), zeros({})}),
            "K0611 Error: input_handles[1]: expected: an integer, but got: a tensor (input 'n')");
  EXPECT_EQ(refusal({zeros({4, 3}), {Scalar(4.0)}}),
            "K0611 Error: input_handles[1]: expected: an integer, but got: 4.0 (input 'n')");
  EXPECT_EQ(refusal({zeros({4, 3}), {std::string("four")}}),
            "K0611 Error: input_handles[1]: expected: an integer, but got: \"four\" (input 'n')");
  EXPECT_EQ(refusal({zeros({4, 3}, DType::f64), number(4)}),
            "K0614 Error: input_handles[0]: unmatched dtype, expected: 6(float32), but got: 7(float64) (input 'x')");
  EXPECT_EQ(refusal({zeros({4, 3, 1}), number(4)}),
            "K0615 Error: input_handles[0]: unmatched number of dimensions, expected: 2, but got: 3 (input 'x')");
}

TEST_F(InputRefusals, SizesAndRanges) {
  given("symbol s0 [2, 8] hint 4\n", R"(
  input %x: f32[s0, 3] = user
  input %y: f32[s0*2 + 1] = user
  input %n: int {s0} = user
  output %x = user
)");
  EXPECT_EQ(refusal({zeros({4, 3}), zeros({9}), number(4)}), "");
  EXPECT_EQ(refusal({zeros({4, 5}), zeros({9}), number(4)}),
            "K0616 Error: input_handles[0]: unmatched dim value at 1, expected: 3, but got: 5 (input 'x')");
  EXPECT_EQ(refusal({zeros({9, 3}), zeros({19}), number(9)}),
            "K0617 Error: input_handles[0]: dim value is too large at 0, expected it to be <= 8, but got: 9 (s0) "
            "(input 'x')");
  EXPECT_EQ(refusal({zeros({1, 3}), zeros({3}), number(1)}),
            "K0617 Error: input_handles[0]: dim value is too small at 0, expected it to be >= 2, but got: 1 (s0) "
            "(input 'x')");
  EXPECT_EQ(refusal({zeros({4, 3}), zeros({8}), number(4)}),
            "K0618 Error: input_handles[1]: unmatched dim value at 0, expected: 9 (s0*2 + 1; s0 = 4 from "
            "input_handles[0] 'x' dim 0), but got: 8 (input 'y')");
  EXPECT_EQ(refusal({zeros({4, 3}), zeros({9}), number(5)}),
            "K0618 Error: input_handles[2]: unmatched value, expected: 4 (s0; s0 = 4 from input_handles[0] 'x' dim 0), "
            "but got: 5 (input 'n')");
  // Several at once: the same one is named.
  EXPECT_EQ(refusal({zeros({9, 5}), zeros({8}), number(5)}).substr(0, 5), "K0617");
  EXPECT_EQ(refusal({zeros({4, 5}), zeros({8}), number(5)}).substr(0, 5), "K0616");
}

TEST_F(InputRefusals, SizesThatGiveTheirSymbolOnlyByAFormula) {
  given("symbol s0 [2, 8] hint 4\nsymbol s1 [1, 64] hint 2\n", R"(
  input %x: f32[s0*2 + 1] = user
  input %y: f32[s0 + s1*3] = user
  output %x = user
)");
  EXPECT_EQ(refusal({zeros({9}), zeros({10})}), "");
  EXPECT_EQ(refusal({zeros({8}), zeros({10})}),
            "K0616 Error: input_handles[0]: unmatched dim value at 0, expected: s0*2 + 1 with a whole number for s0, "
            "but got: 8 (input 'x')");
  EXPECT_EQ(refusal({zeros({3}), zeros({4})}),
            "K0617 Error: input_handles[0]: dim value is too small at 0, expected s0 to be >= 2, but got: 3 (s0 = 1 in "
            "s0*2 + 1) (input 'x')");
  EXPECT_EQ(refusal({zeros({9}), zeros({11})}).substr(0, 5), "K0616");
  EXPECT_EQ(refusal({zeros({9}), zeros({4})}).substr(0, 5), "K0617");  // s1 = 0
}

TEST_F(InputRefusals, Relations) {
  given("symbol s0 [2, 64] hint 4\nsymbol s1 [2, 64] hint 8\nguard {s1 % s0 == 0} because \"blocks\"\n", R"(
  input %x: f32[s0] = user
  input %y: f32[s1] = user
  output %x = user
)");
  EXPECT_EQ(refusal({zeros({4}), zeros({8})}), "");
  const std::string text = refusal({zeros({4}), zeros({9})});
  EXPECT_EQ(text.substr(0, 38), "K0619 Error: the inputs do not satisfy") << text;
  EXPECT_NE(text.find("(blocks; s0 = 4 from input_handles[0] 'x' dim 0, s1 = 9 from input_handles[1] 'y' dim 0)"),
            std::string::npos)
      << text;
}

TEST_F(InputRefusals, Constants) {
  given("", R"(
  input %x: f32[2] = user
  input %i: none = constant_value value 3
  input %f: none = constant_value value 2.0
  input %b: none = constant_value value true
  input %s: none = constant_value value "sum"
  input %none: none = constant_value value None
  output %x = user
)");
  const std::vector<Datum> good = {zeros({2}), number(3), {Scalar(2.0)}, {Scalar(true)}, {std::string("sum")}, {}};
  EXPECT_EQ(refusal(good), "");
  const auto with = [&](size_t at, const Datum& value) {
    std::vector<Datum> inputs = good;
    inputs[at] = value;
    return refusal(inputs);
  };
  EXPECT_EQ(with(1, number(4)), "K0612 Error: input_handles[1]: unmatched value, expected: 3, but got: 4 (input 'i')");
  EXPECT_EQ(with(1, {Scalar(3.0)}).substr(0, 5), "K0612");
  EXPECT_EQ(with(1, {}).substr(0, 5), "K0612");
  EXPECT_EQ(with(2, number(2)), "");
  EXPECT_EQ(with(2, {Scalar(2.5)}),
            "K0612 Error: input_handles[2]: unmatched value, expected: 2.0, but got: 2.5 (input 'f')");
  EXPECT_EQ(with(3, number(1)).substr(0, 5), "K0612");
  EXPECT_EQ(with(3, {Scalar(false)}),
            "K0612 Error: input_handles[3]: unmatched value, expected: True, but got: False (input 'b')");
  EXPECT_EQ(with(4, {std::string("mean")}),
            "K0612 Error: input_handles[4]: unmatched value, expected: \"sum\", but got: \"mean\" (input 's')");
  EXPECT_EQ(with(5, number(0)),
            "K0612 Error: input_handles[5]: unmatched value, expected: None, but got: 0 (input 'none')");
  EXPECT_EQ(with(5, zeros({1})).substr(0, 5), "K0612");
}

// Tensors of another device do not get as far as the runtime through this interface; runtime/run_test.cpp has it.
TEST_F(InputRefusals, Devices) {
  given("", "  input %x: f32[2] = user\n  output %x = user\n");
  Tensor elsewhere = Tensor::empty(DType::f32, {2});
  elsewhere.device.type = DeviceType::cuda;
  for (size_t i = 0; i < 2; ++i) {
    try {
      executables_[i]->call({Datum{elsewhere}});
      ADD_FAILURE() << backend_name(refusing_backends[i]);
    } catch (const Error& error) {
      EXPECT_EQ(error.message(),
                "Error: input_handles[0]: unmatched device type, expected: 0(cpu), but got: 1(cuda) (input 'x')");
    }
  }
}

}  // namespace
}  // namespace kiln
