// Mode 1 of aot_inductor.debug_intermediate_value_printer: every argument of the chosen kernels, before and after each
// launch, as <before_launch|after_launch>_<kernel>_<buffer>_<device>.pt.
//
// The first watched run of a model writes into the directory itself, run n into its folder run_<n>. Inside a loop the
// kernel's name gets the iteration: cpp_fused_add_0.iteration_3. Beside the tensors lies <kernel>.step.json with the
// values of the symbols: what `kiln replay PKG --kernel K --from DIR` needs.
#pragma once
#include <memory>
#include <string>

#include "runtime/kernel_filter.h"
#include "runtime/log.h"
#include "runtime/observer.h"

namespace kiln::runtime {

// directory "": aoti_torch in the temporary directory, or aoti_torch_<user> where that is another user's; closed to
// others. Said once, when the first file is written. What cannot be written ends the saving with a warning, not the
// run.
std::unique_ptr<StepObserver> make_value_saver(KernelFilter filter, const std::string& directory, const Log& log);

}  // namespace kiln::runtime
