// Files of tensors: .pt (torch.save), .npy, .npz, .safetensors.
//
// A TensorFile is a flat list of values, or, where `names` is not empty, a dictionary (one name per item).
// .pt keeps everything: order, strides, offsets, sharing of a storage between tensors, numbers, strings, None, nested
// lists. The other formats hold dense tensors only: numbers become tensors of rank 0, other strides are made row-major,
// and None or text is refused. NumPy has no bf16 and no 8-bit floats: writing those as .npy or .npz is refused
// (K0153) rather than stored as something else; .safetensors and .pt take them.
//
// Tensors read from a file lie in the mapped file, read-only, where the format allows it.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/zip.h"
#include "types/tensor.h"

namespace kiln {

struct TensorFile {
  std::vector<Datum> items;
  std::vector<std::string> names;  // empty: a list
  // Of a list that its file has under names ("arr_0", …): those. They may be keys of a model that has such.
  std::vector<std::string> numbered_names = {};
};

// By the extension: .pt (also .pth, .bin), .npy, .npz, .safetensors.
TensorFile read_tensor_file(const std::string& path);
void check_tensor_path(const std::string& path);  // throws K0150 for another extension
// That the format by the path's extension holds items of these kinds and types: throws what writing them would.
void check_tensor_file_holds(const std::string& path, const TensorFile& file);
// To a device, pipe or descriptor without such an extension (/dev/null, /dev/stdout) as .pt. `name` has the extension
// where the path is only where the user's name leads to.
void write_tensor_file(const std::string& path, const TensorFile& file, const std::string& name = "",
                       FileAccess access = FileAccess::as_usual);
// What the items of a list are called in a file of this extension: "arr_2" in .npz, "2" in .safetensors.
std::string numbered_item_name(const std::string& path, size_t number);
bool is_pt_file(const std::string& path);  // by the extension; throws K0150 when it is none that is read

// The formats over bytes in memory, which `keep` keeps alive (nothing: the tensors are copied out). `label` names the
// file in messages.
struct FileBytes {
  ByteSpan bytes;
  std::shared_ptr<const void> keep;
  std::string label;
};
TensorFile read_pt(const FileBytes& file);
TensorFile read_npy(const FileBytes& file);
TensorFile read_npz(const FileBytes& file);
TensorFile read_safetensors(const FileBytes& file);

void write_pt(const TensorFile& file, const ZipWriter::Sink& sink);
void write_npy(const TensorFile& file, const ZipWriter::Sink& sink);
void write_npz(const TensorFile& file, const ZipWriter::Sink& sink);
void write_safetensors(const TensorFile& file, const ZipWriter::Sink& sink);

// A tensor over part of a file: in place if something keeps the bytes alive and they are aligned, else a copy.
std::shared_ptr<Storage> storage_over(ByteSpan bytes, const std::shared_ptr<const void>& keep);

}  // namespace kiln
