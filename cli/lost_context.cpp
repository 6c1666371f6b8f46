#include "lost_context.h"

#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "toolchain/process.h"

namespace kiln::cli {
namespace {

constexpr const char* waiting = "CUDA_LAUNCH_BLOCKING=1";

bool runs_packages(const std::string& command) {
  const char* const commands[] = {"run", "bench", "profile", "compare", "replay"};
  return std::find(std::begin(commands), std::end(commands), command) != std::end(commands);
}

std::string own_path() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  return length > 0 ? std::string(path, static_cast<size_t>(length)) : "";
}

// The error that the command ends with; "": it ends well.
std::string error_of(const std::vector<std::string>& args, const std::vector<std::string>& settings) {
  std::vector<std::string> command{own_path()};
  command.insert(command.end(), args.begin(), args.end());
  for (const std::string& setting : settings) command.push_back("--config"), command.push_back(setting);
  const ProcessResult ended = run_process(command);
  const size_t at = ended.output.find("error[K");
  if (ended.exit_code == 0 || at == std::string::npos) return "";
  return std::string(trim(std::string_view(ended.output).substr(at)));
}

}  // namespace

std::string name_lost_kernel(const std::vector<std::string>& args) {
  if (args.empty() || !runs_packages(args[0]) || own_path().empty()) return "";
  if (std::find(args.begin(), args.end(), waiting) != args.end() ||
      std::find(args.begin(), args.end(), "-") != args.end())
    return "";
  const std::string blocking = error_of(args, {waiting});
  if (blocking.find("K0777") == std::string::npos)
    return "the same command again, with each launch waited for, does not fail that way: a race, or another cause";
  std::string text = str("the same command again, with each launch waited for:\n", blocking);
  const std::string checked = error_of(args, {waiting, "check_bounds=1"});
  if (checked.find("K0330") != std::string::npos)
    text += str("\nand with every access of the loops checked:\n", checked);
  else
    text +=
        "\nthe kernel's loops, interpreted with every access checked, stay inside of its buffers: the fault is in the "
        "generated code, or in what it was compiled to";
  return text;
}

}  // namespace kiln::cli
