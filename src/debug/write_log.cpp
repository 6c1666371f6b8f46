#include "debug/write_log.h"

#include <cstring>

#include "debug/bisect_checks.h"
#include "debug/step_copy.h"

namespace kiln {
namespace {

uint64_t memory_sum(const Write& write) {
  if (!write.on_host) return 0;  // of a GPU's memory only the arguments of the current step are seen
  Tensor bytes = Tensor::empty(DType::u8, {static_cast<int64_t>(write.end - write.begin)});
  std::memcpy(bytes.data(), reinterpret_cast<const void*>(write.begin), write.end - write.begin);
  return checksum(bytes);
}

}  // namespace

void WriteLog::note(const kiln_step& step, const kiln_step_arg& arg, const Tensor& value) {
  const auto begin = reinterpret_cast<uintptr_t>(arg.tensor.data);
  const Write write{step.name,
                    arg.name,
                    begin,
                    begin + static_cast<uintptr_t>(bytes_of(arg.tensor)),
                    static_cast<int64_t>(all_.size()),
                    checksum(value),
                    arg.tensor.device.device_type == kDLCPU};
  last_[arg.name] = write;
  if (watched_ == arg.name) watched_sum_ = memory_sum(write);
  all_.push_back(write);
}

const Write* WriteLog::find(const std::string& buffer) const {
  const auto found = last_.find(buffer);
  return found == last_.end() ? nullptr : &found->second;
}

const Write* WriteLog::over(const Write& write) const {
  const Write* found = nullptr;
  for (const Write& other : all_)
    if (other.when > write.when && other.buffer != write.buffer && other.begin < write.end && write.begin < other.end)
      found = &other;
  return found;
}

bool WriteLog::watched_changed() const {
  const Write* write = find(watched_);
  return write && memory_sum(*write) != watched_sum_;
}

}  // namespace kiln
