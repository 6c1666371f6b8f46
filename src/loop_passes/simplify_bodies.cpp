#include <cmath>

#include "base/side_by_side.h"
#include "loop_passes/passes.h"
#include "loop_passes/rewrite.h"

namespace kiln::loops {
namespace {

// One scope's table of statements already computed, by their text.
using Seen = std::map<std::string, ValueId>;

class Simplifier {
 public:
  Simplifier(LoopProgram& program, Kernel& kernel) : kernel_(kernel), env_(program.ranges()) {}

  bool run() {
    Seen seen;
    visit(kernel_.body, seen);
    while (remove_unused(kernel_.body)) {
    }
    follow_names();
    return changed_;
  }

 private:
  DType type(ValueId v) const { return kernel_.value_types[static_cast<size_t>(v)]; }
  void resolve(ValueId& v) {
    auto found = same_.find(v);
    if (found == same_.end()) return;
    v = found->second;
  }

  // Names go with their values; those of values that are not computed any more go away.
  void follow_names() {
    std::set<ValueId> computed;
    for_each_stmt(kernel_.body, [&](const Stmt& stmt) {
      computed.insert(stmt.results.begin(), stmt.results.end());
      if (stmt.loop) computed.insert(stmt.loop->running.begin(), stmt.loop->running.end());
    });
    std::vector<NamedValue> kept;
    for (NamedValue& named : kernel_.named) {
      resolve(named.value), resolve(named.mask);
      if (const auto mask = constants_.find(named.mask); mask != constants_.end() && mask->second.as_int())
        named.mask = no_value;
      if (!computed.count(named.value) || (named.mask != no_value && !computed.count(named.mask))) continue;
      kept.push_back(std::move(named));
    }
    kernel_.named = std::move(kept);
    rename_in_names(kernel_, index_same_);
  }

  void visit(Body& body, Seen& seen) {
    Body out;
    for (Stmt& stmt : body) {
      for (ValueId& v : stmt.args) resolve(v);
      resolve(stmt.mask);
      for (Expr& e : stmt.index) e = simplify(substitute(e, index_same_), env_);
      stmt.expr = simplify(substitute(stmt.expr, index_same_), env_);
      if (stmt.kind == StmtKind::loop && runs_once(*stmt.loop)) {
        // for i in 1 { … }: its statements stand in the enclosing body, with i = 0.
        index_same_[stmt.loop->var] = 0;
        visit(stmt.loop->body, seen);
        for (Stmt& inner : stmt.loop->body) out.push_back(std::move(inner));
        // A sum of one term is the term.
        for (ValueId& v : stmt.loop->yields) resolve(v);
        if (!stmt.loop->yields.empty()) alias(stmt, stmt.loop->yields[0]);
        changed_ = true;
        continue;
      }
      if (stmt.kind == StmtKind::loop) {
        visit_loop(*stmt.loop, seen);
      } else if (stmt.kind == StmtKind::store) {
        forget(seen, stmt.buffer);
      } else if (never_raises(stmt) || fold(stmt, seen)) {
        changed_ = true;
        continue;
      }
      out.push_back(std::move(stmt));
    }
    body = std::move(out);
  }

  bool runs_once(const Loop& loop) const {
    const bool one_value = loop.role == AxisRole::reduce && reduce_info(loop.reduce).accumulators == 1;
    return (loop.role == AxisRole::parallel || one_value) && loop.directives == AxisDirectives{} &&
           simplify(substitute(loop.extent, index_same_), env_).is_constant(1);
  }

