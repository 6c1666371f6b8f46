#include "console.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/file.h"
#include "base/text.h"

namespace kiln::cli {

namespace {
bool quiet = false;
}

void be_quiet() { quiet = true; }
bool is_quiet() { return quiet; }

void tell_note(const std::string& text) {
  if (!quiet) fprintf(stderr, "note: %s\n", text.c_str());
}
void tell_notes(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) tell_note(text);
}

ProgressLine::ProgressLine() : visible_(!quiet && isatty(STDERR_FILENO) == 1) {
  winsize size{};
  if (visible_ && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 10) columns_ = size.ws_col;
}

void ProgressLine::show(const std::string& text) {
  if (!visible_) return;
  const auto now = std::chrono::steady_clock::now();
  if (shown_ && now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  shown_ = true;
  // A line that wraps cannot be rewritten: cut it.
  fprintf(stderr, "\r\x1b[K%.*s", static_cast<int>(columns_ - 1), text.c_str());
  fflush(stderr);
}

void ProgressLine::clear() {
  if (!shown_) return;
  fputs("\r\x1b[K", stderr);
  fflush(stderr);
  shown_ = false;
}

std::string output_path(const std::string& path) {
  if (named_descriptor(path) != STDOUT_FILENO) return path;
  static int kept = -1;  // the standard output as the command was given it
  if (kept < 0) {
    fflush(stdout);
    kept = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (kept < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return path;
  }
  return str("/dev/fd/", kept);
}

void open_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) >= 0) continue;
    // The lowest free number is this one. For reading: a write to it fails, as it would without.
    if (open("/dev/null", descriptor == STDERR_FILENO ? O_WRONLY : O_RDONLY) != descriptor) return;
  }
}

bool standard_output_is_written() {
  const bool failed_before = ferror(stdout) != 0;
  errno = 0;
  if (fflush(stdout) == 0 && !failed_before) return true;
  fprintf(stderr, "error[%s]: cannot write to the standard output%s%s\n", "K0146", errno ? ": " : "",
          errno ? strerror(errno) : "");
  return false;
}

std::string seconds_text(double seconds) {
  char text[48];
  if (seconds < 1e-3)
    std::snprintf(text, sizeof text, "%.2f µs", seconds * 1e6);
  else if (seconds < 1)
    std::snprintf(text, sizeof text, "%.2f ms", seconds * 1e3);
  else
    std::snprintf(text, sizeof text, "%.2f s", seconds);
  return text;
}

}  // namespace kiln::cli
