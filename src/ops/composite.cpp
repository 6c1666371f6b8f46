#include "ops/composite.h"

namespace kiln {

namespace {

// The node alone in a graph of its own, its tensors as inputs.
class Scratch {
 public:
  explicit Scratch(const Node& node) : node_(graph_.add_node(node.target, node.name)) {
    node_->op = node.op;
    node_->origins = node.origins;
    for (const auto& named : node.args) node_->args.push_back({named.name, own(named.arg)});
    for (const Value* result : node.results) {
      Value* made = graph_.add_result(node_, result->name, result->kind);
      made->type = result->type;
      made->expr = result->expr;
      for (const Value* item : result->items) {
        Value* piece = graph_.add_item(made, item ? item->name : "none");
        if (item) piece->type = item->type;
      }
    }
  }

  // Concrete numbers and sizes in place of symbolic ones; dtypes stay what the graph says.
  void make_concrete(const ReferenceCall& call) {
    for (auto& named : node_->args) {
      auto found = call.values.find(named.name);
      if (found != call.values.end()) fix(named.arg, found->second);
    }
  }

  Graph& graph() { return graph_; }
  Node& node() { return *node_; }
  const std::map<const Value*, Datum>& known() const { return known_; }

 private:
  Argument own(const Argument& arg) {
    if (arg.is_list()) {
      Argument::List list;
      for (const Argument& element : arg.as_list()) list.push_back(own(element));
      return Argument(std::move(list));
    }
    if (!arg.is_value()) return arg;
    Value* from = arg.as_value();
    auto found = copies_.find(from);
    if (found != copies_.end()) return Argument(found->second);
    Value* made = graph_.add_input(from->name, from->kind);
    made->type = from->type;
    made->expr = from->expr;
    for (Value* item : from->items) made->items.push_back(item ? own(Argument(item)).as_value() : nullptr);
    copies_[from] = made;
    return Argument(made);
  }

  void fix(Argument& arg, const Datum& datum) {
    if (arg.is_value() && datum.is_tensor() && arg.as_value()->kind == ValueKind::tensor) {
      TensorType& type = arg.as_value()->type;
      type.sizes = to_exprs(datum.tensor().sizes);
      type.strides = to_exprs(datum.tensor().strides);
      type.offset = Expr(datum.tensor().offset);
      known_[arg.as_value()] = datum;
    } else if (datum.is_scalar()) {  // also in place of a constant, of which this may be the imaginary part
      arg = Argument(datum.scalar());
    } else if (arg.is_list() && datum.is_list() && arg.as_list().size() == datum.list().size()) {
      auto& list = std::get<Argument::List>(arg.value);
      for (size_t i = 0; i < list.size(); ++i) fix(list[i], datum.list()[i]);
    } else if (arg.is_value() && datum.is_list() && arg.as_value()->items.size() == datum.list().size()) {
      for (size_t i = 0; i < datum.list().size(); ++i) {
        Argument item(arg.as_value()->items[i]);
        if (arg.as_value()->items[i]) fix(item, datum.list()[i]);
      }
    }
  }

  Graph graph_;
  Node* node_;
  std::map<const Value*, Value*> copies_;
  std::map<const Value*, Datum> known_;
};

Datum evaluated(const Argument& arg, const std::map<const Value*, Datum>& known) {
  if (arg.is_value()) {
    auto found = known.find(arg.as_value());
    if (found != known.end()) return found->second;
    const Value* value = arg.as_value();
    if (value->kind == ValueKind::tensor || value->kind == ValueKind::tensor_list)
      fail_bug(str("a decomposition uses ", value->name, " before it is defined"));
    return constant_datum(Argument(value->expr));
  }
  if (!arg.is_list()) return constant_datum(arg);
  std::vector<Datum> list;
  for (const Argument& element : arg.as_list()) list.push_back(evaluated(element, known));
  return Datum{std::move(list)};
}

// Runs the nodes that the decomposition made, in order.
std::map<const Value*, Datum> run_parts(Scratch& scratch, const ReferenceCall& outer) {
  std::map<const Value*, Datum> known = scratch.known();
  uint64_t position = 0;
  for (const auto& node : scratch.graph().nodes) {
    if (node.get() == &scratch.node()) continue;
    ReferenceCall call(*node, node->op->schema);
    call.fp64 = outer.fp64;
    call.seed = outer.seed + 0x9e3779b97f4a7c15ULL * ++position;
    OpCall access(*node, node->op->schema);
    for (const SchemaArg& declared : node->op->schema.args)
      call.values[declared.name] = evaluated(access.arg(declared.name), known);
    node->op->reference(call);
    for (size_t i = 0; i < node->results.size(); ++i) {
      known[node->results[i]] = call.results.at(i);
      const std::vector<Value*>& items = node->results[i]->items;
      for (size_t j = 0; j < items.size(); ++j)
        if (items[j]) known[items[j]] = call.results[i].list().at(j);
    }
  }
  return known;
}

void reference_composite(ReferenceCall& call, const CompositeFn& build, const Schema& schema) {
  static const RangeEnv none;
  Scratch scratch(call.node());
  scratch.make_concrete(call);
  DecomposeCall decompose(scratch.node(), schema, scratch.graph(), none);
  Build b(decompose);
  try {
    build(b);
  } catch (const Error& error) {
    // Sizes that are numbers only now do not fit: what was a rule's refusal is a check that failed while running.
    if (error.code() != "K0212") throw;
    fail_user("K0630", error.message(), call.node().where());
  }
  auto known = run_parts(scratch, call);
  std::vector<Datum> flat;
  for (Value* result : decompose.replacements()) {
    KILN_CHECK(result, str(schema.name, " leaves a result undefined"));
    flat.push_back(known.at(result));
  }
  bool list = schema.returns.size() == 1 && schema.returns[0].type == SchemaType::tensor_list;
  call.results = list ? std::vector<Datum>{Datum{std::move(flat)}} : std::move(flat);
}

// A size found in data is named after the node that finds it, and names in a scratch graph begin anew each time: two
// calls of one operator would share a symbol. Named after the whole call instead.
class FreshSymbols {
 public:
  FreshSymbols(const Node& node, const RangeEnv& ranges) : prefix_(str("u_", node.name)) {
    for (const auto& [name, range] : ranges.ranges) known_.insert(name);
    for (const auto& named : node.args) {
      if (auto* expr = std::get_if<Expr>(&named.arg.value)) collect_symbols(*expr, known_);
      for_each_value(named.arg, [&](const Value* value) { note(*value); });
    }
    for (const Value* result : node.results) note(*result);
  }

