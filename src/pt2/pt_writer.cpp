#include <map>

#include "base/error.h"
#include "base/pickle.h"
#include "pt2/pytree.h"
#include "pt2/storage_names.h"
#include "pt2/tensor_files.h"

namespace kiln {
namespace {

// The name of torch.save's archive directory; loaders take any.
constexpr std::string_view directory = "archive/";

class PtWriter {
 public:
  explicit PtWriter(const ZipWriter::Sink& sink) : zip_(sink) {}

  void write(const TensorFile& file) {
    for (const Datum& item : file.items) collect(item);
    if (file.names.empty()) {
      write_list(file.items);
    } else {
      pickle_.empty_dict();
      pickle_.mark();
      for (size_t i = 0; i < file.items.size(); ++i) {
        pickle_.string(file.names[i]);
        write_item(file.items[i]);
      }
      pickle_.set_items();
    }
    finish();
  }

  void write(const Pytree& tree, const std::vector<Datum>& leaves) {
    for (const Datum& item : leaves) collect(item);
    size_t next = 0;
    write_tree(tree, leaves, next);
    KILN_CHECK(next == leaves.size(), "a pytree with another number of leaves");
    finish();
  }

 private:
  void finish() {
    add("data.pkl", pickle_.finish());
    add("byteorder", "little");
    for (size_t i = 0; i < storages_.size(); ++i)
      zip_.add(str(directory, "data/", i), ByteSpan(storages_[i]->data, static_cast<size_t>(storages_[i]->bytes)));
    add("version", "3\n");
    zip_.finish();
  }

  struct StorageUse {
    size_t number = 0;
    DType dtype = DType::f32;
    bool one_type = true;
  };

  void add(std::string_view name, std::string_view text) { zip_.add(str(directory, name), text); }

  // A storage seen through several element types must be written as bytes: PyTorch keeps one type per storage.
  void collect(const Datum& item) {
    if (item.is_list())
      for (const Datum& inner : item.list()) collect(inner);
    if (!item.is_tensor()) return;
    const Tensor& tensor = item.tensor();
    const auto [found, fresh] = uses_.try_emplace(tensor.storage.get());
    if (fresh) {
      found->second = {storages_.size(), tensor.dtype, true};
      storages_.push_back(tensor.storage);
    } else if (found->second.dtype != tensor.dtype) {
      found->second.one_type = false;
    }
  }

  void write_list(const std::vector<Datum>& items) {
    pickle_.empty_list();
    pickle_.mark();
    for (const Datum& item : items) write_item(item);
    pickle_.appends();
  }

  void write_tree(const Pytree& tree, const std::vector<Datum>& leaves, size_t& next) {
    if (tree.leaf()) {
      KILN_CHECK(next < leaves.size(), "a pytree with another number of leaves");
      return write_item(leaves[next++]);
    }
    auto children = [&] {
      for (const Pytree& child : tree.children) write_tree(child, leaves, next);
    };
    if (tree.type == "builtins.list") {
      pickle_.empty_list();
      pickle_.mark();
      children();
      return pickle_.appends();
    }
    if (tree.keys.empty() && tree.type != "builtins.dict" && tree.type != "collections.OrderedDict") {
      const size_t dot = tree.context.rfind('.');
      if (dot != std::string::npos) pickle_.global(tree.context.substr(0, dot), tree.context.substr(dot + 1));
      pickle_.mark();
      children();
      pickle_.tuple();
      if (dot != std::string::npos) pickle_.reduce();
      return;
    }
    if (tree.type == "builtins.dict") {
      pickle_.empty_dict();
    } else {
      pickle_.global("collections", "OrderedDict");
      pickle_.empty_tuple();
      pickle_.reduce();
    }
    pickle_.mark();
    for (size_t i = 0; i < tree.children.size(); ++i) {
      if (tree.number_keys[i])
        pickle_.integer(std::stoll(tree.keys[i]));
      else
        pickle_.string(tree.keys[i]);
      write_tree(tree.children[i], leaves, next);
    }
    pickle_.set_items();
  }

  void write_item(const Datum& item) {
    if (item.is_none()) return pickle_.none();
    if (item.is_tensor()) return write_tensor(item.tensor());
    if (item.is_list()) return write_list(item.list());
    if (!item.is_scalar()) return pickle_.string(std::get<std::string>(item.value));
    const Scalar& v = item.scalar();
    if (v.is_bool()) return pickle_.boolean(v.as_int() != 0);
    if (v.is_int()) return pickle_.integer(v.as_int());
    if (v.is_float()) return pickle_.real(v.as_double());
    pickle_.global("__builtin__", "complex");
    pickle_.mark();
    pickle_.real(v.as_complex().real());
    pickle_.real(v.as_complex().imag());
    pickle_.tuple();
    pickle_.reduce();
  }

  void write_ints(const std::vector<int64_t>& values) {
    pickle_.mark();
    for (int64_t value : values) pickle_.integer(value);
    pickle_.tuple();
  }

  void write_tensor(const Tensor& tensor) {
    const StorageUse& use = uses_.at(tensor.storage.get());
    const StorageName* typed = use.one_type ? storage_name_of(tensor.dtype) : nullptr;
    const StorageName& storage = typed != nullptr ? *typed : untyped_storage_name();
    pickle_.global("torch._utils", typed != nullptr ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    pickle_.mark();
    pickle_.mark();
    pickle_.string("storage");
    pickle_.global(storage.module, storage.name);
    pickle_.string(std::to_string(use.number));
    pickle_.string(device_text(tensor.device));
    pickle_.integer(tensor.storage->bytes / (typed != nullptr ? dtype_bytes(tensor.dtype) : 1));
    pickle_.tuple();
    pickle_.persistent_id();
    pickle_.integer(tensor.offset);
    write_ints(tensor.sizes);
    write_ints(tensor.strides);
    pickle_.boolean(false);  // requires_grad
    pickle_.global("collections", "OrderedDict");
    pickle_.empty_tuple();
    pickle_.reduce();
    if (typed == nullptr) pickle_.global("torch", dtype_torch_name(tensor.dtype));
    pickle_.tuple();
    pickle_.reduce();
  }

  ZipWriter zip_;
  PickleWriter pickle_;
  std::vector<std::shared_ptr<Storage>> storages_;
  std::map<const Storage*, StorageUse> uses_;
};

}  // namespace

void write_pt(const TensorFile& file, const ZipWriter::Sink& sink) { PtWriter(sink).write(file); }

void write_pickled(const Pytree& tree, const std::vector<Datum>& leaves, const ZipWriter::Sink& sink) {
  PtWriter(sink).write(tree, leaves);
}

}  // namespace kiln
