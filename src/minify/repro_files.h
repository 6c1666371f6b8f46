// The files that the minifier writes: programs with scripts that run or minify them again. The Python scripts are plain
// Python that calls the command `kiln` and needs nothing else; the shell scripts do the same without Python.
#pragma once
#include <optional>

#include "base/settings.h"
#include "graph/graph.h"

namespace kiln::minify {

struct ReproScript {
  std::string command = "run";  // or minify
  std::string program;          // the .pt2: a name beside the script, or a full path
  std::string save_dir;         // where minify puts its checkpoints
  std::string check_str;        // empty: none
  bool accuracy = false;
  std::optional<double> rtol, atol;
  std::string after = "aot";  // or inductor
  std::vector<std::string> custom_op_libs;
  const Settings* settings = nullptr;
  std::string torch_version;
  std::string graph_text;          // shown on top as comments; may be empty
  std::vector<std::string> notes;  // what was found and proved, shown on top
};

// Stands in every Python script of the minifier: what it wrote itself it may replace.
inline constexpr const char* repro_script_mark = "def run_repro(exported_program, *, config_patches, ";
std::string python_script(const ReproScript& script);
std::string shell_script(const ReproScript& script);

// The graph as a PyTorch module, for reading.
std::string repro_graph(const Program& program);

// Kiln's version, the C++ compiler, CPU and GPU, one line each.
std::vector<std::string> environment_lines(const ReproScript& script);

}  // namespace kiln::minify
