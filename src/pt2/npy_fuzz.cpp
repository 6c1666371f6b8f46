// libFuzzer entry: any bytes read as .npy or .npz are an Error, or arrays whose elements can be read.
#include <cstdint>

#include "base/error.h"
#include "pt2/fuzz_tensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const kiln::FileBytes file{{reinterpret_cast<const std::byte*>(data), size}, nullptr, "input"};
  try {
    kiln::touch(size > 0 && data[0] == 'P' ? kiln::read_npz(file).items : kiln::read_npy(file).items);
  } catch (const kiln::Error&) {
  }
  return 0;
}
