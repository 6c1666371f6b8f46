// libFuzzer entry: the Graph text's parser never crashes, and what it accepts survives printing and parsing again.
#include <cstdlib>

#include "graph/graph.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    kiln::Program program = kiln::parse_program(text);
    std::string once = kiln::print(program);
    if (kiln::print(kiln::parse_program(once)) != once) std::abort();
    kiln::Program copy = program.clone();
    if (kiln::print(copy) != once) std::abort();
    kiln::verify(program);
  } catch (const kiln::Error&) {
  }
  return 0;
}
