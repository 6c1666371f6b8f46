#include "base/environment.h"

#include <glob.h>

#include <cstdlib>

#include "base/file.h"
#include "base/settings.h"
#include "base/text.h"

extern char** environ;

namespace kiln {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

std::optional<bool> parse_bool(std::string_view text) {
  const std::string word = lower_case(text);
  for (const char* yes : {"1", "true", "yes", "on"})
    if (word == yes) return true;
  for (const char* no : {"0", "false", "no", "off", "none", ""})
    if (word == no) return false;
  return std::nullopt;
}

std::string temporary_root() {
  const std::string root = variable("TMPDIR");
  return root.empty() ? "/tmp" : root;
}

std::vector<std::string> program_directories() { return split(variable("PATH"), ':'); }

std::string user_cache_root() {
  // A relative path would be another place for every directory that a command is run in.
  if (const std::string xdg = variable("XDG_CACHE_HOME"); starts_with(xdg, "/")) return xdg;
  if (const std::string home = variable("HOME"); starts_with(home, "/")) return home + "/.cache";
  return "";
}

bool said_by_environment(const Settings& settings, const Setting& setting) {
  return *setting.environment && !variable(setting.environment).empty() &&
         settings.text(setting) == trim(variable(setting.environment));
}

std::string compiler_of_environment() { return variable("KILN_CXX"); }

std::string nvrtc_of_environment() { return variable("KILN_NVRTC"); }

std::vector<std::string> cuda_toolkits_of_environment() {
  std::vector<std::string> out;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string path = variable(name); starts_with(path, "/")) out.push_back(path);
  return out;
}

std::vector<std::string> python_roots_of_environment() {
  std::vector<std::string> out;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string path = variable(name); starts_with(path, "/")) out.push_back(path);
  for (const std::string& folder : program_directories())
    if (ends_with(folder, "/bin")) out.push_back(folder.substr(0, folder.size() - 4));
  if (const std::string home = variable("HOME"); starts_with(home, "/")) out.push_back(home + "/.local");
  return out;
}

bool colours_refused() { return !variable("NO_COLOR").empty(); }

bool native_stacks_of_environment() { return parse_bool(variable("TORCH_SHOW_CPP_STACKTRACES")) != false; }

std::vector<std::string> environment_assignments() {
  std::vector<std::string> out;
  for (char** entry = environ; entry && *entry; ++entry) out.emplace_back(*entry);
  return out;
}

std::string debug_directory_root(const Settings& settings) {
  const std::string folder = "torch_compile_debug", root = settings.get_string("debug_dir_root");
  const std::string above(trim(variable("TORCH_COMPILE_DEBUG_DIR")));
  if (!above.empty() && root == above) return join_path(root, folder);
  return root.empty() ? folder : root;
}

std::vector<std::string> cuda_library_places(const std::string& name, const std::string& wheel) {
  const std::string library = str("lib", name, ".so");
  std::vector<std::string> patterns, out = {library + ".13", library + ".12", library};
  for (const std::string& toolkit : cuda_toolkits_of_environment())
    for (const char* folder : {"/lib64", "/lib", "/extras/CUPTI/lib64"}) patterns.push_back(str(toolkit, folder));
  for (const char* folder : {"/lib64", "/lib", "/extras/CUPTI/lib64"})
    patterns.push_back(str("/usr/local/cuda*", folder));
  patterns.emplace_back("/usr/lib/x86_64-linux-gnu");
  for (const std::string& root : python_roots_of_environment())
    for (const std::string& folder : {std::string("cu[0-9]*"), wheel})
      patterns.push_back(str(root, "/lib*/python3*/*-packages/nvidia/", folder, "/lib"));
  for (const std::string& pattern : patterns) {
    glob_t found{};
    if (glob(str(pattern, "/", library, "*").c_str(), 0, nullptr, &found) == 0)
      for (size_t i = found.gl_pathc; i-- > 0;) out.emplace_back(found.gl_pathv[i]);
    globfree(&found);
  }
  return out;
}

}  // namespace kiln
