// A package file into the parts of a model: plan, the best code for this processor, origins, custom operators,
// constants in place in the mapped file.
#pragma once
#include "base/cpu_levels.h"
#include "base/file.h"
#include "base/zip.h"
#include "runtime/model.h"

namespace kiln::runtime {

struct PackageSource {
  ByteSpan bytes;
  std::string label;                     // its path, for messages
  std::shared_ptr<const void> keep;      // the mapping; empty: the user's memory
  std::string code_dir;                  // where the code is kept as a file; empty: nowhere
  std::shared_ptr<const ZipReader> zip;  // the archive, once it was opened
  std::shared_ptr<const Device> device;  // to load it for; empty: the one it was compiled for
  int device_index = -1;                 // of that kind; -1: the first
};

// What the package was compiled with for its runs, as "key=value". Nothing of a file that is no package: loading it
// says why.
std::vector<std::string> package_settings(PackageSource& source);

// Throws K01xx for a file that is no archive, K05xx for one that is no package of ours or does not fit this machine.
// Plan and code are always checked against their checksums, weights as `weights` says (K0115).
enum class VerifyWeights { small, never, always };
ModelParts load_package(const PackageSource& source, const std::vector<std::string>& custom_libraries,
                        const Allocator& allocator, const Log& log, const CpuFeatures& features,
                        VerifyWeights weights = VerifyWeights::small);

// Adds the operators of a library to the table. Throws K0513 when it is none.
void add_custom_ops(const CodeModule& module, const std::string& label, CustomOps& ops);

}  // namespace kiln::runtime
