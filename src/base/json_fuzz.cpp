// libFuzzer entry: any text is an Error, or a document that is written and read back as itself.
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const kiln::Json json = kiln::parse_json({reinterpret_cast<const char*>(data), size}, "input");
    const std::string text = kiln::json_text(json, kiln::JsonStyle::pretty);
    if (kiln::json_text(kiln::parse_json(text, "written"), kiln::JsonStyle::pretty) != text) std::abort();
  } catch (const kiln::Error& error) {
    if (error.message().find("written") != std::string::npos) std::abort();
  }
  return 0;
}
