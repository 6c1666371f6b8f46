#include "minify/kernel_bodies.h"

#include <map>

#include "base/sha256.h"
#include "base/text.h"
#include "codegen/backend.h"
#include "compile/pipeline.h"
#include "custom/custom_operators.h"

namespace kiln::minify {
namespace {

std::map<std::string, std::string> by_hash(const std::string& text) {
  std::map<std::string, std::string> out;
  for (const std::string& line : split(text, '\n'))
    if (const size_t space = line.find(' '); space != std::string::npos)
      out.emplace(line.substr(0, space), line.substr(space + 1));
  return out;
}

}  // namespace

std::string kernel_bodies(const Program& program, const Settings& settings,
                          const std::vector<std::string>& custom_op_libs) {
  const codegen::Target target =
      codegen::cpu_backend().target(codegen::cpu_backend().host_target_name(),
                                    static_cast<int>(settings.get_optional_int("cpp.simdlen").value_or(0)));
  PipelineOptions options;
  options.target = target;
  options.disabled = settings.get_list("disable_pass");
  options.fault = fault_of(settings);
  options.custom_ops = CustomOperators(custom_op_libs).declared();
  const PipelineResult result = run_pipeline(program, options);
  const codegen::GeneratedCode code = codegen::cpu_backend().generate(result.loops, target, options.fault);
  std::string out;
  for (size_t i = 0; i < code.texts.size() && i < code.symbols.size(); ++i)
    out += str(sha256_hex(replace_all(code.texts[i], code.symbols[i], "")).substr(0, 16), " ", code.symbols[i], "\n");
  return out;
}

std::string same_kernels_note(const std::string& part, const std::string& whole) {
  const std::map<std::string, std::string> small = by_hash(part), large = by_hash(whole);
  if (small.empty()) return "";
  std::vector<std::string> same, other;
  for (const auto& [hash, name] : small) {
    const auto found = large.find(hash);
    if (found == large.end())
      other.push_back(name);
    else
      same.push_back(found->second == name ? name : str(name, " (there ", found->second, ")"));
  }
  if (other.empty()) return str("Proved on the same kernel body as in the whole program: ", join(same, ", "));
  if (same.empty()) return str("Proved on another kernel body than in the whole program: ", join(other, ", "));
  return str("Proved on kernels of the whole program (", join(same, ", "), ") and on others (", join(other, ", "), ")");
}

}  // namespace kiln::minify
