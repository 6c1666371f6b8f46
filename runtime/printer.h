// The debug printer: setting aot_inductor.debug_intermediate_value_printer on any package, whenever it is loaded.
// Mode 3 prints each kernel's name before its launch; mode 2 prints, before and after each launch, what every argument
// holds. aot_inductor.filtered_kernel_names (names or globs, case ignored) picks kernels; matching none is a warning.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/log.h"
#include "runtime/observer.h"
#include "runtime/program.h"

namespace kiln::runtime {

// nullptr: mode 0. Modes 2 and 3 are built; mode 1 (saving) gives a warning and prints nothing.
std::unique_ptr<StepObserver> make_printer(const Program& program, int mode, const std::vector<std::string>& filter,
                                           const Log& log);

// What a tensor holds, in one pass. Mean and standard deviation (n - 1) are over the finite elements.
struct TensorStatistics {
  int64_t count = 0, nan = 0, infinite = 0, zero = 0;
  double minimum = 0, maximum = 0, mean = 0, deviation = 0;
  std::vector<double> first;  // a few elements in row-major order
};
TensorStatistics tensor_statistics(const DLTensor& tensor, size_t first_count);

}  // namespace kiln::runtime
