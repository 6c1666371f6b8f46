// libFuzzer entry: any text either parses, and then prints and reads back as itself, or throws Error.
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "types/expr.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  try {
    kiln::Expr e = kiln::parse_expr(std::string_view(reinterpret_cast<const char*>(data), size));
    std::string text = e.text();
    if (kiln::parse_expr(text).text() != text) std::abort();
    kiln::simplify(e, {});
  } catch (const kiln::Error&) {
  }
  return 0;
}
