#include "debug/operator_values.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "loops/index_code.h"

namespace kiln {
namespace {

constexpr int64_t most_visits = int64_t{1} << 24;  // of a larger value only some rows are looked at

// A buffer of a branch or a loop's body may have got a number behind its name.
std::string without_number(const std::string& name) {
  const size_t digits = name.find_last_not_of("0123456789");
  const bool numbered = digits != std::string::npos && digits + 1 < name.size() && name[digits] == '_';
  return numbered ? name.substr(0, digits) : name;
}

// A statement's values by the variables of the loops around it.
class Lookup {
 public:
  Lookup(const ExposedValue& exposed, loops::SlotTable& slots) : values_(exposed.values) {
    int64_t stride = 1;
    steps_.resize(exposed.vars.size());
    for (size_t i = exposed.vars.size(); i-- > 0; stride *= std::max<int64_t>(1, values_.sizes[i]))
      steps_[i] = {slots.slot(exposed.vars[i]), stride};
  }
  Scalar at(const int64_t* slots) const {
    int64_t linear = 0;
    for (const auto& [slot, stride] : steps_) linear += slots[slot] * stride;
    return values_.item(linear);
  }

 private:
  const Tensor& values_;
  std::vector<std::pair<int, int64_t>> steps_;
};

double distance(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : INFINITY;
  return a == b ? 0 : std::abs(a - b);
}

}  // namespace

OperatorValues::OperatorValues(const loops::Kernel& kernel, const SymbolValues& symbols, const Exposed& exposed,
                               const GraphTruth& graph, std::set<std::string> loaded)
    : kernel_(kernel), symbols_(symbols), exposed_(exposed), graph_(graph), loaded_(std::move(loaded)) {
  loops::for_each_stmt(kernel.body, [&](const loops::Stmt& stmt) {
    if (stmt.loop) extents_[stmt.loop->var] = stmt.loop->extent;
    if (stmt.kind == loops::StmtKind::check_index) checked_indices_[stmt.index_var] = stmt.results[0];
    for (loops::ValueId v : stmt.results) made_by_[v] = &stmt;
  });
}

bool OperatorValues::names(const loops::NamedValue& named, const TruthNode& node) const {
  if (named.name == node.value->name) return true;
  return !graph_.has(named.name) && without_number(named.name) == node.value->name;
}

bool OperatorValues::unused(const TruthNode& node) const {
  if (loaded_.count(node.value->name)) return false;
  std::set<loops::ValueId> known;
  for (const loops::NamedValue& named : kernel_.named) {
    if (names(named, node)) return false;
    known.insert(named.value);
  }
  // What is stored without a name is a part of something, perhaps of this.
  bool nameless = false;
  loops::for_each_stmt(kernel_.body, [&](const loops::Stmt& stmt) {
    nameless |= stmt.kind == loops::StmtKind::store && !known.count(stmt.args[0]);
  });
  return !nameless;
}

std::vector<OperatorValue> OperatorValues::of(const TruthNode& node) const {
  std::vector<OperatorValue> out;
  for (const loops::NamedValue& named : kernel_.named)
    if (names(named, node))
      if (auto value = gather(named, node)) out.push_back(std::move(*value));
  return out;
}

bool OperatorValues::only_moves(const TruthNode& node) const {
  bool any = false;
  for (const loops::NamedValue& named : kernel_.named) {
    if (!names(named, node)) continue;
    const auto made = made_by_.find(named.value);
    if (made == made_by_.end() || made->second->kind != loops::StmtKind::load) return false;
    any = true;
  }
  return any;
}

std::optional<OperatorValue> OperatorValues::gather(const loops::NamedValue& named, const TruthNode& node) const {
  const auto found = exposed_.values.find(named.value);
  const std::vector<int64_t>& sizes = node.truth.sizes;
  if (found == exposed_.values.end() || named.index.size() != sizes.size() || is_complex(node.value->type.dtype))
    return std::nullopt;
  loops::SlotTable slots;
  std::vector<std::string> vars = found->second.vars;
  const auto add_vars = [&](const std::vector<std::string>& more) {
    for (const std::string& var : more)
      if (std::find(vars.begin(), vars.end(), var) == vars.end()) vars.push_back(var);
  };
  // The place may depend on loops inside of which the value is the same, and on indices found in data.
  std::set<std::string> symbols;
  for (const Expr& e : named.index) collect_symbols(e, symbols);
  std::vector<std::pair<int, Lookup>> found_indices;
  for (const std::string& symbol : symbols) {
    if (extents_.count(symbol)) add_vars({symbol});
    const auto checked = checked_indices_.find(symbol);
    if (checked == checked_indices_.end()) continue;
    const auto values = exposed_.values.find(checked->second);
    if (values == exposed_.values.end()) return std::nullopt;
    add_vars(values->second.vars);
    found_indices.emplace_back(slots.slot(symbol), Lookup(values->second, slots));
  }
  std::optional<Lookup> mask;
  if (named.mask != loops::no_value) {
    const auto values = exposed_.values.find(named.mask);
    if (values == exposed_.values.end()) return std::nullopt;
    add_vars(values->second.vars);
    mask.emplace(values->second, slots);
  }
  const Lookup lookup(found->second, slots);
  std::vector<loops::IndexCode> index, extents;
  for (const Expr& e : named.index) index.emplace_back(e, slots);
  for (const std::string& var : vars) {
    if (!extents_.count(var)) return std::nullopt;
    slots.slot(var);
    extents.emplace_back(extents_.at(var), slots);
  }
  std::vector<int64_t> at(slots.size(), 0);
  for (size_t s = 0; s < slots.size(); ++s)
    if (const auto symbol = symbols_.find(slots.name(static_cast<int>(s))); symbol != symbols_.end())
      at[s] = symbol->second;

  OperatorValue out;
  const DType dtype = node.value->type.dtype;
  out.values = Tensor::empty(dtype, sizes);
  const Tensor& like = node.nominal.defined() ? node.nominal : node.truth;
  std::vector<bool> seen(static_cast<size_t>(out.values.numel()), false);
  for (int64_t i = 0; i < out.values.numel(); ++i) out.values.set_item(i, like.item(i));
  const auto visit = [&] {
    for (const auto& [slot, values] : found_indices) at[static_cast<size_t>(slot)] = values.at(at.data()).as_int();
    if (mask && !mask->at(at.data()).as_int()) return;
    int64_t linear = 0;
    for (size_t d = 0; d < sizes.size(); ++d) {
      const int64_t i = index[d].evaluate(at.data());
      if (i < 0 || i >= sizes[d]) return;
      linear = linear * sizes[d] + i;
    }
    // Computed several times: the worst of them counts.
    const Scalar value = lookup.at(at.data());
    if (const auto place = static_cast<size_t>(linear); seen[place]) {
      const double truth = node.truth.item(linear).as_double();
      if (distance(value.as_double(), truth) <= distance(out.values.item(linear).as_double(), truth)) return;
    } else {
      seen[place] = true;
    }
    out.values.set_item(linear, value);
  };
  double visits = 1;
  for (const loops::IndexCode& extent : extents) visits *= static_cast<double>(extent.evaluate(at.data()));
  const int64_t stride = 1 + static_cast<int64_t>(visits / static_cast<double>(most_visits));
  const std::function<void(size_t)> walk = [&](size_t depth) {
    if (depth == vars.size()) return visit();
    const auto slot = static_cast<size_t>(slots.slot(vars[depth]));
    const int64_t extent = extents[depth].evaluate(at.data());
    for (int64_t i = 0; i < extent; i += depth == 0 ? stride : 1) {
      at[slot] = i;
      walk(depth + 1);
    }
    at[slot] = 0;
  };
  walk(0);
  out.everything = std::find(seen.begin(), seen.end(), false) == seen.end();
  if (std::find(seen.begin(), seen.end(), true) == seen.end() && !seen.empty()) return std::nullopt;
  return out;
}

namespace {

class Verdict {
 public:
  explicit Verdict(const VerdictRequest& request) : r_(request), nodes_(request.truth.nodes) {
    for (const TruthNode& node : nodes_) states_.push_back(look_at(node));
  }

