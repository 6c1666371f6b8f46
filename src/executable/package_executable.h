// A compiled package, loaded and called through the C ABI (include/kiln/kiln.h) exactly as an embedder would: no
// compiler is involved. `kiln run` and the compiled backend stand on it.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "executable/executable.h"
#include "kiln/tools_library.h"
#include "package/format.h"
#include "pt2/input_files.h"
#include "pt2/output_files.h"

namespace kiln {

struct PackageOptions {
  std::vector<std::string> settings;        // "key=value"
  bool ignore_environment = false;          // settings come from the list above only
  std::vector<std::string> custom_op_libs;  // beside those that the package carries
  int device_index = -1;                    // -1: the package's
  std::string weights;                      // a file of values by name in place of the package's; empty: none
  // Told of a signal inside a step, before the process ends (kiln_load_options.fault).
  std::function<void(const std::string& text)> fault;
};

class PackageExecutable : public Executable {
 public:
  PackageExecutable(const std::string& path, const PackageOptions& options);
  // A model that somebody else has loaded, with his runtime: it must outlive this.
  PackageExecutable(kiln_model* model, const kiln_runtime_calls& runtime);
  ~PackageExecutable() override;

  CallResult call(const std::vector<Datum>& inputs) override;
  void reset() override;
  // Seconds of each of `count` calls into outputs that are allocated once, as a server would run it.
  std::vector<double> time_calls(const std::vector<Datum>& inputs, int count);
  std::vector<std::string> input_names() const;
  // The values of a constant as the model has them now, whatever form the package keeps them in. `to` has its layout.
  void read_constant(const std::string& name, const Tensor& to) const;
  std::string target() const;                           // of the code that was chosen: a level of processors
  int threads() const;                                  // that a call may use
  std::vector<bool> written_inputs() const;             // which of the inputs calls write
  std::map<std::string, Tensor> all_constants() const;  // weights and buffers of this instance, by name
  bool is_stateful() const;                             // calls change buffers of the instance
  void set_hook(kiln_hook_fn hook, void* user);         // of this instance, as kiln_set_hook; gone after reset()
  bool on_gpu() const;                                  // it runs there
  kiln_profile_summary limits() const;  // what the GPU that it runs on can do, in machine_gflops, …_gbs

 private:
  friend class PackageCaller;
  kiln_spec input_spec(size_t index) const;
  struct State;
  std::unique_ptr<State> state_;
};

// Who calls a package again and again, as a server would: with inputs that are his own copies, into outputs that are
// allocated once, unless every call is to allocate its own. Several callers, each on a thread of its own, may call one
// package; where calls change its state, each has an instance to himself.
class PackageCaller {
 public:
  PackageCaller(PackageExecutable& package, const std::vector<Datum>& inputs, bool fresh_outputs = false);
  ~PackageCaller();
  PackageCaller(const PackageCaller&) = delete;
  bool writes_inputs() const;                    // calls change inputs
  void restore_inputs();                         // to what they were before the first call
  void set_hook(kiln_hook_fn hook, void* user);  // of the instance that it calls, as kiln_set_hook
  void call();

 private:
  struct Values;
  std::unique_ptr<Values> values_;
};

// Weights by name, from a file of tensors; K0157 where they are none.
std::map<std::string, Tensor> read_weights(const std::string& path);
// Throws K0520, with what the file is and the next step, for one that is no package of Kiln.
void require_package(const std::string& path);
format::Plan package_plan(const std::string& path);
Datum constant_input(const format::Input& input);  // the value that this constant input must have
// What its plan and its manifest say about inputs; no code is loaded.
InputForm package_input_form(const std::string& path);
// What its plan and its manifest say about outputs in files.
OutputForm package_output_form(const std::string& path);
// Names of the outputs in the program's result, as the plan has them; "" for one without.
std::vector<std::string> package_output_keys(const std::string& path);
// A value of the kind and element type of each output, without elements.
std::vector<Datum> package_output_stand_ins(const std::string& path);

// The sample inputs that the package carries (<model>/data/sample_inputs/); nothing when there are none.
std::optional<std::vector<Datum>> package_sample_inputs(const std::string& path);

}  // namespace kiln
