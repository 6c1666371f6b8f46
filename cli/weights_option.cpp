#include "weights_option.h"

#include <set>

#include "base/counted.h"
#include "console.h"
#include "executable/package_executable.h"
#include "pt2/tensor_files.h"

namespace kiln::cli {
namespace {

// "a, b, c and 4 more".
std::string first_of(const std::set<std::string>& names) {
  std::string out;
  size_t told = 0;
  for (const std::string& name : names) {
    if (told == 3) return str(out, " and ", names.size() - told, " more");
    out += str(told++ > 0 ? ", " : "", name);
  }
  return out;
}

}  // namespace

OptionSpec weights_option() {
  return {"--weights", "",
          "F",         "weights by name (a state dict in .pt, .safetensors or .npz), in place of the package's",
          false,       FileUse::read};
}

std::string given_weights(const std::string& package, const ParsedOptions& options) {
  const std::string path = options.value_or("--weights", "");
  if (path.empty()) return path;
  std::set<std::string> unused, lacking;
  for (const auto& [name, tensor] : read_weights(path)) unused.insert(name);
  const format::Plan plan = package_plan(package);
  std::set<std::string> given;  // one of several names of a constant is enough
  const auto first = [&](const format::Constant& constant) {
    return constant.same_as == format::none ? constant.name
                                            : plan.constants[static_cast<size_t>(constant.same_as)].name;
  };
  for (const format::Constant& constant : plan.constants)
    if (unused.erase(constant.name) > 0) given.insert(first(constant));
  for (const format::Constant& constant : plan.constants)
    if (constant.origin == format::ConstantOrigin::state && !given.contains(first(constant)))
      lacking.insert(constant.name);
  if (!unused.empty())
    tell_note(
        str(path, " has ", counted(unused.size(), "name"), " that the package has no use for: ", first_of(unused)));
  if (!lacking.empty())
    tell_note(
        str(path, " lacks ", counted(lacking.size(), "weight"), "; the package's own are used: ", first_of(lacking)));
  return path;
}

}  // namespace kiln::cli
