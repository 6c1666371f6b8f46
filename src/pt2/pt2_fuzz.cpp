// libFuzzer entry: any bytes read as .pt2 are an Error, or a program whose weights and sample inputs can be read.
#include <cstdint>

#include "base/error.h"
#include "pt2/fuzz_tensors.h"
#include "pt2/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const kiln::Program program = kiln::read_pt2({reinterpret_cast<const std::byte*>(data), size}, nullptr, "input");
    for (const auto& [name, tensor] : program.constants) kiln::touch({{tensor}});
    kiln::touch(program.sample_inputs);
  } catch (const kiln::Error&) {
  }
  return 0;
}
