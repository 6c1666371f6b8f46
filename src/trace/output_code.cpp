#include "base/file.h"
#include "base/version.h"
#include "trace/debug_directory.h"
#include "trace/plan_text.h"

namespace kiln {
namespace {

std::string commented(const std::string& text) {
  std::string out;
  for (const std::string& line : split(trim(text), '\n')) out += str("//", line.empty() ? "" : " ", line, "\n");
  return out;
}

// The steps that run a function, with the operators and lines of each.
std::map<int32_t, std::string> function_comments(const CodeEvent& event) {
  std::map<int32_t, const format::StepOrigin*> origins;
  if (event.origins)
    for (const format::StepOrigin& origin : event.origins->steps) origins[origin.number] = &origin;
  std::map<int32_t, std::string> out;
  auto visit = [&](const format::Step& step, int) {
    if (step.kind != format::StepKind::kernel) return;
    std::string& text = out[step.kernel];
    text += str("// step ", step.number, ": ", plan_step_call(*event.plan, step), "\n");
    const auto found = origins.find(step.number);
    if (found == origins.end()) return;
    const format::StepOrigin& origin = *found->second;
    for (size_t i = 0; i < origin.ops.size(); ++i) {
      text += str("//   ", origin.ops[i], " (", origin.nodes[i], ")");
      if (!origin.modules[i].empty()) text += str(" in ", origin.modules[i]);
      if (!origin.lines[i].empty()) text += str("  ", replace_all(origin.lines[i], "\n", " "));
      text += "\n";
    }
  };
  for_each_step(event.plan->init, visit);
  for_each_step(event.plan->steps, visit);
  return out;
}

}  // namespace

std::string output_code_cpp(const CodeEvent& event, const std::string& model_name) {
  std::string out = str("// ", model_name, ", compiled by Kiln ",
                        event.recorded ? event.plan->kiln_version : version_text, " for ", event.target->name, " (",
                        event.target->lanes, " lanes of f32)\n// flags: ", join(event.code->flags, " "), "\n//\n");
  out += commented(plan_text(*event.plan)) + "\n";
  const std::map<int32_t, std::string> comments = function_comments(event);
  if (event.recorded) {
    // The units as they were compiled, whatever this Kiln would put in front of them.
    for (const auto& [function, comment] : comments) out += comment;
    for (const std::string& unit : event.code->sources) out += "\n" + unit;
    return out;
  }
  std::string kernels;
  for (size_t f = 0; f < event.code->texts.size(); ++f) {
    const auto comment = comments.find(static_cast<int32_t>(f));
    if (comment != comments.end()) kernels += comment->second;
    kernels += event.code->texts[f] + "\n";
  }
  return out + codegen::unit_text(kernels, *event.target);
}

std::string output_code_python(const std::string& cpp, const std::string& package_path,
                               const std::string& values_file) {
  // The generated C++ holds no triple quotes; a raw string keeps its backslashes.
  std::string out = R"py(# The compiled program: its C++ as text, and the package, loaded with Kiln's Python package.
#
#   python output_code.py        runs the package on the model's sample inputs
import os

import kiln

PACKAGE = $PACKAGE

cpp_source = r"""
)py";
  out = replace_all(out, "$PACKAGE", quote(package_path));
  out += replace_all(cpp, "\"\"\"", "''");
  out += R"py("""


def load(path=None, device_index=-1):
    return kiln.aoti_load_package(path or os.environ.get("KILN_PACKAGE", PACKAGE), device_index)


def call(args):
    return load()(*args)


if __name__ == "__main__":
    import torch

    here = os.path.dirname(os.path.abspath(__file__))
    values = torch.load(os.path.join(here, $VALUES), weights_only=True)
    inputs = []
    while f"inputs/{len(inputs)}" in values:
        inputs.append(values[f"inputs/{len(inputs)}"])
    print(call(inputs))
)py";
  return replace_all(out, "$VALUES", quote(values_file));
}

}  // namespace kiln
