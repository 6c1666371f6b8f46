// `kiln replay`: one step again, elsewhere or alone. A fault bundle is a package that holds one step and the values it
// had; one kernel of a whole package is cut out of it the same way (package/step_plan.h) and fed with values that mode
// 1 of the value printer saved.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "types/tensor.h"

namespace kiln {

struct ReplayOptions {
  std::vector<std::string> settings, custom_op_libs;
};

struct Replay {
  struct Compared {
    std::string name;        // of what the step wrote
    std::string difference;  // from the saved value; "": none
  };
  std::vector<Datum> outputs;
  std::vector<Compared> compared;  // of a kernel on saved values
  Json fault;                      // of a bundle: what it tells of the fault
  bool made_up = false;            // the bundle holds no values: it ran on numbers made up for its shapes
  std::string text() const;        // what it was, and how the results compare with saved ones
};

// `say` is given what the bundle tells of the fault, before anything runs.
Replay replay_bundle(const std::string& path, const ReplayOptions& options,
                     const std::function<void(const std::string&)>& say);
Replay replay_kernel(const std::string& package, const std::string& kernel, const std::string& directory,
                     const ReplayOptions& options);

}  // namespace kiln
