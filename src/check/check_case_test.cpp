// Cases of tests/cases, whole and spoiled: every clause of `kiln check` must notice its own kind of damage.
#include "check/check_case.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "pt2/tensor_files.h"

namespace kiln {
namespace {

class CheckCase : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* source = std::getenv("KILN_SOURCE_DIR");
    if (!source) GTEST_SKIP() << "KILN_SOURCE_DIR is not set";
    cases_ = join_path(source, "tests/cases");
    if (!is_directory(cases_)) GTEST_SKIP() << cases_ << " is not there";
    options_.executable.backend = Backend::interpret;
  }
  // A copy that a test may spoil.
  void copy_case(const std::string& name) {
    case_ = join_path(directory_.path(), name);
    std::filesystem::copy(join_path(cases_, name), case_);
  }
  std::string file(const std::string& name) const { return join_path(case_, name); }
  CaseResult check() { return check_case(case_, options_); }
  bool fails_with(const std::string& stage, const std::string& part) {
    const CaseResult result = check();
    last_ = str(result.stage, ": ", result.message);
    return result.status == CaseStatus::failed && result.stage == stage &&
           result.message.find(part) != std::string::npos;
  }
  // Adds one to the first element of the first tensor.
  void spoil(const std::string& name) {
    TensorFile contents = read_tensor_file(file(name));
    spoil(contents.items);
    write_tensor_file(file(name), contents);
  }
  static bool spoil(std::vector<Datum>& items) {
    for (Datum& item : items) {
      if (item.is_tensor() && item.tensor().numel() > 0) {
        Tensor copy = item.tensor().clone();
        copy.set_item(0, Scalar(copy.item(0).as_double() + 1));
        item = Datum{copy};
        return true;
      }
      if (!item.is_list()) continue;
      std::vector<Datum> inner = item.list();
      if (!spoil(inner)) continue;
      item = Datum{std::move(inner)};
      return true;
    }
    return false;
  }

  std::string cases_, case_, last_;
  CaseOptions options_;
  TemporaryDirectory directory_;
};

TEST_F(CheckCase, GoodCasesPass) {
  for (const char* name : {"mlp", "counter", "mutated_input", "cond"}) {
    const CaseResult result = check_case(join_path(cases_, name), options_);
    EXPECT_EQ(result.status, CaseStatus::passed) << name << ": " << result.stage << ": " << result.message;
    EXPECT_GT(result.calls, 0) << name;
  }
}

TEST_F(CheckCase, NoticesAWrongOutput) {
  copy_case("mlp");
  spoil("expected_1.pt");
  EXPECT_TRUE(fails_with("call 1", "output 0: 1 of ")) << last_;
}

TEST_F(CheckCase, NoticesAWrongMutatedInput) {
  copy_case("mutated_input");
  spoil("mutated_0.pt");
  EXPECT_TRUE(fails_with("call 0", "input after the call")) << last_;
}

TEST_F(CheckCase, NoticesAnInputThatWasNotToBeWritten) {
  copy_case("mutated_input");
  for (const std::string& name : list_directory(case_))
    if (starts_with(name, "mutated_")) std::filesystem::remove(file(name));
  EXPECT_TRUE(fails_with("call 0", "was changed by the call")) << last_;
}

TEST_F(CheckCase, NoticesWrongState) {
  copy_case("counter");
  spoil("state_0.pt");
  EXPECT_TRUE(fails_with("call 0", "state ")) << last_;
}

TEST_F(CheckCase, NoticesAWrongSequence) {
  copy_case("counter");
  spoil("expected_sequence.pt");
  EXPECT_TRUE(fails_with("sequence call 0", "output 0")) << last_;
}

TEST_F(CheckCase, NoticesASequenceOfTheWrongLength) {
  copy_case("counter");
  TensorFile contents = read_tensor_file(file("expected_sequence.pt"));
  contents.items.pop_back();
  write_tensor_file(file("expected_sequence.pt"), contents);
  EXPECT_TRUE(fails_with("read", "expected_sequence.pt has ")) << last_;
}

TEST_F(CheckCase, BadInputsMustBeRefused) {
  copy_case("mlp");
  std::filesystem::copy_file(file("inputs_0.pt"), file("bad_inputs_0.pt"),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_TRUE(fails_with("bad_inputs_0", "must be refused")) << last_;
}

TEST_F(CheckCase, TheCasesToleranceCounts) {
  copy_case("mlp");
  spoil("expected_0.pt");
  write_file_atomic(file("case.json"), R"({"tolerance": {"rtol": 0, "atol": 2}})");
  EXPECT_EQ(check().status, CaseStatus::passed) << check().message;
  options_.atol = 0.05;  // the command line's is over the case's
  EXPECT_EQ(check().status, CaseStatus::failed);
}

TEST_F(CheckCase, ShapesOnly) {
  copy_case("mlp");
  spoil("expected_0.pt");
  write_file_atomic(file("case.json"), R"({"compare": "shapes"})");
  EXPECT_EQ(check().status, CaseStatus::passed) << check().message;
}

TEST_F(CheckCase, SkipsWhatNeedsMoreThanThereIs) {
  copy_case("mlp");
  write_file_atomic(file("case.json"), R"({"needs": ["cuda"]})");
  const CaseResult result = check();
  EXPECT_EQ(result.status, CaseStatus::skipped);
  EXPECT_EQ(result.message, "needs --device cuda");
}

TEST_F(CheckCase, ADamagedModelIsAFailureNotACrash) {
  copy_case("mlp");
  const std::string model = read_file(file("model.pt2"));
  write_file_atomic(file("model.pt2"), std::string_view(model).substr(0, model.size() / 2));
  EXPECT_TRUE(fails_with("read", "error[K01")) << last_;
}

TEST_F(CheckCase, ABareModelAgainstTheInterpreter) {
  const CaseResult result = check_case(join_path(cases_, "mlp/model.pt2"), options_);
  EXPECT_EQ(result.status, CaseStatus::passed) << result.message;
  EXPECT_EQ(result.calls, 1);
}

}  // namespace
}  // namespace kiln
