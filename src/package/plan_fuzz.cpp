// Hostile plans and origins: any bytes give a checked plan or an Error.
#include <cstdint>

#include "base/error.h"
#include "package/plan_io.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    kiln::format::Plan plan = kiln::format::read_plan(bytes);
    kiln::format::write_plan(plan);
  } catch (const kiln::Error&) {
  }
  try {
    kiln::format::read_origins(bytes);
  } catch (const kiln::Error&) {
  }
  return 0;
}
