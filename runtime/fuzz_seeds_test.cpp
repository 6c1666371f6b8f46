// Runs the fuzz targets of this folder over the committed seeds and simple damage to them, without libFuzzer.
#include "base/fuzz_seeds.h"

#include <gtest/gtest.h>

#define LLVMFuzzerTestOneInput fuzz_package
#include "runtime/package_fuzz.cpp"
#undef LLVMFuzzerTestOneInput

namespace kiln {
namespace {

TEST(FuzzSeeds, Packages) { run_fuzz_seeds("package", fuzz_package); }

}  // namespace
}  // namespace kiln
