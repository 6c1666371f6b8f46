#include <algorithm>
#include <charconv>
#include <set>

#include "inspect/inspect.h"
#include "inspect/inspect_table.h"
#include "package/step_plan.h"

namespace kiln {
namespace {

using format::none;

std::string plural(size_t count, const char* what) { return str(count, " ", what, count == 1 ? "" : "s"); }

class PlanText {
 public:
  PlanText(const format::Plan& plan, const TargetPlan& target, const format::Origins* origins)
      : plan_(plan), target_(target) {
    divide_init();
    if (origins)
      for (const format::StepOrigin& origin : origins->steps) origins_[origin.number] = &origin;
  }

  std::string heading(const std::string& label) const {
    std::string text = str(label, ": package of '", plan_.model_name, "' by Kiln ", plan_.kiln_version, "\n");
    text += str("  build ", plan_.build_id, ", kernel ABI ", plan_.kernel_abi, ", exported by torch ",
                plan_.torch_version, "\n");
    text += str("  device ", device_type_name(plan_.device), ", code for ",
                join_map(plan_.code, ", ", [](const format::CodeObject& code) { return code.target; }), which_target(),
                "\n");
    for (const format::CustomLibrary& library : plan_.custom_libraries)
      text += str("  custom operators from ", library.name, "\n");
    for (size_t i = 0; i < plan_.metadata_keys.size() && i < plan_.metadata_values.size(); ++i)
      text += metadata_line(plan_.metadata_keys[i], plan_.metadata_values[i]);
    return text;
  }

  // What is done to the weights before the first run.
  std::string steps_of_weights() const {
    std::string text;
    if (!packed_.empty())
      text +=
          str("\nsteps whose results are in the package, for ", target_.name,
              " (freezing): loading runs none of them, an update of weights those that it touches\n", steps(packed_));
    if (!packing_.empty()) text += str("\nsteps when weights are loaded\n", steps(packing_));
    return text;
  }

  TextTable inputs() const {
    TextTable table;
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      const format::Input& input = plan_.inputs[i];
      table.row({std::to_string(i), input.name, input_text(input), input.mutated ? "mutated" : ""});
    }
    return table;
  }

  TextTable outputs() const {
    TextTable table;
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      const format::Output& output = plan_.outputs[i];
      table.row({std::to_string(i), output.shown_name(), output_text(output)});
    }
    return table;
  }

  TextTable symbols() const {
    TextTable table;
    for (const format::Symbol& symbol : plan_.symbols) {
      const std::string low = symbol.low == INT64_MIN ? "-∞" : std::to_string(symbol.low);
      const std::string high = symbol.high == INT64_MAX ? "∞" : std::to_string(symbol.high);
      table.row({symbol.name, str(low, " … ", high), source_text(symbol)});
    }
    return table;
  }

  TextTable guards() const {
    TextTable table;
    for (const format::Guard& guard : plan_.guards) table.row({guard.text, str("because: ", guard.reason)});
    return table;
  }

  TextTable weights(uint64_t& bytes) const {
    TextTable table;
    for (size_t i = 0; i < plan_.constants.size(); ++i) {
      const format::Constant& constant = plan_.constants[i];
      std::string what = constant.mutated                                  ? "mutable buffer"
                         : constant.origin == format::ConstantOrigin::made ? "computed by the compiler"
                                                                           : "";
      if (const std::string* first = first_name(constant))
        what += str(what.empty() ? "" : ", ", "the same as ", *first);
      else
        bytes += static_cast<uint64_t>(constant.bytes);
      table.row({constant.name, constant_type(static_cast<int32_t>(i)),
                 bytes_text(static_cast<uint64_t>(constant.bytes)), what});
    }
    return table;
  }

