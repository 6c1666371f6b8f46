#include "base/error.h"
#include "base/file_kind.h"
#include "base/inflate.h"
#include "pt2/pt_archive.h"
#include "pt2/storage_names.h"
#include "types/device_names.h"

namespace kiln {
namespace {

using Kind = PickleValue::Kind;

std::string find_prefix(const ZipReader& zip) {
  for (const ZipEntry& entry : zip.entries())
    if (entry.name == "data.pkl" || ends_with(entry.name, "/data.pkl"))
      return entry.name.substr(0, entry.name.size() - std::string_view("data.pkl").size());
  fail_user("K0151", str(zip.label(), " was not written by torch.save: it has no data.pkl"));
}

PickleTree read_tree(const ZipReader& zip, const std::string& prefix) {
  if (const ZipEntry* order = zip.find(prefix + "byteorder"))
    if (as_text(zip.read(*order).bytes) != "little")
      fail_unsupported("K0154", str(zip.label(), " was written on a big-endian machine"));
  const SharedBytes pickle = zip.read(zip.at(prefix + "data.pkl"));
  return parse_pickle(pickle.bytes, zip.label());
}

}  // namespace

namespace {

// What torch.save wrote before PyTorch 1.6, and still does when asked: a few pickles in a row, of which the first is a
// magic number.
const FileBytes& not_legacy(const FileBytes& file) {
  constexpr std::string_view magic = "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.";
  if (starts_with(as_text(file.bytes), magic))
    fail_unsupported("K0151", str(file.label,
                                  " is in the old format of torch.save (before PyTorch 1.6, or with "
                                  "_use_new_zipfile_serialization=False), which Kiln does not read; load it in PyTorch "
                                  "and save it again: torch.save(torch.load(path), path)"));
  if (!begins_like_zip(file.bytes))
    fail_user("K0151", str(file.label, " was not written by torch.save: it is no zip archive"));
  return file;
}

}  // namespace

PtArchive::PtArchive(const FileBytes& file)
    : file_(not_legacy(file)),
      zip_(file.bytes, file.label, inflate_entry),
      prefix_(find_prefix(zip_)),
      tree_(read_tree(zip_, prefix_)) {}

void PtArchive::fail(const std::string& what) const { fail_user("K0151", str(file_.label, ": ", what)); }

bool PtArchive::is_dict(const PickleValue& value) {
  return value.is(Kind::dict) || (value.is_call_of("collections.OrderedDict") && value.args->items.empty());
}

std::vector<int64_t> PtArchive::int_tuple(const PickleValue& value) const {
  const PickleValue* items = &value;
  if (value.is_call_of("torch.Size") && value.args->items.size() == 1) items = value.args->items[0];
  if (!items->is(Kind::tuple) && !items->is(Kind::list)) fail("a tensor whose sizes are no tuple");
  std::vector<int64_t> out;
  for (const PickleValue* item : items->items) {
    if (!item->is(Kind::integer) || item->integer < 0) fail("a tensor with a size or stride that is no natural number");
    out.push_back(item->integer);
  }
  return out;
}

PtArchive::StorageRef PtArchive::storage(const PickleValue& id) {
  if (!id.is(Kind::persistent_id) || !id.items[0]->is(Kind::tuple) || id.items[0]->items.size() < 5)
    fail("a tensor without a storage");
  const auto& fields = id.items[0]->items;
  if (!fields[0]->is(Kind::string) || fields[0]->text != "storage" || !fields[1]->is(Kind::global) ||
      !fields[2]->is(Kind::string) || !fields[3]->is(Kind::string) || !fields[4]->is(Kind::integer))
    fail("a damaged reference to a storage");
  StorageRef ref;
  const StorageName* name = find_storage_name(fields[1]->text);
  if (name == nullptr) fail(str("a storage of the type ", fields[1]->text, ", which Kiln does not have"));
  ref.dtype = name->dtype;
  const auto device = device_from_text(fields[3]->text);
  if (!device) fail(str("a storage on the device ", quote(fields[3]->text), ", which Kiln does not have"));
  ref.device = *device;
  const std::string& key = fields[2]->text;
  const int64_t element = ref.dtype ? dtype_bytes(*ref.dtype) : 1;
  std::shared_ptr<Storage>& known = storages_[key];
  if (known == nullptr) {
    int64_t said = 0;
    if (fields[4]->integer < 0 || __builtin_mul_overflow(fields[4]->integer, element, &said))
      fail(str("storage ", key, " with a length that no storage has"));
    const SharedBytes data = zip_.read(zip_.at(str(prefix_, "data/", key)), static_cast<uint64_t>(said));
    known = storage_over(data.bytes, data.keep != nullptr ? data.keep : file_.keep);
  }
  if (fields[4]->integer < 0 || fields[4]->integer > known->bytes / element)
    fail(str("storage ", key, " has ", known->bytes, " bytes, fewer than its pickle says"));
  ref.storage = known;
  return ref;
}

Tensor PtArchive::rebuild(const std::vector<const PickleValue*>& args, bool typed) {
  const size_t metadata_at = typed ? 6 : 7;
  if (args.size() < metadata_at) fail("a tensor with too few fields");
  StorageRef ref = storage(*args[0]);
  Tensor tensor;
  tensor.device = ref.device;
  if (typed) {
    if (!ref.dtype) fail("a tensor over a storage without element type");
    tensor.dtype = *ref.dtype;
  } else {
    const auto dtype = args[6]->is(Kind::global) ? dtype_from_name(args[6]->text) : std::nullopt;
    if (!dtype) fail(str("a tensor of the type ", args[6]->text, ", which Kiln does not have"));
    tensor.dtype = *dtype;
  }
  if (!args[1]->is(Kind::integer) || args[1]->integer < 0) fail("a tensor with a bad offset");
  tensor.offset = args[1]->integer;
  tensor.sizes = int_tuple(*args[2]);
  tensor.strides = int_tuple(*args[3]);
  if (tensor.sizes.size() != tensor.strides.size()) fail("a tensor whose sizes and strides differ in number");
  if (args.size() > metadata_at && !args[metadata_at]->is(Kind::none)) {
    if (!is_dict(*args[metadata_at])) fail("a tensor with damaged metadata");
    for (size_t i = 1; i < args[metadata_at]->items.size(); i += 2)
      if (args[metadata_at]->items[i]->integer != 0) fail("a lazily conjugated or negated tensor; resolve it first");
  }
  tensor.storage = std::move(ref.storage);
  // PyTorch's views of nothing can start anywhere (x.imag of an empty x); pointers are formed from it.
  if (tensor.numel() == 0) tensor.offset = 0;
  if (tensor.offset > tensor.storage->bytes / dtype_bytes(tensor.dtype))
    fail("a tensor that starts outside its storage");
  if (storage_bytes_needed(tensor.dtype, tensor.sizes, tensor.strides, tensor.offset) > tensor.storage->bytes)
    fail(str("a tensor ", tensor_type_text(tensor), " that reaches outside its storage of ", tensor.storage->bytes,
             " bytes"));
  return tensor;
}

namespace {

// A parameter without what makes it one.
const PickleValue& without_parameter(const PickleValue& value) {
  const bool parameter = value.is_call_of("torch._utils._rebuild_parameter") ||
                         value.is_call_of("torch._utils._rebuild_parameter_with_state");
  return parameter && !value.args->items.empty() ? without_parameter(*value.args->items[0]) : value;
}

// Whether the call is _rebuild_from_type_v2(function, class, arguments, attributes).
bool is_typed(const PickleValue& value) {
  if (!value.is_call_of("torch._tensor._rebuild_from_type_v2")) return false;
  const auto& args = value.args->items;
  return args.size() >= 3 && args[0]->is(Kind::global) && args[1]->is(Kind::global) && args[2]->is(Kind::tuple);
}

bool is_tensor_call(const PickleValue& given) {
  const PickleValue& value = without_parameter(given);
  return value.is_call_of("torch._utils._rebuild_tensor_v2") || value.is_call_of("torch._utils._rebuild_tensor_v3") ||
         is_typed(value);
}

}  // namespace

std::optional<WrapperTensor> PtArchive::wrapper(const PickleValue& given) {
  const PickleValue& value = without_parameter(given);
  if (!is_typed(value) || value.args->items[0]->text != "torch._utils._rebuild_wrapper_subclass") return std::nullopt;
  WrapperTensor out;
  out.class_name = value.args->items[1]->text;
  if (value.args->items.size() < 4) return out;
  const PickleValue* state = value.args->items[3];
  const std::vector<const PickleValue*> dicts =
      state->is(Kind::tuple) ? state->items : std::vector<const PickleValue*>{state};
  for (const PickleValue* dict : dicts) {
    if (!is_dict(*dict)) continue;
    for (size_t i = 0; i + 1 < dict->items.size(); i += 2)
      if (dict->items[i]->is(Kind::string) && is_tensor_call(*dict->items[i + 1]))
        out.parts.emplace_back(dict->items[i]->text, dict->items[i + 1]);
  }
  return out;
}

void PtArchive::fail_subclass(const PickleValue& value) const {
  const std::string& class_name = value.args->items[1]->text;
  if (const auto made = wrapper(value)) {
    std::vector<std::string> names;
    for (const auto& [name, part] : made->parts) names.push_back(name);
    fail_user("K0255", str(file_.label, ": a ", class_name, ", which is no tensor of its own but made of others (",
                           join(names, ", "), "); give those, or the result of its dequantize()"));
  }
  fail_user("K0255", str(file_.label, ": a tensor of the class ", class_name,
                         ", whose meaning only Python knows; convert it to a plain tensor first: "
                         "x.as_subclass(torch.Tensor)"));
}

Tensor PtArchive::tensor(const PickleValue& given) {
  const PickleValue& value = without_parameter(given);
  if (!value.is(Kind::call)) fail(str(pickle_kind_name(value.kind), " stands where a tensor should"));
  // Python attributes of a plain tensor say nothing to Kiln.
  if (is_typed(value)) {
    const auto& args = value.args->items;
    if (args[1]->text != "torch.Tensor" && args[1]->text != "torch.nn.parameter.Parameter") fail_subclass(value);
    return tensor_of(args[0]->text, args[2]->items);
  }
  return tensor_of(value.callable->text, value.args->items);
}

Tensor PtArchive::tensor_of(const std::string& name, const std::vector<const PickleValue*>& args) {
  if (name == "torch._utils._rebuild_tensor_v2") return rebuild(args, true);
  if (name == "torch._utils._rebuild_tensor_v3") return rebuild(args, false);
  if ((name == "torch._utils._rebuild_parameter" || name == "torch._utils._rebuild_parameter_with_state") &&
      !args.empty() && args[0]->is(Kind::call))
    return tensor(*args[0]);
  if (starts_with(name, "numpy."))
    fail(
        "an array or a number of NumPy's, of which only Python knows what it is; save tensors instead "
        "(torch.save([torch.from_numpy(array)], path)), or the array by itself as .npy or .npz");
  const char* hint =
      starts_with(name, "transformers.") ? "; save what is in it: torch.save(tuple(output.values()), path)" : "";
  fail(str("an object of the kind ", name, ", which is not in the list of what Kiln reads", hint));
}

Scalar PtArchive::number(const PickleValue& value) const {
  switch (value.kind) {
    case Kind::boolean:
      return Scalar(value.integer != 0);
    case Kind::integer:
      return Scalar(value.integer);
    case Kind::real:
      return Scalar(value.real);
    default:
      fail(str("a number was expected, not ", pickle_kind_name(value.kind)));
  }
}

Datum PtArchive::datum(const PickleValue& value) {
  switch (value.kind) {
    case Kind::none:
      return {};
    case Kind::boolean:
    case Kind::integer:
    case Kind::real:
      return {number(value)};
    case Kind::string:
      return {value.text};
    case Kind::tuple:
    case Kind::list: {
      std::vector<Datum> items;
      for (const PickleValue* item : value.items) items.push_back(datum(*item));
      return {std::move(items)};
    }
    case Kind::call:
      if (value.is_call_of("__builtin__.complex") || value.is_call_of("builtins.complex")) {
        if (value.args->items.size() != 2) fail("a damaged complex number");
        return {Scalar(std::complex<double>(number(*value.args->items[0]).as_double(),
                                            number(*value.args->items[1]).as_double()))};
      }
      return {tensor(value)};
    case Kind::big_integer:
      fail("an integer beyond 64 bits");
    default:
      fail(str(pickle_kind_name(value.kind), " stands where a tensor, a number, None or a list should"));
  }
}

namespace {

// A tensor made of others is its parts: "weight.qdata", "weight.scale".
void add_named(TensorFile& out, PtArchive& archive, const std::string& name, const PickleValue& value) {
  if (const auto made = PtArchive::wrapper(value)) {
    for (const auto& [part, inner] : made->parts) add_named(out, archive, str(name, ".", part), *inner);
    return;
  }
  out.names.push_back(name);
  out.items.push_back(archive.datum(value));
}

}  // namespace

TensorFile read_pt(const FileBytes& file) {
  PtArchive archive(file);
  const PickleValue& root = archive.root();
  TensorFile out;
  if (PtArchive::is_dict(root)) {
    for (size_t i = 0; i + 1 < root.items.size(); i += 2) {
      if (!root.items[i]->is(Kind::string))
        fail_user("K0151", str(file.label, ": a dict with a key that is no string"));
      add_named(out, archive, root.items[i]->text, *root.items[i + 1]);
    }
    return out;
  }
  Datum whole = archive.datum(root);
  if (whole.is_list())
    out.items = std::move(std::get<std::vector<Datum>>(whole.value));
  else
    out.items.push_back(std::move(whole));
  return out;
}

}  // namespace kiln
