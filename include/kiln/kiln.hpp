// The C++ headers over kiln.h: the same calls with ownership as types, inputs and outputs by name, checked element
// types, and errors as exceptions or as results (result.hpp). Header-only; needs C++17 and links against
// libkiln_runtime.so.
//
//   kiln::Model model("model.kiln.pt2");
//   kiln::Instance instance(model);
//   std::vector<float> x(8 * 10);
//   std::vector<kiln::Value> outputs = instance.run({kiln::tensor(x, {8, 10})});
//   for (float y : outputs[0].elements<float>()) …
//
//   kiln::Outputs named = instance.run_by_name({{"x", kiln::tensor(x, {8, 10})}});
//   const float* y = named["y"].data<float>();
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kiln/kiln.h"
#include "kiln/result.hpp"
#include "kiln/value.hpp"

namespace kiln {

struct LoadOptions {
  std::vector<std::string> settings;  // "key=value"
  std::vector<std::string> custom_op_libraries;
  bool ignore_environment = false;
  const kiln_allocator* allocator = nullptr;
  kiln_log_fn log = nullptr;
  void* log_user = nullptr;
  kiln_parallel_for_fn parallel_for = nullptr;
  void* parallel_for_user = nullptr;
  bool host_tensors = false;      // of a package for a GPU: tensors of the host are taken and given
  int device_index = -1;          // which GPU; -1: the first
  int verify_weights = 0;         // 1 yes, -1 no, 0: as the setting verify_weights says
  kiln_fault_fn fault = nullptr;  // told of a signal inside a step
  void* fault_user = nullptr;
};

// Of inputs and outputs; what `run_by_name` looks names up in.
struct Names {
  std::vector<std::string> inputs, outputs;
  std::vector<bool> input_is_none;  // a place of the program's arguments where the export had None

  // Of nothing, where what had names was moved away.
  static const Names& of(const std::shared_ptr<const Names>& names) {
    static const Names none;
    return names ? *names : none;
  }
  static std::string list(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text.empty() ? "none" : text;
  }
};

class Model {
 public:
  static Result<Model> try_load(const std::string& path, const LoadOptions& options = {}) {
    return made(options,
                [&](const kiln_load_options& o, kiln_model** out) { return kiln_load(path.c_str(), &o, out); });
  }
  // The bytes are used in place and must outlive the model and its instances.
  static Result<Model> try_load(const void* bytes, size_t size, const LoadOptions& options = {}) {
    return made(options,
                [&](const kiln_load_options& o, kiln_model** out) { return kiln_load_memory(bytes, size, &o, out); });
  }
  Model(Model&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), names_(std::move(other.names_)) {}
  Model& operator=(Model&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(names_, other.names_);
    return *this;
  }
  ~Model() { kiln_model_free(handle_); }

  std::string name() const { return kiln_model_name(handle_); }
  std::string target() const { return kiln_model_target(handle_); }
  bool stateful() const { return kiln_model_is_stateful(handle_) != 0; }
  size_t input_count() const { return kiln_input_count(handle_); }
  size_t output_count() const { return kiln_output_count(handle_); }
  // Names in the order of `run`. An output is called by its key in what the program returns ("past.0"), else by the
  // operator that computes it.
  const std::vector<std::string>& input_names() const { return names().inputs; }
  const std::vector<std::string>& output_names() const { return names().outputs; }
  Result<kiln_spec> try_input(size_t index) const { return spec(kiln_input_spec, index); }
  Result<kiln_spec> try_output(size_t index) const { return spec(kiln_output_spec, index); }
  const char* metadata(const std::string& key) const { return kiln_metadata(handle_, key.c_str()); }
  int threads() const { return kiln_model_threads(handle_); }  // that a run may use
  Result<void> try_set_threads(int threads) { return result_of(kiln_set_threads(handle_, threads)); }
  Result<void> try_update_constants(const std::vector<std::pair<std::string, const DLTensor*>>& values,
                                    uint32_t flags = KILN_UPDATE_COPY) {
    std::vector<const char*> names;
    std::vector<const DLTensor*> tensors;
    for (const auto& [name, value] : values) names.push_back(name.c_str()), tensors.push_back(value);
    return result_of(kiln_constants_update(handle_, names.data(), tensors.data(), names.size(), flags));
  }
  Result<void> try_swap_constants() { return result_of(kiln_constants_swap(handle_)); }
  // The calls that the package carries for it, compared with what they must give: an error where one differs.
  Result<kiln_self_test_summary> try_self_test() {
    kiln_self_test_summary out{};
    out.struct_size = sizeof out;
    if (const kiln_status status = kiln_self_test(handle_, &out); status != KILN_OK) return Failure::last(status);
    return out;
  }
  kiln_model* handle() const { return handle_; }
#if KILN_EXCEPTIONS
  explicit Model(const std::string& path, const LoadOptions& options = {}) : Model(try_load(path, options).value()) {}
  Model(const void* bytes, size_t size, const LoadOptions& options = {})
      : Model(try_load(bytes, size, options).value()) {}
  kiln_spec input(size_t index) const { return try_input(index).value(); }
  kiln_spec output(size_t index) const { return try_output(index).value(); }
  void set_threads(int threads) { try_set_threads(threads).value(); }
  void update_constants(const std::vector<std::pair<std::string, const DLTensor*>>& values,
                        uint32_t flags = KILN_UPDATE_COPY) {
    try_update_constants(values, flags).value();
  }
  void swap_constants() { try_swap_constants().value(); }
  kiln_self_test_summary self_test() { return try_self_test().value(); }
#endif

