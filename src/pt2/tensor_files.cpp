#include "pt2/tensor_files.h"

#include <charconv>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "pt2/dense_items.h"

namespace kiln {
namespace {

enum class Format { pt, npy, npz, safetensors };

Format format_of(const std::string& path) {
  const std::string end = extension(path);
  if (end == ".pt" || end == ".pth" || end == ".bin") return Format::pt;
  if (end == ".npy") return Format::npy;
  if (end == ".npz") return Format::npz;
  if (end == ".safetensors") return Format::safetensors;
  if (is_stream(path)) return Format::pt;
  fail_user("K0150", str(path, ": tensors are read and written as .pt, .npy, .npz or .safetensors"));
}

}  // namespace

void check_tensor_path(const std::string& path) { format_of(path); }
bool is_pt_file(const std::string& path) { return format_of(path) == Format::pt; }

std::string numbered_item_name(const std::string& path, size_t number) {
  return format_of(path) == Format::npz ? str("arr_", number) : str(number);
}

TensorFile read_tensor_file(const std::string& path) {
  const Format format = format_of(path);
  const auto mapped = MappedFile::open(path);
  const FileBytes file{mapped->bytes(), mapped, path};
  switch (format) {
    case Format::pt:
      return read_pt(file);
    case Format::npy:
      return read_npy(file);
    case Format::npz:
      return read_npz(file);
    case Format::safetensors:
      return read_safetensors(file);
  }
  fail_bug("unknown format of a tensor file");
}

namespace {

void write_as(Format format, const TensorFile& file, const ZipWriter::Sink& sink) {
  KILN_CHECK(file.names.empty() || file.names.size() == file.items.size(), "names and items differ in number");
  switch (format) {
    case Format::pt:
      write_pt(file, sink);
      break;
    case Format::npy:
      write_npy(file, sink);
      break;
    case Format::npz:
      write_npz(file, sink);
      break;
    case Format::safetensors:
      write_safetensors(file, sink);
      break;
  }
}

}  // namespace

void check_tensor_file_holds(const std::string& path, const TensorFile& file) {
  write_as(format_of(path), file, [](ByteSpan) {});
}

void write_tensor_file(const std::string& path, const TensorFile& file, const std::string& name, FileAccess access) {
  const Format format = format_of(name.empty() ? path : name);
  AtomicFile out(path, access);
  write_as(format, file, [&out](ByteSpan bytes) { out.write(bytes); });
  out.commit();
}

std::shared_ptr<Storage> storage_over(ByteSpan bytes, const std::shared_ptr<const void>& keep) {
  // Kernels and typed reads want natural alignment (16 for complex doubles); old files align to less.
  const bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % 16 == 0;
  if (keep == nullptr || !aligned || bytes.empty()) {
    auto storage = Storage::allocate(static_cast<int64_t>(bytes.size()));
    if (!bytes.empty()) std::memcpy(storage->data, bytes.data(), bytes.size());
    return storage;
  }
  auto storage = std::make_shared<Storage>();
  storage->data = const_cast<std::byte*>(bytes.data());
  storage->bytes = static_cast<int64_t>(bytes.size());
  storage->writable = false;
  storage->keep = std::const_pointer_cast<void>(keep);
  return storage;
}

Tensor dense_tensor(const Datum& item, const std::string& name, const char* format) {
  if (item.is_tensor()) return item.tensor().as_contiguous();
  if (item.is_scalar()) {
    const Scalar& v = item.scalar();
    const DType dtype = v.is_bool()    ? DType::boolean
                        : v.is_int()   ? DType::i64
                        : v.is_float() ? DType::f64
                                       : DType::c128;
    return Tensor::scalar(dtype, v);
  }
  const char* what = item.is_none() ? "None" : item.is_list() ? "a list" : "text";
  fail_user("K0152", str("item ", name, " is ", what, ", which ", format, " cannot hold; write .pt"));
}

ByteSpan dense_bytes(const Tensor& tensor) {
  return {tensor.data(), static_cast<size_t>(tensor.numel() * dtype_bytes(tensor.dtype))};
}

Tensor tensor_over(DType dtype, std::vector<int64_t> sizes, ByteSpan bytes, const FileBytes& file,
                   std::string_view name) {
  Tensor tensor;
  tensor.dtype = dtype;
  int64_t needed = 0;
  try {
    tensor.strides = contiguous_strides(sizes);
    tensor.sizes = std::move(sizes);
    needed = storage_bytes_needed(dtype, tensor.sizes, tensor.strides, 0);
  } catch (const Error& error) {  // sizes whose product no number holds
    fail_user("K0151", str(file.label, ": tensor ", quote(name), ": ", error.message()));
  }
  if (static_cast<uint64_t>(needed) != bytes.size())
    fail_user("K0151", str(file.label, ": tensor ", quote(name), " (", tensor_type_text(tensor), ") needs ", needed,
                           " bytes but has ", bytes.size()));
  tensor.storage = storage_over(bytes, file.keep);
  return tensor;
}

bool order_numbered(TensorFile& file, std::string_view prefix) {
  std::vector<Datum> items(file.items.size());
  std::vector<bool> seen(file.items.size(), false);
  for (size_t i = 0; i < file.names.size(); ++i) {
    const std::string& name = file.names[i];
    if (!starts_with(name, prefix)) return false;
    size_t number = 0;
    const char *begin = name.data() + prefix.size(), *end = name.data() + name.size();
    if (std::from_chars(begin, end, number).ptr != end || name != str(prefix, number)) return false;
    if (number >= items.size() || seen[number]) return false;
    seen[number] = true;
    items[number] = file.items[i];
  }
  file.items = std::move(items);
  file.names.clear();
  for (size_t i = 0; i < file.items.size(); ++i) file.numbered_names.push_back(str(prefix, i));
  return true;
}

}  // namespace kiln
