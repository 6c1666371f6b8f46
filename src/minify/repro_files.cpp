#include "minify/repro_files.h"

#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/given_settings.h"
#include "base/script_text.h"
#include "base/version.h"
#include "codegen/backend.h"
#include "executable/package_executable.h"
#include "toolchain/compiler.h"
#include "trace/graph_python.h"
#include "trace/python_text.h"

namespace kiln::minify {
namespace {

// Said in the script's own arguments, or about the machine and not the failure.
bool left_out(const Setting& setting) {
  static const std::set<std::string> own = {"aot_inductor.dump_aoti_minifier", "aot_inductor.repro_level",
                                            "TORCHDYNAMO_REPRO_AFTER", "cache_dir", "fault_dir"};
  return own.contains(setting.key);
}

std::vector<GivenSetting> config_patches(const ReproScript& script) {
  std::vector<GivenSetting> out;
  if (!script.settings) return out;
  for (const GivenSetting& given : given_settings(*script.settings))
    if (!left_out(*given.setting)) out.push_back(given);
  return out;
}

std::string line_with(const std::string& path, const std::string& word) {
  if (!file_exists(path)) return "";
  for (const std::string& line : split(read_file(path), '\n'))
    if (line.find(word) != std::string::npos) return std::string(trim(line));
  return "";
}

std::string compiler_line(const ReproScript& script) {
  try {
    const Compiler compiler = find_compiler(script.settings ? script.settings->get_string("compiler") : "");
    return str(compiler.identity, " (", compiler.path, ")");
  } catch (const Error& error) {
    return str("none: ", error.message());
  }
}

std::string this_program() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  const std::string name = length > 0 ? std::string(path, static_cast<size_t>(length)) : "";
  // A test program or an embedder is not the command.
  return file_name(name) == "kiln" ? name : "kiln";
}

// What stands after `kiln minify PROGRAM`, one argument each.
std::vector<std::string> command_arguments(const ReproScript& script) {
  std::vector<std::string> out;
  for (const std::string& library : script.custom_op_libs) out.insert(out.end(), {"--custom-op-lib", library});
  if (script.rtol) out.insert(out.end(), {"--rtol", str(*script.rtol)});
  if (script.atol) out.insert(out.end(), {"--atol", str(*script.atol)});
  if (script.after != "aot") out.insert(out.end(), {"--after", script.after});
  return out;
}

std::string heading(const ReproScript& script) {
  std::string out;
  if (!script.graph_text.empty()) out += comment_lines(trim(script.graph_text), "#") + "\n";
  for (const std::string& note : script.notes) out += comment_lines(note, "#");
  if (!script.notes.empty()) out += "\n";
  for (const std::string& line : environment_lines(script)) out += comment_lines(line, "#");
  return out + "\n";
}

constexpr const char* python_body = R"(

def run_repro(exported_program, *, config_patches, accuracy, command, save_dir, check_str):
    """Compiles, loads and runs the program in a process of its own (command='run'), or finds the smallest one
    that fails the same way (command='minify')."""
    here = os.path.dirname(os.path.abspath(__file__))
    arguments = [kiln, 'minify', os.path.join(here, exported_program), '--command', command]
    if accuracy:
        arguments.append('--accuracy')
    if save_dir is not None:
        arguments += ['--save-dir', os.path.join(here, save_dir)]
    if check_str is not None:
        arguments += ['--check-str', check_str]
    for key, value in config_patches.items():
        arguments += ['--config', f'{key}={value}']
    return subprocess.run(arguments + more_arguments).returncode


)";

}  // namespace

std::vector<std::string> environment_lines(const ReproScript& script) {
  std::vector<std::string> lines;
  lines.push_back(str("kiln version: ", version_text));
  if (!script.torch_version.empty()) lines.push_back(str("torch version of the export: ", script.torch_version));
  lines.push_back(str("C++ compiler: ", compiler_line(script)));
  const std::string model = line_with("/proc/cpuinfo", "model name");
  const size_t colon = model.find(": ");
  lines.push_back(str("CPU: ", colon == std::string::npos ? "unknown" : model.substr(colon + 2), ", ",
                      codegen::cpu_backend().host_target_name(), ", ", sysconf(_SC_NPROCESSORS_ONLN), " processors"));
  const std::string driver = line_with("/proc/driver/nvidia/version", "NVRM");
  lines.push_back(str("GPU: ", driver.empty() ? "none found" : driver));
  return lines;
}

std::string repro_graph(const Program& program) {
  std::string text = readable_python(program);
  return replace_all(text, "class GraphModule(", "class Repro(");
}

std::string python_script(const ReproScript& script) {
  const auto text_or_none = [](const std::string& text) { return text.empty() ? "None" : python_quote(text); };
  std::string out = heading(script);
  out += "import os\nimport shutil\nimport subprocess\nimport sys\n\n";
  out += str("kiln = os.environ.get('KILN') or ", python_quote(this_program()),
             "\nif not shutil.which(kiln):\n    kiln = 'kiln'\n");
  out += str("more_arguments = [", join_map(command_arguments(script), ", ", python_quote), "]\n");
  out += python_body;
  out += str("exported_program = ", python_quote(script.program), "\n");
  out += "config_patches = {";
  for (const GivenSetting& given : config_patches(script))
    out += str("\n    ", python_quote(given.setting->key), ": ", python_quote(given.text), ",");
  out += config_patches(script).empty() ? "}\n" : "\n}\n";
  out += str(
      "if __name__ == '__main__':\n    sys.exit(run_repro(exported_program, config_patches=config_patches, accuracy=",
      script.accuracy ? "True" : "False", ", command=", python_quote(script.command),
      ", save_dir=", text_or_none(script.save_dir), ", check_str=", text_or_none(script.check_str), "))\n");
  return out;
}

std::string shell_script(const ReproScript& script) {
  std::string out = "#!/bin/sh\n" + heading(script);
  out += "# command: minify finds the smallest program that fails the same way; run compiles, loads and runs it.\n";
  out += str("command=${1:-", script.command, "}\nhere=$(cd \"$(dirname \"$0\")\" && pwd)\n");
  out += str("kiln=${KILN:-", shell_quote(this_program()), "}\ncommand -v \"$kiln\" >/dev/null || kiln=kiln\n");
  const bool absolute = starts_with(script.program, "/");
  out += str("exec \"$kiln\" minify ", absolute ? "" : "\"$here\"/", shell_quote(script.program),
             " --command \"$command\"");
  if (script.accuracy) out += " --accuracy";
  if (!script.save_dir.empty())
    out += str(" --save-dir ", starts_with(script.save_dir, "/") ? "" : "\"$here\"/", shell_quote(script.save_dir));
  if (!script.check_str.empty()) out += str(" --check-str ", shell_quote(script.check_str));
  for (const GivenSetting& given : config_patches(script))
    out += str(" --config ", shell_quote(str(given.setting->key, "=", given.text)));
  for (const std::string& argument : command_arguments(script)) out += str(" ", shell_quote(argument));
  return out + "\n";
}

}  // namespace kiln::minify
