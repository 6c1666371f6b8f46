#include "pt2/output_files.h"

#include <algorithm>

#include "base/file.h"
#include "base/text.h"
#include "pt2/pt_archive.h"
#include "pt2/pytree.h"

namespace kiln {
namespace {

bool is_pickled_sequence(const PickleValue& value) {
  return value.is(PickleValue::Kind::list) || value.is(PickleValue::Kind::tuple);
}

std::optional<std::vector<Datum>> pickled_by_keys(const PickleValue& dict, const std::vector<std::string>& keys,
                                                  PtArchive& archive) {
  if (dict.items.size() != 2 * keys.size()) return std::nullopt;
  std::vector<Datum> out;
  for (const std::string& key : keys) {
    const PickleValue* found = nullptr;
    for (size_t i = 0; i + 1 < dict.items.size(); i += 2)
      if (dict.items[i]->is(PickleValue::Kind::string) && dict.items[i]->text == key) found = dict.items[i + 1];
    if (!found || PtArchive::is_dict(*found)) return std::nullopt;
    out.push_back(archive.datum(*found));
  }
  return out;
}

std::optional<std::vector<Datum>> by_keys(const std::vector<Datum>& items, const std::vector<std::string>& names,
                                          const std::vector<std::string>& keys) {
  if (names.size() != keys.size()) return std::nullopt;
  std::vector<Datum> out;
  for (const std::string& key : keys) {
    const auto found = std::find(names.begin(), names.end(), key);
    if (found == names.end()) return std::nullopt;
    out.push_back(items[static_cast<size_t>(found - names.begin())]);
  }
  return out;
}

}  // namespace

OutputForm output_form(std::vector<std::string> keys, std::string out_spec) {
  for (size_t i = 0; i < keys.size(); ++i)
    if (keys[i].empty()) keys[i] = std::to_string(i);
  return {std::move(keys), std::move(out_spec)};
}

bool is_flat_pt_list(const FileBytes& file) {
  const PtArchive archive(file);
  const PickleValue& root = archive.root();
  return is_pickled_sequence(root) && std::none_of(root.items.begin(), root.items.end(), [](const PickleValue* item) {
           return is_pickled_sequence(*item) || PtArchive::is_dict(*item);
         });
}

std::optional<std::vector<Datum>> read_pt_outputs(const FileBytes& file, const OutputForm& form) {
  PtArchive archive(file);
  const bool dict = PtArchive::is_dict(archive.root());
  if (dict)
    if (auto ordered = pickled_by_keys(archive.root(), form.keys, archive)) return ordered;
  std::vector<Datum> nested;
  if (!form.out_spec.empty() && !is_flat_pt_list(file) &&
      flatten_pickled(parse_pytree(form.out_spec), archive.root(), archive, nested))
    return nested;
  if (dict) return std::nullopt;
  return read_pt(file).items;  // a list of values may hold lists
}

std::optional<std::vector<Datum>> read_outputs(const std::string& path, const OutputForm& form) {
  if (is_pt_file(path)) {
    const auto mapped = MappedFile::open(path);
    return read_pt_outputs({mapped->bytes(), mapped, path}, form);
  }
  TensorFile file = read_tensor_file(path);
  if (!file.names.empty()) return by_keys(file.items, file.names, form.keys);
  // The keys of {1: x, 0: y} are numbers too.
  if (auto ordered = by_keys(file.items, file.numbered_names, form.keys)) return ordered;
  return std::move(file.items);
}

}  // namespace kiln
