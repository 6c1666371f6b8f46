// A step on copies of its arguments that have not one byte too many: guard pages (PYTORCH_NO_CUDA_MEMORY_CACHING) and
// the checked code of a kernel (check_bounds).
#include "runtime/guarded_launch.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/checked_code.h"
#include "runtime/model.h"
#include "runtime/step_text.h"

namespace kiln::runtime {

// Arguments that overlap (a value updated in place, two views of one tensor) share a region; all others have their own.
GuardedArguments::GuardedArguments(Run& run, const PreparedStep& prepared, GuardRegion::Flush flush)
    : run_(run), prepared_(prepared) {
  for (const format::KernelArg& used : buffers_used(*prepared.step)) {
    if (!run_.buffer_known(used.buffer) || !run_.pointer(used.buffer)) continue;
    auto* begin = static_cast<std::byte*>(run_.pointer(used.buffer));
    const int64_t bytes = run_.layout().buffers[static_cast<size_t>(used.buffer)].span_bytes;
    arguments_.push_back({used.buffer, used.access, begin, bytes, nullptr, 0});
  }
  std::stable_sort(arguments_.begin(), arguments_.end(),
                   [](const Argument& a, const Argument& b) { return a.own < b.own; });
  for (size_t i = 0; i < arguments_.size();) {
    std::byte *begin = arguments_[i].own, *end = begin + arguments_[i].bytes;
    size_t next = i + 1;
    for (; next < arguments_.size() && arguments_[next].own < end; ++next)
      end = std::max(end, arguments_[next].own + arguments_[next].bytes);
    regions_.push_back(std::make_unique<GuardRegion>(end - begin, flush));
    std::copy(begin, end, regions_.back()->data());
    for (; i < next; ++i) {
      arguments_[i].region = regions_.size() - 1;
      arguments_[i].copy = regions_.back()->data() + (arguments_[i].own - begin);
    }
  }
}

void GuardedArguments::use() {
  for (const Argument& a : arguments_) run_.pointers_[static_cast<size_t>(a.buffer)] = a.copy;
}

void GuardedArguments::put_back() {
  // A step that finds sizes gives new memory to what depends on them: that stays.
  for (const Argument& a : arguments_)
    if (void*& pointer = run_.pointers_[static_cast<size_t>(a.buffer)]; pointer == a.copy) pointer = a.own;
}

GuardedArguments::~GuardedArguments() { put_back(); }

void GuardedArguments::keep_results() {
  for (const Argument& a : arguments_) {
    if (!writes(a.access) || run_.pointer(a.buffer) != a.copy) continue;
    const Dims strides = run_.layout().strides(run_.program(), a.buffer);
    strided_copy(a.own, strides, a.copy, strides, run_.layout().sizes(run_.program(), a.buffer),
                 dtype_bytes(run_.program().buffer(a.buffer).dtype));
  }
}

void GuardedArguments::check_beside() const {
  for (const Argument& a : arguments_)
    if (const auto at = regions_[a.region]->written_beside())
      run_.fail_step(
          "K0643", prepared_,
          str("kernel ", prepared_.step->name, " wrote outside of buffer ", run_.program().buffer(a.buffer).name, " (",
              tensor_text(run_.view(a.buffer)), "): ", outside_text(*at < 0, *at < 0 ? -*at : *at)));
}

std::string outside_text(bool before, int64_t bytes) {
  if (bytes == 0) return "right behind its end";
  return str(bytes, bytes == 1 ? " byte " : " bytes ", before ? "before its start" : "past its end");
}

// Twice: once with the end of every argument against a guard, once with its start. What the second run wrote counts. A
// custom operator may have a state of its own, and runs once.
void Run::launch_guarded(const PreparedStep& prepared, const BoundStep& bound) {
  for (const GuardRegion::Flush flush : {GuardRegion::Flush::end, GuardRegion::Flush::start}) {
    GuardedArguments arguments(*this, prepared, flush);
    arguments.use();
    fresh_scratch_ = true;  // as large as it must be, full of NaNs, and a guard behind it
    launch(prepared, bound);
    arguments.check_beside();
    const bool last = flush == GuardRegion::Flush::start || prepared.custom.has_value();
    if (!last) continue;
    arguments.keep_results();
    return;
  }
}

void Run::launch_checked_code(const PreparedStep& prepared, const BoundStep& bound, GuardedArguments& arguments,
                              kiln_kernel checked) {
  if (layout_ == &late_layout_) check_known(prepared);
  arguments.use();
  std::vector<kiln_checked_range> ranges;
  for (int32_t b : prepared.args) {
    const auto* begin = static_cast<const char*>(pointer(b));
    ranges.push_back({begin, begin + layout_->buffers[static_cast<size_t>(b)].span_bytes});
    argv_[ranges.size() - 1] = pointer(b);
  }
  kiln_checked_access failed{};
  kiln_error_slot slot{};  // what the program itself raises is the loops' to say: they have run before
  kiln_checked_context context{};
  context.context = {KILN_KERNEL_ABI_VERSION, 0, nullptr, bound.scratch, &slot, step_seed(prepared)};
  const Block scratch(model_.allocator(), bound.scratch);
  context.context.scratch = scratch.data();
  context.ranges = ranges.data(), context.failed = &failed;
  const bool stopped = checked(&context.context, argv_.data(), bound.ints, 0, bound.items) != 0;
  if (stopped && failed.happened) {
    const auto* at = static_cast<const char*>(failed.address);
    const bool before = at < static_cast<const char*>(failed.range.begin);
    const int64_t distance = before ? static_cast<const char*>(failed.range.begin) - at
                                    : std::max<int64_t>(0, at - static_cast<const char*>(failed.range.end));
    std::string what = str("scratch", failed.buffer - static_cast<int32_t>(prepared.args.size()));
    if (static_cast<size_t>(failed.buffer) < prepared.args.size()) {
      const int32_t b = prepared.args[static_cast<size_t>(failed.buffer)];
      what = str("buffer ", program_.buffer(b).name, " (", tensor_text(view(b)), ")");
    }
    fail_step("K0644", prepared,
              str("the code of kernel ", prepared.step->name, failed.store ? " writes " : " reads ", failed.bytes,
                  " bytes of ", what, " that begin ", outside_text(before, distance)));
  }
  arguments.put_back();
}

}  // namespace kiln::runtime
