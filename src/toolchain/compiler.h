// The C++ compiler that turns generated kernels into a shared object.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "toolchain/kernel_cache.h"

namespace kiln {

struct Compiler {
  std::string path;
  std::string identity;  // first line of --version: part of cache keys
};

// `wish` (setting `compiler`, environment KILN_CXX), else g++, clang++, c++. Throws K0410 when there is none.
Compiler find_compiler(const std::string& wish = "");

// The flags of a request as this compiler gets them. Of what g++'s -O2 adds to -O1 a few passes make the kernels
// better; all the others take a third of the time and change nothing (tests/instruction_counts.txt). What the request
// turns off stays off.
std::vector<std::string> flags_for(const Compiler& compiler, std::vector<std::string> flags);

struct BuildRequest {
  std::vector<std::string> sources;  // texts, one translation unit each
  std::vector<std::string> flags;
  std::vector<std::string> functions;  // that the object must have
  std::function<void(int done, int total)> progress;
  // Told when a run of the compiler (or the look into the cache) has ended; start in ms since the build began.
  std::function<void(const std::string& name, double start_ms, double run_ms)> job;
};

struct BuildResult {
  std::string shared_object;  // its bytes
  bool from_cache = false;
  std::string not_kept;  // why the cache could not take it; empty: it did, or there is none
};

// Compiles the units (as many at once as there are processors) and links them. Throws K0411 with the compiler's
// message, K0405 when it ends without an error and has made no object with these functions.
BuildResult build_shared_object(const Compiler& compiler, const BuildRequest& request, const KernelCache& cache);

// Has the compiler read the units without making code. Throws K0411 as build_shared_object does.
void check_syntax(const Compiler& compiler, const BuildRequest& request);

}  // namespace kiln
