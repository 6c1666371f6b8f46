#include "schedule/mm_template.h"

#include "loop_passes/rewrite.h"

namespace kiln::loops {
namespace {

MmAnswer no(std::string reason) { return {false, std::move(reason), {}}; }

const Stmt* find_sum(const Body& body) {
  const Stmt* found = nullptr;
  for (const Stmt& stmt : body)
    if (stmt.kind == StmtKind::loop && stmt.loop->role == AxisRole::reduce) {
      if (found) return nullptr;
      found = &stmt;
    }
  return found;
}

// Which of the variables each value of the reduction's body depends on.
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
  bool depends(const Stmt& stmt, const std::string& var) const { return depends(stmt.results.at(0), var); }

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

MmAnswer match_mm(Kernel& kernel, const LoopProgram&, const RangeEnv&) {
  MmNest nest;
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
  nest.n = chain.back();
  nest.m = chain[chain.size() - 2];
  nest.batch.assign(chain.begin(), chain.end() - 2);
  if (kernel.body.size() != 1) return no("statements beside the outermost loop");
  // What follows the n loop in the m loop is the row part; nothing may follow the loops further out: items are tiles of
  // rows, and what comes after all rows needs all of them.
  for (size_t i = 0; i < nest.batch.size(); ++i) {
    const Stmt& last = nest.batch[i]->body.back();
    if (last.kind != StmtKind::loop || last.loop.get() != chain[i + 1]) return no("statements after an outer loop");
  }
  const Stmt* sum = find_sum(nest.n->body);
  if (!sum) return no("no single reduction in the innermost parallel loop");
  nest.k = const_cast<Stmt*>(sum);
  const Loop& k = *sum->loop;
  if (k.reduce != ReduceOp::sum) return no("the reduction is not a sum");
  if (k.reduce_dtype != DType::f32 && k.reduce_dtype != DType::f64) return no("the sum is not of f32 or f64");
  for (const Stmt& stmt : k.body)
    if (stmt.kind == StmtKind::loop || stmt.kind == StmtKind::store || stmt.kind == StmtKind::raise_if)
      return no("the reduction's body is not straight-line");
  for (const Stmt& stmt : nest.n->body)
    if (stmt.kind == StmtKind::loop && &stmt != sum) return no("another loop beside the sum");
  const Stmt* product = nullptr;
  for (const Stmt& stmt : k.body)
    if (stmt.results.size() == 1 && stmt.results[0] == k.yields[0]) product = &stmt;
  if (!product || product->kind != StmtKind::op || product->op != ScalarOp::mul)
    return no("the sum is not over a product");
  std::vector<const Body*> bodies;
  for (const Loop* loop : nest.batch) bodies.push_back(&loop->body);
  bodies.insert(bodies.end(), {&nest.m->body, &nest.n->body, &k.body});
  Dependence uses(bodies);
  std::string mv = nest.m->var, nv = nest.n->var;
  ValueId x = product->args[0], y = product->args[1];
  auto depends = [&](ValueId v, const std::string& var) { return uses.depends(v, var); };
  if (depends(x, nv) && !depends(y, nv)) std::swap(x, y);
  if (depends(x, nv)) return no("both factors depend on the columns");
  if (depends(y, mv)) return no("the factor that varies with the columns varies with the rows too");
  if (!depends(y, nv)) return no("no factor varies with the columns");
  nest.a = x;
  nest.b = y;
  for (Stmt& stmt : nest.k->loop->body) {
    if (&stmt == product) continue;
    bool on_m = uses.depends(stmt, mv), on_n = uses.depends(stmt, nv);
    if (on_m && on_n) return no("a statement of the product depends on rows and columns");
    (on_n ? nest.load_b : on_m ? nest.load_a : nest.shared).push_back(&stmt);
  }
  MmAnswer answer;
  answer.accepted = true;
  answer.nest = nest;
  return answer;
}

}  // namespace kiln::loops
