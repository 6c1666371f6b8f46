#include "graph_passes/auto_functionalized.h"

#include "ops/common_operators.h"
#include "ops/custom_ops.h"

namespace kiln {

namespace {

class Expansion {
 public:
  Expansion(Graph& graph, Node& call, const RangeEnv& ranges) : graph_(graph), call_(call), ranges_(ranges) {}

  void run() {
    target_ = functionalized_target(call_);
    for (const auto& named : call_.args)
      if (named.name == writes_argument || named.name == "_kiln_order")
        for (const Argument& name : named.arg.as_list())
          (named.name == writes_argument ? writes_ : order_).push_back(std::get<std::string>(name.value));
    const bool by_bases = call_.target == "higher_order.auto_functionalized_v2";
    std::vector<Value*> renewed = by_bases ? take_bases() : take_arguments();
    // Without a result of its own the operator still has one place, which is None.
    if (call_.results.size() < renewed.size()) refuse("it has fewer results than arguments that it writes to");
    const size_t own = call_.results.size() - renewed.size();
    call_operator(own);
    for (size_t i = 0; i < renewed.size(); ++i) replace(call_.results[own + i], renewed[i]);
    graph_.erase(&call_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    fail_user("K0235", str(call_.target, " of ", target_, ": ", why), call_.where());
  }

  // ---- the written arguments
  // ------------------------------------------------------------------------------------------

  std::vector<Value*> take_bases() {
    const Argument* given = call_.find("_all_bases");
    if (given)
      for (Value* base : argument_tensors(*given)) bases_.push_back(base), copies_.push_back(copy_of(base));
    writes_.clear();
    for (size_t i = 1; i < call_.args.size(); ++i) {
      const std::string& name = call_.args[i].name;
      if (name.empty()) refuse("an argument has no name");
      if (name[0] == '_' && !has_argument(name))
        take_note(name, call_.args[i].arg);
      else
        args_.push_back({name, call_.args[i].arg});
    }
    return copies_;
  }

  // Operators may have arguments that begin with an underscore, too. With a schema we know them.
  bool has_argument(const std::string& name) const {
    return std::find(order_.begin(), order_.end(), name) != order_.end();
  }

  void take_note(const std::string& name, const Argument& value) {
    constexpr std::string_view index = "_base_index", length = "_length";
    if (ends_with(name, length)) {
      std::string arg = name.substr(1, name.size() - 1 - length.size());
      if (!value.is_none()) {
        Argument::List list;
        for (int64_t i = 0; i < integer(value); ++i) list.push_back(view(str("_", arg, "_", i)));
        add_written(arg, Argument(std::move(list)));
        lists_.push_back(str("_", arg, "_"));
      } else {
        args_.push_back({arg, Argument()});
      }
    } else if (ends_with(name, index)) {
      for (const std::string& list : lists_)  // an element of a list, which is taken with the list
        if (starts_with(name, list)) return;
      std::string arg = name.substr(1, name.size() - 1 - index.size());
      Argument seen = view("_" + arg);
      if (seen.is_none())
        args_.push_back({arg, Argument()});
      else
        add_written(arg, std::move(seen));
    }
  }

  void add_written(const std::string& name, Argument value) {
    args_.push_back({name, std::move(value)});
    writes_.push_back(name);
  }

  int64_t integer(const Argument& arg) const {
    if (!arg.is_scalar() || !arg.as_scalar().is_int() || arg.as_scalar().as_int() < 0) refuse("a bad number");
    return arg.as_scalar().as_int();
  }

  // The part of a base's copy that the argument is.
  Argument view(const std::string& prefix) {
    const Argument* index = call_.find(prefix + "_base_index");
    if (!index) refuse(str("there is no ", prefix, "_base_index"));
    if (index->is_none()) return Argument();
    const auto which = static_cast<size_t>(integer(*index));
    if (which >= copies_.size()) refuse(str(prefix, "_base_index is ", which, " of ", copies_.size(), " bases"));
    Value* copy = copies_[which];
    const Argument *dim = call_.find(prefix + "_slice_dim"), *size = call_.find(prefix + "_size");
    if (dim) {
      return Argument(add(common_operators::slice(),
                          {Argument(copy), *dim, given(prefix + "_slice_start"), given(prefix + "_slice_end")}));
    }
    if (!size) return Argument(copy);
    // The offset counts from the start of the storage; the copy starts at 0.
    Argument offset = given(prefix + "_storage_offset");
    if (const Expr& start = bases_[which]->type.offset; !start.is_constant(0)) offset = shifted(offset, start);
    if (copy->type.strides != bases_[which]->type.strides)
      refuse("a view of a tensor whose elements do not lie one after another");
    return Argument(add(common_operators::strided_view(), {Argument(copy), *size, given(prefix + "_stride"), offset}));
  }

  Argument given(const std::string& name) const {
    const Argument* arg = call_.find(name);
    if (!arg) refuse(str("there is no ", name));
    return *arg;
  }

  Argument shifted(const Argument& offset, const Expr& by) const {
    if (offset.is_scalar()) return Argument(Expr(offset.as_scalar().as_int()) - by);
    if (const auto* expr = std::get_if<Expr>(&offset.value)) return Argument(*expr - by);
    if (offset.is_value()) return Argument(offset.as_value()->expr - by);
    refuse("a bad offset");
  }

  std::vector<Value*> take_arguments() {
    if (order_.empty())
      fail_user("K0234",
                str("the custom operator ", target_, " writes to arguments, and this file does not say to which: its ",
                    "library's table must have its schema (kiln/custom_op.h)"),
                call_.where());
    for (size_t i = 1; i < call_.args.size(); ++i) {
      const auto& named = call_.args[i];
      if (is_custom_note(named.name) || named.name == "_kiln_order") continue;
      bool written = std::find(writes_.begin(), writes_.end(), named.name) != writes_.end();
      args_.push_back({named.name, written ? copied(named.arg) : named.arg});
    }
    std::vector<Value*> out;
    for (const std::string& name : writes_)
      for (const auto& named : args_)
        if (named.name == name)
          for (Value* value : argument_tensors(named.arg)) out.push_back(value);
    std::erase_if(writes_, [&](const std::string& name) {
      return std::none_of(args_.begin(), args_.end(), [&](const auto& named) { return named.name == name; });
    });
    return out;
  }

  Argument copied(const Argument& arg) {
    if (arg.is_value() && arg.as_value()->kind == ValueKind::tensor) return Argument(copy_of(arg.as_value()));
    if (arg.is_none()) return arg;
    Argument::List list;
    for (Value* value : argument_tensors(arg)) list.push_back(Argument(copy_of(value)));
    return Argument(std::move(list));
  }

  // ---- the new nodes ------------------------------------------------------------------------------------------------

  Value* copy_of(Value* value) { return add(common_operators::copy(), {Argument(value)}); }

  Value* add(const OpRecord& record, const std::vector<Argument>& args) {
    Node* made = graph_.add_node(record.name(), graph_.unique_name(op_short_name(record.name())), &call_);
    made->op = &record;
    made->origins = call_.origins;
    for (size_t i = 0; i < args.size(); ++i) made->args.push_back({record.schema.args[i].name, args[i]});
    infer_types(*made, graph_, ranges_);
    return made->results[0];
  }

  void call_operator(size_t own_results) {
    // As the schema orders them; what it does not know stays behind.
    std::stable_sort(args_.begin(), args_.end(), [&](const auto& a, const auto& b) {
      return std::find(order_.begin(), order_.end(), a.name) < std::find(order_.begin(), order_.end(), b.name);
    });
    Node* made = graph_.add_node(target_, graph_.unique_name(call_.name), &call_);
    made->op = Registry::instance().find(target_);
    made->origins = call_.origins;
    made->args = args_;
    if (!made->op && !writes_.empty()) made->args.push_back({std::string(writes_argument), names_argument(writes_)});
    for (size_t i = 0; i < own_results; ++i) {
      Value* old = call_.results[i];
      if (old->kind == ValueKind::none) continue;
      Value* value = graph_.add_result(made, graph_.unique_name(old->name), old->kind);
      value->type = old->type;
      value->expr = old->expr;
      for (Value* item : old->items) {
        Value* twin = item ? graph_.add_item(value, graph_.unique_name(item->name)) : nullptr;
        if (!twin) {
          value->items.push_back(nullptr);
          continue;
        }
        twin->type = item->type;
        graph_.replace_uses(item, twin);
      }
      graph_.replace_uses(old, value);
    }
  }

  void replace(Value* old, Value* renewed) {
    if (old->kind == ValueKind::none) return;
    if (old->kind != ValueKind::tensor || old->type.dtype != renewed->type.dtype ||
        old->type.sizes.size() != renewed->type.sizes.size())
      refuse(str("the result ", old->name, " is not what is written"));
    graph_.replace_uses(old, renewed);
  }

  Graph& graph_;
  Node& call_;
  const RangeEnv& ranges_;
  std::string target_;
  std::vector<std::string> writes_, order_, lists_;
  std::vector<Value*> bases_, copies_;
  std::vector<Node::NamedArgument> args_;
};

}  // namespace

void expand_auto_functionalized(Graph& graph, Node& call, const RangeEnv& ranges) {
  Expansion(graph, call, ranges).run();
}

}  // namespace kiln
