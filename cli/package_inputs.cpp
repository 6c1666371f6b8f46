#include "package_inputs.h"

#include "base/error.h"
#include "driver/executable_package.h"
#include "values.h"

namespace kiln::cli {

std::vector<Datum> package_inputs(const std::string& package, const ParsedOptions& options) {
  const std::vector<std::string> names = package_input_names(package);
  if (const auto file = options.value("--inputs")) return read_inputs(*file, names);
  if (auto samples = package_sample_inputs(package)) return std::move(*samples);
  if (!names.empty()) fail_user("K0674", str(package, " carries no sample inputs: give --inputs"));
  return {};
}

}  // namespace kiln::cli
