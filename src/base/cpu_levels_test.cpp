#include "base/cpu_levels.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

const CpuFeatures v2 = {"x86-64", "cmpxchg16b", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2"};

TEST(CpuLevels, ALevelNeedsAllOfItsFeatures) {
  EXPECT_EQ(best_cpu_level({}), "");
  EXPECT_EQ(best_cpu_level({"x86-64"}), "x86-64");
  EXPECT_EQ(best_cpu_level(v2), "x86-64-v2");
  CpuFeatures nearly = v2;
  nearly.insert({"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt"});
  EXPECT_EQ(best_cpu_level(nearly), "x86-64-v2");  // movbe is missing: what is compiled for v3 may use it
  nearly.insert("movbe");
  EXPECT_EQ(best_cpu_level(nearly), "x86-64-v3");
}

// Extensions stand behind a level: what each asks for, and that the longer name is the better one.
TEST(CpuLevels, ExtensionsNeedTheirFeatures) {
  CpuFeatures v4 = v2;
  v4.insert({"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"});
  v4.insert({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"});
  v4.insert({"avx512vnni", "avx512bf16"});
  const std::vector<std::string> all = {"x86-64-v4", "x86-64-v4+bf16+amx", "x86-64-v4+bf16"};
  EXPECT_EQ(choose_target(all, v4), 2u);
  EXPECT_EQ(check_target(all[1], v4).missing, (std::vector<std::string>{"amx-tile", "amx-bf16", "amx-int8"}));
  EXPECT_EQ(choose_target({"x86-64-v4", "x86-64-v4+vnni"}, v4), 1u);
  EXPECT_EQ(choose_target({"x86-64-v4+vnni", "x86-64-v4+bf16"}, v4), 1u);
  v4.insert({"amx-tile", "amx-bf16", "amx-int8"});
  EXPECT_EQ(choose_target(all, v4), 1u);
  EXPECT_TRUE(allow_target("x86-64-v4+bf16"));
}

TEST(CpuLevels, OfThisMachineRunHere) {
  const CpuFeatures here = processor_features();
  const std::string best = best_cpu_level(here);
  EXPECT_TRUE(best.empty() || check_target(best, here).runs()) << best;
  EXPECT_TRUE(check_target("generic", here).runs());
}

}  // namespace
}  // namespace kiln
