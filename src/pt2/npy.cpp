// NumPy's .npy and .npz.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "base/error.h"
#include "base/inflate.h"
#include "pt2/dense_items.h"

namespace kiln {
namespace {

constexpr std::string_view magic = "\x93NUMPY";

struct Descr {
  std::string_view code;
  DType dtype;
};
constexpr std::array<Descr, 14> descrs = {{{"|b1", DType::boolean},
                                           {"|u1", DType::u8},
                                           {"|i1", DType::i8},
                                           {"<i2", DType::i16},
                                           {"<u2", DType::u16},
                                           {"<i4", DType::i32},
                                           {"<u4", DType::u32},
                                           {"<i8", DType::i64},
                                           {"<u8", DType::u64},
                                           {"<f2", DType::f16},
                                           {"<f4", DType::f32},
                                           {"<f8", DType::f64},
                                           {"<c8", DType::c64},
                                           {"<c16", DType::c128}}};

// The header is a Python dict of three known keys: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& label) : text_(text), label_(label) {}

  void read() {
    expect('{');
    std::vector<std::string> keys;
    while (!take('}')) {
      const std::string key = read_string();
      if (std::find(keys.begin(), keys.end(), key) != keys.end()) fail(str("its header says ", quote(key), " twice"));
      keys.push_back(key);
      expect(':');
      if (key == "descr")
        read_descr();
      else if (key == "fortran_order")
        fortran = read_bool();
      else if (key == "shape")
        read_shape();
      else
        fail(str("its header has an unknown key ", quote(key)));
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    if (!has_descr_ || !has_shape_) fail("its header lacks a type or a shape");
  }

  DType dtype = DType::f32;
  bool fortran = false;
  std::vector<int64_t> shape;

 private:
  [[noreturn]] void fail(const std::string& what) const {
    fail_user("K0151", str(label_, " is not a sound .npy file: ", what));
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(str("its header has no '", c, "' where one should be"));
  }
  std::string read_string() {
    skip();
    const char quote_mark = at_ < text_.size() ? text_[at_] : '\0';
    if (quote_mark != '\'' && quote_mark != '"') fail("its header has no text where one should be");
    const size_t end = text_.find(quote_mark, at_ + 1);
    if (end == std::string_view::npos) fail("its header is cut short");
    std::string out(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return out;
  }
  bool read_bool() {
    skip();
    for (std::string_view word : {"True", "False"}) {
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return word == "True";
    }
    fail("fortran_order is neither True nor False");
  }
  void read_descr() {
    skip();
    if (at_ < text_.size() && text_[at_] == '[') fail("arrays of records are not tensors");
    std::string code = read_string();
    if (!code.empty() && code[0] == '=') code[0] = '<';
    if (!code.empty() && code[0] == '>')
      fail_unsupported(
          "K0154",
          str(label_, " was written in big-endian byte order: save array.astype(array.dtype.newbyteorder(\"<\"))"));
    for (const Descr& row : descrs) {
      if (code != row.code) continue;
      dtype = row.dtype;
      has_descr_ = true;
      return;
    }
    fail(str("elements of type ", quote(code), " are not read"));
  }
  void read_shape() {
    expect('(');
    while (!take(')')) {
      skip();
      int64_t size = 0;
      const auto result = std::from_chars(text_.data() + at_, text_.data() + text_.size(), size);
      if (result.ec != std::errc() || size < 0) fail("its shape is damaged");
      at_ = static_cast<size_t>(result.ptr - text_.data());
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;
      shape.push_back(size);
      if (shape.size() > 64) fail("more than 64 dimensions");
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    has_shape_ = true;
  }

  std::string_view text_;
  const std::string& label_;
  size_t at_ = 0;
  bool has_descr_ = false, has_shape_ = false;
};

struct ArrayHeader {
  DType dtype = DType::f32;
  bool fortran = false;
  std::vector<int64_t> shape;
  size_t data_at = 0;  // in the file
};

ArrayHeader read_header(std::string_view text, const std::string& label) {
  if (!starts_with(text, magic) || text.size() < 12) fail_user("K0151", str(label, " is not a .npy file"));
  const int major = text[6];
  uint32_t header_bytes = 0;
  const size_t length_bytes = major == 1 ? 2 : 4;
  if (major < 1 || major > 3) fail_user("K0151", str(label, ": version ", major, " of .npy is not known"));
  std::memcpy(&header_bytes, text.data() + 8, length_bytes);
  const size_t start = 8 + length_bytes;
  if (header_bytes > text.size() - start) fail_user("K0151", str(label, " is cut short"));
  HeaderReader reader(text.substr(start, header_bytes), label);
  reader.read();
  return {reader.dtype, reader.fortran, std::move(reader.shape), start + header_bytes};
}

Tensor read_array(const FileBytes& file) {
  const ArrayHeader header = read_header(as_text(file.bytes), file.label);
  std::vector<int64_t> sizes = header.shape;
  if (header.fortran) std::reverse(sizes.begin(), sizes.end());
  Tensor tensor = tensor_over(header.dtype, std::move(sizes), file.bytes.subspan(header.data_at), file, "array");
  if (header.fortran) {
    std::reverse(tensor.sizes.begin(), tensor.sizes.end());
    std::reverse(tensor.strides.begin(), tensor.strides.end());
  }
  return tensor;
}

// What an entry of an .npz may inflate to: what its own first bytes say.
uint64_t bytes_by_header(const ZipReader& zip, const ZipEntry& entry, const std::string& label) {
  constexpr uint64_t longest_header = 1 << 17;
  const SharedBytes start = zip.read_start(entry, longest_header);
  const ArrayHeader header = read_header(as_text(start.bytes), label);
  return header.data_at +
         static_cast<uint64_t>(storage_bytes_needed(header.dtype, header.shape, contiguous_strides(header.shape), 0));
}

std::string array_header(const Tensor& tensor, const std::string& name) {
  const Descr* descr = nullptr;
  for (const Descr& row : descrs)
    if (row.dtype == tensor.dtype) descr = &row;
  if (descr == nullptr)
    fail_user("K0153", str("item ", name, " is ", dtype_torch_name(tensor.dtype),
                           ", which NumPy does not have; write .pt or .safetensors"));
  std::string shape;
  for (int64_t size : tensor.sizes) shape += str(size, tensor.sizes.size() == 1 ? "," : ", ");
  if (tensor.sizes.size() > 1) shape.resize(shape.size() - 2);
  std::string header = str("{'descr': '", descr->code, "', 'fortran_order': False, 'shape': (", shape, "), }");
  const size_t prefix = magic.size() + 4;
  header.append((64 - (prefix + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  const auto length = static_cast<uint16_t>(header.size());
  return str(magic, '\x01', '\x00', static_cast<char>(length & 0xff), static_cast<char>(length >> 8), header);
}

std::string item_name(const TensorFile& file, size_t i) { return file.names.empty() ? str("arr_", i) : file.names[i]; }

}  // namespace

TensorFile read_npy(const FileBytes& file) {
  TensorFile out;
  out.items.push_back({read_array(file)});
  return out;
}

TensorFile read_npz(const FileBytes& file) {
  const ZipReader zip(file.bytes, file.label, inflate_entry);
  TensorFile out;
  for (const ZipEntry& entry : zip.entries()) {
    if (!ends_with(entry.name, ".npy"))
      fail_user("K0151", str(file.label, ": entry ", quote(entry.name), " is no .npy array"));
    const std::string label = str(file.label, ":", entry.name);
    const SharedBytes data = zip.read(entry, entry.deflated ? bytes_by_header(zip, entry, label) : 0);
    out.names.push_back(entry.name.substr(0, entry.name.size() - 4));
    out.items.push_back({read_array({data.bytes, data.keep != nullptr ? data.keep : file.keep, label})});
  }
  order_numbered(out, "arr_");
  return out;
}

void write_npy(const TensorFile& file, const ZipWriter::Sink& sink) {
  if (file.items.size() != 1)
    fail_user("K0152", str("a .npy file holds one tensor, not ", file.items.size(), "; write .npz or .pt"));
  const Tensor tensor = dense_tensor(file.items[0], item_name(file, 0), ".npy");
  sink(as_bytes(array_header(tensor, item_name(file, 0))));
  sink(dense_bytes(tensor));
}

void write_npz(const TensorFile& file, const ZipWriter::Sink& sink) {
  ZipWriter zip(sink);
  for (size_t i = 0; i < file.items.size(); ++i) {
    const std::string name = item_name(file, i);
    const Tensor tensor = dense_tensor(file.items[i], name, ".npz");
    const std::string header = array_header(tensor, name);
    zip.add_pieces(name + ".npy", {as_bytes(header), dense_bytes(tensor)});
  }
  zip.finish();
}

}  // namespace kiln
