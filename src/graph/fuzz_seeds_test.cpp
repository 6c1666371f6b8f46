// Runs the fuzz targets of this folder over the committed seeds and simple damage to them, without libFuzzer.
#include "base/fuzz_seeds.h"

#include <gtest/gtest.h>

#define LLVMFuzzerTestOneInput fuzz_graph
#include "graph/graph_fuzz.cpp"
#undef LLVMFuzzerTestOneInput

namespace kiln {
namespace {

TEST(FuzzSeeds, Graphs) { run_fuzz_seeds("graph", fuzz_graph); }

}  // namespace
}  // namespace kiln
