#include "graph_passes/functionalize.h"

#include "graph/element_places.h"
#include "graph_passes/alias_tracking.h"
#include "graph_passes/memory_overlap.h"
#include "graph_passes/node_kinds.h"
#include "graph_passes/view_layout.h"
#include "graph_passes/written_inputs.h"
#include "ops/common_operators.h"
#include "ops/custom_ops.h"
#include "ops/decompose_call.h"
#include "ops/view_inverse.h"

namespace kiln {

namespace {

class Functionalizer {
 public:
  Functionalizer(Graph& graph, const RangeEnv& ranges, PassContext& context)
      : graph_(graph), ranges_(ranges), context_(context) {
    for (Value* input : graph.inputs)
      if (input->kind == ValueKind::tensor) table_.add_base(input);
  }

  // Two inputs that are one tensor (tied buffers): a write to one is seen through the other.
  void same_input(Value* input, Value* as) { table_.set(input, table_.find(as)); }

  // An input of the caller's whose example overlaps itself.
  void layout_open(Value* input) { table_.find(input)->base->layout_open = true; }

  bool run() {
    std::vector<Node*> nodes;
    for (auto& node : graph_.nodes) nodes.push_back(node.get());
    for (Node* node : nodes) visit(*node);
    here_ = nullptr;
    for (Argument& output : graph_.outputs) output = current(output);
    for (Node* node : removed_) graph_.erase(node);
    return changed_;
  }

  // The new value of a written input; nullptr when it was not written.
  Value* written(const Value* input) {
    Alias* alias = table_.find(input);
    return alias && alias->base->version > 0 ? alias->base->root->now : nullptr;
  }

 private:
  void visit(Node& node) {
    here_ = &node;
    if (has_subgraph(node)) return visit_control_flow(node);
    if (node.op && node.op->schema.mutates()) return visit_write(node);
    if (!node.op && node.find(writes_argument)) return visit_custom_write(node);
    if (node.op && node.op->schema.is_view() && visit_view(node)) return;
    renew_arguments(node);
    for (Value* result : node.results) add_bases(result);
  }

  void renew_arguments(Node& node) {
    for (auto& named : node.args) {
      Argument renewed = current(named.arg);
      named.arg = std::move(renewed);
    }
  }

  void add_bases(Value* value) {
    if (value->kind == ValueKind::tensor) table_.add_base(value);
    for (Value* item : value->items)
      if (item) table_.add_base(item);
  }

  // ---- reading ------------------------------------------------------------------------------------------------------

  Argument current(const Argument& arg) {
    if (arg.is_list()) {
      Argument::List list;
      for (const Argument& element : arg.as_list()) list.push_back(current(element));
      return Argument(std::move(list));
    }
    if (!arg.is_value()) return arg;
    Value* value = arg.as_value();
    if (value->kind != ValueKind::tensor_list) return Argument(current(value));
    // A list whose elements are all as they were stays one value.
    Argument::List list;
    bool same = true;
    for (Value* item : value->items) {
      Value* latest = item ? current(item) : nullptr;
      same &= latest == item;
      list.push_back(latest ? Argument(latest) : Argument());
    }
    return same ? arg : Argument(std::move(list));
  }

  Value* current(Value* value) {
    Alias* alias = table_.find(value);
    return alias ? renew(*alias) : value;
  }

  Value* renew(Alias& alias) {
    if (alias.version == alias.base->version) return alias.now;
    KILN_CHECK(alias.parent, "a base is never out of date");
    if (!alias.view->certain) refuse_uncertain(alias);
    Value* parent = renew(*alias.parent);
    const Node& view = *alias.view->node;
    Node* replay = add_node(view.target, view.results.at(0)->name);
    replay->origins = view.origins;
    for (const auto& named : view.args)
      replay->args.push_back(named.name == alias.view->viewed ? Node::NamedArgument{named.name, Argument(parent)}
                                                              : named);
    replay->op = view.op;
    copy_results(view, *replay);
    std::vector<Value*> values = flat_results(*replay);
    for (size_t i = 0; i < alias.view->results.size(); ++i) {
      Alias& sibling = *alias.view->results[i];
      sibling.now = values[i];
      sibling.version = sibling.base->version;
    }
    return alias.now;
  }

  void copy_results(const Node& from, Node& to) {
    for (const Value* result : from.results) {
      Value* made = graph_.add_result(&to, result->name, result->kind);
      made->type = result->type;
      for (const Value* item : result->items) graph_.add_item(made, item->name)->type = item->type;
    }
  }

