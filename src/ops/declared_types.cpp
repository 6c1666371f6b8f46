#include "ops/declared_types.h"

#include <algorithm>

#include "graph/element_places.h"
#include "ops/op_record.h"

namespace kiln {
namespace {

std::string type_text(const TensorType& type) { return str(dtype_name(type.dtype), "[", shape_text(type.sizes), "]"); }

bool is_number(const Value& value) {
  return value.kind == ValueKind::sym_int || value.kind == ValueKind::sym_float || value.kind == ValueKind::sym_bool;
}

bool has_types(const Node& node) {
  return std::any_of(node.results.begin(), node.results.end(), [](const Value* result) {
    return result->kind == ValueKind::tensor || !result->items.empty() || is_number(*result);
  });
}

// Two expressions of floats are written in too many ways to be proved equal (1.5*n, n*1.5): they are tried.
bool same_floats(const Expr& a, const Expr& b, const RangeEnv& ranges) {
  std::set<std::string> names;
  collect_symbols(a, names);
  collect_symbols(b, names);
  uint64_t state = 1;
  for (int sample = 0; sample < 32; ++sample) {
    SymbolValues values;
    for (const std::string& name : names) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const auto found = ranges.ranges.find(name);
      const Interval range = found == ranges.ranges.end() ? Interval{} : found->second;
      values[name] = std::clamp(static_cast<int64_t>(state >> 52), range.low, range.high);
    }
    try {
      if (evaluate_float(a, values) != evaluate_float(b, values)) return false;
    } catch (const Error&) {  // no value there (a division by zero)
    }
  }
  return true;
}

class TypeCheck {
 public:
  explicit TypeCheck(const Program& program) : ranges_(program.ranges()) {
    // Of a size of an input any value will do, the others (read from data) are open without the export's value.
    std::set<std::string> of_inputs;
    for (const Value* input : program.graph.inputs)
      for (const Expr& size : input->type.sizes) collect_symbols(size, of_inputs);
    for (const auto& [name, info] : program.symbols)
      if (info.hint || of_inputs.count(name)) hints_[name] = info.hint.value_or(std::max<int64_t>(info.range.low, 2));
    for (const Guard& guard : program.guards) sure_.push_back(guard.condition);
  }

  void check(Graph& graph) {
    for (const Value* input : graph.inputs) note(*input);
    for (auto& node : graph.nodes) {
      note_batched(*node);
      try {
        const bool has_rule = node->op != nullptr && node->op->infer && node->op->kind != OpKind::control_flow;
        if (has_rule && has_types(*node)) check(*node, graph);
        if (node->op != nullptr && node->op->kind == OpKind::control_flow) check_control_flow(*node);
      } catch (Error& error) {
        error.locate(node->where());
        throw;
      }
      // A number that is asked of a tensor (its size, its offset) is what the tensor says.
      const bool asks = node->op != nullptr && node->op->kind == OpKind::symbolic && !node->op->reads_data;
      for (const Value* result : node->results)
        if (!asks) note(*result);
      note_assertion(*node);
      if (node->op && node->op->facts.wraps) continue;
      for (auto& named : node->args)
        if (named.arg.is_graph() && named.arg.as_graph()) TypeCheck(*this).check(*named.arg.as_graph());
    }
  }

 private:
  // What a branch or a loop gives is laid out without gaps, or as its subgraph says.
  void check_control_flow(const Node& node) const {
    const bool has_graph =
        std::any_of(node.args.begin(), node.args.end(), [](const auto& named) { return named.arg.is_graph(); });
    if (!has_graph) return;  // a mark around a region (vmap), whose nodes are made anew when it is inlined
    for (size_t i = 0; i < node.results.size(); ++i) {
      const Value& result = *node.results[i];
      if (result.kind != ValueKind::tensor || is_empty(result.type) || is_dense(result.type)) continue;
      bool as_given = false;
      for (const auto& named : node.args) {
        const Graph* inner = named.arg.is_graph() ? named.arg.as_graph().get() : nullptr;
        if (inner == nullptr || i >= inner->outputs.size() || !inner->outputs[i].is_value()) continue;
        as_given |= inner->outputs[i].as_value()->type.strides == result.type.strides;
      }
      if (!as_given)
        fail_user("K0242", str("the program says that ", result.name, " has the strides [",
                               shape_text(result.type.strides), "], but ", node.target, " gives no tensor like that"));
    }
  }

