// The structured trace (TORCH_TRACE): one file per process in the trace directory, one JSON object per line. What the
// compiler and the runtime write there is described in docs/report.md; `kiln report` makes a page of it.
//
// Every record has "type" and "time" (seconds since 1970). A record is written by one append, so that threads and
// models of one process can share the file.
#pragma once
#include <string>

#include "base/json.h"

namespace kiln {

inline constexpr int trace_version = 1;

// "2026_11_15_07_17_16_123456-pid_4711": the same for the whole life of the process; names trace files and the debug
// directory.
const std::string& process_stamp();

class TraceFile {
 public:
  explicit TraceFile(const std::string& directory);  // made where it is missing; throws K0101
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  ~TraceFile();
  // Members of `record` (an object) follow "type" and "time".
  void write(std::string_view type, const Json& record);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace kiln
