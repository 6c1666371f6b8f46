#include "debug/tell_package.h"

#include <algorithm>
#include <map>

#include "base/trace_file.h"
#include "debug/package_debug.h"
#include "driver/pipeline.h"
#include "trace/compile_logs.h"
#include "trace/compile_observer.h"
#include "trace/compile_trace.h"
#include "trace/debug_directory.h"
#include "trace/plan_text.h"

namespace kiln {
namespace {

// What the plan's steps show of the libraries' schemas: names of arguments, and which of them are written.
std::vector<CustomOp> custom_operators(const format::Plan& plan) {
  std::map<std::string, CustomOp> found;
  for_each_step(plan.steps, [&](const format::Step& step, int) {
    if (step.kind != format::StepKind::custom || found.contains(step.target)) return;
    CustomOp custom{step.target, Schema{}};
    custom.schema->name = step.target;
    for (const format::CallArg& arg : step.call_args) {
      SchemaArg declared;
      declared.name = arg.name;
      constexpr uint8_t buffer = 1, buffers = 2;
      if (arg.kind == buffer || arg.kind == buffers)
        for (int32_t item : arg.items)
          declared.writes |= std::find(step.mutates.begin(), step.mutates.end(), item) != step.mutates.end();
      custom.schema->args.push_back(declared);
    }
    found[step.target] = std::move(custom);
  });
  std::vector<CustomOp> out;
  for (auto& [target, custom] : found) out.push_back(std::move(custom));
  return out;
}

// The graph as it was read, with the weights that the plan has kept.
Program exported_program(const PackageDebug& package) {
  Program program = parse_program(package.entry("debug/graph.txt").value_or(""));
  for (auto& [name, tensor] : program.constants)
    if (const auto found = package.constants().find(name); found != package.constants().end()) tensor = found->second;
  return program;
}

void tell(const std::string& path, CompileObservers& observers) {
  const PackageDebug package(path);
  const Program program = exported_program(package);
  const std::string target_name =
      package.plan().code.empty() ? codegen::host_target_name() : package.plan().code.front().target;
  const codegen::CpuTarget target = codegen::cpu_target(target_name);
  observers.started({path, path, "cpu", {target_name}, &program});
  PipelineOptions options;
  options.lanes = target.lanes;
  options.custom_ops = custom_operators(package.plan());
  options.observer = &observers;
  run_pipeline(program, options);
  const loops::LoopProgram loops = loops::parse_loops(package.entry("debug/loops.txt").value_or(""));
  const codegen::GeneratedCode code = codegen::generate_cpu(loops, target);
  observers.code_made({&target, &code, &loops, &package.plan(), &package.origins()});
}

}  // namespace

std::vector<std::string> tell_of_package(const std::string& path, const Settings& settings) {
  LogSelection selection(settings.get_list("TORCH_LOGS"));
  const bool logs = selection.any() || selection.help(), debug = debug_directory_wanted(settings);
  if (!logs && !debug) return {};
  CompileObservers observers;
  if (logs)
    observers.add_if_possible(
        "no log", [&] { return make_compile_logs(std::move(selection), settings.get_string("TORCH_LOGS_OUT")); });
  if (debug) observers.add(make_debug_directory(debug_run_directory(settings)));
  std::vector<std::string> notes;
  try {
    tell(path, observers);
  } catch (const Error& error) {
    // Whether the package runs is another question, and the run's to answer.
    notes.push_back(str("logs and debug directory: ", error.message()));
  }
  for (std::string& note : observers.notes()) notes.push_back(std::move(note));
  return notes;
}

void trace_error(const Error& error, const Settings& settings) {
  const std::string directory = settings.get_string("TORCH_TRACE");
  if (directory.empty()) return;
  try {
    TraceFile file(directory);
    file.write("error", error_record(error));
  } catch (const Error&) {
    // The error itself is what the user must see.
  }
}

}  // namespace kiln
