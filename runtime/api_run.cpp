// kiln.h: instances, runs, constants, hooks.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/native_stack.h"
#include "runtime/api_handles.h"
#include "runtime/element.h"

using namespace kiln;
using namespace kiln::runtime;

namespace {

void update_constants(Model& model, const char* const* names, const DLTensor* const* values, size_t count,
                      uint32_t flags, const std::vector<int32_t>& visible) {
  constexpr uint32_t known = KILN_UPDATE_BORROW | KILN_UPDATE_INACTIVE | KILN_UPDATE_ALL;
  if (flags & ~known) fail_user("K0660", str("unknown flags of an update of constants: ", flags & ~known));
  std::vector<std::pair<int32_t, ConstantData>> changes;
  std::set<int32_t> seen;
  for (size_t i = 0; i < count; ++i) {
    if (!names[i] || !values[i]) fail_user("K0660", str("constant ", i, " of the update has no name or no tensor"));
    int32_t index = model.find_constant(names[i]);
    if (!seen.insert(index).second) fail_user("K0641", str("the update has constant ", names[i], " twice"));
    bool borrow = (flags & KILN_UPDATE_BORROW) && !model.plan().constants[static_cast<size_t>(index)].mutated;
    changes.emplace_back(index,
                         borrow ? model.borrow_constant(index, *values[i]) : model.copy_constant(index, *values[i]));
  }
  if (flags & KILN_UPDATE_ALL) {
    std::vector<std::string> missing;
    for (int32_t c : visible)
      if (std::none_of(changes.begin(), changes.end(), [&](const auto& change) { return change.first == c; }))
        missing.push_back(model.plan().constants[static_cast<size_t>(c)].name);
    if (!missing.empty())
      fail_user("K0641", str("the update is to be of all constants, but lacks ", join(missing, ", ")));
  }
  model.weights().update(changes, (flags & KILN_UPDATE_INACTIVE) != 0);
  model.runs().drop_weights_except(model.weights().version());
}

kiln_status run(kiln_instance* instance, const kiln_value* inputs, size_t input_count, kiln_value* outputs,
                size_t output_count) {
  kiln_status status = guarded([&] { instance->instance.run(inputs, input_count, outputs, output_count); });
  if (status == KILN_OK) return status;
  for (size_t i = 0; i < output_count; ++i)
    if (outputs[i].kind != KILN_TENSOR) outputs[i] = {};
  return status;
}

// What settings of the model want to know of its runs.
kiln_status run_told(kiln_instance* instance, const kiln_value* inputs, size_t input_count, kiln_value* outputs,
                     size_t output_count) {
  const NativeStackScope scope(instance->native_stacks);
  MinifierDump* dump = instance->dump.get();
  if (dump) dump->before(inputs, input_count);
  const kiln_status status = run(instance, inputs, input_count, outputs, output_count);
  if (status == KILN_OK) return status;
  // A hook that said stop is no failure.
  if (dump && status != KILN_ERROR_STOPPED) dump->failed(inputs, input_count);
  if (Tools* tools = instance->tools.get())
    tools->library().failed(tools->handle(), kiln_last_error_code(), kiln_last_error());
  return status;
}

}  // namespace

extern "C" {

kiln_status kiln_instance_create(kiln_model* model, kiln_instance** out) {
  KILN_REQUIRE(model && out);
  *out = nullptr;
  return guarded([&] { *out = new kiln_instance(*model); });
}

void kiln_instance_free(kiln_instance* instance) { delete instance; }

kiln_status kiln_run(kiln_instance* instance, const kiln_value* inputs, size_t input_count, kiln_value* outputs,
                     size_t output_count) {
  KILN_REQUIRE(instance && (inputs || input_count == 0) && (outputs || output_count == 0));
  if (hooks_built && !instance->plain) [[unlikely]]
    return run_told(instance, inputs, input_count, outputs, output_count);
  return run(instance, inputs, input_count, outputs, output_count);
}

kiln_status kiln_set_seed(kiln_instance* instance, uint64_t seed) {
  KILN_REQUIRE(instance);
  return guarded([&] { instance->instance.set_seed(seed); });
}

kiln_status kiln_set_threads(kiln_model* model, int32_t threads) {
  KILN_REQUIRE(model);
  return guarded([&] { model->model->parallel().set_threads(threads); });
}

kiln_status kiln_set_hook(kiln_instance* instance, kiln_hook_fn hook, void* user) {
  KILN_REQUIRE(instance);
  return guarded([&] { instance->instance.set_hook(hook, user); });
}

size_t kiln_constant_count(const kiln_model* model) { return model ? model->constants.size() : 0; }

kiln_status kiln_constant_spec(const kiln_model* model, size_t index, kiln_constant* out) {
  KILN_REQUIRE(model && out && index < model->constants.size() && out->struct_size >= sizeof(size_t));
  int32_t c = model->constants[index];
  const format::Constant& constant = model->model->plan().constants[static_cast<size_t>(c)];
  const SpecText& text = model->constant_texts[index];
  kiln_constant spec{out->struct_size,
                     constant.name.c_str(),
                     constant.mutated,
                     dl_dtype(model->model->constant_dtype(c)),
                     static_cast<int32_t>(text.sizes.size()),
                     text.sizes.data(),
                     text.strides.data()};
  std::memcpy(out, &spec, std::min(out->struct_size, sizeof spec));
  return KILN_OK;
}

kiln_status kiln_constant_read(kiln_instance* instance, const char* name, const DLTensor* to) {
  KILN_REQUIRE(instance && name && to);
  return guarded([&] { instance->instance.read_constant(name, *to); });
}

kiln_status kiln_constant_write(kiln_instance* instance, const char* name, const DLTensor* value) {
  KILN_REQUIRE(instance && name && value);
  return guarded([&] { instance->instance.write_constant(name, *value); });
}

kiln_status kiln_constants_update(kiln_model* model, const char* const* names, const DLTensor* const* values,
                                  size_t count, uint32_t flags) {
  KILN_REQUIRE(model && ((names && values) || count == 0));
  return guarded([&] { update_constants(*model->model, names, values, count, flags, model->constants); });
}

kiln_status kiln_constants_swap(kiln_model* model) {
  KILN_REQUIRE(model);
  return guarded([&] {
    model->model->weights().swap();
    model->model->runs().drop_weights_except(model->model->weights().version());
  });
}

}  // extern "C"
