// kiln.h: versions, loading, what a model is.
#include <unistd.h>

#include "base/error.h"
#include "base/file_kind.h"
#include "base/idle_settings.h"
#include "base/native_stack.h"
#include "base/settings.h"
#include "runtime/api_handles.h"
#include "runtime/element.h"
#include "runtime/guard_memory.h"
#include "runtime/package_loader.h"
#include "runtime/parallel.h"

using namespace kiln;
using namespace kiln::runtime;

#ifndef KILN_VERSION_TEXT
#define KILN_VERSION_TEXT "0.1.0"
#endif

namespace {

void check_list(const char* const* texts, size_t count, const char* name) {
  const char* what = !texts && count != 0 ? " is NULL, and its count is not 0" : nullptr;
  for (size_t i = 0; i < count && texts; ++i)
    if (!texts[i]) what = " has an element that is NULL";
  if (what) fail_user("K0660", str("kiln_load_options.", name, what));
}

// Options that a caller built against an older header may not have: read what its struct holds, zero for the rest.
kiln_load_options whole_options(const kiln_load_options* given) {
  kiln_load_options options{};
  options.device_index = -1;
  if (!given) return options;
  if (given->struct_size < sizeof(size_t)) fail_user("K0660", "kiln_load_options.struct_size is not set");
  std::memcpy(&options, given, std::min(given->struct_size, sizeof options));
  check_list(options.settings, options.setting_count, "settings");
  check_list(options.custom_op_libraries, options.custom_op_library_count, "custom_op_libraries");
  if (options.allocator && (!options.allocator->allocate || !options.allocator->release))
    fail_user("K0660", "kiln_load_options.allocator lacks a function");
  return options;
}

Settings read_settings(const kiln_load_options& options) {
  Settings settings(Phase::run);
  for (size_t i = 0; i < options.setting_count; ++i) settings.set(std::string_view(options.settings[i]));
  if (!options.ignore_environment) settings.read_environment();
  return settings;
}

ModelOptions model_options(const kiln_load_options& options, const Settings& settings) {
  ModelOptions out;
  if (options.allocator)
    out.allocator = {options.allocator->allocate, options.allocator->release, options.allocator->user};
  out.log = {options.log, options.log_user};
  out.host_tensors = options.host_tensors != 0;
  const int64_t threads = settings.get_int("cpp.threads");
  if (threads > most_threads)
    fail_user("K0244", str("cpp.threads: a run has at most ", most_threads, " threads, not ", threads));
  out.threads = static_cast<int>(threads);
  out.parallel_for = options.parallel_for;
  out.parallel_for_user = options.parallel_for_user;
  out.check_inputs = settings.get_optional_int("check_inputs").value_or(1) != 0;
  out.report_copies = settings.get_optional_int("check_inputs") == 1;
  out.debug.printer_mode = static_cast<int>(settings.get_int("aot_inductor.debug_intermediate_value_printer"));
  out.debug.printer_filter = settings.get_list("aot_inductor.filtered_kernel_names");
  out.debug.printer_style = settings.get_list("intermediate_value_style");
  out.debug.save_dir = settings.get_string("intermediate_value_dir");
  out.debug.nan_asserts = settings.get_bool("nan_asserts");
  out.debug.infinities = settings.get_bool("nan_asserts_infinities");
  out.debug.check_bounds = settings.get_bool("check_bounds");
  out.debug.build_tools = {settings.get_string("compiler"), settings.get_string("nvrtc")};
  out.debug.fault_dir = settings.get_string("fault_dir");
  out.debug.trace_dir = settings.get_string("TORCH_TRACE");
  out.debug.fault_values = settings.get_bool("fault_values");
  out.debug.separate_buffers = settings.get_bool("PYTORCH_NO_CUDA_MEMORY_CACHING");
  out.graphs = static_cast<int>(settings.get_optional_int("triton.cudagraphs").value_or(-1));
  out.launch_blocking = settings.get_bool("CUDA_LAUNCH_BLOCKING") || settings.get_bool("triton.debug_sync_kernel");
  out.sync_run = settings.get_bool("triton.debug_sync_graph");
  // The command always does; a program that has handlers of its own is asked first.
  out.debug.name_faults = settings.given("name_faults") ? settings.get_bool("name_faults") : Tools::has_tools_inside();
  if (out.debug.separate_buffers && !options.allocator) out.allocator = guard_allocator();
  for (const std::string& note : settings.notes()) out.log.write(KILN_LOG_WARNING, note);
  for (const std::string& note : idle_settings(settings)) out.log.write(KILN_LOG_WARNING, note);
  return out;
}

SpecText describe(const Program& program, int32_t buffer) {
  SpecText text;
  const format::Buffer& b = program.buffer(buffer);
  auto fixed = [&](format::ExprIndex e) {
    int64_t value = -1;
    if (!program.symbols_of(e).empty()) return value;
    evaluate(program.plan.exprs[static_cast<size_t>(e)], std::vector<int64_t>(program.plan.symbols.size()), value);
    return value;
  };
  for (format::ExprIndex e : b.sizes) {
    text.sizes.push_back(fixed(e));
    const std::string& written = program.plan.exprs[static_cast<size_t>(e)].text;
    text.texts.push_back(written.empty() && text.sizes.back() >= 0 ? std::to_string(text.sizes.back()) : written);
  }
  for (format::ExprIndex e : b.strides) text.strides.push_back(fixed(e));
  for (const std::string& t : text.texts) text.pointers.push_back(t.c_str());
  return text;
}

VerifyWeights verify_weights(const kiln_load_options& options, const Settings& settings) {
  if (options.verify_weights < -1 || options.verify_weights > 1)
    fail_user("K0660", "kiln_load_options.verify_weights must be -1, 0 or 1");
  if (options.verify_weights != 0) return options.verify_weights > 0 ? VerifyWeights::always : VerifyWeights::never;
  const std::optional<int64_t> wanted = settings.get_optional_int("verify_weights");
  if (!wanted) return VerifyWeights::small;
  return *wanted == 1 ? VerifyWeights::always : VerifyWeights::never;
}

std::unique_ptr<kiln_model> load_model(const PackageSource& source, const kiln_load_options& options,
                                       ModelOptions model, VerifyWeights weights) {
  std::vector<std::string> libraries(options.custom_op_libraries,
                                     options.custom_op_libraries + options.custom_op_library_count);
  ModelParts parts = load_package(source, libraries, model.allocator, model.log, processor_features(), weights);
  auto handle = std::make_unique<kiln_model>();
  if (options.device_index > 0 && parts.device->is_host())
    model.log.write(KILN_LOG_WARNING, str("device index ", options.device_index,
                                          " does nothing: the package runs on the CPU, of which there is one"));
  handle->model = std::make_shared<Model>(std::move(parts), std::move(model));
  const Program& program = handle->model->program();
  for (const format::Input& in : program.plan.inputs)
    handle->inputs.push_back(in.what == format::InputWhat::tensor ? describe(program, in.buffer) : SpecText{});
  for (const format::Output& out : program.plan.outputs)
    handle->outputs.push_back(out.what == format::OutputWhat::tensor ? describe(program, out.buffer) : SpecText{});
  for (size_t c = 0; c < program.plan.constants.size(); ++c) {
    auto index = static_cast<int32_t>(c);
    if (program.plan.constants[c].origin == format::ConstantOrigin::made || !handle->model->constant_has_buffer(index))
      continue;
    handle->constants.push_back(index);
    handle->constant_texts.push_back(describe(program, buffer_of_constant(program, index)));
  }
  return handle;
}

// `path`: empty for a package in memory.
kiln_model* load(PackageSource source, const std::string& path, const kiln_load_options& options) {
  Settings settings = read_settings(options);
  for (const std::string& assignment : package_settings(source)) settings.set_package_default(assignment);
  source.code_dir = settings.get_string("code_dir");
  source.device_index = options.device_index;
  const bool stacks = settings.get_bool("TORCH_SHOW_CPP_STACKTRACES");
  const NativeStackScope scope(stacks);
  ModelOptions model = model_options(options, settings);
  const std::shared_ptr<Tools> tools = Tools::when_asked(path, options, settings, model.log);
  // Whoever has the tools writes the whole directory.
  const std::shared_ptr<MinifierDump> dump = tools || Tools::has_tools_inside()
                                                 ? nullptr
                                                 : MinifierDump::make(settings, path, as_text(source.bytes), model.log);
  if (dump || options.fault)
    model.debug.crashed = [dump, fault = options.fault, user = options.fault_user](const std::string& text,
                                                                                   const CallInputs* call) {
      if (dump) call ? dump->failed(call->values, call->count) : dump->load_failed();
      if (fault) fault(user, text.c_str());
    };
  try {
    auto handle = load_model(source, options, std::move(model), verify_weights(options, settings));
    handle->path = path;
    handle->tools = tools;
    handle->dump = dump;
    handle->native_stacks = stacks;
    return handle.release();
  } catch (const Error& error) {
    if (dump) dump->load_failed();
    if (tools) tools->library().failed(tools->handle(), error.code().c_str(), error.message().c_str());
    throw;
  }
}

void fill_tensor_spec(const Program& program, int32_t buffer, bool on_host, const SpecText& text, kiln_spec& spec) {
  const format::Buffer& b = program.buffer(buffer);
  spec.kind = KILN_TENSOR;
  spec.dtype = dl_dtype(b.dtype);
  spec.device = program.plan.device == DeviceType::cuda && !on_host ? kDLCUDA : kDLCPU;
  spec.rank = static_cast<int32_t>(b.sizes.size());
  spec.sizes = text.sizes.data();
  spec.strides = text.strides.data();
  spec.size_texts = text.pointers.data();
}

int32_t input_kind(const format::Input& input) {
  switch (input.what) {
    case format::InputWhat::sym_int:
      return KILN_INT;
    case format::InputWhat::sym_float:
      return KILN_FLOAT;
    case format::InputWhat::sym_bool:
      return KILN_BOOL;
    case format::InputWhat::constant: {
      const int32_t kinds[] = {KILN_NONE, KILN_INT, KILN_FLOAT, KILN_BOOL, KILN_STRING};
      return kinds[static_cast<size_t>(input.constant_kind)];
    }
    default:
      return KILN_NONE;
  }
}

}  // namespace

