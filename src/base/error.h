// The errors of the compiler. There are three kinds, thrown where they are found and caught once, at the front door
// (cli/ or the C ABI): the user's mistake, something Kiln does not support, a bug in Kiln.
// A question whose answer may be "no" is not an error: it returns the answer with its reason.
//
// Every message has a stable code (docs/errors.md lists the ranges) and, as far as known, the user's source line,
// the module path, the node, the operator and the pass. Code that knows more than its callee adds it with
// `Error::locate`, which fills only what is still empty.
#pragma once
#include <exception>
#include <string>

namespace kiln {

enum class ErrorKind { user, unsupported, bug };

// A line of the user's Python program, taken from a node's stack trace.
struct SourceLine {
  std::string file;
  int line = 0;
  std::string function;
  std::string text;
  bool known() const { return !file.empty(); }
};

struct Where {
  SourceLine source;
  std::string module_path;  // layers.3.mlp
  std::string node;         // sigmoid_7
  std::string op;           // aten.sigmoid.default
  std::string pass;         // lower
};

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string code, std::string message, Where where = {});
  ErrorKind kind() const { return kind_; }
  const std::string& code() const { return code_; }
  const std::string& message() const { return message_; }
  const Where& where() const { return where_; }
  void locate(const Where& where);
  // The whole text as users see it: "error[K0203]: …" and the lines that say where.
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  void render();
  ErrorKind kind_;
  std::string code_, message_;
  Where where_;
  std::string text_;
};

[[noreturn]] void fail_user(const char* code, std::string message, Where where = {});
[[noreturn]] void fail_unsupported(const char* code, std::string message, Where where = {});
[[noreturn]] void fail_bug(std::string message, Where where = {});  // code K0900

// An invariant of Kiln's own: its failure is a bug, in release builds too.
#define KILN_CHECK(condition, message)                                               \
  do {                                                                               \
    if (!(condition)) ::kiln::fail_bug(::kiln::str(message, " [", #condition, "]")); \
  } while (0)

}  // namespace kiln

#include "base/text.h"
