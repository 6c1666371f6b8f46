#include "base/file.h"
#include "base/script_text.h"
#include "base/version.h"
#include "trace/debug_directory.h"
#include "trace/plan_text.h"

namespace kiln {
namespace {

// The steps that run a function, with the operators and lines of each.
std::map<int32_t, std::string> function_comments(const CodeEvent& event) {
  std::map<int32_t, const format::StepOrigin*> origins;
  if (event.origins)
    for (const format::StepOrigin& origin : event.origins->steps) origins[origin.number] = &origin;
  std::map<int32_t, std::string> out;
  auto visit = [&](const format::Step& step, int) {
    if (step.kind != format::StepKind::kernel) return;
    std::string& text = out[step.kernel];
    text += comment_lines(str("step ", step.number, ": ", plan_step_call(*event.plan, step)), "//");
    const auto found = origins.find(step.number);
    if (found == origins.end()) return;
    const format::StepOrigin& origin = *found->second;
    for (size_t i = 0; i < origin.ops.size(); ++i) {
      std::string from = str("//   ", origin.ops[i], " (", origin.nodes[i], ")");
      if (!origin.modules[i].empty()) from += str(" in ", origin.modules[i]);
      if (!origin.lines[i].empty()) from += str("  ", replace_all(origin.lines[i], "\n", " "));
      text += comment_text(from) + "\n";
    }
  };
  for_each_step(event.plan->init, visit);
  for_each_step(event.plan->steps, visit);
  return out;
}

}  // namespace

std::string output_code_cpp(const CodeEvent& event, const std::string& model_name) {
  std::string out = str("// ", comment_text(model_name), ", compiled by Kiln ",
                        event.recorded ? event.plan->kiln_version : version_text, " for ", event.target->name, " (",
                        event.target->lanes, " lanes of f32)\n// flags: ", join(event.code->flags, " "), "\n//\n");
  out += comment_lines(trim(plan_text(*event.plan)), "//") + "\n";
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
  return out + codegen::backend_for(event.target->device).unit_text(kernels, *event.target);
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
  out = replace_all(out, "$PACKAGE", python_quote(package_path));
  out += replace_all(cpp, "\"\"\"", "''");
  // Only in the text of this file: "$VALUES" may stand in a path.
  return out + replace_all(R"py("""


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
)py",
                           "$VALUES", python_quote(values_file));
}

}  // namespace kiln
