#include "debug/constant_checks.h"

#include "debug/bisect_checks.h"
#include "debug/step_copy.h"
#include "graph/graph_text.h"

namespace kiln {

std::optional<ConstantChecks::Changed> ConstantChecks::changed() const {
  if (package_.other_weights()) return std::nullopt;
  for (const auto& [name, hash] : package_.graph().constant_hashes) {
    const auto found = package_.constants().find(name);
    if (found == package_.constants().end() || graph_text::constant_hash(found->second) == hash) continue;
    std::string buffer = name;
    for (const loops::Buffer& b : package_.steps().program().buffers)
      if (b.constant == name) buffer = b.name;
    return Changed{buffer, str("the constant ", name, " (buffer ", buffer,
                               ") of the package does not hold the values that the program was compiled with")};
  }
  return std::nullopt;
}

std::optional<std::string> ConstantChecks::prepared_fault(const std::string& buffer, const Tensor& value,
                                                          const SymbolValues& symbols,
                                                          std::optional<Difference>& difference) {
  if (!checked_.insert(buffer).second) return std::nullopt;
  if (!prepared_) prepared_ = run_init(package_.steps(), package_.constants());
  const auto found = prepared_->find(buffer);
  if (found == prepared_->end()) return std::nullopt;
  difference = find_difference(value, found->second, {}, tolerance_);
  if (difference) return "does not hold what its constants give, " + difference->text();
  // Its kernel may be wrong, too.
  const std::vector<std::string> names = packed_from(package_.steps(), buffer);
  std::vector<Tensor> sources;
  for (const std::string& name : names)
    if (const auto source = package_.constants().find(name); source != package_.constants().end())
      sources.push_back(source->second);
  if (!names.empty() && sources.size() == names.size() && !same_values(value, sources))
    return str("is to hold the values of ", join(names, ", "), " in another order, and does not");
  if (!truth_.has(buffer)) return std::nullopt;
  const auto truth = truth_.compute({buffer, {}, symbols, 0, {}});
  if (truth && truth->fp64.sizes == value.sizes)
    difference = find_difference(value, truth->fp64, truth->nominal, tolerance_);
  if (!difference) return std::nullopt;
  return "is not what its operators give for its constants, " + difference->text();
}

}  // namespace kiln
