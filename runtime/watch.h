// What watches the runs of one model, as the settings of phase R asked for. With nothing asked for, a run pays a single
// branch.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "runtime/fault_bundle.h"
#include "runtime/log.h"
#include "runtime/observer.h"
#include "runtime/program.h"

namespace kiln::runtime {

struct DebugOptions {
  int printer_mode = 0;                     // aot_inductor.debug_intermediate_value_printer
  std::vector<std::string> printer_filter;  // aot_inductor.filtered_kernel_names
  std::string save_dir;                     // intermediate_value_dir; "": aoti_torch in the temporary directory
  bool nan_asserts = false;
  bool check_bounds = false;
  std::string fault_dir;
  bool fault_values = true;
  bool separate_buffers = false;  // PYTORCH_NO_CUDA_MEMORY_CACHING
  std::string trace_dir;          // TORCH_TRACE
  bool any() const {
    return !trace_dir.empty() || printer_mode != 0 || nan_asserts || check_bounds || separate_buffers ||
           !fault_dir.empty();
  }
};

class Watch {
 public:
  Watch(const DebugOptions& options, const Program& program, const format::Origins& origins,
        std::shared_ptr<const PackageFiles> files, const std::string& target, const Log& log);

  bool on() const { return on_; }
  bool wants(const char* step_name) const;
  const std::vector<std::unique_ptr<StepObserver>>& observers() const { return observers_; }
  const FaultWriter* faults() const { return faults_.get(); }
  uint64_t next_run() { return runs_.fetch_add(1) + 1; }

 private:
  void add_printer(const DebugOptions& options, const Program& program, const Log& log);
  void add_trace(const DebugOptions& options, const Program& program, const Log& log);

  bool on_;
  std::vector<std::unique_ptr<StepObserver>> observers_;
  std::unique_ptr<FaultWriter> faults_;
  std::atomic<uint64_t> runs_{0};
};

}  // namespace kiln::runtime
