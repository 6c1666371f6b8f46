#include "runtime/log.h"

#include <cstdio>

#include "base/text.h"

namespace kiln::runtime {

void Log::write(kiln_log_level level, const std::string& text) const {
  if (callback) return callback(user, level, text.c_str());
  std::string line = str(level == KILN_LOG_WARNING ? "warning: " : "", text, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

}  // namespace kiln::runtime
