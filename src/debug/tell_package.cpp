#include "debug/tell_package.h"

#include <algorithm>
#include <map>

#include "base/trace_file.h"
#include "codegen/backend.h"
#include "debug/package_debug.h"
#include "package/plan_io.h"
#include "trace/compile_logs.h"
#include "trace/compile_observer.h"
#include "trace/compile_trace.h"
#include "trace/debug_directory.h"
#include "trace/pass_record.h"

namespace kiln {
namespace {

// The graph as it was read, with the weights that the plan has kept.
Program exported_program(const PackageDebug& package) {
  Program program = parse_program(package.entry("debug/graph.txt").value_or(""));
  for (auto& [name, tensor] : program.constants)
    if (const auto found = package.constants().find(name); found != package.constants().end()) tensor = found->second;
  return program;
}

// What the passes did, as it was recorded. False: this package has no record of it.
bool replay_passes(const PackageDebug& package, CompileObservers& observers) {
  const auto record = package.entry("debug/passes.json"), lowered = package.entry("debug/loops_lowered.txt"),
             graph = package.entry("debug/lowered_graph.txt"), loops_text = package.entry("debug/loops.txt");
  if (!record) return false;
  const std::vector<RecordedPass> passes = read_pass_record(*record);
  std::optional<Program> program;
  if (graph) program = parse_program(*graph);
  std::optional<loops::LoopProgram> plain, last;
  if (lowered) plain = loops::parse_loops(*lowered);
  if (loops_text) last = loops::parse_loops(*loops_text);
  size_t last_graph = 0;
  for (size_t i = 0; i < passes.size(); ++i)
    if (passes[i].stage == "graph") last_graph = i;
  for (size_t i = 0; i < passes.size(); ++i) {
    const RecordedPass& pass = passes[i];
    PassEvent event;
    event.name = pass.name, event.stage = pass.stage, event.changed = pass.changed, event.notes = pass.notes;
    event.recorded = true;
    for (const loops::Decision& decision : pass.decisions) event.decisions.push_back(&decision);
    // Kept are the graph that was lowered, the Loops that lowering made, and those at the end.
    if (program && (i == last_graph || pass.stage == "lower")) event.program = &*program;
    if (plain && pass.stage == "lower") event.loops = &*plain;
    if (last && i + 1 == passes.size()) event.loops = &*last, event.changed = true;
    observers.pass_done(event);
  }
  return true;
}

// The code as it was compiled, of every target. False: this package has no record of it.
bool replay_code(PackageDebug& package, CompileObservers& observers) {
  const std::vector<std::pair<std::string, std::string>> merged(package.merged().begin(), package.merged().end());
  bool all = true;
  for (size_t target = 0; target < package.targets().size(); ++target) {
    const std::string& name = package.targets()[target];
    const auto loops_text = package.entry_of_target(target, "loops.txt");
    if (!loops_text) return false;
    const loops::LoopProgram loops = loops::parse_loops(*loops_text);
    const format::Plan plan = package.plan_of_target(target);
    format::Origins origins;
    if (const auto bytes = package.entry_of_target(target, "origins")) origins = format::read_origins(as_bytes(*bytes));
    codegen::GeneratedCode code;
    std::map<std::string, std::string> functions;
    while (const auto unit = package.entry(str("debug/output_code_", name, "_", code.sources.size(), ".",
                                               codegen::backend_for(package.plan().device).source_ending()))) {
      functions.merge(codegen::backend_for(package.plan().device).functions_of_unit(*unit));
      code.sources.push_back(*unit);
    }
    code.flags = split(package.entry(str("debug/output_code_", name, ".flags")).value_or(""), '\n');
    std::erase(code.flags, "");
    if (!code.flags.empty()) code.flags.erase(code.flags.begin());  // the lanes
    for (const format::Kernel& kernel : plan.kernels) {
      const auto found = functions.find(kernel.symbol);
      all = all && found != functions.end();
      code.symbols.push_back(kernel.symbol);
      code.texts.push_back(found == functions.end() ? "// not recorded\n" : found->second);
    }
    const codegen::Target& made_for = package.compilation().targets()[target];
    observers.code_made({&made_for, &code, &loops, &plan, &origins, &merged, true});
  }
  return all;
}

void tell(const std::string& path, CompileObservers& observers, std::vector<std::string>& notes) {
  PackageDebug package(path);
  const Program program = exported_program(package);
  CompileStart start{path, path, "cpu", {}, &program, {}};
  if (!package.plan().code.empty()) start.targets = package.targets();
  start.recorded = {package.plan().kiln_version, package.compile_settings()};
  observers.started(start);
  if (!replay_passes(package, observers))
    notes.push_back(
        "passes, fusion and the loops before it are not told: this package did not record them (another "
        "version of Kiln made it)");
  if (!replay_code(package, observers))
    notes.push_back("the code of some kernels is not told: this package did not record it");
}

// What a log of a compile has that no package keeps.
std::string not_kept(const LogSelection& selection) {
  std::vector<std::string> names;
  for (const char* name : {"async_compile", "cache"})
    if (selection.wants(name, LogLevel::info)) names.emplace_back(name);
  if (selection.artifact("inductor_metrics")) names.emplace_back("inductor_metrics");
  if (names.empty()) return "";
  return str("TORCH_LOGS=", join(names, ","),
             ": a package does not record how long compiling it took, nor what came "
             "from the cache; compile with it");
}

}  // namespace

std::vector<std::string> tell_of_package(const std::string& path, const Settings& settings) {
  LogSelection selection(settings.get_list("TORCH_LOGS"));
  const bool logs = selection.any() || selection.help(), debug = debug_directory_wanted(settings);
  const std::string trace = settings.get_string("TORCH_TRACE");
  if (!logs && !debug && trace.empty()) return {};
  std::vector<std::string> notes;
  if (const std::string missing = not_kept(selection); !missing.empty()) notes.push_back(missing);
  CompileObservers observers;
  if (logs)
    observers.add_if_possible(
        "no log", [&] { return make_compile_logs(std::move(selection), settings.get_string("TORCH_LOGS_OUT")); });
  if (debug) observers.add(make_debug_directory(debug_run_directory(settings)));
  if (!trace.empty()) observers.add_if_possible("no trace", [&] { return make_compile_trace(trace); });
  try {
    tell(path, observers, notes);
  } catch (const Error& error) {
    // Whether the package runs is another question, and the run's to answer.
    notes.push_back(str("logs, debug directory and trace: ", error.message()));
  }
  // That there is no trace is the runtime's to say, which writes to it too.
  for (std::string& note : observers.notes())
    if (!starts_with(note, "no trace: ")) notes.push_back(std::move(note));
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
