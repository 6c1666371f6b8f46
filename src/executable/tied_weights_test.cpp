// Two names of one tensor are one constant: whoever updates one of them updates what the program reads.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "base/file.h"
#include "compile/compile.h"
#include "custom/dlpack.h"
#include "graph/graph.h"
#include "kiln/kiln.h"
#include "ops/op_record.h"

namespace kiln {
namespace {

// As an export of a module with tied weights has it: both operators read one of the two inputs.
constexpr const char* tied_graph = R"(program "tied"
constant "emb.weight": f32[40, 24]
constant "head.weight": f32[40, 24]
constant "part": f32[8, 24]
graph main {
  input %p_emb: f32[40, 24] = parameter "emb.weight"
  input %p_head: f32[40, 24] = parameter "head.weight"
  input %part: f32[8, 24] = parameter "part"
  input %i: i64[5] = user
  %rows: f32[5, 24] = aten.embedding.default(weight=%p_head, indices=%i)
  %y: f32[5, 40] = aten.linear.default(input=%rows, weight=%p_head)
  %z: f32[5, 8] = aten.linear.default(input=%rows, weight=%part)
  output %y = user
  output %z = user
}
)";

Tensor filled(float first) {
  Tensor t = Tensor::empty(DType::f32, {40, 24});
  for (int64_t i = 0; i < t.numel(); ++i) t.as<float>()[i] = first + static_cast<float>(i % 13) * 0.125f;
  return t;
}

Program tied_program() {
  const Tensor shared = filled(0);
  Tensor part = shared;  // some rows of it: memory in common, but another tensor
  part.sizes = {8, 24}, part.offset = 24;
  Program program = parse_program(tied_graph, {{"emb.weight", shared}, {"head.weight", shared}, {"part", part}});
  resolve_operators(program.graph, {});
  return program;
}

class TiedWeights : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    Settings settings(Phase::compile);
    if (*GetParam()) settings.set(GetParam(), std::string(GetParam()) == "freezing" ? "1" : "0");
    CompileOptions options;
    options.settings = &settings;
    const std::string path = join_path(folder_.path(), "tied.kiln.pt2");
    compile(tied_program(), path, options);
    kiln_load_options load{};
    load.struct_size = sizeof load, load.device_index = -1, load.ignore_environment = 1;
    ASSERT_EQ(kiln_load(path.c_str(), &load, &model_), KILN_OK) << kiln_last_error();
    ASSERT_EQ(kiln_instance_create(model_, &instance_), KILN_OK) << kiln_last_error();
    if (without_weights()) {
      ASSERT_EQ(update({{"part", part_of(filled(0))}}), KILN_OK) << kiln_last_error();
    }
  }
  void TearDown() override { kiln_instance_free(instance_), kiln_model_free(model_); }
  static bool without_weights() { return std::strstr(GetParam(), "package_constants") != nullptr; }
  static Tensor part_of(const Tensor& whole) {
    Tensor part = whole;
    part.sizes = {8, 24}, part.offset = 24;
    return part.clone();
  }

  kiln_status update(const std::vector<std::pair<const char*, Tensor>>& values, uint32_t flags = 0) {
    std::vector<const char*> names;
    std::vector<std::unique_ptr<DLPackView>> views;
    std::vector<const DLTensor*> tensors;
    for (const auto& [name, tensor] : values) {
      names.push_back(name), views.push_back(std::make_unique<DLPackView>(tensor));
      tensors.push_back(views.back()->get());
    }
    return kiln_constants_update(model_, names.data(), tensors.data(), names.size(), flags);
  }

  // Output 0: what an embedding and a product with these weights give.
  void expect_runs_with(const Tensor& weight) {
    Tensor rows = Tensor::empty(DType::i64, {5});
    for (int64_t r = 0; r < 5; ++r) rows.as<int64_t>()[r] = 7 * r + 1;
    DLPackView view(rows);
    kiln_value in{}, out[2] = {};
    in.kind = KILN_TENSOR, in.as.tensor = view.get();
    ASSERT_EQ(kiln_run(instance_, &in, 1, out, 2), KILN_OK) << kiln_last_error();
    const auto* got = static_cast<const float*>(out[0].as.tensor->data);
    const float* w = weight.as<float>();
    int wrong = 0;
    for (int64_t r = 0; r < 5; ++r)
      for (int64_t c = 0; c < 40; ++c) {
        double sum = 0;
        for (int64_t k = 0; k < 24; ++k) sum += double{w[(7 * r + 1) * 24 + k]} * double{w[c * 24 + k]};
        wrong += std::abs(sum - double{got[r * 40 + c]}) > 1e-4 * (1 + std::abs(sum));
      }
    EXPECT_EQ(wrong, 0);
    for (kiln_value& value : out) kiln_value_clear(&value);
    for (const char* name : {"emb.weight", "head.weight"}) {
      Tensor read = Tensor::empty(DType::f32, {40, 24});
      ASSERT_EQ(kiln_constant_read(instance_, name, DLPackView(read).get()), KILN_OK) << kiln_last_error();
      EXPECT_EQ(std::memcmp(read.data(), weight.data(), 40 * 24 * 4), 0) << name;
    }
  }

  TemporaryDirectory folder_{"kiln-test"};
  kiln_model* model_ = nullptr;
  kiln_instance* instance_ = nullptr;
};

