// One call of a model: its arena, its pointers, its walk over the steps. A Run object is used by one thread at a time
// and kept for the next call (RunPool); it remembers the last bound plans, so that a call with known sizes checks its
// inputs, sets pointers and walks.
//
// Invariant between calls: temps point into arena_ as bound_ says, constants as weights_ says. Inputs, outputs and what
// shares their memory are set anew in each call.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kiln/kiln.h"
#include "runtime/bound_plan.h"
#include "runtime/device.h"
#include "runtime/kept_memory.h"
#include "runtime/memory.h"
#include "runtime/observer.h"
#include "runtime/weights.h"

struct kiln_checked_access;  // kiln/debug_library.h

namespace kiln::runtime {

class GuardedArguments;
class Model;
class RunningStep;

// False only in the runtime that bench/off_cost.sh builds to see what the hooks cost when nobody uses them.
#if defined(KILN_NO_HOOKS)
inline constexpr bool hooks_built = false;
#else
inline constexpr bool hooks_built = true;
#endif

// What one call brings from its instance.
struct CallState {
  const std::vector<ConstantData>* own_constants = nullptr;  // by constant; set for mutable ones
  StepObserver* hook = nullptr;
  uint64_t seed = 0;
  void* stream = nullptr;  // of the caller; nullptr: the device's default one
  bool wait = true;        // false: the call may return while its work is under way
};

// An output that Kiln allocated, in the form that DLPack hands over.
struct OwnedTensor {
  DLManagedTensorVersioned managed{};
  Block memory;
  std::vector<int64_t> dims;
};

class Run {
 public:
  explicit Run(Model& model);
  ~Run();

  // Whether results were waited for, or need not be.
  bool call(const CallState& state, const kiln_value* inputs, size_t input_count, kiln_value* outputs,
            size_t output_count);
  // Runs init steps with the given constants; the slice's derived buffers are written.
  void derive(const Weights& weights, const InitSlice& slice, bool watched);
  void drop_weights() { weights_ = nullptr, weights_version_ = 0; }
  uint64_t weights_version() const { return weights_version_; }

  // Used by the calls of library and custom steps.
  const Program& program() const { return program_; }
  const Layout& layout() const { return *layout_; }
  Model& model() { return model_; }
  void* pointer(int32_t buffer) const { return pointers_[static_cast<size_t>(buffer)]; }
  bool buffer_known(int32_t buffer) const { return layout_->buffers[static_cast<size_t>(buffer)].known; }
  void define(int32_t slot, int64_t value, const PreparedStep& by);
  int64_t expr_value(format::ExprIndex e, const PreparedStep& step) const;
  DLTensor view(int32_t buffer);  // on the device; shape and strides point into the layout
  // What the host may look at: the buffer's memory, or a copy of it, made when it is first asked for. Copies that the
  // step writes go back to the device with keep_host_copies; then, or when they are forgotten, they are gone.
  void* host_pointer(int32_t buffer);
  DLTensor host_view(int32_t buffer);
  // The same for what the step makes whole: memory of which nothing need be brought here, unless it has gaps, or is an
  // argument too.
  void* host_result(int32_t buffer, const format::Step& step);
  void keep_host_copies(const format::Step& step);
  void forget_host_copies() {
    if (!host_) host_copies_.clear();
  }
  [[noreturn]] void fail_step(const char* code, const PreparedStep& step, const std::string& message) const;

 private:
  // run_inputs.cpp
  void take_inputs(const kiln_value* inputs, size_t count);
  void check_tensor(size_t index, const kiln_value& value) const;
  void check_number(size_t index, const kiln_value& value);
  void check_shared_symbols(const kiln_value* inputs) const;
  void check_constant(size_t index, const kiln_value& value) const;
  void solve_symbols(const kiln_value* inputs);
  void find_bound();
  void set_input(size_t index, const DLTensor& tensor);
  void copy_input(size_t index, const DLTensor& tensor, Dims strides);
  // Whether the device's kernels can use it; tensors of the host that a caller may give are copied.
  bool is_here(const DLTensor& tensor) const;
  bool is_taken(const DLTensor& tensor, bool on_host) const;
  void copy_tensor(void* to, bool to_here, Dims to_strides, const void* from, bool from_here, Dims from_strides,
                   Dims sizes, int64_t item);
  void write_back_inputs();

  // run_outputs.cpp
  void take_outputs(kiln_value* outputs, size_t count);
  void check_output_itself(size_t index, const DLTensor& tensor) const;
  void check_output_tensor(size_t index, const DLTensor& tensor) const;
  void set_output(size_t index);
  void finish_outputs();
  void check_overlaps() const;
  void copy_output(size_t index);
  void hand_over(size_t index);
  bool goes_to_host(size_t index) const;
  void bring_to_host(size_t index);
  kiln_value number_output(size_t index) const;

