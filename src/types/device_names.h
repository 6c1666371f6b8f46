// The names of devices, read in one place: "cpu", "cuda", "cuda:1", "meta". device.h writes them.
#pragma once
#include <charconv>
#include <optional>
#include <string_view>

#include "types/device.h"

namespace kiln {

inline std::optional<DeviceType> device_type_from_name(std::string_view name) {
  for (DeviceType type : {DeviceType::cpu, DeviceType::cuda, DeviceType::meta})
    if (name == device_type_name(type)) return type;
  return std::nullopt;
}

// Nothing for another type, or for an index that is no number up to 65535.
inline std::optional<Device> device_from_text(std::string_view text) {
  const size_t colon = text.find(':');
  const auto type = device_type_from_name(text.substr(0, colon));
  if (!type) return std::nullopt;
  if (colon == std::string_view::npos) return Device{*type, -1};
  const std::string_view digits = text.substr(colon + 1);
  unsigned short index = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (read.ec != std::errc() || read.ptr != digits.data() + digits.size()) return std::nullopt;
  return Device{*type, index};
}

}  // namespace kiln
