#include "compile/program_device.h"

#include "base/error.h"
#include "graph/walk.h"
#include "types/device_names.h"

namespace kiln {
namespace {

template <class F>
void for_each_device(Argument& argument, const F& f) {
  if (auto* device = std::get_if<Device>(&argument.value)) f(*device);
  if (auto* list = std::get_if<Argument::List>(&argument.value))
    for (Argument& item : *list) for_each_device(item, f);
}

template <class F>
void for_each_device(Value& value, const F& f) {
  if (value.kind == ValueKind::tensor) f(value.type.device);
  for (Value* item : value.items)
    if (item) for_each_device(*item, f);
}

// Calls f for every device that the graph mentions.
template <class F>
void for_each_device(const Graph& whole, const F& f) {
  for_each_graph(whole, [&](const Graph& graph) {
    for (Value* input : graph.inputs) for_each_device(*input, f);
    for (const auto& node : graph.nodes) {
      for (auto& named : node->args) for_each_device(named.arg, f);
      for (Value* result : node->results) for_each_device(*result, f);
    }
  });
}

}  // namespace

DeviceType exported_device(const Program& program) {
  DeviceType type = DeviceType::cpu;
  for_each_device(program.graph, [&](const Device& device) {
    if (device.type == DeviceType::cuda) type = DeviceType::cuda;
  });
  return type;
}

void move_to_cpu(std::vector<Datum>& values) {
  for (Datum& value : values)
    if (auto* tensor = std::get_if<Tensor>(&value.value)) tensor->device = {};
}

Program moved_to_cpu(const Program& program) {
  Program moved = program.clone();
  for_each_device(moved.graph, [](Device& device) {
    if (device.type == DeviceType::cuda) device = {};
  });
  for (auto& [name, tensor] : moved.constants) tensor.device = {};
  move_to_cpu(moved.sample_inputs);
  return moved;
}

HostValues values_on_host(const Program& program) {
  HostValues out;
  const bool on_gpu = exported_device(program) == DeviceType::cuda;
  const auto is_host = [&](const Value* value) {
    return on_gpu && value && value->kind == ValueKind::tensor && value->type.device.type == DeviceType::cpu;
  };
  for (size_t i = 0; i < program.input_specs.size(); ++i) {
    const InputKind kind = program.input_specs[i].kind;
    if (kind == InputKind::user || kind == InputKind::constant_value)
      out.inputs.push_back(is_host(program.graph.inputs[i]));
  }
  for (size_t i = 0; i < program.output_specs.size(); ++i) {
    if (program.output_specs[i].kind != OutputKind::user) continue;
    const auto* value = std::get_if<Value*>(&program.graph.outputs[i].value);
    out.outputs.push_back(is_host(value ? *value : nullptr));
  }
  return out;
}

DeviceType require_device(const std::string& name) {
  const auto known = device_type_from_name(name);
  if (!known || *known == DeviceType::meta)
    fail_user("K0413", str("there is no device '", name, "'; Kiln compiles for cpu and cuda"));
  return *known;
}

DeviceType compile_device(const Program& program, const std::string& device) {
  return device.empty() ? exported_device(program) : require_device(device);
}

std::optional<Program> placed_program(const Program& program, const std::string& device,
                                      const std::function<void(const std::string&)>& note) {
  const DeviceType wanted = compile_device(program, device), exported = exported_device(program);
  if (note && wanted != exported)
    note(str("the model was exported on ", device_type_name(exported), "; --device ", device_type_name(wanted),
             wanted == DeviceType::cpu ? " moves it to the CPU" : " moves it to the GPU"));
  if (exported == DeviceType::cpu) return std::nullopt;
  return moved_to_cpu(program);
}

}  // namespace kiln
