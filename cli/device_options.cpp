#include "device_options.h"

#include "base/error.h"
#include "base/text.h"
#include "compile/pipeline.h"
#include "compile/program_device.h"

namespace kiln::cli {
namespace {

template <class Look>
auto on_the_command_line(Look look) {
  try {
    return look();
  } catch (const Error& error) {
    throw UsageError(error.message());
  }
}

}  // namespace

std::string device_asked_for(const ParsedOptions& options) {
  const auto name = options.value("--device");
  if (name) on_the_command_line([&] { return require_device(*name); });
  return name.value_or("");
}

std::vector<std::string> targets_asked_for(const ParsedOptions& options) {
  std::vector<std::string> out;
  const auto targets = options.value("--target");
  if (!targets) return out;
  std::optional<DeviceType> device;
  if (const std::string name = device_asked_for(options); !name.empty()) device = require_device(name);
  if (trim(*targets) == "native") return out;  // what leaving it out means
  for (const std::string& target : split(*targets, ',')) {
    out.emplace_back(trim(target));
    if (out.back().empty()) throw UsageError(str("--target names nothing before or after a comma: '", *targets, "'"));
    if (out.back() == "native")
      throw UsageError(
          "--target native, this machine's best, is the same as leaving it out and has no others beside it: name the "
          "levels ('kiln --version' says which is this machine's)");
    on_the_command_line([&] { require_target(out.back(), device); });
  }
  return out;
}

}  // namespace kiln::cli
