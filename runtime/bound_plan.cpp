#include "runtime/bound_plan.h"

#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "runtime/input_errors.h"
#include "runtime/placement.h"

namespace kiln::runtime {
namespace {

using format::BufferRole;
using format::none;

constexpr int64_t most_scratch = int64_t{1} << 40;  // for each thread

bool checked_span(Dims sizes, Dims strides, int64_t item, int64_t& bytes) {
  int64_t last = 0, count = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(count, sizes[i], &count)) return false;
    if (sizes[i] > 0 &&
        (__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) || __builtin_add_overflow(last, reach, &last)))
      return false;
  }
  if (count == 0) return bytes = 0, true;
  return !__builtin_add_overflow(last, int64_t{1}, &last) && !__builtin_mul_overflow(last, item, &bytes) &&
         !__builtin_mul_overflow(count, item, &count);
}

class Binder {
 public:
  Binder(const Program& program, std::vector<int64_t> symbols)
      : program_(program), bound_(std::make_shared<BoundPlan>()) {
    static std::atomic<uint64_t> next{0};
    bound_->id = ++next;
    bound_->symbols = std::move(symbols);
    for (int32_t slot : program.early) bound_->key.push_back(bound_->symbols[static_cast<size_t>(slot)]);
  }

  std::shared_ptr<const BoundPlan> run(bool check_ranges, bool fixed = false) {
    fixed_ = fixed;
    if (check_ranges) check_symbol_ranges(program_, bound_->symbols);
    expressions();
    if (check_ranges) guards();
    buffers();
    arena();
    bound_->ints.reserve(integer_count());
    bound_->steps.resize(program_.steps.size());
    for (const PreparedStep& step : program_.steps) bind_step(step);
    return bound_;
  }

 private:
  void expressions() {
    const format::Plan& plan = program_.plan;
    Layout& layout = bound_->layout;
    layout.values.resize(plan.exprs.size());
    layout.results.resize(plan.exprs.size());
    layout.evaluated.resize(plan.exprs.size());
    for (size_t e = 0; e < plan.exprs.size(); ++e)
      if (fixed_ ? program_.symbols_of(static_cast<format::ExprIndex>(e)).empty() : !program_.expr_late[e])
        layout.evaluate_expr(program_, static_cast<format::ExprIndex>(e), bound_->symbols);
  }

  void guards() const {
    for (const format::Guard& guard : program_.plan.guards) {
      if (program_.expr_late[static_cast<size_t>(guard.condition)]) continue;
      check_guard(program_, guard, bound_->layout, bound_->symbols);
    }
  }

  void buffers() {
    Layout& layout = bound_->layout;
    layout.dims.resize(program_.dims_count);
    layout.buffers.resize(program_.plan.buffers.size());
    buffer_errors_.resize(layout.buffers.size());
    for (size_t b = 0; b < layout.buffers.size(); ++b) {
      auto index = static_cast<int32_t>(b);
      if (program_.is_late(index)) continue;
      bool fine = layout.lay_out(program_, index, buffer_errors_[b]);
      if (!fine && !fixed_ && program_.plan.buffers[b].role == BufferRole::input)
        fail_user("K0616", str("Error: input_handles[", program_.plan.buffers[b].position, "]: ", buffer_errors_[b]));
    }
  }

  void arena() {
    std::vector<int32_t> main, init;
    for (size_t b = 0; b < program_.plan.buffers.size(); ++b) {
      auto index = static_cast<int32_t>(b);
      if (program_.owner[b] != index || program_.plan.buffers[b].role != BufferRole::temp) continue;
      if (program_.is_late(index) || !program_.lifetime[b].used() || !group_known(index)) continue;
      (program_.in_init[b] ? init : main).push_back(index);
    }
    bound_->arena_bytes = place_owners(program_, bound_->layout, main, bound_->arena_alignment);
    bound_->init_arena_bytes = place_owners(program_, bound_->layout, init, bound_->arena_alignment);
  }

  bool group_known(int32_t owner) const {
    const auto& group = program_.members[static_cast<size_t>(owner)];
    return std::all_of(group.begin(), group.end(),
                       [&](int32_t b) { return bound_->layout.buffers[static_cast<size_t>(b)].known; });
  }

  size_t integer_count() const {
    size_t n = 0;
    for (const PreparedStep& step : program_.steps) n += step.step->ints.size();
    return n;
  }

  void bind_step(const PreparedStep& prepared) {
    const format::Step& step = *prepared.step;
    BoundStep& out = bound_->steps[static_cast<size_t>(prepared.index)];
    std::string why;
    for (const format::KernelArg& arg : buffers_used(step)) {
      auto b = static_cast<size_t>(program_.owner[static_cast<size_t>(arg.buffer)]);
      if (program_.is_late(arg.buffer) || group_known(static_cast<int32_t>(b))) continue;
      for (int32_t member : program_.members[b])
        if (why.empty()) why = buffer_errors_[static_cast<size_t>(member)];
    }
    if (!prepared.late) {
      out.ints = bound_->ints.data() + bound_->ints.size();
      for (format::ExprIndex e : step.ints) bound_->layout.value(program_, e, bound_->ints.emplace_back(), why);
      if (step.items != none) bound_->layout.value(program_, step.items, out.items, why);
      if (step.grain != none) bound_->layout.value(program_, step.grain, out.grain, why);
      out.grain = std::max<int64_t>(out.grain, 1);
      if (step.scratch != none) bound_->layout.value(program_, step.scratch, out.scratch, why);
      if (out.scratch < 0 || out.scratch > most_scratch)
        why = str("step ", step.name, " wants ", out.scratch, " bytes of scratch");
      int64_t condition = 0;
      if (step.condition != none) bound_->layout.value(program_, step.condition, condition, why);
    }
    if (why.empty()) return;
    out.error = static_cast<int32_t>(bound_->errors.size());
    bound_->errors.push_back(why);
  }