  void visit_loop(Loop& loop, Seen& seen) {
    loop.extent = simplify(substitute(loop.extent, index_same_), env_);
    Interval extent = range_of(loop.extent, env_);
    env_.ranges[loop.var] = {0, extent.high == INT64_MAX ? INT64_MAX : std::max<int64_t>(0, extent.high - 1)};
    env_.upper[loop.var] = loop.extent - 1;
    Accesses inside = accesses(loop.body);
    for (BufferId w : accesses(loop.after).writes) inside.writes.insert(w);
    for (BufferId w : inside.writes) forget(seen, w);
    Seen nested = seen;
    visit(loop.body, nested);
    for (ValueId& v : loop.yields) resolve(v);
    if (loop.only != no_value) resolve(loop.only);
    visit(loop.after, nested);
    for (BufferId w : inside.writes) forget(seen, w);
  }

  static void forget(Seen& seen, BufferId buffer) {
    std::string prefix = str("load ", buffer, " ");
    std::erase_if(seen, [&](const auto& entry) { return starts_with(entry.first, prefix); });
  }

  bool never_raises(const Stmt& stmt) const {
    if (stmt.kind != StmtKind::raise_if) return false;
    const auto found = constants_.find(stmt.args[0]);
    return found != constants_.end() && !found->second.as_int();
  }

  // x * 1, x / 1 and x - 0 are x, whatever x is: x + 0 and x - -0 are not, where x is -0.
  bool leaves_the_other(Stmt& stmt) {
    const auto is = [&](size_t at, double number) {
      const auto found = constants_.find(stmt.args[at]);
      return found != constants_.end() && found->second.as_double() == number &&
             !std::signbit(found->second.as_double());
    };
    if (stmt.op == ScalarOp::mul && is(0, 1)) std::swap(stmt.args[0], stmt.args[1]);
    return type(stmt.args[0]) == stmt.dtype && stmt.dtype != DType::boolean &&
           ((stmt.op == ScalarOp::mul && is(1, 1)) || (stmt.op == ScalarOp::div && is(1, 1)) ||
            (stmt.op == ScalarOp::sub && is(1, 0)));
  }

  // True: the statement is not needed; its result is another value.
  bool fold(Stmt& stmt, Seen& seen) {
    if (stmt.results.size() != 1) return false;
    if (stmt.kind == StmtKind::op && stmt.op == ScalarOp::cast && type(stmt.args[0]) == stmt.dtype)
      return alias(stmt, stmt.args[0]);
    if (stmt.kind == StmtKind::op && stmt.op == ScalarOp::select) {
      auto found = constants_.find(stmt.args[0]);
      if (found != constants_.end()) return alias(stmt, stmt.args[found->second.as_int() ? 1 : 2]);
      if (stmt.args[1] == stmt.args[2]) return alias(stmt, stmt.args[1]);
      if (is_zero_already(stmt)) return alias(stmt, stmt.args[1]);
      const auto yes = constants_.find(stmt.args[1]), no = constants_.find(stmt.args[2]);
      if (stmt.dtype == DType::boolean && yes != constants_.end() && no != constants_.end() && yes->second.as_int() &&
          !no->second.as_int())
        return alias(stmt, stmt.args[0]);
    }
    if (stmt.kind == StmtKind::op && stmt.op == ScalarOp::logical_and)
      for (int side = 0; side < 2; ++side) {
        auto found = constants_.find(stmt.args[static_cast<size_t>(side)]);
        if (found != constants_.end() && found->second.as_int())
          return alias(stmt, stmt.args[static_cast<size_t>(1 - side)]);
      }
    if (stmt.kind == StmtKind::op && leaves_the_other(stmt)) return alias(stmt, stmt.args[0]);
    if (stmt.kind == StmtKind::op) fold_comparison(stmt), fold_not(stmt);
    if (stmt.mask != no_value && (stmt.kind == StmtKind::load || stmt.kind == StmtKind::check_index)) {
      auto found = constants_.find(stmt.mask);
      if (found != constants_.end() && found->second.as_int()) stmt.mask = no_value;
    }
    if (stmt.kind == StmtKind::index_value) index_values_[stmt.results[0]] = stmt.expr;
    std::string key = text_of(stmt);
    if (key.empty()) return false;
    auto [found, inserted] = seen.emplace(key, stmt.results[0]);
    if (!inserted) {
      if (stmt.kind == StmtKind::check_index) index_same_[stmt.index_var] = Expr::symbol(index_vars_.at(found->second));
      return alias(stmt, found->second);
    }
    if (stmt.kind == StmtKind::constant) constants_[stmt.results[0]] = stmt.constant;
    if (stmt.kind == StmtKind::load && stmt.mask != no_value) masked_loads_[stmt.results[0]] = stmt.mask;
    if (stmt.kind == StmtKind::check_index) index_vars_[stmt.results[0]] = stmt.index_var;
    return false;
  }

