#include "executable/package_executable.h"

#include <chrono>
#include <deque>

#include "base/file_kind.h"
#include "base/inflate.h"
#include "base/json.h"
#include "base/zip.h"
#include "custom/dlpack.h"
#include "kiln/kiln.h"
#include "package/plan_io.h"
#include "pt2/tensor_files.h"

namespace kiln {
namespace {

const kiln_runtime_calls& own_runtime() {
  static const kiln_runtime_calls calls = {kiln_last_error,      kiln_last_error_code, kiln_value_clear,
                                           kiln_input_count,     kiln_output_count,    kiln_input_spec,
                                           kiln_instance_create, kiln_instance_free,   kiln_run,
                                           kiln_constant_count,  kiln_constant_spec,   kiln_constant_read};
  return calls;
}

void check(kiln_status status, const kiln_runtime_calls& runtime = own_runtime()) {
  if (status == KILN_OK) return;
  const ErrorKind kind = status == KILN_ERROR_BUG           ? ErrorKind::bug
                         : status == KILN_ERROR_UNSUPPORTED ? ErrorKind::unsupported
                                                            : ErrorKind::user;
  // The runtime's text has the code in front already, except where the contract fixes how it begins.
  const std::string code = runtime.last_error_code(), text = runtime.last_error(), prefix = str("error[", code, "]: ");
  throw Error(kind, code, starts_with(text, prefix) ? text.substr(prefix.size()) : text);
}

std::vector<const char*> c_strings(const std::vector<std::string>& texts) {
  std::vector<const char*> out;
  for (const std::string& text : texts) out.push_back(text.c_str());
  return out;
}

}  // namespace

// The values of one call in the form of the C interface. Tensors are passed as they are: strides, offset, alignment.
class CallValues {
 public:
  explicit CallValues(const std::vector<Datum>& data) {
    for (const Datum& datum : data) add(datum);
  }
  const kiln_value* data() const { return values_.data(); }
  size_t size() const { return values_.size(); }

 private:
  void add(const Datum& datum) {
    kiln_value value{};
    if (datum.is_tensor()) {
      views_.emplace_back(datum.tensor());
      value.kind = KILN_TENSOR;
      value.as.tensor = views_.back().get();
    } else if (datum.is_scalar()) {
      const Scalar& number = datum.scalar();
      if (number.is_complex()) fail_unsupported("K0673", "a complex number as an input");
      value.kind = number.is_bool() ? KILN_BOOL : number.is_int() ? KILN_INT : KILN_FLOAT;
      if (number.is_bool()) value.as.boolean = number.as_int() != 0;
      if (number.is_int()) value.as.integer = number.as_int();
      if (number.is_float()) value.as.floating = number.as_double();
    } else if (datum.is_list()) {
      fail_user("K0673", "inputs are a flat list: an element is a list itself");
    } else if (!datum.is_none()) {
      value.kind = KILN_STRING;
      value.as.string = std::get<std::string>(datum.value).c_str();
    }
    values_.push_back(value);
  }
  std::deque<DLPackView> views_;
  std::vector<kiln_value> values_;
};

// Outputs that Kiln allocates; freed here.
class OutputValues {
 public:
  OutputValues(size_t count, const kiln_runtime_calls& runtime) : values_(count), runtime_(runtime) {}
  ~OutputValues() { clear(); }
  void clear() {
    for (kiln_value& value : values_) runtime_.value_clear(&value);
  }
  OutputValues(const OutputValues&) = delete;
  std::vector<kiln_value>& values() { return values_; }

 private:
  std::vector<kiln_value> values_;
  const kiln_runtime_calls& runtime_;
};

namespace {

Datum datum_of(const kiln_value& value) {
  switch (value.kind) {
    case KILN_NONE:
      return Datum{};
    case KILN_TENSOR:
      return Datum{tensor_from_dlpack(*value.as.tensor)};
    case KILN_INT:
      return Datum{Scalar(value.as.integer)};
    case KILN_FLOAT:
      return Datum{Scalar(value.as.floating)};
    case KILN_BOOL:
      return Datum{Scalar(value.as.boolean != 0)};
    case KILN_STRING:
      return Datum{std::string(value.as.string)};
    default:
      fail_bug(str("the runtime gave an output of kind ", value.kind));
  }
}

// What the file has of the model's constants; PyTorch keeps names in a state dict that a program does not use.
void give_weights(kiln_model* model, const std::string& path) {
  std::map<std::string, Tensor> weights = read_weights(path);
  std::vector<const char*> names;
  std::vector<const DLTensor*> values;
  std::deque<DLPackView> views;
  for (size_t i = 0; i < kiln_constant_count(model); ++i) {
    kiln_constant spec{};
    spec.struct_size = sizeof spec;
    check(kiln_constant_spec(model, i, &spec));
    const auto found = weights.find(spec.name);
    if (found == weights.end()) continue;
    names.push_back(spec.name);
    values.push_back(views.emplace_back(found->second).get());
  }
  if (names.empty())
    fail_user("K0705", str(path, " has no weight of the model", weights.empty() ? "" : ": its names are like ",
                           weights.empty() ? "" : weights.begin()->first));
  check(kiln_constants_update(model, names.data(), values.data(), names.size(), KILN_UPDATE_COPY));
}

}  // namespace

struct PackageExecutable::State {
  explicit State(const kiln_runtime_calls& calls) : runtime(calls) {}
  ~State() {
    if (instance) runtime.instance_free(instance);
    if (owned) kiln_model_free(model);
  }
  State(const State&) = delete;

