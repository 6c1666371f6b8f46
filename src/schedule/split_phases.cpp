// A transposed convolution spreads the picture `stride` apart: a point of the result meets only every stride-th place
// of the window, and lowering masks off the others:
//
//   for i in [2*n] { sum over r in [k] { … load x[(i + 1 - r) // 2] where (i + 1 - r) % 2 == 0 … w[r] } }
//
// The points of one phase p = i % 2 all meet the same places. Here the phases become a loop around the nest, and only
// the places that are met are summed over:
//
//   for p in [2] { for i in [n] { sum over r in [k/2] { … load x[i - r + (p + 1) // 2] … w[2*r + (p + 1) % 2] } } }
//
// so that each phase is a convolution as any other, with weights of its own (find_contractions sees batches).
#include "loop_passes/passes.h"
#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// (point + offset - place) % stride, where the window's terms add nothing unless it is 0.
struct Phases {
  Loop* point = nullptr;
  Loop* place = nullptr;
  ValueId meets = no_value;  // the condition
  int64_t stride = 0, offset = 0;
};

// offset of an expression point + offset - place.
std::optional<int64_t> offset_of(const Expr& e, const std::string& point, const std::string& place) {
  const auto by_point = affine_in(e, point);
  if (!by_point || !by_point->coefficient.is_constant(1)) return {};
  const auto by_place = affine_in(by_point->rest, place);
  if (!by_place || !by_place->coefficient.is_constant(-1) || !by_place->rest.is_constant()) return {};
  return by_place->rest.value();
}

using Definitions = std::map<ValueId, const Stmt*>;

bool follows_from(ValueId mask, ValueId condition, const Definitions& made) {
  if (mask == condition) return true;
  const auto stmt = made.find(mask);
  return stmt != made.end() && stmt->second->kind == StmtKind::op && stmt->second->op == ScalarOp::logical_and &&
         (follows_from(stmt->second->args[0], condition, made) || follows_from(stmt->second->args[1], condition, made));
}

// Whether the value is 0 where the condition is false.
bool nothing_without(ValueId value, ValueId condition, const Definitions& made) {
  const auto found = made.find(value);
  if (found == made.end()) return false;
  const Stmt& stmt = *found->second;
  if (stmt.kind == StmtKind::load) return stmt.mask != no_value && follows_from(stmt.mask, condition, made);
  if (stmt.loop)
    return stmt.loop->role == AxisRole::reduce && stmt.loop->reduce == ReduceOp::sum &&
           nothing_without(stmt.loop->yields[0], condition, made);
  if (stmt.kind != StmtKind::op) return false;
  if (stmt.op == ScalarOp::cast) return nothing_without(stmt.args[0], condition, made);
  return stmt.op == ScalarOp::mul &&
         (nothing_without(stmt.args[0], condition, made) || nothing_without(stmt.args[1], condition, made));
}

// The parallel loops from the outside in, as long as nothing but values stands beside them.
std::vector<Loop*> plain_chain(Kernel& kernel) {
  std::vector<Loop*> chain;
  for (Body* body = &kernel.body;;) {
    const auto loop = std::find_if(body->begin(), body->end(), [](const Stmt& stmt) { return stmt.loop != nullptr; });
    if (loop == body->end() || loop + 1 != body->end() || loop->loop->role != AxisRole::parallel) return chain;
    for (auto before = body->begin(); before != loop; ++before)
      if (before->kind != StmtKind::op && before->kind != StmtKind::constant && before->kind != StmtKind::index_value &&
          before->kind != StmtKind::load)
        return chain;
    chain.push_back(loop->loop.get());
    body = &loop->loop->body;
  }
}

bool is_zero(const Stmt& stmt) {
  return (stmt.kind == StmtKind::index_value && stmt.expr.is_constant(0)) ||
         (stmt.kind == StmtKind::constant && stmt.constant.is_int() && stmt.constant.as_int() == 0);
}

std::optional<Phases> find_phases(Kernel& kernel, const RangeEnv& env) {
  const std::vector<Loop*> chain = plain_chain(kernel);
  Definitions made;
  std::vector<Loop*> sums;
  for_each_stmt(kernel.body, [&](Stmt& stmt) {
    for (const ValueId v : stmt.results) made[v] = &stmt;
    if (stmt.loop && stmt.loop->role == AxisRole::reduce && stmt.loop->reduce == ReduceOp::sum)
      sums.push_back(stmt.loop.get());
  });
  std::optional<Phases> found;
  for (Loop* place : sums) {
    if (!place->extent.is_constant()) continue;
    for_each_stmt(place->body, [&](const Stmt& stmt) {
      if (found || stmt.kind != StmtKind::op || stmt.op != ScalarOp::eq) return;
      const auto rest = made.find(stmt.args[0]), zero = made.find(stmt.args[1]);
      if (rest == made.end() || zero == made.end() || !is_zero(*zero->second)) return;
      const Expr& e = rest->second->expr;
      if (rest->second->kind != StmtKind::index_value || e.op() != ExprOp::mod || !e.args()[1].is_constant()) return;
      const int64_t stride = e.args()[1].value();
      if (stride < 2 || !nothing_without(place->yields[0], stmt.results[0], made)) return;
      for (Loop* point : chain) {
        const auto offset = offset_of(e.args()[0], point->var, place->var);
        if (!offset || !simplify(mod(point->extent, stride), env).is_constant(0)) continue;
        found = Phases{point, place, stmt.results[0], stride, *offset};
      }
    });
  }
  return found;
}