  Json json() const {
    Json root = Json::object(), code = Json::array(), metadata = Json::object(), inputs = Json::array(),
         outputs = Json::array(), symbols = Json::array(), guards = Json::array(), weights = Json::array();
    root.set("what", "package"), root.set("name", plan_.model_name), root.set("kiln", plan_.kiln_version);
    root.set("build_id", plan_.build_id), root.set("kernel_abi", static_cast<int64_t>(plan_.kernel_abi));
    root.set("torch", plan_.torch_version), root.set("device", device_type_name(plan_.device));
    for (const format::CodeObject& object : plan_.code) code.push(object.target);
    root.set("targets", std::move(code)), root.set("target", target_.name);
    root.set("target_runs_here", target_.runs_here);
    for (size_t i = 0; i < plan_.metadata_keys.size() && i < plan_.metadata_values.size(); ++i)
      metadata.set(plan_.metadata_keys[i], plan_.metadata_values[i]);
    root.set("metadata", std::move(metadata));
    for (const format::Input& input : plan_.inputs) {
      Json one =
          typed_json(input.name, input_text(input), input.what == format::InputWhat::tensor ? input.buffer : none);
      one.set("mutated", input.mutated);
      inputs.push(std::move(one));
    }
    for (const format::Output& output : plan_.outputs)
      outputs.push(typed_json(output.shown_name(), output_text(output),
                              output.what == format::OutputWhat::tensor ? output.buffer : none));
    for (const format::Symbol& symbol : plan_.symbols) {
      Json one = Json::object();
      one.set("name", symbol.name), one.set("low", bound_json(symbol.low)), one.set("high", bound_json(symbol.high));
      one.set("source", source_text(symbol));
      symbols.push(std::move(one));
    }
    for (const format::Guard& guard : plan_.guards) {
      Json one = Json::object();
      one.set("condition", guard.text), one.set("reason", guard.reason);
      guards.push(std::move(one));
    }
    for (size_t i = 0; i < plan_.constants.size(); ++i) {
      const format::Constant& constant = plan_.constants[i];
      Json one =
          typed_json(constant.name, constant_type(static_cast<int32_t>(i)), constant_buffer(static_cast<int32_t>(i)));
      one.set("bytes", constant.bytes), one.set("mutable", constant.mutated);
      one.set("computed", constant.origin == format::ConstantOrigin::made);
      if (const std::string* first = first_name(constant)) one.set("same_as", *first);
      weights.push(std::move(one));
    }
    root.set("inputs", std::move(inputs)), root.set("outputs", std::move(outputs));
    root.set("symbols", std::move(symbols)), root.set("guards", std::move(guards));
    root.set("weights", std::move(weights));
    root.set("steps_when_loaded", steps_json(packing_)), root.set("steps_in_package", steps_json(packed_)),
        root.set("steps", steps_json(plan_.steps));
    return root;
  }

  std::string steps(const std::vector<format::Step>& steps, size_t depth = 0) const {
    std::string text;
    const std::string indent(2 + 2 * depth, ' ');
    for (const format::Step& step : steps) {
      text += str(indent, step.number, "  ", step_text(step), "\n");
      text += origin_text(step, indent);
      for (size_t b = 0; b < step.blocks.size(); ++b) {
        static constexpr const char* cond_names[] = {"then", "else"};
        static constexpr const char* while_names[] = {"condition", "body"};
        const auto& names = step.kind == format::StepKind::cond ? cond_names : while_names;
        text += str(indent, "  ", b < 2 ? names[b] : "block", "\n", this->steps(step.blocks[b], depth + 2));
      }
    }
    return text;
  }

 private:
  // Of several targets each has steps of its own.
  std::string which_target() const {
    if (plan_.code.size() < 2) return "";
    return str("; shown is ", target_.name,
               target_.runs_here                 ? ", which this machine runs"
               : plan_.device == DeviceType::cpu ? ", the first: this machine runs none of them"
                                                 : ", the first");
  }
  // As the runtime does: loading runs what the buffers need that the package does not have, or all where it has none.
  void divide_init() {
    const auto is_derived = [](const format::Buffer& b) { return b.role == format::BufferRole::derived; };
    const bool frozen = std::any_of(plan_.buffers.begin(), plan_.buffers.end(), [&](const format::Buffer& buffer) {
      return is_derived(buffer) && !buffer.entry.empty();
    });
    std::set<int32_t> needed;
    for (size_t i = 0; i < plan_.buffers.size(); ++i)
      if (is_derived(plan_.buffers[i]) && plan_.buffers[i].entry.empty()) needed.insert(static_cast<int32_t>(i));
    for (size_t i = plan_.init.size(); i-- > 0;) {
      const std::vector<format::KernelArg> used = buffers_of(plan_.init[i]);
      const bool runs = !frozen || std::any_of(used.begin(), used.end(), [&](const format::KernelArg& one) {
        return writes(one.access) && needed.contains(one.buffer);
      });
      for (const format::KernelArg& one : used)
        if (runs && reads(one.access)) needed.insert(one.buffer);
      std::vector<format::Step>& list = runs ? packing_ : packed_;
      list.insert(list.begin(), plan_.init[i]);
    }
  }
  static std::vector<format::KernelArg> buffers_of(const format::Step& step) {
    std::vector<format::KernelArg> used = format::buffers_used(step);
    for (const std::vector<format::Step>& block : step.blocks)
      for (const format::Step& inner : block)
        for (const format::KernelArg& one : buffers_of(inner)) used.push_back(one);
    return used;
  }

