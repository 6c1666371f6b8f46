#include "pt2/writer.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "pt2/graph_writer.h"
#include "pt2/guards.h"
#include "pt2/pytree.h"
#include "pt2/symbolic_nodes.h"
#include "pt2/tensor_files.h"
#include "pt2/weights_writer.h"

namespace kiln {
namespace {

constexpr int schema_major = 8, schema_minor = 20, newest_opset = 10;
constexpr const char* unknown_torch = "2.9.0";

Json one_member(const char* key, Json value) { return Json(Json::Object{JsonMember{key, std::move(value)}}); }

bool is_user(const InputSpec& spec) { return spec.kind == InputKind::user || spec.kind == InputKind::constant_value; }
bool is_result(const OutputSpec& spec) { return spec.kind == OutputKind::user || spec.kind == OutputKind::loss; }

// The tree if it has as many leaves as there are things, else a plain one.
std::string fitting_tree(const std::string& text, size_t leaves, std::string (*plain)(size_t)) {
  if (!text.empty()) try {
      if (leaf_count(parse_pytree(text)) == leaves) return text;
    } catch (const Error&) {
    }
  return plain(leaves);
}

class ProgramWriter {
 public:
  ProgramWriter(Program program, const std::vector<Datum>& samples)
      : program_(std::move(program)), samples_(samples), sympy_(program_) {
    make_symbolic_nodes(program_.graph);
    for (size_t i = 0; i < program_.input_specs.size(); ++i)
      if (program_.input_specs[i].kind == InputKind::constant_value)
        constants_.emplace(i, program_.input_specs[i].constant);
    // PyTorch wants tokens of effects first, then what the program mutates, then what it gives back.
    const auto rank = [&](size_t i) {
      const OutputSpec& spec = program_.output_specs[i];
      return spec.kind == OutputKind::token ? 0 : is_result(spec) ? 2 : 1;
    };
    for (const int wanted : {0, 1, 2})
      for (size_t i = 0; i < program_.output_specs.size(); ++i)
        if (rank(i) == wanted) output_order_.push_back(i);
    const auto& specs = program_.input_specs;
    const auto inputs = static_cast<size_t>(std::count_if(specs.begin(), specs.end(), is_user));
    const auto& outputs = program_.output_specs;
    const auto results = static_cast<size_t>(std::count_if(outputs.begin(), outputs.end(), is_result));
    in_spec_ = fitting_tree(program_.in_spec, inputs, arguments_pytree_text);
    out_spec_ = fitting_tree(program_.out_spec, results, outputs_pytree_text);
    argument_names_ = program_.forward_arg_names;
    if (in_spec_ != program_.in_spec) name_arguments();
    if (!samples_.empty() && samples_.size() != inputs)
      fail_user("K0169", str("a .pt2 for ", inputs, " inputs cannot have ", samples_.size(), " sample inputs"));
  }

  void write(const ZipWriter::Sink& sink, const std::map<std::string, std::string>& extra_files) {
    ZipWriter zip(sink);
    write_constants(zip);
    zip.add(root("models/model.json"), json_text(exported_program()));
    write_samples(zip);
    zip.add(root("archive_format"), "pt2");
    zip.add(root("archive_version"), "0");
    zip.add(root(".data/version"), "6\n");
    zip.add(root("byteorder"), "little");
    for (const auto& [name, text] : extra_files) zip.add(root("extra/" + name), text);
    zip.finish();
  }

 private:
  // torch.export.load takes the model of the name "model" only.
  static std::string root(std::string_view entry) { return str("model/", entry); }

  void name_arguments() {
    argument_names_.clear();
    for (size_t i = 0; i < program_.input_specs.size(); ++i)
      if (is_user(program_.input_specs[i])) argument_names_.push_back(program_.graph.inputs[i]->name);
  }

  void write_constants(ZipWriter& zip) {
    WeightFolder weights{root("data/weights/"), "weight_", {}, {}};
    WeightFolder constants{root("data/constants/"), "tensor_", {}, {}};
    for (const auto& [name, tensor] : program_.constants) weights.names.insert(name);
    for (const InputSpec& spec : program_.input_specs) {
      if (spec.kind == InputKind::parameter) weights.parameters.insert(spec.target);
      if (spec.kind == InputKind::constant_tensor || (spec.kind == InputKind::buffer && !spec.persistent)) {
        if (weights.names.erase(spec.target) != 0) constants.names.insert(spec.target);
      }
      const bool held = spec.kind == InputKind::parameter || spec.kind == InputKind::buffer ||
                        spec.kind == InputKind::constant_tensor;
      if (held && (!program_.constants.contains(spec.target) || !program_.constants.at(spec.target).defined()))
        fail_user("K0178", str("a .pt2 cannot be written: the values of ", quote(spec.target), " are not known"));
    }
    zip.add(root("data/weights/model_weights_config.json"), write_weights(program_, weights, sympy_, zip));
    zip.add(root("data/constants/model_constants_config.json"), write_weights(program_, constants, sympy_, zip));
  }