// Expressions of the new variables: the point is stride*point + phase, the place stride*place + (phase + offset) %
// stride. The quotients that say where the picture is read come out even.
class Rewriter {
 public:
  Rewriter(const Phases& phases, const std::string& phase)
      : phases_(phases), point_(phases.point->var), place_(phases.place->var), phase_(Expr::symbol(phase)) {
    const Expr stride(phases.stride);
    places_ = phases.place->extent.value();
    met_ = Expr::symbol(place_) * stride + mod(phase_ + phases.offset, stride);
    variables_[point_] = Expr::symbol(point_) * stride + phase_;
    // A place beyond the last: its term is masked off, and any weight will do.
    variables_[place_] = places_ % phases.stride == 0 ? met_ : mod(met_, places_);
  }

  const Substitution& variables() const { return variables_; }
  const Expr& met() const { return met_; }
  int64_t places() const { return places_; }

  Expr rewrite(const Expr& e) const {
    if (const auto even = quotient(e)) return *even * phases_.stride;
    const bool by_stride = (e.op() == ExprOp::floordiv || e.op() == ExprOp::mod) && e.args()[1].is_constant() &&
                           e.args()[1].value() == phases_.stride;
    if (by_stride)
      if (const auto even = quotient(e.args()[0])) return e.op() == ExprOp::floordiv ? *even : Expr(0);
    if (e.op() == ExprOp::floordiv) return floordiv(rewrite(e.args()[0]), rewrite(e.args()[1]));
    if (e.op() == ExprOp::mod) return mod(rewrite(e.args()[0]), rewrite(e.args()[1]));
    if (e.op() == ExprOp::add) {
      Expr sum(0);
      for (const Expr& arg : e.args()) sum = sum + rewrite(arg);
      return sum;
    }
    if (e.op() == ExprOp::mul) {
      Expr product(1);
      for (const Expr& arg : e.args()) product = product * rewrite(arg);
      return product;
    }
    return substitute(e, variables_);
  }

 private:
  // (point + offset - place) / stride, in the new variables; offsets that differ by a multiple of it fall as even.
  std::optional<Expr> quotient(const Expr& e) const {
    const auto offset = offset_of(e, point_, place_);
    if (!offset || (*offset - phases_.offset) % phases_.stride != 0) return {};
    return Expr::symbol(point_) - Expr::symbol(place_) + floordiv(phase_ + *offset, phases_.stride);
  }

  const Phases& phases_;
  const std::string point_, place_;
  const Expr phase_;
  Expr met_;
  int64_t places_ = 0;
  Substitution variables_;
};

// The condition becomes "the place is one of the window": true, unless the stride does not divide the window.
bool replace_condition(Body& body, Kernel& kernel, ValueId condition, const Rewriter& to) {
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i].loop && replace_condition(body[i].loop->body, kernel, condition, to)) return true;
    if (body[i].results != std::vector<ValueId>{condition}) continue;
    Body before;
    const ValueId place = append(before, index_stmt(kernel, DType::i64, to.met()));
    const ValueId places = append(before, index_stmt(kernel, DType::i64, to.places()));
    body[i] = op_stmt_to(condition, ScalarOp::lt, DType::boolean, {place, places});
    body.insert(body.begin() + static_cast<ptrdiff_t>(i), std::make_move_iterator(before.begin()),
                std::make_move_iterator(before.end()));
    return true;
  }
  return false;
}

bool split_phase(Kernel& kernel, const RangeEnv& ranges) {
  const std::optional<Phases> phases = find_phases(kernel, ranges);
  if (!phases) return false;
  const std::set<std::string> used = variables_of(kernel);
  int number = 0;
  while (used.count(str("p", number))) ++number;
  Stmt around = loop_stmt(str("p", number), Expr(phases->stride));
  const Rewriter to(*phases, around.loop->var);
  for_each_stmt(phases->point->body, [&](Stmt& stmt) {
    for (Expr& e : stmt.index) e = to.rewrite(e);
    stmt.expr = to.rewrite(stmt.expr);
  });
  rename_in_names(kernel, to.variables());
  replace_condition(phases->place->body, kernel, phases->meets, to);
  phases->point->extent = simplify(floordiv(phases->point->extent, phases->stride), ranges);
  phases->place->extent = ceildiv(phases->place->extent, phases->stride);
  around.loop->body = std::move(kernel.body);
  kernel.body.clear();
  kernel.body.push_back(std::move(around));
  return true;
}

}  // namespace

bool split_phases(LoopProgram& program, const Target& target, Log& log) {
  bool changed = false;
  if (target.is_gpu()) return changed;
  for_each_item(program.block, [&](Item& item) {
    auto* kernel = std::get_if<Kernel>(&item.what);
    if (!kernel || kernel->schedule) return;
    bool split = false;
    while (split_phase(*kernel, program.ranges())) split = true;
    if (!split) return;
    simplify_body(program, *kernel);
    changed = true;
    log.add([&] {
      return Decision{
          "split the points of", kernel->name, "", "", "those of a phase meet the same places of the window", true, ""};
    });
  });
  return changed;
}

}  // namespace kiln::loops
