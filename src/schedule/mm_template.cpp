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

bool parallel(const Stmt& stmt) { return stmt.kind == StmtKind::loop && stmt.loop->role == AxisRole::parallel; }

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
  Body* body = &kernel.body;
  while (true) {
    if (body->size() < 1) return no("empty");
    size_t loops = 0;
    for (const Stmt& stmt : *body) loops += stmt.kind == StmtKind::loop;
    if (!parallel(body->front()) || (loops > 1 && nest.n == nullptr && nest.m == nullptr && body == &kernel.body)) break;
    Loop* loop = body->front().loop.get();
    if (nest.n) {
      if (nest.m) nest.batch.push_back(nest.m);
      nest.m = nest.n;
    }
    nest.n = loop;
    // Whatever follows the n loop in the m loop's body is the row part; it is only allowed around the innermost loop.
    if (body->size() > 1 && find_sum(loop->body) == nullptr) return no("statements beside an outer loop");
    body = &loop->body;
    if (find_sum(*body)) break;
  }
  if (!nest.n || !nest.m) return no("fewer than two parallel loops around the sum");
  const Stmt* sum = find_sum(nest.n->body);
  if (!sum) return no("no single reduction in the innermost parallel loop");
  nest.k = const_cast<Stmt*>(sum);
  const Loop& k = *sum->loop;
  if (k.reduce != ReduceOp::sum) return no("the reduction is not a sum");
  if (k.reduce_dtype != DType::f32 && k.reduce_dtype != DType::f64) return no("the sum is not of f32 or f64");
  for (const Stmt& stmt : k.body)
    if (stmt.kind == StmtKind::loop || stmt.kind == StmtKind::store || stmt.kind == StmtKind::raise_if) return no("the reduction's body is not straight-line");
  for (const Stmt& stmt : nest.n->body)
    if (stmt.kind == StmtKind::loop && &stmt != sum) return no("another loop beside the sum");
  for (const Loop* loop : nest.batch)
    if (loop->body.size() != 1) return no("statements between the batch loops");
  const Stmt* product = nullptr;
  for (const Stmt& stmt : k.body)
    if (stmt.results.size() == 1 && stmt.results[0] == k.yields[0]) product = &stmt;
  if (!product || product->kind != StmtKind::op || product->op != ScalarOp::mul) return no("the sum is not over a product");
  Dependence uses({&nest.m->body, &nest.n->body, &k.body});
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