  const Program& program_;
  std::shared_ptr<BoundPlan> bound_;
  std::vector<std::string> buffer_errors_;
  bool fixed_ = false;
};

}  // namespace

Dims Layout::sizes(const Program& program, int32_t buffer) const {
  return Dims(dims).subspan(program.dims_at[static_cast<size_t>(buffer)], program.buffer(buffer).sizes.size());
}
Dims Layout::strides(const Program& program, int32_t buffer) const {
  size_t rank = program.buffer(buffer).sizes.size();
  return Dims(dims).subspan(program.dims_at[static_cast<size_t>(buffer)] + rank, rank);
}

bool Layout::evaluate_expr(const Program& program, format::ExprIndex e, std::span<const int64_t> symbols) {
  auto i = static_cast<size_t>(e);
  results[i] = evaluate(program.plan.exprs[i], symbols, values[i]);
  evaluated[i] = 1;
  return results[i] == ExprResult::ok;
}

bool Layout::value(const Program& program, format::ExprIndex e, int64_t& out, std::string& why) const {
  auto i = static_cast<size_t>(e);
  out = values[i];
  if (evaluated[i] && results[i] == ExprResult::ok) return true;
  if (why.empty()) {
    const char* reason = evaluated[i] ? expr_result_text(results[i]) : "a symbol in it has no value yet";
    why = str("the expression ", program.plan.exprs[i].text, " cannot be evaluated: ", reason);
  }
  out = 0;
  return false;
}

bool Layout::lay_out(const Program& program, int32_t index, std::string& why) {
  const format::Buffer& buffer = program.buffer(index);
  auto dtype = buffer.dtype;
  BufferLayout& out = buffers[static_cast<size_t>(index)];
  out.known = false;
  int64_t* at = dims.data() + program.dims_at[static_cast<size_t>(index)];
  bool fine = true;
  for (format::ExprIndex e : buffer.sizes) {
    fine = value(program, e, *at, why) && fine;
    if (fine && *at < 0) why = str("buffer ", buffer.name, " has the negative size ", *at), fine = false;
    ++at;
  }
  for (format::ExprIndex e : buffer.strides) {
    fine = value(program, e, *at, why) && fine;
    if (fine && *at < 0) why = str("buffer ", buffer.name, " has the negative stride ", *at), fine = false;
    ++at;
  }
  int64_t offset = 0, bytes = 0;
  if (buffer.offset != none) fine = value(program, buffer.offset, offset, why) && fine;
  if (buffer.bytes != none) fine = value(program, buffer.bytes, bytes, why) && fine;
  if (!fine) return false;
  int64_t item = dtype_bytes(dtype), end = 0;
  if (!checked_span(sizes(program, index), strides(program, index), item, out.span_bytes) ||
      __builtin_mul_overflow(offset, item, &out.offset_bytes) ||
      __builtin_add_overflow(out.offset_bytes, out.span_bytes, &end)) {
    why = str("buffer ", buffer.name, " is larger than the address space");
    return false;
  }
  bool has_memory =
      buffer.role == BufferRole::temp || buffer.role == BufferRole::derived || buffer.role == BufferRole::output;
  if (offset < 0 || (has_memory && bytes < 0)) {
    why = str("buffer ", buffer.name, " lies outside its memory");
    return false;
  }
  out.group_bytes = std::max(bytes, end);
  out.known = true;
  return true;
}

int64_t place_owners(const Program& program, Layout& layout, const std::vector<int32_t>& owners, size_t& alignment) {
  std::vector<PlacedBuffer> placed;
  for (int32_t owner : owners) {
    PlacedBuffer item;
    for (int32_t member : program.members[static_cast<size_t>(owner)]) {
      item.bytes = std::max(item.bytes, layout.buffers[static_cast<size_t>(member)].group_bytes);
      item.alignment = std::max<int64_t>(item.alignment, program.buffer(member).alignment);
    }
    item.first = program.lifetime[static_cast<size_t>(owner)].first;
    item.last = program.lifetime[static_cast<size_t>(owner)].last;
    alignment = std::max(alignment, static_cast<size_t>(item.alignment));
    placed.push_back(item);
  }
  int64_t total = place(placed);
  for (size_t i = 0; i < owners.size(); ++i) {
    layout.buffers[static_cast<size_t>(owners[i])].arena = placed[i].offset;
    layout.buffers[static_cast<size_t>(owners[i])].group_bytes = placed[i].bytes;
  }
  return total;
}

std::shared_ptr<const BoundPlan> bind_plan(const Program& program, std::vector<int64_t> symbols, bool check_ranges) {
  return Binder(program, std::move(symbols)).run(check_ranges);
}

std::shared_ptr<const BoundPlan> bind_fixed(const Program& program) {
  return Binder(program, std::vector<int64_t>(program.plan.symbols.size())).run(false, true);
}

std::shared_ptr<const BoundPlan> BoundCache::find(std::span<const int64_t> key) {
  std::lock_guard lock(mutex_);
  for (auto it = plans_.begin(); it != plans_.end(); ++it) {
    if (!std::equal(key.begin(), key.end(), (*it)->key.begin(), (*it)->key.end())) continue;
    plans_.splice(plans_.begin(), plans_, it);
    return plans_.front();
  }
  return nullptr;
}

void BoundCache::insert(std::shared_ptr<const BoundPlan> plan) {
  std::lock_guard lock(mutex_);
  plans_.push_front(std::move(plan));
  if (plans_.size() > capacity_) plans_.pop_back();
}

size_t BoundCache::size() {
  std::lock_guard lock(mutex_);
  return plans_.size();
}

}  // namespace kiln::runtime
