// What watches the runs of one model, as the settings of phase R asked for. With nothing asked for, a run pays a single
// branch.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/checked_code.h"
#include "runtime/fault_bundle.h"
#include "runtime/log.h"
#include "runtime/observer.h"
#include "runtime/program.h"

namespace kiln::runtime {

struct CallInputs {
  const kiln_value* values = nullptr;
  size_t count = 0;
};

struct DebugOptions {
  int printer_mode = 0;                     // aot_inductor.debug_intermediate_value_printer
  std::vector<std::string> printer_filter;  // aot_inductor.filtered_kernel_names
  std::vector<std::string> printer_style;   // intermediate_value_style
  std::string save_dir;                     // intermediate_value_dir; "": aoti_torch in the temporary directory
  bool nan_asserts = false;
  bool infinities = true;  // nan_asserts looks for them too
  bool check_bounds = false;
  BuildTools build_tools;  // of check_bounds
  std::string fault_dir;
  bool fault_values = true;
  bool separate_buffers = false;  // PYTORCH_NO_CUDA_MEMORY_CACHING
  bool name_faults = false;       // a signal inside a step is named, without anything else
  // After a signal inside a step was named, on a thread of its own. `call`: nullptr while loading.
  std::function<void(const std::string& text, const CallInputs* call)> crashed;
  std::string trace_dir;  // TORCH_TRACE
  bool any() const {
    return !trace_dir.empty() || printer_mode != 0 || nan_asserts || check_bounds || separate_buffers ||
           !fault_dir.empty();
  }
};

class Watch {
 public:
  Watch(const DebugOptions& options, const Program& program, const format::Origins& origins,
        std::shared_ptr<const PackageFiles> files, const std::string& target, const Device& device, const Log& log);

  bool on() const { return on_; }  // every step is to be looked at
  bool any() const { return on_ || names_faults(); }
  bool names_faults() const { return !places_.empty(); }
  // "kernel cpp_fused_add_3 (step 4)" with its source lines, by the step's position.
  const std::string& place(size_t position) const { return places_[position]; }
  bool wants(const char* step_name) const;
  const std::vector<std::unique_ptr<StepObserver>>& observers() const { return observers_; }
  const FaultWriter* faults() const { return faults_.get(); }
  // The kernel with every access checked; nullptr: there is none.
  const void* checked_code(const PreparedStep& step) const;
  uint64_t next_run() { return runs_.fetch_add(1) + 1; }

 private:
  void add_printer(const DebugOptions& options, const Program& program, const format::Origins& origins, const Log& log);
  void add_trace(const DebugOptions& options, const Program& program, const Log& log);

  bool on_;
  std::vector<std::unique_ptr<StepObserver>> observers_;
  std::unique_ptr<FaultWriter> faults_;
  std::vector<std::string> places_;
  std::unique_ptr<CheckedCode> checked_code_;
  std::vector<const void*> checked_;  // by kernel of the plan
  std::atomic<uint64_t> runs_{0};
};

}  // namespace kiln::runtime
