// libFuzzer entry: any bytes are an Error, or a tree that can be walked.
#include <cstdint>

#include "base/error.h"
#include "base/pickle.h"

static size_t count_values(const kiln::PickleValue* value) {
  if (value == nullptr) return 0;
  size_t count = 1 + count_values(value->callable) + count_values(value->args) + count_values(value->state);
  for (const kiln::PickleValue* item : value->items) count += count_values(item);
  return count;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const kiln::PickleTree tree = kiln::parse_pickle({reinterpret_cast<const std::byte*>(data), size}, "input");
    if (count_values(&tree.root()) == 0) return -1;
  } catch (const kiln::Error&) {
  }
  return 0;
}
