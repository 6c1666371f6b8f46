// libFuzzer entry: any bytes read as .pt are an Error, or values whose every element can be read; those are written
// and read again.
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "pt2/fuzz_tensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kiln::TensorFile file;
  try {
    file = kiln::read_pt({{reinterpret_cast<const std::byte*>(data), size}, nullptr, "input"});
  } catch (const kiln::Error&) {
    return 0;
  }
  kiln::touch(file.items);
  std::string written;
  kiln::write_pt(file, [&written](kiln::ByteSpan bytes) { written += kiln::as_text(bytes); });
  if (kiln::read_pt({kiln::as_bytes(written), nullptr, "written"}).items.size() != file.items.size()) std::abort();
  return 0;
}
