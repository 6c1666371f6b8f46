#include "console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

namespace kiln::cli {

ProgressLine::ProgressLine() : visible_(isatty(STDERR_FILENO) == 1) {
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