  static std::vector<Value*> flat_results(const Node& node) {
    std::vector<Value*> out;
    for (Value* result : node.results) {
      if (result->kind == ValueKind::tensor_list) {
        out.insert(out.end(), result->items.begin(), result->items.end());
      } else {
        out.push_back(result);
      }
    }
    return out;
  }

  [[noreturn]] void refuse_uncertain(const Alias& alias) const {
    const Node& view = *alias.view->node;
    Where where = view.where();
    where.pass = "functionalize";
    fail_unsupported("K0230",
                     str(view.target, " may share memory with its argument or not, depending on ",
                         alias.base->layout_open ? "the strides of an input, and " : "sizes, and ",
                         "one of the two is written afterwards"),
                     where);
  }

  // ---- views --------------------------------------------------------------------------------------------------------

  // False: the node is not a view after all (its result is a copy).
  bool visit_view(Node& node) {
    std::string viewed = viewed_argument(node.op->schema);
    const Argument* arg = node.find(viewed);
    Alias* parent = arg && arg->is_value() ? table_.find(arg->as_value()) : nullptr;
    if (!parent) return false;
    Proof shares = shares_memory(node, ranges_, parent->base->layout_open);
    if (shares == Proof::no) return false;
    // Some see the whole storage of its argument, not only the argument's own elements.
    bool whole_storage = node.op->facts.sees_storage;
    if (whole_storage) {
      state_offset(node, parent->type.offset);
      parent = parent->base->root;
    }
    renew_arguments(node);
    if (whole_storage) {
      for (auto& named : node.args)
        if (named.name == viewed) named.arg = Argument(parent->now);
    }
    View* view = table_.new_view();
    view->node = &node;
    view->viewed = viewed;
    view->certain = shares == Proof::yes;
    for (Value* value : flat_results(node)) {
      KILN_CHECK(value && value->kind == ValueKind::tensor, str(node.target, ": a view gives tensors"));
      table_.add_view(value, parent, view);
    }
    return true;
  }

  static std::string viewed_argument(const Schema& schema) {
    std::string letter;
    for (const SchemaArg& result : schema.returns)
      if (!result.alias.empty()) letter = result.alias;
    for (const SchemaArg& arg : schema.args)
      if (arg.alias == letter) return arg.name;
    return {};
  }

  // Without an offset, as_strided starts where its argument does.
  static void state_offset(Node& node, const Expr& offset) {
    OpCall call(node, node.op->schema);
    if (call.given("storage_offset")) return;
    std::erase_if(node.args, [](const auto& named) { return named.name == "storage_offset"; });
    node.args.push_back({"storage_offset", number(offset)});
  }

  // ---- writing ------------------------------------------------------------------------------------------------------

  void visit_write(Node& node) {
    const OpRecord* functional = node.op->functional;
    if (!functional)
      fail_unsupported("K0230", str(node.target, " writes to its argument, and Kiln knows no functional form of it"),
                       located(node));
    OpCall call(node, node.op->schema);
    Value* target = call.tensor("self");
    if (functional->schema.is_view()) return visit_inplace_view(node, target);
    Alias* self = table_.find(target);
    KILN_CHECK(self, "every tensor has an alias");
    if (functional->facts.takes_source && same_place(*self, table_.find(call.tensor("src")))) {
      drop_write(node, self);
      return;
    }
    // Arguments first: bringing one up to date may need nodes, and they must stand before this one.
    std::vector<Node::NamedArgument> args;
    for (const auto& named : node.args) args.push_back({named.name, current(named.arg)});
    Node* made = add_node(functional->name(), op_short_name(functional->name()));
    made->op = functional;
    made->origins = node.origins;
    made->args = std::move(args);
    made->args.at(0).name = functional->schema.args[0].name;  // self, or input
    infer_types(*made, graph_, ranges_);
    Value* value = fitted(made->results.at(0), *self, node);
    write(*self, value, functional->facts.fills);
    for (Value* result : node.results) table_.set(result, self);
    removed_.push_back(&node);
    changed_ = true;
    context_.note(str("functional: ", node.name, " = ", node.target, " became ", value->name));
  }

  // Two names of the same elements in the same memory. What Python makes of `x[1:] += y` ends with a copy of such a
  // part to itself.
  static bool same_place(const Alias& a, const Alias* b) {
    const auto certain = [](const Alias& alias) {
      for (const Alias* at = &alias; at->parent; at = at->parent)
        if (!at->view->certain) return false;
      return true;
    };
    return b && a.base == b->base && a.type == b->type && certain(a) && certain(*b);
  }

