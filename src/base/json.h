// JSON: a document tree, its reader and its writer.
//
// Objects keep the order of their members, so what is written is deterministic; a key that comes twice is refused.
// Integers beyond int64 (torch writes 1171368248680556527362 as a bound) survive as text. Every value remembers the
// byte at which it stood, and the typed accessors name it when the value is of another kind (K0121).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kiln {

struct JsonMember;

class Json {
 public:
  struct BigInteger {
    std::string text;  // digits with an optional sign
    bool operator==(const BigInteger&) const = default;
  };
  using Array = std::vector<Json>;
  using Object = std::vector<JsonMember>;

  Json();
  Json(std::nullptr_t);
  Json(bool v);
  Json(int v);
  Json(int64_t v);
  Json(uint64_t v);
  Json(double v);
  Json(std::string v);
  Json(std::string_view v);
  Json(const char* v);
  Json(BigInteger v);
  Json(Array v);
  Json(Object v);
  static Json array();
  static Json object();

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<int64_t>(value_); }
  bool is_big_int() const { return std::holds_alternative<BigInteger>(value_); }
  bool is_real() const { return std::holds_alternative<double>(value_); }
  bool is_number() const { return is_int() || is_big_int() || is_real(); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  // Each throws K0121 when the value is of another kind.
  bool as_bool() const;
  int64_t as_int() const;
  double as_double() const;             // any number
  const std::string& big_text() const;  // of a big integer
  const std::string& as_string() const;
  const Array& items() const;
  const Object& members() const;

  const Json* find(std::string_view key) const;        // of an object; nullptr: not there
  const Json& at(std::string_view key) const;          // throws K0122 when it is not there
  const Json* find_value(std::string_view key) const;  // like find, but null counts as not there

  Json& set(std::string key, Json value);  // of an object: adds or replaces; gives the member's value
  void push(Json value);                   // of an array
  uint32_t position() const { return position_; }
  void set_position(uint32_t position) { position_ = position; }
  const char* kind_name() const;
  bool operator==(const Json& other) const;  // position aside

 private:
  [[noreturn]] void fail_kind(const char* expected) const;
  std::variant<std::monostate, bool, int64_t, BigInteger, double, std::string, Array, Object> value_;
  uint32_t position_ = 0;
};

struct JsonMember {
  std::string key;
  Json value;
  bool operator==(const JsonMember&) const = default;
};

// Here and not in the class: they need to know what a member is.
inline Json::Json() = default;
inline Json::Json(std::nullptr_t) {}
inline Json::Json(bool v) : value_(v) {}
inline Json::Json(int v) : value_(int64_t{v}) {}
inline Json::Json(int64_t v) : value_(v) {}
inline Json::Json(double v) : value_(v) {}
inline Json::Json(std::string v) : value_(std::move(v)) {}
inline Json::Json(std::string_view v) : value_(std::string(v)) {}
inline Json::Json(const char* v) : value_(std::string(v)) {}
inline Json::Json(BigInteger v) : value_(std::move(v)) {}
inline Json::Json(Array v) : value_(std::move(v)) {}
inline Json::Json(Object v) : value_(std::move(v)) {}
inline Json Json::array() { return Json(Array{}); }
inline Json Json::object() { return Json(Object{}); }

// Reads one document. `label` names it in messages, which give line and column (K0120). Bare NaN and Infinity, which
// Python writes, are read as numbers.
Json parse_json(std::string_view text, std::string_view label);

enum class JsonStyle { compact, pretty };
// Numbers read back exactly; non-finite ones are written as strings, as torch.export does.
std::string json_text(const Json& value, JsonStyle style = JsonStyle::compact);
std::string json_quote(std::string_view text);

}  // namespace kiln