  // run_steps.cpp
  template <bool observed>
  void block(const std::vector<int32_t>& steps);
  void replayed_block(const std::vector<int32_t>& steps);
  template <bool observed>
  void step(const PreparedStep& prepared);
  void launch(const PreparedStep& prepared, const BoundStep& bound);
  void launch_kernel(const PreparedStep& prepared, const BoundStep& bound);
  uint64_t step_seed(const PreparedStep& prepared) const;
  template <bool observed>
  void control(const PreparedStep& prepared);
  bool predicate(const PreparedStep& prepared);
  const void* scalar(int32_t buffer);
  void bind_symbol(const PreparedStep& prepared);
  void assert_that(const PreparedStep& prepared) const;
  BoundStep late_step(const PreparedStep& prepared);
  void check_known(const PreparedStep& prepared) const;
  [[noreturn]] void raise(const char* when = "");
  [[noreturn]] void name_lost(const std::string& message) const;
  void derive_slice(const Weights& weights, const InitSlice& slice, bool watched);
  void wait();
  void synchronise() {
    if (!host_) [[unlikely]]
      wait();  // the CPU's launches are done when they return
  }
  [[noreturn]] void fail_bound(const PreparedStep& prepared, const BoundStep& bound) const;

  // run_observed.cpp
  class ObservedStep;
  class NamedStep;
  void run_named(const std::vector<int32_t>& steps);
  std::string near(const PreparedStep& prepared, const void* address);
  void crashed(const PreparedStep* prepared, int signal, const void* address, std::string_view text);
  void start_watching(uint64_t number);
  void launch_observed(const PreparedStep& prepared, const BoundStep& bound);
  bool notify(kiln_hook_when when, const PreparedStep& prepared, ObservedStep& observed);
  const char* writer_name(int32_t buffer) const;

  // guarded_launch.cpp
  friend class GuardedArguments;
  void launch_guarded(const PreparedStep& prepared, const BoundStep& bound);
  void launch_checked_code(const PreparedStep& prepared, const BoundStep& bound, GuardedArguments& arguments,
                           const void* checked);
  kiln_checked_access run_checked(const PreparedStep& prepared, const BoundStep& bound, kiln_kernel checked);
  kiln_checked_access run_checked_there(const PreparedStep& prepared, const BoundStep& bound, const void* checked);

  // run_calls.cpp
  void library_step(const PreparedStep& prepared);
  void custom_step(const PreparedStep& prepared);

  // run.cpp
  void issue(const CallState& state, const kiln_value* inputs, size_t input_count, kiln_value* outputs,
             size_t output_count);
  void use_bound(std::shared_ptr<const BoundPlan> bound);
  void pin_weights(const CallState& state);
  void check_borrowed() const;
  void set_constants(const Weights& weights);
  void place_temps(bool init);
  std::byte* own_memory(size_t owner, const BufferLayout& layout);
  void forget_temps();
  void set_group(int32_t owner, std::byte* memory);
  void grow(Block& block, int64_t bytes, size_t alignment);
  void start_late();
  void place_late(int32_t slot);

  Model& model_;
  const Program& program_;
  const bool host_;  // the device's memory is the host's
  const std::unique_ptr<Queue> queue_;
  std::map<int32_t, Block> host_copies_;  // by buffer
  std::byte scalar_[16];
  double seconds_ = 0;  // of the last step that was watched, by the device's clock
  bool fresh_scratch_ = false;
  std::vector<std::shared_ptr<const BoundPlan>> recent_;  // most recently used first
  const BoundPlan* bound_ = nullptr;
  Layout late_layout_;
  const Layout* layout_ = nullptr;
  std::shared_ptr<const Weights> weights_;
  uint64_t weights_version_ = 0;

  std::vector<int64_t> symbols_;
  std::vector<uint8_t> defined_;
  std::vector<void*> pointers_;
  std::vector<void*> argv_;
  std::vector<int64_t> late_ints_;
  Block arena_;
  std::vector<Block> own_memory_;   // by owner, where every buffer has an allocation of its own
  std::vector<Block> late_memory_;  // by symbol
  uint64_t seed_ = 0;               // of the call; inside a loop mixed with its iteration
  int64_t iteration_ = 0;
  StepObserver* hook_ = nullptr;
  // What a fault handler wants to know.
  int32_t position_ = -1;  // of the current step
  std::shared_ptr<const RunningStep> named_;
  const kiln_value* call_inputs_ = nullptr;
  size_t call_input_count_ = 0;
  bool in_call_ = false;  // false: weights are being prepared
  // Of watched runs only.
  uint64_t run_number_ = 0;
  std::vector<int32_t> writers_;          // by owner of memory: the position of the step that wrote it last
  std::vector<int64_t> iterations_;       // of the loops around the current step
  const RunningStep* running_ = nullptr;  // what a fault handler names; nullptr: nobody watches

  struct InputState {
    const DLTensor* tensor = nullptr;
    std::byte* data = nullptr;
    Block copy;
    bool copied = false, copy_reported = false;
  };
  void report_copy(size_t index, Dims expected, bool same_layout);
  std::vector<InputState> inputs_;
  bool any_copied_ = false;
  struct OutputState {
    kiln_value* value = nullptr;
    const DLTensor* caller = nullptr;  // the caller's tensor, if any
    std::byte* caller_data = nullptr;
    std::unique_ptr<OwnedTensor> owned;
    KeptMemory::Owner kept;  // of earlier calls' outputs; nullptr: none was worth it
    Block internal;          // where the caller's memory cannot be used directly
    bool primary = false;    // its buffer is this output's own
    bool copy = false;       // to be copied at the end
    bool set = false;
  };
  void allocate_output(OutputState& state, int64_t bytes, size_t alignment);
  std::vector<OutputState> outputs_;
};

}  // namespace kiln::runtime
