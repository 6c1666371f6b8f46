#include "output_files.h"

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/file_kind.h"

namespace kiln::cli {
namespace {

// What commands read in a directory that they are given: cases, traces, saved values. What else lies there may be an
// earlier output. A package is read where it is named, and by no command because it lies somewhere.
bool is_read_in_directories(const std::string& path) {
  const std::string kind = extension(path);
  if (kind == ".pt2") return is_directory(path) || file_kind_of(path) != FileKind::kiln_package;
  return kind == ".pt" || kind == ".jsonl" || file_name(path) == "case.json";
}

// The file below `directory` that `path` is; "": none that is read.
std::string found_in(const std::string& directory, const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto options = fs::directory_options::follow_directory_symlink | fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator at(directory, options, error), end; !error && at != end; at.increment(error))
    if (same_file(at->path().string(), path) && is_read_in_directories(at->path().string())) return at->path().string();
  return "";
}

[[noreturn]] void refuse(const std::string& path, const std::string& input) {
  fail_user("K0193", str(path, " is ", path == input ? "an input of this command" : str("the input ", input),
                         ": writing there would destroy it; give another path"));
}

}  // namespace

void check_output_file(const std::string& path, const ParsedOptions& options) {
  if (is_stream(path)) return;
  if (is_directory(path)) fail_user("K0191", str(path, " is a directory: give the path of a file to write"));
  const std::string folder = parent_path(path);
  if (!folder.empty() && !is_directory(folder))
    fail_user("K0191", str("there is no directory ", folder, " to write ", file_name(path), " to"));
  if (!file_exists(path)) return;
  for (const std::string& input : options.input_files) {
    if (same_file(input, path)) refuse(path, input);
    if (same_file(input + ".debug", path)) refuse(path, input + ".debug");  // is read where the package needs it
    if (!is_directory(input)) continue;
    if (const std::string found = found_in(input, path); !found.empty()) refuse(path, found);
  }
}

void check_output_options(const CommandSpec& command, const ParsedOptions& options) {
  std::vector<std::string> paths;
  for (const OptionSpec& option : command.options) {
    if (option.file != FileUse::written) continue;
    for (const std::string& path : options.values(option.name)) {
      check_output_file(path, options);
      for (const std::string& other : paths)
        if (other == path || (!is_stream(path) && same_file(other, path)))
          throw UsageError(str(path, " is named by two options: one would overwrite what the other writes"));
      paths.push_back(path);
    }
  }
}

}  // namespace kiln::cli
