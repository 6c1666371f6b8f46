#include "compile/compile.h"

#include <algorithm>
#include <cstdio>

#include "check/bundle.h"
#include "command.h"
#include "compile/missed_fault.h"
#include "compile/program_device.h"
#include "console.h"
#include "device_options.h"
#include "minify/dump.h"
#include "output_files.h"
#include "pt2/reader.h"
#include "trace/compile_observer.h"

namespace kiln::cli {
namespace {

// --dump-after and --stop-after, or the keys of the same names.
std::string pass_asked_for(const ParsedOptions& options, const Settings& settings, const char* option,
                           const char* key) {
  return options.value_or(option, settings.get_string(key));
}

// Prints the IR after passes instead of making a package: as a compile with the same options has it.
int dump_passes(const ParsedOptions& options, const Settings& settings) {
  CompilationOptions compilation_options;
  compilation_options.keep_texts = true;
  compilation_options.settings = &settings;
  compilation_options.targets = targets_asked_for(options);
  compilation_options.custom_op_libs = options.values("--custom-op-lib");
  compilation_options.stop_after = pass_asked_for(options, settings, "--stop-after", "stop_after");
  std::string wanted = pass_asked_for(options, settings, "--dump-after", "dump_after");
  if (wanted.empty()) wanted = compilation_options.stop_after;
  if (!compilation_options.stop_after.empty()) check_pass_name(compilation_options.stop_after);
  if (wanted != "all") check_pass_name(wanted);
  const std::string device = device_asked_for(options);
  const Program read = read_model(options.positional[0], &settings);
  const auto moved = placed_program(read, device, [](const std::string& note) { tell_notes({note}); });
  const Program& program = moved ? *moved : read;
  compilation_options.device = compile_device(read, device);
  CompileObservers observers = compile_observers(settings);
  if (!observers.empty()) {
    observers.started({options.positional[0], "", device_type_name(compilation_options.device), {}, &program, {}});
    compilation_options.observer = &observers;
  }
  const bool stops = !compilation_options.stop_after.empty();
  Compilation compilation(program, std::move(compilation_options));
  try {
    compilation.passes();
  } catch (const Error& error) {
    observers.failed(error);
    tell_notes(observers.notes());
    throw;
  }
  tell_notes(observers.notes());
  // A fault of the code is looked for as a package would have it, unless the passes ended before.
  const FaultReach reach = stops ? FaultReach::scheduled : FaultReach::code;
  if (const std::string note = missed_fault(compilation, reach); !note.empty()) tell_note(note);
  for (const PassReport& pass : compilation.passes().passes()) {
    if (wanted != "all" && pass.name != wanted) continue;
    printf("# after %s (%.2f ms)%s\n", pass.name.c_str(), pass.milliseconds, pass.changed ? "" : ": unchanged");
    if (pass.changed || wanted != "all") printf("%s\n", pass.text.c_str());
  }
  return 0;
}

int compile_model(const ParsedOptions& options) {
  Settings settings = settings_of(options, Phase::compile);
  const std::vector<std::string> told = settings.notes();  // settings_of has printed them
  if (options.has("--debug")) settings.set("trace.enabled", "1");
  if (!pass_asked_for(options, settings, "--stop-after", "stop_after").empty() ||
      !pass_asked_for(options, settings, "--dump-after", "dump_after").empty())
    return dump_passes(options, settings);
  CompileOptions compile_options;
  compile_options.device = device_asked_for(options);
  compile_options.targets = targets_asked_for(options);
  compile_options.custom_op_libs = options.values("--custom-op-lib");
  compile_options.strip_debug = options.has("--strip-debug");
  compile_options.settings = &settings;
  if (const auto directory = options.value("--generate")) {
    compile_options.goal = CompileGoal::generated;
    compile_options.generated_to = *directory;
  }
  if (const auto directory = options.value("--bundle")) {
    if (options.has("--generate")) throw UsageError("--generate makes no package: leave out --bundle");
    compile_options.test = bundle_files(*directory, read_pt2(options.positional[0]));
  }
  ProgressLine line;
  const bool lines = settings.get_bool("verbose_progress");
  compile_options.progress = [&](const std::string& stage, int done, int total) {
    const std::string text = total > 0 ? str(stage, " ", done, "/", total) : stage;
    if (lines)
      fprintf(stderr, "%s\n", text.c_str());
    else
      line.show(text);
  };
  const std::string& model = options.positional[0];
  if (options.has("--generate") && options.has("--output"))
    throw UsageError("--generate makes no package: leave out --output");
  if (model == options.standard_input && !options.has("--output") && !options.has("--generate"))
    throw UsageError("a model from the standard input has no name to call the package after: give --output");
  const std::string package = options.value_or("--output", default_package_path(model));
  check_output_file(package, options);
  if (compile_options.strip_debug) check_output_file(package + ".debug", options);
  const std::string place = output_path(package);
  compile_options.note = [&](const std::string& note) {
    line.clear();
    tell_note(note);
  };
  minify::DumpOnFailure dump(
      settings, compile_options.custom_op_libs, [&] { return read_pt2(model); },
      [&](const std::string& text) {
        line.clear();
        fprintf(stderr, "%s\n", text.c_str());
      });
  dump.before();
  CompileReport report;
  try {
    report = compile(model, place, compile_options);
  } catch (const Error& error) {
    dump.failed(error.code());
    throw;
  }
  line.clear();
  for (const std::string& note : report.notes) {
    if (std::find(told.begin(), told.end(), note) == told.end()) tell_note(note);
  }
  if (compile_options.goal == CompileGoal::generated) {
    printf("%s\n", compile_options.generated_to.c_str());
    return 0;
  }
  if (!is_quiet())
    printf("%d kernel%s (%d compiled%s), %s in %s: schedule %s, %s %s, %spackage %s%s\n", report.kernels,
           report.kernels == 1 ? "" : "s", report.kernels_compiled, report.from_cache ? ", from the cache" : "",
           bytes_text(report.package_bytes).c_str(), seconds_text(report.seconds).c_str(),
           seconds_text(report.schedule_seconds).c_str(), report.device == DeviceType::cuda ? "NVRTC" : "C++",
           seconds_text(report.toolchain_seconds).c_str(),
           report.packing_seconds > 0 ? str("weights packed ", seconds_text(report.packing_seconds), ", ").c_str() : "",
           seconds_text(report.package_seconds).c_str(),
           report.weights_seconds > 0
               ? str(" (weights written meanwhile in ", seconds_text(report.weights_seconds), ")").c_str()
               : "");
  printf("%s\n", package.c_str());
  return 0;
}

}  // namespace

Command compile_command() {
  CommandSpec spec;
  spec.name = "compile";
  spec.positional = "MODEL.pt2";
  spec.least = spec.most = 1;
  spec.summary = "compiles an exported program into a package";
  spec.details =
      "The package runs with 'kiln run' or libkiln_runtime, without a compiler, Python or libtorch. Its path is the "
      "last "
      "line printed.";
  spec.options = {
      {"--output", "-o", "PKG", "the package (default: MODEL.kiln.pt2)", false, FileUse::written},
      {"--device", "", "D", "cpu or cuda (default: where the model was exported); another one moves the program there",
       false},
      {"--target", "", "T,…",
       "what to make code for, e.g. x86-64-v3,x86-64-v4, or with --device cuda sm_80,sm_90a (default, or native: this "
       "machine's best)",
       false},
      {"--custom-op-lib", "", "L", "shared library with custom operators, embedded in the package", true,
       FileUse::read},
      {"--bundle", "", "DIR",
       "puts the inputs and expected outputs of a case directory into the package: its self-test, for 'kiln check PKG' "
       "and kiln_self_test",
       false, FileUse::read},
      {"--strip-debug", "", "", "puts the debug section into PKG.debug", false},
      {"--debug", "", "", "writes the debug directory (torch_compile_debug/…)", false},
      {"--generate", "", "DIR",
       "writes the loops, the plan and the C++ of each target to DIR; starts no C++ compiler, makes no package", false},
      {"--dump-after", "", "PASS", "prints the program after a pass, or after every pass with 'all'; makes no package",
       false},
      {"--stop-after", "", "PASS", "stops after this pass and prints the program; makes no package", false},
  };
  spec.examples = {"kiln compile model.pt2", "kiln compile model.pt2 -o served.pt2 --target x86-64-v3,x86-64-v4",
                   "kiln compile model.pt2 --dump-after all"};
  return {spec, compile_model};
}

}  // namespace kiln::cli
