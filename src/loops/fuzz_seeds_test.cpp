// Runs the fuzz targets of this folder over the committed seeds and simple damage to them, without libFuzzer.
#include "base/fuzz_seeds.h"

#include <gtest/gtest.h>

#define LLVMFuzzerTestOneInput fuzz_loops
#include "loops/loops_fuzz.cpp"
#undef LLVMFuzzerTestOneInput

namespace kiln {
namespace {

TEST(FuzzSeeds, Loops) { run_fuzz_seeds("loops", fuzz_loops); }

}  // namespace
}  // namespace kiln
