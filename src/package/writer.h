// Writes a package: a PT2 archive with the plan, the code objects, the weights, the sample inputs and the debug section
// (docs/package-format.md). Equal inputs give equal bytes.
#pragma once
#include "package/format.h"
#include "types/tensor.h"

namespace kiln {

struct PackageContents {
  format::Plan plan;  // constants by name; entries and build id are filled in here
  format::Origins origins;
  struct Code {
    std::string target;  // "x86-64-v4"
    std::string bytes;   // a shared object
  };
  std::vector<Code> code;
  struct Library {
    std::string name, bytes;  // custom operators
  };
  std::vector<Library> custom_libraries;
  std::map<std::string, Tensor> constants;  // by name: at least those of the plan
  std::string sample_inputs;                // a .pt archive; empty: none
  std::vector<std::string> run_settings;    // "key=value": what runs of it start with
  // How forward takes and gives what the flat inputs and outputs are: pytrees and argument names, as the export has
  // them.
  std::string in_spec, out_spec;
  std::vector<std::string> argument_names;
  std::map<std::string, std::string> debug;  // entry name under debug/ -> contents
  bool strip_debug = false;                  // the debug section goes to PATH.debug
};

struct PackageWritten {
  uint64_t bytes = 0;
  std::string build_id;
  std::string debug_path;  // of the sidecar, if one was written
};
PackageWritten write_package(const std::string& path, PackageContents contents);

}  // namespace kiln
