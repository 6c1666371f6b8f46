#include "runtime/clean_parts.h"

#include <cstring>
#include <map>
#include <set>
#include <string>

#include "package/step_plan.h"
#include "runtime/step_text.h"

namespace kiln::runtime {
namespace {

struct Bytes {
  uintptr_t begin, end;
};
Bytes bytes_of(const DLTensor& tensor) {
  const auto begin = reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset;
  int64_t last = 0;
  for (int32_t d = 0; d < tensor.ndim; ++d) {
    if (tensor.shape[d] == 0) return {begin, begin};
    last += (tensor.shape[d] - 1) * tensor.strides[d];
  }
  const uintptr_t element = tensor.dtype.bits * tensor.dtype.lanes / 8u;
  return {begin, begin + (static_cast<uintptr_t>(last) + 1) * element};
}

// Element by element: between those of a caller's tensor is something of theirs.
void clear(const DLTensor& tensor, int32_t dim, char* at) {
  const auto element = static_cast<int64_t>(tensor.dtype.bits) * tensor.dtype.lanes / 8;
  if (dim == tensor.ndim) {
    std::memset(at, 0, static_cast<size_t>(element));
    return;
  }
  if (dim + 1 == tensor.ndim && tensor.strides[dim] == 1) {
    std::memset(at, 0, static_cast<size_t>(tensor.shape[dim] * element));
    return;
  }
  for (int64_t i = 0; i < tensor.shape[dim]; ++i) clear(tensor, dim + 1, at + i * tensor.strides[dim] * element);
}

class PartCleaner : public StepObserver {
 public:
  explicit PartCleaner(const format::Plan& plan) {
    std::map<std::string, int> writers;
    count(plan, plan.steps, 1, writers);
    for (const auto& [name, steps] : writers)
      if (steps > 1) in_parts_.insert(name);
    if (!in_parts_.empty()) find_steps(plan, plan.steps);
  }
  bool idle() const { return steps_.empty(); }

  bool wants(const char* step_name) const override { return steps_.contains(step_name); }

  kiln_hook_answer observe(kiln_hook_when when, const kiln_step& step) override {
    kiln_hook_answer answer = KILN_HOOK_CONTINUE;
    if (when != KILN_BEFORE_STEP) return answer;
    for (size_t i = 0; i < step.arg_count; ++i) {
      const kiln_step_arg& arg = step.args[i];
      const bool own = arg.role == KILN_ROLE_TEMP || arg.role == KILN_ROLE_OUTPUT;
      if (arg.access == 1 || !own || *arg.producer || !in_parts_.contains(arg.name) || shared(step, i)) continue;
      const DLTensor& tensor = host_tensor(step, arg);
      clear(tensor, 0, static_cast<char*>(tensor.data) + tensor.byte_offset);
      answer = KILN_HOOK_WRITTEN;
    }
    return answer;
  }

 private:
  // What stands in a loop may run, and write, several times.
  static void count(const format::Plan& plan, const std::vector<format::Step>& block, int times,
                    std::map<std::string, int>& writers) {
    for (const format::Step& step : block) {
      for (const format::KernelArg& used : format::buffers_used(step))
        if (writes(used.access)) writers[plan.buffers[static_cast<size_t>(used.buffer)].name] += times;
      for (const auto& inner : step.blocks) count(plan, inner, 2, writers);
    }
  }

  void find_steps(const format::Plan& plan, const std::vector<format::Step>& block) {
    for (const format::Step& step : block) {
      for (const format::KernelArg& used : format::buffers_used(step))
        if (writes(used.access) && in_parts_.contains(plan.buffers[static_cast<size_t>(used.buffer)].name))
          steps_.insert(step.name);
      for (const auto& inner : step.blocks) find_steps(plan, inner);
    }
  }

  // It is written over what the step reads: an update in place.
  static bool shared(const kiln_step& step, size_t arg) {
    const Bytes mine = bytes_of(step.args[arg].tensor);
    for (size_t i = 0; i < step.arg_count; ++i) {
      const Bytes other = bytes_of(step.args[i].tensor);
      if (i != arg && mine.begin < other.end && other.begin < mine.end) return true;
    }
    return false;
  }

  std::set<std::string, std::less<>> in_parts_, steps_;
};

}  // namespace

std::unique_ptr<StepObserver> make_part_cleaner(const format::Plan& plan) {
  auto cleaner = std::make_unique<PartCleaner>(plan);
  if (cleaner->idle()) return nullptr;
  return cleaner;
}

}  // namespace kiln::runtime
