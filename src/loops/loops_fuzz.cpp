// libFuzzer entry: any text either parses, and then prints and reads back as itself, or throws Error. What parses is
// also verified, which may refuse it but must not crash.
#include <cstdint>
#include <cstdlib>

#include "loops/loops.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 16384) return 0;
  try {
    kiln::loops::LoopProgram program =
        kiln::loops::parse_loops(std::string_view(reinterpret_cast<const char*>(data), size));
    std::string text = kiln::loops::print(program);
    if (kiln::loops::print(kiln::loops::parse_loops(text)) != text) std::abort();
    kiln::loops::verify(program);
  } catch (const kiln::Error&) {
  }
  return 0;
}
