#include "base/input_messages.h"

#include <bit>

#include "base/error.h"

namespace kiln {

using GivenKind = GivenValue::Kind;

std::string given_text(const GivenValue& value) {
  switch (value.kind) {
    case GivenKind::none:
      return "None";
    case GivenKind::tensor:
      return "a tensor";
    case GivenKind::integer:
      return std::to_string(value.integer);
    case GivenKind::floating:
      return float_text(value.floating);
    case GivenKind::boolean:
      return value.integer ? "True" : "False";
    case GivenKind::string:
      return quote(value.text);
    case GivenKind::list:
      return "a list";
    case GivenKind::other:
      break;
  }
  return std::string(value.text);
}

bool same_constant(const GivenValue& wanted, const GivenValue& got) {
  switch (wanted.kind) {
    case GivenKind::none:
      return got.kind == GivenKind::none;
    case GivenKind::integer:
      return (got.kind == GivenKind::integer || got.kind == GivenKind::boolean) && got.integer == wanted.integer;
    case GivenKind::floating:
      if (got.kind == GivenKind::integer) return static_cast<double>(got.integer) == wanted.floating;
      // By its bits too: a NaN is itself.
      return got.kind == GivenKind::floating &&
             (got.floating == wanted.floating ||
              std::bit_cast<uint64_t>(got.floating) == std::bit_cast<uint64_t>(wanted.floating));
    case GivenKind::boolean:
      return got.kind == GivenKind::boolean && (got.integer != 0) == (wanted.integer != 0);
    case GivenKind::string:
    case GivenKind::other:
      return got.kind == wanted.kind && got.text == wanted.text;
    default:
      return false;
  }
}

std::optional<int64_t> solve_symbol(int64_t size, int64_t scale, int64_t rest) {
  int64_t difference = 0;
  if (scale == 0 || __builtin_sub_overflow(size, rest, &difference)) return std::nullopt;
  if (scale == -1 && difference == INT64_MIN) return std::nullopt;  // its quotient is 2^63
  if (difference % scale != 0) return std::nullopt;
  return difference / scale;
}

namespace {

std::string unmatched(const InputPlace& place) {
  return place.dim < 0 ? "unmatched value" : str("unmatched dim value at ", place.dim);
}

[[noreturn]] void refuse_unmatched(const char* code, const InputPlace& place, const char* what,
                                   const std::string& expected, const std::string& got) {
  refuse_input(code, place, str(what, ", expected: ", expected, ", but got: ", got));
}

}  // namespace

void refuse_input(const char* code, const InputPlace& place, const std::string& text) {
  fail_user(code, "Error: input_handles[" + std::to_string(place.input) + "]: " + text + " (input '" +
                      std::string(place.name) + "')");
}

void refuse_input_count(size_t expected, const std::string& names, size_t got) {
  fail_user("K0610",
            "Error: expected " + std::to_string(expected) + " inputs (" + names + "), but got " + std::to_string(got));
}

void refuse_input_kind(const InputPlace& place, const char* expected, const std::string& got) {
  refuse_input("K0611", place, str("expected: ", expected, ", but got: ", got));
}

void refuse_input_constant(const InputPlace& place, const GivenValue& wanted, const GivenValue& got) {
  refuse_unmatched("K0612", place, "unmatched value", given_text(wanted), given_text(got));
}

void refuse_input_device(const InputPlace& place, const std::string& expected, const std::string& got) {
  refuse_unmatched("K0613", place, "unmatched device type", expected, got);
}

void refuse_input_dtype(const InputPlace& place, const std::string& expected, const std::string& got) {
  refuse_unmatched("K0614", place, "unmatched dtype", expected, got);
}

void refuse_input_rank(const InputPlace& place, size_t expected, int64_t got) {
  refuse_unmatched("K0615", place, "unmatched number of dimensions", std::to_string(expected), std::to_string(got));
}

void refuse_input_size(const InputPlace& place, int64_t expected, int64_t got, std::string_view expression,
                       const std::string& symbols) {
  std::string wanted = std::to_string(expected);
  if (!expression.empty()) wanted += str(" (", expression, "; ", symbols, ")");
  refuse_unmatched(expression.empty() ? "K0616" : "K0618", place, unmatched(place).c_str(), wanted,
                   std::to_string(got));
}

void refuse_unsolved(const InputPlace& place, std::string_view expression, std::string_view symbol, int64_t got) {
  refuse_unmatched("K0616", place, unmatched(place).c_str(), str(expression, " with a whole number for ", symbol),
                   std::to_string(got));
}

void refuse_input_range(const InputPlace& place, std::string_view symbol, int64_t value, int64_t low, int64_t high,
                        std::string_view expression, int64_t got) {
  const bool small = value < low;
  std::string text = place.dim < 0 ? "value is too " : "dim value is too ";
  text += small ? "small" : "large";
  if (place.dim >= 0) text += str(" at ", place.dim);
  text += str(", expected ", expression.empty() ? "it" : symbol, " to be ", small ? ">= " : "<= ", small ? low : high,
              ", but got: ", got, " (", symbol);
  if (!expression.empty()) text += str(" = ", value, " in ", expression);
  refuse_input("K0617", place, text + ")");
}

void refuse_relation(std::string_view condition, std::string_view reason, const std::string& symbols,
                     const std::string& why_unknown) {
  std::string detail = symbols;
  if (!reason.empty()) detail = str(reason, "; ", detail);
  if (!why_unknown.empty()) detail += str("; ", why_unknown);
  fail_user("K0619", str("Error: the inputs do not satisfy ", condition, " (", detail, ")"));
}

std::string symbol_text(std::string_view symbol, const std::string& value, const InputPlace* place) {
  std::string text = str(symbol, " = ", value);
  if (!place) return text;
  text += str(" from input_handles[", place->input, "] '", place->name, "'");
  return place->dim < 0 ? text : str(text, " dim ", place->dim);
}

}  // namespace kiln
