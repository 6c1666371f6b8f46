#include "loop_passes/rewrite.h"
#include "schedule/contractions.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

FoundContraction no(std::string reason) { return {std::nullopt, std::move(reason)}; }

Stmt* only_reduction(Body& body) {
  Stmt* found = nullptr;
  for (Stmt& stmt : body)
    if (stmt.kind == StmtKind::loop && stmt.loop->role == AxisRole::reduce) {
      if (found) return nullptr;
      found = &stmt;
    }
  return found;
}

// Which of the variables each value of the nest depends on.
class Dependence {
 public:
  // Bodies from the outside in: what was hoisted out of the innermost one keeps its dependence.
  explicit Dependence(const std::vector<const Body*>& bodies) {
    for (const Body* body : bodies) add(*body);
  }
  bool depends(ValueId v, const std::string& var) const {
    auto found = by_value_.find(v);
    return found != by_value_.end() && found->second.count(var);
  }

 private:
  void add(const Body& body) {
    for (const Stmt& stmt : body) {
      if (stmt.kind == StmtKind::loop) continue;
      std::set<std::string> uses;
      for (const Expr& e : stmt.index) add_symbols(e, uses);
      add_symbols(stmt.expr, uses);
      for (ValueId v : stmt.args) add_value(v, uses);
      if (stmt.mask != no_value) add_value(stmt.mask, uses);
      if (stmt.kind == StmtKind::check_index) by_variable_[stmt.index_var] = uses;
      for (ValueId v : stmt.results) by_value_[v] = uses;
    }
  }
  void add_symbols(const Expr& e, std::set<std::string>& uses) const {
    std::set<std::string> symbols;
    collect_symbols(e, symbols);
    for (const std::string& s : symbols) {
      uses.insert(s);
      auto found = by_variable_.find(s);
      if (found != by_variable_.end()) uses.insert(found->second.begin(), found->second.end());
    }
  }
  void add_value(ValueId v, std::set<std::string>& uses) const {
    auto found = by_value_.find(v);
    if (found != by_value_.end()) uses.insert(found->second.begin(), found->second.end());
  }
  std::map<ValueId, std::set<std::string>> by_value_;
  std::map<std::string, std::set<std::string>> by_variable_;
};

}  // namespace

namespace {

// The nested sums from `outer` in: each but the innermost yields just what the next one sums up. Empty: they are not
// that.
std::vector<Stmt*> nested_sums(Stmt& outer, std::string& why) {
  std::vector<Stmt*> sums;
  for (Stmt* stmt = &outer; stmt;) {
    Loop& loop = *stmt->loop;
    if (loop.reduce != ReduceOp::sum) return why = "the reduction is not a sum", std::vector<Stmt*>();
    if (loop.reduce_dtype != DType::f32 && loop.reduce_dtype != DType::f64 && loop.reduce_dtype != DType::i32 &&
        loop.reduce_dtype != DType::i64)
      return why = "the sum is not of f32, f64, i32 or i64", std::vector<Stmt*>();
    sums.push_back(stmt);
    Stmt* inner = nullptr;
    for (Stmt& s : loop.body) {
      if (s.kind == StmtKind::store || s.kind == StmtKind::raise_if || (s.kind == StmtKind::loop && inner))
        return why = "the reduction's body is not straight-line", std::vector<Stmt*>();
      if (s.kind == StmtKind::loop) inner = &s;
    }
    if (inner && (inner->loop->role != AxisRole::reduce || inner->results != loop.yields ||
                  inner->loop->reduce_dtype != loop.reduce_dtype || &loop.body.back() != inner))
      return why = "the reduction's body is not straight-line", std::vector<Stmt*>();
    stmt = inner;
  }
  return sums;
}

// Runs the nested sums in another order (`order`: which of them stands at each depth). What their bodies compute goes
// into the innermost one, and out again as far as it can.
void reorder(std::vector<Stmt*>& sums, const std::vector<size_t>& order, const LoopProgram& program) {
  struct Axis {
    std::string var;
    Expr extent;
  };
  std::vector<Axis> axes;
  Body all;
  for (Stmt* stmt : sums) {
    axes.push_back({stmt->loop->var, stmt->loop->extent});
    for (Stmt& s : stmt->loop->body)
      if (s.kind != StmtKind::loop) all.push_back(std::move(s));
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    Loop& loop = *sums[i]->loop;
    std::erase_if(loop.body, [](const Stmt& s) { return s.kind != StmtKind::loop; });
    if (i + 1 < sums.size()) sums[i + 1] = &loop.body.front();
    loop.var = axes[order[i]].var;
    loop.extent = axes[order[i]].extent;
  }
  sums.back()->loop->body = std::move(all);
  hoist_invariants(sums.front()->loop->body, program);
  // Statements in front of an inner sum have moved it.
  for (size_t i = 1; i < sums.size(); ++i)
    for (Stmt& s : sums[i - 1]->loop->body)
      if (s.kind == StmtKind::loop) sums[i] = &s;
}

// Where masks change (a window at the border) further out, then by how far the left factor's elements are apart: the
// innermost sum reads neighbours, under a mask that stays.
std::vector<size_t> best_order(const std::vector<Stmt*>& sums, const Contraction& found, const Dependence& uses,
                               const Kernel& kernel, const LoopProgram& program) {
  const RangeEnv env = kernel_ranges(kernel, program);
  std::vector<std::pair<int64_t, size_t>> keys;
  for (size_t i = 0; i < sums.size(); ++i) {
    const std::string& var = sums[i]->loop->var;
    int64_t key = 0;
    for (const Stmt* stmt : sums)
      for (const Stmt& s : stmt->loop->body) {
        if (s.kind != StmtKind::load) continue;
        if (s.mask != no_value && uses.depends(s.mask, var)) key = INT64_MAX;
        if (!uses.depends(s.results[0], found.rows.back())) continue;
        const auto along = affine_in(address_of(s, program, env), var);
        if (!along || !along->coefficient.is_constant())
          key = std::max(key, INT64_MAX - 1);
        else
          key = std::max(key, std::abs(along->coefficient.value()));
      }
    keys.push_back({key, i});
  }
  std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<size_t> order;
  for (const auto& [key, i] : keys) order.push_back(i);
  return order;
}

}  // namespace

