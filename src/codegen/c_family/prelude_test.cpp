// The prelude as text: what is emitted, and that it agrees with the kernel ABI and the table of scalar operators.
#include "codegen/c_family/prelude.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>

#include "base/error.h"
#include "codegen/c_family/prelude_oracle.h"
#include "kiln/kernel_abi.h"
#include "loops/scalar_ops.h"

namespace kiln::codegen {
namespace {

using oracle::Build;
using oracle::Library;

std::string text_for(std::string_view body, int lanes, CpuLevel level) {
  PreludeRequest request;
  request.lanes = lanes;
  request.level = level;
  collect_prelude_names(body, request);
  return prelude(request);
}

TEST(Prelude, EmitsOnlyWhatIsUsed) {
  std::string add = text_for("vf32 z = k_load_f32(p) + k_load_f32(q); k_store_f32(r, z);", 16, CpuLevel::x86_64_v4);
  EXPECT_EQ(add.find("exp"), std::string::npos);
  EXPECT_EQ(add.find("f64x"), std::string::npos);
  EXPECT_LT(add.size(), 1500u);
  std::string exp = text_for("vf32 z = k_exp(k_load_f32(p));", 16, CpuLevel::x86_64_v4);
  EXPECT_NE(exp.find("f32x16 exp_f32(f32x16 x)"), std::string::npos);
  EXPECT_EQ(exp.find("exp_f64"), std::string::npos) << "no f64 is named in the body";
}

TEST(Prelude, EachPieceOnce) {
  std::string text = text_for("vf32 a = k_tanh(k_erf(k_exp(k_sin(x)))); vf64 b = k_tanh(k_erfinv(k_pow(y, k_sin(y))));",
                              16, CpuLevel::x86_64_v4);
  std::set<std::string> heads;
  bool other = false;  // between #else and #endif stand the same functions for another compiler or target
  for (const std::string& line : split(text, '\n')) {
    size_t end = line.find(") {");
    if (line.starts_with("#")) other = line.starts_with("#else");
    if (other) continue;
    if (!line.starts_with("K_FN") || end == std::string::npos) continue;
    EXPECT_TRUE(heads.insert(line.substr(0, end)).second) << line;
  }
}

TEST(Prelude, RemarksNameWhatTheyLike) {
  EXPECT_NO_THROW(text_for("// of the layer k_proj\nvf32 z = k_exp(x);  // k_frobnicate", 16, CpuLevel::x86_64_v4));
}

TEST(Prelude, RefusesUnknownNames) {
  PreludeRequest request;
  request.names = {"k_frobnicate"};
  EXPECT_THROW(prelude(request), Error);
  request.names = {};
  request.lanes = 3;
  EXPECT_THROW(prelude(request), Error);
}

TEST(Prelude, HasEveryScalarOperator) {
  for (int i = 0; i < loops::scalar_op_count; i++) {
    auto op = static_cast<loops::ScalarOp>(i);
    std::string name = str("k_", loops::scalar_op_info(op).name);
    if (op == loops::ScalarOp::cast || op == loops::ScalarOp::bitcast) name += "_i32";
    PreludeRequest request;
    request.lanes = 8;
    request.level = CpuLevel::x86_64_v3;
    request.names = {name};
    request.types = {DType::f32, DType::i32};
    EXPECT_NO_THROW(prelude(request)) << name;
  }
}

TEST(Prelude, SameTextEveryTime) {
  EXPECT_EQ(text_for("k_tanh k_sin vf64 vf32", 8, CpuLevel::x86_64_v3),
            text_for("vf32 vf64 k_sin k_tanh", 8, CpuLevel::x86_64_v3));
}

TEST(Prelude, AbiAgreesWithTheHeader) {
  Library library(R"(
extern "C" __attribute__((visibility("default"))) void layout(i64* out) {
  out[0] = sizeof(kiln_error_slot); out[1] = sizeof(kiln_kernel_context);
  out[2] = __builtin_offsetof(kiln_error_slot, site); out[3] = __builtin_offsetof(kiln_error_slot, index);
  out[4] = __builtin_offsetof(kiln_error_slot, value); out[5] = __builtin_offsetof(kiln_kernel_context, thread);
  out[6] = __builtin_offsetof(kiln_kernel_context, scratch);
  out[7] = __builtin_offsetof(kiln_kernel_context, scratch_bytes);
  out[8] = __builtin_offsetof(kiln_kernel_context, error); out[9] = __builtin_offsetof(kiln_kernel_context, seed);
  out[10] = __builtin_offsetof(kiln_kernel_context, kept);
}
extern "C" __attribute__((visibility("default")))
i32 fails(const kiln_kernel_context* context, void* const*, const i64*, i64 begin, i64) {
  return k_raise(context, 7, begin, -3);
}
)",
                  Build{});
  int64_t got[11] = {};
  library.get<void(int64_t*)>("layout")(got);
  const int64_t want[11] = {sizeof(kiln_error_slot),
                            sizeof(kiln_kernel_context),
                            offsetof(kiln_error_slot, site),
                            offsetof(kiln_error_slot, index),
                            offsetof(kiln_error_slot, value),
                            offsetof(kiln_kernel_context, thread),
                            offsetof(kiln_kernel_context, scratch),
                            offsetof(kiln_kernel_context, scratch_bytes),
                            offsetof(kiln_kernel_context, error),
                            offsetof(kiln_kernel_context, seed),
                            offsetof(kiln_kernel_context, kept)};
  for (int i = 0; i < 11; i++) EXPECT_EQ(got[i], want[i]) << i;

  kiln_error_slot slot = {};
  kiln_kernel_context context = {};
  context.version = KILN_KERNEL_ABI_VERSION;
  context.error = &slot;
  auto* fails = library.get<std::remove_pointer_t<kiln_kernel>>("fails");
  EXPECT_EQ(fails(&context, nullptr, nullptr, 41, 42), 1);
  EXPECT_EQ(fails(&context, nullptr, nullptr, 50, 51), 1);
  EXPECT_EQ(slot.raised, 1);
  EXPECT_EQ(slot.site, 7);
  EXPECT_EQ(slot.index, 41) << "the first one wins";
  EXPECT_EQ(slot.value, -3);
}

}  // namespace
}  // namespace kiln::codegen
