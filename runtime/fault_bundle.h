// The fault bundle: one file that holds a step which failed, ready to be run elsewhere. It is a package of its own
// (package/step_plan.h): the step's code, its origins and loops, its arguments as sample inputs, and fault.json with
// what happened. `kiln replay` runs it; so do all other commands that take a package.
#pragma once
#include <atomic>
#include <memory>
#include <string>

#include "kiln/kiln.h"
#include "package/format.h"
#include "runtime/package_files.h"

namespace kiln::runtime {

class FaultWriter {
 public:
  // with_values false: no argument's contents go into the file.
  FaultWriter(std::string directory, bool with_values, const format::Plan& plan, const format::Origins& origins,
              std::shared_ptr<const PackageFiles> files, std::string target)
      : directory_(std::move(directory)),
        with_values_(with_values),
        plan_(plan),
        origins_(origins),
        files_(std::move(files)),
        target_(std::move(target)) {}

  bool with_values() const { return with_values_; }
  // Gives the path, or throws K01xx when it cannot be written. `step` has the arguments as they were before the launch.
  std::string write(const kiln_step& step, const std::string& message) const;

 private:
  std::string sample_inputs(const format::Plan& plan, const kiln_step& step) const;
  std::string fault_json(const kiln_step& step, const std::string& message) const;

  std::string directory_;
  bool with_values_;
  const format::Plan& plan_;
  const format::Origins& origins_;
  std::shared_ptr<const PackageFiles> files_;
  std::string target_;
  mutable std::atomic<int> written_{0};
};

}  // namespace kiln::runtime