 private:
  friend class Instance;
  explicit Model(kiln_model* owned) : handle_(owned) {}
  template <class Load>
  static Result<Model> made(const LoadOptions& options, Load load) {
    std::vector<const char*> settings, libraries;
    for (const auto& s : options.settings) settings.push_back(s.c_str());
    for (const auto& l : options.custom_op_libraries) libraries.push_back(l.c_str());
    kiln_load_options o{};
    o.struct_size = sizeof o;
    o.settings = settings.data();
    o.setting_count = settings.size();
    o.ignore_environment = options.ignore_environment;
    o.device_index = options.device_index;
    o.allocator = options.allocator;
    o.log = options.log;
    o.log_user = options.log_user;
    o.parallel_for = options.parallel_for;
    o.parallel_for_user = options.parallel_for_user;
    o.custom_op_libraries = libraries.data();
    o.custom_op_library_count = libraries.size();
    o.verify_weights = options.verify_weights;
    o.host_tensors = options.host_tensors;
    o.fault = options.fault;
    o.fault_user = options.fault_user;
    kiln_model* handle = nullptr;
    if (const kiln_status status = load(o, &handle); status != KILN_OK) return Failure::last(status);
    Model model(handle);
    auto names = std::make_shared<Names>();
    for (size_t i = 0; i < model.input_count(); ++i) {
      const Result<kiln_spec> spec = model.try_input(i);
      if (!spec) return spec.error();
      names->inputs.emplace_back(spec->name);
      names->input_is_none.push_back(spec->kind == KILN_NONE);
    }
    for (size_t i = 0; i < model.output_count(); ++i) {
      const Result<kiln_spec> spec = model.try_output(i);
      if (!spec) return spec.error();
      names->outputs.emplace_back(spec->name);
    }
    model.names_ = std::move(names);
    return model;
  }
  template <class F>
  Result<kiln_spec> spec(F get, size_t index) const {
    kiln_spec out{};
    out.struct_size = sizeof out;
    if (const kiln_status status = get(handle_, index, &out); status != KILN_OK) return Failure::last(status);
    return out;
  }
  // One that was moved from has no names; what asks the runtime about it gets its error.
  const Names& names() const { return Names::of(names_); }
  kiln_model* handle_ = nullptr;
  std::shared_ptr<const Names> names_;
};

// Where the time of an instance's runs went.
class Profile {
 public:
  explicit Profile(kiln_profile* owned) : handle_(owned) {}
  Profile(Profile&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Profile& operator=(Profile&&) = delete;
  ~Profile() { kiln_profile_free(handle_); }

  Result<kiln_profile_summary> try_total() const {
    kiln_profile_summary out{};
    out.struct_size = sizeof out;
    if (const kiln_status status = kiln_profile_total(handle_, &out); status != KILN_OK) return Failure::last(status);
    return out;
  }
  // The one that took longest first. Texts live as long as the profile.
  Result<std::vector<kiln_kernel_profile>> try_kernels() const {
    std::vector<kiln_kernel_profile> out(kiln_profile_count(handle_), kiln_kernel_profile{});
    for (size_t i = 0; i < out.size(); ++i) {
      out[i].struct_size = sizeof out[i];
      if (const kiln_status status = kiln_profile_kernel(handle_, i, &out[i]); status != KILN_OK)
        return Failure::last(status);
    }
    return out;
  }
  Result<void> try_write_trace(const std::string& path) const {
    return result_of(kiln_profile_write_trace(handle_, path.c_str()));
  }
#if KILN_EXCEPTIONS
  kiln_profile_summary total() const { return try_total().value(); }
  std::vector<kiln_kernel_profile> kernels() const { return try_kernels().value(); }
  void write_trace(const std::string& path) const { try_write_trace(path).value(); }
#endif

 private:
  kiln_profile* handle_;
};

struct NamedValue {
  std::string name;
  Value value;
};

// What a run gave, by number and by name.
class Outputs {
 public:
  Outputs(std::vector<Value> values, std::shared_ptr<const Names> names)
      : values_(std::move(values)), names_(std::move(names)) {}

