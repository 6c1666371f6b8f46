#include "minify/dump.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/given_settings.h"
#include "compile/compilation.h"
#include "executable/package_executable.h"
#include "minify/accuracy.h"
#include "minify/repro_files.h"
#include "pt2/writer.h"
#include "trace/debug_directory.h"

namespace kiln::minify {

namespace {

bool between(const std::string& code, const char* low, const char* high) { return code >= low && code <= high; }

// Another number, kind, type or size of inputs than the program takes, or a file of them that is not there or does not
// fit.
bool is_input_error(const std::string& code) {
  return between(code, "K0101", "K0107") || between(code, "K0150", "K0156") || between(code, "K0610", "K0622") ||
         code == "K0674";
}

}  // namespace

DumpOnFailure::DumpOnFailure(const Settings& settings, std::vector<std::string> custom_op_libs,
                             std::function<Program()> program, std::function<void(const std::string&)> say,
                             std::function<std::vector<std::string>()> compiled_with)
    : settings_(settings),
      custom_op_libs_(std::move(custom_op_libs)),
      program_(std::move(program)),
      say_(std::move(say)),
      compiled_with_(std::move(compiled_with)) {
  const int64_t level = settings.get_int("aot_inductor.repro_level");
  const std::string after = settings.get_string("TORCHDYNAMO_REPRO_AFTER");
  const bool asked = settings.get_bool("aot_inductor.dump_aoti_minifier") || !after.empty() || level >= 3;
  level_ = asked ? level : 0;
}

void DumpOnFailure::before() {
  if (level_ == 3) write(false);
}

void DumpOnFailure::failed(const std::string& code) {
  if (!wanted() || written_) return;
  refused_for_ = is_input_error(code) ? code : "";
  write(false);
}

void DumpOnFailure::wrong_results() {
  if (wanted() && !written_) write(true);
}

void DumpOnFailure::finished(const CallResult& result) {
  if (level_ != 4 || written_) return;
  Program program = program_();
  if (inputs_) program.sample_inputs = *inputs_;
  AccuracyOptions options;
  options.custom_op_libs = custom_op_libs_;
  const Settings settings = launcher_settings();
  options.rounded_factors = product_precision(&settings) != ProductPrecision::highest;
  const Failure failure = judge(program, result, options);
  if (!failure.failed()) return;
  say_(str("The results are wrong: ", failure.message));
  write(true);
}

Settings DumpOnFailure::launcher_settings() const {
  Settings settings(Phase::both);
  if (compiled_with_)
    for (const std::string& assignment : compiled_with_()) settings.set(assignment);
  for (const GivenSetting& given : given_settings(settings_)) settings.set(given.setting->key, given.text);
  return settings;
}

void DumpOnFailure::write(bool accuracy) {
  written_ = true;
  try {
    Program program = program_();
    // Inputs that the program refuses are no sample of a call of it.
    if (inputs_ && refused_for_.empty()) program.sample_inputs = *inputs_;
    std::string directory = join_path(debug_run_directory(settings_), "minifier");
    if (!starts_with(directory, "/")) {
      char here[4096];
      if (getcwd(here, sizeof here)) directory = join_path(here, directory);
    }
    const std::string checkpoints = join_path(directory, "checkpoints");
    make_private_directory(parent_path(directory));
    make_directories(checkpoints, 0700);
    const std::string model = join_path(checkpoints, "exported_program.pt2");
    write_pt2(program, model);
    if (!refused_for_.empty())
      return say_(str("Nothing to minify: ", refused_for_,
                      " is about the inputs of this call, which no operator has seen. ", "Writing the program to ",
                      model));
    if (level_ == 1) return say_(str("Writing the failing program to ", model));
    ReproScript script;
    script.command = "minify";
    script.program = model;
    script.save_dir = checkpoints;
    script.accuracy = accuracy;
    script.custom_op_libs = custom_op_libs_;
    const Settings settings = launcher_settings();
    script.settings = &settings;
    script.torch_version = program.torch_version;
    const std::string after = settings_.get_string("TORCHDYNAMO_REPRO_AFTER");
    if (!after.empty()) script.after = after;
    const std::string launcher = join_path(directory, "minifier_launcher.py");
    const std::string shell = join_path(directory, "minifier_launcher.sh");
    write_file_atomic(launcher, python_script(script), FileAccess::owner);
    write_file_atomic(shell, shell_script(script), FileAccess::owner);
    chmod(shell.c_str(), 0700);
    say_("Writing minified repro to:");
    say_(launcher);
  } catch (const Error& error) {
    say_(str("The minifier's directory could not be written: ", error.message()));
  }
}

}  // namespace kiln::minify
