// libFuzzer entry: any bytes read as .safetensors are an Error, or tensors whose elements can be read.
#include <cstdint>

#include "base/error.h"
#include "pt2/fuzz_tensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    kiln::touch(kiln::read_safetensors({{reinterpret_cast<const std::byte*>(data), size}, nullptr, "input"}).items);
  } catch (const kiln::Error&) {
  }
  return 0;
}
