// A step with memory of its own: its arguments as they were before the launch, for running it again in the loop
// interpreter without touching the run. And the init section of the loops, run the same way.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "bounds_checks/step_interpreter.h"
#include "types/tensor.h"

namespace kiln {

std::vector<int64_t> sizes_of(const DLTensor& tensor);
std::vector<int64_t> strides_of(const DLTensor& tensor);
int64_t bytes_of(const DLTensor& tensor);  // from its first element to the end of its last
bool overlap(const DLTensor& a, const DLTensor& b);
// An argument where the host can read it, until the hook returns; and a copy of its values.
const DLTensor& host_view(const kiln_step& step, size_t arg);
Tensor value_of(const kiln_step& step, size_t arg);

// Every byte of it the same: 0xff are NaNs, and -1.
Tensor poisoned_tensor(DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides, int poison);

class StepCopy {
 public:
  // `inputs` holds what the step reads; what it only writes starts as poison.
  StepCopy(const kiln_step& step, const std::map<std::string, Tensor>& inputs, int poison = 0xff);
  StepCopy(const StepCopy&) = delete;
  const kiln_step& step() const { return step_; }
  const Tensor& output(const std::string& buffer) const { return tensors_.at(buffer); }

 private:
  std::map<std::string, Tensor> tensors_;
  std::vector<kiln_step_arg> args_;
  std::vector<const char*> symbol_names_;  // the plan's own
  std::vector<int64_t> symbol_values_, iterations_;
  kiln_step step_;
};

// What the loops' init section makes of the constants: derived buffers by name.
std::map<std::string, Tensor> run_init(StepInterpreter& steps, const std::map<std::string, Tensor>& constants);

}  // namespace kiln