TEST_P(TiedWeights, EitherNameChangesBoth) {
  if (!without_weights()) expect_runs_with(filled(0));
  const Tensor one = filled(0.5f), other = filled(-0.75f), third = filled(0.25f);
  ASSERT_EQ(update({{"head.weight", one}}), KILN_OK) << kiln_last_error();
  expect_runs_with(one);
  ASSERT_EQ(update({{"emb.weight", other}}), KILN_OK) << kiln_last_error();
  expect_runs_with(other);
  ASSERT_EQ(update({{"emb.weight", third}, {"head.weight", third.clone()}}), KILN_OK) << kiln_last_error();
  expect_runs_with(third);
  // All constants: one of the names is enough.
  ASSERT_EQ(update({{"head.weight", one}, {"part", part_of(one)}}, KILN_UPDATE_ALL), KILN_OK) << kiln_last_error();
  expect_runs_with(one);
}

TEST_P(TiedWeights, DifferentValuesAreRefusedAndChangeNothing) {
  const Tensor one = filled(0.5f);
  ASSERT_EQ(update({{"emb.weight", one}}), KILN_OK) << kiln_last_error();
  EXPECT_EQ(update({{"emb.weight", filled(1)}, {"head.weight", filled(2)}}), KILN_ERROR_ARGUMENT);
  EXPECT_STREQ(kiln_last_error_code(), "K0797");
  EXPECT_NE(std::string(kiln_last_error()).find("emb.weight and head.weight"), std::string::npos) << kiln_last_error();
  expect_runs_with(one);
}

TEST_P(TiedWeights, InactiveAndBorrowed) {
  Tensor one = filled(0.5f), other = filled(-0.75f);
  ASSERT_EQ(update({{"emb.weight", one}}), KILN_OK) << kiln_last_error();
  ASSERT_EQ(update({{"head.weight", other}}, KILN_UPDATE_INACTIVE | KILN_UPDATE_BORROW), KILN_OK) << kiln_last_error();
  expect_runs_with(one);
  ASSERT_EQ(kiln_constants_swap(model_), KILN_OK);
  expect_runs_with(other);
}

TEST_P(TiedWeights, TheInterfaceSaysWhichNamesAreOne) {
  std::map<std::string, std::string> found;
  for (size_t i = 0; i < kiln_constant_count(model_); ++i) {
    kiln_constant spec{};
    spec.struct_size = sizeof spec;
    ASSERT_EQ(kiln_constant_spec(model_, i, &spec), KILN_OK);
    found[spec.name] = spec.same_as ? spec.same_as : "";
  }
  EXPECT_EQ(found,
            (std::map<std::string, std::string>{{"emb.weight", ""}, {"head.weight", "emb.weight"}, {"part", ""}}));
}

// Weights that the caller changes in place: no run mixes what was prepared from the old ones with the new.
TEST_P(TiedWeights, BorrowedValuesThatChangeAreGivenAgain) {
  Tensor mine = filled(0.5f);
  ASSERT_EQ(update({{"emb.weight", mine}}, KILN_UPDATE_BORROW), KILN_OK) << kiln_last_error();
  expect_runs_with(mine);
  for (int64_t i = 0; i < mine.numel(); ++i) mine.as<float>()[i] *= 3;
  Tensor rows = Tensor::empty(DType::i64, {5});
  std::memset(rows.data(), 0, 40);
  DLPackView view(rows);
  kiln_value in{}, out[2] = {};
  in.kind = KILN_TENSOR, in.as.tensor = view.get();
  EXPECT_EQ(kiln_run(instance_, &in, 1, out, 2), KILN_ERROR_ARGUMENT);
  EXPECT_STREQ(kiln_last_error_code(), "K0798");
  ASSERT_EQ(update({{"emb.weight", mine}}, KILN_UPDATE_BORROW), KILN_OK) << kiln_last_error();
  expect_runs_with(mine);
}

INSTANTIATE_TEST_SUITE_P(Packages, TiedWeights, testing::Values("", "freezing", "aot_inductor.package_constants_in_so"),
                         [](const auto& named) {
                           const std::string key = named.param;
                           return key.empty() ? "plain" : key == "freezing" ? "frozen" : "without_weights";
                         });

}  // namespace
}  // namespace kiln
