#include "values.h"

#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "command.h"
#include "console.h"
#include "pt2/tensor_files.h"
#include "tensor_text.h"

namespace kiln::cli {

void check_output_option(const ParsedOptions& options) {
  const auto path = options.value("--output");
  if (!path) return;
  if (!is_stream(*path)) check_tensor_path(*path);
  check_output_folder(*path);
}

void deliver_outputs(const std::vector<Datum>& outputs, const std::vector<std::string>& keys,
                     const ParsedOptions& options) {
  const auto key = [&](size_t i) { return i < keys.size() ? keys[i] : std::string(); };
  bool keyed = false;
  const auto path = options.value("--output");
  const std::string place = path ? output_path(*path) : "";
  for (size_t i = 0; i < outputs.size(); ++i) {
    keyed |= !key(i).empty();
    const std::string name = str("output ", i, key(i).empty() ? "" : " ", key(i), ": ");
    printf("%s%s\n", name.c_str(), datum_text(outputs[i], name.size()).c_str());
  }
  if (!path) return;
  TensorFile file;
  file.items = outputs;
  for (size_t i = 0; keyed && i < outputs.size(); ++i) file.names.push_back(key(i).empty() ? str(i) : key(i));
  write_tensor_file(place, file, *path);
  printf("written to %s\n", path->c_str());
}

}  // namespace kiln::cli