extern "C" {

uint32_t kiln_api_version(void) { return KILN_API_VERSION; }
const char* kiln_version(void) { return KILN_VERSION_TEXT; }

void kiln_value_clear(kiln_value* value) {
  if (!value) return;
  if (value->owner && value->owner->deleter) value->owner->deleter(value->owner);
  *value = {};
}

kiln_status kiln_load(const char* path, const kiln_load_options* options, kiln_model** out) {
  KILN_NOT_NULL(path);
  KILN_NOT_NULL(out);
  *out = nullptr;
  return guarded([&] {
    if (is_directory(path)) fail_user("K0520", not_a_package_text(path, FileKind::directory));
    auto file = MappedFile::open(path);
    *out = load({file->bytes(), path, file, "", nullptr, nullptr}, path, whole_options(options));
  });
}

kiln_status kiln_load_memory(const void* bytes, size_t size, const kiln_load_options* options, kiln_model** out) {
  KILN_NOT_NULL(bytes);
  KILN_NOT_NULL(out);
  *out = nullptr;
  return guarded([&] {
    *out = load({{static_cast<const std::byte*>(bytes), size}, "the package in memory", nullptr, "", nullptr, nullptr},
                "", whole_options(options));
  });
}

void kiln_model_free(kiln_model* model) { delete model; }

const char* kiln_model_name(const kiln_model* model) { return model ? model->model->plan().model_name.c_str() : ""; }
const char* kiln_model_build_id(const kiln_model* model) { return model ? model->model->plan().build_id.c_str() : ""; }
const char* kiln_model_target(const kiln_model* model) { return model ? model->model->target().c_str() : ""; }
int32_t kiln_model_is_stateful(const kiln_model* model) { return model && model->model->program().stateful; }

size_t kiln_metadata_count(const kiln_model* model) { return model ? model->model->plan().metadata_keys.size() : 0; }
const char* kiln_metadata_key(const kiln_model* model, size_t index) {
  return index < kiln_metadata_count(model) ? model->model->plan().metadata_keys[index].c_str() : nullptr;
}
const char* kiln_metadata(const kiln_model* model, const char* key) {
  for (size_t i = 0; key && i < kiln_metadata_count(model); ++i)
    if (model->model->plan().metadata_keys[i] == key) return model->model->plan().metadata_values[i].c_str();
  return nullptr;
}

size_t kiln_input_count(const kiln_model* model) { return model ? model->inputs.size() : 0; }
size_t kiln_output_count(const kiln_model* model) { return model ? model->outputs.size() : 0; }

kiln_status kiln_input_spec(const kiln_model* model, size_t index, kiln_spec* out) {
  KILN_NOT_NULL(model);
  KILN_STRUCT(out);
  KILN_INDEX(index, model->inputs.size());
  const format::Input& input = model->model->plan().inputs[index];
  kiln_spec spec{};
  spec.name = input.name.c_str();
  spec.mutated = input.mutated;
  spec.kind = input_kind(input);
  if (input.what == format::InputWhat::tensor)
    fill_tensor_spec(model->model->program(), input.buffer, input.on_host, model->inputs[index], spec);
  give(spec, out);
  return KILN_OK;
}

kiln_status kiln_output_spec(const kiln_model* model, size_t index, kiln_spec* out) {
  KILN_NOT_NULL(model);
  KILN_STRUCT(out);
  KILN_INDEX(index, model->outputs.size());
  const format::Output& output = model->model->plan().outputs[index];
  const int32_t kinds[] = {KILN_TENSOR, KILN_INT, KILN_FLOAT, KILN_BOOL, KILN_NONE, KILN_STRING};
  kiln_spec spec{};
  spec.name = output.shown_name().c_str();
  spec.kind = kinds[static_cast<size_t>(output.what)];
  if (output.what == format::OutputWhat::tensor)
    fill_tensor_spec(model->model->program(), output.buffer, output.on_host, model->outputs[index], spec);
  give(spec, out);
  return KILN_OK;
}

size_t kiln_symbol_count(const kiln_model* model) { return model ? model->model->plan().symbols.size() : 0; }
kiln_status kiln_symbol_spec(const kiln_model* model, size_t index, kiln_symbol* out) {
  KILN_NOT_NULL(model);
  KILN_STRUCT(out);
  KILN_INDEX(index, kiln_symbol_count(model));
  const format::Symbol& s = model->model->plan().symbols[index];
  bool from_data = s.source == format::SymbolSource::step || s.source == format::SymbolSource::iteration;
  kiln_symbol symbol{0, s.name.c_str(), s.low, s.high, from_data, s.input, s.dim};
  give(symbol, out);
  return KILN_OK;
}

}  // extern "C"
