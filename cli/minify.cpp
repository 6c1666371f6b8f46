#include "minify/minify.h"

#include <cstdio>

#include "base/error.h"
#include "base/file.h"
#include "base/given_settings.h"
#include "base/inflate.h"
#include "base/zip.h"
#include "command.h"
#include "console.h"
#include "executable/package_executable.h"
#include "json_output.h"
#include "minify/cut.h"
#include "minify/package_program.h"
#include "minify/trials.h"
#include "pt2/input_files.h"
#include "pt2/reader.h"

namespace kiln::cli {
namespace {

// A package is compiled already; its debug section has the program.
bool is_package(const std::string& path) {
  const auto file = MappedFile::open(path);
  const ZipReader zip(file->bytes(), path, inflate_entry);
  for (const ZipEntry& entry : zip.entries())
    if (ends_with(entry.name, "/manifest.json") && entry.name.find("/data/kiln/") != std::string::npos) return true;
  return false;
}

minify::MinifyOptions minify_options(const ParsedOptions& options, const Settings& settings) {
  minify::MinifyOptions out;
  out.accuracy = options.has("--accuracy");
  out.rtol = options.number("--rtol", 0);
  out.atol = options.number("--atol", 0);
  out.check_str = options.value_or("--check-str", "");
  out.save_dir = options.value_or("--save-dir", "");
  const std::string after = settings.get_string("TORCHDYNAMO_REPRO_AFTER");
  out.after = options.value_or("--after", after.empty() ? "aot" : after);
  if (out.after != "aot" && out.after != "inductor")
    throw UsageError(str("--after takes aot or inductor, not '", out.after, "'"));
  out.jobs = static_cast<int>(options.integer("--jobs", 1, 1024).value_or(0));
  out.timeout_seconds = options.number("--timeout", 0.001).value_or(out.timeout_seconds);
  out.custom_op_libs = options.values("--custom-op-lib");
  out.settings = &settings;
  out.inputs = options.input_files;
  return out;
}

// What failed, for programs; null: nothing did.
Json failure_json(const minify::Failure& failure) {
  if (!failure.failed()) return Json();
  const auto known = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  Json out = Json::object();
  out.set("kind", minify::failure_kind_name(failure.kind)), out.set("stage", known(failure.stage));
  out.set("code", known(failure.code)), out.set("operator", known(failure.op));
  out.set("signal", failure.signal != 0 ? Json(failure.signal) : Json());
  out.set("summary", minify::describe(failure)), out.set("message", failure.message);
  return out;
}

int try_once(const Program& program, const minify::MinifyOptions& options, Json root, const JsonOutput& json) {
  const minify::Failure failure = minify::run_once(program, options);
  root.set("failure", failure_json(failure));
  json.write(root);
  if (!failure.failed()) {
    if (!json.instead_of_text())
      printf("compiled, loaded and ran%s\n", options.accuracy ? "; the results are right" : "");
    if (!failure.message.empty()) tell_note(failure.message);
    return 0;
  }
  fprintf(stderr, "%s\n%s\n", failure.message.c_str(), minify::describe(failure).c_str());
  return 1;
}

// What the trials leave out (minify/minify.cpp) is said where somebody asked for it here.
void note_left_out(const ParsedOptions& options) {
  Settings said(Phase::both);
  for (const std::string& assignment : options.values("--config")) said.set(assignment);
  for (const std::string& key : minify::settings_left_out())
    if (said.given(key))
      tell_note(str("setting ", key, " does nothing here: the trials write no bundles, traces, logs or debug files"));
}

int minify_model(const ParsedOptions& options) try {
  Settings settings = settings_of(options, Phase::both, true);
  note_left_out(options);
  const std::string& path = options.positional[0];
  const bool package = is_package(path);
  Program program = package ? minify::program_of_package(path) : read_pt2(path);
  if (package) {
    // As the package was compiled, unless the command line says otherwise.
    Settings as_compiled(Phase::both);
    for (const std::string& assignment : minify::settings_of_package(path)) as_compiled.set(assignment);
    for (const GivenSetting& given : given_settings(as_compiled))
      if (!settings.given(given.setting->key)) settings.set(given.setting->key, given.text);
  }
  if (const auto file = options.value("--inputs"))
    program.sample_inputs = read_inputs(*file, package ? package_input_form(path) : input_form(program));
  minify::MinifyOptions minify_with = minify_options(options, settings);
  if (package) minify_with.device = minify::device_of_package(path);
  const std::string command = options.value_or("--command", "minify");
  if (command != "minify" && command != "run")
    throw UsageError(str("--command takes minify or run, not '", command, "'"));
  const JsonOutput json(options);
  Json root = json.document("minify");
  root.set("model", path);
  if (command == "run") return try_once(program, minify_with, std::move(root), json);
  ProgressLine line;
  std::string last;  // of what is said the result
  minify_with.say = [&](const std::string& text) {
    last = text;
    if (is_quiet()) return;
    line.clear();
    printf("%s\n", text.c_str());
    fflush(stdout);
  };
  minify_with.progress = [&](const std::string& text) { line.show(text); };
  const minify::MinifyResult result = minify::minify(program, minify_with);
  line.clear();
  if (is_quiet() && !json.instead_of_text()) printf("%s\n", last.c_str());
  root.set("failure", failure_json(result.failure)), root.set("operators", result.calls);
  root.set("operators_before", minify::count_calls(program.graph)), root.set("nodes", result.nodes);
  root.set("minimal", result.minimal), root.set("interrupted", result.interrupted);
  root.set("trials", result.trials), root.set("seconds", result.seconds), root.set("repro", result.repro);
  root.set("kernel_file", result.kernel_file.empty() ? Json() : Json(result.kernel_file));
  json.write(root);
  return result.interrupted ? 128 + result.signal : 0;
} catch (const minify::Interrupted& interrupted) {
  fputs("interrupted before the failure was pinned down: there is no repro\n", stderr);
  return 128 + interrupted.signal;
}

}  // namespace

Command minify_command() {
  CommandSpec spec;
  spec.name = "minify";
  spec.positional = "MODEL.pt2|PKG";
  spec.least = spec.most = 1;
  spec.summary = "finds the smallest program that still fails the same way";
  spec.details =
      "Runs the model in child processes with limits of time and memory, pins how it fails (error, signal, hang, or "
      "with "
      "--accuracy a wrong result), and removes what the failure does not need. repro.py, repro.pt2 and repro.sh land "
      "in "
      "the current directory, checkpoints in a debug directory or --save-dir. Ctrl-C leaves the best repro so far. "
      "docs/minifier.md shows it step by step.";
  spec.options = {
      {"--inputs", "", "F", "the inputs of the failing call (default: the model's sample inputs)", false,
       FileUse::read},
      {"--accuracy", "", "", "compares the results with the reference; a value that fp64 shows to be rounding is right",
       false},
      {"--rtol", "", "R", "relative tolerance for floats, over the dtype's", false},
      {"--atol", "", "A", "absolute tolerance for floats, over the dtype's", false},
      {"--check-str", "", "S", "the failure's message must contain this", false},
      {"--save-dir", "", "D", "where the checkpoints go", false},
      {"--after", "", "aot|inductor", "what to end with: the graph (default), or its kernel in a C++ file of its own",
       false},
      {"--command", "", "minify|run", "run: only compiles, loads and runs, once, and says what happened", false},
      {"--jobs", "-j", "N", "candidates at a time (default: one per processor)", false},
      {"--timeout", "", "S", "seconds for the first compile, and for a comparison with the reference (default: 600)",
       false},
      {"--custom-op-lib", "", "L", "shared library with custom operators", true, FileUse::read},
      JsonOutput::option(),
  };
  spec.examples = {"kiln minify model.pt2", "kiln minify model.pt2 --inputs failing.pt --accuracy --rtol 1e-3",
                   "kiln minify model.pt2 --config cpp.inject_relu_bug_TESTING_ONLY=compile_error"};
  return {spec, minify_model};
}

}  // namespace kiln::cli
