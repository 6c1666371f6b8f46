#include "base/script_text.h"

#include "base/text.h"

namespace kiln {
namespace {

std::string hex_byte(unsigned char byte) { return {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]}; }

// Bytes of the UTF-8 character at the start of the text; 0 where there is none.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t length = byte(0) < 0x80 ? 1 : byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (length == 1) return 1;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // Longer than need be, surrogates, beyond U+10FFFF.
  if (byte(0) == 0xe0 && byte(1) < 0xa0) return 0;
  if (byte(0) == 0xed && byte(1) >= 0xa0) return 0;
  if (byte(0) == 0xf0 && byte(1) < 0x90) return 0;
  if (byte(0) == 0xf4 && byte(1) >= 0x90) return 0;
  return length;
}

}  // namespace

std::string python_quote(std::string_view text) {
  std::string out = "'";
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text[0]);
    const size_t length = utf8_length(text);
    if (text[0] == '\'' || text[0] == '\\')
      out += str("\\", text[0]);
    else if (text[0] == '\n')
      out += "\\n";
    else if (byte < ' ' || byte == 127)
      out += str("\\x", hex_byte(byte));
    else if (length == 0)
      out += str("\\udc", hex_byte(byte));
    else
      out += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + "'";
}

std::string shell_quote(std::string_view text) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+";
  if (!text.empty() && text.find_first_not_of(plain) == std::string_view::npos) return std::string(text);
  return str("'", replace_all(std::string(text), "'", "'\\''"), "'");
}

std::string comment_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= ' ' && byte != 127)
      out += c;
    else
      out += c == '\n' ? "\\n" : c == '\t' ? " " : str("\\x", hex_byte(byte));
  }
  if (ends_with(trim(out), "\\")) out += " .";
  return out;
}

std::string comment_lines(std::string_view text, std::string_view mark) {
  std::string out;
  for (const std::string& line : split(text, '\n')) {
    const std::string shown = comment_text(line);
    out += str(mark, shown.empty() ? "" : " ", shown, "\n");
  }
  return out;
}

}  // namespace kiln
