// The tools that need the compiler (include/kiln/tools_library.h), where the settings of a loaded package ask for one:
// logs and debug directory of a package that exists, failures in the trace, counts of operations. In the command
// `kiln`, which has the tools inside, the command uses them itself and this finds nothing to do.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/settings.h"
#include "kiln/tools_library.h"
#include "runtime/log.h"

namespace kiln::runtime {

class Tools {
 public:
  // nullptr when nothing asks for them, or when the library is not there, which is said. `package` is "" for one in
  // memory, which the tools cannot read.
  static std::shared_ptr<Tools> when_asked(const std::string& package, const kiln_load_options& options,
                                           const Settings& settings, const Log& log);
  // nullptr when it is not there; `looked` gets the places.
  static const kiln_tools_library* find_library(std::vector<std::string>& looked);
  static bool has_tools_inside();  // of this program itself
  // nullptr when the library is not there.
  static std::shared_ptr<Tools> for_profile(const std::string& package);
  ~Tools();
  Tools(const Tools&) = delete;

  const kiln_tools_library& library() const { return library_; }
  void* handle() const { return handle_; }

 private:
  Tools(const kiln_tools_library& library, const std::string& package, const kiln_load_options& options,
        const Log& log);

  const kiln_tools_library& library_;
  Log log_;
  void* handle_;
};

}  // namespace kiln::runtime
