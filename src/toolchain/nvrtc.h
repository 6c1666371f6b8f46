// NVRTC, NVIDIA's library that compiles CUDA C++: opened when something is to be compiled for a GPU, never linked. It
// needs neither a GPU nor a driver.
#pragma once
#include <string>
#include <vector>

#include "toolchain/compiler.h"

namespace kiln {

class Nvrtc;

// `wish` (setting `nvrtc`, environment KILN_NVRTC): the library's path. Else it is looked for along the loader's path,
// in CUDA toolkits and in Python's packages. Throws K0770 with the ways to get it.
const Nvrtc& find_nvrtc(const std::string& wish = "");
std::string nvrtc_identity(const Nvrtc& nvrtc);  // "NVRTC 13.0"
const std::string& nvrtc_path(const Nvrtc& nvrtc);

struct CudaImages {
  std::vector<std::string> machine_code;  // by unit
  std::vector<std::string> ptx;           // by unit; empty unless it was asked for
  bool from_cache = false;
  std::string not_kept;
};

// Compiles each unit of the request with its flags, as many at once as there are processors. `ptx_for`: the virtual
// architecture ("compute_90") that PTX is made for as well; empty: none. Throws K0771 with NVRTC's message.
CudaImages build_cuda_images(const Nvrtc& nvrtc, const BuildRequest& request, const std::string& ptx_for,
                             const KernelCache& cache);

}  // namespace kiln
