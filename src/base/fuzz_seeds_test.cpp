// Runs the fuzz targets of this folder, under their own names, over the committed seeds and simple damage to them: a
// reader that crashes on bad input fails here, without libFuzzer.
#include "base/fuzz_seeds.h"

#include <gtest/gtest.h>

#define LLVMFuzzerTestOneInput fuzz_zip
#include "base/zip_fuzz.cpp"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_json
#include "base/json_fuzz.cpp"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_pickle
#include "base/pickle_fuzz.cpp"
#undef LLVMFuzzerTestOneInput

namespace kiln {
namespace {

TEST(FuzzSeeds, Zip) { run_fuzz_seeds("zip", fuzz_zip); }
TEST(FuzzSeeds, Json) { run_fuzz_seeds("json", fuzz_json); }
TEST(FuzzSeeds, Pickle) { run_fuzz_seeds("pickle", fuzz_pickle); }

}  // namespace
}  // namespace kiln
