#include "pt2/weights_writer.h"

#include <map>

#include "base/error.h"
#include "pt2/graph_writer.h"

namespace kiln {
namespace {

TensorType type_of(const Tensor& tensor) {
  TensorType type;
  type.dtype = tensor.dtype;
  type.device = tensor.device;
  for (const int64_t size : tensor.sizes) type.sizes.emplace_back(size);
  for (const int64_t stride : tensor.strides) type.strides.emplace_back(stride);
  type.offset = Expr(tensor.offset);
  return type;
}

}  // namespace

std::string write_weights(const Program& program, const WeightFolder& what, const SympyWriter& sympy, ZipWriter& zip) {
  // PyTorch reads a storage with the element type of the first tensor that names it, so types do not share one.
  std::map<std::pair<const Storage*, DType>, std::string> entries;
  Json::Object config;
  for (const std::string& name : what.names) {
    const Tensor& tensor = program.constants.at(name);
    const auto [found, fresh] = entries.try_emplace({tensor.storage.get(), tensor.dtype});
    if (fresh) {
      found->second = str(what.prefix, entries.size() - 1);
      // Whole elements only: PyTorch refuses a storage that ends inside one.
      const int64_t bytes = tensor.storage->bytes - tensor.storage->bytes % dtype_bytes(tensor.dtype);
      zip.add(what.folder + found->second, ByteSpan(tensor.storage->data, static_cast<size_t>(bytes)));
    }
    Json payload = Json::object();
    payload.set("path_name", found->second);
    payload.set("is_param", what.parameters.contains(name));
    payload.set("use_pickle", false);
    payload.set("tensor_meta", tensor_meta_json(type_of(tensor), sympy));
    config.push_back({name, std::move(payload)});
  }
  Json out = Json::object();
  out.set("config", Json(std::move(config)));
  return json_text(out);
}

}  // namespace kiln
