#include "package_inputs.h"

#include "base/error.h"
#include "executable/package_executable.h"
#include "pt2/input_files.h"

namespace kiln::cli {

std::vector<Datum> package_inputs(const std::string& package, const ParsedOptions& options) {
  const InputForm form = package_input_form(package);
  if (const auto file = options.value("--inputs")) return read_inputs(*file, form);
  if (auto samples = package_sample_inputs(package)) return std::move(*samples);
  if (!form.slots.empty()) fail_user("K0674", str(package, " carries no sample inputs: give --inputs"));
  return {};
}

}  // namespace kiln::cli
