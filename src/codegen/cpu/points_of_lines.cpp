// Points of a line whose length is not known when the kernel is printed.
#include "codegen/cpu/points_printer.h"

namespace kiln::codegen {
using namespace loops;

// Of a line whose length is not known: a group that has all that lies under its windows inside of the line is printed
// without masks, and the others with them. The last group begins so early that it is whole, or its points follow one by
// one: on lines shorter than a group, and where points must not be computed twice.
void PointsPrinter::print_any_length() {
  const std::string& var = loop_.var;
  const int64_t factor = loop_.directives.factor;
  const std::string end = str("e_", var), next = var + "_next";
  const bool repeats = may_repeat_points();
  find_ends();
  p_.line(str("const i64 ", end, " = ", p_.expr(loop_.extent), ";"));
  if (!ends_.empty()) {
    p_.line(str("const i64 ", var, "_from = ", p_.expr(inside_from_), ", ", var, "_to = ", p_.expr(inside_to_), ";"));
  }
  p_.line(str("i64 ", next, " = 0;"));
  const std::string more =
      repeats ? str(next, " < ", end, " && ", factor, " <= ", end) : str(next, " + ", factor, " <= ", end);
  p_.open(str("for (; ", more, "; ", next, " += ", factor, ")"));
  p_.line(str("const i64 ", var, " = ", repeats ? str("k_min((i64)", next, ", (i64)(", end, " - ", factor, "))") : next,
              ";"));
  if (ends_.empty()) {
    print_group(Expr::symbol(var), factor);
  } else {
    p_.open(str("if (", var, " >= ", var, "_from && ", var, " + ", factor, " <= ", var, "_to)"));
    inside_ = true;
    print_group(Expr::symbol(var), factor);
    inside_ = false;
    p_.close();
    p_.open("else");
    print_group(Expr::symbol(var), factor);
    p_.close();
  }
  p_.close();
  p_.open(str("for (; ", next, " < ", end, "; ++", next, ")"));
  p_.line(str("const i64 ", var, " = ", next, ";"));
  print_group(Expr::symbol(var), 1);
  p_.close();
}

// Comparisons that grow along the line are true from a point on, or up to one: from which on and up to which all of
// them are.
void PointsPrinter::find_ends() {
  std::vector<const Loop*> sums;
  Expr from(0), to = loop_.extent;
  const std::function<void(const Body&)> visit = [&](const Body& body) {
    for (const Stmt& stmt : body) {
      if (stmt.kind == StmtKind::op && !stmt.results.empty()) {
        if (const std::optional<Bounds> bounds = bounds_of(stmt, sums)) {
          ends_.insert(&stmt);
          from = max_expr(from, bounds->from);
          to = min_expr(to, bounds->to.value_or(loop_.extent));
        }
      }
      if (!stmt.loop) continue;
      const bool unrolled = stmt.loop->role == AxisRole::reduce && stmt.loop->directives.binding == Binding::unroll;
      if (unrolled) sums.push_back(stmt.loop.get());
      visit(stmt.loop->body);
      if (unrolled) sums.pop_back();
    }
  };
  visit(loop_.body);
  inside_from_ = simplify(from, p_.env_);
  inside_to_ = simplify(to, p_.env_);
}

std::optional<PointsPrinter::Bounds> PointsPrinter::bounds_of(const Stmt& comparison,
                                                              const std::vector<const Loop*>& sums) const {
  const bool lower = comparison.op == ScalarOp::ge || comparison.op == ScalarOp::gt;
  if (!lower && comparison.op != ScalarOp::lt && comparison.op != ScalarOp::le) return {};
  const std::optional<Expr> left = number(comparison.args[0]), right = number(comparison.args[1]);
  if (!left || !right) return {};
  const auto along = affine_in(*left - *right, loop_.var);
  if (!along || !along->coefficient.is_constant() || along->coefficient.value() <= 0) return {};
  // What is said of all terms: in each place of the sums that are printed one by one.
  std::vector<Expr> rests = {along->rest};
  for (const Loop* sum : sums) {
    if (!mentions(along->rest, sum->var)) continue;
    std::vector<Expr> each;
    for (const Expr& rest : rests)
      for (int64_t i = 0; i < sum->extent.value(); ++i) each.push_back(substitute(rest, {{sum->var, Expr(i)}}));
    rests = std::move(each);
  }
  // The first point at which the difference is 0 or more, 1 or more.
  const bool strict = comparison.op == ScalarOp::gt || comparison.op == ScalarOp::le;
  Bounds bounds{Expr(0), {}, {}};
  for (const Expr& rest : rests) {
    for (const std::string& inner : inner_variables_)
      if (mentions(rest, inner)) return {};
    const Expr at = ceildiv((strict ? Expr(1) : Expr(0)) - rest, along->coefficient);
    if (lower)
      bounds.from = max_expr(bounds.from, at);
    else
      bounds.to = bounds.to ? min_expr(*bounds.to, at) : at;
  }
  return bounds;
}

// As for lanes: what is computed again comes out the same where nothing that is read has been written meanwhile. That
// is sure of constants, of what neighbours read too, and of what a point itself stores before (a norm over its
// channels).
bool PointsPrinter::may_repeat_points() const {
  std::set<BufferId> pictures, stored;
  for_each_stmt(loop_.body, [&](const Stmt& stmt) {
    if (!stmt.loop || stmt.loop->role != AxisRole::reduce) return;
    for (const Stmt& inner : stmt.loop->body)
      if (inner.kind == StmtKind::load) pictures.insert(inner.buffer);
  });
  for_each_stmt(p_.kernel_.body, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::store) pictures.erase(stmt.buffer);
  });
  bool may = true;
  for_each_stmt(loop_.body, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::store) {
      may &= stmt.mode == StoreMode::plain && stmt.mask == no_value;
      stored.insert(stmt.buffer);
    }
    if (stmt.kind != StmtKind::load) return;
    const BufferRole role = p_.program_.buffers[static_cast<size_t>(stmt.buffer)].role;
    may &= role == BufferRole::constant || role == BufferRole::derived || pictures.contains(stmt.buffer) ||
           stored.contains(stmt.buffer);
  });
  return may;
}

}  // namespace kiln::codegen
