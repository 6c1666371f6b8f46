// Runs the fuzz targets of this folder over the committed seeds and simple damage to them (see base/fuzz_seeds.h).
#include "base/fuzz_seeds.h"

#include <gtest/gtest.h>

#define LLVMFuzzerTestOneInput fuzz_pt
#include "pt2/pt_fuzz.cpp"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_npy
#include "pt2/npy_fuzz.cpp"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_safetensors
#include "pt2/safetensors_fuzz.cpp"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_pt2
#include "pt2/pt2_fuzz.cpp"
#undef LLVMFuzzerTestOneInput

namespace kiln {
namespace {

TEST(FuzzSeeds, Pt) { run_fuzz_seeds("pt", fuzz_pt); }
TEST(FuzzSeeds, Npy) { run_fuzz_seeds("npy", fuzz_npy); }
TEST(FuzzSeeds, Safetensors) { run_fuzz_seeds("safetensors", fuzz_safetensors); }
TEST(FuzzSeeds, Pt2) { run_fuzz_seeds("pt2", fuzz_pt2); }

}  // namespace
}  // namespace kiln