  OperatorVerdict find() {
    OperatorVerdict out;
    for (size_t n = 0; n < nodes_.size() && !out.first; ++n) {
      if (!states_[n].difference || explained(n)) continue;
      out.first = &nodes_[n];
      out.text = states_[n].difference->text();
      out.candidates = with_unseen(n);
    }
    if (out.first) return out;
    // Every value is right, and what is in memory is not: it is stored wrongly.
    for (size_t n = 0; n < nodes_.size(); ++n)
      if (nodes_[n].wanted) out.first = &nodes_[n], out.candidates = with_unseen(n);
    return out;
  }

 private:
  struct State {
    bool seen = false;
    std::optional<Difference> difference;
    Tensor values;  // all of them; undefined: not all were computed
  };

  State look_at(const TruthNode& node) const {
    State state;
    for (const OperatorValue& value : r_.values.of(node)) {
      state.seen = true;
      auto difference = find_difference(value.values, node.truth, node.nominal, r_.tolerance);
      if (difference && !state.difference) state.difference = difference, state.values = {};
      if (value.everything && (!state.values.defined() || difference)) state.values = value.values;
    }
    if (const auto stored = r_.stored.find(node.name); !state.seen && stored != r_.stored.end()) {
      state.seen = true;
      state.difference = find_difference(stored->second, node.truth, node.nominal, r_.tolerance);
      state.values = stored->second;
    }
    return state;
  }

