#include "base/error.h"

#include "base/native_stack.h"

namespace kiln {
namespace {
// The last part of an error's text, where TORCH_SHOW_CPP_STACKTRACES asks for it.
constexpr std::string_view stack_heading = "\n  native stack, innermost call first:\n";
}  // namespace

Error::Error(ErrorKind kind, std::string code, std::string message, Where where)
    : kind_(kind), code_(std::move(code)), message_(std::move(message)), where_(std::move(where)) {
  if (native_stacks_wanted()) text_ = str(stack_heading, native_stack_text(1));
  render();
}

void Error::locate(const Where& where) {
  if (!where_.source.known()) where_.source = where.source;
  if (where_.module_path.empty()) where_.module_path = where.module_path;
  if (where_.node.empty()) where_.node = where.node;
  if (where_.op.empty()) where_.op = where.op;
  if (where_.pass.empty()) where_.pass = where.pass;
  render();
}

void Error::render() {
  // The stack is where the error was made: what `locate` adds later does not change it.
  const size_t stack = text_.find(stack_heading);
  const std::string kept = stack == std::string::npos ? "" : text_.substr(stack);
  text_ = str("error[", code_, "]: ", message_);
  if (kind_ == ErrorKind::bug) text_ += " (this is a bug in Kiln; please report it)";
  if (where_.source.known()) {
    text_ += str("\n  --> ", where_.source.file, ":", where_.source.line);
    if (!where_.source.function.empty()) text_ += str(" in ", where_.source.function);
    if (!where_.source.text.empty()) text_ += str(":  ", where_.source.text);
  }
  std::vector<std::string> parts;
  if (!where_.module_path.empty()) parts.push_back("module " + where_.module_path);
  if (!where_.op.empty()) parts.push_back("operator " + where_.op);
  if (!where_.node.empty()) parts.push_back("node " + where_.node);
  if (!where_.pass.empty()) parts.push_back("pass " + where_.pass);
  if (!parts.empty()) text_ += "\n  " + join(parts, " · ");
  text_ += kept;
}

void fail_user(const char* code, std::string message, Where where) {
  throw Error(ErrorKind::user, code, std::move(message), std::move(where));
}
void fail_unsupported(const char* code, std::string message, Where where) {
  throw Error(ErrorKind::unsupported, code, std::move(message), std::move(where));
}
void fail_bug(std::string message, Where where) {
  throw Error(ErrorKind::bug, "K0900", std::move(message), std::move(where));
}

}  // namespace kiln
