#include "combine.h"

namespace kiln::random_programs {

namespace {

std::string prefix_of(size_t number) { return str("p", number, "_"); }

void rename(Argument& arg, const Substitution& symbols) {
  if (auto* expr = std::get_if<Expr>(&arg.value)) *expr = substitute(*expr, symbols);
  if (auto* list = std::get_if<Argument::List>(&arg.value))
    for (Argument& item : *list) rename(item, symbols);
}

class Copying {
 public:
  Copying(const Program& from, Program& to, std::string prefix) : from_(from), to_(to), prefix_(std::move(prefix)) {}

  void run() {
    copy_symbols();
    copy_inputs();
    for (const auto& node : from_.graph.nodes) copy_node(*node);
    for (const Argument& output : from_.graph.outputs) {
      Argument copied = output;
      for_each_value(copied, [&](Value*& v) { v = values_.at(v); });
      to_.graph.outputs.push_back(copied);
      to_.output_specs.push_back({});
    }
  }

 private:
  void copy_symbols() {
    for (const auto& [name, info] : from_.symbols) {
      SymbolInfo renamed = info;
      renamed.name = prefix_ + name;
      symbols_[name] = Expr::symbol(renamed.name);
      to_.symbols[renamed.name] = renamed;
    }
    for (const Guard& guard : from_.guards) to_.guards.push_back({substitute(guard.condition, symbols_), guard.reason});
  }

  void copy_inputs() {
    for (size_t i = 0; i < from_.graph.inputs.size(); ++i) {
      const Value& input = *from_.graph.inputs[i];
      copy_value(input, to_.graph.add_input(prefix_ + input.name, input.kind));
      InputSpec spec = from_.input_specs[i];
      if (!spec.target.empty()) {
        to_.constants[prefix_ + spec.target] = from_.constants.at(spec.target);
        spec.target = prefix_ + spec.target;
      }
      to_.input_specs.push_back(spec);
    }
    to_.sample_inputs.insert(to_.sample_inputs.end(), from_.sample_inputs.begin(), from_.sample_inputs.end());
  }

  void copy_node(const Node& node) {
    Node* made = to_.graph.add_node(node.target, prefix_ + node.name);
    made->op = node.op;
    made->args = node.args;
    for (Node::NamedArgument& arg : made->args) {
      for_each_value(arg.arg, [&](Value*& v) { v = values_.at(v); });
      rename(arg.arg, symbols_);
    }
    for (const Value* result : node.results) {
      Value* copied = to_.graph.add_result(made, prefix_ + result->name, result->kind);
      copy_value(*result, copied);
      for (const Value* item : result->items) copy_value(*item, to_.graph.add_item(copied, prefix_ + item->name));
    }
  }

  void copy_value(const Value& source, Value* made) {
    made->type = source.type;
    for (Expr& e : made->type.sizes) e = substitute(e, symbols_);
    for (Expr& e : made->type.strides) e = substitute(e, symbols_);
    made->type.offset = substitute(made->type.offset, symbols_);
    made->expr = substitute(source.expr, symbols_);
    values_[&source] = made;
  }

  const Program& from_;
  Program& to_;
  std::string prefix_;
  Substitution symbols_;
  std::map<const Value*, Value*> values_;
};

}  // namespace

void Combiner::add(const RandomProgram& from) {
  spans_.push_back({out_.graph.outputs.size(), out_.sample_inputs.size()});
  Copying(from.program, out_, prefix_of(count_++)).run();
  given_inputs_.insert(given_inputs_.end(), from.given_inputs.begin(), from.given_inputs.end());
}

Observed Combiner::part(const CallResult& result, size_t i) const {
  Span begin = spans_[i];
  Span end = i + 1 < spans_.size() ? spans_[i + 1] : Span{result.outputs.size(), result.inputs.size()};
  auto slice = [](const std::vector<Datum>& from, size_t first, size_t last) {
    return std::vector<Datum>(from.begin() + static_cast<std::ptrdiff_t>(first),
                              from.begin() + static_cast<std::ptrdiff_t>(last));
  };
  std::map<std::string, Tensor> state;
  std::string prefix = prefix_of(i);
  for (const auto& [name, tensor] : result.state)
    if (name.rfind(prefix, 0) == 0) state[name.substr(prefix.size())] = tensor;
  return observe(slice(result.outputs, begin.outputs, end.outputs), slice(result.inputs, begin.inputs, end.inputs),
                 state);
}

}  // namespace kiln::random_programs
