#include <new>

#include "base/error.h"
#include "runtime/api_handles.h"

namespace kiln::runtime {
namespace {

struct LastError {
  std::string text, code;
};
LastError& last_error() {
  thread_local LastError error;
  return error;
}

bool between(const std::string& code, const char* low, const char* high) { return code >= low && code <= high; }

kiln_status status_of(const Error& error) {
  const std::string& code = error.code();
  if (error.kind() == ErrorKind::bug) return KILN_ERROR_BUG;
  if (error.kind() == ErrorKind::unsupported) return KILN_ERROR_UNSUPPORTED;
  if (between(code, "K0610", "K0622") || code == "K0684") return KILN_ERROR_INPUT;
  if (code == "K0636") return KILN_ERROR_STOPPED;
  if (between(code, "K0630", "K0635") || code == "K0637" || code == "K0330" || code == "K0742") return KILN_ERROR_RUN;
  if (code == "K0639" || code == "K0743") return KILN_ERROR_UNSUPPORTED;
  if (code == "K0650") return KILN_ERROR_MEMORY;
  if (code == "K0244" || code == "K0720" || between(code, "K0140", "K0149") || between(code, "K0640", "K0669") ||
      between(code, "K0797", "K0798"))
    return KILN_ERROR_ARGUMENT;
  return KILN_ERROR_FILE;
}

kiln_status remember(kiln_status status, std::string text, std::string code) noexcept {
  LastError& last = last_error();
  last.text = std::move(text);
  last.code = std::move(code);
  return status;
}

}  // namespace

kiln_status report_current_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    // Where the contract fixes a text, that text comes first, verbatim; a native stack that was asked for follows.
    std::string text = error.what();
    if (starts_with(error.message(), "Error: ")) {
      const size_t stack = text.find("\n  native stack, ");
      text = error.message() + (stack == std::string::npos ? "" : text.substr(stack));
    }
    return remember(status_of(error), std::move(text), error.code());
  } catch (const std::bad_alloc&) {
    return remember(KILN_ERROR_MEMORY, "error[K0650]: out of memory", "K0650");
  } catch (const std::exception& error) {
    return remember(KILN_ERROR_BUG, str("error[K0900]: ", error.what(), " (this is a bug in Kiln; please report it)"),
                    "K0900");
  } catch (...) {
    return remember(KILN_ERROR_BUG, "error[K0900]: an unknown exception (this is a bug in Kiln; please report it)",
                    "K0900");
  }
}

kiln_status report_misuse(const char* function, const char* what) noexcept {
  return remember(KILN_ERROR_ARGUMENT, str("error[K0660]: ", function, ": ", what), "K0660");
}

}  // namespace kiln::runtime

extern "C" {
const char* kiln_last_error(void) { return kiln::runtime::last_error().text.c_str(); }
const char* kiln_last_error_code(void) { return kiln::runtime::last_error().code.c_str(); }
}
