// What the debug tools know of a shipped package: its plan, and from its debug section (in the package, or in the
// sidecar <package>.debug of a stripped one) the loops and the graph they were lowered from, with the weights bound.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/zip.h"
#include "bounds_checks/step_interpreter.h"
#include "compile/compilation.h"
#include "graph/graph.h"
#include "package/format.h"

namespace kiln {

class PackageDebug {
 public:
  // Throws K0540 naming what is missing when the debug section was stripped and its sidecar is not there.
  // `weights`: a file of values in place of the package's (PackageOptions::weights); empty: none.
  explicit PackageDebug(const std::string& path, const std::string& weights = "");

  const format::Plan& plan() const { return plan_; }
  const format::Origins& origins() const { return origins_; }
  const std::string& folder() const { return folder_; }  // of the plan, with a slash
  StepInterpreter& steps() { return *steps_; }
  const std::map<std::string, Tensor>& constants() const { return constants_; }
  bool other_weights() const { return other_weights_; }  // than the package's: a file was given
  const Program& graph();                                // as it was lowered; operators resolved
  // The buffer that each value of the graph was given when it was lowered, by lowering it again: values of different
  // subgraphs may share a name, buffers do not. Without those whose buffer the loops of this package do not have.
  const std::map<const Value*, std::string>& buffers_of_values();
  // Which buffer a value of the graph lives in, where that is not the buffer of its own name.
  const std::map<std::string, std::string>& merged() const { return merged_; }
  const loops::Buffer* buffer(const std::string& name) const;       // of the loops; nullptr: they have none
  std::optional<std::string> entry(const std::string& name) const;  // of the plan's folder, or by its whole name
  std::string origin_text(int32_t step_number) const;               // "\n  --> model.py:42 …" lines

  // The targets that the package has code for, in its order (none: this machine's best, for library kernels alone), and
  // which of them the runtime takes here.
  const std::vector<std::string>& targets() const { return targets_; }
  size_t target() const { return target_; }
  std::optional<std::string> entry_of_target(size_t target, const std::string& name) const;  // of its debug section
  format::Plan plan_of_target(size_t target) const;
  const std::vector<std::string>& compile_settings() const { return compile_settings_; }  // "key=value"
  // The compile that made it, gone through again from the graph that was lowered, with its targets and settings. A
  // package of this version gets the very loops and sources it has (package_debug_test.cpp).
  Compilation& compilation();

 private:
  void read_constants(const std::string& path, const std::string& weights);
  void read_merges();
  void choose_target();
  std::optional<std::string> find(const std::string& name) const;

  std::shared_ptr<const MappedFile> file_, sidecar_file_;
  std::unique_ptr<ZipReader> zip_, sidecar_;
  std::string folder_;
  std::vector<std::string> targets_, compile_settings_;
  std::vector<std::string> plan_entries_;  // by target
  size_t target_ = 0;
  format::Plan plan_;
  format::Origins origins_;
  std::unique_ptr<StepInterpreter> steps_;
  std::map<std::string, Tensor> constants_;
  bool other_weights_ = false;
  std::unique_ptr<Program> graph_;
  std::optional<std::map<const Value*, std::string>> value_buffers_;
  std::map<std::string, std::string> merged_;
  std::map<std::string, const loops::Buffer*> buffers_;
  std::unique_ptr<Settings> settings_;
  std::unique_ptr<Compilation> compilation_;
};

}  // namespace kiln
