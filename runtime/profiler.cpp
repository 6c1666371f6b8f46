#include "runtime/profiler.h"

#include <algorithm>

#include "runtime/element.h"
#include "runtime/step_text.h"

namespace kiln::runtime {
namespace {

double seconds_between(std::chrono::steady_clock::time_point a, std::chrono::steady_clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

// Of a step whose loops are not known: every argument once.
double bytes_of(const kiln_step& step) {
  double bytes = 0;
  for (size_t i = 0; i < step.arg_count; ++i) {
    const DLTensor& tensor = step.args[i].tensor;
    double elements = step.args[i].access == 3 ? 2 : 1;
    // A dimension that is read again and again (stride 0) is one element of memory.
    for (int32_t d = 0; d < tensor.ndim; ++d)
      if (tensor.shape[d] == 0 || !tensor.strides || tensor.strides[d] != 0)
        elements *= static_cast<double>(tensor.shape[d]);
    if (const auto dtype = dtype_of(tensor.dtype)) bytes += elements * static_cast<double>(dtype_bytes(*dtype));
  }
  return bytes;
}

}  // namespace

kiln_hook_answer Profiler::observe(kiln_hook_when when, const kiln_step& step) {
  const Clock::time_point now = Clock::now();
  const std::lock_guard lock(mutex_);
  auto [found, fresh] = threads_.try_emplace(std::this_thread::get_id());
  ThreadState& thread = found->second;
  if (fresh) thread.number = static_cast<int32_t>(threads_.size());
  if (when == KILN_AFTER_STEP) add(step, thread, step.seconds > 0 ? step.seconds : seconds_between(thread.begin, now));
  thread.begin = Clock::now();
  overhead_ += seconds_between(now, thread.begin);
  return KILN_HOOK_CONTINUE;
}

void Profiler::add(const kiln_step& step, const ThreadState& thread, double seconds) {
  KernelTimes& kernel = kernels_[step.number];
  if (kernel.calls == 0) {
    kernel.name = step.name, kernel.kind = step.kind, kernel.origin = first_line(step);
    if (kernel.origin.empty() && step.origin_count > 0) kernel.origin = step.origins[0].op;
    kernel.least = seconds;
  }
  ++kernel.calls;
  kernel.seconds += seconds;
  kernel.least = std::min(kernel.least, seconds);
  const Counted& work = counted(step);
  kernel.bytes += work.bytes;
  kernel.flops = work.flops < 0 ? -1 : kernel.flops + work.flops;
  runs_.insert(step.run);
  if (launches_.size() < most_launches)
    launches_.push_back(
        {step.number, thread.number, step.run, step.iteration, seconds_between(start_, thread.begin), seconds});
}

const Profiler::Counted& Profiler::counted(const kiln_step& step) {
  std::vector<int64_t> symbols(step.symbol_values, step.symbol_values + step.symbol_count);
  auto [found, fresh] = counted_.try_emplace(step.number);
  Counted& count = found->second;
  if (!fresh && count.symbols == symbols) return count;
  count = {symbols, -1, bytes_of(step)};
  if (tools_) tools_->library().work(tools_->handle(), &step, &count.flops, &count.bytes);
  return count;
}

}  // namespace kiln::runtime
