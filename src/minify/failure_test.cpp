#include "minify/failure.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kiln::minify {
namespace {

TEST(Failure, NumbersNamesAndKernelsAreNoPartOfTheMessage) {
  EXPECT_EQ(normalised("index 7 is out of range in cpp_fused_add_relu_12 of %relu_3"),
            normalised("index 12 is out of range in cpp_fused_relu_0 of %relu"));
  EXPECT_NE(normalised("aten.relu.default does not take f8"), normalised("aten.sigmoid.default does not take f8"));
  EXPECT_EQ(normalised("sizes [8, 16] do not fit"), normalised("sizes [1] do not fit"));
  EXPECT_EQ(normalised("first line\nsecond line"), "first line");
}

TEST(Failure, OfTheCompilerItsFirstErrorCounts) {
  const std::string one =
      "error[K0411]: the C++ compiler /usr/bin/g++ failed (exit code 1) on generated code, kept in /x/kiln-build.1:\n"
      "  /x/kernels_0.cpp: In function 'int cpp_fused_relu_0(...)':\n  /x/kernels_0.cpp:88:3: error: 'compile' was not "
      "declared in this scope; did you mean 'tile'?";
  EXPECT_EQ(normalised(one), "error: 'compile' was not declared in this scope");
}

Failure error(const std::string& code, const std::string& op, const std::string& message) {
  Failure failure;
  failure.kind = FailureKind::error;
  failure.code = code;
  failure.op = op;
  failure.message = message;
  return failure;
}

TEST(Failure, ASignaturePinsKindCodeOperatorAndMessage) {
  const Signature pinned = signature_of(error("K0203", "aten.relu.default", "size 3 is wrong"));
  EXPECT_TRUE(matches(pinned, error("K0203", "aten.relu.default", "size 4 is wrong")));
  EXPECT_FALSE(matches(pinned, error("K0204", "aten.relu.default", "size 3 is wrong")));
  EXPECT_FALSE(matches(pinned, error("K0203", "aten.tanh.default", "size 3 is wrong")));
  EXPECT_FALSE(matches(pinned, error("K0203", "aten.relu.default", "rank 3 is wrong")));
  EXPECT_FALSE(matches(pinned, Failure{}));
  Failure crash;
  crash.kind = FailureKind::signal;
  crash.signal = 11;
  const Signature signal = signature_of(crash);
  EXPECT_TRUE(matches(signal, crash));
  crash.signal = 8;
  EXPECT_FALSE(matches(signal, crash));
}

TEST(Failure, PlainlyWrongIsNotALittleOff) {
  Failure wrong;
  wrong.kind = FailureKind::accuracy;
  wrong.stage = "compare";
  wrong.code = "values";
  wrong.error = 80000;
  const Signature pinned = signature_of(wrong);
  wrong.error = 50;
  EXPECT_TRUE(matches(pinned, wrong)) << "the cause may be smaller than its effect";
  wrong.error = 2;
  EXPECT_FALSE(matches(pinned, wrong));
  EXPECT_TRUE(matches(signature_of(wrong), wrong));
}

TEST(Failure, WhereItDiedIsPartOfIt) {
  Failure hang;
  hang.kind = FailureKind::hang;
  hang.stage = "run";
  const Signature pinned = signature_of(hang);
  EXPECT_TRUE(matches(pinned, hang));
  hang.stage = "compile";
  EXPECT_FALSE(matches(pinned, hang));
}

TEST(Failure, CheckStrNarrowsIt) {
  const Signature pinned = signature_of(error("K0203", "", "relu: size 3 is wrong"), "size 3");
  EXPECT_TRUE(matches(pinned, error("K0203", "", "relu: size 3 is wrong")));
  EXPECT_FALSE(matches(pinned, error("K0203", "", "relu: size 4 is wrong")));
}

TEST(Failure, SurvivesTheWayThroughAPipe) {
  Failure failure = error("K0630", "aten.relu.default", "a \"quoted\"\nmessage");
  failure.stage = "run";
  failure.node = "relu_1";
  failure.error = HUGE_VAL;
  const Failure back = failure_from_json(parse_json(json_text(to_json(failure)), "test"));
  EXPECT_EQ(back.kind, failure.kind);
  EXPECT_EQ(back.message, failure.message);
  EXPECT_EQ(back.stage, "run");
  EXPECT_EQ(back.node, "relu_1");
  EXPECT_EQ(back.error, HUGE_VAL);
}

}  // namespace
}  // namespace kiln::minify
