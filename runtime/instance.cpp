#include <algorithm>

#include "base/error.h"
#include "runtime/element.h"
#include "runtime/model.h"

namespace kiln::runtime {
namespace {

// Gives a Run back whatever happens.
class Lease {
 public:
  explicit Lease(Model& model) : model_(model), run_(model.runs().take()) {
    if (!run_) run_ = std::make_unique<Run>(model);
  }
  ~Lease() {
    // A Run that waits must not keep old weights alive. An update between these lines looks at waiting runs itself.
    if (run_->weights_version() != model_.weights().version()) run_->drop_weights();
    uint64_t pinned = run_->weights_version();
    model_.runs().give_back(std::move(run_));
    uint64_t now = model_.weights().version();
    if (pinned != 0 && pinned != now) model_.runs().drop_weights_except(now);
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  Run& operator*() { return *run_; }

 private:
  Model& model_;
  std::unique_ptr<Run> run_;
};

// splitmix64
uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t z = a + (b + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

class Instance::Hook : public StepObserver {
 public:
  Hook(kiln_hook_fn function, void* user) : function_(function), user_(user) {}
  kiln_hook_answer observe(kiln_hook_when when, const kiln_step& step) override {
    return function_(user_, when, &step);
  }
  bool wants(const char*) const override { return true; }

 private:
  kiln_hook_fn function_;
  void* user_;
};

class Instance::Both : public StepObserver {
 public:
  Both(StepObserver& hook, StepObserver& profiler) : hook_(hook), profiler_(profiler) {}
  // The profiler next to the launch: the hook's time is not the step's.
  kiln_hook_answer observe(kiln_hook_when when, const kiln_step& step) override {
    if (when == KILN_AFTER_STEP) profiler_.observe(when, step);
    const kiln_hook_answer answer = hook_.observe(when, step);
    if (when == KILN_BEFORE_STEP) profiler_.observe(when, step);
    return answer;
  }
  bool wants(const char*) const override { return true; }

 private:
  StepObserver &hook_, &profiler_;
};

Instance::Instance(std::shared_ptr<Model> model) : model_(std::move(model)) {
  const format::Plan& plan = model_->plan();
  if (!model_->program().stateful) return;
  std::shared_ptr<const Weights> weights = model_->weights().active();
  own_.resize(plan.constants.size());
  for (size_t c = 0; c < plan.constants.size(); ++c) {
    auto index = static_cast<int32_t>(c);
    if (!plan.constants[c].mutated || !model_->constant_has_buffer(index)) continue;
    auto alignment = std::max(memory_alignment, model_->constant_alignment(index));
    int64_t bytes = model_->constant_span(index);
    auto block = std::make_shared<Block>(model_->allocator(), bytes, alignment);
    const int64_t one = 1;
    model_->device().copy(block->data(), true, {&one, 1}, weights->constants[c].data, true, {&one, 1}, {&bytes, 1}, 1);
    own_[c] = {block->data(), block, weights->constants[c].missing};
  }
}

void Instance::run(const kiln_value* inputs, size_t input_count, kiln_value* outputs, size_t output_count, void* stream,
                   int wait, const uint64_t* seed) {
  CallState state;
  state.hook = observer_;
  state.stream = stream;
  // Where a kernel can raise, the caller is told by this call.
  state.wait = wait > 0 || (wait == 0 && (!stream || model_->program().raises));
  if (model_->plan().uses_random)
    state.seed = seed ? mix(*seed, 0)
                      : mix(seed_.load(std::memory_order_relaxed), runs_.fetch_add(1, std::memory_order_relaxed));
  Lease lease(*model_);
  if (!model_->program().stateful) {
    (*lease).call(state, inputs, input_count, outputs, output_count);
    return;
  }
  std::lock_guard lock(mutex_);
  if (last_stream_ != stream) settle();  // both change the instance's buffers
  state.own_constants = &own_;
  last_stream_ = stream;
  under_way_ = !state.wait;  // also where the call fails half-way
  under_way_ = !(*lease).call(state, inputs, input_count, outputs, output_count);
}

void Instance::settle() {
  if (std::exchange(under_way_, false)) model_->device().settle();
}

void Instance::set_seed(uint64_t seed) {
  seed_.store(seed);
  runs_.store(0);
}

void Instance::set_hook(kiln_hook_fn hook, void* user) {
  std::unique_ptr<StepObserver> made = hook ? std::make_unique<Hook>(hook, user) : nullptr;
  std::lock_guard lock(mutex_);
  observe_with(&Instance::hook_, made);
}

std::unique_ptr<StepObserver> Instance::set_profiler(std::unique_ptr<StepObserver> profiler) {
  std::lock_guard lock(mutex_);
  observe_with(&Instance::profiler_, profiler);
  return profiler;
}

// A fork in the midst of it must not leave an observer that is gone to the child.
void Instance::observe_with(std::unique_ptr<StepObserver> Instance::*which, std::unique_ptr<StepObserver>& observer) {
  std::lock_guard lock(observers_);
  std::swap(this->*which, observer);
  both_ = hook_ && profiler_ ? std::make_unique<Both>(*hook_, *profiler_) : nullptr;
  observer_ = both_ ? both_.get() : hook_ ? hook_.get() : profiler_.get();
}

void Instance::read_constant(std::string_view name, const DLTensor& to) {
  int32_t index = model_->find_constant(name);
  auto c = static_cast<size_t>(index);
  model_->check_constant_tensor(index, to, true);
  std::lock_guard lock(mutex_);
  settle();
  std::shared_ptr<const Weights> weights = model_->weights().active();
  const ConstantData plain = model_->plan().constants[c].mutated ? own_[c] : model_->plain_constant(*weights, index);
  model_->device().copy(static_cast<std::byte*>(to.data) + to.byte_offset, !is_host(to.device.device_type),
                        strides_of(to), plain.data, true, model_->constant_strides(index),
                        model_->constant_sizes(index), dtype_bytes(model_->constant_dtype(index)));
}

void Instance::write_constant(std::string_view name, const DLTensor& from) {
  int32_t index = model_->find_constant(name);
  auto c = static_cast<size_t>(index);
  if (!model_->plan().constants[c].mutated)
    fail_user("K0641", str("constant ", name, " is shared by all instances: use kiln_constants_update"));
  model_->check_constant_tensor(index, from);
  std::lock_guard lock(mutex_);
  settle();
  for (int32_t same : model_->same_constants(index)) {
    ConstantData& own = own_[static_cast<size_t>(same)];
    if (!own.data) continue;
    own.missing = false;
    model_->device().copy(own.data, true, model_->constant_strides(index),
                          static_cast<const std::byte*>(from.data) + from.byte_offset,
                          !is_host(from.device.device_type), strides_of(from), model_->constant_sizes(index),
                          dtype_bytes(model_->constant_dtype(index)));
  }
}

}  // namespace kiln::runtime
