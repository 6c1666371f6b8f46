#include "minify/package_program.h"

#include "base/error.h"
#include "base/file.h"
#include "debug/package_debug.h"
#include "executable/package_executable.h"

namespace kiln::minify {

Program program_of_package(const std::string& path) {
  const PackageDebug package(path);
  const auto graph = package.entry("debug/graph.txt");
  if (!graph) fail_user("K0681", str(path, " has no debug/graph.txt: minify the model that it was compiled from"));
  // The mapping lives as long as the tensors over it.
  Program program = parse_program(*graph, package.constants());
  for (size_t i = 0; i < program.graph.inputs.size(); ++i) {
    const InputSpec& spec = program.input_specs[i];
    const bool constant =
        spec.kind == InputKind::parameter || spec.kind == InputKind::buffer || spec.kind == InputKind::constant_tensor;
    if (constant && !program.constants[spec.target].defined())
      fail_user("K0681", str("the package does not hold the constant '", spec.target,
                             "' any more: minify the model that it was compiled from"));
  }
  if (auto samples = package_sample_inputs(path)) program.sample_inputs = std::move(*samples);
  return program;
}

std::string device_of_package(const std::string& path) { return device_type_name(PackageDebug(path).plan().device); }

std::vector<std::string> settings_of_package(const std::string& path) {
  std::vector<std::string> out;
  const PackageDebug package(path);
  out = package.compile_settings();
  for (const std::string& line : split(package.entry("settings").value_or(""), '\n'))  // and its defaults for runs
    if (!line.empty()) out.push_back(line);
  return out;
}

}  // namespace kiln::minify
