#include "codegen/backend.h"

#include <algorithm>

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

void fail_unknown_target(const Backend& asked, const std::string& name) {
  std::string whose;
  for (const DeviceType device : {DeviceType::cpu, DeviceType::cuda}) {
    const std::vector<std::string> names = backend_for(device).target_names();
    if (std::find(names.begin(), names.end(), name) != names.end())
      whose = str("; that is one of --device ", device_type_name(device));
  }
  fail_user("K0403", str("unknown target ", name, "; known are ", join(asked.target_names(), ", "), whose));
}

}  // namespace kiln::codegen
