// Who wrote which memory during a run, and what it held then: what is read later must still be that.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kiln/kiln.h"
#include "types/tensor.h"

namespace kiln {

struct Write {
  std::string step, buffer;
  uintptr_t begin, end;  // addresses
  int64_t when;          // counted
  uint64_t sum;          // of the values
  bool on_host;          // the addresses are the host's
};

class WriteLog {
 public:
  // `watched`: a buffer whose bytes are looked at too; may be empty.
  explicit WriteLog(std::string watched) : watched_(std::move(watched)) {}

  // A buffer that shares this memory by the plan is not what it was either: reading it from now on is a fault.
  void note(const kiln_step& step, const kiln_step_arg& arg, const Tensor& value);
  const Write* find(const std::string& buffer) const;  // the last one of the buffer; nullptr: none
  // The last later write of another buffer that has touched the same memory; nullptr: none.
  const Write* over(const Write& write) const;
  // The bytes of the watched buffer are not what its last writer left.
  bool watched_changed() const;

 private:
  std::string watched_;
  std::map<std::string, Write> last_;
  std::vector<Write> all_;
  uint64_t watched_sum_ = 0;
};

}  // namespace kiln
