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

// Only .pt holds None: what else there is goes into the file, under the names that it would have beside it. Gives the
// note that says so; empty: there is nothing to say.
std::string leave_out_none(TensorFile& file, const std::string& path) {
  const auto none = [](const Datum& item) { return item.is_none(); };
  if (is_pt_file(path) || std::none_of(file.items.begin(), file.items.end(), none)) return "";
  TensorFile kept;
  std::vector<std::string> left;
  for (size_t i = 0; i < file.items.size(); ++i) {
    const std::string name = file.names.empty() ? numbered_item_name(path, i) : file.names[i];
    if (none(file.items[i])) {
      left.push_back(name);
      continue;
    }
    kept.items.push_back(file.items[i]);
    kept.names.push_back(name);
  }
  if (kept.items.empty()) return "";  // nothing to write: refused below
  file = std::move(kept);
  return str(path, " is without ", join(left, ", "), ": None, which only .pt can hold");
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
  TensorFile file = named_file(stand_ins, keys);
  leave_out_none(file, *path);
  check_tensor_file_holds(*path, file);
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
  TensorFile file = named_file(outputs, keys);
  const std::string left_out = leave_out_none(file, *path);
  write_tensor_file(place, file, *path);
  printf("written to %s\n", path->c_str());
  if (!left_out.empty()) fprintf(stderr, "note: %s\n", left_out.c_str());
}

}  // namespace kiln::cli
