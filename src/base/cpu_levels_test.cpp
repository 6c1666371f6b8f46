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

TEST(CpuLevels, OfThisMachineRunHere) {
  const CpuFeatures here = processor_features();
  const std::string best = best_cpu_level(here);
  EXPECT_TRUE(best.empty() || check_target(best, here).runs()) << best;
  EXPECT_TRUE(check_target("generic", here).runs());
}

}  // namespace
}  // namespace kiln