  const kiln_runtime_calls& runtime;
  std::function<void(const std::string&)> fault;
  kiln_model* model = nullptr;
  bool owned = false;
  kiln_instance* instance = nullptr;

  // Of the buffers that calls write, or of all constants.
  std::map<std::string, Tensor> read_state(bool all) const {
    std::map<std::string, Tensor> state;
    for (size_t i = 0; i < runtime.constant_count(model); ++i) {
      kiln_constant spec{};
      spec.struct_size = sizeof spec;
      check(runtime.constant_spec(model, i, &spec), runtime);
      if (!all && !spec.mutable_buffer) continue;
      const std::vector<int64_t> sizes(spec.sizes, spec.sizes + spec.rank);
      std::vector<int64_t> strides(spec.strides, spec.strides + spec.rank);
      // An expanded constant cannot be copied to where its elements share places.
      if (!dense_and_not_overlapping(sizes, strides)) strides = contiguous_strides(sizes);
      Tensor value = Tensor::empty_strided(dtype_from_dlpack(spec.dtype), sizes, strides);
      check(runtime.constant_read(instance, spec.name, DLPackView(value).get()), runtime);
      state.emplace(spec.name, std::move(value));
    }
    return state;
  }
};

PackageExecutable::PackageExecutable(const std::string& path, const PackageOptions& options)
    : state_(std::make_unique<State>(own_runtime())) {
  const std::vector<const char*> settings = c_strings(options.settings);
  const std::vector<const char*> libraries = c_strings(options.custom_op_libs);
  kiln_load_options load{};
  load.struct_size = sizeof load;
  load.settings = settings.data();
  load.setting_count = settings.size();
  load.ignore_environment = options.ignore_environment;
  load.device_index = options.device_index;
  load.host_tensors = 1;
  load.custom_op_libraries = libraries.data();
  load.custom_op_library_count = libraries.size();
  state_->fault = options.fault;
  if (state_->fault) {
    load.fault_user = state_.get();
    load.fault = [](void* state, const char* text) { static_cast<State*>(state)->fault(text); };
  }
  check(kiln_load(path.c_str(), &load, &state_->model));
  state_->owned = true;
  if (!options.weights.empty()) give_weights(state_->model, options.weights);
  reset();
}

PackageExecutable::PackageExecutable(kiln_model* model, const kiln_runtime_calls& runtime)
    : state_(std::make_unique<State>(runtime)) {
  state_->model = model;
  reset();
}

PackageExecutable::~PackageExecutable() = default;

void PackageExecutable::reset() {
  kiln_instance* fresh = nullptr;
  check(state_->runtime.instance_create(state_->model, &fresh), state_->runtime);
  if (state_->instance) state_->runtime.instance_free(state_->instance);
  state_->instance = fresh;
}

std::vector<std::string> PackageExecutable::input_names() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < state_->runtime.input_count(state_->model); ++i) names.emplace_back(input_spec(i).name);
  return names;
}

std::vector<bool> PackageExecutable::written_inputs() const {
  std::vector<bool> written;
  for (size_t i = 0; i < state_->runtime.input_count(state_->model); ++i) written.push_back(input_spec(i).mutated != 0);
  return written;
}

kiln_spec PackageExecutable::input_spec(size_t index) const {
  kiln_spec spec{};
  spec.struct_size = sizeof spec;
  check(state_->runtime.input_spec(state_->model, index, &spec), state_->runtime);
  return spec;
}

std::map<std::string, Tensor> PackageExecutable::all_constants() const { return state_->read_state(true); }

void PackageExecutable::set_hook(kiln_hook_fn hook, void* user) { check(kiln_set_hook(state_->instance, hook, user)); }

CallResult PackageExecutable::call(const std::vector<Datum>& inputs) {
  CallResult result;
  result.inputs = copy_inputs(inputs);
  const kiln_runtime_calls& runtime = state_->runtime;
  const CallValues values(result.inputs);
  OutputValues outputs(runtime.output_count(state_->model), runtime);
  check(runtime.run(state_->instance, values.data(), values.size(), outputs.values().data(), outputs.values().size()),
        runtime);
  for (const kiln_value& value : outputs.values()) result.outputs.push_back(datum_of(value));
  result.state = state_->read_state(false);
  return result;
}