  size_t size() const { return values_.size(); }
  const std::vector<std::string>& names() const { return Names::of(names_).outputs; }
  Value& operator[](size_t index) { return values_[index]; }
  const Value& operator[](size_t index) const { return values_[index]; }
  std::vector<Value>::iterator begin() { return values_.begin(); }
  std::vector<Value>::iterator end() { return values_.end(); }
  // Fails where there is none of this name, or two that differ in nothing but their number.
  Result<Value*> try_at(const std::string& name) {
    Value* found = nullptr;
    for (size_t i = 0; i < values_.size(); ++i) {
      if (names_->outputs[i] != name) continue;
      if (found) return mistake("K0754", "several outputs are called '" + name + "': ask for them by number");
      found = &values_[i];
    }
    if (!found) return mistake("K0754", "there is no output '" + name + "'; the model's are " + Names::list(names()));
    return found;
  }
#if KILN_EXCEPTIONS
  Value& at(const std::string& name) { return *try_at(name).value(); }
  Value& operator[](const std::string& name) { return at(name); }
#endif

 private:
  std::vector<Value> values_;
  std::shared_ptr<const Names> names_;
};

class Instance {
 public:
  static Result<Instance> try_create(const Model& model) {
    kiln_instance* handle = nullptr;
    if (const kiln_status status = kiln_instance_create(model.handle(), &handle); status != KILN_OK)
      return Failure::last(status);
    return Instance(handle, model.names_);
  }
  Instance(Instance&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), names_(other.names_) {}
  Instance& operator=(Instance&&) = delete;
  ~Instance() { kiln_instance_free(handle_); }

  // Outputs that Kiln allocates. May be called from several threads.
  Result<std::vector<Value>> try_run(const std::vector<Value>& inputs) const {
    return run_views(inputs.data(), inputs.size());
  }
  Result<std::vector<Value>> try_run(std::initializer_list<Value> inputs) const {
    return run_views(inputs.begin(), inputs.size());
  }
  // Outputs that are tensors on entry (kiln::tensor) are the caller's memory and are written in place; the others, None
  // on entry, are allocated.
  Result<void> try_run_into(const std::vector<Value>& inputs, std::vector<Value>& outputs) const {
    std::vector<kiln_value> in;
    for (const Value& value : inputs) in.push_back(value.raw());
    return run_raw(in, outputs);
  }
  // Every input once, in any order; those for which the export had None may be left out.
  Result<Outputs> try_run_by_name(const std::vector<NamedValue>& inputs) const {
    return run_named(inputs.data(), inputs.size());
  }
  Result<Outputs> try_run_by_name(std::initializer_list<NamedValue> inputs) const {
    return run_named(inputs.begin(), inputs.size());
  }
  // The fastest way: plain arrays, the caller's output tensors. Nothing is allocated.
  Result<void> try_run(const kiln_value* inputs, size_t input_count, kiln_value* outputs, size_t output_count) const {
    return result_of(kiln_run(handle_, inputs, input_count, outputs, output_count));
  }
  // On a stream of the caller's (kiln_run_options).
  Result<void> try_run(const kiln_value* inputs, size_t input_count, kiln_value* outputs, size_t output_count,
                       void* stream, int32_t wait = 0) const {
    const kiln_run_options options{sizeof(kiln_run_options), stream, wait, 0, 0};
    return result_of(kiln_run_with(handle_, inputs, input_count, outputs, output_count, &options));
  }
  Result<void> try_set_seed(uint64_t seed) { return result_of(kiln_set_seed(handle_, seed)); }
  Result<void> try_set_hook(kiln_hook_fn hook, void* user) { return result_of(kiln_set_hook(handle_, hook, user)); }
  Result<void> try_start_profile() { return result_of(kiln_profile_start(handle_)); }
  Result<Profile> try_stop_profile() {
    kiln_profile* profile = nullptr;
    if (const kiln_status status = kiln_profile_stop(handle_, &profile); status != KILN_OK)
      return Failure::last(status);
    return Profile(profile);
  }
  Result<void> try_read_constant(const std::string& name, const DLTensor& to) {
    return result_of(kiln_constant_read(handle_, name.c_str(), &to));
  }
  Result<void> try_write_constant(const std::string& name, const DLTensor& from) {
    return result_of(kiln_constant_write(handle_, name.c_str(), &from));
  }
  kiln_instance* handle() const { return handle_; }
#if KILN_EXCEPTIONS
  explicit Instance(const Model& model) : Instance(try_create(model).value()) {}
  std::vector<Value> run(const std::vector<Value>& inputs) const { return try_run(inputs).value(); }
  std::vector<Value> run(std::initializer_list<Value> inputs) const { return try_run(inputs).value(); }
  void run_into(const std::vector<Value>& inputs, std::vector<Value>& outputs) const {
    try_run_into(inputs, outputs).value();
  }
  Outputs run_by_name(const std::vector<NamedValue>& inputs) const { return try_run_by_name(inputs).value(); }
  Outputs run_by_name(std::initializer_list<NamedValue> inputs) const { return try_run_by_name(inputs).value(); }
  void run(const kiln_value* inputs, size_t input_count, kiln_value* outputs, size_t output_count) const {
    check(kiln_run(handle_, inputs, input_count, outputs, output_count));
  }
  void run(const kiln_value* inputs, size_t input_count, kiln_value* outputs, size_t output_count, void* stream,
           int32_t wait = 0) const {
    try_run(inputs, input_count, outputs, output_count, stream, wait).value();
  }
  void set_seed(uint64_t seed) { try_set_seed(seed).value(); }
  void set_hook(kiln_hook_fn hook, void* user) { try_set_hook(hook, user).value(); }
  void start_profile() { try_start_profile().value(); }
  Profile stop_profile() { return try_stop_profile().value(); }
  void read_constant(const std::string& name, const DLTensor& to) { try_read_constant(name, to).value(); }
  void write_constant(const std::string& name, const DLTensor& from) { try_write_constant(name, from).value(); }
#endif

