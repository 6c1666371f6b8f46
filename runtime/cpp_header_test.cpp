// kiln.hpp as an embedder uses it: names, element types, spans, results instead of exceptions.
#include <cmath>
#include <cstdlib>
#include <map>

#include "kiln/kiln.hpp"
#include "runtime/mlp_test.h"

namespace kiln::runtime {
namespace {

#define EXPECT_FAILS(result, code_, part)                                                  \
  do {                                                                                     \
    const auto& made = (result);                                                           \
    ASSERT_FALSE(made.has_value());                                                        \
    EXPECT_EQ(made.error().code, code_);                                                   \
    EXPECT_NE(made.error().message.find(part), std::string::npos) << made.error().message; \
  } while (false)

class CppHeader : public MlpTest {
 protected:
  void SetUp() override {
    MlpTest::SetUp();
    if (HasFatalFailure()) return;
    bytes = mlp.bytes();
  }
  std::string bytes;
};

TEST_F(CppHeader, RunsByName) {
  kiln::Model model(bytes.data(), bytes.size());
  ASSERT_EQ(model.input_names(), std::vector<std::string>{"x"});
  ASSERT_EQ(model.output_names().size(), 1u);
  const std::string name = model.output_names()[0];
  EXPECT_EQ(name, model.output(0).name);
  kiln::Instance instance(model);
  kiln::Outputs outputs = instance.run_by_name({{"x", kiln::tensor(x, {8, 10})}});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(&outputs[name], &outputs[0]);
  EXPECT_EQ(outputs.names(), model.output_names());
  const std::vector<float> expected = mlp.expected(x);
  const kiln::Span<float> y = outputs[name].elements<float>();
  ASSERT_EQ(y.size(), expected.size());
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 1e-5);
  EXPECT_FAILS(outputs.try_at("z"), "K0754", "there is no output 'z'; the model's are " + name);
  EXPECT_FAILS(instance.try_run_by_name(std::vector<kiln::NamedValue>{}), "K0753", "input 'x' is missing");
  EXPECT_FAILS(instance.try_run_by_name({{"X", kiln::tensor(x, {8, 10})}}), "K0753",
               "there is no input 'X'; the model's are x");
  EXPECT_FAILS(instance.try_run_by_name({{"x", kiln::tensor(x, {8, 10})}, {"x", kiln::tensor(x, {8, 10})}}), "K0753",
               "given twice");
}

TEST_F(CppHeader, WhatWasMovedFromGivesErrors) {
  kiln::Model model(bytes.data(), bytes.size());
  const kiln::Model other = std::move(model);
  EXPECT_EQ(other.input_names().size(), 1u);
  // NOLINTBEGIN: use after move is what is tested
  EXPECT_TRUE(model.input_names().empty());
  EXPECT_TRUE(model.output_names().empty());
  EXPECT_EQ(model.name(), "");
  EXPECT_EQ(model.input_count(), 0u);
  EXPECT_EQ(model.metadata("author"), nullptr);
  EXPECT_FALSE(model.try_input(0));
  EXPECT_FALSE(model.try_set_threads(2));
  EXPECT_FALSE(model.try_self_test());
  EXPECT_FALSE(kiln::Instance::try_create(model));
  kiln::Outputs outputs({}, std::make_shared<kiln::Names>());
  const kiln::Outputs taken = std::move(outputs);
  EXPECT_TRUE(outputs.names().empty());
  EXPECT_FALSE(outputs.try_at("y"));
  // NOLINTEND
}

TEST_F(CppHeader, OutputsOfOneNameAreAskedForByNumber) {
  auto names = std::make_shared<kiln::Names>();
  names->outputs = {"y", "y", "z"};
  std::vector<kiln::Value> values;
  for (int i = 0; i < 3; ++i) values.emplace_back(i);
  kiln::Outputs outputs(std::move(values), names);
  EXPECT_FAILS(outputs.try_at("y"), "K0754", "several outputs are called 'y'");
  EXPECT_EQ(outputs["z"].integer(), 2);
  EXPECT_EQ(outputs[1].integer(), 1);
}

TEST_F(CppHeader, WritesToTheCallersMemory) {
  kiln::Model model(bytes.data(), bytes.size());
  kiln::Instance instance(model);
  std::vector<float> y(8);
  std::vector<kiln::Value> inputs, outputs;
  inputs.push_back(kiln::tensor(x, {8, 10}));
  outputs.push_back(kiln::tensor(y, {8, 1}));
  instance.run_into(inputs, outputs);
  EXPECT_EQ(outputs[0].data<float>(), y.data());
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], mlp.expected(x)[i], 1e-5);
  // What Kiln allocated is not taken for the caller's: a second run allocates again.
  outputs.clear();
  outputs.resize(1);
  instance.run_into(inputs, outputs);
  instance.run_into(inputs, outputs);
  EXPECT_NE(outputs[0].raw().owner, nullptr);
  EXPECT_NEAR(outputs[0].data<float>()[0], mlp.expected(x)[0], 1e-5);
}