  // New sizes for the same elements: nothing else makes sure that they are as many, for every size that may come.
  void check_count(const Node& node) {
    const Argument* self = node.find("self");
    if (self == nullptr || !self->is_value() || node.results.size() != 1) return;
    const TensorType &from = self->as_value()->type, &to = node.results[0]->type;
    const Expr had = product(from.sizes), has = product(to.sizes);
    const Proof proof = prove_eq(had, has, ranges_);
    if (proof == Proof::yes) return;
    const std::string message = str(node.target, ": sizes [", shape_text(to.sizes), "] do not fit a tensor of sizes [",
                                    shape_text(from.sizes), "]");
    if (proof == Proof::no || (!open(had) && !open(has) && evaluate(had, hints_) != evaluate(has, hints_)))
      fail_user("K0207", message);
    if (!open(had) && !open(has)) open_.push_back({compare_eq(had, has), message});
  }

  void check(Node& node, Graph& graph) {
    InferCall call(node, node.op->schema, ranges_);
    node.op->infer(call);
    for (const TensorType& rule : call.results)
      for (const Expr& size : rule.sizes)
        if (range_of(size, ranges_).high < 0)
          fail_user("K0243", str(node.target, " would give a tensor with the negative size ", size.text()));
    const auto& declared = node.op->schema.returns;
    size_t next = 0, next_number = 0;
    open_.clear();
    if (node.op->facts.same_count) check_count(node);
    for (size_t i = 0; i < node.results.size(); ++i) {
      const bool aliases = i < declared.size() && !declared[i].alias.empty();
      Value& result = *node.results[i];
      if (result.kind == ValueKind::tensor && next < call.results.size())
        check(node, result, call.results[next++], aliases);
      if (is_number(result) && next_number < call.numbers.size()) check(node, result, call.numbers[next_number++]);
      for (Value* item : result.items) {
        if (item != nullptr && next < call.results.size()) check(node, *item, call.results[next], aliases);
        ++next;
      }
    }
    for (const Open& one : open_) assert_before(node, graph, one);
  }

  void check(const Node& node, const Value& value, const Expr& rule) {
    const bool floats = value.expr.is_float() || rule.is_float();
    if (floats ? same_floats(value.expr, rule, ranges_) : agree(value.expr, rule, {value, What::number})) return;
    fail_user("K0237", str("the program says that ", value.name, " is ", value.expr.text(), ", but ", node.target,
                           " gives ", rule.text()));
  }

  void check(const Node& node, Value& value, const TensorType& rule, bool aliases) {
    // torch.export.load forgets where views begin: what was loaded and saved again says 0 of all of them.
    if (aliases && value.type.offset.is_constant(0)) value.type.offset = rule.offset;
    const TensorType& said = value.type;
    bool same_sizes = said.sizes.size() == rule.sizes.size();
    for (size_t d = 0; same_sizes && d < said.sizes.size(); ++d)
      same_sizes = agree(said.sizes[d], rule.sizes[d], {value, What::size});
    if (said.dtype != rule.dtype || !same_sizes)
      fail_user("K0237", str("the program says that ", value.name, " is ", type_text(said), ", but ", node.target,
                             " gives ", type_text(rule)));
    // A library kernel makes tensors of its own, also where eager gives views (tensor_split by a tensor).
    if (aliases && !node.op->library.empty()) return;
    if (is_empty(said) || same_layout(value, rule, aliases) || (!aliases && is_dense(said))) return;
    if (!aliases && (batched_.count(&value) || like_an_argument(node, said))) return;
    fail_user("K0242", str("the program says that ", value.name, " has the strides [", shape_text(said.strides),
                           "] and the offset ", said.offset.text(), ", but ", node.target, " gives [",
                           shape_text(rule.strides), "] and ", rule.offset.text()));
  }

