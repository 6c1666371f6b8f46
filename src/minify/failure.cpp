#include "minify/failure.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "ops/op_record.h"

namespace kiln::minify {
namespace {

struct KindName {
  FailureKind kind;
  const char* name;
};
constexpr KindName kind_names[] = {
    {FailureKind::none, "none"},     {FailureKind::error, "error"}, {FailureKind::accuracy, "wrong result"},
    {FailureKind::signal, "signal"}, {FailureKind::hang, "hang"},   {FailureKind::memory, "out of memory"},
};

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

// Of the C++ compiler's output the line with its first error, from "error:" on: the rest names files and kernels.
std::string_view telling_line(std::string_view message) {
  const size_t compiler_error = message.find(" error: ");
  if (compiler_error != std::string_view::npos && message.find("the C++ compiler") != std::string_view::npos)
    message = message.substr(compiler_error + 1);
  // The runtime's errors come with their code already.
  while (starts_with(message, "error[") && message.find("]: ") != std::string_view::npos)
    message = message.substr(message.find("]: ") + 3);
  message = message.substr(0, message.find('\n'));
  // "(value 3, element 17)" says which element, "did you mean" what else is in scope.
  message = message.substr(0, message.find(" (value "));
  return message.substr(0, message.find("; did you mean"));
}

// A word of the message as the signature has it: names of kernels and anything with a digit become one sign.
std::string normalised_word(std::string_view word) {
  if (starts_with(word, "cpp_") || starts_with(word, "cuda_") || starts_with(word, "lib_")) return "KERNEL";
  // An operator's full name tells something, even with digits in it (aten.conv2d.default).
  const size_t last = word.find_last_not_of(".,:;)'\"");
  if (last != std::string_view::npos && Registry::instance().find(word.substr(0, last + 1))) return std::string(word);
  for (const char c : word)
    if (c >= '0' && c <= '9') return "#";
  return std::string(word);
}

// Lists of sizes have another length after a size was dropped: "[#, #]" is "[#]".
std::string without_lists(std::string text) {
  for (size_t at = text.find("#, #"); at != std::string::npos; at = text.find("#, #", at)) text.erase(at, 3);
  return text;
}

}  // namespace

const char* failure_kind_name(FailureKind kind) {
  for (const KindName& row : kind_names)
    if (row.kind == kind) return row.name;
  fail_bug("a failure without a name");
}

Json to_json(const Failure& failure) {
  Json json = Json::object();
  json.set("kind", failure_kind_name(failure.kind));
  json.set("stage", failure.stage);
  json.set("code", failure.code);
  json.set("op", failure.op);
  json.set("node", failure.node);
  json.set("message", failure.message);
  json.set("signal", failure.signal);
  // As text: JSON has no infinity.
  json.set("error", str(failure.error));
  return json;
}

Failure failure_from_json(const Json& json) {
  Failure failure;
  const std::string kind = json.at("kind").as_string();
  for (const KindName& row : kind_names)
    if (kind == row.name) failure.kind = row.kind;
  failure.stage = json.at("stage").as_string();
  failure.code = json.at("code").as_string();
  failure.op = json.at("op").as_string();
  failure.node = json.at("node").as_string();
  failure.message = json.at("message").as_string();
  failure.signal = static_cast<int>(json.at("signal").as_int());
  failure.error = std::strtod(json.at("error").as_string().c_str(), nullptr);
  return failure;
}

std::string normalised(std::string_view message) {
  const std::string_view line = telling_line(message);
  std::string out;
  for (size_t i = 0; i < line.size();) {
    const char c = line[i];
    if (is_word(c) || c == '/' || c == '%') {
      size_t end = i;
      bool path = false;
      while (end < line.size() && (is_word(line[end]) || line[end] == '/' || line[end] == '%')) {
        path |= line[end] == '/' || line[end] == '%';
        ++end;
      }
      out += path ? "NAME" : normalised_word(line.substr(i, end - i));
      i = end;
    } else {
      out += c;
      ++i;
    }
  }
  return without_lists(std::move(out));
}

Signature signature_of(const Failure& failure, std::string check_str) {
  Signature signature;
  signature.kind = failure.kind;
  signature.code = failure.code;
  signature.op = failure.op;
  signature.signal = failure.signal;
  signature.check_str = std::move(check_str);
  if (failure.kind == FailureKind::error)
    signature.message = normalised(failure.message);
  else if (failure.kind != FailureKind::accuracy)
    signature.stage = failure.stage;
  // The cause may be smaller than what became of it further on, but it is no trifle where that was none.
  if (failure.kind == FailureKind::accuracy && failure.code == "values")
    signature.least_error = std::min(std::sqrt(failure.error), 10.0);
  return signature;
}

bool matches(const Signature& signature, const Failure& failure) {
  if (!failure.failed()) return false;
  if (!signature.check_str.empty() && failure.message.find(signature.check_str) == std::string::npos) return false;
  const Signature found = signature_of(failure);
  return found.kind == signature.kind && found.code == signature.code && found.op == signature.op &&
         found.message == signature.message && found.stage == signature.stage && found.signal == signature.signal &&
         failure.error >= signature.least_error;
}

std::string describe(const Failure& failure) {
  const std::string first = std::string(telling_line(failure.message));
  switch (failure.kind) {
    case FailureKind::none:
      return "no failure";
    case FailureKind::error:
      return str("error ", failure.code, failure.op.empty() ? "" : str(" in ", failure.op), " while in ", failure.stage,
                 ": ", first);
    case FailureKind::accuracy:
      return str("wrong result (", failure.code, "): ", first);
    case FailureKind::signal:
      return str("the process died of ", strsignal(failure.signal), " (signal ", failure.signal, ") in ",
                 failure.stage);
    case FailureKind::hang:
      return str("no end of ", failure.stage, " in time");
    case FailureKind::memory:
      return str("out of memory in ", failure.stage);
  }
  return "";
}

}  // namespace kiln::minify
