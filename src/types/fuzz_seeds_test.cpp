// Runs the fuzz targets of this folder over the committed seeds and simple damage to them, without libFuzzer.
#include "base/fuzz_seeds.h"

#include <gtest/gtest.h>

#define LLVMFuzzerTestOneInput fuzz_expr
#include "types/expr_fuzz.cpp"
#undef LLVMFuzzerTestOneInput

namespace kiln {
namespace {

TEST(FuzzSeeds, Expressions) { run_fuzz_seeds("expr", fuzz_expr); }

}  // namespace
}  // namespace kiln
