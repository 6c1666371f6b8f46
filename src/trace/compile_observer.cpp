#include "trace/compile_observer.h"

#include "trace/compile_logs.h"
#include "trace/compile_trace.h"
#include "trace/debug_directory.h"

namespace kiln {

std::vector<std::string> CompileObservers::notes() const {
  std::vector<std::string> out;
  for (const auto& observer : list_)
    for (std::string& note : observer->notes()) out.push_back(std::move(note));
  for (const std::string& problem : problems_)
    if (std::find(out.begin(), out.end(), problem) == out.end()) out.push_back(problem);
  return out;
}

CompileObservers compile_observers(const Settings& settings) {
  CompileObservers all;
  LogSelection selection(settings.get_list("TORCH_LOGS"));
  if (selection.any() || selection.help())
    all.add_if_possible("no log",
                        [&] { return make_compile_logs(std::move(selection), settings.get_string("TORCH_LOGS_OUT")); });
  if (debug_directory_wanted(settings)) all.add(make_debug_directory(debug_run_directory(settings)));
  if (const std::string directory = settings.get_string("TORCH_TRACE"); !directory.empty())
    all.add_if_possible("no trace", [&] { return make_compile_trace(directory); });
  return all;
}

}  // namespace kiln