  // What a mask chooses between a load of that mask, which gives 0 where it is masked off, and 0.
  bool is_zero_already(const Stmt& select) const {
    const auto loaded = masked_loads_.find(select.args[1]);
    const auto other = constants_.find(select.args[2]);
    return loaded != masked_loads_.end() && loaded->second == select.args[0] && other != constants_.end() &&
           other->second.as_double() == 0 && !std::signbit(other->second.as_double());
  }

  bool alias(const Stmt& stmt, ValueId value) {
    same_[stmt.results[0]] = value;
    return true;
  }

  // Comparisons of index expressions that the ranges decide (the masks of cat and pad, once inlined).
  void fold_comparison(Stmt& stmt) {
    if (stmt.args.size() != 2) return;
    auto a = as_expr(stmt.args[0]), b = as_expr(stmt.args[1]);
    if (!a || !b) return;
    Proof proof = Proof::unknown;
    if (stmt.op == ScalarOp::lt) proof = prove_lt(*a, *b, env_);
    if (stmt.op == ScalarOp::le) proof = prove_le(*a, *b, env_);
    if (stmt.op == ScalarOp::gt) proof = prove_lt(*b, *a, env_);
    if (stmt.op == ScalarOp::ge) proof = prove_le(*b, *a, env_);
    if (stmt.op == ScalarOp::eq) proof = prove_eq(*a, *b, env_);
    if (proof == Proof::unknown) return;
    stmt.kind = StmtKind::constant;
    stmt.dtype = DType::boolean;
    stmt.constant = Scalar(proof == Proof::yes);
    stmt.args.clear();
  }

  void fold_not(Stmt& stmt) {
    if (stmt.op != ScalarOp::logical_not || stmt.dtype != DType::boolean) return;
    const auto found = constants_.find(stmt.args[0]);
    if (found == constants_.end() || type(stmt.args[0]) != DType::boolean) return;
    stmt.kind = StmtKind::constant;
    stmt.constant = Scalar(!found->second.as_int());
    stmt.args.clear();
  }

  std::optional<Expr> as_expr(ValueId v) const {
    auto found = index_values_.find(v);
    if (found != index_values_.end()) return found->second;
    auto constant = constants_.find(v);
    if (constant != constants_.end() && constant->second.is_int()) return Expr(constant->second.as_int());
    return std::nullopt;
  }

  // A key that is equal exactly when the statements compute the same; empty for those that must stay apart.
  std::string text_of(const Stmt& stmt) const {
    std::string key;
    switch (stmt.kind) {
      case StmtKind::op:
        key = str("op ", static_cast<int>(stmt.op));
        break;
      case StmtKind::constant:
        key = str("constant ", stmt.constant.text());
        break;
      case StmtKind::index_value:
        key = str("index ", stmt.expr.text());
        break;
      case StmtKind::load:
        key = str("load ", stmt.buffer, " ");
        break;
      case StmtKind::check_index:
        key = str("check ", stmt.expr.text());
        break;
      default:
        return "";
    }
    key += str(" ", static_cast<int>(stmt.dtype), " m", stmt.mask);
    for (ValueId v : stmt.args) key += str(" %", v);
    for (const Expr& e : stmt.index) key += str(" [", e.text(), "]");
    return key;
  }

