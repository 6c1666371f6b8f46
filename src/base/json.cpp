#include "base/json.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"

namespace kiln {

Json::Json(uint64_t v) {
  if (v <= static_cast<uint64_t>(INT64_MAX))
    value_ = static_cast<int64_t>(v);
  else
    value_ = BigInteger{std::to_string(v)};
}

const char* Json::kind_name() const {
  static constexpr const char* names[] = {"null",     "a boolean", "an integer", "a big integer",
                                          "a number", "a string",  "an array",   "an object"};
  return names[value_.index()];
}

void Json::fail_kind(const char* expected) const {
  fail_user("K0121",
            str("expected ", expected, " but found ", kind_name(), " at byte ", position_, " of the JSON text"));
}

bool Json::as_bool() const {
  if (const bool* v = std::get_if<bool>(&value_)) return *v;
  fail_kind("a boolean");
}

int64_t Json::as_int() const {
  if (const int64_t* v = std::get_if<int64_t>(&value_)) return *v;
  fail_kind("an integer");
}

double Json::as_double() const {
  if (const double* v = std::get_if<double>(&value_)) return *v;
  if (const int64_t* v = std::get_if<int64_t>(&value_)) return static_cast<double>(*v);
  if (const BigInteger* v = std::get_if<BigInteger>(&value_)) return std::strtod(v->text.c_str(), nullptr);
  fail_kind("a number");
}

const std::string& Json::big_text() const {
  if (const BigInteger* v = std::get_if<BigInteger>(&value_)) return v->text;
  fail_kind("a big integer");
}

const std::string& Json::as_string() const {
  if (const std::string* v = std::get_if<std::string>(&value_)) return *v;
  fail_kind("a string");
}

const Json::Array& Json::items() const {
  if (const Array* v = std::get_if<Array>(&value_)) return *v;
  fail_kind("an array");
}

const Json::Object& Json::members() const {
  if (const Object* v = std::get_if<Object>(&value_)) return *v;
  fail_kind("an object");
}

const Json* Json::find(std::string_view key) const {
  for (const JsonMember& member : members())
    if (member.key == key) return &member.value;
  return nullptr;
}

const Json* Json::find_value(std::string_view key) const {
  const Json* value = find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

const Json& Json::at(std::string_view key) const {
  if (const Json* value = find(key)) return *value;
  fail_user("K0122", str("the object at byte ", position_, " of the JSON text has no ", quote(key)));
}

Json& Json::set(std::string key, Json value) {
  KILN_CHECK(is_object(), "set on a JSON value that is no object");
  Object& all = std::get<Object>(value_);
  for (JsonMember& member : all)
    if (member.key == key) return member.value = std::move(value);
  all.push_back({std::move(key), std::move(value)});
  return all.back().value;
}

void Json::push(Json value) {
  KILN_CHECK(is_array(), "push on a JSON value that is no array");
  std::get<Array>(value_).push_back(std::move(value));
}

bool Json::operator==(const Json& other) const { return value_ == other.value_; }

std::string json_quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          char escape[8];
          std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
          out += escape;
        } else {
          out += c;
        }
    }
  }
  return out + '"';
}

namespace {

class Writer {
 public:
  explicit Writer(JsonStyle style) : pretty_(style == JsonStyle::pretty) {}

  void write(const Json& value) {
    if (value.is_null())
      out += "null";
    else if (value.is_bool())
      out += value.as_bool() ? "true" : "false";
    else if (value.is_int())
      out += std::to_string(value.as_int());
    else if (value.is_big_int())
      out += value.big_text();
    else if (value.is_real())
      write_real(value.as_double());
    else if (value.is_string())
      out += json_quote(value.as_string());
    else if (value.is_array())
      write_array(value.items());
    else
      write_object(value.members());
  }

  std::string out;

 private:
  void write_real(double v) {
    if (std::isfinite(v))
      out += float_text(v);
    else
      out += std::isnan(v) ? "\"NaN\"" : v < 0 ? "\"-Infinity\"" : "\"Infinity\"";
  }

  void write_array(const Json::Array& items) {
    // Lists of plain values stay on one line: sizes and strides read better so.
    bool nested = false;
    for (const Json& item : items) nested = nested || item.is_array() || item.is_object();
    out += '[';
    ++depth_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i != 0) out += pretty_ && !nested ? ", " : ",";
      if (nested) new_line();
      write(items[i]);
    }
    --depth_;
    if (nested) new_line();
    out += ']';
  }

  void write_object(const Json::Object& members) {
    out += '{';
    ++depth_;
    for (size_t i = 0; i < members.size(); ++i) {
      if (i != 0) out += ',';
      new_line();
      out += json_quote(members[i].key);
      out += pretty_ ? ": " : ":";
      write(members[i].value);
    }
    --depth_;
    if (!members.empty()) new_line();
    out += '}';
  }

  void new_line() {
    if (!pretty_) return;
    out += '\n';
    out.append(2 * depth_, ' ');
  }

  bool pretty_;
  size_t depth_ = 0;
};

}  // namespace

std::string json_text(const Json& value, JsonStyle style) {
  Writer writer(style);
  writer.write(value);
  if (style == JsonStyle::pretty) writer.out += '\n';
  return std::move(writer.out);
}

}  // namespace kiln
