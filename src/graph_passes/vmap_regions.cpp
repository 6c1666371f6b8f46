#include "graph_passes/vmap_regions.h"

#include "ops/common_operators.h"
#include "ops/op_record.h"

namespace kiln {

namespace {

constexpr std::string_view functorch = "torch._functorch.predispatch.";

bool is_call(const Node& node, std::string_view name) {
  return starts_with(node.target, functorch) && std::string_view(node.target).substr(functorch.size()) == name;
}

[[noreturn]] void refuse(const Node& node, const std::string& why) {
  fail_unsupported("K0236", str("vmap: ", why), node.where());
}

Value* tensor_argument(const Node& node, size_t i) {
  if (i >= node.args.size() || !node.args[i].arg.is_value() || node.args[i].arg.as_value()->kind != ValueKind::tensor)
    refuse(node, str("argument ", i, " of ", node.target, " must be a tensor"));
  return node.args[i].arg.as_value();
}

int64_t dimension(const Node& node, size_t i, size_t rank) {
  if (i >= node.args.size() || !node.args[i].arg.is_scalar() || !node.args[i].arg.as_scalar().is_int())
    refuse(node, str("argument ", i, " of ", node.target, " must be a number"));
  int64_t dim = node.args[i].arg.as_scalar().as_int();
  if (dim < 0) dim += static_cast<int64_t>(rank);
  if (dim < 0 || dim >= static_cast<int64_t>(rank)) refuse(node, str("there is no dimension ", dim));
  return dim;
}

// One region: the nodes from _vmap_increment_nesting to _vmap_decrement_nesting, both included.
class Region {
 public:
  Region(Graph& graph, std::vector<Node*> nodes, const RangeEnv& ranges)
      : graph_(graph), nodes_(std::move(nodes)), ranges_(ranges), body_(std::make_shared<Graph>()) {}

  void run() {
    for (const Node* node : nodes_) inside_.insert(node);
    body_->name = graph_.unique_name("vmap");
    for (Node* node : nodes_)
      if (is_call(*node, "_add_batch_dim")) add_batched(*node);
    if (xs_.empty()) refuse(*nodes_.front(), "nothing is mapped over");
    for (Node* node : nodes_) {
      if (is_call(*node, "_remove_batch_dim")) {
        leaves_.push_back(node);
        body_->outputs.push_back(mapped(Argument(tensor_argument(*node, 0)), *node));
      } else if (!starts_with(node->target, functorch)) {
        copy_node(*node);
      }
    }
    refuse_escapes();
    add_map();
    for (size_t i = nodes_.size(); i-- > 0;) graph_.erase(nodes_[i]);
  }

 private:
  void add_batched(Node& node) {
    Value* whole = tensor_argument(node, 0);
    if (whole->producer && inside_.contains(whole->producer)) refuse(node, "what is mapped over is computed inside");
    const int64_t dim = dimension(node, 1, whole->type.sizes.size());
    if (dim != 0) whole = moved(whole, dim, 0, node, nodes_.front());
    xs_.push_back(Argument(whole));
    length_ = whole->type.sizes[0];
    Value* input = body_->add_input(body_->unique_name(node.results.at(0)->name), ValueKind::tensor);
    input->type = node.results[0]->type;
    input->type.offset = Expr(0);
    map_[node.results[0]] = Argument(input);
  }

  Value* moved(Value* value, int64_t from, int64_t to, const Node& because, Node* before) {
    const OpRecord& movedim = common_operators::move_dimension();
    Node* made = graph_.add_node(movedim.name(), graph_.unique_name(op_short_name(movedim.name())), before);
    made->op = Registry::instance().find(made->target);
    made->origins = because.origins;
    made->args = {{"self", Argument(value)}, {"source", Argument(Scalar(from))}, {"destination", Argument(Scalar(to))}};
    infer_types(*made, graph_, ranges_);
    return made->results[0];
  }

  // ---- the subgraph -------------------------------------------------------------------------------------------------

  Argument mapped(const Argument& arg, const Node& user) {
    if (arg.is_list()) {
      Argument::List list;
      for (const Argument& element : arg.as_list()) list.push_back(mapped(element, user));
      return Argument(std::move(list));
    }
    if (!arg.is_value()) return arg;
    Value* value = arg.as_value();
    if (auto found = map_.find(value); found != map_.end()) return found->second;
    if (value->kind == ValueKind::tensor_list) {
      Argument::List list;
      for (Value* item : value->items) list.push_back(item ? mapped(Argument(item), user) : Argument());
      return Argument(std::move(list));
    }
    if (value->producer && inside_.contains(value->producer)) refuse(user, str(value->name, " is not computed yet"));
    Value* input = body_->add_input(body_->unique_name(value->name), value->kind);
    input->type = value->type;
    input->expr = value->expr;
    extra_.push_back(arg);
    return map_[value] = Argument(input);
  }

