// One step of a plan as a plan of its own: what it reads becomes inputs, what it writes outputs, the symbols it needs
// become integer inputs behind them. A fault bundle is such a package; `kiln replay` runs one kernel on saved values
// the same way. Like format.h it is shared by compiler and runtime and needs nothing else.
#pragma once
#include "package/format.h"

namespace kiln::format {

// Every buffer that a step itself touches, with its access.
std::vector<KernelArg> buffers_used(const Step& step);

// By number, in `init`, `steps` and the blocks inside; nullptr: none.
const Step* find_step(const Plan& plan, int32_t number);

struct StepPlan {
  Plan plan;                     // its only step keeps name and number; code and custom libraries are the plan's
  std::vector<int32_t> inputs;   // buffers of the original plan, in the order of the tensor inputs
  std::vector<int32_t> outputs;  // the same for the outputs
  std::vector<int32_t> symbols;  // slots whose values follow the tensors as inputs
};
// The step must be a kernel, or a library or custom call.
StepPlan step_plan(const Plan& plan, const Step& step);

}  // namespace kiln::format