  // Between _add_batch_dim and _remove_batch_dim the dimension of the batch is not shown, and lies in the gaps.
  void note_batched(const Node& node) {
    bool batched = node.target.ends_with("._add_batch_dim");
    for (const auto& named : node.args) batched |= mentions_batched(named.arg);
    if (!batched) return;
    for (const Value* result : node.results) {
      batched_.insert(result);
      for (const Value* item : result->items) batched_.insert(item);
    }
  }

  bool mentions_batched(const Argument& arg) const {
    if (arg.is_value()) return batched_.count(arg.as_value()) > 0;
    if (!arg.is_list()) return false;
    return std::any_of(arg.as_list().begin(), arg.as_list().end(),
                       [&](const Argument& element) { return mentions_batched(element); });
  }

  // Of a write to a part of a tensor that was made functional (copy), PyTorch says the part's strides: gaps, too.
  bool like_an_argument(const Node& node, const TensorType& said) const {
    if (!node.op->facts.keeps_gaps) return false;
    const Argument* self = node.find("self");
    if (self == nullptr || !self->is_value() || self->as_value()->type.strides.size() != said.strides.size())
      return false;
    for (size_t d = 0; d < said.strides.size(); ++d)
      if (!same(said.strides[d], self->as_value()->type.strides[d])) return false;
    return elements_apart(said, ranges_);
  }

  bool same_layout(const Value& value, const TensorType& rule, bool aliases) {
    const TensorType& said = value.type;
    if (!aliases) {  // new memory: how it is laid out is decided by what is said
      for (size_t d = 0; d < said.sizes.size(); ++d)
        if (!same(said.sizes[d], Expr(1)) && !same(said.strides[d], rule.strides[d])) return false;
      return true;
    }
    // Nobody steps along a dimension of one, or through a tensor without elements.
    std::vector<Expr> no_matter;
    for (const Expr& size : said.sizes) no_matter.push_back(compare_eq(size, Expr(0)));
    for (size_t d = 0; d < said.sizes.size(); ++d) {
      std::vector<Expr> excuses = no_matter;
      excuses.push_back(compare_eq(said.sizes[d], Expr(1)));
      if (!same(said.sizes[d], Expr(1)) && !agree(said.strides[d], rule.strides[d], {value, What::layout, excuses}))
        return false;
    }
    return agree(said.offset, rule.offset, {value, What::layout, no_matter});
  }

  // ---- what only a call can tell
  // -------------------------------------------------------------------------------------

  enum class What { number, size, layout };

  struct Place {
    const Value& value;
    What what;
    std::vector<Expr> excuses = {};  // conditions under which a difference is none
  };

  // An export that does not know a size, a stride or an offset gives it a symbol of its own.
  struct Name {
    Expr meaning;
    bool has_value = false;  // a size gives its symbol a value; a stride or an offset does not
  };

  struct Open {
    Expr condition;
    std::string message;
  };

  bool agree(const Expr& said, const Expr& rule, const Place& place) {
    const Proof proof = prove_eq(said, rule, ranges_);
    if (proof != Proof::unknown) return proof == Proof::yes;
    if (!open(said) && !open(rule) && evaluate(said, hints_) != evaluate(rule, hints_)) return false;
    std::set<std::string> unknown;
    collect_symbols(said, unknown);
    collect_symbols(rule, unknown);
    std::erase_if(unknown, [&](const std::string& name) { return known_.contains(name); });
    if (unknown.empty()) {
      Expr condition = compare_eq(said, rule);
      for (const Expr& excuse : place.excuses) condition = Expr::make(ExprOp::logical_or, {condition, excuse});
      open_.push_back({condition, str("the program says that a size, stride or number of ", place.value.name, " is ",
                                      said.text(), ", but it is ", rule.text())});
      return true;
    }
    const bool names = place.what != What::number && said.is_symbol() && unknown.size() == 1 &&
                       unknown.contains(said.name()) && !mentions(rule, said.name());
    if (!names) return false;
    const auto [name, is_new] = names_.try_emplace(said.name(), Name{rule});
    name->second.has_value = name->second.has_value || place.what == What::size;
    return is_new || agree(name->second.meaning, rule, place);
  }

