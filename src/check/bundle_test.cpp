#include "check/bundle.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "check/compare.h"
#include "pt2/reader.h"

namespace kiln {
namespace {

std::string mlp_directory() { return join_path(std::getenv("KILN_SOURCE_DIR"), "tests/cases/mlp"); }

class Bundle : public ::testing::Test {
 protected:
  void SetUp() override {
    program_ = read_pt2(join_path(mlp_directory(), "model.pt2"));
    files_ = bundle_files(mlp_directory(), program_);
  }
  CaseFiles read() const {
    return read_bundle("p.pt2", [&](const std::string& name) -> std::optional<ByteSpan> {
      const auto found = files_.find(name);
      if (found == files_.end()) return std::nullopt;
      return as_bytes(found->second);
    });
  }
  std::string refusal() const {
    try {
      read();
    } catch (const Error& error) {
      return str(error.code(), " ", error.message());
    }
    return "";
  }
  bool refused(const std::string& code, const std::string& part) const {
    const std::string text = refusal();
    return starts_with(text, code) && text.find(part) != std::string::npos;
  }

  Program program_;
  std::map<std::string, std::string> files_;
};

TEST_F(Bundle, HasAllThatTheCaseHas) {
  const CaseFiles original = read_case_files(mlp_directory()), bundled = read();
  ASSERT_EQ(bundled.calls.size(), original.calls.size());
  EXPECT_EQ(bundled.bad_inputs.size(), original.bad_inputs.size());
  EXPECT_EQ(bundled.rtol, original.rtol);
  for (size_t i = 0; i < original.calls.size(); ++i) {
    EXPECT_TRUE(compare_lists("input", bundled.calls[i].inputs, original.calls[i].inputs, {}).ok());
    EXPECT_TRUE(compare_lists("output", bundled.calls[i].expected, original.calls[i].expected, {}).ok());
  }
}

TEST_F(Bundle, WhatIsNoTestIsRefused) {
  const auto whole = files_;
  files_.erase("files.json");
  EXPECT_TRUE(refused("K0739", "p.pt2 carries no test"));
  for (const char* index : {"", "{", "[]", "{}", R"({"version": 1})", R"({"version": "1", "files": []})"}) {
    files_["files.json"] = index;
    EXPECT_TRUE(refused("K0741", "")) << index << ": " << refusal();
  }
  files_["files.json"] = R"({"version": 2, "files": []})";
  EXPECT_TRUE(refused("K0741", "version 2")) << refusal();
  files_["files.json"] = R"({"version": 1, "files": []})";
  EXPECT_TRUE(refused("K0741", "inputs_0.pt")) << refusal();
  files_["files.json"] = R"({"version": 1, "files": ["../plan"]})";
  EXPECT_TRUE(refused("K0741", "no file of a test")) << refusal();
  files_ = whole;
  files_.erase("expected_1.pt");
  EXPECT_TRUE(refused("K0741", "expected_1.pt is listed but not there")) << refusal();
  files_ = whole;
  files_["expected_1.pt"] = "not a file of torch.save";
  EXPECT_TRUE(refused("K0741", "expected_1.pt")) << refusal();
  files_ = whole;
  files_["expected_1.pt"].resize(files_["expected_1.pt"].size() / 2);
  EXPECT_TRUE(refused("K0741", "")) << refusal();
  files_ = whole;
  files_["case.json"] = R"({"tolerance": {"rtol": "much"}})";
  EXPECT_TRUE(refused("K0741", "")) << refusal();
}

TEST_F(Bundle, ACaseOfAnotherModelIsRefused) {
  const std::string other = join_path(std::getenv("KILN_SOURCE_DIR"), "tests/cases/mutated_input");
  try {
    bundle_files(other, program_);
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), "K0738");
    EXPECT_NE(error.message().find("is not for this model"), std::string::npos);
  }
  EXPECT_THROW(bundle_files(join_path(mlp_directory(), "nothing"), program_), Error);
}

}  // namespace
}  // namespace kiln
