#include "thread_options.h"

#include "base/text.h"

namespace kiln::cli {

OptionSpec threads_option() {
  return {"--threads", "", "N",
          "threads that one call may use, as cpp.threads (default: what the package or the setting says, else as many "
          "as affinity and quota allow)",
          false};
}

std::vector<std::string> run_settings(const ParsedOptions& options, const Settings& settings) {
  std::vector<std::string> out = options.values("--config");
  const auto threads = options.integer("--threads", 1, 1024);
  if (!threads) return out;
  if (settings.given("cpp.threads") && settings.get_int("cpp.threads") != *threads)
    throw UsageError(str("--threads ", *threads, " and --config cpp.threads=", settings.get_int("cpp.threads"),
                         " contradict each other: give one of them"));
  out.push_back(str("cpp.threads=", *threads));
  return out;
}

}  // namespace kiln::cli
