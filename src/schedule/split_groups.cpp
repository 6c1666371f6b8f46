// A grouped convolution's channels are two axes: the group, and the channel in it. Lowering makes one of them, i1, and
// takes its group as i1 // 32 where it reads the picture. Here the group becomes a loop of its own around the others,
// so that each group is a product as any other (find_contractions sees batches).
#include "loop_passes/rewrite.h"
#include "schedule/contractions.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

constexpr int64_t least_channels = 8;  // of a group: fewer make no product (product_template.cpp)

// The divisors by which the variable is divided in an expression.
void divisors_of(const Expr& e, const std::string& var, std::set<int64_t>& found) {
  if (e.op() == ExprOp::constant || e.op() == ExprOp::symbol || e.op() == ExprOp::float_constant) return;
  if ((e.op() == ExprOp::floordiv || e.op() == ExprOp::mod) && mentions(e, var)) {
    const bool plain = e.args()[0].is_symbol() && e.args()[1].is_constant();
    found.insert(plain ? e.args()[1].value() : -1);
    return;
  }
  for (const Expr& arg : e.args()) divisors_of(arg, var, found);
}

int64_t terms_of(const Body& body) {
  int64_t terms = 1;
  for (const Stmt& stmt : body)
    if (stmt.loop)
      terms = std::max(terms, (stmt.loop->extent.is_constant() ? stmt.loop->extent.value() : most_point_terms + 1) *
                                  std::min(terms_of(stmt.loop->body), most_point_terms + 1));
  return terms;
}

bool split(Kernel& kernel, const LoopProgram& program, const Target& target) {
  if (kernel.body.size() != 1) return false;
  std::vector<Loop*> chain;
  for (Body* body = &kernel.body;;) {
    const auto loop = std::find_if(body->begin(), body->end(), [](const Stmt& stmt) { return stmt.loop != nullptr; });
    if (loop == body->end() || loop->loop->role != AxisRole::parallel) break;
    if (loop + 1 != body->end()) return false;  // what follows wants all channels
    for (auto before = body->begin(); before != loop; ++before)
      if (before->kind != StmtKind::op && before->kind != StmtKind::constant && before->kind != StmtKind::index_value &&
          before->kind != StmtKind::load)
        return false;
    chain.push_back(loop->loop.get());
    body = &loop->loop->body;
  }
  if (chain.size() < 2) return false;
  Loop& channels = *chain.back();
  if (!channels.extent.is_constant()) return false;
  bool sums = false;
  std::set<int64_t> divisors;
  for_each_stmt(channels.body, [&](const Stmt& stmt) {
    sums |= stmt.loop && stmt.loop->role == AxisRole::reduce && stmt.loop->reduce == ReduceOp::sum;
    for (const Expr& e : stmt.index) divisors_of(e, channels.var, divisors);
    divisors_of(stmt.expr, channels.var, divisors);
  });
  if (!sums || divisors.size() != 1) return false;
  const int64_t all = channels.extent.value(), each = *divisors.begin();
  if (each < least_channels || all <= each || all % each != 0) return false;
  // Several groups side by side fill a vector (take_points), where there are few terms.
  if (each < target.lanes && target.lanes % each == 0 && terms_of(channels.body) <= most_point_terms) return false;

  const std::set<std::string> used = variables_of(kernel);
  int number = 0;
  while (used.count(str("g", number))) ++number;
  Stmt groups = loop_stmt(str("g", number), Expr(all / each));
  const Substitution map{{channels.var, Expr::symbol(groups.loop->var) * each + Expr::symbol(channels.var)}};
  channels.extent = Expr(each);
  RangeEnv env = kernel_ranges(kernel, program);
  env.ranges[groups.loop->var] = {0, all / each - 1};
  for_each_stmt(channels.body, [&](Stmt& stmt) {
    for (Expr& e : stmt.index) e = simplify(substitute(e, map), env);
    stmt.expr = simplify(substitute(stmt.expr, map), env);
  });
  rename_in_names(kernel, map);
  groups.loop->body = std::move(kernel.body);
  kernel.body.clear();
  kernel.body.push_back(std::move(groups));
  return true;
}

