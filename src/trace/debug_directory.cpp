#include "trace/debug_directory.h"

#include <cstdlib>

#include "base/environment.h"
#include "base/file.h"
#include "base/trace_file.h"
#include "base/version.h"
#include "ops/op_record.h"
#include "trace/graph_python.h"

namespace kiln {
namespace {

constexpr const char* values_file = "fx_graph_runnable.pt";

// A model's name is the user's: it must stay one folder below the run's.
std::string folder_for(const CompileStart& start) {
  std::string name = start.model_path.empty() ? start.program->name : stem(file_name(start.model_path));
  for (char& c : name)
    if (c == '/' || static_cast<unsigned char>(c) <= ' ') c = '_';
  return name.empty() || name[0] == '.' ? "model" + name : name;
}

class DebugDirectory : public CompileObserver {
 public:
  explicit DebugDirectory(std::string run_directory) : run_directory_(std::move(run_directory)) {}

  void started(const CompileStart& start) override {
    package_path_ = start.package_path;
    model_name_ = start.program->name;
    make_private_directory(run_directory_);  // weights and source are in it
    const std::string wish = join_path(run_directory_, folder_for(start));
    std::string folder = wish;
    for (int i = 1; file_exists(folder); ++i) folder = str(wish, "_", i);
    make_directories(folder, 0700);
    directory_ = folder;  // from here on there is something to write to
    // Schemas say which arguments go by position. An operator that nobody knows is the compile's error to report.
    Program named = start.program->clone();
    try {
      resolve_operators(named.graph, {});
    } catch (const Error&) {
    }
    write("fx_graph_readable.py", "import torch\n\n\n" + readable_python(named));
    write("fx_graph_runnable.py", runnable_python(named, values_file, heading(start)));
    write_runnable_values(*start.program, join_path(directory_, values_file));
  }

  void pass_done(const PassEvent& pass) override {
    if (directory_.empty() || pass.stage != "lower") return;
    write("fx_graph_transformed.py", "import torch\n\n\n" + readable_python(*pass.program));
    write("ir_pre_fusion.txt", loops::print(*pass.loops));
  }

  void code_made(const CodeEvent& event) override {
    if (directory_.empty() || !event.plan) return;
    write("ir_post_fusion.txt", loops::print(*event.loops));
    const std::string cpp = output_code_cpp(event, model_name_);
    write("output_code.cpp", cpp);
    write("output_code.py", output_code_python(cpp, package_path_, values_file));
  }

  std::vector<std::string> notes() const override {
    if (directory_.empty()) return {};
    return {str("debug directory: ", directory_)};
  }

 private:
  static std::string heading(const CompileStart& start) {
    return str("The exported program '", start.program->name, "', for PyTorch. Written by Kiln ", version_text, ".\n",
               "torch version of the export: ", start.program->torch_version, "\n\n",
               "  python fx_graph_runnable.py [--inputs FILE.pt] [-o OUT.pt]\n\n", "Weights and sample inputs are in ",
               values_file, " beside this file.");
  }
  void write(const char* name, const std::string& contents) {
    write_file_atomic(join_path(directory_, name), contents, FileAccess::owner);
  }

  std::string run_directory_, directory_, package_path_, model_name_;
};

}  // namespace

bool debug_directory_wanted(const Settings& settings) {
  return settings.get_bool("debug") || settings.get_bool("trace.enabled");
}

std::string debug_run_directory(const Settings& settings) {
  return join_path(debug_directory_root(settings), "run_" + process_stamp());
}

std::unique_ptr<CompileObserver> make_debug_directory(const std::string& run_directory) {
  return std::make_unique<DebugDirectory>(run_directory);
}

}  // namespace kiln