  void drop_write(Node& node, Alias* self) {
    for (Value* result : node.results) table_.set(result, self);
    removed_.push_back(&node);
    changed_ = true;
    context_.note(str("functional: ", node.name, " = ", node.target, " writes what is there already"));
  }

  // A custom operator that writes to arguments becomes one that gives their new values as well.
  void visit_custom_write(Node& node) {
    struct Written {
      std::string name;
      Alias* alias;
    };
    std::vector<Written> written;
    std::vector<std::string> entries;
    for (const std::string& name : custom_writes(node)) {
      const std::string same = same_memory(node, name, entries);
      entries.push_back(same.empty() ? name : name + "=" + same);
      if (!same.empty()) continue;
      for (Value* value : argument_tensors(*node.find(name))) written.push_back({name, table_.find(value)});
    }
    for (const auto& named : node.args) {
      if (is_custom_note(named.name) || custom_name_listed(entries, named.name)) continue;
      if (const std::string same = same_memory(node, named.name, entries); !same.empty())
        entries.push_back(named.name + "=" + same);
    }
    refuse_overlaps(node, entries);
    std::vector<Node::NamedArgument> args;
    for (const auto& named : node.args)
      if (!is_custom_note(named.name)) args.push_back({named.name, current(named.arg)});
    args.push_back({std::string(updates_argument), names_argument(entries)});
    Node* made = add_node(node.target, node.name);
    made->origins = node.origins;
    made->args = std::move(args);
    take_results(node, *made);
    for (const Written& one : written) {
      Value* value = graph_.add_result(made, graph_.unique_name(one.name), ValueKind::tensor);
      value->type = one.alias->type;
      if (one.alias->parent) value->type.offset = Expr(0);
      write(*one.alias, value);
    }
    removed_.push_back(&node);
    changed_ = true;
    context_.note(str("functional: ", node.name, " = ", node.target, " gives what it wrote to"));
  }

  static bool custom_name_listed(const std::vector<std::string>& entries, const std::string& name) {
    for (const std::string& entry : entries)
      if (entry == name || starts_with(entry, name + "=")) return true;
    return false;
  }

  // The argument among `entries` that is the very tensor that argument `name` is; empty: none.
  std::string same_memory(const Node& node, const std::string& name, const std::vector<std::string>& entries) {
    const Argument* arg = node.find(name);
    if (!arg || !arg->is_value() || arg->as_value()->kind != ValueKind::tensor) return {};
    const Alias* alias = table_.find(arg->as_value());
    for (const std::string& entry : entries) {
      const Argument* other = node.find(entry);
      if (!other || !other->is_value() || other->as_value()->kind != ValueKind::tensor) continue;
      const Alias* there = table_.find(other->as_value());
      const bool same_type = there && alias && there->base == alias->base && there->type == alias->type;
      if (same_type) return entry;
    }
    return {};
  }

  // Each written tensor has memory of its own once the call is functional: no other argument may share it.
  void refuse_overlaps(const Node& node, const std::vector<std::string>& entries) {
    std::vector<std::pair<std::string, const Alias*>> seen;
    for (const auto& named : node.args) {
      bool is_same = false;
      for (const std::string& entry : entries) is_same |= starts_with(entry, named.name + "=");
      if (is_custom_note(named.name) || is_same) continue;
      const bool writes = custom_name_listed(entries, named.name);
      for (const Value* value : argument_tensors(named.arg)) {
        const Alias* alias = table_.find(value);
        for (const auto& [other, there] : seen) {
          const bool concerns = writes || custom_name_listed(entries, other);
          if (!concerns || alias->base != there->base || disjoint(alias->type, there->type, ranges_)) continue;
          fail_unsupported("K0230",
                           str("the custom operator ", node.target, " writes to memory that its arguments ", other,
                               " and ", named.name, " share"),
                           located(node));
        }
        seen.emplace_back(named.name, alias);
      }
    }
  }

  void take_results(Node& from, Node& to) {
    for (Value* result : from.results) {
      Value* made = graph_.add_result(&to, graph_.unique_name(result->name), result->kind);
      made->type = result->type;
      made->expr = result->expr;
      for (Value* item : result->items) {
        if (!item) {
          made->items.push_back(nullptr);
          continue;
        }
        Value* twin = graph_.add_item(made, graph_.unique_name(item->name));
        twin->type = item->type;
        table_.set(item, table_.add_base(twin));
      }
      if (result->kind == ValueKind::tensor)
        table_.set(result, table_.add_base(made));
      else if (result->kind != ValueKind::tensor_list)
        graph_.replace_uses(result, made);
    }
  }