TEST_F(CppHeader, DataIsOfTheTensorsType) {
  const kiln::Value value = kiln::tensor(x, {8, 10});
  EXPECT_EQ(value.dtype(), kiln::element_type<float>());
  EXPECT_EQ(value.dtype().name(), "float32");
  EXPECT_EQ(value.data<float>(), x.data());
  EXPECT_EQ(value.data<const float>(), x.data());
  EXPECT_FAILS(value.try_data<double>(), "K0750", "elements of type float32, not float64");
  EXPECT_FAILS(value.try_data<int32_t>(), "K0750", "float32, not int32");  // of the same size
  EXPECT_FAILS(value.try_data<uint8_t>(), "K0750", "float32, not uint8");
  EXPECT_EQ(value.elements<std::byte>().size(), x.size() * sizeof(float));
  EXPECT_THROW(value.data<int32_t>(), kiln::Exception);
  std::vector<kiln::bfloat16> b(3);
  std::vector<kiln::float16> h(3);
  std::vector<std::complex<float>> c(3);
  EXPECT_EQ(kiln::tensor(b, {3}).dtype().name(), "bfloat16");
  EXPECT_EQ(kiln::tensor(h, {3}).dtype().name(), "float16");
  EXPECT_EQ(kiln::tensor(c, {3}).dtype().name(), "complex64");
  EXPECT_FAILS(kiln::tensor(b, {3}).try_data<kiln::float16>(), "K0750", "bfloat16, not float16");
}

TEST_F(CppHeader, ElementsLieOneAfterTheOther) {
  EXPECT_EQ(kiln::tensor(x, {8, 10}).elements<float>().size(), 80u);
  const kiln::Value turned = kiln::tensor(x.data(), {10, 8}, {1, 10});
  EXPECT_FALSE(turned.is_contiguous());
  EXPECT_FAILS(turned.try_elements<float>(), "K0751", "one after the other");
  EXPECT_EQ(turned.strides(), (std::vector<int64_t>{1, 10}));
  EXPECT_EQ(kiln::tensor(x, {2, 4, 10}).strides(), (std::vector<int64_t>{40, 10, 1}));
  EXPECT_TRUE(kiln::tensor(x.data(), {8, 1, 10}, {10, 77, 1}).is_contiguous());
  EXPECT_TRUE(kiln::tensor(x.data(), {0, 10}, {1, 1}).is_contiguous());
  EXPECT_EQ(kiln::tensor(x.data(), {0, 10}).elements<float>().size(), 0u);
  float scalar = 3;
  EXPECT_EQ(kiln::tensor(&scalar, {}).elements<float>()[0], 3);
}

TEST_F(CppHeader, ContainersHaveTheLengthOfTheSizes) {
  EXPECT_FAILS(kiln::try_tensor(x, {8, 11}), "K0752", "80 elements");
  EXPECT_FAILS(kiln::try_tensor(x, {-8, -10}), "K0752", "80 elements");
  EXPECT_FAILS(kiln::try_tensor(x, {int64_t{1} << 62, 4, 80}), "K0752", "80 elements");
  EXPECT_THROW(kiln::tensor(x, {79}), kiln::Exception);
  const std::array<int64_t, 2> ids = {4, 5};
  EXPECT_EQ(kiln::tensor(ids, {2}).dtype().name(), "int64");
  EXPECT_TRUE(kiln::try_tensor(ids, {2, 1}).has_value());
}

TEST_F(CppHeader, ResultsInsteadOfExceptions) {
  EXPECT_FAILS(kiln::Model::try_load("/nowhere/model.kiln.pt2"), "K0101", "/nowhere");
  EXPECT_FAILS(kiln::Model::try_load("no package", 10), "K0520", "");
  auto model = kiln::Model::try_load(bytes.data(), bytes.size());
  ASSERT_TRUE(model) << model.error().message;
  auto instance = kiln::Instance::try_create(*model);
  ASSERT_TRUE(instance);
  auto outputs = instance->try_run({kiln::tensor(x, {8, 10})});
  ASSERT_TRUE(outputs);
  EXPECT_NEAR((*outputs)[0].try_data<float>().value()[0], mlp.expected(x)[0], 1e-5);
  const auto refused = instance->try_run({kiln::tensor(x, {10, 8})});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, KILN_ERROR_INPUT);
  EXPECT_THROW(refused.value(), kiln::Exception);
  EXPECT_FAILS((*outputs)[0].try_integer(), "K0660", "no whole number");
  EXPECT_EQ((*outputs)[0].try_integer().value_or(7), 7);
  EXPECT_FAILS(model->try_set_threads(0), "K0660", "threads");
  EXPECT_FAILS(model->try_input(7), "K0660", "none with this index");
  EXPECT_TRUE(model->try_set_threads(1));
}

