#include "runtime/weights.h"

#include <algorithm>

#include "base/error.h"

namespace kiln::runtime {
namespace {

void collect(const Program& program, const PreparedStep& step, std::vector<format::KernelArg>& out) {
  for (const format::KernelArg& arg : buffers_used(*step.step)) out.push_back(arg);
  for (const auto& block : step.blocks)
    for (int32_t i : block) collect(program, program.steps[static_cast<size_t>(i)], out);
}

// Backwards: whatever writes a needed buffer runs. Derived buffers that are not needed are shared, not rewritten.
void add_writers(const Program& program, std::set<int32_t> needed, InitSlice& slice) {
  auto owner = [&](int32_t b) { return program.owner[static_cast<size_t>(b)]; };
  for (size_t k = program.init.size(); k-- > 0;) {
    std::vector<format::KernelArg> used;
    collect(program, program.steps[static_cast<size_t>(program.init[k])], used);
    bool writes_needed = std::any_of(used.begin(), used.end(), [&](const format::KernelArg& a) {
      return writes(a.access) && needed.contains(owner(a.buffer));
    });
    if (!writes_needed) continue;
    slice.steps.insert(slice.steps.begin(), program.init[k]);
    for (const format::KernelArg& a : used)
      if (reads(a.access) && program.buffer(owner(a.buffer)).role == format::BufferRole::temp)
        needed.insert(owner(a.buffer));
  }
}

}  // namespace

InitSlice init_slice(const Program& program, const std::set<int32_t>& changed_constants) {
  using format::BufferRole;
  std::set<int32_t> dirty;  // owners
  for (size_t b = 0; b < program.plan.buffers.size(); ++b) {
    const format::Buffer& buffer = program.plan.buffers[b];
    if (buffer.role == BufferRole::constant && changed_constants.contains(buffer.position))
      dirty.insert(static_cast<int32_t>(b));
  }
  auto owner = [&](int32_t b) { return program.owner[static_cast<size_t>(b)]; };
  for (int32_t i : program.init) {
    std::vector<format::KernelArg> used;
    collect(program, program.steps[static_cast<size_t>(i)], used);
    bool reads_dirty = std::any_of(used.begin(), used.end(), [&](const format::KernelArg& a) {
      return reads(a.access) && dirty.contains(owner(a.buffer));
    });
    if (!reads_dirty) continue;
    for (const format::KernelArg& a : used)
      if (writes(a.access)) dirty.insert(owner(a.buffer));
  }
  InitSlice slice;
  std::set<int32_t> needed;
  for (int32_t b : dirty)
    if (program.buffer(b).role == BufferRole::derived) needed.insert(b), slice.derived.push_back(b);
  add_writers(program, std::move(needed), slice);
  return slice;
}

std::set<int32_t> constants_read_by_init(const Program& program) {
  std::set<int32_t> out;
  for (int32_t i : program.init) {
    std::vector<format::KernelArg> used;
    collect(program, program.steps[static_cast<size_t>(i)], used);
    for (const format::KernelArg& a : used) {
      const format::Buffer& buffer = program.buffer(program.owner[static_cast<size_t>(a.buffer)]);
      if (buffer.role == format::BufferRole::constant) out.insert(buffer.position);
    }
  }
  return out;
}

InitSlice packing_slice(const Program& program, int32_t derived, int32_t constant) {
  InitSlice slice;
  add_writers(program, {derived}, slice);
  std::erase_if(slice.steps, [&](int32_t step) {
    std::vector<format::KernelArg> used;
    collect(program, program.steps[static_cast<size_t>(step)], used);
    return std::none_of(used.begin(), used.end(), [&](const format::KernelArg& a) {
      const format::Buffer& buffer = program.plan.buffers[static_cast<size_t>(a.buffer)];
      return buffer.role == format::BufferRole::constant && buffer.position == constant;
    });
  });
  return slice;
}

int32_t buffer_of_constant(const Program& program, int32_t constant) {
  for (size_t b = 0; b < program.plan.buffers.size(); ++b) {
    const format::Buffer& buffer = program.plan.buffers[b];
    if (buffer.role == format::BufferRole::constant && buffer.position == constant) return static_cast<int32_t>(b);
  }
  return format::none;
}

void WeightStore::start(std::vector<ConstantData> constants, std::vector<ConstantData> derived) {
  auto weights = std::make_shared<Weights>();
  weights->constants = std::move(constants);
  weights->derived = std::move(derived);
  // Whatever depends on no constant at all (a table of frequencies) is derived too.
  InitSlice slice;
  for (size_t b = 0; b < program_.plan.buffers.size(); ++b)
    if (program_.plan.buffers[b].role == format::BufferRole::derived && !weights->derived[b].data)
      slice.derived.push_back(static_cast<int32_t>(b));
  const bool given =
      std::any_of(weights->derived.begin(), weights->derived.end(), [](const ConstantData& d) { return d.data; });
  if (given)
    add_writers(program_, {slice.derived.begin(), slice.derived.end()}, slice);
  else
    slice.steps = program_.init;
  derive_(*weights, slice);
  active_ = std::move(weights);
}

std::shared_ptr<const Weights> WeightStore::active() const {
  std::lock_guard lock(mutex_);
  return active_;
}

// A step may read constants that did not change beside those that did.
void WeightStore::unpack(const InitSlice& slice, Weights& weights) const {
  for (int32_t step : slice.steps) {
    std::vector<format::KernelArg> used;
    collect(program_, program_.steps[static_cast<size_t>(step)], used);
    for (const format::KernelArg& a : used) {
      const format::Buffer& buffer = program_.plan.buffers[static_cast<size_t>(a.buffer)];
      if (buffer.role != format::BufferRole::constant) continue;
      ConstantData& data = weights.constants[static_cast<size_t>(buffer.position)];
      if (!data.data) data = plain_(weights, buffer.position);
    }
  }
}

void WeightStore::update(const std::vector<std::pair<int32_t, ConstantData>>& changes, bool inactive) {
  std::lock_guard one_at_a_time(update_mutex_);
  std::shared_ptr<const Weights> base;
  {
    std::lock_guard lock(mutex_);
    base = inactive && inactive_ ? inactive_ : active_;
  }
  auto next = std::make_shared<Weights>(*base);
  std::set<int32_t> changed;
  for (const auto& [index, data] : changes) {
    next->constants[static_cast<size_t>(index)] = data;
    changed.insert(index);
  }
  InitSlice slice = init_slice(program_, changed);
  unpack(slice, *next);
  if (!slice.steps.empty()) derive_(*next, slice);
  next->watched.clear();
  for (int32_t c : prepared_)
    if (next->constants[static_cast<size_t>(c)].borrowed) next->watched.push_back(c);
  std::shared_ptr<const Weights> other =
      std::move(next);  // then the one before, which may be the last to need its memory
  std::lock_guard lock(mutex_);
  (inactive ? inactive_ : active_).swap(other);
  if (!inactive) version_.fetch_add(1);
}

void WeightStore::swap() {
  std::lock_guard one_at_a_time(update_mutex_);
  std::lock_guard lock(mutex_);
  if (!inactive_) fail_user("K0642", "there is no inactive set of constants: update with KILN_UPDATE_INACTIVE first");
  std::swap(active_, inactive_);
  version_.fetch_add(1);
}

}  // namespace kiln::runtime
