// Small text tools: building strings, splitting and joining, numbers that read back exactly.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace kiln {

// The shortest text that reads back as the same double; always recognisable as a float ("1.0", "1e+30", "inf", "nan").
std::string float_text(double value);

namespace text_detail {
inline void append(std::string& out, std::string_view part) { out += part; }
inline void append(std::string& out, const char* part) { out += part; }
inline void append(std::string& out, char part) { out += part; }
// Nothing but a bool is one: a pointer would convert to it and read "true".
template <class T>
requires std::is_same_v<T, bool>
void append(std::string& out, T part) { out += part ? "true" : "false"; }
template <class T>
void append(std::string& out, const T* part) = delete;
inline void append(std::string& out, double part) { out += float_text(part); }
inline void append(std::string& out, float part) { out += float_text(part); }
template <class T>
requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) void append(std::string& out, T part) {
  out += std::to_string(part);
}
}  // namespace text_detail

template <class... Parts>
std::string str(const Parts&... parts) {
  std::string out;
  (text_detail::append(out, parts), ...);
  return out;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator);
template <class Range, class ToText>
std::string join_map(const Range& range, std::string_view separator, ToText to_text) {
  std::string out;
  bool first = true;
  for (const auto& item : range) {
    if (!first) out += separator;
    first = false;
    out += to_text(item);
  }
  return out;
}
std::vector<std::string> split(std::string_view text, char separator);  // keeps empty parts
std::string_view trim(std::string_view text);
bool starts_with(std::string_view text, std::string_view prefix);
bool ends_with(std::string_view text, std::string_view suffix);
std::string lower_case(std::string_view text);
std::string replace_all(std::string text, std::string_view from, std::string_view to);
// "…" with \n, \t, \", \\ and \xNN escapes; the inverse is unquote.
std::string quote(std::string_view text);
bool unquote(std::string_view quoted, std::string& out);
// Case-insensitive glob with * and ?.
bool glob_match(std::string_view pattern, std::string_view text);
// 1536 -> "1.5 kB"
std::string bytes_text(uint64_t bytes);
// The candidate nearest to the word, for "did you mean"; "" when none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace kiln
