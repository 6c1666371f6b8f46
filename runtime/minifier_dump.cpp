#include "runtime/minifier_dump.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/environment.h"
#include "base/error.h"
#include "base/file.h"
#include "base/script_text.h"
#include "base/text.h"
#include "base/trace_file.h"
#include "base/version.h"
#include "runtime/saved_tensor.h"

namespace kiln::runtime {
namespace {

std::string absolute(const std::string& path) {
  char here[4096];
  return starts_with(path, "/") || !getcwd(here, sizeof here) ? path : join_path(here, path);
}

bool savable(const DLTensor* tensor) {
  return tensor && tensor->ndim >= 0 && (tensor->ndim == 0 || tensor->shape) && tensor->device.device_type == kDLCPU &&
         tensor->data;
}

// Nothing: there is an input that the file cannot hold (none, text, or a tensor that is none).
std::optional<std::string> inputs_file(const kiln_value* inputs, size_t count) {
  std::vector<SavedItem> items(count);
  for (size_t i = 0; i < count; ++i) {
    const kiln_value& value = inputs[i];
    if (value.kind == KILN_TENSOR && savable(value.as.tensor))
      items[i].tensor = value.as.tensor;
    else if (value.kind == KILN_INT)
      items[i].integer = value.as.integer;
    else if (value.kind == KILN_BOOL)
      items[i].integer = value.as.boolean;
    else if (value.kind == KILN_FLOAT)
      items[i].is_float = true, memcpy(&items[i].integer, &value.as.floating, sizeof value.as.floating);
    else
      return std::nullopt;
  }
  return list_file(items);
}

struct Patch {
  std::string key, text;
};

// What was given for loading and running; the package has what it was compiled with.
std::vector<Patch> config_patches(const Settings& settings) {
  std::vector<Patch> out;
  for (const Setting& setting : settings_table())
    if (setting.phase == Phase::run && !setting.about_machine && settings.given(setting.key) &&
        std::string_view(setting.key) != "fault_dir")
      out.push_back({setting.key, settings.text(setting)});
  return out;
}

std::string processor_name() {
  for (const std::string& line : split(read_file("/proc/cpuinfo"), '\n'))
    if (starts_with(line, "model name") && line.find(": ") != std::string::npos)
      return line.substr(line.find(": ") + 2);
  return "unknown";
}

std::string heading(const std::string& package) {
  return str("# kiln version: ", version_text, "\n# package: ", comment_text(package),
             "\n# CPU: ", comment_text(processor_name()), ", ", sysconf(_SC_NPROCESSORS_ONLN), " processors\n\n");
}

constexpr const char* python_body = R"(import importlib.util
import os
import shutil
import subprocess
import sys


def find_kiln():
    """The command: $KILN, the one in the path, or that of the Python package."""
    found = os.environ.get('KILN') or shutil.which('kiln')
    package = None if found else importlib.util.find_spec('kiln')
    return os.path.join(os.path.dirname(package.origin), 'bin', 'kiln') if package else found or 'kiln'


def run_repro(package, inputs, *, config_patches, accuracy, command, save_dir, check_str):
    """Compiles, loads and runs the package's program in a process of its own (command='run'), or finds the smallest
    one that fails the same way (command='minify')."""
    arguments = [find_kiln(), 'minify', package, '--command', command]
    if inputs is not None:
        arguments += ['--inputs', inputs]
    if accuracy:
        arguments.append('--accuracy')
    if save_dir is not None:
        arguments += ['--save-dir', save_dir]
    if check_str is not None:
        arguments += ['--check-str', check_str]
    for key, value in config_patches.items():
        arguments += ['--config', f'{key}={value}']
    return subprocess.run(arguments + more_arguments).returncode


)";

}  // namespace

std::shared_ptr<MinifierDump> MinifierDump::make(const Settings& settings, std::string package, std::string_view bytes,
                                                 const Log& log) {
  std::shared_ptr<MinifierDump> dump(new MinifierDump(settings, std::move(package), bytes, log));
  const bool asked = settings.get_bool("aot_inductor.dump_aoti_minifier") || !dump->after_.empty() || dump->level_ >= 3;
  return asked ? dump : nullptr;
}

MinifierDump::MinifierDump(const Settings& settings, std::string package, std::string_view bytes, const Log& log)
    : settings_(settings),
      package_(std::move(package)),
      bytes_(bytes),
      log_(log),
      level_(settings.get_int("aot_inductor.repro_level")),
      after_(settings.get_string("TORCHDYNAMO_REPRO_AFTER")) {}

void MinifierDump::before(const kiln_value* inputs, size_t count) noexcept {
  if (level_ < 3) return;
  const std::lock_guard lock(mutex_);
  if (!failed_) write(inputs, count, true);
}

