// SHA-256: content addresses of caches, build ids, hashes in printed programs.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/file.h"

namespace kiln {

class Sha256 {
 public:
  void add(ByteSpan bytes);
  void add(std::string_view text) { add(as_bytes(text)); }
  // Ends the message; the object must not be used afterwards.
  std::array<uint8_t, 32> digest();
  std::string hex();

 private:
  void block(const std::byte* bytes);
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_{};
  size_t pending_bytes_ = 0;
  uint64_t total_bytes_ = 0;
};

std::string sha256_hex(std::string_view text);
std::string sha256_hex(ByteSpan bytes);

}  // namespace kiln
