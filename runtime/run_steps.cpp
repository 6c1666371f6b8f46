// The walk over the steps of a call.
#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.h"
#include "runtime/element.h"
#include "runtime/fault_signals.h"
#include "runtime/input_errors.h"
#include "runtime/model.h"
#include "runtime/run.h"

namespace kiln::runtime {

using format::none;
using format::StepKind;

namespace {

// A loop mixes its iteration into the seed, so that iterations, and loops within loops, do not repeat each other's
// numbers. Where draws are not numbered through the program (older packages), every launch has a stream of its own too.
uint64_t mixed_seed(uint64_t seed, int32_t number, int64_t iteration) {
  uint64_t z = seed ^ (static_cast<uint64_t>(static_cast<uint32_t>(number)) << 32 | static_cast<uint32_t>(iteration));
  z = (z ^ (z >> 32)) * 0xd6e8feb86659fd93u;
  return z ^ (z >> 32);
}

}  // namespace

uint64_t Run::step_seed(const PreparedStep& prepared) const {
  return program_.plan.numbered_draws ? seed_ : mixed_seed(seed_, prepared.step->number, 0);
}

// Launches that come again are handed to the device in one piece.
void Run::replayed_block(const std::vector<int32_t>& steps) {
  for (size_t i = 0; i < steps.size();) {
    const PreparedStep& first = program_.steps[static_cast<size_t>(steps[i])];
    const auto count = static_cast<size_t>(std::max(first.stretch, 1));
    const bool together = first.launches > 1;
    const UnderWay launches{first.launches, first.index, steps[i + count - 1]};
    const uint64_t key = bound_->id << 24 | static_cast<uint64_t>(first.index);
    if (!together || !queue_->begin_stretch(key, pointers_, program_.plan.uses_random ? seed_ : 0, launches)) {
      for (size_t s = i; s < i + count; ++s) step<false>(program_.steps[static_cast<size_t>(steps[s])]);
      if (together) queue_->end_stretch();
    }
    i += count;
  }
}

template <bool observed>
void Run::block(const std::vector<int32_t>& steps) {
  if (!observed && !host_) [[unlikely]]
    return replayed_block(steps);
  for (int32_t i : steps) step<observed>(program_.steps[static_cast<size_t>(i)]);
}
template void Run::block<false>(const std::vector<int32_t>&);
template void Run::block<true>(const std::vector<int32_t>&);

template <bool observed>
void Run::step(const PreparedStep& prepared) {
  if constexpr (hooks_built) position_ = prepared.index;
  const BoundStep& bound = bound_->steps[static_cast<size_t>(prepared.index)];
  if (bound.error >= 0) [[unlikely]]
    fail_bound(prepared, bound);
  if (prepared.late) [[unlikely]] {
    if (prepared.visible) {
      BoundStep now = late_step(prepared);
      observed ? launch_observed(prepared, now) : launch(prepared, now);
      return;
    }
  }
  if (prepared.visible) {
    // A kernel whose sizes are known, nearly every step there is: no call more than a runtime without hooks would make.
    if constexpr (observed)
      launch_observed(prepared, bound);
    else if (prepared.kernel) [[likely]]
      launch_kernel(prepared, bound);
    else
      launch(prepared, bound);
    return;
  }
  control<observed>(prepared);
}

void Run::launch(const PreparedStep& prepared, const BoundStep& bound) {
  if (prepared.kernel) [[likely]]
    return launch_kernel(prepared, bound);
  if (prepared.library) return library_step(prepared);
  custom_step(prepared);
}

void Run::launch_kernel(const PreparedStep& prepared, const BoundStep& bound) {
  if (bound.items <= 0) return;
  size_t n = prepared.args.size();
  const int32_t* args = prepared.args.data();
  for (size_t i = 0; i < n; ++i) argv_[i] = pointers_[static_cast<size_t>(args[i])];
  if (layout_ == &late_layout_) [[unlikely]]
    check_known(prepared);
  const Launch launch{prepared.kernel,
                      argv_.data(),
                      bound.ints,
                      n,
                      prepared.step->ints.size(),
                      bound.items,
                      bound.grain,
                      bound.scratch,
                      prepared.step->turns,
                      step_seed(prepared),
                      prepared.index,
                      fresh_scratch_,
                      running_};
  if (!queue_->launch(launch)) [[unlikely]]
    raise();
}

void Run::check_known(const PreparedStep& prepared) const {
  for (int32_t b : prepared.args) {
    if (buffer_known(b)) continue;
    Layout again = *layout_;
    std::string why = str("the sizes of buffer ", program_.buffer(b).name, " are not known yet");
    std::string reason;
    again.lay_out(program_, b, reason);
    fail_step("K0635", prepared, reason.empty() ? why : reason);
  }
}

void Run::raise(const char* when) {
  const Failure failure = queue_->take_failure();
  const PreparedStep& prepared = program_.steps[static_cast<size_t>(failure.step)];
  const kiln_error_slot& slot = failure.slot;
  const auto& sites = prepared.step->sites;
  if (slot.site < 0 || static_cast<size_t>(slot.site) >= sites.size() || !slot.raised)
    fail_step("K0630", prepared, "a kernel failed without saying why");
  const format::Site& site = program_.plan.sites[static_cast<size_t>(sites[static_cast<size_t>(slot.site)])];
  std::string text = site.message;
  if (slot.index > -2) text += str(" (value ", slot.value);
  if (slot.index >= 0) text += str(", element ", slot.index);
  if (slot.index > -2) text += ")";
  text += when;
  if (!site.source.empty()) text += str("\n  --> ", site.source);
  std::vector<std::string> parts;
  if (!site.op.empty()) parts.push_back(str("operator ", site.op));
  if (!site.node.empty()) parts.push_back(str("node ", site.node));
  parts.push_back(str("step ", prepared.step->name));
  if (iteration_ > 0) parts.push_back(str("iteration ", iteration_));
  fail_user("K0630", str(text, "\n  ", join(parts, " · ")));
}

void Run::fail_bound(const PreparedStep& prepared, const BoundStep& bound) const {
  fail_step("K0635", prepared, bound_->errors[static_cast<size_t>(bound.error)]);
}

BoundStep Run::late_step(const PreparedStep& prepared) {
  const format::Step& step = *prepared.step;
  BoundStep now;
  for (size_t i = 0; i < step.ints.size(); ++i) late_ints_[i] = expr_value(step.ints[i], prepared);
  now.ints = late_ints_.data();
  if (step.items != none) now.items = expr_value(step.items, prepared);
  if (step.grain != none) now.grain = std::max<int64_t>(expr_value(step.grain, prepared), 1);
  if (step.scratch != none) now.scratch = expr_value(step.scratch, prepared);
  if (now.scratch < 0) fail_step("K0635", prepared, str("it wants ", now.scratch, " bytes of scratch"));
  return now;
}

template <bool observed>
void Run::control(const PreparedStep& prepared) {
  switch (prepared.step->kind) {
    case StepKind::bind_symbol:
      return bind_symbol(prepared);
    case StepKind::assert_that:
      return assert_that(prepared);
    case StepKind::cond:
      return block<observed>(prepared.blocks[predicate(prepared) ? 0 : 1]);
    default:
      break;
  }
  int64_t outer = iteration_;
  uint64_t outer_seed = seed_;
  if constexpr (observed) iterations_.push_back(0);
  for (int64_t i = 0;; ++i) {
    iteration_ = i;
    seed_ = mixed_seed(outer_seed, program_.plan.numbered_draws ? 0 : prepared.step->number, i + 1);
    if constexpr (observed) iterations_.back() = i;
    if (prepared.step->iteration_symbol != none) define(prepared.step->iteration_symbol, i, prepared);
    block<observed>(prepared.blocks[0]);
    if (!predicate(prepared)) break;
    block<observed>(prepared.blocks[1]);
  }
  iteration_ = outer;
  seed_ = outer_seed;
  if constexpr (observed) iterations_.pop_back();
}

// One element, where the host can read it.
const void* Run::scalar(int32_t buffer) {
  if (host_) return pointer(buffer);
  synchronise();
  model_.device().copy_out(scalar_, pointer(buffer), dtype_bytes(program_.buffer(buffer).dtype));
  return scalar_;
}

bool Run::predicate(const PreparedStep& prepared) {
  if (prepared.step->condition != none) return expr_value(prepared.step->condition, prepared) != 0;
  int32_t b = prepared.args[0];
  if (!buffer_known(b) || element_count(layout_->sizes(program_, b)) != 1)
    fail_step("K0635", prepared, str("the predicate ", program_.buffer(b).name, " is not one element"));
  return element_is_nonzero(program_.buffer(b).dtype, scalar(b));
}

void Run::bind_symbol(const PreparedStep& prepared) {
  int32_t b = prepared.args[0], slot = prepared.step->defines[0];
  int64_t value = 0;
  if (!buffer_known(b) || element_count(layout_->sizes(program_, b)) != 1)
    fail_step("K0635", prepared,
              str("the tensor ", program_.buffer(b).name, " that gives ",
                  program_.plan.symbols[static_cast<size_t>(slot)].name, " is not one element"));
  // Of a floating tensor the symbol is a float, and its slot holds the bits of the double.
  auto dtype = program_.buffer(b).dtype;
  if (is_float(dtype)) return define(slot, std::bit_cast<int64_t>(element_value(dtype, scalar(b))), prepared);
  if (!element_integer(dtype, scalar(b), value))
    fail_step("K0634", prepared,
              str("the value of ", program_.plan.symbols[static_cast<size_t>(slot)].name, " is no 64-bit integer"));
  define(slot, value, prepared);
}

void Run::assert_that(const PreparedStep& prepared) const {
  const format::Step& step = *prepared.step;
  if (expr_value(step.condition, prepared) != 0) return;
  std::string values = symbols_text(program_, program_.symbols_of(step.condition), symbols_);
  std::string text = step.message.empty() ? "an assertion of the program does not hold" : step.message;
  const std::string& condition = program_.plan.exprs[static_cast<size_t>(step.condition)].text;
  fail_step("K0631", prepared, str(text, ": ", condition, values.empty() ? "" : " with ", values));
}

}  // namespace kiln::runtime
