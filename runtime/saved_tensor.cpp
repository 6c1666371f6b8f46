#include "runtime/saved_tensor.h"

#include <bit>
#include <deque>

#include "base/error.h"
#include "base/pickle.h"
#include "base/self_overlap.h"
#include "base/zip.h"
#include "pt2/storage_names.h"
#include "runtime/element.h"
#include "runtime/strided_copy.h"

namespace kiln::runtime {
namespace {

// From the first element to behind the last.
int64_t span_elements(Dims sizes, Dims strides) {
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return 0;
    last += (sizes[d] - 1) * strides[d];
  }
  return last + 1;
}

class Writer {
 public:
  void tensor(const DLTensor& tensor) {
    auto dtype = dtype_of(tensor.dtype);
    if (!dtype) fail_unsupported("K0661", str("a tensor of type ", dtype_text(tensor.dtype), " cannot be saved"));
    Dims sizes(tensor.shape, static_cast<size_t>(tensor.ndim));
    std::vector<int64_t> strides = strides_of(tensor);
    const int64_t item = dtype_bytes(*dtype), elements = element_count(sizes);
    auto* data = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
    // A view with gaps (or one that repeats elements) would write what is not its own.
    if (span_elements(sizes, strides) != elements || overlaps_itself(sizes, strides)) {
      std::vector<int64_t> dense(sizes.size(), 1);
      for (size_t d = sizes.size(); d-- > 1;) dense[d - 1] = dense[d] * sizes[d];
      packed_.emplace_back(static_cast<size_t>(elements * item));
      if (elements > 0) strided_copy(packed_.back().data(), dense, data, strides, sizes, item);
      strides = dense;
      data = packed_.back().data();
    }
    rebuild(*dtype, elements, sizes, strides);
    storages_.emplace_back(data, static_cast<size_t>(elements * item));
  }

  void item(const SavedItem& item) {
    if (item.tensor) return tensor(*item.tensor);
    item.is_float ? pickle_.real(std::bit_cast<double>(item.integer)) : pickle_.integer(item.integer);
  }

  PickleWriter& pickle() { return pickle_; }

  std::string finish() {
    std::string out;
    ZipWriter zip([&](ByteSpan bytes) { out.append(as_text(bytes)); });
    zip.add("archive/data.pkl", pickle_.finish());
    zip.add("archive/byteorder", std::string_view("little"));
    for (size_t i = 0; i < storages_.size(); ++i) zip.add(str("archive/data/", i), storages_[i]);
    zip.add("archive/version", std::string_view("3\n"));
    zip.finish();
    return out;
  }

 private:
  void ints(Dims values) {
    pickle_.mark();
    for (int64_t value : values) pickle_.integer(value);
    pickle_.tuple();
  }

  void rebuild(DType dtype, int64_t elements, Dims sizes, Dims strides) {
    const StorageName* typed = storage_name_of(dtype);
    const StorageName& storage = typed ? *typed : untyped_storage_name();
    pickle_.global("torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    pickle_.mark();
    pickle_.mark();
    pickle_.string("storage");
    pickle_.global(storage.module, storage.name);
    pickle_.string(std::to_string(storages_.size()));
    pickle_.string("cpu");
    pickle_.integer(typed ? elements : elements * dtype_bytes(dtype));
    pickle_.tuple();
    pickle_.persistent_id();
    pickle_.integer(0);
    ints(sizes);
    ints(strides);
    pickle_.boolean(false);  // requires_grad
    pickle_.global("collections", "OrderedDict");
    pickle_.empty_tuple();
    pickle_.reduce();
    if (!typed) pickle_.global("torch", dtype_torch_name(dtype));
    pickle_.tuple();
    pickle_.reduce();
  }

  PickleWriter pickle_;
  std::vector<ByteSpan> storages_;
  std::deque<std::vector<std::byte>> packed_;
};

}  // namespace

std::string tensor_file(const DLTensor& tensor) {
  Writer writer;
  writer.tensor(tensor);
  return writer.finish();
}

std::string list_file(const std::vector<SavedItem>& items) {
  Writer writer;
  writer.pickle().empty_list();
  writer.pickle().mark();
  for (const SavedItem& item : items) writer.item(item);
  writer.pickle().appends();
  return writer.finish();
}

}  // namespace kiln::runtime