  std::string expr(format::ExprIndex index) const {
    return index == none ? "?" : plan_.exprs.at(static_cast<size_t>(index)).text;
  }
  std::string buffer_type(int32_t index) const {
    if (index == none) return "";
    const format::Buffer& buffer = plan_.buffers.at(static_cast<size_t>(index));
    return str(dtype_torch_name(static_cast<DType>(buffer.dtype)), "[",
               join_map(buffer.sizes, ", ", [&](format::ExprIndex size) { return expr(size); }), "]");
  }
  int32_t constant_buffer(int32_t constant) const {
    for (size_t i = 0; i < plan_.buffers.size(); ++i)
      if (plan_.buffers[i].role == format::BufferRole::constant && plan_.buffers[i].position == constant)
        return static_cast<int32_t>(i);
    return none;
  }
  const std::string* first_name(const format::Constant& constant) const {
    return constant.same_as == format::none ? nullptr : &plan_.constants[static_cast<size_t>(constant.same_as)].name;
  }
  std::string constant_type(int32_t constant) const { return buffer_type(constant_buffer(constant)); }
  // `type` as the text has it; of a tensor also its parts.
  Json typed_json(const std::string& name, const std::string& type, int32_t buffer) const {
    Json one = Json::object();
    one.set("name", name), one.set("type", type);
    if (buffer == none) return one;
    const format::Buffer& tensor = plan_.buffers.at(static_cast<size_t>(buffer));
    Json sizes = Json::array();
    for (const format::ExprIndex size : tensor.sizes) sizes.push(size_json(expr(size)));
    one.set("dtype", dtype_torch_name(tensor.dtype)), one.set("sizes", std::move(sizes));
    return one;
  }
  Json steps_json(const std::vector<format::Step>& steps) const {
    Json list = Json::array();
    for (const format::Step& step : steps) {
      Json one = Json::object(), origins = Json::array(), blocks = Json::array();
      one.set("number", step.number), one.set("name", step.name), one.set("text", step_text(step));
      if (const auto found = origins_.find(step.number); found != origins_.end()) {
        const format::StepOrigin& origin = *found->second;
        const auto at = [](const std::vector<std::string>& texts, size_t i) {
          return i < texts.size() ? texts[i] : "";
        };
        for (size_t i = 0; i < origin.ops.size(); ++i) {
          Json from = Json::object();
          from.set("operator", origin.ops[i]), from.set("node", at(origin.nodes, i));
          from.set("module", at(origin.modules, i)), from.set("line", at(origin.lines, i));
          origins.push(std::move(from));
        }
      }
      one.set("origins", std::move(origins));
      for (const std::vector<format::Step>& block : step.blocks) blocks.push(steps_json(block));
      if (!step.blocks.empty()) one.set("blocks", std::move(blocks));
      list.push(std::move(one));
    }
    return list;
  }
  std::string input_text(const format::Input& input) const {
    switch (input.what) {
      case format::InputWhat::tensor:
        return buffer_type(input.buffer);
      case format::InputWhat::sym_int:
        return "int";
      case format::InputWhat::sym_float:
        return "float";
      case format::InputWhat::sym_bool:
        return "bool";
      case format::InputWhat::ignored:
        return "ignored";
      case format::InputWhat::constant:
        break;
    }
    switch (input.constant_kind) {
      case format::ConstantKind::integer:
        return str("always ", input.constant_int);
      case format::ConstantKind::floating:
        return str("always ", input.constant_float);
      case format::ConstantKind::boolean:
        return str("always ", input.constant_int != 0);
      case format::ConstantKind::string:
        return str("always ", quote(input.constant_string));
      default:
        return "always None";
    }
  }
  std::string output_text(const format::Output& output) const {
    switch (output.what) {
      case format::OutputWhat::tensor:
        return buffer_type(output.buffer);
      case format::OutputWhat::integer:
        return str("int ", expr(output.expr));
      case format::OutputWhat::floating:
        return str("float ", expr(output.expr));
      case format::OutputWhat::boolean:
        return str("bool ", expr(output.expr));
      case format::OutputWhat::none:
        return "None";
      case format::OutputWhat::string:
        return str("always ", quote(output.text));
    }
    return "";
  }
  std::string source_text(const format::Symbol& symbol) const {
    if (symbol.source == format::SymbolSource::iteration) return "iteration of a loop";
    if (symbol.source == format::SymbolSource::step || symbol.input == none) return "from data, while running";
    const std::string& name = plan_.inputs.at(static_cast<size_t>(symbol.input)).name;
    return symbol.source == format::SymbolSource::input_size ? str(name, ".size(", symbol.dim, ")")
                                                             : str("input ", name);
  }
  std::string step_text(const format::Step& step) const {
    switch (step.kind) {
      case format::StepKind::kernel:
        return str(step.name, "  items ", expr(step.items),
                   step.scratch == format::none ? "" : str("  scratch ", expr(step.scratch)));
      case format::StepKind::library:
        return str(step.name, "  library ", step.target);
      case format::StepKind::custom:
        return str(step.name, "  custom ", step.target);
      case format::StepKind::bind_symbol:
        return "bind symbol";
      case format::StepKind::assert_that:
        return str("assert ", expr(step.condition), "  ", step.message);
      case format::StepKind::cond:
        return str(step.name.empty() ? "cond" : step.name);
      case format::StepKind::while_loop:
        return str(step.name.empty() ? "while" : step.name);
    }
    return "";
  }
  std::string origin_text(const format::Step& step, const std::string& indent) const {
    const auto found = origins_.find(step.number);
    if (found == origins_.end()) return "";
    const format::StepOrigin& origin = *found->second;
    std::string text;
    for (size_t i = 0; i < origin.ops.size(); ++i) {
      text += str(indent, "     ", origin.ops[i]);
      if (i < origin.nodes.size() && !origin.nodes[i].empty()) text += str(" (", origin.nodes[i], ")");
      if (i < origin.modules.size() && !origin.modules[i].empty()) text += str(" in ", origin.modules[i]);
      if (i < origin.lines.size() && !origin.lines[i].empty()) text += str("  at ", origin.lines[i]);
      text += "\n";
    }
    return text;
  }

