#include "values.h"

#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "pt2/tensor_files.h"
#include "tensor_text.h"

namespace kiln::cli {

std::vector<Datum> read_inputs(const std::string& path, const std::vector<std::string>& input_names) {
  TensorFile file = read_tensor_file(path);
  std::vector<Datum> ordered;
  for (const std::string& name : input_names) {
    const auto found = std::find(file.names.begin(), file.names.end(), name);
    if (found == file.names.end()) return std::move(file.items);
    ordered.push_back(file.items[static_cast<size_t>(found - file.names.begin())]);
  }
  return file.items.size() == ordered.size() ? ordered : std::move(file.items);
}

void deliver_outputs(const std::vector<Datum>& outputs, const ParsedOptions& options) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = str("output ", i, ": ");
    printf("%s%s\n", name.c_str(), datum_text(outputs[i], name.size()).c_str());
  }
  const auto path = options.value("--output");
  if (!path) return;
  TensorFile file;
  file.items = outputs;
  write_tensor_file(*path, file);
  printf("written to %s\n", path->c_str());
}

}  // namespace kiln::cli
