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

FoundContraction recognise_contraction(Kernel& kernel) {
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
  Stmt* sum = only_reduction(columns.body);
  if (!sum) return no("no single reduction in the innermost parallel loop");
  Loop& k = *sum->loop;
  if (k.reduce != ReduceOp::sum) return no("the reduction is not a sum");
  if (k.reduce_dtype != DType::f32 && k.reduce_dtype != DType::f64) return no("the sum is not of f32 or f64");
  for (const Stmt& stmt : k.body)
    if (stmt.kind == StmtKind::loop || stmt.kind == StmtKind::store || stmt.kind == StmtKind::raise_if)
      return no("the reduction's body is not straight-line");
  for (const Stmt& stmt : columns.body)
    if (stmt.kind == StmtKind::loop && &stmt != sum) return no("another loop beside the sum");
  auto product = std::find_if(k.body.begin(), k.body.end(), [&](const Stmt& stmt) {
    return stmt.results.size() == 1 && stmt.results[0] == k.yields[0];
  });
  if (product == k.body.end() || product->kind != StmtKind::op || product->op != ScalarOp::mul)
    return no("the sum is not over a product");
  std::vector<const Body*> bodies;
  for (const Loop* loop : chain) bodies.push_back(&loop->body);
  bodies.push_back(&k.body);
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
  for (auto stmt = k.body.begin(); stmt + 1 != k.body.end(); ++stmt) {
    const ValueId made = stmt->results.at(0);
    const bool on_rows = uses.depends(made, rows.var), on_columns = uses.depends(made, columns.var);
    if (on_rows && on_columns) return no("a statement of the product depends on rows and columns");
    (on_columns ? found.right_values : on_rows ? found.left_values : found.shared_values).push_back(made);
  }
  for (size_t i = 0; i + 2 < chain.size(); ++i) found.batch.push_back(chain[i]->var);
  found.rows = {rows.var};
  found.columns = {columns.var};
  found.sums = {k.var};
  return {std::move(found), ""};
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
    FoundContraction found = recognise_contraction(*kernel);
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