  void assert_before(Node& node, Graph& graph, const Open& one) {
    for (const Expr& known : sure_)
      if (known.same(one.condition)) return;
    sure_.push_back(one.condition);
    Value* holds = graph.new_value(graph.unique_name(node.name + "_as_said"), ValueKind::sym_bool);
    holds->expr = one.condition;
    static const char* const target = "aten._assert_scalar.default";
    Node* made = graph.add_node(target, graph.unique_name(node.name + "_checked"), &node);
    made->op = Registry::instance().find(target);
    made->origins = node.origins;
    made->args = {{"self", Argument(holds)}, {"assert_msg", Argument(one.message)}};
  }

  // Symbols that have a value once this value is there.
  void note(const Value& value) {
    std::set<std::string> symbols;
    if (is_number(value)) collect_symbols(value.expr, symbols);
    if (value.kind == ValueKind::tensor)
      for (const Expr& size : value.type.sizes) collect_symbols(size, symbols);
    for (const std::string& symbol : symbols) {
      const auto name = names_.find(symbol);
      if (name != names_.end() && !name->second.has_value)
        fail_user("K0237", str("the program calls ", symbol, " both a number of ", value.name, " and ",
                               name->second.meaning.text()));
      known_.insert(symbol);
    }
    for (const Value* item : value.items)
      if (item != nullptr) note(*item);
  }

  void note_assertion(const Node& node) {
    if (node.op == nullptr || node.op->kind != OpKind::assertion) return;
    const Argument* condition = node.find("self");
    if (condition != nullptr && condition->is_value() && condition->as_value()->kind == ValueKind::sym_bool)
      sure_.push_back(condition->as_value()->expr);
  }

  // A number with symbols that the export has no value for.
  bool open(const Expr& expr) const {
    std::set<std::string> names;
    collect_symbols(expr, names);
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return !hints_.contains(name); });
  }

  bool same(const Expr& a, const Expr& b) const {
    const Proof proof = prove_eq(a, b, ranges_);
    if (proof != Proof::unknown || open(a) || open(b)) return proof != Proof::no;
    return evaluate(a, hints_) == evaluate(b, hints_);
  }

  // In the export; what is empty in some calls only has its excuse there.
  bool is_empty(const TensorType& type) const {
    return std::any_of(type.sizes.begin(), type.sizes.end(),
                       [&](const Expr& size) { return !open(size) && evaluate(size, hints_) == 0; });
  }

  bool is_dense(const TensorType& type) const {
    std::vector<int64_t> sizes, strides;
    for (size_t d = 0; d < type.sizes.size(); ++d) {
      if (open(type.sizes[d]) || open(type.strides[d])) return true;
      sizes.push_back(evaluate(type.sizes[d], hints_));
      strides.push_back(evaluate(type.strides[d], hints_));
    }
    return dense_and_not_overlapping(sizes, strides);
  }

  RangeEnv ranges_;
  SymbolValues hints_;
  std::set<std::string> known_;  // symbols with a value at this point of the program
  std::map<std::string, Name> names_;
  std::vector<Expr> sure_;  // conditions that were looked at before this point
  std::vector<Open> open_;  // of the node at hand
  std::set<const Value*> batched_;
};

}  // namespace

void check_declared_types(Program& program) { TypeCheck(program).check(program.graph); }

}  // namespace kiln
