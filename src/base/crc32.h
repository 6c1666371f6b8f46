// CRC-32 as zip uses it, without zlib (the runtime links none).
#pragma once
#include <cstdint>

#include "base/file.h"

namespace kiln {

// Continues `crc`, the checksum of what came before (0: nothing).
uint32_t crc32(ByteSpan bytes, uint32_t crc = 0);

}  // namespace kiln
