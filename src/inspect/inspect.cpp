#include "inspect/inspect.h"

#include <set>

#include "base/counted.h"
#include "base/file_kind.h"
#include "base/inflate.h"
#include "base/zip.h"
#include "inspect/inspect_table.h"
#include "package/plan_io.h"
#include "pt2/pytree.h"
#include "pt2/reader.h"

namespace kiln {
namespace {

std::string type_text(const TensorType& type) {
  std::string text = str(dtype_torch_name(type.dtype), "[", shape_text(type.sizes), "]");
  if (!(type.strides == contiguous_strides(type.sizes))) text += str(" strides [", shape_text(type.strides), "]");
  return text;
}

std::string value_text(const Value& value) {
  switch (value.kind) {
    case ValueKind::tensor:
      return type_text(value.type);
    case ValueKind::tensor_list:
      return "list of tensors";
    case ValueKind::sym_int:
      return str("int ", value.expr.text());
    case ValueKind::sym_float:
      return str("float ", value.expr.text());
    case ValueKind::sym_bool:
      return str("bool ", value.expr.text());
    case ValueKind::none:
      return "None";
    case ValueKind::object:
      return "object";
  }
  return "";
}

std::string argument_text(const Argument& argument) {
  if (argument.is_none()) return "None";
  if (argument.is_value()) return value_text(*argument.as_value());
  if (argument.is_scalar()) return argument.as_scalar().text();
  if (const auto* text = std::get_if<std::string>(&argument.value)) return quote(*text);
  if (const auto* expr = std::get_if<Expr>(&argument.value)) return expr->text();
  return "constant";
}

std::string bound_text(int64_t bound, int64_t unbounded, const char* infinity) {
  return bound == unbounded ? infinity : std::to_string(bound);
}

std::string range_text(int64_t low, int64_t high) {
  return str(bound_text(low, INT64_MIN, "-∞"), " … ", bound_text(high, INT64_MAX, "∞"));
}

const char* weight_kind(InputKind kind) {
  return kind == InputKind::parameter ? "parameter" : kind == InputKind::buffer ? "buffer" : "constant";
}

std::set<std::string> devices_of(const Graph& graph) {
  std::set<std::string> devices;
  const auto add = [&](const Value* value) {
    if (value->kind == ValueKind::tensor) devices.insert(device_text(value->type.device));
  };
  for (const Value* input : graph.inputs) add(input);
  for (const auto& node : graph.nodes)
    for (const Value* result : node->results) add(result);
  return devices;
}

TextTable input_rows(const Program& program) {
  TextTable table;
  size_t position = 0;
  for (size_t i = 0; i < program.input_specs.size(); ++i) {
    const InputSpec& spec = program.input_specs[i];
    const Value& value = *program.graph.inputs[i];
    if (spec.kind == InputKind::user)
      table.row({std::to_string(position++), value.name, value_text(value)});
    else if (spec.kind == InputKind::constant_value)
      table.row({std::to_string(position++), value.name, str("always ", argument_text(spec.constant))});
  }
  return table;
}

bool is_user_output(const OutputSpec& spec) { return spec.kind == OutputKind::user || spec.kind == OutputKind::loss; }

// As a package has them: keys of the result, else names of values, and no two alike. "-": neither.
std::vector<std::string> output_names(const Program& program) {
  const std::vector<std::string> keys = output_keys(program.out_spec);
  std::vector<std::string> names;
  std::vector<bool> settled;
  for (size_t i = 0; i < program.output_specs.size(); ++i) {
    if (!is_user_output(program.output_specs[i])) continue;
    const Argument& output = program.graph.outputs[i];
    const std::string key = names.size() < keys.size() ? keys[names.size()] : "";
    names.push_back(!key.empty() ? key : output.is_value() ? output.as_value()->name : "-");
    settled.push_back(!key.empty() || !output.is_value());
  }
  return unique_names(std::move(names), settled);
}

TextTable output_rows(const Program& program, TextTable& mutations) {
  TextTable table;
  const std::vector<std::string> names = output_names(program);
  size_t position = 0;
  for (size_t i = 0; i < program.output_specs.size(); ++i) {
    const OutputSpec& spec = program.output_specs[i];
    const Argument& output = program.graph.outputs[i];
    if (spec.kind == OutputKind::buffer_mutation) mutations.row({"buffer", spec.target});
    if (spec.kind == OutputKind::user_input_mutation) mutations.row({"input", spec.target});
    if (!is_user_output(spec)) continue;
    table.row({std::to_string(position), names[position], argument_text(output)});
    ++position;
  }
  return table;
}

// Where each symbol's value comes from: the first user input that has it as a size.
std::string symbol_source(const Program& program, const std::string& symbol, const SymbolInfo& info) {
  if (info.unbacked) return "from data, while running";
  for (size_t i = 0; i < program.input_specs.size(); ++i) {
    if (program.input_specs[i].kind != InputKind::user) continue;
    const Value& value = *program.graph.inputs[i];
    if (value.kind == ValueKind::sym_int && mentions(value.expr, symbol)) return str("input ", value.name);
    if (value.kind != ValueKind::tensor) continue;
    for (size_t dim = 0; dim < value.type.sizes.size(); ++dim)
      if (value.type.sizes[dim].is_symbol() && value.type.sizes[dim].name() == symbol)
        return str(value.name, ".size(", dim, ")");
  }
  return "from an expression of input sizes";
}

TextTable symbol_rows(const Program& program) {
  TextTable table;
  for (const auto& [name, info] : program.symbols)
    table.row({name, range_text(info.range.low, info.range.high), info.hint ? str("hint ", *info.hint) : "",
               symbol_source(program, name, info)});
  return table;
}

// The name that comes before this one in the signature, of the very same tensor; empty: none.
std::string first_name(const Program& program, const std::string& name) {
  const Tensor& tensor = program.constants.at(name);
  for (const InputSpec& spec : program.input_specs) {
    if (spec.target == name || tensor.numel() == 0) return "";
    const auto found = program.constants.find(spec.target);
    if (found == program.constants.end() || !found->second.storage || !tensor.storage) continue;
    const Tensor& other = found->second;
    if (other.storage->data == tensor.storage->data && other.offset == tensor.offset && other.dtype == tensor.dtype &&
        other.sizes == tensor.sizes && other.strides == tensor.strides)
      return spec.target;
  }
  return "";
}

TextTable weight_rows(const Program& program, uint64_t& bytes) {
  TextTable table;
  std::set<std::string> listed;
  for (const InputSpec& spec : program.input_specs) {
    const auto found = program.constants.find(spec.target);
    if (spec.target.empty() || found == program.constants.end() || !listed.insert(spec.target).second) continue;
    const Tensor& tensor = found->second;
    const uint64_t size = static_cast<uint64_t>(tensor.numel() * dtype_bytes(tensor.dtype));
    const std::string first = first_name(program, spec.target);
    if (first.empty()) bytes += size;
    table.row({spec.target,
               str(dtype_torch_name(tensor.dtype), "[",
                   join_map(tensor.sizes, ", ", [](int64_t n) { return std::to_string(n); }), "]"),
               bytes_text(size), str(weight_kind(spec.kind), first.empty() ? "" : ", the same as ", first)});
  }
  return table;
}

const ZipEntry* find_plan(const ZipReader& zip) {
  for (const ZipEntry& entry : zip.entries())
    if (entry.name.find("data/kiln/") != std::string::npos && ends_with(entry.name, "/plan")) return &entry;
  return nullptr;
}

Json named_type_json(const std::string& name, const std::string& type, const Value* value) {
  Json one = Json::object();
  one.set("name", name), one.set("type", type);
  if (!value || value->kind != ValueKind::tensor) return one;
  Json sizes = Json::array();
  for (const Expr& size : value->type.sizes) sizes.push(size_json(size.text()));
  one.set("dtype", dtype_torch_name(value->type.dtype)), one.set("sizes", std::move(sizes));
  return one;
}

Json weights_json(const Program& program) {
  Json list = Json::array();
  std::set<std::string> listed;
  for (const InputSpec& spec : program.input_specs) {
    const auto found = program.constants.find(spec.target);
    if (spec.target.empty() || found == program.constants.end() || !listed.insert(spec.target).second) continue;
    const Tensor& tensor = found->second;
    Json one = Json::object(), sizes = Json::array();
    for (const int64_t size : tensor.sizes) sizes.push(size);
    one.set("name", spec.target), one.set("dtype", dtype_torch_name(tensor.dtype)), one.set("sizes", std::move(sizes));
    one.set("bytes", tensor.numel() * dtype_bytes(tensor.dtype)), one.set("what", weight_kind(spec.kind));
    if (const std::string first = first_name(program, spec.target); !first.empty()) one.set("same_as", first);
    list.push(std::move(one));
  }
  return list;
}

Json inspect_program_json(const Program& program, const std::map<std::string, std::string>& metadata) {
  Json root = Json::object(), devices = Json::array(), extra = Json::object(), inputs = Json::array(),
       outputs = Json::array(), mutates = Json::array(), symbols = Json::array(), guards = Json::array();
  root.set("what", "exported program"), root.set("name", program.name), root.set("torch", program.torch_version);
  root.set("schema", str(program.schema_major, ".", program.schema_minor));
  for (const std::string& device : devices_of(program.graph)) devices.push(device);
  root.set("devices", std::move(devices));
  for (const auto& [key, value] : metadata) extra.set(key, value);
  root.set("metadata", std::move(extra));
  for (size_t i = 0; i < program.input_specs.size(); ++i) {
    const InputSpec& spec = program.input_specs[i];
    const Value& value = *program.graph.inputs[i];
    if (spec.kind == InputKind::user) inputs.push(named_type_json(value.name, value_text(value), &value));
    if (spec.kind == InputKind::constant_value)
      inputs.push(named_type_json(value.name, str("always ", argument_text(spec.constant)), nullptr));
  }
  const std::vector<std::string> names = output_names(program);
  size_t position = 0;
  for (size_t i = 0; i < program.output_specs.size(); ++i) {
    const OutputSpec& spec = program.output_specs[i];
    const Argument& output = program.graph.outputs[i];
    if (spec.kind == OutputKind::buffer_mutation || spec.kind == OutputKind::user_input_mutation) {
      Json one = Json::object();
      one.set("what", spec.kind == OutputKind::buffer_mutation ? "buffer" : "input"), one.set("name", spec.target);
      mutates.push(std::move(one));
    }
    if (!is_user_output(spec)) continue;
    const Value* value = output.is_value() ? output.as_value() : nullptr;
    outputs.push(named_type_json(names[position++], argument_text(output), value));
  }
  for (const auto& [name, info] : program.symbols) {
    Json one = Json::object();
    one.set("name", name), one.set("low", bound_json(info.range.low)), one.set("high", bound_json(info.range.high));
    one.set("hint", info.hint ? Json(*info.hint) : Json()), one.set("source", symbol_source(program, name, info));
    symbols.push(std::move(one));
  }
  for (const Guard& guard : program.guards) {
    Json one = Json::object();
    one.set("condition", guard.condition.text()), one.set("reason", guard.reason);
    guards.push(std::move(one));
  }
  root.set("inputs", std::move(inputs)), root.set("outputs", std::move(outputs)),
      root.set("mutates", std::move(mutates));
  root.set("symbols", std::move(symbols)), root.set("guards", std::move(guards));
  root.set("weights", weights_json(program)), root.set("graph", print(program.graph));
  return root;
}

// Of a text in the package; none where it is not there.
std::vector<std::string> lines_of(const ZipReader& zip, const std::string& name) {
  const ZipEntry* entry = zip.find(name);
  return entry ? split(trim(as_text(zip.read(*entry).bytes)), '\n') : std::vector<std::string>();
}

// What is shown of a package: the plan of the target that this machine runs, and where its steps come from.
struct ShownPlan {
  std::string folder;
  TargetPlan target;
  format::Plan plan;
  std::optional<format::Origins> origins;
};

ShownPlan shown_plan(const ZipReader& zip, const ZipEntry& first) {
  ShownPlan out;
  out.folder = first.name.substr(0, first.name.size() - std::string_view("plan").size());
  out.plan = format::read_plan(zip.read(first).bytes);
  out.target = plan_for_this_machine(out.plan);
  const ZipEntry* own = zip.find(out.target.entry);
  if (!own) own = zip.find(out.folder + out.target.entry);
  if (own && own->name != first.name) out.plan = format::read_plan(zip.read(*own).bytes);
  const ZipEntry* origins = zip.find(out.folder + debug_entry(out.target, "origins"));
  if (!origins) origins = zip.find(out.folder + "debug/origins");
  if (origins) out.origins = format::read_origins(zip.read(*origins).bytes);
  return out;
}

Json inspect_package_json(const ZipReader& zip, const ZipEntry& plan_entry) {
  const ShownPlan shown = shown_plan(zip, plan_entry);
  Json root = inspect_plan_json(shown.plan, shown.target, shown.origins ? &*shown.origins : nullptr);
  for (const auto& [key, name] :
       {std::pair("settings", "settings"), std::pair("compiled_with", "debug/settings.txt")}) {
    Json lines = Json::array();
    for (const std::string& line : lines_of(zip, shown.folder + name)) lines.push(line);
    root.set(key, std::move(lines));
  }
  const ZipEntry* graph = zip.find(shown.folder + "debug/graph.txt");
  root.set("graph", graph ? Json(print(parse_program(as_text(zip.read(*graph).bytes)).graph)) : Json());
  return root;
}

std::string inspect_package(const ZipReader& zip, const ZipEntry& plan_entry) {
  const ShownPlan shown = shown_plan(zip, plan_entry);
  const std::string& folder = shown.folder;
  std::string text = inspect_plan(shown.plan, shown.target, shown.origins ? &*shown.origins : nullptr, zip.label());
  const auto add_settings = [&](const char* title, const char* name) {
    if (const std::vector<std::string> lines = lines_of(zip, folder + name); !lines.empty())
      text += str("\n", title, "\n  ", join(lines, "\n  "), "\n");
  };
  add_settings("compiled with", "debug/settings.txt");
  add_settings("settings that its runs start with", "settings");
  if (const ZipEntry* graph = zip.find(folder + "debug/graph.txt"))
    text += str("\ngraph\n", print(parse_program(as_text(zip.read(*graph).bytes)).graph));
  else
    text += "\ngraph\n  not in this package: its debug section was stripped\n";
  return text;
}

}  // namespace

std::string metadata_line(const std::string& key, const std::string& value) {
  constexpr size_t most = 100;
  const bool whole = value.size() <= most && value.find('\n') == std::string::npos;
  return str("  metadata ", key, " = ",
             whole ? value : str(quote(std::string_view(value).substr(0, most)), ", ", value.size(), " bytes"), "\n");
}

std::string inspect_program(const Program& program, const std::string& label,
                            const std::map<std::string, std::string>& metadata) {
  const std::set<std::string> devices = devices_of(program.graph);
  std::string text =
      str(label, ": exported program '", program.name, "', ", counted(program.graph.nodes.size(), "node"), "\n");
  text += str("  torch ", program.torch_version, ", schema ", program.schema_major, ".", program.schema_minor, "\n");
  text += str("  device ", join({devices.begin(), devices.end()}, ", "), "\n");
  for (const auto& [key, value] : metadata) text += metadata_line(key, value);
  text += text_section("inputs", input_rows(program), "none");
  TextTable mutations;
  text += text_section("outputs", output_rows(program, mutations), "none");
  text += text_section("mutates", mutations);
  text += text_section("symbols", symbol_rows(program), "none: every size is fixed");
  TextTable guards;
  for (const Guard& guard : program.guards) guards.row({guard.condition.text(), str("because: ", guard.reason)});
  text += text_section("guards", guards, "none");
  uint64_t bytes = 0;
  const TextTable weights = weight_rows(program, bytes);
  text += text_section(str("weights, ", bytes_text(bytes), " in all"), weights);
  return text + "\ngraph\n" + print(program.graph);
}

Json inspect_file_json(const std::string& path) {
  if (const FileKind kind = file_kind_of(path); kind != FileKind::kiln_package && kind != FileKind::exported_program)
    return Json(read_pt2(path).name);  // says what it is instead
  const auto file = MappedFile::open(path);
  const ZipReader zip(file->bytes(), path, inflate_entry);
  if (const ZipEntry* plan = find_plan(zip)) return inspect_package_json(zip, *plan);
  return inspect_program_json(read_pt2(path, true), read_extra_files(path));
}

std::string inspect_file(const std::string& path) {
  if (const FileKind kind = file_kind_of(path); kind != FileKind::kiln_package && kind != FileKind::exported_program)
    return read_pt2(path).name;  // says what it is instead
  const auto file = MappedFile::open(path);
  const ZipReader zip(file->bytes(), path, inflate_entry);
  if (const ZipEntry* plan = find_plan(zip)) return inspect_package(zip, *plan);
  const Program program = read_pt2(path, true);
  return inspect_program(program, path, read_extra_files(path));
}

}  // namespace kiln