std::string PackageExecutable::target() const { return kiln_model_target(state_->model); }

int PackageExecutable::threads() const { return kiln_model_threads(state_->model); }

bool PackageExecutable::on_gpu() const { return starts_with(target(), "sm_"); }

kiln_profile_summary PackageExecutable::limits() const {
  check(kiln_profile_start(state_->instance));
  kiln_profile* nothing = nullptr;
  check(kiln_profile_stop(state_->instance, &nothing));
  kiln_profile_summary out{};
  out.struct_size = sizeof out;
  const kiln_status status = kiln_profile_total(nothing, &out);
  kiln_profile_free(nothing);
  check(status);
  return out;
}

bool PackageExecutable::is_stateful() const { return kiln_model_is_stateful(state_->model) != 0; }

struct PackageCaller::Values {
  Values(const std::vector<Datum>& given, size_t output_count)
      : original(given), copies(copy_inputs(given)), inputs(copies), allocated(output_count, own_runtime()) {}
  const std::vector<Datum> original, copies;
  const CallValues inputs;
  OutputValues allocated;
  std::vector<kiln_value> outputs;  // the allocated ones, as the caller's memory; empty: not allocated yet
  bool fresh_outputs = false;       // each call allocates them: so it is wanted, or their sizes vary from call to call
  std::vector<size_t> written;      // inputs that calls change
  struct InstanceFree {
    void operator()(kiln_instance* freed) const { kiln_instance_free(freed); }
  };
  std::unique_ptr<kiln_instance, InstanceFree> own;
  kiln_instance* instance = nullptr;
};

PackageCaller::PackageCaller(PackageExecutable& package, const std::vector<Datum>& inputs, bool fresh_outputs) {
  kiln_model* model = package.state_->model;
  values_ = std::make_unique<Values>(inputs, kiln_output_count(model));
  values_->instance = package.state_->instance;
  values_->fresh_outputs = fresh_outputs;
  if (package.is_stateful()) {
    check(kiln_instance_create(model, &values_->instance));
    values_->own.reset(values_->instance);
  }
  const std::vector<bool> written = package.written_inputs();
  for (size_t i = 0; i < std::min(inputs.size(), written.size()); ++i)
    if (written[i] && inputs[i].is_tensor()) values_->written.push_back(i);
  for (size_t i = 0; i < kiln_symbol_count(model); ++i) {
    kiln_symbol symbol{};
    symbol.struct_size = sizeof symbol;
    check(kiln_symbol_spec(model, i, &symbol));
    values_->fresh_outputs = values_->fresh_outputs || symbol.from_data;
  }
}

PackageCaller::~PackageCaller() = default;

bool PackageCaller::writes_inputs() const { return !values_->written.empty(); }

void PackageCaller::restore_inputs() {
  for (const size_t i : values_->written) copy_into(values_->original[i].tensor(), values_->copies[i].tensor());
}

void PackageCaller::set_hook(kiln_hook_fn hook, void* user) { check(kiln_set_hook(values_->instance, hook, user)); }

void PackageCaller::call() {
  Values& v = *values_;
  if (!v.outputs.empty())
    return check(kiln_run(v.instance, v.inputs.data(), v.inputs.size(), v.outputs.data(), v.outputs.size()));
  std::vector<kiln_value>& fresh = v.allocated.values();
  v.allocated.clear();
  check(kiln_run(v.instance, v.inputs.data(), v.inputs.size(), fresh.data(), fresh.size()));
  if (v.fresh_outputs) return;
  v.outputs = fresh;
  for (kiln_value& value : v.outputs) value.owner = nullptr;
}

std::vector<double> PackageExecutable::time_calls(const std::vector<Datum>& inputs, int count) {
  PackageCaller caller(*this, inputs);
  caller.call();
  std::vector<double> seconds;
  seconds.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    caller.call();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return seconds;
}

void PackageExecutable::read_constant(const std::string& name, const Tensor& to) const {
  check(state_->runtime.constant_read(state_->instance, name.c_str(), DLPackView(to).get()), state_->runtime);
}

std::map<std::string, Tensor> read_weights(const std::string& path) {
  TensorFile file = read_tensor_file(path);
  if (file.names.empty())
    fail_user("K0157", str(path,
                           " has no names: weights are given by name, as torch.save(model.state_dict(), …) and "
                           ".safetensors have them"));
  std::map<std::string, Tensor> weights;
  for (size_t i = 0; i < file.items.size(); ++i) {
    if (!file.items[i].is_tensor())
      fail_user("K0157",
                str(file.names[i], " of ", path, " is no tensor: weights are tensors by name, as in a state dict"));
    weights.emplace(file.names[i], file.items[i].tensor());
  }
  return weights;
}

