// Writes log lines the way PyTorch's logs look:
//   V1031 16:48:08.938214 3598491 kiln/merge_kernels] [__fusion] merge sum into exp: same loops over 64 iterations
// Level, month and day, time, thread of the system, who says it, the artifact. Every line of a longer text has the
// prefix. Colours only where the stream is a terminal (and NO_COLOR is not set).
#pragma once
#include <cstdio>
#include <string>
#include <string_view>

#include "base/log_selection.h"

namespace kiln {

class LogWriter {
 public:
  explicit LogWriter(FILE* stream);             // not owned
  explicit LogWriter(const std::string& path);  // appends to a file; throws K0101
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;
  ~LogWriter();
  // One call, one write: lines of several threads do not mix. Where a file takes no more that is said once, on stderr.
  void write(LogLevel level, std::string_view who, std::string_view artifact, std::string_view text);
  bool coloured() const { return coloured_; }

 private:
  FILE* stream_;
  std::string path_;  // of a file
  bool owned_ = false, coloured_ = false, failed_ = false;
};

}  // namespace kiln