 private:
  Instance(kiln_instance* owned, std::shared_ptr<const Names> names) : handle_(owned), names_(std::move(names)) {}
  Result<void> run_raw(const std::vector<kiln_value>& inputs, std::vector<Value>& outputs) const {
    std::vector<kiln_value> out;
    std::vector<Value> before;  // until the run has ended: what it reads may be what the last one gave
    for (Value& value : outputs) {
      if (!value.is_tensor() || value.raw().owner) {  // what a run gave is not the caller's memory
        before.push_back(std::move(value));
        value = Value();
      }
      out.push_back(value.raw());
    }
    const kiln_status status = kiln_run(handle_, inputs.data(), inputs.size(), out.data(), out.size());
    if (status != KILN_OK) return Failure::last(status);
    for (size_t i = 0; i < out.size(); ++i)
      if (!outputs[i].is_tensor()) outputs[i] = Value(out[i]);
    return {};
  }
  Result<std::vector<Value>> run_raw(const std::vector<kiln_value>& inputs) const {
    std::vector<Value> outputs(names_->outputs.size());
    if (const Result<void> done = run_raw(inputs, outputs); !done) return done.error();
    return outputs;
  }
  Result<std::vector<Value>> run_views(const Value* inputs, size_t count) const {
    std::vector<kiln_value> in;
    for (size_t i = 0; i < count; ++i) in.push_back(inputs[i].raw());
    return run_raw(in);
  }
  Result<Outputs> run_named(const NamedValue* inputs, size_t count) const {
    const std::vector<std::string>& names = names_->inputs;
    std::vector<kiln_value> in(names.size(), kiln_value{});
    std::vector<bool> given(names.size(), false);
    for (size_t i = 0; i < count; ++i) {
      size_t at = 0;
      while (at < names.size() && names[at] != inputs[i].name) ++at;
      if (at == names.size())
        return mistake("K0753", "there is no input '" + inputs[i].name + "'; the model's are " + Names::list(names));
      if (given[at]) return mistake("K0753", "input '" + inputs[i].name + "' is given twice");
      given[at] = true;
      in[at] = inputs[i].value.raw();
    }
    for (size_t i = 0; i < names.size(); ++i)
      if (!given[i] && !names_->input_is_none[i]) return mistake("K0753", "input '" + names[i] + "' is missing");
    Result<std::vector<Value>> values = run_raw(in);
    if (!values) return values.error();
    return Outputs(std::move(*values), names_);
  }
  kiln_instance* handle_ = nullptr;
  std::shared_ptr<const Names> names_;
};

}  // namespace kiln
