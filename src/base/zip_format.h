// The numbers of the zip format that reader and writer share (APPNOTE.TXT 4.3 and 4.5.3).
#pragma once
#include <cstdint>

namespace kiln::zip_format {

inline constexpr uint32_t local_signature = 0x04034b50, central_signature = 0x02014b50, end_signature = 0x06054b50,
                          end64_signature = 0x06064b50, locator64_signature = 0x07064b50;
inline constexpr uint64_t local_bytes = 30, central_bytes = 46, end_bytes = 22, end64_bytes = 56, locator64_bytes = 20;
inline constexpr uint16_t extra_zip64 = 1;
inline constexpr uint16_t extra_padding = 0x4246;  // "FB", PyTorch's own
inline constexpr uint16_t version_plain = 20, version_zip64 = 45;
inline constexpr uint16_t flag_encrypted = 1, flag_utf8 = 1 << 11;
inline constexpr uint16_t method_stored = 0, method_deflated = 8;
inline constexpr uint16_t fixed_date = (0 << 9) | (1 << 5) | 1;  // 1980-01-01

}  // namespace kiln::zip_format
