#include "runtime/checked_code.h"

#include <cstdlib>

#include "base/error.h"
#include "base/leftovers.h"
#include "base/text.h"
#include "runtime/companion.h"

namespace kiln::runtime {

const kiln_debug_library& open_debug_library() {
  std::vector<std::string> places;
  const auto entry = reinterpret_cast<kiln_debug_library_fn>(open_companion("kiln_debug", "kiln_debug_entry", places));
  if (entry && entry()->version == KILN_DEBUG_LIBRARY_VERSION) {
    if (leftovers_go_on_signals()) entry()->remove_leftovers_on_signals();  // it has a list of its own
    return *entry();
  }
  fail_user("K0639",
            str("check_bounds needs libkiln_debug.so of this version of Kiln, which was not found: looked for ",
                join(places, ", ")));
}

std::unique_ptr<CheckedCode> CheckedCode::make(const PackageFiles* files, const format::Plan& plan,
                                               const std::string& target, const Device& device, const BuildTools& tools,
                                               const Log& log) {
  const auto refuse = [&](const std::string& why) {
    log.write(KILN_LOG_WARNING,
              str("check_bounds checks the loops of the kernels; their machine code is not checked: ", why));
    return nullptr;
  };
  std::vector<const char*> units;
  std::vector<size_t> bytes;
  const char* const ending = device.is_host() ? ".cpp" : ".cu";
  while (const auto unit = files->entry(str("debug/output_code_", target, "_", units.size(), ending))) {
    units.push_back(reinterpret_cast<const char*>(unit->data()));
    bytes.push_back(unit->size());
  }
  if (units.empty()) return nullptr;  // no generated kernel
  const auto how = files->entry(str("debug/output_code_", target, ".flags"));
  if (!how) return refuse("the package does not say how it was built; it is an older Kiln's");
  std::vector<std::string> flags = split(as_text(*how), '\n');
  if (!flags.empty() && flags.back().empty()) flags.pop_back();
  if (flags.empty() || !starts_with(flags[0], "lanes ")) return refuse("its debug section is damaged");
  const int lanes = std::atoi(flags[0].c_str() + 6);
  std::vector<const char*> pointers;
  for (size_t i = 1; i < flags.size(); ++i) pointers.push_back(flags[i].c_str());
  const kiln_debug_library& library = open_debug_library();
  if (device.is_host()) {
    void* built = library.build(units.data(), bytes.data(), units.size(), pointers.data(), pointers.size(),
                                std::max(lanes, 1), tools.compiler.c_str());
    if (!built) return refuse(library.error());
    return std::unique_ptr<CheckedCode>(new CheckedCode(library, built, nullptr));
  }
  std::optional<ByteSpan> object;
  for (const format::CodeObject& code : plan.code)
    if (code.target == target) object = files->entry(code.entry);
  if (!object) return refuse("the package's code is not where its plan says");
  const void* made = nullptr;
  size_t size = 0;
  void* built = library.build_object(units.data(), bytes.data(), units.size(), pointers.data(), pointers.size(),
                                     object->data(), object->size(), &made, &size, tools.nvrtc.c_str());
  if (!built) return refuse(library.error());
  try {
    auto module = device.load_code({static_cast<const std::byte*>(made), size}, "checked kernels", "");
    return std::unique_ptr<CheckedCode>(new CheckedCode(library, built, std::move(module)));
  } catch (const Error& error) {
    library.discard_object(built);
    return refuse(error.message());
  }
}

}  // namespace kiln::runtime
