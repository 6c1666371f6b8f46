#include "minify/checkpoints.h"

#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "minify/cut.h"
#include "pt2/writer.h"
#include "trace/debug_directory.h"

namespace kiln::minify {
namespace {

std::string absolute(const std::string& path) {
  if (starts_with(path, "/")) return path;
  char here[4096];
  if (!getcwd(here, sizeof here)) return path;
  return path == "." ? std::string(here) : join_path(here, path);
}

std::string default_directory(const MinifyOptions& options) {
  Settings defaults(Phase::both);
  const std::string run = debug_run_directory(options.settings ? *options.settings : defaults);
  return join_path(join_path(run, "minifier"), "checkpoints");
}

}  // namespace

Checkpoints::Checkpoints(const MinifyOptions& options, std::string torch_version)
    : options_(options),
      directory_(absolute(options.save_dir.empty() ? default_directory(options) : options.save_dir)),
      torch_version_(std::move(torch_version)) {
  make_directories(directory_, 0700);
}

ReproScript Checkpoints::script(const Program& program, const std::vector<std::string>& notes) const {
  ReproScript script;
  script.command = "run";
  script.save_dir = directory_;
  script.check_str = options_.check_str;
  script.accuracy = options_.accuracy;
  script.rtol = options_.rtol;
  script.atol = options_.atol;
  script.after = options_.after;
  script.custom_op_libs = options_.custom_op_libs;
  script.settings = options_.settings;
  script.torch_version = torch_version_;
  script.graph_text = repro_graph(program);
  script.notes = notes;
  return script;
}

void Checkpoints::write(const Program& program, const std::vector<std::string>& notes) {
  const int nodes = count_nodes(program);
  const std::string base = join_path(directory_, str(nodes));
  write_pt2(program, base + ".pt2");
  ReproScript text = script(program, notes);
  text.program = str(nodes, ".pt2");
  write_file_atomic(base + ".py", python_script(text), FileAccess::owner);
  if (std::exchange(last_, nodes) == nodes) return;  // said already; now with what was proved
  if (options_.say)
    options_.say(str("Writing checkpoint with ", counted(static_cast<uint64_t>(nodes), "node"), " to ", base, ".py"));
}

void Checkpoints::offer(const Program& program) {
  const int nodes = count_nodes(program);
  if (last_ > 0 && nodes * 2 > last_) return;
  write(program, {});
}

namespace {

// Whether the script is one of ours, with the program beside it, and may be replaced by the next.
bool is_repro_script(const std::string& path) { return read_file(path).find(repro_script_mark) != std::string::npos; }

}  // namespace

// "repro", or "repro_1" and so on where files of these names are the user's own or what is being minified.
std::string Checkpoints::repro_name(const std::string& target) const {
  for (int number = 0;; ++number) {
    const std::string name = number == 0 ? "repro" : str("repro_", number), base = join_path(target, name);
    bool there = false, input = false;
    for (const char* kind : {".py", ".pt2", ".sh", "_kernel.cpp"}) {
      there = there || file_exists(base + kind);
      for (const std::string& path : options_.inputs) input = input || same_file(path, base + kind);
    }
    if (!there || (!input && file_exists(base + ".py") && is_repro_script(base + ".py"))) return name;
  }
}

std::string Checkpoints::finish(const Program& program, const std::vector<std::string>& notes) {
  write(program, notes);
  const std::string target = absolute(options_.copy_to);
  ReproScript text = script(program, notes);
  const std::string name = repro_name(target), base = join_path(target, name);
  if (name != "repro" && options_.say)
    options_.say(str("note: repro.py, repro.pt2 or repro.sh in ", target,
                     " was not written by the minifier, or is its input: it stays, and the repro is ", name, ".py"));
  text.program = name + ".pt2";
  const std::string python = base + ".py", shell = base + ".sh";
  write_pt2(program, base + ".pt2");
  write_file_atomic(python, python_script(text));
  write_file_atomic(shell, shell_script(text));
  chmod(shell.c_str(), 0755);
  if (options_.say) options_.say(str("Copying repro file for convenience to ", python));
  return python;
}

}  // namespace kiln::minify
