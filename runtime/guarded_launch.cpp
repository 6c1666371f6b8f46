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
    std::byte* const copy = run_.host_ ? guarded_copy(begin, end, flush) : copy_there(begin, end);
    for (; i < next; ++i) {
      arguments_[i].region = regions_.size() - 1;
      arguments_[i].copy = copy + (arguments_[i].own - begin);
    }
  }
}

std::byte* GuardedArguments::guarded_copy(const std::byte* begin, const std::byte* end, GuardRegion::Flush flush) {
  regions_.push_back(std::make_unique<GuardRegion>(end - begin, flush));
  std::copy(begin, end, regions_.back()->data());
  return regions_.back()->data();
}

// In the device's memory, which has no guards. It begins at a multiple of 16 bytes, or not, as the argument does:
// kernels take words where all of them do.
std::byte* GuardedArguments::copy_there(const std::byte* begin, const std::byte* end) {
  constexpr int64_t words = 16, one = 1;
  const int64_t aside = static_cast<int64_t>(reinterpret_cast<uintptr_t>(begin) % words), bytes = end - begin;
  blocks_.emplace_back(run_.model_.allocator(), bytes + words);
  std::byte* const copy = blocks_.back().data() + aside;
  if (bytes > 0) run_.queue_->copy(copy, {&one, 1}, begin, {&one, 1}, {&bytes, 1}, 1);
  return copy;
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
                              const void* checked) {
  if (layout_ == &late_layout_) check_known(prepared);
  if (bound.items <= 0) return;
  arguments.use();
  for (size_t i = 0; i < prepared.args.size(); ++i) argv_[i] = pointer(prepared.args[i]);
  const kiln_checked_access failed = host_ ? run_checked(prepared, bound, reinterpret_cast<kiln_kernel>(checked))
                                           : run_checked_there(prepared, bound, checked);
  if (failed.happened) {
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

kiln_checked_access Run::run_checked(const PreparedStep& prepared, const BoundStep& bound, kiln_kernel checked) {
  std::vector<kiln_checked_range> ranges;
  for (int32_t b : prepared.args) {
    const auto* begin = static_cast<const char*>(pointer(b));
    ranges.push_back({begin, begin + layout_->buffers[static_cast<size_t>(b)].span_bytes});
  }
  kiln_checked_access failed{};
  kiln_error_slot slot{};  // what the program itself raises is the loops' to say: they have run before
  kiln_checked_context context{};
  context.context = {KILN_KERNEL_ABI_VERSION, 0, nullptr, bound.scratch, &slot, step_seed(prepared), nullptr};
  const Block scratch(model_.allocator(), bound.scratch);
  context.context.scratch = scratch.data();
  context.ranges = ranges.data(), context.failed = &failed;
  checked(&context.context, argv_.data(), bound.ints, 0, bound.items);
  return failed;
}

// On a GPU the addresses are places in the buffer: what the kernel says of them is as good.
kiln_checked_access Run::run_checked_there(const PreparedStep& prepared, const BoundStep& bound, const void* checked) {
  std::vector<int64_t> ints(bound.ints, bound.ints + prepared.step->ints.size());
  if (ints.empty()) ints.push_back(0);
  for (int32_t b : prepared.args) ints.push_back(layout_->buffers[static_cast<size_t>(b)].span_bytes);
  const size_t sizes = ints.size() - prepared.args.size();
  const Launch launch{checked,     argv_.data(),  ints.data(), prepared.args.size(), ints.size(),    bound.items,
                      bound.grain, bound.scratch, false,       step_seed(prepared),  prepared.index, fresh_scratch_,
                      running_};
  kiln_checked_access failed{};
  if (queue_->launch(launch) && queue_->synchronise()) return failed;
  const kiln_error_slot slot = queue_->take_failure().slot;
  if (slot.raised != KILN_RAISED_OUTSIDE) return failed;
  failed.happened = 1, failed.buffer = slot.site / 2, failed.store = slot.site % 2;
  failed.bytes = static_cast<int32_t>(slot.value);
  const bool scratch = static_cast<size_t>(failed.buffer) >= prepared.args.size();
  const auto* const begin = reinterpret_cast<const char*>(int64_t{1} << 60);
  failed.range = {
      begin, begin + (scratch ? (bound.scratch + 63) / 64 * 64 : ints[sizes + static_cast<size_t>(failed.buffer)])};
  failed.address = begin + slot.index;
  return failed;
}

}  // namespace kiln::runtime
