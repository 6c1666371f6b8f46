#include "runtime/run.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/element.h"
#include "runtime/input_errors.h"
#include "runtime/model.h"

namespace kiln::runtime {

using format::BufferRole;
using format::none;

Run::Run(Model& model)
    : model_(model),
      program_(model.program()),
      host_(model.device().is_host()),
      queue_(model.device().new_queue(model.parallel(), model.options().allocator,
                                      {model.options().graphs != 0, model.options().launch_blocking})) {
  const format::Plan& plan = program_.plan;
  symbols_.resize(plan.symbols.size());
  defined_.resize(plan.symbols.size());
  pointers_.resize(plan.buffers.size());
  argv_.resize(std::max<size_t>(program_.max_args, 1));
  late_ints_.resize(program_.max_ints);
  late_memory_.resize(program_.has_late ? plan.symbols.size() : 0);
  inputs_.resize(plan.inputs.size());
  outputs_.resize(plan.outputs.size());
}

Run::~Run() {
  if (host_) return;
  try {
    queue_->synchronise();  // what is under way uses this memory
  } catch (const Error&) {
    // the context is lost, and the memory with it
  }
}

namespace {

// Ends the call whatever happens.
class CallOnStream {
 public:
  explicit CallOnStream(Queue& queue) : queue_(queue) {}
  ~CallOnStream() { queue_.finish(); }
  CallOnStream(const CallOnStream&) = delete;