FoundContraction recognise_contraction(Kernel& kernel, const LoopProgram& program) {
  // The chain of parallel loops: in each body the first loop. Pure statements may stand in front of it.
  std::vector<Loop*> chain;
  for (Body* body = &kernel.body;;) {
    auto loop = std::find_if(body->begin(), body->end(), [](const Stmt& stmt) { return stmt.kind == StmtKind::loop; });
    if (loop == body->end() || loop->loop->role != AxisRole::parallel) break;
    for (auto before = body->begin(); before != loop; ++before)
      if (before->kind == StmtKind::store || before->kind == StmtKind::raise_if)
        return no("a store in front of a loop");
    chain.push_back(loop->loop.get());
    body = &loop->loop->body;
  }
  if (chain.size() < 2) return no("fewer than two parallel loops around the sum");
  Loop &columns = *chain.back(), &rows = *chain[chain.size() - 2];
  if (kernel.body.size() != 1) return no("statements beside the outermost loop");
  // What follows the columns in the rows is the row part; nothing may follow the loops further out: items are tiles of
  // rows, and what comes after all rows needs all of them.
  for (size_t i = 0; i + 2 < chain.size(); ++i) {
    const Stmt& last = chain[i]->body.back();
    if (last.kind != StmtKind::loop || last.loop.get() != chain[i + 1]) return no("statements after an outer loop");
  }
  Stmt* outer = only_reduction(columns.body);
  if (!outer) return no("no single reduction in the innermost parallel loop");
  for (const Stmt& stmt : columns.body)
    if (stmt.kind == StmtKind::loop && &stmt != outer) return no("another loop beside the sum");
  std::string why;
  std::vector<Stmt*> sums = nested_sums(*outer, why);
  if (sums.empty()) return no(why);
  for (size_t i = 0; i < chain.size() + sums.size(); ++i)
    for (const Loop* loop : chain)
      if (mentions(i < chain.size() ? chain[i]->extent : sums[i - chain.size()]->loop->extent, loop->var))
        return no("a loop whose length depends on another one");
  Loop& k = *sums.back()->loop;
  auto find_product = [&](Body& body) {
    return std::find_if(body.begin(), body.end(),
                        [&](const Stmt& stmt) { return stmt.results.size() == 1 && stmt.results[0] == k.yields[0]; });
  };
  auto product = find_product(k.body);
  if (product == k.body.end() || product->kind != StmtKind::op || product->op != ScalarOp::mul)
    return no("the sum is not over a product");
  std::vector<const Body*> bodies;
  for (const Loop* loop : chain) bodies.push_back(&loop->body);
  for (const Stmt* sum : sums) bodies.push_back(&sum->loop->body);
  const Dependence uses(bodies);
  Contraction found;
  found.left = product->args[0], found.right = product->args[1];
  if (uses.depends(found.left, columns.var) && !uses.depends(found.right, columns.var))
    std::swap(found.left, found.right);
  if (uses.depends(found.left, columns.var)) return no("both factors depend on the columns");
  if (uses.depends(found.right, rows.var))
    return no("the factor that varies with the columns varies with the rows too");
  if (!uses.depends(found.right, columns.var)) return no("no factor varies with the columns");
  std::rotate(product, product + 1, k.body.end());
  // Rows are the loops around that the right factor does not see; the others are batches.
  size_t first_row = chain.size() - 2;
  while (first_row > 0 && !uses.depends(found.right, chain[first_row - 1]->var)) --first_row;
  // Of a single row (row_of_one) all that does not vary with the columns is the row's.
  const bool one_row = first_row == 0 && chain.size() == 2 && rows.extent.is_constant(1);
  auto on_rows = [&](ValueId v) {
    if (one_row && !uses.depends(v, columns.var)) return true;
    for (size_t i = first_row; i + 1 < chain.size(); ++i)
      if (uses.depends(v, chain[i]->var)) return true;
    return false;
  };
  for (const Stmt* sum : sums)
    for (const Stmt& stmt : sum->loop->body) {
      if (stmt.kind == StmtKind::loop || (sum == sums.back() && &stmt == &k.body.back())) continue;
      const ValueId made = stmt.results.at(0);
      const bool on_columns = uses.depends(made, columns.var);
      if (on_rows(made) && on_columns) return no("a statement of the product depends on rows and columns");
      (on_columns ? found.right_values : on_rows(made) ? found.left_values : found.shared_values).push_back(made);
    }
  for (size_t i = 0; i + 1 < chain.size(); ++i) (i < first_row ? found.batch : found.rows).push_back(chain[i]->var);
  found.columns = {columns.var};
  if (sums.size() > 1) reorder(sums, best_order(sums, found, uses, kernel, program), program);
  if (!any_summed_product(*sums.back()->loop)) return no("the product does not change in the innermost sum");
  // What left the sums altogether belongs to the loops around.
  std::set<ValueId> inside;
  for (const Stmt* sum : sums) {
    found.sums.push_back(sum->loop->var);
    for (const Stmt& stmt : sum->loop->body) inside.insert(stmt.results.begin(), stmt.results.end());
  }
  for (auto* list : {&found.left_values, &found.right_values, &found.shared_values})
    std::erase_if(*list, [&](ValueId v) { return !inside.count(v); });
  return {std::move(found), ""};
}

