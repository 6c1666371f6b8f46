// For fuzz targets and tests: reads the outermost elements of every tensor, so that a sanitizer sees a bad layout.
#pragma once
#include "pt2/tensor_files.h"

namespace kiln {

inline void touch(const std::vector<Datum>& items) {
  for (const Datum& item : items) {
    if (item.is_list()) touch(item.list());
    if (!item.is_tensor() || item.tensor().numel() == 0) continue;
    item.tensor().item(0);
    item.tensor().item(item.tensor().numel() - 1);
  }
}

}  // namespace kiln
