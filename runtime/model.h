// Model: a loaded package. Instance: what one user of it owns (mutable buffers, seed, hook). Both are shared and freed
// when the last user is gone. See docs/embedding.md for what may be called from which thread.
#pragma once
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/fork_mutex.h"
#include "kiln/kiln.h"
#include "runtime/bound_plan.h"
#include "runtime/device.h"
#include "runtime/log.h"
#include "runtime/memory.h"
#include "runtime/observer.h"
#include "runtime/parallel.h"
#include "runtime/program.h"
#include "runtime/run.h"
#include "runtime/watch.h"
#include "runtime/weights.h"

namespace kiln::runtime {

// Runs that wait for their next call. Taking and giving back never blocks: each slot is exchanged atomically, and a
// thread starts looking at its own.
class RunPool {
 public:
  RunPool() = default;
  ~RunPool();
  std::unique_ptr<Run> take();                 // nullptr: none waits
  void give_back(std::unique_ptr<Run> run);    // drops it when all slots are full
  void drop_weights_except(uint64_t version);  // of waiting runs

 private:
  static constexpr size_t slot_count = 64;
  struct alignas(64) Slot {  // a cache line of its own: threads use different ones
    std::atomic<Run*> run{nullptr};
  };
  std::array<Slot, slot_count> slots_{};
};

// Everything a package brings, already in memory; made by package_loader, or by tests by hand.
// What init would make of the constants as they are in the package, if the package has it.
struct StoredBuffer {
  ConstantData memory;
  int64_t bytes = 0;
};

struct ModelParts {
  format::Plan plan;
  format::Origins origins;
  std::string target;
  std::shared_ptr<const Device> device = cpu_device();  // that the plan is for
  std::unique_ptr<CodeModule> code;
  std::vector<std::unique_ptr<CodeModule>> custom_code;
  CustomOps custom_ops;
  std::vector<ConstantData> constants;        // by constant; aligned as their buffers ask; on the host
  std::vector<StoredBuffer> derived;          // by buffer; may be shorter: the others are made by init
  std::shared_ptr<const void> keep;           // the mapped file
  std::shared_ptr<const PackageFiles> files;  // nullptr: made by hand
};

struct ModelOptions {
  Allocator allocator = system_allocator();
  Log log;
  int threads = -1;
  kiln_parallel_for_fn parallel_for = nullptr;
  void* parallel_for_user = nullptr;
  bool check_inputs = true;
  bool host_tensors = false;     // callers give and get tensors of the host, whatever the device
  bool report_copies = false;    // a line for each input whose layout or address made it be copied
  int graphs = -1;               // triton.cudagraphs; -1: wherever it is possible
  bool launch_blocking = false;  // CUDA_LAUNCH_BLOCKING, triton.debug_sync_kernel
  bool sync_run = false;         // triton.debug_sync_graph: calls are always waited for
  DebugOptions debug;
};

class Model {
 public:
  Model(ModelParts parts, ModelOptions options);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const Program& program() const { return program_; }
  const format::Plan& plan() const { return program_.plan; }
  const ModelOptions& options() const { return options_; }
  const std::string& target() const { return target_; }
  const Device& device() const { return *device_; }
  const Allocator& allocator() const { return allocator_; }  // of buffers, in the device's memory
  // Whether memory of outputs that callers have released is kept for later calls. An embedder's allocator sees every
  // one come and go, and guard pages are laid around each anew.
  bool keeps_outputs() const { return device_->is_host() && is_system(allocator_); }
  const Log& log() const { return options_.log; }
  Parallel& parallel() { return parallel_; }
  WeightStore& weights() { return weights_; }
  BoundCache& bounds() { return bounds_; }
  RunPool& runs() { return runs_; }
  Watch& watch() { return *watch_; }
  const PackageFiles* files() const { return files_.get(); }  // nullptr: made by hand
  const std::vector<kiln_origin>& origins(int32_t step_number) const;
  std::string origin_text(int32_t step_number) const;  // "\n  --> model.py:42 …" lines, or nothing

