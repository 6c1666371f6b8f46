#include "runtime/step_text.h"

#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "runtime/element.h"
#include "runtime/strided_copy.h"

namespace kiln::runtime {

const char* when_text(kiln_hook_when when) { return when == KILN_BEFORE_STEP ? "before_launch" : "after_launch"; }

std::string iterations_text(const int64_t* iterations, size_t depth) {
  if (depth == 0) return "";
  std::string text = " iteration ";
  for (size_t i = 0; i < depth; ++i) text += str(i ? "." : "", iterations[i]);
  return text;
}
std::string iterations_text(const kiln_step& step) { return iterations_text(step.iterations, step.loop_depth); }

std::string first_line(const kiln_step& step) {
  for (size_t i = 0; i < step.origin_count; ++i)
    if (*step.origins[i].line) return step.origins[i].line;
  return "";
}

namespace {

// "add_" and "add_3" are named after "add": in-place operators lose the underscore, names are made unique by numbers.
std::string_view stem(std::string_view name) {
  while (!name.empty() && (name.back() == '_' || (name.back() >= '0' && name.back() <= '9'))) name.remove_suffix(1);
  return name;
}

}  // namespace

const kiln_origin* named_origin(const kiln_step& step, std::string_view value) {
  for (size_t i = 0; i < step.origin_count; ++i)
    if (step.origins[i].node == value) return &step.origins[i];
  for (size_t i = 0; i < step.origin_count && !stem(value).empty(); ++i)
    if (stem(step.origins[i].node) == stem(value)) return &step.origins[i];
  return nullptr;
}

ValueOrigins::ValueOrigins(const format::Origins& origins) {
  for (const format::StepOrigin& step : origins.steps)
    for (size_t i = 0; i < step.values.size(); ++i)
      noted_[{step.number, step.values[i]}] = static_cast<size_t>(step.value_origins[i]);
}

const kiln_origin* ValueOrigins::of(const kiln_step& step, std::string_view value) const {
  const auto noted = noted_.find(std::pair(step.number, std::string(value)));
  if (noted != noted_.end() && noted->second < step.origin_count) return &step.origins[noted->second];
  if (step.origin_count == 1) return step.origins;
  const kiln_origin* named = named_origin(step, value);
  if (!named || named->node == value) return named;
  for (size_t i = 0; i < step.origin_count; ++i)  // add_1 and add_2: add_5 may be of either
    if (&step.origins[i] != named && stem(step.origins[i].node) == stem(value)) return nullptr;
  return named;
}

std::string origins_text(const kiln_step& step, const kiln_origin* own) {
  std::vector<const kiln_origin*> order;
  if (own) order.push_back(own);
  for (size_t i = 0; i < step.origin_count; ++i)
    if (&step.origins[i] != own) order.push_back(&step.origins[i]);
  std::string text;
  for (size_t first = 0; first < order.size(); ++first) {
    if (!order[first]) continue;
    const std::string_view line = order[first]->line;
    if (!line.empty()) text += str("\n  --> ", line);
    for (size_t i = first; i < order.size(); ++i) {
      if (!order[i] || order[i]->line != line) continue;
      const kiln_origin& origin = *std::exchange(order[i], nullptr);
      std::vector<std::string> parts;
      if (*origin.module) parts.push_back(str("module ", origin.module));
      if (*origin.op) parts.push_back(str("operator ", origin.op));
      if (*origin.node) parts.push_back(str("node ", origin.node));
      if (!parts.empty()) text += str("\n  ", join(parts, " · "));
    }
  }
  return text;
}

bool not_yet_written(const kiln_step_arg& arg) {
  const bool from_outside =
      arg.role == KILN_ROLE_INPUT || arg.role == KILN_ROLE_CONSTANT || arg.role == KILN_ROLE_DERIVED;
  return arg.access == 2 || (arg.access == 3 && !*arg.producer && !from_outside);
}

const DLTensor& host_tensor(const kiln_step& step, const kiln_step_arg& arg) {
  if (!step.host) return arg.tensor;
  const DLTensor* tensor = step.host(step.host_context, static_cast<size_t>(&arg - step.args));
  if (!tensor)
    fail_user("K0528", str("the values of ", arg.name, " cannot be copied from ", device_name(arg.tensor.device)));
  return *tensor;
}

std::string source_of(const kiln_step_arg& arg) {
  if (*arg.producer) return str("from ", arg.producer);
  switch (arg.role) {
    case KILN_ROLE_INPUT:
      return "input";
    case KILN_ROLE_CONSTANT:
      return "constant";
    case KILN_ROLE_DERIVED:
      return "prepared constant";
    default:
      return arg.access == 1 ? "written by no step" : "new";
  }
}

std::string dims_text(const int64_t* dims, int32_t count) {
  std::string text = "[";
  for (int32_t i = 0; i < count; ++i) text += str(i ? ", " : "", dims[i]);
  return text + "]";
}

std::string device_name(const DLDevice& device) {
  return is_host(device.device_type) ? "cpu" : str("cuda:", device.device_id);
}

std::string tensor_text(const DLTensor& tensor) {
  auto dtype = dtype_of(tensor.dtype);
  std::vector<int64_t> strides = strides_of(tensor);
  return str(dtype ? dtype_torch_name(*dtype) : "?", " ", dims_text(tensor.shape, tensor.ndim), " strides ",
             dims_text(strides.data(), tensor.ndim), " ", device_name(tensor.device));
}

}  // namespace kiln::runtime
