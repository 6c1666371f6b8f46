// The plan: constants, the way of the run, layouts, rights to write, and whether memory holds what was written there.
#include <cstring>

#include "debug/bisect_checks.h"
#include "debug/bisected_call.h"
#include "debug/step_copy.h"
#include "debug/written_parts.h"

namespace kiln {

// What can be said before looking at values: constants, the way of the run, layouts, rights to write.
void BisectedCall::check_plan(const kiln_step& step) {
  if (const auto stale = result_.steps == 1 ? constants_.changed() : std::nullopt)
    return blame(FaultClass::stale_constant, step, stale->buffer,
                 str("plan fault (stale weight): ", stale->what, "\n  the first step:"));
  if (const auto fault = control_.before(step))
    return blame(FaultClass::control_flow, step, fault->buffer,
                 str("plan fault (control flow): ", fault->what, at(step)));
  for (size_t i = 0; i < step.arg_count && result_.fault == FaultClass::none; ++i) {
    const loops::Buffer* buffer = package_.buffer(step.args[i].name);
    if (!buffer) continue;
    if (const auto what = layout_fault(*buffer, step.args[i].tensor, symbols_of(step)))
      blame(FaultClass::layout, step, buffer->name,
            str("plan fault (wrong layout): ", step.name, at(step), " is given ", buffer->name, *what));
    const bool stays =
        !buffer->mutated && (buffer->role == loops::BufferRole::input || buffer->role == loops::BufferRole::constant);
    if (stays && (step.args[i].access & 2))
      blame(FaultClass::input_written, step, buffer->name,
            str("first divergence: kernel ", step.name, at(step), " writes ", buffer->name, ", ",
                buffer->role == loops::BufferRole::input ? "an input" : "a constant",
                " that the program does not change\n  the kernel:"));
  }
}

// A buffer that the kernel fills and then reads itself: what it held before means nothing.
bool BisectedCall::inside_kernel(const kiln_step& step, const kiln_step_arg& arg) const {
  const loops::Kernel* kernel = package_.steps().kernel(step.name);
  return arg.access != 1 && kernel && !names_.holds_several(arg.name) && !names_.is_input(arg.name) &&
         !partly_.count(arg.name) && (writes_first(package_.steps(), *kernel, arg.name) || reads_own_memory(arg));
}

// Nobody else could have written it: the kernel reads what it is yet to write.
bool BisectedCall::reads_own_memory(const kiln_step_arg& arg) const {
  const auto left = writers_left_.find(arg.name);
  return unwritten(arg) && left != writers_left_.end() && left->second == 1;
}

// What nobody wrote must not look like what somebody wrote before: NaNs where a kernel is to write everything anew.
void BisectedCall::poison(const kiln_step& step) const {
  for (size_t i = 0; i < step.arg_count; ++i) {
    const kiln_step_arg& arg = step.args[i];
    // Written before in this run: an iteration of a loop may be filling it part by part.
    if (arg.access == 1 || writes_.find(arg.name)) continue;
    if (inputs_.count(arg.name) && !internal_.count(arg.name)) continue;
    bool shared = false;
    for (size_t j = 0; j < step.arg_count; ++j) shared |= j != i && overlap(arg.tensor, step.args[j].tensor);
    if (!shared && dense_and_not_overlapping(sizes_of(arg.tensor), strides_of(arg.tensor)))
      std::memset(host_view(step, i).data, poison_byte, static_cast<size_t>(bytes_of(arg.tensor)));
  }
}

// Nobody has written it in this run, also not under another name (an update in place has a producer).
bool BisectedCall::unwritten(const kiln_step_arg& arg) const {
  const bool own = arg.role == KILN_ROLE_TEMP || arg.role == KILN_ROLE_OUTPUT;
  return own && *arg.producer == '\0' && !writes_.find(arg.name);
}

bool BisectedCall::fills_itself(const kiln_step& step, const kiln_step_arg& arg) const {
  const loops::Kernel* kernel = package_.steps().kernel(step.name);
  return kernel && arg.access != 1 && unwritten(arg) && writes_first(package_.steps(), *kernel, arg.name);
}

void BisectedCall::check_read(const kiln_step& step, const kiln_step_arg& arg, const Tensor& value) {
  if (arg.role == KILN_ROLE_DERIVED)
    if (const auto what = constants_.prepared_fault(arg.name, value, symbols_of(step), result_.difference))
      blame(FaultClass::stale_constant, step, arg.name,
            str("plan fault (stale weight): ", arg.name, ", prepared when the package is loaded, ", *what,
                "; first read by ", step.name, at(step)));
  const Write* written = writes_.find(arg.name);
  if (!written) {
    if (unwritten(arg) && !fills_itself(step, arg))
      blame(FaultClass::missing_dependency, step, arg.name,
            str("plan fault (missing dependency): ", step.name, at(step), " reads ", arg.name,
                ", which no step has written yet in this run"));
    return;
  }
  if (written->sum == checksum(value)) return;
  const Write* by = writes_.over(*written);
  result_.unexplained = !by;
  blame(
      FaultClass::overlap, step, arg.name,
      str("plan fault (overlapping lifetimes): ", arg.name, " was written by ", written->step, " and had changed when ",
          step.name, at(step), " read it; changed by ",
          by ? str(by->step, ", which wrote ", by->buffer, " to memory that overlaps it") : "something between them"));
}

// Who changes a buffer that is not its own to write.
void BisectedCall::check_watched(const kiln_step& step) {
  const Write* written = run_.watched.empty() ? nullptr : writes_.find(run_.watched);
  if (!written) return;
  for (size_t i = 0; i < step.arg_count; ++i) {
    const auto begin = reinterpret_cast<uintptr_t>(step.args[i].tensor.data);
    const uintptr_t end = begin + static_cast<uintptr_t>(bytes_of(step.args[i].tensor));
    if ((step.args[i].access & 2) && begin < written->end && written->begin < end) return;
  }
  if (!writes_.watched_changed()) return;
  blame(FaultClass::outside, step, run_.watched,
        str("first divergence: kernel ", step.name, at(step), " writes outside of its buffers: it changes ",
            run_.watched, ", which it is not given to write"));
}

// What a step only reads is afterwards what it was, unless the plan has it written under another name.
void BisectedCall::check_unchanged(const kiln_step& step, const kiln_step_arg& arg, const Tensor& value) {
  const auto before = inputs_.find(arg.name);
  if (result_.fault != FaultClass::none || before == inputs_.end() || checksum(before->second) == checksum(value))
    return;
  for (size_t i = 0; i < step.arg_count; ++i)
    if ((step.args[i].access & 2) && overlap(step.args[i].tensor, arg.tensor)) return;
  blame(FaultClass::input_written, step, arg.name,
        str("first divergence: kernel ", step.name, at(step), " changes ", arg.name,
            ", which it is only to read\n  the kernel:"));
}

}  // namespace kiln