  void rename(TensorType& type) {
    std::set<std::string> used;
    for (const Expr& size : type.sizes) collect_symbols(size, used);
    for (const std::string& name : used)
      if (!known_.contains(name) && !renamed_.contains(name))
        renamed_[name] = Expr::symbol(renamed_.empty() ? prefix_ : str(prefix_, "_", renamed_.size()));
    if (renamed_.empty()) return;
    for (Expr& size : type.sizes) size = substitute(size, renamed_);
    for (Expr& stride : type.strides) stride = substitute(stride, renamed_);
    type.offset = substitute(type.offset, renamed_);
  }

 private:
  void note(const Value& value) {
    for (const Expr& size : value.type.sizes) collect_symbols(size, known_);
    collect_symbols(value.expr, known_);
    for (const Value* item : value.items)
      if (item) note(*item);
  }

  std::string prefix_;
  std::set<std::string> known_;
  Substitution renamed_;
};

void infer_composite(InferCall& call, const CompositeFn& build) {
  Scratch scratch(call.node());
  DecomposeCall decompose(scratch.node(), call.schema(), scratch.graph(), call.ranges());
  Build b(decompose);
  build(b);
  // A result that the program says is None (a gradient nobody asked for) has no type.
  const auto& places = call.node().results;
  FreshSymbols fresh(call.node(), call.ranges());
  for (size_t i = 0; i < decompose.replacements().size(); ++i) {
    const Value* result = decompose.replacements()[i];
    KILN_CHECK(result, str(call.schema().name, " leaves a result undefined"));
    if (i < places.size() && places[i]->kind == ValueKind::none) continue;
    call.results.push_back(result->type);
    fresh.rename(call.results.back());
  }
}

}  // namespace

namespace {

// A type with a name, so that add_composite can tell such a reference from one that stands on its own.
struct ReferenceByParts {
  CompositeFn build;
  std::shared_ptr<const Schema> schema;
  void operator()(ReferenceCall& call) const { reference_composite(call, build, *schema); }
};

}  // namespace

ReferenceFn reference_by(CompositeFn build, const std::string& schema_text, std::string_view name_space) {
  auto schema = std::make_shared<const Schema>(parse_schema(schema_text, std::string(name_space)));
  return ReferenceByParts{std::move(build), std::move(schema)};
}

void add_composite(Registry& registry, CompositeRow row) {
  OpRecord record;
  record.schema_text = row.schema;
  record.name_space = row.name_space;
  record.inplace = row.inplace;
  record.early = row.early;
  record.random = row.random;
  record.facts = row.facts;
  record.samples = std::move(row.samples);
  record.infer = [build = row.build](InferCall& call) { infer_composite(call, build); };
  record.decompose = [build = row.build](DecomposeCall& call) {
    Build b(call);
    build(b);
  };
  record.reference = row.reference ? row.reference : reference_by(row.build, row.schema, row.name_space);
  record.reference_by_parts = record.reference.target<ReferenceByParts>() != nullptr;
  registry.add(std::move(record));
}

Value* reduce_loss(Build& b, Value* loss) {
  auto how = static_cast<LossReduction>(b.call().constant_integer("reduction"));
  if (how == LossReduction::mean) return b("mean", {loss});
  return how == LossReduction::sum ? b("sum", {loss}) : loss;
}

}  // namespace kiln