  void copy_node(const Node& node) {
    if (node.op && node.op->random && same_random_numbers())
      refuse(node, str(node.target, " must draw the same numbers for all elements (randomness='same')"));
    std::vector<Node::NamedArgument> args;
    for (const auto& named : node.args) args.push_back({named.name, mapped(named.arg, node)});
    Node* twin = body_->add_node(node.target, body_->unique_name(node.name));
    twin->op = node.op;
    twin->origins = node.origins;
    twin->args = std::move(args);
    for (const Value* result : node.results) {
      Value* made = body_->add_result(twin, body_->unique_name(result->name), result->kind);
      made->type = result->type;
      made->expr = result->expr;
      map_[result] = Argument(made);
      for (const Value* item : result->items) {
        if (!item) {
          made->items.push_back(nullptr);
          continue;
        }
        Value* one = body_->add_item(made, body_->unique_name(item->name));
        one->type = item->type;
        map_[item] = Argument(one);
      }
    }
    // What the program says leaves room for the batch, which is not there any more.
    if (twin->op && twin->op->infer && twin->op->kind == OpKind::plain) infer_types(*twin, *body_, ranges_);
  }

  bool same_random_numbers() const {
    const auto& args = nodes_.front()->args;
    const std::string* how = args.size() > 1 ? std::get_if<std::string>(&args[1].arg.value) : nullptr;
    return how && *how == "same";
  }

  void refuse_escapes() const {
    auto check = [&](const Argument& arg, const Node& user) {
      for_each_value(arg, [&](Value* value) {
        const Node* from = value->producer;
        if (from && inside_.contains(from) && !is_call(*from, "_remove_batch_dim"))
          refuse(user, str(value->name, " leaves the function that is mapped without being one of its results"));
      });
    };
    for (const auto& node : graph_.nodes)
      if (!inside_.contains(node.get()))
        for (const auto& named : node->args) check(named.arg, *node);
    for (const Argument& output : graph_.outputs) check(output, *nodes_.front());
  }

  // ---- the map ------------------------------------------------------------------------------------------------------

  void add_map() {
    Node* last = nodes_.back();
    Node* map = graph_.add_node("higher_order.map_impl", graph_.unique_name("vmap"), last);
    map->op = Registry::instance().find(map->target);
    map->origins = nodes_.front()->origins;
    map->args = {{"", Argument(body_)}, {"", Argument(xs_)}, {"", Argument(extra_)}};
    for (size_t i = 0; i < leaves_.size(); ++i) {
      const Argument& output = body_->outputs[i];
      if (!output.is_value() || output.as_value()->kind != ValueKind::tensor)
        refuse(*leaves_[i], "each result must be a tensor");
      const TensorType& one = output.as_value()->type;
      std::vector<Expr> sizes = one.sizes;
      sizes.insert(sizes.begin(), length_);
      Value* stacked = graph_.add_result(map, graph_.unique_name(leaves_[i]->name), ValueKind::tensor);
      stacked->type = contiguous_type(one.dtype, sizes, one.device);
    }
    for (size_t i = 0; i < leaves_.size(); ++i) {
      Value* old = leaves_[i]->results.at(0);
      const int64_t to = dimension(*leaves_[i], 3, old->type.sizes.size());
      Value* value = map->results[i];
      if (to != 0) value = moved(value, 0, to, *leaves_[i], last);
      graph_.replace_uses(old, laid_out(value, old->type, *leaves_[i], last));
    }
  }

  // With the strides that the program says, by which it goes on to views.
  Value* laid_out(Value* value, const TensorType& said, const Node& because, Node* before) {
    bool same = true;
    for (size_t d = 0; d < said.strides.size(); ++d)
      same &= prove_eq(said.sizes[d], Expr(1), ranges_) == Proof::yes ||
              prove_eq(said.strides[d], value->type.strides.at(d), ranges_) == Proof::yes;
    if (same) return value;
    const OpRecord& copy = common_operators::copy();
    Node* made = graph_.add_node(copy.name(), graph_.unique_name(because.name), before);
    made->op = &copy;
    made->origins = because.origins;
    made->args = {{"self", Argument(value)}};
    infer_types(*made, graph_, ranges_);
    made->results[0]->type.strides = said.strides;
    return made->results[0];
  }

  Graph& graph_;
  std::vector<Node*> nodes_;
  const RangeEnv& ranges_;
  std::shared_ptr<Graph> body_;
  std::set<const Node*> inside_;
  std::vector<Node*> leaves_;
  Argument::List xs_, extra_;
  Expr length_;
  std::unordered_map<const Value*, Argument> map_;
};

// The innermost region that is closed, first one first; empty: there is none.
std::vector<Node*> next_region(const Graph& graph) {
  std::vector<Node*> open;
  bool started = false;
  for (const auto& node : graph.nodes) {
    if (is_call(*node, "_vmap_increment_nesting")) open.clear(), started = true;
    if (started) open.push_back(node.get());
    if (!is_call(*node, "_vmap_decrement_nesting")) continue;
    if (!started) refuse(*node, "it ends and has not begun");
    return open;
  }
  if (started) refuse(*open.front(), "it does not end");
  return {};
}

}  // namespace

bool has_vmap_regions(const Graph& graph) {
  for (const auto& node : graph.nodes)
    if (starts_with(node->target, functorch)) return true;
  return false;
}

bool expand_vmap_regions(Graph& graph, const RangeEnv& ranges) {
  if (!has_vmap_regions(graph)) return false;
  std::vector<Node*> idle;  // only makes PyTorch load its rules
  for (auto& node : graph.nodes)
    if (is_call(*node, "lazy_load_decompositions")) idle.push_back(node.get());
  for (Node* node : idle) graph.erase(node);
  for (std::vector<Node*> nodes = next_region(graph); !nodes.empty(); nodes = next_region(graph))
    Region(graph, std::move(nodes), ranges).run();
  return true;
}

}  // namespace kiln
