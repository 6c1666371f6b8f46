// Inflate for ZipReader, by zlib. Apart from zip.h so that the runtime, which reads stored entries only, links no zlib.
#pragma once
#include <string_view>

#include "base/zip.h"

namespace kiln {

void inflate_entry(ByteSpan deflated, std::span<std::byte> out, std::string_view name);

}  // namespace kiln