  std::vector<size_t> operands(size_t n) const {
    std::vector<size_t> out;
    for (const auto& named : nodes_[n].node->args)
      for_each_value(named.arg, [&](Value* value) {
        for (size_t p = 0; p < nodes_.size(); ++p)
          if (value && nodes_[p].value == value) out.push_back(p);
      });
    return out;
  }

  // Right, given the values that it was really computed from: these were a little off, as rounding makes them.
  bool explained(size_t n) const {
    std::map<std::string, Tensor> had;
    for (size_t p : operands(n)) {
      if (!states_[p].values.defined()) return false;
      had[nodes_[p].name] = states_[p].values;
    }
    if (had.empty() || !states_[n].values.defined()) return false;
    const std::optional<Truth> truth = r_.given(nodes_[n], had);
    return truth && truth->fp64.sizes == states_[n].values.sizes &&
           !find_difference(states_[n].values, truth->fp64, truth->nominal, r_.tolerance);
  }

  // Operators before it whose values cannot be looked at may have made its value wrong.
  std::vector<const TruthNode*> with_unseen(size_t n) const {
    std::set<size_t> unseen, visited;
    std::vector<size_t> open = operands(n);
    while (!open.empty()) {
      const size_t at = open.back();
      open.pop_back();
      if (states_[at].seen || !visited.insert(at).second || r_.values.unused(nodes_[at])) continue;
      if (!(r_.loops_are_right && r_.values.only_moves(nodes_[at]))) unseen.insert(at);
      for (size_t p : operands(at)) open.push_back(p);
    }
    std::vector<const TruthNode*> out;
    if (unseen.empty()) return out;
    for (size_t u : unseen) out.push_back(&nodes_[u]);
    out.push_back(&nodes_[n]);
    return out;
  }

  const VerdictRequest& r_;
  const std::vector<TruthNode>& nodes_;
  std::vector<State> states_;
};

}  // namespace

OperatorVerdict first_wrong_operator(const VerdictRequest& request) { return Verdict(request).find(); }

}  // namespace kiln
