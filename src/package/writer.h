// Writes a package: a PT2 archive with the plan, the code objects, the weights, the sample inputs and the debug section
// (docs/package-format.md). Equal inputs give equal bytes.
#pragma once
#include "package/format.h"
#include "types/tensor.h"

namespace kiln {

struct PackageContents {
  // The program as it was scheduled for one target. All have the same inputs, outputs and constants.
  struct Variant {
    std::string target;  // "x86-64-v4"
    std::string code;    // a shared object; empty: it has no kernels of its own
    format::Plan plan;   // constants by name; entries and build id are filled in here
    format::Origins origins;
    std::map<std::string, std::string> debug;             // what of the debug section is of this target
    std::map<int32_t, std::shared_ptr<Storage>> derived;  // buffers that need no init: what they hold
  };
  std::vector<Variant> variants;  // the first is the one that tools show
  struct Library {
    std::string name, bytes;  // custom operators
  };
  std::vector<Library> custom_libraries;
  std::map<std::string, Tensor> constants;  // by name: at least those of the plan
  std::set<std::string> state;              // those of the module's state dict: parameters, persistent buffers
  bool without_state = false;               // their values stay out: whoever loads the package gives them
  std::string sample_inputs;                // a .pt archive; empty: none
  std::map<std::string, std::string> test;  // files of the test that it carries, by name under test/
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

// Writes one package. Weights are most of it, and known long before the code is: they can be on their way to the disk
// while kernels are compiled. Their place in the archive is the same either way.
class PackageWriter {
 public:
  explicit PackageWriter(std::string path);
  PackageWriter(const PackageWriter&) = delete;
  PackageWriter& operator=(const PackageWriter&) = delete;
  ~PackageWriter();  // without finish() nothing is left at the path
  // Begins to write the weights that a package with this plan and these contents will have, in a thread of its own.
  // finish() must be given the same ones; what goes wrong comes out there.
  void start_weights(format::Plan plan, const PackageContents& contents);
  PackageWritten finish(PackageContents contents);
  double weights_seconds() const;  // that the thread has taken
  const std::string& path() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};
PackageWritten write_package(const std::string& path, PackageContents contents);

}  // namespace kiln
