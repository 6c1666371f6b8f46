#include "codegen/backend.h"

#include "base/error.h"
#include "codegen/cpu/backend.h"
#include "codegen/cuda/backend.h"

namespace kiln::codegen {

std::string Backend::host_target_for(const std::set<DType>&) const { return host_target_name(); }

const Backend& backend_for(DeviceType device) {
  static const CpuBackend cpu;
  static const CudaBackend cuda;
  if (device == DeviceType::cpu) return cpu;
  if (device == DeviceType::cuda) return cuda;
  fail_unsupported("K0404", "there is no backend that makes code for this device: known are cpu and cuda");
}

}  // namespace kiln::codegen