bool straighten_sums(Kernel& kernel, const LoopProgram& program) {
  constexpr int64_t least_neighbours = 8;
  std::vector<const Body*> bodies;
  Stmt* outer = nullptr;
  for (Body* body = &kernel.body; !outer;) {
    const auto loop = std::find_if(body->begin(), body->end(), [](const Stmt& stmt) { return stmt.loop != nullptr; });
    if (loop == body->end()) return false;
    bodies.push_back(body);
    if (loop->loop->role == AxisRole::reduce)
      outer = only_reduction(*body);
    else if (loop->loop->role != AxisRole::parallel || loop->loop->directives != AxisDirectives{})
      return false;
    if (!outer && loop->loop->role == AxisRole::reduce) return false;
    body = &loop->loop->body;
  }
  std::string why;
  const std::vector<Stmt*> found = nested_sums(*outer, why);
  if (found.size() < 2) return false;
  for (const Stmt* sum : found) {
    bodies.push_back(&sum->loop->body);
    if (sum->loop->directives != AxisDirectives{} || sum->loop->only != no_value) return false;
    for (const Stmt* other : found)
      if (mentions(sum->loop->extent, other->loop->var)) return false;
  }
  const Dependence uses(bodies);
  const RangeEnv env = kernel_ranges(kernel, program);
  const auto is_weight = [&](const Stmt& load) {
    const BufferRole role = program.buffers[static_cast<size_t>(load.buffer)].role;
    return role == BufferRole::constant || role == BufferRole::derived;
  };
  std::vector<std::pair<int64_t, size_t>> keys;
  bool neighbours = false;
  for (size_t i = 0; i < found.size(); ++i) {
    const Loop& loop = *found[i]->loop;
    int64_t key = 0;
    for (const Stmt* sum : found)
      for (const Stmt& stmt : sum->loop->body) {
        if (stmt.kind != StmtKind::load) continue;
        if (stmt.mask != no_value && uses.depends(stmt.mask, loop.var)) key = INT64_MAX;
        if (is_weight(stmt)) continue;
        const auto along = affine_in(address_of(stmt, program, env), loop.var);
        key = std::max(
            key, along && along->coefficient.is_constant() ? std::abs(along->coefficient.value()) : INT64_MAX - 1);
      }
    neighbours |= key == 1 && i + 1 < found.size() && estimate(loop.extent, program) >= least_neighbours;
    keys.emplace_back(key, i);
  }
  std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  if (!neighbours || keys.back().first != 1) return false;
  std::vector<size_t> order;
  for (const auto& [key, i] : keys) order.push_back(i);
  std::vector<Stmt*> sums = found;
  reorder(sums, order, program);
  return true;
}

bool find_contractions(LoopProgram& program, Log& log) {
  bool changed = false;
  for_each_item(program.block, [&](Item& item) {
    auto* kernel = std::get_if<Kernel>(&item.what);
    if (!kernel) return;
    bool sums = false;
    for_each_stmt(kernel->body, [&](const Stmt& stmt) {
      sums |= stmt.kind == StmtKind::loop && stmt.loop->role == AxisRole::reduce && stmt.loop->reduce == ReduceOp::sum;
    });
    if (!sums) return;
    FoundContraction found = recognise_contraction(*kernel, program);
    if (!found.contraction) {
      log.add([&] { return Decision{"no contraction in", kernel->name, "", "", found.reason, false, ""}; });
      return;
    }
    kernel->contraction = std::move(found.contraction);
    changed = true;
  });
  return changed;
}

}  // namespace kiln::loops