  void write_samples(ZipWriter& zip) {
    std::string pickled, flat;
    auto into = [](std::string& text) { return [&text](ByteSpan bytes) { text += as_text(bytes); }; };
    if (!samples_.empty()) {
      const Pytree tree = parse_pytree(in_spec_);
      if (can_pickle(tree))
        write_pickled(tree, samples_, into(pickled));
      else
        write_pt({samples_, {}}, into(flat));
    }
    zip.add(root("data/sample_inputs/model.pt"), pickled);
    if (!flat.empty()) zip.add(root("data/sample_inputs/model_flat.pt"), flat);
  }

  Json exported_program() {
    GraphWriter graph(program_.graph, sympy_, constants_);
    std::vector<Argument> outputs;
    for (const size_t i : output_order_) outputs.push_back(program_.graph.outputs[i]);
    Json module = Json::object();
    module.set("graph", graph.write(outputs));
    module.set("signature", signature(graph));
    module.set("module_call_graph", call_graph(graph));
    module.set("metadata", Json::object());
    module.set("treespec_namedtuple_fields", Json::object());
    Json out = Json::object();
    out.set("graph_module", std::move(module));
    out.set("opset_version", one_member("aten", program_.opset_version > 0 ? program_.opset_version : newest_opset));
    out.set("range_constraints", range_constraints());
    Json version = Json::object();
    version.set("major", schema_major);
    version.set("minor", schema_minor);
    out.set("schema_version", std::move(version));
    // PyTorch takes tokens out again, but only of what it calls its functional dialect.
    const auto& specs = program_.input_specs;
    const bool tokens = std::any_of(specs.begin(), specs.end(), [](auto& s) { return s.kind == InputKind::token; });
    out.set("verifiers", Json::Array{Json(tokens ? "ATEN" : "TRAINING")});
    out.set("torch_version", program_.torch_version.empty() ? std::string(unknown_torch) : program_.torch_version);
    out.set("guards_code", guards_code());
    return out;
  }

  Json input_spec(size_t i, GraphWriter& graph) {
    const InputSpec& spec = program_.input_specs[i];
    const std::string& name = graph.name_of(program_.graph.inputs[i]);
    Json body = Json::object();
    if (spec.kind == InputKind::constant_value) {
      body.set("name", name);
      body.set("value", graph.argument(spec.constant));
      return one_member("constant_input", std::move(body));
    }
    if (spec.kind == InputKind::user) {
      body.set("arg", graph.input(i));
      return one_member("user_input", std::move(body));
    }
    body.set("arg", one_member("name", name));
    switch (spec.kind) {
      case InputKind::parameter:
        body.set("parameter_name", spec.target);
        return one_member("parameter", std::move(body));
      case InputKind::buffer:
        body.set("buffer_name", spec.target);
        body.set("persistent", spec.persistent);
        return one_member("buffer", std::move(body));
      case InputKind::constant_tensor:
        body.set("tensor_constant_name", spec.target);
        return one_member("tensor_constant", std::move(body));
      case InputKind::token:
        return one_member("token", std::move(body));
      default:
        fail_unsupported("K0168",
                         str("the input ", quote(name), " is a custom object, which a .pt2 of Kiln cannot hold"));
    }
  }

  Json output_spec(size_t i, GraphWriter& graph) {
    const OutputSpec& spec = program_.output_specs[i];
    const Argument& output = program_.graph.outputs[i];
    Json body = Json::object();
    if (spec.kind == OutputKind::user) {
      body.set("arg", graph.argument(output));
      return one_member("user_output", std::move(body));
    }
    if (!output.is_value() || output.as_value()->kind != ValueKind::tensor)
      fail_unsupported("K0168", "an output of the signature that is no tensor");
    body.set("arg", one_member("name", graph.name_of(output.as_value())));
    if (spec.kind == OutputKind::loss) return one_member("loss_output", std::move(body));
    if (spec.kind == OutputKind::user_input_mutation) {
      const Value* target = program_.graph.find_value(spec.target);
      body.set("user_input_name", target != nullptr ? graph.name_of(target) : spec.target);
      return one_member("user_input_mutation", std::move(body));
    }
    if (spec.kind == OutputKind::token) return one_member("token", std::move(body));
    const auto is_parameter = [&spec](const InputSpec& input) {
      return input.kind == InputKind::parameter && input.target == spec.target;
    };
    const bool parameter = std::any_of(program_.input_specs.begin(), program_.input_specs.end(), is_parameter);
    body.set(parameter ? "parameter_name" : "buffer_name", spec.target);
    return one_member(parameter ? "parameter_mutation" : "buffer_mutation", std::move(body));
  }

