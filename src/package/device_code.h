// The code object of a GPU's target: machine code (and PTX, which the driver of a newer GPU compiles) for each
// translation unit, and what a launch of each kernel takes. Written by the compiler, read by the device's library
// (docs/package-format.md).
//
// On disk, little-endian: 8 bytes "KILNGPU\2", u32 images, u32 kernels; per image u32 unit, u32 kind, u64 bytes; per
// kernel u32 unit, u32 buffers, u32 ints, u32 threads, u32 team, u32 shared, u32 bytes of its name, the name; then the
// images, one behind the other.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::format {

inline constexpr char device_code_magic[8] = {'K', 'I', 'L', 'N', 'G', 'P', 'U', '\2'};

enum class ImageKind : uint32_t { machine_code, ptx };
struct DeviceImage {
  uint32_t unit = 0;
  ImageKind kind = ImageKind::machine_code;
  std::string_view bytes;
};
struct DeviceKernel {
  std::string name;
  uint32_t unit = 0, buffers = 0, ints = 0;
  uint32_t threads = 0, team = 1;  // of a block; that take an item together
  uint32_t shared = 0;             // bytes of shared memory beside what its code declares
};
struct DeviceCode {
  std::vector<DeviceImage> images;
  std::vector<DeviceKernel> kernels;
};

inline std::string write_device_code(const DeviceCode& code) {
  std::string out(device_code_magic, sizeof device_code_magic);
  auto put = [&](auto value) { out.append(reinterpret_cast<const char*>(&value), sizeof value); };
  put(static_cast<uint32_t>(code.images.size()));
  put(static_cast<uint32_t>(code.kernels.size()));
  for (const DeviceImage& image : code.images) {
    put(image.unit), put(static_cast<uint32_t>(image.kind)), put(static_cast<uint64_t>(image.bytes.size()));
  }
  for (const DeviceKernel& kernel : code.kernels) {
    put(kernel.unit), put(kernel.buffers), put(kernel.ints), put(kernel.threads), put(kernel.team);
    put(kernel.shared);
    put(static_cast<uint32_t>(kernel.name.size()));
    out += kernel.name;
  }
  for (const DeviceImage& image : code.images) out += image.bytes;
  return out;
}

// False: it is none, or damaged. The images lie in `bytes`.
inline bool read_device_code(std::string_view bytes, DeviceCode& code) {
  size_t at = sizeof device_code_magic;
  if (bytes.size() < at || std::memcmp(bytes.data(), device_code_magic, at) != 0) return false;
  bool whole = true;
  auto take = [&](auto& value) {
    whole = whole && sizeof value <= bytes.size() - at;
    if (!whole) return;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    at += sizeof value;
  };
  uint32_t images = 0, kernels = 0;
  take(images), take(kernels);
  std::vector<uint64_t> sizes;
  for (uint32_t i = 0; whole && i < images; ++i) {
    DeviceImage image;
    uint32_t kind = 0;
    uint64_t size = 0;
    take(image.unit), take(kind), take(size);
    whole = whole && kind <= static_cast<uint32_t>(ImageKind::ptx);
    image.kind = static_cast<ImageKind>(kind);
    code.images.push_back(image);
    sizes.push_back(size);
  }
  for (uint32_t i = 0; whole && i < kernels; ++i) {
    DeviceKernel kernel;
    uint32_t name = 0;
    take(kernel.unit), take(kernel.buffers), take(kernel.ints), take(kernel.threads), take(kernel.team);
    take(kernel.shared), take(name);
    whole = whole && name <= bytes.size() - at && kernel.threads >= 1 && kernel.threads <= 1024 && kernel.team >= 1 &&
            kernel.threads % kernel.team == 0;
    if (!whole) break;
    kernel.name = std::string(bytes.substr(at, name));
    at += name;
    code.kernels.push_back(std::move(kernel));
  }
  for (size_t i = 0; whole && i < sizes.size(); ++i) {
    whole = sizes[i] <= bytes.size() - at;
    if (!whole) break;
    code.images[i].bytes = bytes.substr(at, sizes[i]);
    at += sizes[i];
  }
  return whole && at == bytes.size();
}

}  // namespace kiln::format