void require_package(const std::string& path) {
  const FileKind kind = file_kind_of(path);
  if (kind == FileKind::kiln_package) return;
  // A damaged archive: its reader says how.
  if (kind == FileKind::unknown && begins_like_zip(MappedFile::open(path)->bytes())) return;
  fail_user("K0520", not_a_package_text(path, kind));
}

namespace {

InputSlot input_slot(const format::Input& input) {
  InputSlot slot{input.name, std::nullopt, false};
  using What = format::InputWhat;
  slot.number = input.what == What::sym_int || input.what == What::sym_float || input.what == What::sym_bool;
  if (input.what == What::ignored) slot.constant = Datum{};
  if (input.what == What::constant) slot.constant = constant_input(input);
  return slot;
}

// Calls f for each entry of the package's own folder.
template <class F>
void for_each_own_entry(const std::string& path, const F& f) {
  require_package(path);
  const auto file = MappedFile::open(path);
  const ZipReader zip(file->bytes(), path, inflate_entry);
  for (const ZipEntry& entry : zip.entries())
    if (entry.name.find("data/kiln/") != std::string::npos) f(zip, entry);
}

}  // namespace

Datum constant_input(const format::Input& input) {
  switch (input.constant_kind) {
    case format::ConstantKind::integer:
      return Datum{Scalar(input.constant_int)};
    case format::ConstantKind::floating:
      return Datum{Scalar(input.constant_float)};
    case format::ConstantKind::boolean:
      return Datum{Scalar(input.constant_int != 0)};
    case format::ConstantKind::string:
      return Datum{input.constant_string};
    default:
      return Datum{};
  }
}

InputForm package_input_form(const std::string& path) {
  InputForm form;
  for_each_own_entry(path, [&](const ZipReader& zip, const ZipEntry& entry) {
    if (ends_with(entry.name, "/plan"))
      for (const format::Input& input : format::read_plan(zip.read(entry).bytes).inputs)
        form.slots.push_back(input_slot(input));
    if (!ends_with(entry.name, "/manifest.json")) return;
    const Json manifest = parse_json(as_text(zip.read(entry).bytes), entry.name);
    if (const Json* spec = manifest.find_value("in_spec")) form.in_spec = spec->as_string();
    if (const Json* names = manifest.find_value("argument_names"))
      for (const Json& name : names->items()) form.argument_names.push_back(name.as_string());
  });
  return form;
}

format::Plan package_plan(const std::string& path) {
  std::optional<format::Plan> plan;
  for_each_own_entry(path, [&](const ZipReader& zip, const ZipEntry& entry) {
    if (ends_with(entry.name, "/plan")) plan = format::read_plan(zip.read(entry).bytes);
  });
  if (!plan) fail_user("K0520", str(path, " has no plan in it: it is no package of Kiln, or a damaged one"));
  return std::move(*plan);
}

std::vector<std::string> package_output_keys(const std::string& path) {
  std::vector<std::string> keys;
  for (const format::Output& output : package_plan(path).outputs) keys.push_back(output.key);
  return keys;
}

OutputForm package_output_form(const std::string& path) {
  std::string out_spec;
  for_each_own_entry(path, [&](const ZipReader& zip, const ZipEntry& entry) {
    if (!ends_with(entry.name, "/manifest.json")) return;
    const Json manifest = parse_json(as_text(zip.read(entry).bytes), entry.name);
    if (const Json* spec = manifest.find_value("out_spec")) out_spec = spec->as_string();
  });
  return output_form(package_output_keys(path), std::move(out_spec));
}

std::vector<Datum> package_output_stand_ins(const std::string& path) {
  std::vector<Datum> out;
  const format::Plan plan = package_plan(path);
  for (const format::Output& output : plan.outputs) {
    switch (output.what) {
      case format::OutputWhat::tensor:
        out.push_back({Tensor::empty(plan.buffers[static_cast<size_t>(output.buffer)].dtype, {0})});
        break;
      case format::OutputWhat::string:
        out.push_back({output.text});
        break;
      case format::OutputWhat::none:
        out.emplace_back();
        break;
      default:
        out.push_back({Scalar(int64_t{0})});
    }
  }
  return out;
}

std::optional<std::vector<Datum>> package_sample_inputs(const std::string& path) {
  const auto file = MappedFile::open(path);
  const ZipReader zip(file->bytes(), path, inflate_entry);
  for (const ZipEntry& entry : zip.entries())
    if (entry.name.find("/data/sample_inputs/") != std::string::npos && ends_with(entry.name, ".pt"))
      return read_pt({zip.read(entry).bytes, nullptr, str(path, "!", entry.name)}).items;
  return std::nullopt;
}

}  // namespace kiln
