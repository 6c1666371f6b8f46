#include "pt2/wrapped_weights.h"

#include <set>

#include "base/text.h"

namespace kiln {
namespace {

constexpr std::string_view access = "export.access_subclass_inner_tensor.default";

constexpr std::string_view advice =
    "; call torchao.utils.unwrap_tensor_subclass(model) before torch.export.export, or save "
    "program.run_decompositions() instead";

class Unwrapper {
 public:
  Unwrapper(Program& program, const std::map<std::string, std::string>& wrappers)
      : program_(program), graph_(program.graph), wrappers_(wrappers) {}

  void run() {
    // Parts of parts come behind the whole they belong to, so one pass over the growing list reaches all.
    for (size_t i = 0; i < program_.input_specs.size();) {
      const auto found = wrappers_.find(program_.input_specs[i].target);
      if (found == wrappers_.end()) {
        ++i;
        continue;
      }
      take_parts(i);
      refuse_whole_uses(i);
      graph_.inputs.erase(graph_.inputs.begin() + static_cast<std::ptrdiff_t>(i));
      program_.input_specs.erase(program_.input_specs.begin() + static_cast<std::ptrdiff_t>(i));
    }
    for (const auto& node : graph_.nodes)
      if (node->target == access)
        fail_unsupported("K0254", str(node->name, " takes a part of a tensor subclass that is no weight", advice),
                         node->where());
    drop_unused_parts();
  }

 private:
  static const Value* source_of(const Node& node) {
    if (node.target != access || node.args.empty() || !node.args[0].arg.is_value()) return nullptr;
    return node.args[0].arg.as_value();
  }

  // Every node that takes a part of input i gives way to an input for that part.
  void take_parts(size_t i) {
    const Value* whole = graph_.inputs[i];
    const InputSpec spec = program_.input_specs[i];
    std::vector<Node*> takes;
    for (const auto& node : graph_.nodes)
      if (source_of(*node) == whole) takes.push_back(node.get());
    std::map<std::string, Value*> inputs;
    for (Node* node : takes) {
      const auto* part = node->args.size() > 1 ? std::get_if<std::string>(&node->args[1].arg.value) : nullptr;
      if (!part || node->results.size() != 1 || node->results[0]->kind != ValueKind::tensor)
        fail_unsupported("K0254", str(node->name, " takes no named part of ", quote(spec.target)), node->where());
      Value*& input = inputs[*part];
      if (!input) input = add_part(i, i + inputs.size(), spec, *part, *node);
      graph_.replace_uses(node->results[0], input);
      graph_.erase(node);
    }
  }

  // Behind the whole and the parts that are already there.
  Value* add_part(size_t i, size_t place, const InputSpec& whole, const std::string& part, const Node& node) {
    InputSpec spec = whole;
    spec.target = str(whole.target, ".", part);
    if (!program_.constants.contains(spec.target) && !wrappers_.contains(spec.target))
      fail_unsupported("K0254",
                       str("the weight ", quote(whole.target), " (", wrappers_.at(whole.target), ") has no part ",
                           quote(part), " in the file", advice),
                       node.where());
    Value* value = graph_.new_value(str(graph_.inputs[i]->name, "_", part), ValueKind::tensor);
    value->type = node.results[0]->type;
    const auto at = static_cast<std::ptrdiff_t>(place);
    graph_.inputs.insert(graph_.inputs.begin() + at, value);
    program_.input_specs.insert(program_.input_specs.begin() + at, std::move(spec));
    return value;
  }

  void refuse_whole_uses(size_t i) const {
    const Value* whole = graph_.inputs[i];
    const std::string& name = program_.input_specs[i].target;
    const auto uses = uses_of(graph_);
    const auto found = uses.find(whole);
    if (found != uses.end() && !found->second.empty())
      fail_unsupported("K0254",
                       str("the weight ", quote(name), " is a ", wrappers_.at(name), ", made of other tensors, and ",
                           found->second[0]->target, " uses it as a whole", advice),
                       found->second[0]->where());
    for (const Argument& output : graph_.outputs)
      for_each_value(output, [&](const Value* value) {
        if (value == whole)
          fail_unsupported("K0254", str("the weight ", quote(name), " is a ", wrappers_.at(name),
                                        ", made of other tensors, and an output of the program", advice));
      });
  }

  // Parts that the program never takes (a zero point that is always 0) need not be packed with it.
  void drop_unused_parts() {
    std::set<std::string> used;
    for (const InputSpec& spec : program_.input_specs) used.insert(spec.target);
    for (const auto& wrapper : wrappers_)
      std::erase_if(program_.constants, [&](const auto& constant) {
        return starts_with(constant.first, wrapper.first + ".") && !used.contains(constant.first);
      });
  }

  Program& program_;
  Graph& graph_;
  const std::map<std::string, std::string>& wrappers_;
};

}  // namespace

void unwrap_weights(Program& program, const std::map<std::string, std::string>& wrappers) {
  Unwrapper(program, wrappers).run();
}

}  // namespace kiln
