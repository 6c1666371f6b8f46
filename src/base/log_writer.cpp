#include "base/log_writer.h"

#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/environment.h"
#include "base/error.h"

namespace kiln {
namespace {

char level_letter(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return 'V';
    case LogLevel::info:
      return 'I';
    case LogLevel::warning:
      return 'W';
    case LogLevel::error:
      return 'E';
  }
  return 'I';
}

const char* level_colour(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "\x1b[2m";
    case LogLevel::info:
      return "\x1b[36m";
    case LogLevel::warning:
      return "\x1b[33m";
    case LogLevel::error:
      return "\x1b[31m";
  }
  return "";
}

std::string stamp(LogLevel level) {
  timeval now{};
  gettimeofday(&now, nullptr);
  tm local{};
  localtime_r(&now.tv_sec, &local);
  char text[64];
  snprintf(text, sizeof text, "%c%02d%02d %02d:%02d:%02d.%06ld %ld", level_letter(level), local.tm_mon + 1,
           local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec, static_cast<long>(now.tv_usec),
           static_cast<long>(syscall(SYS_gettid)));
  return text;
}

}  // namespace

LogWriter::LogWriter(FILE* stream) : stream_(stream) { coloured_ = isatty(fileno(stream)) == 1 && !colours_refused(); }

LogWriter::LogWriter(const std::string& path) : stream_(fopen(path.c_str(), "ae")), path_(path), owned_(true) {
  if (stream_ == nullptr) fail_user("K0101", str("cannot write ", path, ": ", strerror(errno)));
}

LogWriter::~LogWriter() {
  if (owned_) fclose(stream_);
}

void LogWriter::write(LogLevel level, std::string_view who, std::string_view artifact, std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  std::string prefix = str(stamp(level), " kiln/", who, "] ");
  if (!artifact.empty()) prefix += str("[__", artifact, "] ");
  if (coloured_) prefix = str(level_colour(level), prefix, "\x1b[0m");
  std::string out;
  for (const std::string& line : split(text, '\n')) out += str(prefix, line, "\n");
  const bool written = fwrite(out.data(), 1, out.size(), stream_) == out.size() && fflush(stream_) == 0;
  if (written || !owned_ || failed_) return;
  failed_ = true;
  fprintf(stderr, "note: the log in %s is not complete: %s\n", path_.c_str(), strerror(errno));
}

}  // namespace kiln
