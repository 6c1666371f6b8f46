#include "pt2/weights.h"

#include "base/error.h"
#include "base/json.h"
#include "pt2/graph_json.h"
#include "pt2/pt_archive.h"

namespace kiln {
namespace {

class WeightReader {
 public:
  WeightReader(const ZipReader& zip, const std::shared_ptr<const void>& keep) : zip_(zip), keep_(keep) {}

  void read_config(const std::string& config, const std::string& folder) {
    if (config.empty()) return;
    const SharedBytes text = zip_.read(zip_.at(config));
    const Json json = parse_json(as_text(text.bytes), str(zip_.label(), ":", config));
    for (const JsonMember& member : json.at("config").members()) {
      try {
        note_need(member.value, folder);
      } catch (Error& error) {
        fail_again(error, member.key);
      }
    }
    for (const JsonMember& member : json.at("config").members()) {
      try {
        read_payload(member.key, member.value, folder);
      } catch (Error& error) {
        fail_again(error, member.key);
      }
    }
  }

  void read_pt_entry(const std::string& entry) {
    if (entry.empty()) return;
    const FileBytes file = entry_bytes(entry);
    if (file.bytes.empty()) return;  // what older versions write for "none"
    TensorFile content = read_pt(file);
    if (content.names.size() != content.items.size()) fail_user("K0164", str(file.label, " is no dict of tensors"));
    for (size_t i = 0; i < content.items.size(); ++i) {
      if (!content.items[i].is_tensor())
        fail_unsupported("K0165", str("the constant ", quote(content.names[i]), " is no tensor"));
      add(content.names[i], content.items[i].tensor());
    }
  }

  Weights weights;

 private:
  [[noreturn]] void fail_again(const Error& error, const std::string& name) const {
    throw Error(error.kind(), error.code(), str(zip_.label(), ": the weight ", quote(name), ": ", error.message()));
  }

  void add(const std::string& name, Tensor tensor) {
    if (!weights.tensors.emplace(name, std::move(tensor)).second)
      fail_user("K0164", str(zip_.label(), ": the weight ", quote(name), " comes twice"));
  }

  FileBytes entry_bytes(const std::string& entry, int64_t may_hold = 0) const {
    const SharedBytes data = zip_.read(zip_.at(entry), static_cast<uint64_t>(may_hold));
    return {data.bytes, data.keep != nullptr ? data.keep : keep_, str(zip_.label(), ":", entry)};
  }

  void add_pickled(const std::string& name, PtArchive& archive, const PickleValue& value) {
    if (const auto made = PtArchive::wrapper(value)) {
      weights.wrappers[name] = made->class_name;
      for (const auto& [part, inner] : made->parts) add_pickled(str(name, ".", part), archive, *inner);
      return;
    }
    const Datum datum = archive.datum(value);
    if (!datum.is_tensor()) fail_unsupported("K0165", "a pickled object that is no plain tensor is not supported");
    add(name, datum.tensor());
  }

  void read_payload(const std::string& name, const Json& payload, const std::string& folder) {
    const std::string entry = folder + payload.at("path_name").as_string();
    if (!payload.at("use_pickle").as_bool()) return add(name, read_plain(payload, entry));
    PtArchive archive(entry_bytes(entry));
    add_pickled(name, archive, archive.root());
  }

  Tensor read_plain(const Json& payload, const std::string& entry) {
    Tensor tensor = described(payload);
    std::shared_ptr<Storage>& storage = storages_[entry];
    if (storage == nullptr) {
      const FileBytes file = entry_bytes(entry, needs_[entry]);
      storage = storage_over(file.bytes, file.keep);
    }
    tensor.storage = storage;
    if (tensor.offset > storage->bytes / dtype_bytes(tensor.dtype) ||
        storage_bytes_needed(tensor.dtype, tensor.sizes, tensor.strides, tensor.offset) > storage->bytes)
      fail_user("K0164", str(tensor_type_text(tensor), " reaches outside its ", storage->bytes, " bytes"));
    return tensor;
  }

  // A tensor as the config says it, without its storage.
  Tensor described(const Json& payload) {
    const Json* meta = payload.find_value("tensor_meta");
    if (meta == nullptr) fail_unsupported("K0165", "an object that is no tensor is not supported");
    const TensorType type = read_tensor_meta(*meta, no_symbols_);
    Tensor tensor;
    tensor.dtype = type.dtype;
    tensor.device = type.device;
    tensor.sizes = numbers(type.sizes);
    tensor.strides = numbers(type.strides);
    tensor.offset = numbers({type.offset})[0];
    return tensor;
  }

  // How much of an entry the tensors over it use: so much it may hold, where it is compressed.
  void note_need(const Json& payload, const std::string& folder) {
    if (payload.at("use_pickle").as_bool() || payload.find_value("tensor_meta") == nullptr) return;
    const Tensor tensor = described(payload);
    int64_t& need = needs_[folder + payload.at("path_name").as_string()];
    need = std::max(need, storage_bytes_needed(tensor.dtype, tensor.sizes, tensor.strides, tensor.offset));
  }

  std::vector<int64_t> numbers(const std::vector<Expr>& exprs) const {
    std::vector<int64_t> out;
    for (const Expr& expr : exprs) {
      if (!expr.is_constant() || expr.value() < 0)
        fail_user("K0164", "a size, stride or offset that is no natural number");
      out.push_back(expr.value());
    }
    return out;
  }

  const ZipReader& zip_;
  const std::shared_ptr<const void>& keep_;
  std::map<std::string, std::shared_ptr<Storage>> storages_;
  std::map<std::string, int64_t> needs_;  // bytes, by entry
  SymbolTable no_symbols_;
};

}  // namespace

Weights read_weights(const ZipReader& zip, const ArchiveLayout& layout, const std::shared_ptr<const void>& keep) {
  WeightReader reader(zip, keep);
  reader.read_config(layout.weights_config, layout.weights_folder);
  reader.read_config(layout.constants_config, layout.constants_folder);
  if (layout.weights_config.empty()) reader.read_pt_entry(layout.weights_pt);
  if (layout.constants_config.empty()) reader.read_pt_entry(layout.constants_pt);
  return std::move(reader.weights);
}

}  // namespace kiln
