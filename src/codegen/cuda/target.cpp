#include "base/cuda_architecture.h"
#include "base/error.h"
#include "codegen/cuda/backend.h"

namespace kiln::codegen {
namespace {

struct Architecture {
  const char* name;
  int multiprocessors;
  int64_t shared_memory;
};
// Those with an `a` have instructions that only this very architecture has.
constexpr Architecture architectures[] = {
    {"sm_80", 108, 163 << 10},  {"sm_86", 84, 99 << 10},    {"sm_87", 16, 163 << 10},   {"sm_89", 142, 99 << 10},
    {"sm_90", 132, 227 << 10},  {"sm_90a", 132, 227 << 10}, {"sm_100", 148, 227 << 10}, {"sm_100a", 148, 227 << 10},
    {"sm_103", 148, 227 << 10}, {"sm_120", 170, 99 << 10},  {"sm_121", 48, 99 << 10},
};
constexpr const char* usual_target = "sm_90a";

}  // namespace

std::vector<std::string> CudaBackend::target_names() const {
  std::vector<std::string> names;
  for (const Architecture& one : architectures) names.push_back(one.name);
  return names;
}

Target CudaBackend::target(const std::string& name, int) const {
  for (const Architecture& one : architectures) {
    if (name != one.name) continue;
    Target out;
    out.name = one.name, out.lanes = 1, out.device = DeviceType::cuda;
    out.multiprocessors = one.multiprocessors, out.shared_memory = one.shared_memory;
    const bool clusters = std::stoi(std::string(one.name).substr(3)) >= 90;
    out.most_parts = clusters ? 8 : 1;
    out.warpgroups = name == "sm_90a";  // of this very architecture, not even of its successors
    return out;
  }
  fail_unknown_target(*this, name);
}

std::string CudaBackend::host_target_name() const {
  const std::string here = cuda_architecture();
  for (const Architecture& one : architectures)
    if (here + "a" == one.name) return one.name;
  for (const Architecture& one : architectures)
    if (here == one.name) return one.name;
  return usual_target;
}

}  // namespace kiln::codegen