 private:
  Queue& queue_;
};

}  // namespace

bool Run::call(const CallState& state, const kiln_value* inputs, size_t input_count, kiln_value* outputs,
               size_t output_count) {
  if (host_) [[likely]] {
    issue(state, inputs, input_count, outputs, output_count);
    return true;
  }
  const CallOnStream on_stream(*queue_);
  try {
    if (!queue_->start(state.stream)) raise(" (in an earlier call that was not waited for)");
    issue(state, inputs, input_count, outputs, output_count);
    const bool wait = state.wait || model_.options().sync_run;
    if (wait) synchronise();
    return wait;
  } catch (const Error& error) {
    if (error.code() != "K0777") throw;
    name_lost(error.message());
  }
}

// An access that CUDA gave the context up for: in which kernel, as well as it is known.
void Run::name_lost(const std::string& message) const {
  const UnderWay under_way = queue_->under_way();
  if (under_way.launches == 0) fail_user("K0777", message);
  const PreparedStep& last = program_.steps[static_cast<size_t>(under_way.last)];
  if (under_way.launches == 1) fail_step("K0777", last, message);
  const PreparedStep& first = program_.steps[static_cast<size_t>(under_way.first)];
  fail_user("K0777", str(message, "\n  in one of ", under_way.launches, " kernels, from ", first.step->name, " to ",
                         last.step->name, ": with CUDA_LAUNCH_BLOCKING=1 it is named"));
}

void Run::issue(const CallState& state, const kiln_value* inputs, size_t input_count, kiln_value* outputs,
                size_t output_count) {
  hook_ = state.hook;
  seed_ = state.seed;
  iteration_ = 0;
  forget_host_copies();  // of a call that failed
  take_inputs(inputs, input_count);
  pin_weights(state);
  if (model_.options().debug.separate_buffers) [[unlikely]]
    forget_temps();
  if (program_.has_late) start_late();
  take_outputs(outputs, output_count);
  if (hooks_built && (hook_ || model_.watch().any())) [[unlikely]] {
    call_inputs_ = inputs, call_input_count_ = input_count, in_call_ = true;
    if (hook_ || model_.watch().on()) {
      start_watching(model_.watch().next_run());
      block<true>(program_.main);
    } else {
      run_named(program_.main);
    }
  } else {
    block<false>(program_.main);
  }
  if (state.wait) synchronise();  // before anything is handed over
  finish_outputs();
  if (any_copied_) write_back_inputs();
}

void Run::derive(const Weights& weights, const InitSlice& slice, bool watched) {
  try {
    derive_slice(weights, slice, watched);
  } catch (const Error& error) {
    if (error.code() != "K0777") throw;
    name_lost(error.message());
  }
}

void Run::derive_slice(const Weights& weights, const InitSlice& slice, bool watched) {
  std::shared_ptr<const BoundPlan> fixed = bind_fixed(program_);
  bound_ = fixed.get();
  layout_ = &fixed->layout;
  set_constants(weights);
  place_temps(true);
  hook_ = nullptr;
  in_call_ = false;
  if (hooks_built && watched && model_.watch().on()) {
    start_watching(0);
    block<true>(slice.steps);
  } else if (hooks_built && watched && model_.watch().any()) {
    run_named(slice.steps);
  } else {
    block<false>(slice.steps);
  }
  synchronise();
  bound_ = nullptr;
}

void Run::use_bound(std::shared_ptr<const BoundPlan> bound) {
  bound_ = bound.get();
  layout_ = &bound_->layout;
  recent_.insert(recent_.begin(), std::move(bound));
  if (recent_.size() > 8) recent_.pop_back();
  try {
    place_temps(false);
  } catch (...) {
    bound_ = nullptr;  // its temps have no memory
    throw;
  }
}

void Run::place_temps(bool init) {
  int64_t bytes = init ? bound_->init_arena_bytes : bound_->arena_bytes;
  const bool separate = model_.options().debug.separate_buffers;
  if (bytes > 0 && !separate) grow(arena_, bytes, std::max(bound_->arena_alignment, memory_alignment));
  for (size_t b = 0; b < layout_->buffers.size(); ++b)
    if (layout_->buffers[b].arena >= 0 && !program_.in_init[b] == !init)
      set_group(static_cast<int32_t>(b),
                separate ? own_memory(b, layout_->buffers[b]) : arena_.data() + layout_->buffers[b].arena);
}

std::byte* Run::own_memory(size_t owner, const BufferLayout& layout) {
  own_memory_.resize(program_.plan.buffers.size());
  synchronise();
  own_memory_[owner] = Block(model_.allocator(), layout.group_bytes, memory_alignment);
  return own_memory_[owner].data();
}

// What an earlier run left in temps must not look as if this one had written it.
void Run::forget_temps() {
  for (const Block& memory : own_memory_)
    if (memory.data() && host_) std::fill_n(memory.data(), memory.bytes(), std::byte{0xff});
}

void Run::grow(Block& block, int64_t bytes, size_t alignment) {
  if (!host_ && bytes > block.bytes()) wait();  // what is under way may use the memory that there was
  block.grow(model_.allocator(), bytes, alignment);
}

void Run::set_group(int32_t owner, std::byte* memory) {
  for (int32_t b : program_.members[static_cast<size_t>(owner)])
    pointers_[static_cast<size_t>(b)] = memory + layout_->buffers[static_cast<size_t>(b)].offset_bytes;
}

void Run::set_constants(const Weights& weights) {
  for (size_t b = 0; b < pointers_.size(); ++b) {
    const format::Buffer& buffer = program_.plan.buffers[b];
    if (buffer.role == BufferRole::constant)
      pointers_[b] = weights.constants[static_cast<size_t>(buffer.position)].data;
    if (buffer.role == BufferRole::derived) pointers_[b] = weights.derived[b].data;
  }
}

namespace {

std::string missing_constants(const Program& program, const Weights& weights) {
  std::string names;
  size_t more = 0;
  for (size_t c = 0; c < weights.constants.size(); ++c) {
    if (!weights.constants[c].missing) continue;
    if (names.size() < 200)
      names += str(names.empty() ? "" : ", ", program.plan.constants[c].name);
    else
      ++more;
  }
  return more == 0 ? names : str(names, " and ", more, " more");
}

}  // namespace

// What was made of borrowed values when they were given is of those values; beside changed ones the run would mix both.
void Run::check_borrowed() const {
  for (int32_t c : weights_->watched) {
    const ConstantData& constant = weights_->constants[static_cast<size_t>(c)];
    if (model_.sample(c, constant.data) == constant.sample) continue;
    fail_user("K0798", str("constant ", program_.plan.constants[static_cast<size_t>(c)].name,
                           " is your memory (KILN_UPDATE_BORROW, user_managed), and its values have changed since it "
                           "was given: what was prepared from them is old; after changing them give it again "
                           "(kiln_constants_update, load_constants)"));
  }
}

void Run::pin_weights(const CallState& state) {
  uint64_t version = model_.weights().version();
  if (version != weights_version_ || !weights_) {
    weights_ = model_.weights().active();
    weights_version_ = version;
    if (const std::string missing = missing_constants(program_, *weights_); !missing.empty()) {
      weights_ = nullptr;
      fail_user("K0720", str("the package was made without weights, and these are not given yet: ", missing));
    }
    set_constants(*weights_);
  }
  if (!weights_->watched.empty()) [[unlikely]]
    check_borrowed();
  if (!state.own_constants) return;
  for (size_t b = 0; b < pointers_.size(); ++b) {
    const format::Buffer& buffer = program_.plan.buffers[b];
    if (buffer.role != BufferRole::constant || !program_.plan.constants[static_cast<size_t>(buffer.position)].mutated)
      continue;
    const ConstantData& own = (*state.own_constants)[static_cast<size_t>(buffer.position)];
    if (own.missing) [[unlikely]]
      fail_user("K0720", str("the instance was made before the package's weights were given: buffer ", buffer.name,
                             " has no value; make it afterwards, or use kiln_constant_write"));
    std::byte* element = own.data;
    if (program_.members[b].size() > 1) set_group(static_cast<int32_t>(b), element - layout_->buffers[b].offset_bytes);
    pointers_[b] = element;
  }
}

void Run::start_late() {
  late_layout_ = bound_->layout;
  layout_ = &late_layout_;
  for (size_t s = 0; s < defined_.size(); ++s) defined_[s] = !program_.symbol_late[s];
  const PreparedStep caller;  // a number that the caller gives is defined by no step
  for (int32_t slot : program_.late_inputs) define(slot, symbols_[static_cast<size_t>(slot)], caller);
}

void Run::define(int32_t slot, int64_t value, const PreparedStep& by) {
  auto s = static_cast<size_t>(slot);
  const format::Symbol& symbol = program_.plan.symbols[s];
  bool is_float = symbol.source == format::SymbolSource::input_value &&
                  program_.plan.inputs[static_cast<size_t>(symbol.input)].what == format::InputWhat::sym_float;
  if (!is_float && (value < symbol.low || value > symbol.high)) {
    std::string range = str(value < symbol.low ? ">= " : "<= ", value < symbol.low ? symbol.low : symbol.high);
    if (!by.step)
      refuse_input(program_, "K0617", static_cast<size_t>(symbol.input),
                   str("value is too ", value < symbol.low ? "small" : "large", ", expected it to be ", range,
                       ", but got: ", value, " (", symbol.name, ")"));
    fail_step("K0634", by,
              str("the value of ", symbol.name, " is ", value, ", and the program was exported for ", symbol.name, " ",
                  range));
  }
  bool again = defined_[s];
  symbols_[s] = value;
  defined_[s] = 1;
  auto all_defined = [&](const std::vector<int32_t>& slots) {
    return std::all_of(slots.begin(), slots.end(),
                       [&](int32_t other) { return defined_[static_cast<size_t>(other)] != 0; });
  };
  for (int32_t e : program_.exprs_of[s])
    if (all_defined(program_.symbols_in[static_cast<size_t>(e)])) late_layout_.evaluate_expr(program_, e, symbols_);
  // In a later iteration of a loop the other symbols of a guard may be the last one's: it was checked in the first.
  for (int32_t g : program_.guards_of[s]) {
    const format::Guard& guard = program_.plan.guards[static_cast<size_t>(g)];
    if (!again && all_defined(program_.symbols_in[static_cast<size_t>(guard.condition)]))
      check_guard(program_, guard, late_layout_, symbols_);
  }
  if (!program_.owners_of[s].empty()) place_late(slot);
}

// Gives memory to the buffers whose sizes this symbol was the last to decide: a new segment of the memory plan.
void Run::place_late(int32_t slot) {
  std::vector<int32_t> temps, outputs;
  for (int32_t owner : program_.owners_of[static_cast<size_t>(slot)]) {
    const auto& waits = program_.late_symbols[static_cast<size_t>(owner)];
    if (!std::all_of(waits.begin(), waits.end(), [&](int32_t s) { return defined_[static_cast<size_t>(s)] != 0; }))
      continue;
    bool fine = true;
    std::string why;  // asked for again where a step needs the buffer
    for (int32_t member : program_.members[static_cast<size_t>(owner)])
      fine = late_layout_.lay_out(program_, member, why) && fine;
    if (!fine) continue;
    BufferRole role = program_.buffer(owner).role;
    if (role == BufferRole::temp && program_.lifetime[static_cast<size_t>(owner)].used()) temps.push_back(owner);
    if (role == BufferRole::output) outputs.push_back(owner);
  }
  size_t alignment = memory_alignment;
  int64_t bytes = place_owners(program_, late_layout_, temps, alignment);
  Block& memory = late_memory_[static_cast<size_t>(slot)];
  const bool separate = model_.options().debug.separate_buffers;
  synchronise();  // what is under way may use the memory that there was
  if (!temps.empty() && !separate) memory.grow(model_.allocator(), bytes, alignment);
  for (int32_t owner : temps) {
    const BufferLayout& layout = late_layout_.buffers[static_cast<size_t>(owner)];
    set_group(owner, separate ? own_memory(static_cast<size_t>(owner), layout) : memory.data() + layout.arena);
  }
  for (int32_t owner : outputs) set_output(static_cast<size_t>(program_.buffer(owner).position));
}

int64_t Run::expr_value(format::ExprIndex e, const PreparedStep& step) const {
  int64_t value = 0;
  std::string why;
  if (!layout_->value(program_, e, value, why)) fail_step("K0635", step, why);
  return value;
}

DLTensor Run::view(int32_t buffer) {
  const format::Buffer& b = program_.buffer(buffer);
  DLTensor tensor{};
  tensor.data = pointer(buffer);
  tensor.device = model_.device().id();
  tensor.ndim = static_cast<int32_t>(b.sizes.size());
  tensor.dtype = dl_dtype(b.dtype);
  // DLPack has no const; whoever gets the view does not write to these.
  tensor.shape = const_cast<int64_t*>(layout_->sizes(program_, buffer).data());
  tensor.strides = const_cast<int64_t*>(layout_->strides(program_, buffer).data());
  return tensor;
}

void Run::wait() {
  if (!queue_->synchronise()) raise();
}

void* Run::host_pointer(int32_t buffer) {
  if (host_) return pointer(buffer);
  if (const auto known = host_copies_.find(buffer); known != host_copies_.end()) return known->second.data();
  synchronise();
  const int64_t bytes = layout_->buffers[static_cast<size_t>(buffer)].span_bytes;
  Block copy(system_allocator(), bytes);
  if (bytes > 0) model_.device().copy_out(copy.data(), pointer(buffer), bytes);
  return host_copies_.emplace(buffer, std::move(copy)).first->second.data();
}

void* Run::host_result(int32_t buffer, const format::Step& step) {
  const Dims sizes = layout_->sizes(program_, buffer);
  const int64_t bytes = layout_->buffers[static_cast<size_t>(buffer)].span_bytes;
  const bool dense = bytes == element_count(sizes) * dtype_bytes(program_.buffer(buffer).dtype);
  const bool is_argument = std::any_of(step.call_args.begin(), step.call_args.end(), [&](const format::CallArg& arg) {
    return arg.is_tensors() && std::find(arg.items.begin(), arg.items.end(), buffer) != arg.items.end();
  });
  if (!host_ && dense && !is_argument && !host_copies_.contains(buffer))
    host_copies_.emplace(buffer, Block(system_allocator(), bytes));
  return host_pointer(buffer);
}

DLTensor Run::host_view(int32_t buffer) {
  DLTensor tensor = view(buffer);
  tensor.data = host_pointer(buffer);
  if (!host_) tensor.device = {kDLCPU, 0};
  return tensor;
}

void Run::keep_host_copies(const format::Step& step) {
  if (host_) return;
  for (const format::KernelArg& used : buffers_used(step)) {
    const auto found = host_copies_.find(used.buffer);
    if (found == host_copies_.end() || !writes(used.access)) continue;
    model_.device().copy_in(pointer(used.buffer), found->second.data(),
                            layout_->buffers[static_cast<size_t>(used.buffer)].span_bytes);
  }
  host_copies_.clear();
}

void Run::fail_step(const char* code, const PreparedStep& prepared, const std::string& message) const {
  if (!prepared.step) fail_user(code, message);
  fail_user(code, str(message, "\n  step ", prepared.step->name,
                      iteration_ > 0 ? str(", iteration ", iteration_) : std::string(),
                      model_.origin_text(prepared.step->number)));
}

}  // namespace kiln::runtime
