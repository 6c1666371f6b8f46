// Where a tensor lives, with PyTorch's device numbers (they appear in error messages).
#pragma once
#include <cstdint>
#include <string>

namespace kiln {

enum class DeviceType : uint8_t { cpu = 0, cuda = 1, meta = 14 };

struct Device {
  DeviceType type = DeviceType::cpu;
  int index = -1;  // -1: not said
  bool operator==(const Device&) const = default;
};

inline const char* device_type_name(DeviceType type) {
  return type == DeviceType::cpu ? "cpu" : type == DeviceType::cuda ? "cuda" : "meta";
}
inline std::string device_text(const Device& device) {
  std::string text = device_type_name(device.type);
  return device.index < 0 ? text : text + ":" + std::to_string(device.index);
}

}  // namespace kiln