// On a GPU: heads of a decoder's step that share their keys (queries in groups). Each has one row, and their number in
// the group is the row of a product; it becomes a loop of its own inside of the groups.
bool split_rows(Kernel& kernel, const LoopProgram& program) {
  Loop* heads = nullptr;
  int64_t each = 0;
  for (Body* body = &kernel.body; !heads;) {
    const auto loop = std::find_if(body->begin(), body->end(), [](const Stmt& stmt) { return stmt.loop != nullptr; });
    if (loop == body->end() || loop + 1 != body->end() || loop->loop->role != AxisRole::parallel) return false;
    std::set<int64_t> divisors;
    for_each_stmt(loop->loop->body, [&](const Stmt& stmt) {
      for (const Expr& e : stmt.index) divisors_of(e, loop->loop->var, divisors);
      divisors_of(stmt.expr, loop->loop->var, divisors);
    });
    body = &loop->loop->body;
    if (divisors.empty()) continue;
    if (divisors.size() > 1 || !loop->loop->extent.is_constant()) return false;
    heads = loop->loop.get(), each = *divisors.begin();
  }
  if (each < 2 || heads->extent.value() % each != 0 || heads->extent.value() == each) return false;
  bool narrow = false;
  for_each_stmt(heads->body, [&](const Stmt& stmt) {
    if (!stmt.loop || stmt.loop->role != AxisRole::reduce || stmt.loop->reduce != ReduceOp::sum) return;
    for (const Stmt& inner : stmt.loop->body)
      narrow |= inner.kind == StmtKind::load && (inner.dtype == DType::bf16 || inner.dtype == DType::f16);
  });
  Kernel as_it_is = kernel.clone();
  if (!narrow || recognise_contraction(as_it_is, program).contraction) return false;

  const Kernel before = kernel.clone();
  const std::set<std::string> used = variables_of(kernel);
  int number = 0;
  while (used.count(str("i", number)) || dtype_from_name(str("i", number))) ++number;
  const int64_t all = heads->extent.value();
  Stmt rows = loop_stmt(str("i", number), Expr(each));
  const std::string group = heads->var;
  const Substitution map{{group, Expr::symbol(group) * each + Expr::symbol(rows.loop->var)}};
  heads->extent = Expr(all / each);
  rows.loop->body = std::move(heads->body);
  heads->body.clear();
  heads->body.push_back(std::move(rows));
  RangeEnv env = kernel_ranges(kernel, program);
  for_each_stmt(heads->body, [&](Stmt& stmt) {
    for (Expr& e : stmt.index) e = simplify(substitute(e, map), env);
    stmt.expr = simplify(substitute(stmt.expr, map), env);
    if (stmt.loop) stmt.loop->extent = simplify(substitute(stmt.loop->extent, map), env);
  });
  rename_in_names(kernel, map);
  Kernel divided = kernel.clone();
  if (recognise_contraction(divided, program).contraction) return true;
  kernel = before.clone();
  return false;
}

}  // namespace

bool split_groups(LoopProgram& program, const Target& target, Log& log) {
  bool changed = false;
  if (!target.is_gpu() && target.lanes == 1) return changed;
  for_each_item(program.block, [&](Item& item) {
    auto* kernel = std::get_if<Kernel>(&item.what);
    if (!kernel || kernel->schedule) return;
    if (!(target.is_gpu() ? split_rows(*kernel, program) : split(*kernel, program, target))) return;
    changed = true;
    const char* what = target.is_gpu() ? "split the heads of" : "split the channels of";
    log.add([&] { return Decision{what, kernel->name, "", "", "a loop over its groups", true, ""}; });
  });
  return changed;
}

}  // namespace kiln::loops