  const format::Plan& plan_;
  const TargetPlan& target_;
  std::vector<format::Step> packed_, packing_;  // of init: what the package has, and what loading does
  std::map<int32_t, const format::StepOrigin*> origins_;
};

}  // namespace

Json bound_json(int64_t bound) { return bound == INT64_MIN || bound == INT64_MAX ? Json() : Json(bound); }

Json size_json(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? Json(number) : Json(text);
}

Json inspect_plan_json(const format::Plan& plan, const TargetPlan& target, const format::Origins* origins) {
  return PlanText(plan, target, origins).json();
}

std::string inspect_plan(const format::Plan& plan, const TargetPlan& target, const format::Origins* origins,
                         const std::string& label) {
  const PlanText view(plan, target, origins);
  std::string text = view.heading(label);
  text += text_section("inputs", view.inputs(), "none");
  text += text_section("outputs", view.outputs(), "none");
  text += text_section("symbols", view.symbols(), "none: every size is fixed");
  text += text_section("guards", view.guards(), "none");
  uint64_t bytes = 0;
  const TextTable weights = view.weights(bytes);
  text += text_section(str("weights, ", bytes_text(bytes), " in all"), weights);
  text += view.steps_of_weights();
  text += str("\nsteps of a run (", plural(plan.kernels.size(), "distinct kernel"), ")\n", view.steps(plan.steps));
  if (!origins) text += "  (no origins: the debug section was stripped)\n";
  return text;
}

}  // namespace kiln
