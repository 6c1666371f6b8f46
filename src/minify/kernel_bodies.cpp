#include "minify/kernel_bodies.h"

#include <map>

#include "base/sha256.h"
#include "base/text.h"
#include "compile/compilation.h"
#include "types/device_names.h"

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
                          const std::vector<std::string>& custom_op_libs, const std::string& device) {
  CompilationOptions options;
  if (device_type_from_name(device) == DeviceType::cuda) options.device = DeviceType::cuda;
  options.settings = &settings;
  options.custom_op_libs = custom_op_libs;
  Compilation compilation(program, std::move(options));
  const codegen::GeneratedCode& code = compilation.code();
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
