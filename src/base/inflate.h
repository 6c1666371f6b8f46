// Inflate for ZipReader, by zlib. Apart from zip.h so that the runtime, which reads stored entries only, links no zlib.
#pragma once
#include <string_view>

#include "base/zip.h"

namespace kiln {

std::vector<std::byte> inflate_entry(ByteSpan deflated, uint64_t bytes, bool whole, std::string_view name);

}  // namespace kiln
