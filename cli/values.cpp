#include "values.h"

#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "console.h"
#include "pt2/tensor_files.h"
#include "tensor_text.h"

namespace kiln::cli {

void deliver_outputs(const std::vector<Datum>& outputs, const ParsedOptions& options) {
  const auto path = options.value("--output");
  const std::string place = path ? output_path(*path) : "";
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = str("output ", i, ": ");
    printf("%s%s\n", name.c_str(), datum_text(outputs[i], name.size()).c_str());
  }
  if (!path) return;
  TensorFile file;
  file.items = outputs;
  write_tensor_file(place, file, *path);
  printf("written to %s\n", path->c_str());
}

}  // namespace kiln::cli
