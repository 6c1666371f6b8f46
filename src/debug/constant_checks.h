// Whether the constants of a package are those that the program was compiled for, and whether what is prepared from
// them when the package is loaded follows from them.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>

#include "debug/graph_truth.h"
#include "debug/package_debug.h"
#include "debug/tensor_difference.h"

namespace kiln {

class ConstantChecks {
 public:
  // All must outlive this.
  ConstantChecks(PackageDebug& package, const GraphTruth& truth, const DifferenceOptions& tolerance)
      : package_(package), truth_(truth), tolerance_(tolerance) {}

  struct Changed {
    std::string buffer, what;
  };
  // The first constant that has not the hash which it was compiled with; nothing where others were given on purpose.
  std::optional<Changed> changed() const;
  // What is wrong about a prepared constant, against what its kernels give for the constants of the package, and its
  // operators: these may be at fault, too. Each is looked at once. `difference` is that of the last comparison.
  std::optional<std::string> prepared_fault(const std::string& buffer, const Tensor& value, const SymbolValues& symbols,
                                            std::optional<Difference>& difference);

 private:
  PackageDebug& package_;
  const GraphTruth& truth_;
  const DifferenceOptions& tolerance_;
  std::set<std::string> checked_;
  std::optional<std::map<std::string, Tensor>> prepared_;  // by the loops, made when first asked for
};

}  // namespace kiln
