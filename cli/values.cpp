#include "values.h"

#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "command.h"
#include "console.h"
#include "pt2/tensor_files.h"
#include "tensor_text.h"

namespace kiln::cli {
namespace {

// One without a key goes by its number, where others have one.
TensorFile named_file(const std::vector<Datum>& outputs, const std::vector<std::string>& keys) {
  TensorFile file;
  file.items = outputs;
  const bool keyed = std::any_of(keys.begin(), keys.end(), [](const std::string& key) { return !key.empty(); });
  for (size_t i = 0; keyed && i < outputs.size(); ++i)
    file.names.push_back(i >= keys.size() || keys[i].empty() ? str(i) : keys[i]);
  return file;
}

}  // namespace

void check_output_option(const ParsedOptions& options) {
  const auto path = options.value("--output");
  if (!path) return;
  if (!is_stream(*path)) check_tensor_path(*path);
}

void check_output_fits(const std::vector<Datum>& stand_ins, const std::vector<std::string>& keys,
                       const ParsedOptions& options) {
  const auto path = options.value("--output");
  if (!path || is_stream(*path)) return;
  check_tensor_file_holds(*path, named_file(stand_ins, keys));
}

void deliver_outputs(const std::vector<Datum>& outputs, const std::vector<std::string>& keys,
                     const ParsedOptions& options) {
  const auto key = [&](size_t i) { return i < keys.size() ? keys[i] : std::string(); };
  const auto path = options.value("--output");
  const std::string place = path ? output_path(*path) : "";
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = str("output ", i, key(i).empty() ? "" : " ", key(i), ": ");
    printf("%s%s\n", name.c_str(), datum_text(outputs[i], name.size()).c_str());
  }
  if (!path) return;
  write_tensor_file(place, named_file(outputs, keys), *path);
  printf("written to %s\n", path->c_str());
}

}  // namespace kiln::cli
