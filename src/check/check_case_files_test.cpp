#include "check/check_case_files.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "pt2/tensor_files.h"

namespace kiln {
namespace {

class CaseFilesTest : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::vector<Datum>& items, const std::vector<std::string>& names = {}) {
    write_tensor_file(join_path(directory_.path(), name), {items, names});
  }
  void put_text(const std::string& name, const std::string& text) {
    write_file_atomic(join_path(directory_.path(), name), text);
  }
  CaseFiles read() { return read_case_files(directory_.path()); }
  std::string refusal() {
    try {
      read();
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  }
  bool refused_for(const std::string& part) { return refusal().find(part) != std::string::npos; }

  Datum tensor_{Tensor::empty(DType::f32, {2})};
  TemporaryDirectory directory_;
};

TEST_F(CaseFilesTest, ReadsEveryKindOfFile) {
  put("inputs_0.pt", {tensor_});
  put("expected_0.pt", {tensor_, Datum{Scalar(3)}, Datum{}});
  put("mutated_0.pt", {tensor_});
  put("state_0.pt", {tensor_}, {"pos"});
  put("inputs_1.pt", {tensor_});
  put("expected_1.pt", {tensor_});
  put("expected_sequence.pt", {Datum{std::vector<Datum>{tensor_}}, Datum{std::vector<Datum>{tensor_, tensor_}}});
  put("bad_inputs_0.pt", {});
  put_text("case.json", R"({"tolerance": {"rtol": 0.5}, "compare": "shapes", "needs": "cuda", "about": "x"})");
  const CaseFiles files = read();
  EXPECT_FALSE(files.bare);
  ASSERT_EQ(files.calls.size(), 2u);
  EXPECT_EQ(files.calls[0].expected.size(), 3u);
  EXPECT_TRUE(files.calls[0].mutated.has_value());
  ASSERT_TRUE(files.calls[0].state.has_value());
  EXPECT_EQ(files.calls[0].state->count("pos"), 1u);
  EXPECT_FALSE(files.calls[1].mutated.has_value());
  ASSERT_TRUE(files.sequence.has_value());
  EXPECT_EQ((*files.sequence)[1].size(), 2u);
  ASSERT_EQ(files.bad_inputs.size(), 1u);
  EXPECT_EQ(files.bad_inputs[0].name, "bad_inputs_0");
  EXPECT_EQ(files.rtol, 0.5);
  EXPECT_EQ(files.atol, std::nullopt);
  EXPECT_TRUE(files.shapes_only);
  EXPECT_EQ(files.needs, std::vector<std::string>{"cuda"});
}

TEST_F(CaseFilesTest, InputsNeedExpectedValues) {
  put("inputs_0.pt", {tensor_});
  EXPECT_TRUE(refused_for("expected_0.pt: is missing beside inputs_0.pt")) << refusal();
}

TEST_F(CaseFilesTest, AGapInTheNumbersIsNotPassedOver) {
  put("inputs_0.pt", {tensor_});
  put("expected_0.pt", {tensor_});
  put("inputs_2.pt", {tensor_});
  put("expected_2.pt", {tensor_});
  EXPECT_TRUE(refused_for("belongs to no call of this case")) << refusal();
}

TEST_F(CaseFilesTest, NothingToRunIsRefused) { EXPECT_TRUE(refused_for("inputs_0.pt: is missing")) << refusal(); }

TEST_F(CaseFilesTest, UnknownKeysOfCaseJsonAreRefused) {
  put("inputs_0.pt", {tensor_});
  put("expected_0.pt", {tensor_});
  put_text("case.json", R"({"tolerance": {"rtol": -0.5}})");
  EXPECT_TRUE(refused_for("rtol: a tolerance is 0 or more, not -0.5")) << refusal();
  put_text("case.json", R"({"tolerance": {"rtol": 0, "atol": -1}})");
  EXPECT_TRUE(refused_for("atol: a tolerance is 0 or more, not -1")) << refusal();
  put_text("case.json", R"({"tolerances": {}})");
  EXPECT_TRUE(refused_for("the key \"tolerances\" is not known")) << refusal();
  put_text("case.json", R"({"compare": "values"})");
  EXPECT_TRUE(refused_for("is not known")) << refusal();
}

TEST(CaseFiles, ABareModel) {
  const CaseFiles files = read_case_files("some/model.pt2");
  EXPECT_TRUE(files.bare);
  EXPECT_EQ(files.model, "some/model.pt2");
}

}  // namespace
}  // namespace kiln
