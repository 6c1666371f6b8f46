#include "codegen/backend.h"

#include "base/error.h"
#include "codegen/cpu/backend.h"

namespace kiln::codegen {

const Backend& backend_for(DeviceType device) {
  static const CpuBackend cpu;
  if (device == DeviceType::cpu) return cpu;
  fail_unsupported("K0404", "there is no backend that makes code for this device: known is cpu");
}

}  // namespace kiln::codegen
