// Parameters, buffers and constants of an exported program, over the mapped archive.
#pragma once
#include <map>
#include <string>

#include "pt2/archive_layout.h"
#include "pt2/tensor_files.h"

namespace kiln {

struct Weights {
  // By fully qualified name. Names that the file lets share a storage share it here.
  std::map<std::string, Tensor> tensors;
  // Weights that are made of others, which are in `tensors` under "<name>.<part>": name -> class.
  std::map<std::string, std::string> wrappers;
};
Weights read_weights(const ZipReader& zip, const ArchiveLayout& layout, const std::shared_ptr<const void>& keep);

}  // namespace kiln
