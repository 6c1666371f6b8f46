// What the debug tools know of a shipped package: its plan, and from its debug section (in the package, or in the
// sidecar <package>.debug of a stripped one) the loops and the graph they were lowered from, with the weights bound.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/zip.h"
#include "bounds_checks/step_interpreter.h"
#include "graph/graph.h"
#include "package/format.h"

namespace kiln {

class PackageDebug {
 public:
  // Throws K0540 naming what is missing when the debug section was stripped and its sidecar is not there.
  explicit PackageDebug(const std::string& path);

  const format::Plan& plan() const { return plan_; }
  const format::Origins& origins() const { return origins_; }
  const std::string& folder() const { return folder_; }  // of the plan, with a slash
  StepInterpreter& steps() { return *steps_; }
  const std::map<std::string, Tensor>& constants() const { return constants_; }
  const Program& graph();  // as it was lowered; operators resolved
  // Which buffer a value of the graph lives in, where that is not the buffer of its own name.
  const std::map<std::string, std::string>& merged() const { return merged_; }
  const loops::Buffer* buffer(const std::string& name) const;       // of the loops; nullptr: they have none
  std::optional<std::string> entry(const std::string& name) const;  // of the plan's folder, or by its whole name
  std::string origin_text(int32_t step_number) const;               // "\n  --> model.py:42 …" lines

 private:
  void read_constants(const std::string& path);
  void read_merges();
  void choose_target();
  std::optional<std::string> find(const std::string& name) const;

  std::shared_ptr<const MappedFile> file_, sidecar_file_;
  std::unique_ptr<ZipReader> zip_, sidecar_;
  std::string folder_, own_debug_;  // own_debug_: what of the debug section is of the chosen target
  format::Plan plan_;
  format::Origins origins_;
  std::unique_ptr<StepInterpreter> steps_;
  std::map<std::string, Tensor> constants_;
  std::unique_ptr<Program> graph_;
  std::map<std::string, std::string> merged_;
  std::map<std::string, const loops::Buffer*> buffers_;
};

}  // namespace kiln
