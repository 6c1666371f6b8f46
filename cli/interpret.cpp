#include <cstdio>

#include "base/error.h"
#include "command.h"
#include "driver/executable.h"
#include "driver/program_device.h"
#include "pt2/input_files.h"
#include "pt2/pytree.h"
#include "pt2/reader.h"
#include "values.h"

namespace kiln::cli {
namespace {

int interpret(const ParsedOptions& options) {
  settings_of(options, Phase::both);
  check_output_option(options);
  Program program = read_pt2(options.positional[0]);
  const bool moved = exported_device(program) != DeviceType::cpu;
  if (moved) {
    fprintf(stderr, "note: the model was exported on cuda; the reference interpreter computes on the CPU\n");
    program = moved_to_cpu(program);
  }
  ExecutableOptions executable;
  executable.backend = Backend::interpret;
  executable.fp64 = options.has("--fp64");
  executable.custom_op_libs = options.values("--custom-op-lib");
  std::vector<Datum> inputs = program.sample_inputs;
  if (const auto file = options.value("--inputs")) inputs = read_inputs(*file, input_form(program));
  if (moved) move_to_cpu(inputs);
  deliver_outputs(make_executable(program, executable)->call(inputs).outputs, output_keys(program.out_spec), options);
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
      {"--inputs", "", "F", "the inputs: a list in the model's order, or by name (default: the samples)", false},
      {"--output", "-o", "OUT", "writes the outputs to this file", false},
      {"--fp64", "", "", "computes all floats as float64; explicit casts keep their meaning", false},
      {"--custom-op-lib", "", "L", "shared library with custom operators", true},
  };
  spec.examples = {"kiln interpret model.pt2", "kiln interpret model.pt2 --fp64 -o exact.pt"};
  return {spec, interpret};
}

}  // namespace kiln::cli
