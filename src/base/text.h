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
// One part of a text. Numbers are written by the one function below, not where the text is made: messages are in
// every file, and what each of their parts costs there adds up.
struct Part {
  enum class Kind : uint8_t { text, integer, natural, floating } kind;
  union {
    std::string_view text;
    int64_t integer;
    uint64_t natural;
    double floating;
  };
  Part(std::string_view value) : kind(Kind::text), text(value) {}
  Part(const std::string& value) : kind(Kind::text), text(value) {}
  Part(const char* value) : kind(Kind::text), text(value) {}
  Part(const char& value) : kind(Kind::text), text(&value, 1) {}
  // Nothing but a bool is one: a pointer would convert to it and read "true".
  template <class T>
  requires std::is_same_v<T, bool> Part(T value) : kind(Kind::text), text(value ? "true" : "false") {}
  template <class T>
  Part(const T* value) = delete;
  Part(double value) : kind(Kind::floating), floating(value) {}
  Part(float value) : kind(Kind::floating), floating(value) {}
  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char> && std::is_signed_v<T>)
      Part(T value)
      : kind(Kind::integer), integer(value) {}
  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char> && std::is_unsigned_v<T>)
      Part(T value)
      : kind(Kind::natural), natural(value) {}
};
std::string joined(const Part* parts, size_t count);
}  // namespace text_detail

template <class... Parts>
std::string str(const Parts&... parts) {
  if constexpr (sizeof...(parts) == 0)
    return {};
  else {
    const text_detail::Part list[] = {parts...};
    return text_detail::joined(list, sizeof...(parts));
  }
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
// Names that all differ: of several equal ones a settled one keeps its name, or else the first; the others get "_1",
// "_2", …, the first that nothing else is called. Settled names differ among themselves.
std::vector<std::string> unique_names(std::vector<std::string> names, const std::vector<bool>& settled);
// The candidate nearest to the word, for "did you mean"; "" when none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace kiln
