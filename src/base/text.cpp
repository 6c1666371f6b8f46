#include "base/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

namespace kiln {

namespace {

// The fewest digits that read back as the value, and the power of ten of the last one.
struct Decimal {
  std::string digits;
  int exponent;
};
Decimal shortest_decimal(double value) {
  char buffer[40];
  for (int precision = 0;; ++precision) {
    std::snprintf(buffer, sizeof buffer, "%.*e", precision, value);
    if (precision == 16 || std::strtod(buffer, nullptr) == value) break;
  }
  Decimal decimal;
  const char* at = buffer;
  for (; *at != 'e'; ++at)
    if (*at >= '0' && *at <= '9') decimal.digits += *at;  // the point is another one in some locales
  decimal.exponent = std::atoi(at + 1) - static_cast<int>(decimal.digits.size()) + 1;
  return decimal;
}

}  // namespace

// What std::to_chars gives, which would bring 128 kB of tables into the runtime.
std::string float_text(double value) {
  if (std::isnan(value)) return std::signbit(value) ? "-nan" : "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string sign = std::signbit(value) ? "-" : "";
  if (value == 0) return sign + "0.0";
  auto [digits, exponent] = shortest_decimal(std::fabs(value));
  const int count = static_cast<int>(digits.size()), lead = exponent + count - 1;
  if (exponent < -(count + 3) + (count == 1) || exponent > 5 - (count == 1)) {
    if (count > 1) digits.insert(1, ".");
    char power[16];
    std::snprintf(power, sizeof power, "e%c%02d", lead < 0 ? '-' : '+', std::abs(lead));
    return sign + digits + power;
  }
  if (exponent >= 0) {
    char whole[40];  // exact, where zeros behind the shortest digits would not be
    std::snprintf(whole, sizeof whole, "%.0f.0", std::fabs(value));
    return sign + whole;
  }
  if (lead < 0) return sign + "0." + std::string(static_cast<size_t>(-lead - 1), '0') + digits;
  return sign + digits.insert(static_cast<size_t>(lead) + 1, ".");
}

std::string text_detail::joined(const Part* parts, size_t count) {
  std::string out;
  for (const Part* part = parts; part != parts + count; ++part) switch (part->kind) {
      case Part::Kind::text:
        out += part->text;
        break;
      case Part::Kind::integer:
        out += std::to_string(part->integer);
        break;
      case Part::Kind::natural:
        out += std::to_string(part->natural);
        break;
      case Part::Kind::floating:
        out += float_text(part->floating);
        break;
    }
  return out;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  return join_map(parts, separator, [](const std::string& part) { return part; });
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> out;
  size_t begin = 0;
  while (true) {
    size_t end = text.find(separator, begin);
    if (end == std::string_view::npos) break;
    out.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  out.emplace_back(text.substr(begin));
  return out;
}

std::string_view trim(std::string_view text) {
  auto space = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return text;
}

bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }
bool ends_with(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos && !from.empty(); at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      out += escape;
    } else {
      out += c;
    }
  }
  return out + '"';
}

bool unquote(std::string_view quoted, std::string& out) {
  out.clear();
  if (quoted.size() < 2 || quoted.front() != '"' || quoted.back() != '"') return false;
  quoted = quoted.substr(1, quoted.size() - 2);
  for (size_t i = 0; i < quoted.size(); ++i) {
    if (quoted[i] != '\\') {
      if (quoted[i] == '"') return false;
      out += quoted[i];
      continue;
    }
    if (++i >= quoted.size()) return false;
    if (quoted[i] == 'n') {
      out += '\n';
    } else if (quoted[i] == 't') {
      out += '\t';
    } else if (quoted[i] == 'x') {
      unsigned value = 0;
      if (i + 2 >= quoted.size()) return false;
      auto result = std::from_chars(quoted.data() + i + 1, quoted.data() + i + 3, value, 16);
      if (result.ptr != quoted.data() + i + 3) return false;
      out += static_cast<char>(value);
      i += 2;
    } else {
      out += quoted[i];
    }
  }
  return true;
}

bool glob_match(std::string_view pattern, std::string_view text) {
  auto same = [](char a, char b) {
    auto low = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    return a == '?' || low(a) == low(b);
  };
  size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (p < pattern.size() && same(pattern[p], text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string bytes_text(uint64_t bytes) {
  if (bytes < 1000) return str(bytes, " B");
  const char* units[] = {"kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  int unit = -1;
  while (value >= 1000 && unit < 3) {
    value /= 1000;
    ++unit;
  }
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, value < 10 ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return buffer;
}

namespace {

// Letters to add, drop, change, or swap with their neighbour, until `a` is `b`.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

// "printer" of "aot_inductor.debug_intermediate_value_printer", "thr" of "threads".
bool is_part_of(std::string_view word, std::string_view candidate) {
  if (word.size() < 3 || word.size() >= candidate.size()) return false;
  if (starts_with(candidate, word)) return true;
  const char before = candidate[candidate.size() - word.size() - 1];
  return ends_with(candidate, word) && (before == '.' || before == '_');
}

}  // namespace

// What is far from every candidate gets nothing: a wrong suggestion misleads more than none.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string lower = lower_case(word);
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 4) + 1;
  for (const std::string& candidate : candidates) {
    const std::string other = lower_case(candidate);
    const size_t distance = is_part_of(lower, other) ? 1 : edit_distance(lower, other);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = candidate;
  }
  return best;
}

std::vector<std::string> unique_names(std::vector<std::string> names, const std::vector<bool>& settled) {
  const std::set<std::string> given(names.begin(), names.end());
  std::set<std::string> used;
  for (size_t i = 0; i < names.size(); ++i)
    if (settled[i]) used.insert(names[i]);
  std::map<std::string, size_t> suffixes;  // the last that was tried of a name: of many equal ones each takes one step
  for (size_t i = 0; i < names.size(); ++i) {
    if (settled[i] || used.insert(names[i]).second) continue;
    size_t& suffix = suffixes[names[i]];
    std::string name;
    do name = str(names[i], "_", ++suffix);
    while (given.contains(name) || used.contains(name));
    used.insert(name);
    names[i] = std::move(name);
  }
  return names;
}

}  // namespace kiln
