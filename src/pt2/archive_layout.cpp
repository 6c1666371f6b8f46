#include "pt2/archive_layout.h"

#include "base/error.h"
#include "base/file_kind.h"

namespace kiln {
namespace {

// Before PyTorch 2.8: four entries at the top.
ArchiveLayout old_layout() {
  ArchiveLayout layout;
  layout.model_name = "model";
  layout.model_json = "serialized_exported_program.json";
  layout.weights_pt = "serialized_state_dict.pt";
  layout.constants_pt = "serialized_constants.pt";
  layout.sample_inputs_pt = "serialized_example_inputs.pt";
  return layout;
}

// "<root>models/<name>.json", of which there must be one.
const ZipEntry* find_model(const ZipReader& zip, std::string& root, std::string& name) {
  const ZipEntry* found = nullptr;
  for (const ZipEntry& entry : zip.entries()) {
    const size_t folder = entry.name.rfind("models/");
    if (folder == std::string::npos || !ends_with(entry.name, ".json")) continue;
    if (folder != 0 && entry.name[folder - 1] != '/') continue;
    const std::string rest = entry.name.substr(folder + 7);
    if (rest.find('/') != std::string::npos) continue;
    if (found != nullptr)
      fail_unsupported("K0162", str(zip.label(), " holds several models; Kiln reads archives with one"));
    found = &entry;
    root = entry.name.substr(0, folder);
    name = rest.substr(0, rest.size() - 5);
  }
  return found;
}

std::string if_present(const ZipReader& zip, std::string name) { return zip.find(name) != nullptr ? name : ""; }

}  // namespace

ArchiveLayout find_layout(const ZipReader& zip) {
  if (zip.find("serialized_exported_program.json") != nullptr) {
    ArchiveLayout layout = old_layout();
    for (std::string* entry : {&layout.weights_pt, &layout.constants_pt, &layout.sample_inputs_pt})
      *entry = if_present(zip, *entry);
    return layout;
  }
  ArchiveLayout layout;
  std::string root;
  const ZipEntry* model = find_model(zip, root, layout.model_name);
  if (model == nullptr) fail_user("K0162", not_a_model_text(zip.label(), file_kind(zip)));
  layout.model_json = model->name;
  layout.weights_folder = root + "data/weights/";
  layout.constants_folder = root + "data/constants/";
  layout.weights_config = if_present(zip, str(layout.weights_folder, layout.model_name, "_weights_config.json"));
  layout.constants_config = if_present(zip, str(layout.constants_folder, layout.model_name, "_constants_config.json"));
  layout.weights_pt = if_present(zip, str(layout.weights_folder, layout.model_name, ".pt"));
  layout.constants_pt = if_present(zip, str(layout.constants_folder, layout.model_name, ".pt"));
  layout.sample_inputs_pt = if_present(zip, str(root, "data/sample_inputs/", layout.model_name, ".pt"));
  layout.flat_inputs_pt = if_present(zip, str(root, "data/sample_inputs/", layout.model_name, "_flat.pt"));
  return layout;
}

}  // namespace kiln
