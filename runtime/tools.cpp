#include "runtime/tools.h"

#include "base/error.h"
#include "runtime/companion.h"

// There only in programs that have the tools inside.
extern "C" __attribute__((weak, visibility("default"))) const kiln_tools_library* kiln_tools_entry(void);

namespace kiln::runtime {
namespace {

// The settings that cannot do without.
std::string needing_tools(const Settings& settings) {
  std::vector<std::string> names;
  const auto add = [&](const char* name, bool on) {
    if (on) names.emplace_back(name);
  };
  add("TORCH_LOGS", !settings.get_list("TORCH_LOGS").empty());
  for (const char* name : {"debug", "trace.enabled"}) add(name, settings.get_bool(name));
  return join(names, ", ");
}

void write_log(void* user, kiln_log_level level, const char* text) { static_cast<Log*>(user)->write(level, text); }

}  // namespace

Tools::Tools(const kiln_tools_library& library, const std::string& package, const kiln_load_options& options,
             const Log& log)
    : library_(library), log_(log), handle_(library.open(package.c_str(), &options, write_log, &log_)) {
  if (!handle_) throw Error(ErrorKind::user, library.error_code(), library.error());
}

const kiln_tools_library* Tools::find_library(std::vector<std::string>& looked) {
  auto entry = kiln_tools_entry;
  if (!entry) entry = reinterpret_cast<kiln_tools_library_fn>(open_companion("kiln_tools", "kiln_tools_entry", looked));
  return entry && entry()->version == KILN_TOOLS_LIBRARY_VERSION ? entry() : nullptr;
}

bool Tools::has_tools_inside() { return kiln_tools_entry != nullptr; }

Tools::~Tools() { library_.close(handle_); }

std::shared_ptr<Tools> Tools::when_asked(const std::string& package, const kiln_load_options& options,
                                         const Settings& settings, const Log& log) {
  const std::string asked = needing_tools(settings);
  if (has_tools_inside() || (asked.empty() && settings.get_string("TORCH_TRACE").empty())) return nullptr;
  std::vector<std::string> looked;
  const kiln_tools_library* library = package.empty() ? nullptr : find_library(looked);
  if (library) return std::shared_ptr<Tools>(new Tools(*library, package, options, log));
  if (asked.empty())
    log.write(
        KILN_LOG_WARNING,
        "TORCH_TRACE has the runs; graph, guards, code and failures need libkiln_tools.so and a package in a file");
  else
    log.write(KILN_LOG_WARNING,
              str(asked, package.empty() ? " needs a package in a file, not one in memory"
                                         : str(" needs libkiln_tools.so, which was not found (looked for ",
                                               join(looked, ", "), "); `kiln run` has it inside")));
  return nullptr;
}

std::shared_ptr<Tools> Tools::for_profile(const std::string& package) {
  std::vector<std::string> looked;
  const kiln_tools_library* library = package.empty() ? nullptr : find_library(looked);
  if (!library) return nullptr;
  kiln_load_options none{};
  none.struct_size = sizeof none, none.ignore_environment = 1;
  return std::shared_ptr<Tools>(new Tools(*library, package, none, {}));
}

}  // namespace kiln::runtime
