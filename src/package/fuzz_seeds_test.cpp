// Runs the fuzz targets of this folder over the committed seeds and simple damage to them, without libFuzzer.
#include "base/fuzz_seeds.h"

#include <gtest/gtest.h>

#define LLVMFuzzerTestOneInput fuzz_plan
#include "package/plan_fuzz.cpp"
#undef LLVMFuzzerTestOneInput

namespace kiln {
namespace {

TEST(FuzzSeeds, Plans) { run_fuzz_seeds("plan", fuzz_plan); }

}  // namespace
}  // namespace kiln
