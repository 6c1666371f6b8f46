// .safetensors: a length, a JSON header that says type, sizes and place of each tensor, then the data.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/json.h"
#include "pt2/dense_items.h"

namespace kiln {
namespace {

struct TypeName {
  std::string_view name;
  DType dtype;
};
constexpr std::array<TypeName, 18> types = {{{"BOOL", DType::boolean},
                                             {"U8", DType::u8},
                                             {"I8", DType::i8},
                                             {"I16", DType::i16},
                                             {"U16", DType::u16},
                                             {"I32", DType::i32},
                                             {"U32", DType::u32},
                                             {"I64", DType::i64},
                                             {"U64", DType::u64},
                                             {"F8_E4M3", DType::f8e4m3fn},
                                             {"F8_E5M2", DType::f8e5m2},
                                             {"F8_E4M3FNUZ", DType::f8e4m3fnuz},
                                             {"F8_E5M2FNUZ", DType::f8e5m2fnuz},
                                             {"F16", DType::f16},
                                             {"BF16", DType::bf16},
                                             {"F32", DType::f32},
                                             {"F64", DType::f64},
                                             {"C64", DType::c64}}};

[[noreturn]] void fail_file(const FileBytes& file, const std::string& what) {
  fail_user("K0151", str(file.label, " is not a sound .safetensors file: ", what));
}

DType read_type(const FileBytes& file, const std::string& name, const std::string& type) {
  for (const TypeName& row : types)
    if (row.name == type) return row.dtype;
  fail_file(file, str("tensor ", quote(name), " has the unknown type ", quote(type)));
}

struct Range {
  int64_t begin, end;
};

Tensor read_entry(const FileBytes& file, ByteSpan data, const std::string& name, const Json& entry,
                  std::vector<Range>& ranges) {
  const DType dtype = read_type(file, name, entry.at("dtype").as_string());
  std::vector<int64_t> sizes;
  for (const Json& size : entry.at("shape").items()) {
    sizes.push_back(size.as_int());
    if (sizes.back() < 0) fail_file(file, str("tensor ", quote(name), " has a negative size"));
  }
  const auto& range = entry.at("data_offsets").items();
  if (range.size() != 2) fail_file(file, str("tensor ", quote(name), " has no two offsets"));
  const int64_t begin = range[0].as_int(), end = range[1].as_int();
  if (begin < 0 || end < begin || static_cast<uint64_t>(end) > data.size())
    fail_file(file, str("tensor ", quote(name), " lies outside the file"));
  ranges.push_back({begin, end});
  return tensor_over(dtype, std::move(sizes),
                     data.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)), file, name);
}

// The tensors fill the data without holes, overlaps or rest: nothing can hide between them.
void check_ranges(const FileBytes& file, std::vector<Range> ranges, size_t bytes) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
  int64_t at = 0;
  for (const Range& range : ranges) {
    if (range.begin != at)
      fail_file(file, str("its tensors leave a hole or overlap: byte ", range.begin, " of the data follows byte ", at));
    at = range.end;
  }
  if (static_cast<uint64_t>(at) != bytes)
    fail_file(file, str(bytes - static_cast<uint64_t>(at), " bytes after its last tensor belong to nothing"));
}

}  // namespace

TensorFile read_safetensors(const FileBytes& file) {
  uint64_t header_bytes = 0;
  if (file.bytes.size() < 8) fail_file(file, "it is too short");
  std::memcpy(&header_bytes, file.bytes.data(), 8);
  if (header_bytes > file.bytes.size() - 8) fail_file(file, "its header is cut short");
  const Json header = parse_json(as_text(file.bytes.subspan(8, header_bytes)), file.label);
  const ByteSpan data = file.bytes.subspan(8 + header_bytes);
  TensorFile out;
  std::vector<Range> ranges;
  for (const JsonMember& member : header.members()) {
    if (member.key == "__metadata__") continue;
    out.names.push_back(member.key);
    try {
      out.items.push_back({read_entry(file, data, member.key, member.value, ranges)});
    } catch (const Error& error) {  // a number that is none, a field that is missing
      if (error.code() == "K0151") throw;
      fail_file(file, str("tensor ", quote(member.key), ": ", error.message()));
    }
  }
  check_ranges(file, std::move(ranges), data.size());
  order_numbered(out, "");
  return out;
}

void write_safetensors(const TensorFile& file, const ZipWriter::Sink& sink) {
  Json header = Json::object();
  std::vector<Tensor> tensors;
  int64_t offset = 0;
  for (size_t i = 0; i < file.items.size(); ++i) {
    const std::string name = file.names.empty() ? std::to_string(i) : file.names[i];
    const Tensor& tensor = tensors.emplace_back(dense_tensor(file.items[i], name, ".safetensors"));
    const TypeName* type = nullptr;
    for (const TypeName& row : types)
      if (row.dtype == tensor.dtype) type = &row;
    if (type == nullptr)
      fail_user("K0153", str("item ", name, " is ", dtype_torch_name(tensor.dtype),
                             ", which .safetensors does not have; write .pt"));
    Json entry = Json::object(), shape = Json::array(), range = Json::array();
    for (int64_t size : tensor.sizes) shape.push(size);
    range.push(offset);
    offset += static_cast<int64_t>(dense_bytes(tensor).size());
    range.push(offset);
    entry.set("dtype", type->name);
    entry.set("shape", std::move(shape));
    entry.set("data_offsets", std::move(range));
    header.set(name, std::move(entry));
  }
  std::string text = json_text(header);
  text.append((64 - (text.size() + 8) % 64) % 64, ' ');
  uint64_t length = text.size();
  char raw[8];
  std::memcpy(raw, &length, 8);
  sink(as_bytes(std::string_view(raw, 8)));
  sink(as_bytes(text));
  for (const Tensor& tensor : tensors) sink(dense_bytes(tensor));
}

}  // namespace kiln
