// Kiln's version, said in packages, by `kiln --version` and by the C ABI.
#pragma once

namespace kiln {
inline constexpr const char* version_text = "0.1.0";
}
