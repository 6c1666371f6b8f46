// Where the parts of an exported program lie in its archive.
#pragma once
#include <string>

#include "base/zip.h"

namespace kiln {

struct ArchiveLayout {
  std::string model_name;  // "model"
  std::string model_json;  // entry with the graph
  // Raw storages: a config entry that lists them, and the folder of the storages. Empty: not in this archive.
  std::string weights_config, weights_folder;
  std::string constants_config, constants_folder;
  // torch.save files. Empty: not in this archive.
  std::string weights_pt, constants_pt, sample_inputs_pt;
  // Kiln's own: sample inputs as a flat list, where their containers are of types that only Python can make.
  std::string flat_inputs_pt;
};

// Throws K0162 when the archive holds no exported program.
ArchiveLayout find_layout(const ZipReader& zip);

}  // namespace kiln
