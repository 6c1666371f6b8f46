// Runs the fuzz targets of this folder over the committed seeds and simple damage to them, without libFuzzer.
#include "base/fuzz_seeds.h"

#include <gtest/gtest.h>

#define LLVMFuzzerTestOneInput fuzz_plan
#include "package/plan_fuzz.cpp"
#undef LLVMFuzzerTestOneInput

namespace kiln {
namespace {

TEST(FuzzSeeds, Plans) { run_fuzz_seeds("plan", fuzz_plan); }

// A reader that refuses the seed itself shows the fuzzer nothing.
TEST(FuzzSeeds, PlansAreOfThisVersion) {
  const char* source = std::getenv("KILN_SOURCE_DIR");
  if (source == nullptr) GTEST_SKIP() << "KILN_SOURCE_DIR is not set";
  for (const char* folder : {"tests/fuzz_seeds/plan", "tests/fuzz_seeds/package"})
    for (const std::string& seed : list_directory(join_path(source, folder)))
      EXPECT_NO_THROW(format::read_plan(as_bytes(read_file(join_path(join_path(source, folder), seed)))))
          << folder << "/" << seed << ": tools/fuzz_seeds.sh makes it anew";
}

}  // namespace
}  // namespace kiln
