#include "interp/graph_run.h"

#include <bit>

#include "interp/tensor_sharing.h"
#include "ops/custom_ops.h"
#include "ops/op_record.h"
#include "types/checked.h"

namespace kiln {

namespace {

// In fp64 mode a custom operator still gets the dtypes that the graph says: it knows no others.
Datum to_nominal(const Argument& arg, const Datum& datum) {
  if (arg.is_value() && datum.is_tensor() && arg.as_value()->kind == ValueKind::tensor)
    return Datum{convert(datum.tensor(), arg.as_value()->type.dtype)};
  if (arg.is_list() && datum.is_list()) {
    std::vector<Datum> out;
    for (size_t i = 0; i < arg.as_list().size(); ++i) out.push_back(to_nominal(arg.as_list()[i], datum.list()[i]));
    return Datum{std::move(out)};
  }
  return datum;
}

Datum to_wide(const Datum& datum) {
  if (datum.is_tensor()) return Datum{convert(datum.tensor(), wide_dtype(datum.tensor().dtype))};
  if (!datum.is_list()) return datum;
  std::vector<Datum> out;
  for (const Datum& element : datum.list()) out.push_back(to_wide(element));
  return Datum{std::move(out)};
}

Datum own_copies(const Datum& datum) {
  if (datum.is_tensor()) return Datum{own_copy(datum.tensor())};
  if (!datum.is_list()) return datum;
  std::vector<Datum> out;
  for (const Datum& element : datum.list()) out.push_back(own_copies(element));
  return Datum{std::move(out)};
}

// What an operator wrote to converted arguments, into the arguments themselves.
void copy_back(const Datum& from, const Datum& to) {
  if (from.is_tensor() && to.is_tensor()) {
    copy_into(convert(from.tensor(), to.tensor().dtype), to.tensor());
  } else if (from.is_list() && to.is_list()) {
    for (size_t i = 0; i < from.list().size(); ++i) copy_back(from.list()[i], to.list()[i]);
  }
}

void add_tensors(const Datum& datum, std::vector<Datum>& out) {
  if (datum.is_tensor()) out.push_back(datum);
  if (datum.is_list())
    for (const Datum& element : datum.list()) add_tensors(element, out);
}

// For each node, the values that nothing needs after it.
std::unordered_map<const Node*, std::vector<const Value*>> last_uses(const Graph& graph) {
  std::unordered_map<const Value*, const Node*> last;
  for (const auto& node : graph.nodes) {
    for (const Value* result : node->results) {
      last[result] = node.get();
      for (const Value* item : result->items) last[item] = node.get();
    }
    for (const auto& named : node->args) for_each_value(named.arg, [&](Value* value) { last[value] = node.get(); });
  }
  for (const Argument& output : graph.outputs) for_each_value(output, [&](Value* value) { last.erase(value); });
  std::unordered_map<const Node*, std::vector<const Value*>> out;
  for (const auto& [value, node] : last) out[node].push_back(value);
  return out;
}

}  // namespace

uint64_t mix_seed(uint64_t seed, uint64_t position) {
  uint64_t z = seed + (position + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

std::vector<Datum> GraphRun::run(const Graph& graph, const std::vector<Datum>& inputs) {
  if (inputs.size() != graph.inputs.size())
    fail_user("K0231", str("graph ", graph.name, " takes ", graph.inputs.size(), " inputs and got ", inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) set_value(*graph.inputs[i], inputs[i]);
  if (options_.before_graph) options_.before_graph(graph, inputs);
  auto dead_after = last_uses(graph);
  uint64_t position = 0;
  for (const auto& node : graph.nodes) {
    try {
      run_node(*node, position++);
    } catch (Error& error) {
      error.locate(node->where());
      throw;
    } catch (const std::bad_alloc&) {
      fail_user("K0650", "not enough memory to interpret this operator", node->where());
    }
    for (const Value* value : dead_after[node.get()]) values_.erase(value);
  }
  std::vector<Datum> out;
  for (const Argument& output : graph.outputs) out.push_back(evaluate_argument(output));
  return out;
}

Datum GraphRun::evaluate_expr(const Expr& expr) {
  if (expr.is_float()) return Datum{Scalar(evaluate_float(expr, symbols_))};
  int64_t value = evaluate(expr, symbols_);
  return expr.is_boolean() ? Datum{Scalar(value != 0)} : Datum{Scalar(value)};
}

Datum GraphRun::evaluate_argument(const Argument& arg) {
  if (arg.is_value()) {
    const Value* value = arg.as_value();
    auto found = values_.find(value);
    if (found != values_.end()) return found->second;
    bool number =
        value->kind == ValueKind::sym_int || value->kind == ValueKind::sym_float || value->kind == ValueKind::sym_bool;
    if (number) return evaluate_expr(value->expr);
    if (value->kind == ValueKind::none) return {};
    fail_bug(str("value ", value->name, " is used before it is computed"));
  }
  if (arg.is_list()) {
    std::vector<Datum> out;
    for (const Argument& element : arg.as_list()) out.push_back(evaluate_argument(element));
    return Datum{std::move(out)};
  }
  if (const auto* expr = std::get_if<Expr>(&arg.value)) return evaluate_expr(*expr);
  return constant_datum(arg);
}

void GraphRun::bind(const Expr& expr, int64_t actual) {
  if (expr.is_constant()) return;
  if (expr.is_symbol()) {
    auto info = program_.symbols.find(expr.name());
    bool unbacked = info == program_.symbols.end() || info->second.unbacked;
    if (unbacked || !symbols_.contains(expr.name())) symbols_[expr.name()] = actual;
    return;
  }
  std::set<std::string> unknown;
  collect_symbols(expr, unknown);
  std::erase_if(unknown, [&](const std::string& name) { return symbols_.contains(name); });
  if (unknown.size() != 1) return;
  const std::string& name = *unknown.begin();
  // A bool read from a tensor is written u0 == 1.
  if (expr.op() == ExprOp::eq && (expr.args()[0].is_constant(1) || expr.args()[1].is_constant(1))) {
    symbols_[name] = actual;
    return;
  }
  if (auto affine = affine_in(expr, name)) {
    int64_t coefficient = evaluate(affine->coefficient, symbols_);
    int64_t rest = checked::sub(actual, evaluate(affine->rest, symbols_));
    if (coefficient != 0 && checked::mod(rest, coefficient) == 0) symbols_[name] = checked::floordiv(rest, coefficient);
  }
}

void GraphRun::set_value(const Value& value, Datum datum) {
  if (datum.is_tensor() && value.kind == ValueKind::tensor) {
    const Tensor& tensor = datum.tensor();
    for (size_t i = 0; i < value.type.sizes.size() && i < tensor.sizes.size(); ++i)
      bind(value.type.sizes[i], tensor.sizes[i]);
  } else if (datum.is_scalar() && (value.kind == ValueKind::sym_int || value.kind == ValueKind::sym_bool)) {
    bind(value.expr, datum.scalar().as_int());
  } else if (datum.is_scalar() && value.kind == ValueKind::sym_float) {
    if (value.expr.is_symbol()) symbols_[value.expr.name()] = std::bit_cast<int64_t>(datum.scalar().as_double());
  } else if (datum.is_list()) {
    const auto& list = datum.list();
    if (list.size() != value.items.size() && !value.items.empty())
      fail_bug(str("list ", value.name, " has ", list.size(), " elements, its graph says ", value.items.size()));
    for (size_t i = 0; i < value.items.size(); ++i)
      if (value.items[i]) set_value(*value.items[i], list[i]);
  }
  values_[&value] = std::move(datum);
}

void GraphRun::run_node(const Node& node, uint64_t position) {
  std::vector<Datum> results;
  if (node.op && node.op->kind == OpKind::control_flow) {
    results = run_control_flow(node);
  } else if (node.op) {
    results = run_record(node, position);
  } else {
    results = run_custom(node);
  }
  keep_conjugates(node, results);
  // A file may name a list's elements as separate results.
  if (results.size() == 1 && results[0].is_list() &&
      (node.results.size() != 1 || node.results[0]->kind != ValueKind::tensor_list)) {
    std::vector<Datum> elements = results[0].list();
    results = std::move(elements);
  }
  if (results.size() < node.results.size())
    fail_bug(str(node.target, " gave ", results.size(), " results, the graph has ", node.results.size()));
  for (size_t i = 0; i < node.results.size(); ++i) set_value(*node.results[i], results[i]);
  if (options_.after_node) options_.after_node(node, results);
}

void GraphRun::keep_conjugates(const Node& node, const std::vector<Datum>& results) {
  if (node.op && node.op->facts.conjugate_view) {
    const Datum self = node.args.empty() ? Datum{} : evaluate_argument(node.args[0].arg);
    if (self.is_tensor() && !results.empty() && results[0].is_tensor())
      conjugates_.add(self.tensor(), results[0].tensor());
  }
  if (conjugates_.empty()) return;
  std::vector<std::string> writes = custom_writes(node);
  if (node.op)
    for (const SchemaArg& arg : node.op->schema.args)
      if (arg.writes) writes.push_back(arg.name);
  std::vector<Datum> written;
  for (const std::string& name : writes)
    if (const Argument* arg = node.find(name)) add_tensors(evaluate_argument(*arg), written);
  for (const Datum& datum : written) conjugates_.written(datum.tensor());
}

std::vector<Datum> GraphRun::run_record(const Node& node, uint64_t position) {
  const OpRecord& record = *node.op;
  if (!record.reference) {
    if (record.kind != OpKind::symbolic)
      fail_unsupported("K0602", str(node.target, " has no reference evaluation"), node.where());
    std::vector<Datum> out;
    for (const Value* result : node.results) out.push_back(evaluate_expr(result->expr));
    return out;
  }
  ReferenceCall call(node, record.schema);
  call.fp64 = options_.fp64;
  call.seed = mix_seed(seed_, position);
  OpCall access(node, record.schema);
  for (const SchemaArg& declared : record.schema.args)
    call.values[declared.name] = evaluate_argument(access.arg(declared.name));
  record.reference(call);
  lay_out(node, call.results);
  return std::move(call.results);
}

// Which of several dense layouts a new tensor has is the choice of eager's kernel (attention gives heads inside
// positions, a composite may leave a transposed product), and the graph knows it. Views and written arguments keep
// their storage.
void GraphRun::lay_out(const Node& node, std::vector<Datum>& results) const {
  for (size_t i = 0; i < results.size() && i < node.results.size(); ++i) {
    if (!results[i].is_tensor() || node.results[i]->kind != ValueKind::tensor) continue;
    const Tensor& tensor = results[i].tensor();
    const std::vector<Expr>& said = node.results[i]->type.strides;
    if (!tensor.defined() || tensor.storage.use_count() != 1 || said.size() != tensor.sizes.size()) continue;
    std::vector<int64_t> strides;
    bool same = true;
    for (size_t d = 0; d < said.size(); ++d) {
      std::set<std::string> names;
      collect_symbols(said[d], names);
      for (const std::string& name : names)
        if (!symbols_.contains(name)) return;
      strides.push_back(evaluate(said[d], symbols_));
      same = same && (tensor.sizes[d] <= 1 || strides[d] == tensor.strides[d]);
    }
    if (same || tensor.numel() <= 1 || !dense_and_not_overlapping(tensor.sizes, strides)) continue;
    Tensor out = Tensor::empty_strided(tensor.dtype, tensor.sizes, strides);
    out.device = tensor.device;
    copy_into(tensor, out);
    results[i] = Datum{std::move(out)};
  }
}

std::vector<Datum> GraphRun::run_custom(const Node& node) {
  if (!options_.custom) fail_unsupported("K0200", str("operator ", node.target, " is not known"), node.where());
  const CustomUpdates updates = custom_updates(node);
  std::map<std::string, Datum, std::less<>> args, given;
  for (size_t i = 0; i < node.args.size(); ++i) {
    const auto& named = node.args[i];
    if (is_custom_note(named.name)) continue;
    const std::string name = named.name.empty() ? str(i) : named.name;
    given[name] = evaluate_argument(named.arg);
    const bool renewed = std::find(updates.names.begin(), updates.names.end(), name) != updates.names.end();
    if (renewed) given[name] = own_copies(given[name]);
    args[name] = options_.fp64 ? to_nominal(named.arg, given[name]) : given[name];
  }
  for (const auto& [name, of] : updates.same) args[name] = args[of];
  std::vector<Datum> results = options_.custom(node, args);
  if (options_.fp64) {
    for (Datum& result : results) result = to_wide(result);
    for (const auto& names : {custom_writes(node), updates.names})
      for (const std::string& name : names) copy_back(args[name], given[name]);
  }
  for (const std::string& name : updates.names) add_tensors(given[name], results);
  return results;
}

}  // namespace kiln
