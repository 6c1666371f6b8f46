// libFuzzer entry: any bytes are an archive whose entries can all be read, or give an Error.
#include <cstdint>

#include "base/error.h"
#include "base/inflate.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const kiln::ZipReader zip({reinterpret_cast<const std::byte*>(data), size}, "input", kiln::inflate_entry);
    for (const kiln::ZipEntry& entry : zip.entries()) {
      try {
        zip.check_crc(entry);
      } catch (const kiln::Error&) {
      }
    }
  } catch (const kiln::Error&) {
  }
  return 0;
}
