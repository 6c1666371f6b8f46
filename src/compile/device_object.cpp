#include "compile/device_object.h"

#include "package/device_code.h"

namespace kiln {

std::string device_object(const codegen::GeneratedCode& generated, const CudaImages& images) {
  format::DeviceCode code;
  for (size_t i = 0; i < images.machine_code.size(); ++i)
    code.images.push_back({static_cast<uint32_t>(i), format::ImageKind::machine_code, images.machine_code[i]});
  for (size_t i = 0; i < images.ptx.size(); ++i)
    code.images.push_back({static_cast<uint32_t>(i), format::ImageKind::ptx, images.ptx[i]});
  for (size_t i = 0; i < generated.symbols.size(); ++i) {
    const codegen::KernelLaunch& launch = generated.launches[i];
    code.kernels.push_back({generated.symbols[i], static_cast<uint32_t>(launch.unit),
                            static_cast<uint32_t>(launch.buffers), static_cast<uint32_t>(launch.ints),
                            static_cast<uint32_t>(launch.threads), static_cast<uint32_t>(launch.team),
                            static_cast<uint32_t>(launch.shared)});
  }
  return format::write_device_code(code);
}

}  // namespace kiln
