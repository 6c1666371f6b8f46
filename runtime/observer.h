// Who watches the steps of a run: the debug printer, the saver of values, the NaN checks, the checked run (all of them
// belong to a model, runtime/watch.h), and the hook of an instance.
#pragma once
#include "kiln/kiln.h"

namespace kiln::runtime {

class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // Throws Error to end the run.
  virtual kiln_hook_answer observe(kiln_hook_when when, const kiln_step& step) = 0;
  // Asked first: building the views of a step nobody wants costs time.
  virtual bool wants(const char* step_name) const = 0;
};

}  // namespace kiln::runtime