  bool remove_unused(Body& body) {
    std::set<ValueId> used;
    std::set<std::string> used_index;
    collect_uses(kernel_.body, used, used_index);
    return remove_unused(body, used, used_index);
  }

  // Where the greatest was found is not asked for: the greatest is left (a pool that gives indices which nobody reads).
  static bool forget_place(Stmt& stmt, const std::set<ValueId>& used) {
    Loop& loop = *stmt.loop;
    const bool finds =
        loop.role == AxisRole::reduce && (loop.reduce == ReduceOp::argmax || loop.reduce == ReduceOp::argmin);
    if (!finds || stmt.results.size() != 2 || used.contains(stmt.results[1])) return false;
    loop.reduce = loop.reduce == ReduceOp::argmax ? ReduceOp::max : ReduceOp::min;
    stmt.results.resize(1);
    loop.yields.resize(1);
    return true;
  }

  void collect_uses(const Body& statements, std::set<ValueId>& used, std::set<std::string>& used_index) {
    for_each_stmt(statements, [&](const Stmt& stmt) {
      used.insert(stmt.args.begin(), stmt.args.end());
      used.insert(stmt.mask);
      for (const Expr& e : stmt.index) collect_symbols(e, used_index);
      collect_symbols(stmt.expr, used_index);
      if (stmt.loop) {
        used.insert(stmt.loop->yields.begin(), stmt.loop->yields.end());
        used.insert(stmt.loop->only);
        collect_symbols(stmt.loop->extent, used_index);
      }
    });
  }

  bool remove_unused(Body& body, const std::set<ValueId>& used, const std::set<std::string>& used_index) {
    bool removed = false;
    for (Stmt& stmt : body)
      if (stmt.loop) {
        removed |= forget_place(stmt, used);
        removed |= remove_unused(stmt.loop->body, used, used_index);
        removed |= remove_unused(stmt.loop->after, used, used_index);
      }
    auto effect = [](const Body& inner) {
      bool found = false;
      for_each_stmt(inner, [&](const Stmt& s) {
        found |= s.kind == StmtKind::store || s.kind == StmtKind::raise_if || s.kind == StmtKind::check_index;
      });
      return found;
    };
    std::erase_if(body, [&](const Stmt& stmt) {
      if (stmt.kind == StmtKind::store || stmt.kind == StmtKind::raise_if || stmt.kind == StmtKind::check_index)
        return false;
      if (stmt.kind == StmtKind::loop && (effect(stmt.loop->body) || effect(stmt.loop->after))) return false;
      for (ValueId v : stmt.results)
        if (used.count(v)) return false;
      removed = true;
      return true;
    });
    changed_ |= removed;
    return removed;
  }

  Kernel& kernel_;
  RangeEnv env_;
  std::map<ValueId, ValueId> same_;
  Substitution index_same_;
  std::map<ValueId, std::string> index_vars_;
  std::map<ValueId, Scalar> constants_;
  std::map<ValueId, Expr> index_values_;
  std::map<ValueId, ValueId> masked_loads_;  // their masks
  bool changed_ = false;
};

}  // namespace

bool simplify_body(LoopProgram& program, Kernel& kernel) { return Simplifier(program, kernel).run(); }

bool simplify_bodies(LoopProgram& program, Log&) {
  std::vector<Kernel*> kernels;
  auto add = [&](Item& item) {
    if (auto* kernel = std::get_if<Kernel>(&item.what)) kernels.push_back(kernel);
  };
  for_each_item(program.init, add);
  for_each_item(program.block, add);
  std::vector<char> changed(kernels.size());
  side_by_side(kernels.size(), [&](size_t i) { changed[i] = simplify_body(program, *kernels[i]); });
  return std::find(changed.begin(), changed.end(), true) != changed.end();
}

}  // namespace kiln::loops
