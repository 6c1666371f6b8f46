#include "runtime/log.h"

#include <cstdio>

namespace kiln::runtime {

void Log::write(kiln_log_level level, const std::string& text) const {
  if (callback) return callback(user, level, text.c_str());
  std::string line = text + "\n";
  if (level == KILN_LOG_WARNING) line = "warning: " + line;
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

}  // namespace kiln::runtime
