// kiln.h: instances, runs, hooks.
#include "base/native_stack.h"
#include "runtime/api_handles.h"

using namespace kiln;
using namespace kiln::runtime;

namespace {

kiln_status run(kiln_instance* instance, const kiln_value* inputs, size_t input_count, kiln_value* outputs,
                size_t output_count, void* stream, int32_t wait, const uint64_t* seed) {
  kiln_status status =
      guarded([&] { instance->instance.run(inputs, input_count, outputs, output_count, stream, wait, seed); });
  if (status == KILN_OK) return status;
  for (size_t i = 0; i < output_count; ++i)
    if (outputs[i].kind != KILN_TENSOR) outputs[i] = {};
  return status;
}

// What settings of the model want to know of its runs.
kiln_status run_told(kiln_instance* instance, const kiln_value* inputs, size_t input_count, kiln_value* outputs,
                     size_t output_count, void* stream, const uint64_t* seed) {
  const NativeStackScope scope(instance->native_stacks);
  MinifierDump* dump = instance->dump.get();
  if (dump) dump->before(inputs, input_count);
  const kiln_status status = run(instance, inputs, input_count, outputs, output_count, stream, 1, seed);
  if (status == KILN_OK) return status;
  // A hook that said stop is no failure.
  if (dump && status == KILN_ERROR_INPUT)
    dump->refused(inputs, input_count);
  else if (dump && status != KILN_ERROR_STOPPED)
    dump->failed(inputs, input_count);
  if (Tools* tools = instance->tools.get())
    tools->library().failed(tools->handle(), kiln_last_error_code(), kiln_last_error());
  return status;
}

}  // namespace

extern "C" {

kiln_status kiln_instance_create(kiln_model* model, kiln_instance** out) {
  KILN_NOT_NULL(model);
  KILN_NOT_NULL(out);
  *out = nullptr;
  return guarded([&] { *out = new kiln_instance(*model); });
}

void kiln_instance_free(kiln_instance* instance) { delete instance; }

kiln_status kiln_run(kiln_instance* instance, const kiln_value* inputs, size_t input_count, kiln_value* outputs,
                     size_t output_count) {
  KILN_NOT_NULL(instance);
  KILN_REQUIRE(inputs || input_count == 0, "inputs is NULL, and input_count is not 0");
  KILN_REQUIRE(outputs || output_count == 0, "outputs is NULL, and output_count is not 0");
  if (hooks_built && !instance->plain) [[unlikely]]
    return run_told(instance, inputs, input_count, outputs, output_count, nullptr, nullptr);
  return run(instance, inputs, input_count, outputs, output_count, nullptr, 1, nullptr);
}

kiln_status kiln_run_with(kiln_instance* instance, const kiln_value* inputs, size_t input_count, kiln_value* outputs,
                          size_t output_count, const kiln_run_options* options) {
  if (!options) return kiln_run(instance, inputs, input_count, outputs, output_count);
  KILN_NOT_NULL(instance);
  KILN_REQUIRE(inputs || input_count == 0, "inputs is NULL, and input_count is not 0");
  KILN_REQUIRE(outputs || output_count == 0, "outputs is NULL, and output_count is not 0");
  KILN_REQUIRE(options->struct_size >= offsetof(kiln_run_options, seeded),
               "options->struct_size is not set: it is sizeof of the struct");
  KILN_REQUIRE(options->wait >= -1 && options->wait <= 1, "options->wait must be -1, 0 or 1");
  const uint64_t* seed = nullptr;
  if (options->struct_size >= offsetof(kiln_run_options, seed) + sizeof(options->seed)) {
    KILN_REQUIRE(options->seeded == 0 || options->seeded == 1, "options->seeded must be 0 or 1");
    if (options->seeded) seed = &options->seed;
  }
  if (hooks_built && !instance->plain) [[unlikely]]
    return run_told(instance, inputs, input_count, outputs, output_count, options->stream, seed);
  return run(instance, inputs, input_count, outputs, output_count, options->stream, options->wait, seed);
}

kiln_status kiln_set_seed(kiln_instance* instance, uint64_t seed) {
  KILN_NOT_NULL(instance);
  return guarded([&] { instance->instance.set_seed(seed); });
}

kiln_status kiln_set_threads(kiln_model* model, int32_t threads) {
  KILN_NOT_NULL(model);
  KILN_REQUIRE((threads >= 1 && threads <= most_threads) || threads == -1,
               "threads is 1 to 1024, or -1 for all that the process may use");
  return guarded([&] { model->model->parallel().set_threads(threads); });
}

int32_t kiln_model_threads(const kiln_model* model) { return model ? model->model->parallel().threads() : 0; }

kiln_status kiln_set_hook(kiln_instance* instance, kiln_hook_fn hook, void* user) {
  KILN_NOT_NULL(instance);
  return guarded([&] { instance->instance.set_hook(hook, user); });
}

}  // extern "C"