  // unsqueeze_ and the like write no element: from here on, self is the view.
  void visit_inplace_view(Node& node, Value* target) {
    node.op = node.op->functional;
    node.target = node.op->name();
    changed_ = true;
    visit(node);
    table_.set(target, table_.find(node.results.at(0)));
  }

  // The written value has self's dtype and self's strides: the result of an in-place operator is self, also as an
  // output. Its offset is the base's business.
  Value* fitted(Value* value, const Alias& self, const Node& node) {
    if (value->type.dtype != self.type.dtype) {
      Node* cast = add_node(common_operators::cast().name(), "cast");
      cast->op = &common_operators::cast();
      cast->origins = node.origins;
      cast->args = {{"self", Argument(value)}, {"dtype", Argument(self.type.dtype)}};
      infer_types(*cast, graph_, ranges_);
      value = cast->results[0];
    }
    if (!self.parent)
      value->type = self.type;
    else if (value->type.sizes == self.type.sizes)
      value->type.strides = self.type.strides;
    return value;
  }

  // `same`: every element of the value is the same number.
  void write(Alias& alias, Value* value, bool same = false) {
    std::vector<Alias*> fresh;
    Alias* at = &alias;
    Value* replacement = value;
    while (true) {
      fresh.push_back(at);
      at->now = replacement;
      if (!at->parent) break;
      if (!at->view->certain) refuse_uncertain(*at);
      if (at->parent->type.dtype == at->type.dtype) renew(*at->parent);
      AliasWrite inverse(*this, *at, *at->parent, replacement);
      const InverseViewFn put_back = at->view->node->op->facts.inverse_view;
      if (Value* viewed = put_back ? put_back(inverse) : nullptr) {
        replacement = viewed;
        at = at->parent;
      } else {
        replacement = write_by_strides(*at, replacement, same);
        at = at->base->root;
      }
    }
    int version = ++alias.base->version;
    for (Alias* one : fresh) one->version = version;
  }

  Value* write_by_strides(const Alias& alias, Value* replacement, bool same) {
    const Node& view = *alias.view->node;
    const Alias& root = *alias.base->root;
    // Which of several elements stays in a place that they share is not for a parallel loop to decide.
    if (!same && !elements_apart(alias.type, ranges_))
      fail_unsupported(
          "K0230",
          str("a write through ", view.target, ": more than one element refers to one place, or may do so (sizes [",
              shape_text(alias.type.sizes), "], strides [", shape_text(alias.type.strides), "])"),
          located(view));
    if (root.type.dtype != alias.type.dtype)
      fail_unsupported("K0230", str("a write through ", view.target, ", which sees the memory as another dtype"),
                       located(view));
    AliasWrite through(*this, alias, *alias.base->root, replacement);
    return write_through_strides(through);
  }

  // What an inverse of a view works with: values and nodes of this graph.
  class AliasWrite : public ViewWrite {
   public:
    AliasWrite(Functionalizer& pass, const Alias& alias, Alias& viewed, Value* new_value)
        : ViewWrite(*alias.view->node, viewed.type, alias.type, new_value), pass_(pass), viewed_(viewed) {}
    Value* viewed() override { return pass_.renew(viewed_); }
    Value* insert(std::string_view op, std::vector<Argument> args, const TensorType& type) override {
      return pass_.insert(op, args, type, node());
    }

   private:
    Functionalizer& pass_;
    Alias& viewed_;
  };

  Value* insert(std::string_view op, const std::vector<Argument>& args, const TensorType& type, const Node& view) {
    const OpRecord* record = Registry::instance().find(op);
    if (!record) fail_unsupported("K0230", str("a write through ", view.target, " needs ", op), located(view));
    Node* made = add_node(record->name(), op_short_name(op));
    made->op = record;
    made->origins = here_ ? here_->origins : view.origins;
    for (size_t i = 0; i < args.size(); ++i) made->args.push_back({record->schema.args[i].name, args[i]});
    infer_types(*made, graph_, ranges_);
    made->results[0]->type = type;
    return made->results[0];
  }

  // ---- control flow
  // ---------------------------------------------------------------------------------------------------

  void visit_control_flow(Node& node) {
    for (auto& named : node.args) {
      if (!named.arg.is_graph() || !named.arg.as_graph()) continue;
      Graph& inner = *named.arg.as_graph();
      if (!written_inputs(inner).empty())
        fail_unsupported("K0230", str(node.target, ": its subgraph ", inner.name, " writes to what it is given"),
                         located(node));
      changed_ |= Functionalizer(inner, ranges_, context_).run();
    }
    renew_arguments(node);
    for (Value* result : node.results) add_bases(result);
  }

  static Where located(const Node& node) {
    Where where = node.where();
    where.pass = "functionalize";
    return where;
  }

