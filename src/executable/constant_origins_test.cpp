// Whose a constant is: an update of all is one of the model's state dict, and what the compiler computed is nobody's.
#include <gtest/gtest.h>

#include <cstring>

#include "base/file.h"
#include "compile/compile.h"
#include "custom/dlpack.h"
#include "graph/graph.h"
#include "kiln/kiln.h"
#include "ops/op_record.h"

namespace kiln {
namespace {

// A weight, a tensor that stands in the program, a buffer that is not saved, and a sine that compiling computes.
constexpr const char* graph = R"(program "origins"
constant "weight": f32[8]
constant "lifted": f32[8]
constant "mask": f32[8]
graph main {
  input %w: f32[8] = parameter "weight"
  input %m: f32[8] = buffer "mask" non_persistent
  input %l: f32[8] = constant_tensor "lifted"
  input %x: f32[4, 8] = user
  %n: i64[8] = aten.arange.start_step(start=0, end=8, step=1)
  %f: f32[8] = aten._to_copy.default(self=%n, dtype=f32)
  %s: f32[8] = aten.sin.default(self=%f)
  %a: f32[4, 8] = aten.mul.Tensor(self=%x, other=%w)
  %b: f32[4, 8] = aten.mul.Tensor(self=%a, other=%s)
  %c: f32[4, 8] = aten.add.Tensor(self=%b, other=%l)
  %y: f32[4, 8] = aten.mul.Tensor(self=%c, other=%m)
  output %y = user
}
)";

Tensor eight(float value) {
  Tensor t = Tensor::empty(DType::f32, {8});
  for (int64_t i = 0; i < 8; ++i) t.as<float>()[i] = value;
  return t;
}

class ConstantOrigins : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    Program program = parse_program(graph, {{"weight", eight(2)}, {"lifted", eight(3)}, {"mask", eight(1)}});
    resolve_operators(program.graph, {});
    Settings settings(Phase::compile);
    if (GetParam()) settings.set("freezing", "1");
    CompileOptions options;
    options.settings = &settings;
    const std::string path = join_path(folder_.path(), "origins.kiln.pt2");
    compile(program, path, options);
    kiln_load_options load{};
    load.struct_size = sizeof load, load.device_index = -1, load.ignore_environment = 1;
    ASSERT_EQ(kiln_load(path.c_str(), &load, &model_), KILN_OK) << kiln_last_error();
  }
  void TearDown() override { kiln_model_free(model_); }

  kiln_status update(const char* name, const Tensor& value, uint32_t flags) {
    const DLPackView view(value);
    const DLTensor* tensor = view.get();
    return kiln_constants_update(model_, &name, &tensor, 1, flags);
  }

  TemporaryDirectory folder_{"kiln-test"};
  kiln_model* model_ = nullptr;
};

TEST_P(ConstantOrigins, WhatTheCompilerComputedIsNotInTheList) {
  std::set<std::string> names;
  for (size_t i = 0; i < kiln_constant_count(model_); ++i) {
    kiln_constant spec{};
    spec.struct_size = sizeof spec;
    ASSERT_EQ(kiln_constant_spec(model_, i, &spec), KILN_OK) << kiln_last_error();
    names.insert(spec.name);
  }
  EXPECT_EQ(names, (std::set<std::string>{"lifted", "mask", "weight"}));
}

TEST_P(ConstantOrigins, AllIsTheStateDict) {
  EXPECT_EQ(update("weight", eight(5), KILN_UPDATE_ALL), KILN_OK) << kiln_last_error();
  EXPECT_EQ(update("lifted", eight(5), 0), KILN_OK) << kiln_last_error();
  EXPECT_NE(update("lifted", eight(5), KILN_UPDATE_ALL), KILN_OK);
  EXPECT_STREQ(std::strstr(kiln_last_error(), "lacks"), "lacks weight");
}

INSTANTIATE_TEST_SUITE_P(Packages, ConstantOrigins, testing::Bool());

}  // namespace
}  // namespace kiln
