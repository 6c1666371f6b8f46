#include <cstdio>

#include "base/error.h"
#include "command.h"
#include "compile/program_device.h"
#include "console.h"
#include "executable/executable.h"
#include "pt2/input_files.h"
#include "pt2/pytree.h"
#include "pt2/reader.h"
#include "values.h"

namespace kiln::cli {
namespace {

// A value of the kind and element type of each output, without elements.
std::vector<Datum> output_stand_ins(const Program& program, bool fp64) {
  std::vector<Datum> out;
  for (size_t i = 0; i < program.graph.outputs.size(); ++i) {
    const OutputKind kind = i < program.output_specs.size() ? program.output_specs[i].kind : OutputKind::user;
    if (kind != OutputKind::user && kind != OutputKind::loss) continue;
    const Argument& output = program.graph.outputs[i];
    const Value* value = output.is_value() ? output.as_value() : nullptr;
    const bool wide = fp64 && value && value->kind == ValueKind::tensor && is_float(value->type.dtype);
    if (value && value->kind == ValueKind::tensor)
      out.push_back({Tensor::empty(wide ? DType::f64 : value->type.dtype, {0})});
    else if (output.is_none() || (value && value->kind == ValueKind::none))
      out.emplace_back();
    else if (const auto* text = std::get_if<std::string>(&output.value))
      out.push_back({*text});
    else
      out.push_back({Scalar(int64_t{0})});
  }
  return out;
}

int interpret(const ParsedOptions& options) {
  note_settings_without_effect(settings_of(options, Phase::both), "the reference interpreter", acts_everywhere);
  check_output_option(options);
  const JsonOutput json(options);
  Program program = read_pt2(options.positional[0]);
  const bool moved = exported_device(program) != DeviceType::cpu;
  if (moved) {
    tell_note("the model was exported on cuda; the reference interpreter computes on the CPU");
    program = moved_to_cpu(program);
  }
  check_output_fits(output_stand_ins(program, options.has("--fp64")), output_keys(program.out_spec), options);
  ExecutableOptions executable;
  executable.backend = Backend::interpret;
  executable.fp64 = options.has("--fp64");
  executable.custom_op_libs = options.values("--custom-op-lib");
  std::vector<Datum> inputs = program.sample_inputs;
  if (const auto file = options.value("--inputs")) inputs = read_inputs(*file, input_form(program));
  if (moved) move_to_cpu(inputs);
  const std::vector<Datum> outputs = make_executable(program, executable)->call(inputs).outputs;
  const std::vector<std::string> keys = output_keys(program.out_spec);
  deliver_outputs(outputs, keys, options, json);
  if (!json.wanted()) return 0;
  Json root = json.document("interpret");
  root.set("model", options.positional[0]), root.set("inputs", options.value_or("--inputs", "samples"));
  root.set("outputs", outputs_json(outputs, keys));
  json.write(root);
  return 0;
}

}  // namespace

Command interpret_command() {
  CommandSpec spec;
  spec.name = "interpret";
  spec.positional = "MODEL.pt2";
  spec.least = spec.most = 1;
  spec.summary = "runs a model in the reference interpreter, operator by operator";
  spec.details = "Slow and simple: what every other way of running is compared with. Nothing is compiled.";
  spec.options = {
      {"--inputs", "", "F", "the inputs: a list in the model's order, or by name (default: the samples)", false,
       FileUse::read},
      {"--output", "-o", "OUT", "writes the outputs to this file", false, FileUse::written},
      {"--fp64", "", "", "computes all floats as float64; explicit casts keep their meaning", false},
      JsonOutput::option(),
      {"--custom-op-lib", "", "L", "shared library with custom operators", true, FileUse::read},
  };
  spec.examples = {"kiln interpret model.pt2", "kiln interpret model.pt2 --fp64 -o exact.pt"};
  return {spec, interpret};
}

}  // namespace kiln::cli
