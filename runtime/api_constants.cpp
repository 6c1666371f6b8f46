// kiln.h: constants, described, read, written and replaced.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "runtime/api_handles.h"
#include "runtime/element.h"

using namespace kiln;
using namespace kiln::runtime;

namespace {

// Two names of one constant may both be given, as a state dict has them, but it has only one value.
void check_tied(const Model& model, int32_t index, const ConstantData& data, int32_t same,
                const std::map<int32_t, ConstantData>& given) {
  const auto other = given.find(same);
  if (other == given.end() || model.same_values(index, data, other->second)) return;
  const auto& constants = model.plan().constants;
  fail_user("K0797", str("constants ", constants[static_cast<size_t>(same)].name, " and ",
                         constants[static_cast<size_t>(index)].name,
                         " are one (tied weights: two names of one tensor in the exported program), and the update "
                         "gives them different values"));
}

void update_constants(Model& model, const char* const* names, const DLTensor* const* values, size_t count,
                      uint32_t flags, const std::vector<int32_t>& visible) {
  constexpr uint32_t known = KILN_UPDATE_BORROW | KILN_UPDATE_INACTIVE | KILN_UPDATE_ALL;
  if (flags & ~known) fail_user("K0660", str("unknown flags of an update of constants: ", flags & ~known));
  std::vector<std::pair<int32_t, ConstantData>> changes;
  std::map<int32_t, ConstantData> given;
  for (size_t i = 0; i < count; ++i) {
    if (!names[i] || !values[i]) fail_user("K0660", str("constant ", i, " of the update has no name or no tensor"));
    int32_t index = model.find_constant(names[i]);
    if (given.contains(index)) fail_user("K0641", str("the update has constant ", names[i], " twice"));
    bool borrow = (flags & KILN_UPDATE_BORROW) && !model.plan().constants[static_cast<size_t>(index)].mutated;
    const ConstantData data =
        borrow ? model.borrow_constant(index, *values[i]) : model.copy_constant(index, *values[i]);
    for (int32_t same : model.same_constants(index)) {
      if (same != index) check_tied(model, index, data, same, given);
      changes.emplace_back(same, data);
    }
    given.emplace(index, data);
  }
  if (flags & KILN_UPDATE_ALL) {
    std::vector<std::string> missing;
    for (int32_t c : visible)
      if (model.plan().constants[static_cast<size_t>(c)].origin == format::ConstantOrigin::state &&
          std::none_of(changes.begin(), changes.end(), [&](const auto& change) { return change.first == c; }))
        missing.push_back(model.plan().constants[static_cast<size_t>(c)].name);
    if (!missing.empty())
      fail_user("K0641", str("the update is to be of all constants, but lacks ", join(missing, ", ")));
  }
  model.weights().update(changes, (flags & KILN_UPDATE_INACTIVE) != 0);
  model.runs().drop_weights_except(model.weights().version());
}

}  // namespace

extern "C" {

size_t kiln_constant_count(const kiln_model* model) { return model ? model->constants.size() : 0; }

kiln_status kiln_constant_spec(const kiln_model* model, size_t index, kiln_constant* out) {
  KILN_NOT_NULL(model);
  KILN_INDEX(index, model->constants.size());
  KILN_STRUCT(out);
  int32_t c = model->constants[index];
  const format::Constant& constant = model->model->plan().constants[static_cast<size_t>(c)];
  const SpecText& text = model->constant_texts[index];
  kiln_constant spec{out->struct_size,
                     constant.name.c_str(),
                     constant.mutated,
                     dl_dtype(model->model->constant_dtype(c)),
                     static_cast<int32_t>(text.sizes.size()),
                     text.sizes.data(),
                     text.strides.data(),
                     constant.same_as == format::none
                         ? nullptr
                         : model->model->plan().constants[static_cast<size_t>(constant.same_as)].name.c_str()};
  std::memcpy(out, &spec, std::min(out->struct_size, sizeof spec));
  return KILN_OK;
}

kiln_status kiln_constant_read(kiln_instance* instance, const char* name, const DLTensor* to) {
  KILN_NOT_NULL(instance);
  KILN_NOT_NULL(name);
  KILN_NOT_NULL(to);
  return guarded([&] { instance->instance.read_constant(name, *to); });
}

kiln_status kiln_constant_write(kiln_instance* instance, const char* name, const DLTensor* value) {
  KILN_NOT_NULL(instance);
  KILN_NOT_NULL(name);
  KILN_NOT_NULL(value);
  return guarded([&] { instance->instance.write_constant(name, *value); });
}

kiln_status kiln_constants_update(kiln_model* model, const char* const* names, const DLTensor* const* values,
                                  size_t count, uint32_t flags) {
  KILN_NOT_NULL(model);
  KILN_REQUIRE((names && values) || count == 0, "names or values is NULL, and count is not 0");
  return guarded([&] { update_constants(*model->model, names, values, count, flags, model->constants); });
}

kiln_status kiln_constants_swap(kiln_model* model) {
  KILN_NOT_NULL(model);
  return guarded([&] {
    model->model->weights().swap();
    model->model->runs().drop_weights_except(model->model->weights().version());
  });
}

}  // extern "C"
