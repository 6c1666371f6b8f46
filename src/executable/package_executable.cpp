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

void check(kiln_status status) {
  if (status == KILN_OK) return;
  const ErrorKind kind = status == KILN_ERROR_BUG           ? ErrorKind::bug
                         : status == KILN_ERROR_UNSUPPORTED ? ErrorKind::unsupported
                                                            : ErrorKind::user;
  // The runtime's text has the code in front already, except where the contract fixes how it begins.
  const std::string code = kiln_last_error_code(), text = kiln_last_error(), prefix = str("error[", code, "]: ");
  throw Error(kind, code, starts_with(text, prefix) ? text.substr(prefix.size()) : text);
}

std::vector<const char*> c_strings(const std::vector<std::string>& texts) {
  std::vector<const char*> out;
  for (const std::string& text : texts) out.push_back(text.c_str());
  return out;
}

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
  explicit OutputValues(size_t count) : values_(count) {}
  ~OutputValues() {
    for (kiln_value& value : values_) kiln_value_clear(&value);
  }
  OutputValues(const OutputValues&) = delete;
  std::vector<kiln_value>& values() { return values_; }

 private:
  std::vector<kiln_value> values_;
};

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

}  // namespace

struct PackageExecutable::State {
  struct ModelFree {
    void operator()(kiln_model* model) const { kiln_model_free(model); }
  };
  struct InstanceFree {
    void operator()(kiln_instance* instance) const { kiln_instance_free(instance); }
  };

  std::function<void(const std::string&)> fault;
  std::unique_ptr<kiln_model, ModelFree> model;
  std::unique_ptr<kiln_instance, InstanceFree> instance;

  std::map<std::string, Tensor> read_state() const {
    std::map<std::string, Tensor> state;
    for (size_t i = 0; i < kiln_constant_count(model.get()); ++i) {
      kiln_constant spec{};
      spec.struct_size = sizeof spec;
      check(kiln_constant_spec(model.get(), i, &spec));
      if (!spec.mutable_buffer) continue;
      Tensor value = Tensor::empty_strided(dtype_from_dlpack(spec.dtype), {spec.sizes, spec.sizes + spec.rank},
                                           {spec.strides, spec.strides + spec.rank});
      check(kiln_constant_read(instance.get(), spec.name, DLPackView(value).get()));
      state.emplace(spec.name, std::move(value));
    }
    return state;
  }
};

PackageExecutable::PackageExecutable(const std::string& path, const PackageOptions& options)
    : state_(std::make_unique<State>()) {
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
  kiln_model* model = nullptr;
  check(kiln_load(path.c_str(), &load, &model));
  state_->model.reset(model);
  reset();
}

PackageExecutable::~PackageExecutable() = default;

void PackageExecutable::reset() {
  kiln_instance* instance = nullptr;
  check(kiln_instance_create(state_->model.get(), &instance));
  state_->instance.reset(instance);
}

std::vector<std::string> PackageExecutable::input_names() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < kiln_input_count(state_->model.get()); ++i) {
    kiln_spec spec{};
    spec.struct_size = sizeof spec;
    check(kiln_input_spec(state_->model.get(), i, &spec));
    names.emplace_back(spec.name);
  }
  return names;
}

void PackageExecutable::set_hook(kiln_hook_fn hook, void* user) {
  check(kiln_set_hook(state_->instance.get(), hook, user));
}

CallResult PackageExecutable::call(const std::vector<Datum>& inputs) {
  CallResult result;
  result.inputs = copy_inputs(inputs);
  const CallValues values(result.inputs);
  OutputValues outputs(kiln_output_count(state_->model.get()));
  check(
      kiln_run(state_->instance.get(), values.data(), values.size(), outputs.values().data(), outputs.values().size()));
  for (const kiln_value& value : outputs.values()) result.outputs.push_back(datum_of(value));
  result.state = state_->read_state();
  return result;
}

std::vector<double> PackageExecutable::time_calls(const std::vector<Datum>& inputs, int count) {
  const std::vector<Datum> copies = copy_inputs(inputs);
  const CallValues values(copies);
  OutputValues allocated(kiln_output_count(state_->model.get()));
  check(kiln_run(state_->instance.get(), values.data(), values.size(), allocated.values().data(),
                 allocated.values().size()));
  std::vector<kiln_value> outputs = allocated.values();
  for (kiln_value& value : outputs) value.owner = nullptr;  // as the caller's memory
  std::vector<double> seconds;
  seconds.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    check(kiln_run(state_->instance.get(), values.data(), values.size(), outputs.data(), outputs.size()));
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return seconds;
}

void PackageExecutable::read_constant(const std::string& name, const Tensor& to) const {
  check(kiln_constant_read(state_->instance.get(), name.c_str(), DLPackView(to).get()));
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
  if (input.what != What::constant) return slot;
  switch (input.constant_kind) {
    case format::ConstantKind::integer:
      slot.constant = Datum{Scalar(input.constant_int)};
      break;
    case format::ConstantKind::floating:
      slot.constant = Datum{Scalar(input.constant_float)};
      break;
    case format::ConstantKind::boolean:
      slot.constant = Datum{Scalar(input.constant_int != 0)};
      break;
    case format::ConstantKind::string:
      slot.constant = Datum{input.constant_string};
      break;
    default:
      slot.constant = Datum{};
  }
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

std::vector<std::string> package_output_keys(const std::string& path) {
  std::vector<std::string> keys;
  for_each_own_entry(path, [&](const ZipReader& zip, const ZipEntry& entry) {
    if (!ends_with(entry.name, "/plan")) return;
    for (const format::Output& output : format::read_plan(zip.read(entry).bytes).outputs) keys.push_back(output.key);
  });
  return keys;
}

std::vector<Datum> package_output_stand_ins(const std::string& path) {
  std::vector<Datum> out;
  for_each_own_entry(path, [&](const ZipReader& zip, const ZipEntry& entry) {
    if (!ends_with(entry.name, "/plan")) return;
    const format::Plan plan = format::read_plan(zip.read(entry).bytes);
    for (const format::Output& output : plan.outputs) {
      switch (output.what) {
        case format::OutputWhat::tensor:
          out.push_back(
              {Tensor::empty(static_cast<DType>(plan.buffers[static_cast<size_t>(output.buffer)].dtype), {0})});
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
  });
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