void MinifierDump::refused(const kiln_value* inputs, size_t count) noexcept {
  const std::lock_guard lock(mutex_);
  if (failed_ || refused_ || directory_) return;
  refused_ = true;
  write(inputs, count, true);
  directory_.reset();  // a call that fails gets the whole of it
}

void MinifierDump::failed(const kiln_value* inputs, size_t count) noexcept {
  const std::lock_guard lock(mutex_);
  if (failed_) return;
  refused_ = false;
  failed_ = true;
  write(inputs, count, true);
}

void MinifierDump::load_failed() noexcept {
  const std::lock_guard lock(mutex_);
  failed_ = true;
  write(nullptr, 0, false);
}

void MinifierDump::write(const kiln_value* inputs, size_t count, bool has_inputs) noexcept {
  try {
    std::string file;
    if (has_inputs) {
      const std::optional<std::string> saved = inputs_file(inputs, count);
      if (!saved)
        log_.write(KILN_LOG_WARNING,
                   "the inputs of this call cannot be saved for the minifier; it takes the model's sample inputs");
      file = saved.value_or("");
    }
    write_files(file);
  } catch (const std::exception& error) {
    try {
      log_.write(KILN_LOG_WARNING, str("the minifier's directory could not be written: ", error.what()));
    } catch (...) {
    }
  }
}

void MinifierDump::write_files(const std::string& inputs) {
  const bool first = !directory_;
  if (first) {
    const std::string run = join_path(absolute(debug_directory_root(settings_)), "run_" + process_stamp());
    std::string directory = join_path(run, "minifier");
    // Of another model in this process.
    for (int i = 2; file_exists(join_path(directory, "checkpoints")); ++i)
      directory = join_path(run, str("minifier_", i));
    directory_ = std::make_unique<const std::string>(std::move(directory));
  }
  const std::string checkpoints = join_path(*directory_, "checkpoints");
  if (first) make_private_directory(parent_path(*directory_));
  make_directories(checkpoints, 0700);
  if (!inputs.empty()) write_file_atomic(join_path(checkpoints, "inputs.pt"), inputs, FileAccess::owner);
  if (!first) return;  // only the inputs change from call to call
  std::string package = absolute(package_);
  if (package_.empty()) {
    package = join_path(checkpoints, "package.kiln.pt2");
    write_file_atomic(package, bytes_, FileAccess::owner);
  }
  if (refused_)
    return log_.write(
        KILN_LOG_WARNING,
        str("nothing to minify: the inputs of this call do not fit the model. Writing them to ", checkpoints));
  if (level_ == 1) return log_.write(KILN_LOG_WARNING, str("Writing the inputs of the failing call to ", checkpoints));
  const std::string launcher = join_path(*directory_, "minifier_launcher.py");
  const std::string script = join_path(*directory_, "minifier_launcher.sh");
  write_file_atomic(launcher, python(package, !inputs.empty()), FileAccess::owner);
  write_file_atomic(script, shell(package, !inputs.empty()), FileAccess::owner);
  chmod(script.c_str(), 0700);
  log_.write(KILN_LOG_INFO, str("Writing minified repro to:\n", launcher));
}

std::string MinifierDump::python(const std::string& package, bool has_inputs) const {
  const std::string checkpoints = join_path(*directory_, "checkpoints");
  std::string out = heading(package) + python_body;
  out += str("more_arguments = [", after_.empty() ? "" : str("'--after', ", python_quote(after_)), "]\n");
  out += str("package = ", python_quote(package),
             "\ninputs = ", has_inputs ? python_quote(join_path(checkpoints, "inputs.pt")) : "None",
             "\nconfig_patches = {");
  for (const Patch& patch : config_patches(settings_))
    out += str("\n    ", python_quote(patch.key), ": ", python_quote(patch.text), ",");
  out += config_patches(settings_).empty() ? "}\n" : "\n}\n";
  out += str(
      "if __name__ == '__main__':\n    sys.exit(run_repro(package, inputs, config_patches=config_patches, accuracy=",
      level_ == 4 ? "True" : "False", ", command='minify', save_dir=", python_quote(checkpoints),
      ", check_str=None))\n");
  return out;
}

std::string MinifierDump::shell(const std::string& package, bool has_inputs) const {
  const std::string checkpoints = join_path(*directory_, "checkpoints");
  std::string out = "#!/bin/sh\n" + heading(package);
  out += str("exec \"${KILN:-kiln}\" minify ", shell_quote(package), " --command \"${1:-minify}\"");
  if (has_inputs) out += str(" --inputs ", shell_quote(join_path(checkpoints, "inputs.pt")));
  if (level_ == 4) out += " --accuracy";
  out += str(" --save-dir ", shell_quote(checkpoints));
  if (!after_.empty()) out += str(" --after ", after_);
  for (const Patch& patch : config_patches(settings_))
    out += str(" --config ", shell_quote(str(patch.key, "=", patch.text)));
  return out + "\n";
}

}  // namespace kiln::runtime