// Every 16-bit pattern comes back, and what is between two of them rounds as the compiler's own types do.
TEST_F(CppHeader, SixteenBitFloats) {
  for (uint32_t i = 0; i < 65536; ++i) {
    kiln::float16 h;
    kiln::bfloat16 b;
    h.bits = b.bits = static_cast<uint16_t>(i);
    const float from_h = h, from_b = b;
    const float again_h = kiln::float16(from_h);
    EXPECT_TRUE(std::isnan(from_h) ? std::isnan(again_h) : kiln::float16(from_h).bits == i) << i;
    const float again_b = kiln::bfloat16(from_b);
    EXPECT_TRUE(std::isnan(from_b) ? std::isnan(again_b) : kiln::bfloat16(from_b).bits == i) << i;
#if defined(__FLT16_MAX__)
    _Float16 own;
    std::memcpy(&own, &h, sizeof own);
    EXPECT_TRUE(std::isnan(from_h) || from_h == static_cast<float>(own)) << i;
#endif
  }
  const std::map<float, uint16_t> halves = {{65504, 0x7bff},
                                            {65519.996f, 0x7bff},
                                            {65520, 0x7c00},
                                            {1.00048828125f, 0x3c00},
                                            {1.00146484375f, 0x3c02},
                                            {0x1p-24f, 1},
                                            {0x1p-25f, 0},
                                            {0x1.8p-24f, 2},
                                            {-2, 0xc000}};
  for (const auto& [value, bits] : halves) EXPECT_EQ(kiln::float16(value).bits, bits) << value;
#if defined(__FLT16_MAX__)
  uint32_t state = 1;
  for (int i = 0; i < 1000000; ++i) {
    state = state * 1664525u + 1013904223u;
    const float value = kiln::bits::cast<float>(state);
    if (std::isnan(value)) continue;
    const auto own = static_cast<_Float16>(value);
    uint16_t bits;
    std::memcpy(&bits, &own, sizeof bits);
    ASSERT_EQ(kiln::float16(value).bits, bits) << value;
  }
#endif
  const std::map<float, uint16_t> truncated = {{1.00390625f, 0x3f80}, {1.01171875f, 0x3f82}, {3.4e38f, 0x7f80}};
  for (const auto& [value, bits] : truncated) EXPECT_EQ(kiln::bfloat16(value).bits, bits) << value;
}

// The headers with other standards of C++, and where exceptions are switched off: a program is compiled and run.
TEST_F(CppHeader, CompilesWithoutExceptionsAndInEveryStandard) {
#ifdef KILN_SANITIZED
  GTEST_SKIP() << "a plain program cannot load a library that was built with a sanitizer";
#endif
  const char* source = getenv("KILN_SOURCE_DIR");
  const char* build = getenv("KILN_BINARY_DIR");
  ASSERT_TRUE(source && build);
  TemporaryDirectory folder;
  const std::string program = join_path(folder.path(), "program"), package = join_path(folder.path(), "mlp.kiln.pt2");
  write_file_atomic(package, bytes);
  write_file_atomic(program + ".cpp", R"cpp(
#include "kiln/kiln.hpp"
#include <cstdio>
    int main(int, char** argv) {
      auto model = kiln::Model::try_load(argv[1]);
      if (!model) return std::fprintf(stderr, "%s\n", model.error().message.c_str()), 1;
      auto instance = kiln::Instance::try_create(*model);
      std::vector<float> x(80);
      auto input = kiln::try_tensor(x, {8, 10});
      if (!instance || !input) return 2;
      auto outputs = instance->try_run_by_name({{"x", std::move(*input)}});
      if (!outputs) return std::fprintf(stderr, "%s\n", outputs.error().message.c_str()), 3;
      auto y = outputs->try_at(model->output_names()[0]);
      if (!y || !(*y)->try_elements<float>() || (*y)->dtype() != kiln::element_type<float>()) return 4;
      if (instance->try_run({kiln::tensor(x.data(), {10, 8})})) return 5;
      if ((*y)->try_data<double>() || (*y)->sizes() != std::vector<int64_t>{8, 1}) return 6;
      return (*y)->try_elements<float>()->size() == 8 ? 0 : 7;
    }
  )cpp");
  for (const char* flags : {"-std=c++17 -fno-exceptions -fno-rtti", "-std=c++20 -D KILN_NO_EXCEPTIONS", "-std=c++23"}) {
    const std::string compile =
        str(KILN_CXX_COMPILER, " ", flags, " -Wall -Wextra -Wconversion -Wshadow -Werror ", program, ".cpp -I", source,
            "/include -L", build, "/lib -lkiln_runtime -Wl,-rpath,", build, "/lib -o ", program);
    ASSERT_EQ(std::system(compile.c_str()), 0) << flags;
    EXPECT_EQ(std::system(str(program, " ", package).c_str()), 0) << flags;
  }
}

}  // namespace
}  // namespace kiln::runtime