  int32_t find_constant(std::string_view name) const;  // throws K0640 naming the nearest
  Dims constant_sizes(int32_t constant) const;
  Dims constant_strides(int32_t constant) const;
  DType constant_dtype(int32_t constant) const;
  int64_t constant_span(int32_t constant) const;  // bytes
  size_t constant_alignment(int32_t constant) const;
  bool constant_has_buffer(int32_t constant) const;
  // A fresh copy of a tensor in the layout of the constant. Throws K0641 when it does not fit.
  ConstantData copy_constant(int32_t constant, const DLTensor& value) const;
  ConstantData borrow_constant(int32_t constant, const DLTensor& value) const;
  // All constants that are this one under other names (tied weights), itself included.
  std::vector<int32_t> same_constants(int32_t constant) const;
  // Of two values in the layout of the constant, bit by bit.
  bool same_values(int32_t constant, const ConstantData& a, const ConstantData& b) const;
  // A checksum of some of the elements that lie there, of few all: cheap enough for each run.
  uint64_t sample(int32_t constant, const std::byte* data) const;
  // `written`: the tensor is to hold the constant's values, not to give it new ones.
  void check_constant_tensor(int32_t constant, const DLTensor& value, bool written = false) const;
  // The constant's values in their own order, wherever a version of the weights has them.
  ConstantData plain_constant(const Weights& weights, int32_t constant);

 private:
  void derive(Weights& weights, const InitSlice& slice, bool watched = true);
  struct Uploads {
    std::vector<Device::Upload> pieces;
    std::vector<std::shared_ptr<const void>> sources;  // kept until they are there
  };
  ConstantData on_device(ConstantData host, int64_t bytes, size_t alignment, Uploads& uploads) const;
  std::vector<ConstantData> constants_on_device(std::vector<ConstantData> constants, Uploads& uploads) const;
  std::vector<ConstantData> derived_on_device(const std::vector<StoredBuffer>& derived, Uploads& uploads) const;
  void hint_at_graphs() const;
  void make_origins();
  void check_constant_extents() const;

  ModelOptions options_;
  std::string target_;
  std::shared_ptr<const Device> device_;
  Allocator allocator_;
  std::shared_ptr<const void> keep_;
  std::shared_ptr<const PackageFiles> files_;
  std::unique_ptr<CodeModule> code_;
  std::vector<std::unique_ptr<CodeModule>> custom_code_;
  Program program_;
  format::Origins origins_;
  std::map<int32_t, std::vector<kiln_origin>> origins_by_step_;
  Parallel parallel_;
  BoundCache bounds_{16};
  std::shared_ptr<const BoundPlan> fixed_;  // layouts of constants: bound to no symbols at all
  std::vector<int32_t> constant_buffers_;
  std::unique_ptr<Watch> watch_;
  WeightStore weights_;
  RunPool runs_;  // last: runs refer to all the rest
};

class Instance {
 public:
  explicit Instance(std::shared_ptr<Model> model);

  // `stream`, `wait`: as kiln_run_options has them. `seed`: of this call alone; nullptr: the instance's next.
  void run(const kiln_value* inputs, size_t input_count, kiln_value* outputs, size_t output_count,
           void* stream = nullptr, int wait = 1, const uint64_t* seed = nullptr);
  void set_seed(uint64_t seed);
  void set_hook(kiln_hook_fn hook, void* user);
  // Sees every step beside the hook; gives back the one that did so far.
  std::unique_ptr<StepObserver> set_profiler(std::unique_ptr<StepObserver> profiler);
  void read_constant(std::string_view name, const DLTensor& to);
  void write_constant(std::string_view name, const DLTensor& from);
  Model& model() { return *model_; }

 private:
  class Hook;
  class Both;
  void observe_with(std::unique_ptr<StepObserver> Instance::*which, std::unique_ptr<StepObserver>& observer);
  void settle();
  std::shared_ptr<Model> model_;
  LongMutex mutex_;                // held by runs of stateful models, and while reading or writing their buffers
  std::vector<ConstantData> own_;  // by constant; only mutable ones are set
  // Of stateful models: whether a call has returned while its work was under way, and on which stream.
  bool under_way_ = false;
  void* last_stream_ = nullptr;
  BriefMutex observers_;
  std::unique_ptr<StepObserver> hook_, profiler_, both_;
  StepObserver* observer_ = nullptr;  // of those three, what a run has to ask; nullptr: none
  std::atomic<uint64_t> seed_{0};
  alignas(64) std::atomic<uint64_t> runs_{0};  // only counted where random numbers are drawn
};

}  // namespace kiln::runtime