  Json signature(GraphWriter& graph) {
    Json::Array inputs, outputs;
    for (size_t i = 0; i < program_.input_specs.size(); ++i) inputs.push_back(input_spec(i, graph));
    for (const size_t i : output_order_) outputs.push_back(output_spec(i, graph));
    Json out = Json::object();
    out.set("input_specs", std::move(inputs));
    out.set("output_specs", std::move(outputs));
    return out;
  }

  // Of the model itself; submodules have no calls of their own in the graph.
  Json call_graph(GraphWriter& graph) {
    Json::Array inputs, outputs, names;
    for (size_t i = 0; i < program_.input_specs.size(); ++i)
      if (is_user(program_.input_specs[i])) inputs.push_back(graph.input(i));
    for (const size_t i : output_order_)
      if (is_result(program_.output_specs[i])) outputs.push_back(graph.argument(program_.graph.outputs[i]));
    for (const std::string& name : argument_names_) names.push_back(name);
    Json signature = Json::object();
    signature.set("inputs", std::move(inputs));
    signature.set("outputs", std::move(outputs));
    signature.set("in_spec", in_spec_);
    signature.set("out_spec", out_spec_);
    signature.set("forward_arg_names", argument_names_.empty() ? Json() : Json(std::move(names)));
    Json entry = Json::object();
    entry.set("fqn", "");
    entry.set("signature", std::move(signature));
    return Json::Array{std::move(entry)};
  }

  static Json range_json(const Interval& range) {
    Json out = Json::object();
    out.set("min_val", range.low == INT64_MIN ? Json() : Json(range.low));
    out.set("max_val", range.high == INT64_MAX ? Json() : Json(range.high));
    return out;
  }

  // In the order of the guards that they are read as; then the symbols that need none.
  Json range_constraints() const {
    Json out = Json::object();
    for (const Guard& guard : program_.guards) {
      const auto text = range_guard_text(guard);
      const auto expr = text ? read_guard(*text, places(), program_) : std::nullopt;
      if (!expr) continue;
      if (expr->is_symbol() && !program_.symbols.contains(expr->name())) continue;
      // Sizes that are computed from a symbol (s0 + 1 rows) have ranges of their own.
      out.set(*text, range_json(expr->is_symbol() ? program_.symbols.at(expr->name()).range
                                                  : range_of(*expr, program_.ranges())));
    }
    for (const auto& [name, info] : program_.symbols)
      if (out.find(name) == nullptr) out.set(name, range_json(info.range));
    return out;
  }

  Json guards_code() const {
    Json::Array out;
    for (const Guard& guard : program_.guards)
      if (const auto text = guard_text(guard, places(), program_)) out.push_back(*text);
    return out;
  }

  std::map<std::string, size_t> places() const { return leaf_places(parse_pytree(in_spec_), argument_names_); }

  Program program_;
  const std::vector<Datum>& samples_;
  SympyWriter sympy_;
  std::map<size_t, Argument> constants_;
  std::vector<size_t> output_order_;
  std::string in_spec_, out_spec_;
  std::vector<std::string> argument_names_;
};

}  // namespace

void write_pt2(const Program& program, const std::vector<Datum>& sample_inputs, const ZipWriter::Sink& sink,
               const std::map<std::string, std::string>& extra_files) {
  ProgramWriter(program.clone(), sample_inputs).write(sink, extra_files);
}

void write_pt2(const Program& program, const std::string& path, const std::vector<Datum>& sample_inputs,
               const std::map<std::string, std::string>& extra_files) {
  AtomicFile out(path);
  write_pt2(
      program, sample_inputs, [&out](ByteSpan bytes) { out.write(bytes); }, extra_files);
  out.commit();
}

void write_pt2(const Program& program, const std::string& path) { write_pt2(program, path, program.sample_inputs); }

}  // namespace kiln