  // Before the node that is being looked at; at the end when there is none.
  Node* add_node(const std::string& target, const std::string& name) {
    return graph_.add_node(target, graph_.unique_name(name), here_);
  }

  Graph& graph_;
  const RangeEnv& ranges_;
  PassContext& context_;
  AliasTable table_;
  Node* here_ = nullptr;
  std::vector<Node*> removed_;
  bool changed_ = false;
};

bool same_tensor(const Tensor& a, const Tensor& b) {
  return a.dtype == b.dtype && a.sizes == b.sizes && a.strides == b.strides && a.offset == b.offset;
}

// Constant inputs over one storage: the same tensor under two names is one base; a partial overlap is refused when
// one of the two is written.
class TiedConstants {
 public:
  TiedConstants(const Program& program, Functionalizer& pass) {
    for (size_t i = 0; i < program.graph.inputs.size() && i < program.input_specs.size(); ++i) {
      auto constant = program.constants.find(program.input_specs[i].target);
      if (constant == program.constants.end() || !constant->second.defined() || constant->second.numel() == 0) continue;
      Value* input = program.graph.inputs[i];
      auto& group = groups_[constant->second.storage->data];
      for (const auto& [other, tensor] : group) {
        if (!same_tensor(tensor, constant->second)) continue;
        pass.same_input(input, other);
        break;
      }
      group.emplace_back(input, constant->second);
      names_[input] = constant->first;
    }
  }
  // A functional export names only one of the tied buffers as written. All of them are: each is given the new value.
  void write_all(Program& program) const {
    std::map<std::string, size_t> given;  // by buffer: the output that it is given
    for (size_t i = 0; i < program.output_specs.size(); ++i)
      if (program.output_specs[i].kind == OutputKind::buffer_mutation) given[program.output_specs[i].target] = i;
    std::vector<std::pair<Argument, OutputSpec>> more;
    for (const auto& [data, group] : groups_)
      for (const auto& [input, tensor] : group)
        for (const auto& [other, other_tensor] : group) {
          const std::string &from = names_.at(input), &to = names_.at(other);
          if (!same_tensor(tensor, other_tensor) || !given.contains(from) || given.contains(to)) continue;
          more.push_back({program.graph.outputs[given.at(from)], {OutputKind::buffer_mutation, to}});
          given[to] = given.at(from);
        }
    for (auto& [output, spec] : more) {
      program.graph.outputs.insert(program.graph.outputs.begin(), output);
      program.output_specs.insert(program.output_specs.begin(), spec);
    }
  }
  void check(const std::set<const Value*>& written) const {
    for (const auto& [data, group] : groups_)
      for (const auto& [input, tensor] : group)
        for (const auto& [other, other_tensor] : group)
          if (written.contains(input) && !same_tensor(tensor, other_tensor))
            fail_unsupported(
                "K0230", str("constant ", input->name, " is written and shares part of its memory with ", other->name));
  }

 private:
  std::map<const std::byte*, std::vector<std::pair<Value*, Tensor>>> groups_;
  std::map<const Value*, std::string> names_;
};

}  // namespace

bool functionalize(Program& program, PassContext& context) {
  RangeEnv ranges = program.ranges();
  Functionalizer pass(program.graph, ranges, context);
  TiedConstants tied(program, pass);
  tied.write_all(program);
  for (size_t i = 0; i < program.graph.inputs.size() && i < program.input_specs.size(); ++i) {
    Value* input = program.graph.inputs[i];
    const bool given = program.input_specs[i].kind == InputKind::user && input->kind == ValueKind::tensor;
    if (given && !elements_apart(input->type, ranges)) pass.layout_open(input);
  }
  bool changed = pass.run();
  std::set<const Value*> written;
  std::vector<Argument> outputs;
  std::vector<OutputSpec> specs;
  for (size_t i = 0; i < program.graph.inputs.size() && i < program.input_specs.size(); ++i) {
    Value* input = program.graph.inputs[i];
    Value* now = pass.written(input);
    if (!now) continue;
    written.insert(input);
    const InputSpec& spec = program.input_specs[i];
    bool user = spec.kind == InputKind::user;
    outputs.push_back(Argument(now));
    specs.push_back(
        {user ? OutputKind::user_input_mutation : OutputKind::buffer_mutation, user ? input->name : spec.target});
  }
  tied.check(written);
  program.graph.outputs.insert(program.graph.outputs.begin(), outputs.begin(), outputs.end());
  program.output_specs.insert(program.output_specs.begin(), specs.begin(), specs.end());
  return changed;
}

}  // namespace kiln
