#include "pt2/reader.h"

#include <algorithm>

#include "base/error.h"
#include "base/file_kind.h"
#include "base/inflate.h"
#include "base/json.h"
#include "pt2/extents.h"
#include "pt2/graph_json.h"
#include "pt2/guards.h"
#include "pt2/pytree.h"
#include "pt2/weights.h"
#include "pt2/wrapped_weights.h"

namespace kiln {
namespace {

constexpr int schema_major_read = 8;

class ProgramReader {
 public:
  ProgramReader(const ZipReader& zip, const std::shared_ptr<const void>& keep)
      : zip_(zip), keep_(keep), layout_(find_layout(zip)) {}

  Program read() {
    const SharedBytes text = zip_.read(zip_.at(layout_.model_json));
    json_ = parse_json(as_text(text.bytes), str(zip_.label(), ":", layout_.model_json));
    program_.name = layout_.model_name;
    read_versions();
    symbols_.set_ranges(exported_ranges(json_));
    read_graph();
    read_pytrees();
    Weights weights = read_weights(zip_, layout_, keep_);
    program_.constants = std::move(weights.tensors);
    unwrap_weights(program_, weights.wrappers);
    check_constants();
    read_conditions(json_, places_, symbols_, program_);
    check_extents(program_);
    read_sample_inputs();
    program_.keep_alive = std::const_pointer_cast<void>(keep_);
    return std::move(program_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { fail_user("K0160", str(zip_.label(), ": ", what)); }

  void read_versions() {
    const Json& version = json_.at("schema_version");
    const int64_t major = version.at("major").as_int(), minor = version.at("minor").as_int();
    if (major != schema_major_read || minor < 0 || minor > 100000)
      fail_unsupported("K0161", str(zip_.label(), " has schema ", major, ".", minor, "; Kiln reads ", schema_major_read,
                                    ".x (export it with a PyTorch of 2.5 or later)"));
    program_.schema_major = static_cast<int>(major);
    program_.schema_minor = static_cast<int>(minor);
    if (const Json* torch = json_.find_value("torch_version")) program_.torch_version = torch->as_string();
    if (const Json* opset = json_.find_value("opset_version"))
      if (const Json* aten = opset->find_value("aten"))
        program_.opset_version = static_cast<int>(std::clamp<int64_t>(aten->as_int(), 0, 1000000));
  }

  void read_graph() {
    const Json& module = json_.at("graph_module");
    const Json& graph = module.at("graph");
    const Json::Array& specs = module.at("signature").at("input_specs").items();
    std::map<size_t, std::string> constant_names;
    for (size_t i = 0; i < specs.size(); ++i)
      if (const Json* constant = specs[i].find("constant_input")) constant_names[i] = constant->at("name").as_string();
    GraphJson reader(graph, program_.graph, symbols_);
    reader.read(constant_names);
    const Json::Array& inputs = graph.at("inputs").items();
    if (specs.size() != inputs.size()) fail("the signature has another number of inputs than the graph");
    for (size_t i = 0; i < specs.size(); ++i) read_input_spec(specs[i], inputs[i], reader, *program_.graph.inputs[i]);
    const Json::Array& outputs = module.at("signature").at("output_specs").items();
    if (outputs.size() != program_.graph.outputs.size())
      fail("the signature has another number of outputs than the graph");
    for (const Json& output : outputs) read_output_spec(output);
  }

  void read_input_spec(const Json& json, const Json& input, GraphJson& reader, const Value& value) {
    if (json.members().size() != 1) fail("an input of the signature is damaged");
    const std::string& kind = json.members()[0].key;
    const Json& body = json.members()[0].value;
    InputSpec spec;
    if (kind == "user_input") {
      // Static numbers may also come this way in older files.
      if (value.kind == ValueKind::object || value.kind == ValueKind::none) {
        if (input.find("as_custom_obj") != nullptr) fail_unsupported("K0166", "an input that is a custom object");
        spec.kind = InputKind::constant_value;
        spec.constant = reader.argument(input);
      }
    } else if (kind == "parameter") {
      spec.kind = InputKind::parameter;
      spec.target = body.at("parameter_name").as_string();
    } else if (kind == "buffer") {
      spec.kind = InputKind::buffer;
      spec.target = body.at("buffer_name").as_string();
      spec.persistent = body.at("persistent").as_bool();
    } else if (kind == "tensor_constant") {
      spec.kind = InputKind::constant_tensor;
      spec.target = body.at("tensor_constant_name").as_string();
    } else if (kind == "constant_input") {
      spec.kind = InputKind::constant_value;
      spec.constant = reader.argument(body.at("value"));
    } else if (kind == "custom_obj") {
      spec.kind = InputKind::custom_object;
      spec.target = body.at("custom_obj_name").as_string();
    } else if (kind == "token") {
      spec.kind = InputKind::token;
    } else {
      fail_unsupported("K0166", str("an input of the kind ", quote(kind), " is not supported"));
    }
    check_input_name(body, spec, value);
    program_.input_specs.push_back(std::move(spec));
  }

  // Signature and graph list the same inputs in the same order.
  void check_input_name(const Json& body, const InputSpec& spec, const Value& value) const {
    if (spec.kind == InputKind::constant_value) return;
    const Json* arg = body.find("arg");
    if (arg == nullptr) return;
    const Json* inner = arg->find("name");
    if (inner == nullptr && arg->members().size() == 1) {
      const Json& body_of_arg = arg->members()[0].value;
      if (!body_of_arg.is_object()) return;
      inner = body_of_arg.find("name");
      if (inner == nullptr) inner = body_of_arg.find("as_name");
    }
    if (inner != nullptr && inner->as_string() != value.name)
      fail(str("the signature says ", quote(inner->as_string()), " where the graph has the input ", quote(value.name)));
    const bool needs_tensor =
        spec.kind == InputKind::parameter || spec.kind == InputKind::buffer || spec.kind == InputKind::constant_tensor;
    if (needs_tensor && value.kind != ValueKind::tensor) fail(str("the weight ", quote(spec.target), " is no tensor"));
  }

  void read_output_spec(const Json& json) {
    if (json.members().size() != 1) fail("an output of the signature is damaged");
    const std::string& kind = json.members()[0].key;
    const Json& body = json.members()[0].value;
    OutputSpec spec;
    if (kind == "user_output") {
      spec.kind = OutputKind::user;
    } else if (kind == "loss_output") {
      spec.kind = OutputKind::loss;
    } else if (kind == "buffer_mutation") {
      spec.kind = OutputKind::buffer_mutation;
      spec.target = body.at("buffer_name").as_string();
    } else if (kind == "parameter_mutation") {
      spec.kind = OutputKind::buffer_mutation;  // to the caller both are constants that the program writes
      spec.target = body.at("parameter_name").as_string();
    } else if (kind == "user_input_mutation") {
      spec.kind = OutputKind::user_input_mutation;
      spec.target = body.at("user_input_name").as_string();
    } else if (kind == "token") {
      spec.kind = OutputKind::token;
    } else {
      fail_unsupported("K0166", str("an output of the kind ", quote(kind), " (of a training graph) is not supported"));
    }
    program_.output_specs.push_back(std::move(spec));
  }

  void read_pytrees() {
    const Json* calls = json_.at("graph_module").find_value("module_call_graph");
    if (calls == nullptr) return;
    for (const Json& call : calls->items()) {
      const Json* signature = call.find_value("signature");
      if (!call.at("fqn").as_string().empty() || signature == nullptr) continue;
      program_.in_spec = signature->at("in_spec").as_string();
      program_.out_spec = signature->at("out_spec").as_string();
      if (const Json* names = signature->find_value("forward_arg_names"))
        for (const Json& name : names->items()) program_.forward_arg_names.push_back(name.as_string());
    }
    if (program_.in_spec.empty()) return;
    tree_ = parse_pytree(program_.in_spec);
    places_ = leaf_places(tree_, program_.forward_arg_names);
  }

  void check_constants() const {
    for (size_t i = 0; i < program_.input_specs.size(); ++i) {
      const InputSpec& spec = program_.input_specs[i];
      if (spec.kind != InputKind::parameter && spec.kind != InputKind::buffer &&
          spec.kind != InputKind::constant_tensor)
        continue;
      const auto found = program_.constants.find(spec.target);
      if (found == program_.constants.end()) fail(str("the weight ", quote(spec.target), " is not in the archive"));
      const TensorType& type = program_.graph.inputs[i]->type;
      const Tensor& tensor = found->second;
      bool same = type.dtype == tensor.dtype && type.sizes.size() == tensor.sizes.size();
      for (size_t d = 0; same && d < tensor.sizes.size(); ++d) same = type.sizes[d].is_constant(tensor.sizes[d]);
      if (!same)
        fail(str("the weight ", quote(spec.target), " is ", tensor_type_text(tensor), " but the graph says ",
                 dtype_name(type.dtype), "[", shape_text(type.sizes), "]"));
      check_weight_layout(spec.target, tensor, type);
    }
  }

  // The graph's strides say where elements lie in bytes that the weights' own record describes too.
  static void check_weight_layout(const std::string& name, const Tensor& tensor, const TensorType& type) {
    if (tensor.numel() == 0) return;
    bool same = type.offset.is_constant(tensor.offset);
    for (size_t d = 0; d < tensor.sizes.size(); ++d)
      same = same && (tensor.sizes[d] == 1 || type.strides[d].is_constant(tensor.strides[d]));
    if (same) return;
    const auto text = [](int64_t n) { return std::to_string(n); };
    fail_user("K0117", str("the weight ", quote(name), " has the strides [", join_map(tensor.strides, ", ", text),
                           "] and the offset ", tensor.offset, " in the archive, but the graph says [",
                           shape_text(type.strides), "] and ", type.offset.text()));
  }

  FileBytes entry_bytes(const std::string& entry) const {
    const SharedBytes data = zip_.read(zip_.at(entry));
    return {data.bytes, data.keep != nullptr ? data.keep : keep_, str(zip_.label(), ":", entry)};
  }

  // False: there are none, or their types only Python knows.
  bool flatten_sample_inputs(std::vector<Datum>& items) {
    if (layout_.sample_inputs_pt.empty() || program_.in_spec.empty()) return false;
    const FileBytes file = entry_bytes(layout_.sample_inputs_pt);
    if (file.bytes.empty()) return false;
    PtArchive archive(file);
    return flatten_pickled(tree_, archive.root(), archive, items);
  }

  void read_sample_inputs() {
    std::vector<Datum> items;
    if (!layout_.flat_inputs_pt.empty())
      items = read_pt(entry_bytes(layout_.flat_inputs_pt)).items;
    else if (!flatten_sample_inputs(items))
      return;
    const auto is_user = [](const InputSpec& spec) {
      return spec.kind == InputKind::user || spec.kind == InputKind::constant_value;
    };
    const auto users = std::count_if(program_.input_specs.begin(), program_.input_specs.end(), is_user);
    if (static_cast<size_t>(users) == items.size()) program_.sample_inputs = std::move(items);
  }

  const ZipReader& zip_;
  const std::shared_ptr<const void>& keep_;
  ArchiveLayout layout_;
  Json json_;
  Program program_;
  SymbolTable symbols_;
  Pytree tree_;
  std::map<std::string, size_t> places_;
};

}  // namespace

Program read_pt2(ByteSpan bytes, const std::shared_ptr<const void>& keep, const std::string& label, bool looking_only) {
  if (!begins_like_zip(bytes)) fail_user("K0162", not_a_model_text(label, file_kind(bytes)));
  const ZipReader zip(bytes, label, inflate_entry, looking_only ? 1 << 20 : UINT64_MAX);
  return ProgramReader(zip, keep).read();
}

Program read_pt2(const std::string& path, bool looking_only) {
  if (is_directory(path)) fail_user("K0162", not_a_model_text(path, FileKind::directory));
  const auto mapped = MappedFile::open(path);
  return read_pt2(mapped->bytes(), mapped, path, looking_only);
}

std::map<std::string, std::string> read_extra_files(const std::string& path) {
  const auto mapped = MappedFile::open(path);
  const ZipReader zip(mapped->bytes(), path, inflate_entry);
  const std::string model = find_layout(zip).model_json;
  const size_t folder = model.rfind("models/");
  // Before PyTorch 2.8 the archive had no folder of its own.
  const std::string prefix = folder == std::string::npos ? "extra_files/" : model.substr(0, folder) + "extra/";
  std::map<std::string, std::string> files;
  for (const ZipEntry& entry : zip.entries())
    if (starts_with(entry.name, prefix) && entry.name.size() > prefix.size())
      files[entry.name.substr(prefix.size())] = as_text(zip.read(entry).bytes);
  return files;
}

}  // namespace kiln
