#include <algorithm>
#include <charconv>
#include <limits>

#include "base/error.h"
#include "base/json.h"

namespace kiln {
namespace {

// Deeper documents are refused: the reader, the destructor and every walker recurse.
constexpr int deepest = 512;

class Reader {
 public:
  Reader(std::string_view text, std::string_view label) : text_(text), label_(label) {
    if (text.size() >= std::numeric_limits<uint32_t>::max()) fail_user("K0120", str(label, ": larger than 4 GB"));
  }

  Json document() {
    Json value = read(0);
    skip_space();
    if (at_ != text_.size()) fail("more text after the end of the document");
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    const std::string_view before = text_.substr(0, at_);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t last = before.rfind('\n');
    const size_t column = last == std::string_view::npos ? at_ + 1 : at_ - last;
    fail_user("K0120", str(label_, ", line ", line, ", column ", column, ": ", what));
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
      ++at_;
  }
  bool take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  Json read(int depth) {
    if (depth > deepest) fail(str("nested deeper than ", deepest, " levels"));
    skip_space();
    const auto position = static_cast<uint32_t>(at_);
    Json value = read_value(depth);
    value.set_position(position);
    return value;
  }

  Json read_value(int depth) {
    switch (peek()) {
      case '{':
        return read_object(depth);
      case '[':
        return read_array(depth);
      case '"':
        return Json(read_string());
      case 't':
        if (take("true")) return Json(true);
        break;
      case 'f':
        if (take("false")) return Json(false);
        break;
      case 'n':
        if (take("null")) return Json();
        break;
      default:
        if (take("NaN")) return Json(std::numeric_limits<double>::quiet_NaN());
        if (take("Infinity")) return Json(std::numeric_limits<double>::infinity());
        if (take("-Infinity")) return Json(-std::numeric_limits<double>::infinity());
        if (peek() == '-' || (peek() >= '0' && peek() <= '9')) return read_number();
    }
    fail(at_ == text_.size() ? "the text ends where a value should stand" : "expected a value");
  }

  Json read_number() {
    const size_t begin = at_;
    if (peek() == '-') ++at_;
    auto digits = [this] {
      const size_t first = at_;
      while (peek() >= '0' && peek() <= '9') ++at_;
      if (at_ == first) fail("expected a digit");
    };
    if (peek() == '0' && at_ + 1 < text_.size() && text_[at_ + 1] >= '0' && text_[at_ + 1] <= '9')
      fail("a number with a leading zero");
    digits();
    bool real = false;
    if (peek() == '.') {
      real = true;
      ++at_;
      digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      real = true;
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      digits();
    }
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (!real) {
      int64_t value = 0;
      if (std::from_chars(word.data(), word.data() + word.size(), value).ec == std::errc()) return Json(value);
      return Json(Json::BigInteger{std::string(word)});
    }
    double value = 0;
    const auto result = std::from_chars(word.data(), word.data() + word.size(), value);
    if (result.ec == std::errc::result_out_of_range) {
      // strtod tells overflow from underflow.
      value = std::strtod(std::string(word).c_str(), nullptr);
    }
    return Json(value);
  }

  unsigned read_hex() {
    if (text_.size() - at_ < 4) fail("a \\u escape is cut short");
    unsigned value = 0;
    const auto result = std::from_chars(text_.data() + at_, text_.data() + at_ + 4, value, 16);
    if (result.ptr != text_.data() + at_ + 4) fail("a \\u escape needs four hexadecimal digits");
    at_ += 4;
    return value;
  }

  void append_utf8(std::string& out, unsigned code) {
    auto put = [&out](unsigned byte) { out += static_cast<char>(byte); };
    if (code < 0x80) {
      put(code);
    } else if (code < 0x800) {
      put(0xc0 | (code >> 6)), put(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
      put(0xe0 | (code >> 12)), put(0x80 | ((code >> 6) & 0x3f)), put(0x80 | (code & 0x3f));
    } else {
      put(0xf0 | (code >> 18)), put(0x80 | ((code >> 12) & 0x3f));
      put(0x80 | ((code >> 6) & 0x3f)), put(0x80 | (code & 0x3f));
    }
  }

  void read_escape(std::string& out) {
    const char c = peek();
    ++at_;
    switch (c) {
      case '"':
      case '\\':
      case '/':
        out += c;
        return;
      case 'b':
        out += '\b';
        return;
      case 'f':
        out += '\f';
        return;
      case 'n':
        out += '\n';
        return;
      case 'r':
        out += '\r';
        return;
      case 't':
        out += '\t';
        return;
      case 'u': {
        unsigned code = read_hex();
        if (code >= 0xdc00 && code < 0xe000) fail("half of a surrogate pair");
        if (code >= 0xd800 && code < 0xdc00) {
          if (!take("\\u")) fail("half of a surrogate pair");
          const unsigned low = read_hex();
          if (low < 0xdc00 || low >= 0xe000) fail("half of a surrogate pair");
          code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
        return append_utf8(out, code);
      }
      default:
        --at_;
        fail("an escape that JSON does not have");
    }
  }

  std::string read_string() {
    ++at_;
    std::string out;
    while (true) {
      const size_t begin = at_;
      while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
             static_cast<unsigned char>(text_[at_]) >= 0x20)
        ++at_;
      out.append(text_.substr(begin, at_ - begin));
      if (at_ == text_.size()) fail("a string is not closed");
      if (text_[at_] == '"') break;
      if (text_[at_] != '\\') fail("a control character in a string");
      ++at_;
      read_escape(out);
    }
    ++at_;
    return out;
  }

  Json read_array(int depth) {
    ++at_;
    Json::Array items;
    skip_space();
    if (take("]")) return Json(std::move(items));
    while (true) {
      items.push_back(read(depth + 1));
      skip_space();
      if (take("]")) return Json(std::move(items));
      if (!take(",")) fail("expected ',' or ']'");
    }
  }

  Json read_object(int depth) {
    ++at_;
    Json::Object members;
    skip_space();
    if (!take("}")) {
      while (true) {
        skip_space();
        if (peek() != '"') fail("expected a key");
        std::string key = read_string();
        skip_space();
        if (!take(":")) fail("expected ':'");
        members.push_back({std::move(key), read(depth + 1)});
        skip_space();
        if (take("}")) break;
        if (!take(",")) fail("expected ',' or '}'");
      }
    }
    check_unique(members);
    return Json(std::move(members));
  }

  void check_unique(const Json::Object& members) const {
    std::vector<std::string_view> keys;
    keys.reserve(members.size());
    for (const JsonMember& member : members) keys.push_back(member.key);
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) fail(str("the key ", quote(*twice), " comes twice"));
  }

  std::string_view text_, label_;
  size_t at_ = 0;
};

}  // namespace

Json parse_json(std::string_view text, std::string_view label) { return Reader(text, label).document(); }

}  // namespace kiln
