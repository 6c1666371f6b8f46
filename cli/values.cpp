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

namespace {

Json number_json(DType dtype, const Scalar& value) {
  if (dtype == DType::boolean) return Json(value.as_int() != 0);
  if (dtype == DType::u64) return Json(static_cast<uint64_t>(value.as_int()));
  if (is_integral(dtype)) return Json(value.as_int());
  if (!is_complex(dtype)) return Json(value.as_double());
  return Json(Json::Array{Json(value.as_complex().real()), Json(value.as_complex().imag())});
}

Json nested_values(const Tensor& tensor, size_t dim, int64_t& element) {
  if (dim == tensor.sizes.size()) return number_json(tensor.dtype, tensor.item(element++));
  Json list = Json::array();
  for (int64_t i = 0; i < tensor.sizes[dim]; ++i) list.push(nested_values(tensor, dim + 1, element));
  return list;
}

Json datum_json(const Datum& datum) {
  Json out = Json::object();
  if (datum.is_tensor()) {
    const Tensor& tensor = datum.tensor();
    Json sizes = Json::array();
    for (const int64_t size : tensor.sizes) sizes.push(size);
    int64_t element = 0;
    out.set("kind", "tensor"), out.set("dtype", dtype_torch_name(tensor.dtype)), out.set("sizes", std::move(sizes));
    out.set("values", nested_values(tensor, 0, element));
  } else if (datum.is_none()) {
    out.set("kind", "none");
  } else if (datum.is_scalar()) {
    const Scalar& number = datum.scalar();
    out.set("kind", number.is_bool() ? "bool" : number.is_int() ? "int" : number.is_float() ? "float" : "complex");
    const DType dtype = number.is_bool()    ? DType::boolean
                        : number.is_int()   ? DType::i64
                        : number.is_float() ? DType::f64
                                            : DType::c128;
    out.set("value", number_json(dtype, number));
  } else if (datum.is_list()) {
    Json items = Json::array();
    for (const Datum& item : datum.list()) items.push(datum_json(item));
    out.set("kind", "list"), out.set("items", std::move(items));
  } else {
    out.set("kind", "string"), out.set("value", std::get<std::string>(datum.value));
  }
  return out;
}

}  // namespace

Json outputs_json(const std::vector<Datum>& outputs, const std::vector<std::string>& keys) {
  Json list = Json::array();
  for (size_t i = 0; i < outputs.size(); ++i) {
    Json one = datum_json(outputs[i]);
    one.set("key", i < keys.size() && !keys[i].empty() ? Json(keys[i]) : Json());
    list.push(std::move(one));
  }
  return list;
}

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
                     const ParsedOptions& options, const JsonOutput& json) {
  const auto key = [&](size_t i) { return i < keys.size() ? keys[i] : std::string(); };
  const auto path = options.value("--output");
  const std::string place = path ? output_path(*path) : "";
  const bool shown = !is_quiet() && !json.instead_of_text();
  for (size_t i = 0; shown && i < outputs.size(); ++i) {
    const std::string name = str("output ", i, key(i).empty() ? "" : " ", key(i), ": ");
    printf("%s%s\n", name.c_str(), datum_text(outputs[i], name.size()).c_str());
  }
  if (!path) return;
  TensorFile file = named_file(outputs, keys);
  const std::string left_out = leave_out_none(file, *path);
  write_tensor_file(place, file, *path);
  if (shown) printf("written to %s\n", path->c_str());
  if (!left_out.empty()) tell_note(left_out);
}

}  // namespace kiln::cli
