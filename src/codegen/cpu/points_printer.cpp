#include "codegen/cpu/points_printer.h"

#include <utility>

namespace kiln::codegen {
using namespace loops;
namespace {

bool is_comparison(ScalarOp op) {
  return op == ScalarOp::ge || op == ScalarOp::gt || op == ScalarOp::le || op == ScalarOp::lt || op == ScalarOp::eq ||
         op == ScalarOp::ne;
}

const Stmt* inner_sum(const Body& body) {
  for (const Stmt& stmt : body)
    if (stmt.loop) return &stmt;
  return nullptr;
}

bool is_extreme(const Loop& loop) { return loop.reduce == ReduceOp::max || loop.reduce == ReduceOp::min; }

// Sums in one another, each the last statement of the one around, over a product that is added fused; or maxima (or
// minima), of which the innermost runs along the points and is printed term by term.
bool takes_sums(const Stmt& outer) {
  for (const Stmt* stmt = &outer;;) {
    const Loop& loop = *stmt->loop;
    if (loop.role != AxisRole::reduce || loop.reduce != outer.loop->reduce || loop.order.block > 0) return false;
    if (loop.reduce != ReduceOp::sum && !is_extreme(loop)) return false;
    if (loop.directives.binding == Binding::lane || loop.body.empty()) return false;
    if (loop.directives.binding == Binding::unroll && !loop.extent.is_constant()) return false;
    for (const Stmt& s : loop.body)
      if (s.kind == StmtKind::store || s.kind == StmtKind::check_index || s.kind == StmtKind::raise_if ||
          s.kind == StmtKind::random)
        return false;
    const Stmt* inner = inner_sum(loop.body);
    if (!inner && is_extreme(loop)) return loop.directives.binding == Binding::unroll;
    if (!inner) return loop.order.fused && summed_product(loop) == &loop.body.back();
    if (inner != &loop.body.back() || inner->results != loop.yields) return false;
    if (is_extreme(loop) && loop.directives.binding == Binding::unroll) return false;
    stmt = inner;
  }
}

bool takes_lanes(const Loop& lanes) {
  if (lanes.role != AxisRole::parallel || lanes.directives.binding != Binding::lane) return false;
  int loops = 0;
  for (const Stmt& stmt : lanes.body) {
    if (stmt.kind == StmtKind::check_index || stmt.kind == StmtKind::raise_if || stmt.kind == StmtKind::random)
      return false;
    if (stmt.loop && (++loops > 1 || !takes_sums(stmt))) return false;
  }
  return loops == 1;
}

}  // namespace

bool PointsPrinter::takes(const Loop& loop) {
  if ((loop.extent.is_constant() && loop.extent.value() < 1) || loop.directives.factor < 1) return false;
  for (const Stmt& stmt : loop.body) {
    if (stmt.loop) return takes_lanes(*stmt.loop);
    if (stmt.kind != StmtKind::op && stmt.kind != StmtKind::constant && stmt.kind != StmtKind::index_value &&
        stmt.kind != StmtKind::load)
      return false;
  }
  return false;
}

PointsPrinter::PointsPrinter(KernelPrinter& printer, const Loop& loop) : p_(printer), loop_(loop) {
  for_each_stmt(p_.kernel_.body, [&](const Stmt& stmt) {
    for (ValueId v : stmt.results) definitions_[v] = &stmt;
  });
  line_ = {0, range_of(loop_.extent, p_.env_).high};
  if (line_.high != INT64_MAX) --line_.high;
  for_each_stmt(loop_.body, [&](const Stmt& stmt) {
    if (stmt.loop) inner_variables_.insert(stmt.loop->var);
  });
  find_mask_values();
}

// Between what lies under the window and what padding counts as.
bool PointsPrinter::is_choice(const Stmt& stmt) const { return choices_.contains(&stmt); }

void PointsPrinter::find_mask_values() {
  for_each_stmt(loop_.body, [&](const Stmt& stmt) {
    if (!stmt.loop || stmt.loop->role != AxisRole::reduce || !is_extreme(*stmt.loop)) return;
    for (const Stmt& inner : stmt.loop->body)
      if (inner.kind == StmtKind::op && inner.op == ScalarOp::select) choices_.insert(&inner);
  });
  auto may_be = [](const Stmt& stmt) {
    return stmt.kind == StmtKind::index_value ||
           (stmt.kind == StmtKind::op && (is_comparison(stmt.op) || stmt.op == ScalarOp::logical_and));
  };
  for_each_stmt(loop_.body, [&](const Stmt& stmt) {
    if (may_be(stmt)) mask_values_.insert(stmt.results[0]);
  });
  for (bool changed = true; changed;) {
    changed = false;
    for_each_stmt(loop_.body, [&](const Stmt& stmt) {
      const bool of_mask = may_be(stmt) && mask_values_.contains(stmt.results[0]);
      if (!of_mask)
        for (size_t i = is_choice(stmt) ? 1 : 0; i < stmt.args.size(); ++i)
          changed |= mask_values_.erase(stmt.args[i]) > 0;
      if (stmt.kind != StmtKind::load) changed |= mask_values_.erase(stmt.mask) > 0;
      if (stmt.loop)
        for (ValueId v : stmt.loop->yields) changed |= mask_values_.erase(v) > 0;
    });
  }
}

// ---- Points
// ------------------------------------------------------------------------------------------------------------

// Whether the points at the ends of a line have less under their windows than the others.
bool PointsPrinter::edges_differ() const {
  bool differ = false;
  for_each_stmt(loop_.body, [&](const Stmt& stmt) {
    differ |= stmt.mask != no_value || (stmt.loop && stmt.loop->only != no_value);
  });
  return differ;
}

// Where the masks are those of a window's terms that run in a loop, numbers of points say nothing.
bool PointsPrinter::has_looped_edges() const {
  bool looped = false;
  for_each_stmt(loop_.body, [&](const Stmt& stmt) {
    if (!stmt.loop || stmt.loop->role != AxisRole::reduce || stmt.loop->directives.binding == Binding::unroll) return;
    for (const Stmt& inner : stmt.loop->body) {
      const std::optional<Expr> place = inner.results.empty() ? std::nullopt : number(inner.results[0]);
      looped |= place && mentions(*place, stmt.loop->var) && mentions(*place, loop_.var);
    }
  });
  return looped;
}

void PointsPrinter::print() {
  if (!loop_.extent.is_constant()) return print_any_length();
  const int64_t all = loop_.extent.value(), factor = loop_.directives.factor, groups = all / factor;
  const bool peel = loop_.directives.tail == Tail::peel && edges_differ() && !has_looped_edges();
  // Groups that are printed with their numbers at the beginning and the end; those between run as a loop.
  const int64_t at_first = peel ? std::min<int64_t>(1, groups) : 0, at_last = peel && groups > 1 ? 1 : 0;
  for (int64_t g = 0; g < at_first; ++g) print_group(Expr(g * factor), factor);
  if (const int64_t between = groups - at_first - at_last; between == 1) {
    print_group(Expr(at_first * factor), factor);
  } else if (between > 0) {
    const std::string& var = loop_.var;
    const int64_t from = at_first * factor, to = (groups - at_last) * factor;
    const Interval range = std::exchange(p_.env_.ranges[var], Interval{from, to - factor});
    p_.open(str("for (i64 ", var, " = ", from, "; ", var, " < ", to, "; ", var, " += ", factor, ")"));
    print_group(Expr::symbol(var), factor);
    p_.close();
    p_.env_.ranges[var] = range;
  }
  for (int64_t g = groups - at_last; g < groups; ++g) print_group(Expr(g * factor), factor);
  if (all % factor != 0) print_group(Expr(groups * factor), all % factor);
}

void PointsPrinter::print_group(const Expr& first, int64_t count) {
  first_ = first;
  count_ = static_cast<size_t>(count);
  alive_.assign(count_, true);
  dependent_.clear();
  p_.open("");
  const Stmt* lanes = inner_sum(loop_.body);
  for (const Stmt& stmt : loop_.body) {
    if (&stmt == lanes) {
      print_lanes(*stmt.loop);
      break;
    }
    print_stmt(stmt);
  }
  p_.close();
  if (&loop_.body.back() != lanes) print_rest(first, count);
}

// What follows (a norm over the channels of a point) takes the points one by one.
void PointsPrinter::print_rest(const Expr& first, int64_t count) {
  const std::string& var = loop_.var;
  const std::string at = first.is_symbol() ? var + "_next" : var;
  p_.open(str("for (i64 ", at, " = ", p_.expr(first), "; ", at, " < ", p_.expr(first + count), "; ++", at, ")"));
  if (at != var) p_.line(str("const i64 ", var, " = ", at, ";"));
  const Stmt* lanes = inner_sum(loop_.body);
  const Interval range = std::exchange(p_.env_.ranges[var], line_);
  for (const Stmt& stmt : loop_.body)
    if (&stmt != lanes) p_.print_stmt(stmt);
  p_.env_.ranges[var] = range;
  p_.close();
}

// Lanes that are left over could be a second copy of all this text. Instead the last vector begins so early that it is
// whole: what it computes again comes out the same, where the lanes write nothing that they read, under this name or
// another. That is sure of constants, and of what the sums read, whose neighbours others need.
bool PointsPrinter::may_repeat(const Loop& lanes) const {
  if (lanes.directives.tail == Tail::exact || !lanes.extent.is_constant() || lanes.extent.value() < p_.lane_count_)
    return false;
  std::set<BufferId> in_sums, written;
  bool may = true;
  for (const Stmt& stmt : lanes.body)
    if (stmt.loop) in_sums.merge(accesses(stmt.loop->body).reads);
  for_each_stmt(lanes.body, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::store) written.insert(stmt.buffer), may &= stmt.mode == StoreMode::plain;
    if (stmt.kind != StmtKind::load && stmt.kind != StmtKind::store) return;
    // Elements that lanes share in groups are found where the first lane is a multiple of their number.
    const auto along = affine_in(p_.address(stmt), lanes.var);
    may &= along && along->coefficient.is_constant() && !mentions(along->rest, lanes.var);
  });
  for (const BufferId b : written) may &= !in_sums.contains(b);
  for (const Stmt& stmt : lanes.body) {
    if (stmt.kind != StmtKind::load) continue;
    const BufferRole role = p_.program_.buffers[static_cast<size_t>(stmt.buffer)].role;
    may &= role == BufferRole::constant || role == BufferRole::derived || in_sums.contains(stmt.buffer);
  }
  return may;
}

void PointsPrinter::print_lanes(const Loop& loop) {
  const std::string extent = str("e_", loop.var);
  p_.line(str("const i64 ", extent, " = ", p_.expr(loop.extent), ";"));
  const std::set<std::string> outer_index = p_.varying_index_;
  if (may_repeat(loop)) {
    const std::string next = loop.var + "_next";
    p_.open(str("for (i64 ", next, " = 0; ", next, " < ", extent, "; ", next, " += ", p_.lane_count_, ")"));
    p_.line(str("const i64 ", loop.var, " = k_min((i64)", next, ", (i64)(", extent, " - ", p_.lane_count_, "));"));
    p_.lanes_ = KernelPrinter::Lanes{loop.var, "", false};
    print_body(loop.body);
    p_.close();
    p_.lanes_.reset();
    p_.varying_index_ = outer_index;
    return;
  }
  p_.line(str("i64 ", loop.var, " = 0;"));
  if (p_.has_whole_vectors(loop)) {
    p_.open(
        str("for (; ", loop.var, " + ", p_.lane_count_, " <= ", extent, "; ", loop.var, " += ", p_.lane_count_, ")"));
    p_.lanes_ = KernelPrinter::Lanes{loop.var, "", true};
    print_body(loop.body);
    p_.close();
  }
  if (loop.directives.tail != Tail::exact) {
    p_.open(str("if (", loop.var, " < ", extent, ")"));
    p_.line(str("const int left = (int)(", extent, " - ", loop.var, ");"));
    p_.lanes_ = KernelPrinter::Lanes{loop.var, "left", true};
    print_body(loop.body);
    p_.close();
  }
  p_.lanes_.reset();
  p_.varying_index_ = outer_index;
}

void PointsPrinter::print_body(const Body& body) {
  const size_t tail = tail_of(body);
  for (size_t i = 0; i < tail; ++i) {
    if (body[i].loop)
      print_sum(body[i], true);
    else
      print_stmt(body[i]);
  }
  if (tail < body.size()) print_tail(body, tail);
}

size_t PointsPrinter::tail_of(const Body& body) const {
  // Of cost: what the loop adds to it is little then. Lanes that are left over run once where whole vectors run often.
  const double long_tail = p_.lanes_->left.empty() ? 10 : 3;
  size_t begin = body.size();
  double cost = 0;
  for (; begin > 0 && !body[begin - 1].loop; --begin)
    if (body[begin - 1].kind == StmtKind::op) cost += scalar_op_info(body[begin - 1].op).cost;
  return count_ > 2 && cost >= long_tail ? begin : body.size();
}

void PointsPrinter::print_tail(const Body& body, size_t begin) {
  std::set<ValueId> made, wanted;
  for (size_t i = begin; i < body.size(); ++i) {
    if (!depends(body[i])) {
      print_stmt(body[i]);
      continue;
    }
    for (ValueId v : body[i].results) made.insert(v), dependent_.insert(v);
    std::vector<ValueId> used = body[i].args;
    used.push_back(body[i].mask);
    for (ValueId v : used)
      if (v != no_value && depends(v) && !made.contains(v) && !mask_values_.contains(v)) wanted.insert(v);
  }
  std::map<ValueId, std::string> arrays;
  for (ValueId v : wanted) {
    const bool varying = p_.varying(copy_of(v, 0));
    const std::string array = arrays[v] = str("tile", arrays.size());
    p_.line(str(varying ? vector_type(p_.type(v)) : c_type(p_.type(v)), " ", array, "[", count_, "];"));
    for (size_t point = 0; point < count_; ++point)
      p_.line(str(array, "[", point, "] = ", p_.name(copy_of(v, point)), ";"));
  }
  p_.open(str("for (i64 p = 0; p < ", count_, "; ++p)"));
  const std::string at = any_point_name();
  p_.line(str("const i64 ", at, " = ", p_.expr(first_), " + p; (void)", at, ";"));
  p_.env_.ranges[at] = line_;
  for (const auto& [v, array] : arrays) {
    const bool varying = p_.varying(copy_of(v, 0));
    p_.define(copy_of(v, any_point), str(array, "[p]"), varying);
  }
  for (size_t i = begin; i < body.size(); ++i) {
    const bool mask = !body[i].results.empty() && mask_values_.contains(body[i].results[0]);
    if (depends(body[i]) && !mask) print_copy(body[i], any_point);
  }
  p_.close();
}

// ---- Sums
// --------------------------------------------------------------------------------------------------------------

// Those in one another add to the same accumulators.
void PointsPrinter::print_sum(const Stmt& stmt, bool outermost) {
  const Loop& loop = *stmt.loop;
  if (outermost && is_extreme(loop)) return print_extremes(stmt);
  if (is_extreme(loop) && loop.directives.binding == Binding::unroll) return print_columns(loop);
  if (outermost) {
    dependent_.insert(stmt.results[0]);
    const std::string scalar = c_type(loop.reduce_dtype);
    sums_.clear();
    for (size_t point = 0; point < count_; ++point) {
      sums_.push_back(copy_of(stmt.results[0], point));
      p_.varying_.insert(sums_.back());
      p_.line(
          str(vector_type(loop.reduce_dtype), " ", p_.name(sums_.back()), " = k_splat_", scalar, "((", scalar, ")0);"));
    }
  }
  if (loop.directives.binding != Binding::unroll) return print_looped_terms(loop);
  for (int64_t i = 0; i < loop.extent.value(); ++i) {
    unrolled_[loop.var] = Expr(i);
    p_.open("");
    print_terms(loop);
    p_.close();
  }
  unrolled_.erase(loop.var);
}

// A window too long to be printed term by term: the terms of which all points have their place inside of the line are a
// loop without masks, between those before and behind them.
void PointsPrinter::print_looped_terms(const Loop& loop) {
  const std::string& var = loop.var;
  const std::string extent = p_.expr(loop.extent), from = var + "_from", to = var + "_to";
  const auto terms = [&](const std::string& first, const std::string& end, bool at_edge = false) {
    p_.open(str("for (", first, "; ", var, " < ", end, "; ++", var, ")"));
    at_edge&& loop.only != no_value ? print_edge_terms(loop) : print_terms(loop);
    p_.close();
  };
  const auto inside = terms_inside(loop);
  if (!inside) return terms(str("i64 ", var, " = 0"), extent);
  p_.open("");
  p_.line(str("const i64 ", from, " = ", p_.expr(inside->from), ", ", to, " = ", p_.expr(*inside->to), ";"));
  p_.line(str("i64 ", var, " = 0;"));
  terms("", from, true);
  true_terms_ = inside->comparisons;
  terms("", to);
  true_terms_.clear();
  terms("", extent, true);
  p_.close();
}

// Terms that only some of the points have, behind a branch for each: their place may be so far outside of the line that
// nothing is mapped there, which a masked load takes hundreds of cycles to find.
void PointsPrinter::print_edge_terms(const Loop& loop) {
  std::vector<const Stmt*> own;
  for (const Stmt& stmt : loop.body) {
    if (&stmt == &loop.body.back()) break;
    if (!depends(stmt)) {
      print_stmt(stmt);
      continue;
    }
    own.push_back(&stmt);
    for (ValueId v : stmt.results) dependent_.insert(v);
  }
  const std::vector<bool> alive = alive_;
  const std::set<ValueId> known_true = true_;
  for (size_t point = 0; point < count_; ++point) {
    if (!alive[point]) continue;
    p_.open(str("if (", condition(loop.only, point), ")"));
    alive_.assign(count_, false);
    alive_[point] = true;
    true_.insert(loop.only);
    for (const Stmt* stmt : own) print_stmt(*stmt);
    print_product(loop);
    true_ = known_true;
    p_.close();
  }
  alive_ = alive;
}

std::optional<PointsPrinter::Bounds> PointsPrinter::terms_inside(const Loop& loop) const {
  if (inner_sum(loop.body) || is_extreme(loop)) return {};
  Bounds out{Expr(0), loop.extent, {}};
  for (const Stmt& stmt : loop.body) {
    if (stmt.kind != StmtKind::op || !is_comparison(stmt.op)) continue;
    const bool lower = stmt.op == ScalarOp::ge || stmt.op == ScalarOp::gt;
    if (!lower && stmt.op != ScalarOp::lt && stmt.op != ScalarOp::le) continue;
    const std::optional<Expr> left = number(stmt.args[0]), right = number(stmt.args[1]);
    if (!left || !right) continue;
    const auto along = affine_in(*left - *right, loop.var);
    const auto by_point = along ? affine_in(along->rest, loop_.var) : std::nullopt;
    if (!by_point || !along->coefficient.is_constant() || along->coefficient.value() <= 0 ||
        !by_point->coefficient.is_constant() || by_point->coefficient.value() <= 0)
      continue;
    // The first term at which the difference is 0 or more (1 or more) for the first point, or for the last one.
    const bool strict = stmt.op == ScalarOp::gt || stmt.op == ScalarOp::le;
    const size_t point = lower ? 0 : count_ - 1;
    const Expr rest = substitute(along->rest, variables(point));
    const Expr at = ceildiv((strict ? Expr(1) : Expr(0)) - rest, along->coefficient);
    if (lower)
      out.from = max_expr(out.from, at);
    else
      out.to = min_expr(*out.to, at);
    out.comparisons.insert(&stmt);
  }
  if (out.comparisons.empty()) return {};
  out.from = simplify(min_expr(out.from, loop.extent), p_.env_);
  out.to = simplify(max_expr(*out.to, out.from), p_.env_);
  return out;
}

void PointsPrinter::print_terms(const Loop& loop) {
  const std::vector<bool> alive = alive_;
  bool guarded = false;
  const std::set<ValueId> known_true = true_;
  for (const Stmt& stmt : loop.body) {
    if (stmt.loop)
      print_sum(stmt, false);
    else if (inner_sum(loop.body) || &stmt != &loop.body.back())
      print_stmt(stmt);
    else
      print_product(loop);
    if (loop.only == no_value || stmt.results != std::vector<ValueId>{loop.only}) continue;
    for (size_t point = 0; point < count_; ++point) alive_[point] = alive_[point] && known(loop.only, point) != false;
    if (std::find(alive_.begin(), alive_.end(), true) == alive_.end()) break;
    if (depends(loop.only) || known(loop.only, 0)) continue;
    p_.open(str("if (", condition(loop.only, 0), ")"));
    guarded = true;
    true_.insert(loop.only);
  }
  if (guarded) p_.close();
  true_ = known_true;
  alive_ = alive;
}

// ---- Maxima and minima
// -------------------------------------------------------------------------------------------------

// What lies under the windows of several points in one column (a place along the line of points) is compared once, over
// all lines of the window; a point's result is then that of its few columns. Any order is right.
void PointsPrinter::print_extremes(const Stmt& stmt) {
  const Loop* along = stmt.loop.get();
  while (const Stmt* inner = inner_sum(along->body)) along = inner->loop.get();
  find_columns(*along);
  dependent_.insert(stmt.results[0]);
  const std::string type = vector_type(along->reduce_dtype);
  const std::string start = SimdDialect::splat(along->reduce_dtype, p_.identity(*along, 0));
  const std::string prefix = p_.name(copy_of(stmt.results[0], 0)) + "_under";
  for (size_t c = 0; c < columns_.size(); ++c) {
    columns_[c].name = str(prefix, c);
    p_.line(str(type, " ", columns_[c].name, " = ", start, ";"));
  }
  print_sum(stmt, false);
  for (size_t point = 0; point < count_; ++point) {
    std::string all;
    for (const size_t c : under_[point])
      all = all.empty() ? columns_[c].name : extreme_of(*along, all, columns_[c].name);
    p_.define(copy_of(stmt.results[0], point), all.empty() ? start : all, true);
  }
}

std::string PointsPrinter::extreme_of(const Loop& loop, const std::string& a, const std::string& b) const {
  return p_.dialect_.op(loop.reduce == ReduceOp::max ? ScalarOp::max : ScalarOp::min, loop.reduce_dtype, {a, b});
}

// A value from outside of the loop that each point has its own of.
bool PointsPrinter::comes_with_point(ValueId v, const Loop& along) const {
  const Stmt* made = definition(v);
  if (!made || std::any_of(along.body.begin(), along.body.end(), [&](const Stmt& stmt) { return &stmt == made; }))
    return false;
  return made->loop || depends(*made) ||
         std::any_of(made->args.begin(), made->args.end(), [&](ValueId arg) { return comes_with_point(arg, along); });
}

// Two places are of one column where they are loaded alike.
void PointsPrinter::find_columns(const Loop& along) {
  columns_.clear();
  under_.assign(count_, {});
  std::map<std::string, size_t> known_columns;
  for (int64_t place = 0; place < along.extent.value(); ++place) {
    unrolled_[along.var] = Expr(place);
    for (size_t point = 0; point < count_; ++point) {
      if (along.only != no_value && known(along.only, point) == false) continue;
      std::string key;
      for (const Stmt& stmt : along.body) {
        for (const Expr& e : stmt.index) key += simplify(substitute(e, variables(point)), p_.env_).text() + ",";
        key += simplify(substitute(stmt.expr, variables(point)), p_.env_).text() + ";";
        for (ValueId v : stmt.args)
          if (comes_with_point(v, along)) key += str("point ", point);
      }
      const auto [found, inserted] = known_columns.emplace(key, columns_.size());
      if (inserted) columns_.push_back({point, place, ""});
      under_[point].push_back(found->second);
    }
  }
  unrolled_.erase(along.var);
}

void PointsPrinter::print_columns(const Loop& along) {
  const std::vector<bool> alive = alive_;
  for (const Column& column : columns_) {
    unrolled_[along.var] = Expr(column.place);
    alive_.assign(count_, false);
    alive_[column.point] = true;
    p_.open("");
    for (const Stmt& stmt : along.body) print_stmt(stmt);
    const ValueId term = along.yields[0];
    const std::string value = p_.vector(depends(term) ? copy_of(term, column.point) : term);
    p_.line(str(column.name, " = ", extreme_of(along, column.name, value), ";"));
    p_.close();
  }
  unrolled_.erase(along.var);
  alive_ = alive;
}

void PointsPrinter::print_product(const Loop& loop) {
  const Stmt& product = loop.body.back();
  for (size_t point = 0; point < count_; ++point) {
    if (!alive_[point]) continue;
    auto factor = [&](size_t i) {
      const ValueId v = product.args[i];
      return p_.vector(depends(v) ? copy_of(v, point) : v);
    };
    const std::string sum = p_.name(sums_[point]);
    p_.line(str(sum, " = ", p_.dialect_.fused(factor(0), factor(1), sum), ";"));
  }
}

// ---- Statements
// --------------------------------------------------------------------------------------------------------

bool PointsPrinter::depends(const Stmt& stmt) const {
  bool found = stmt.kind == StmtKind::store || mentions(stmt.expr, loop_.var) || depends(stmt.mask);
  for (const Expr& e : stmt.index) found |= mentions(e, loop_.var);
  for (ValueId v : stmt.args) found |= depends(v);
  return found;
}

Substitution PointsPrinter::variables(size_t point) const {
  Substitution out = unrolled_;
  out[loop_.var] = point == any_point ? Expr::symbol(any_point_name()) : first_ + Expr(static_cast<int64_t>(point));
  return out;
}

ValueId PointsPrinter::copy_of(ValueId v, size_t point) {
  const auto [found, inserted] = copies_.emplace(std::pair(v, point), no_value);
  if (inserted) {
    p_.value_types_.push_back(p_.type(v));
    found->second = static_cast<ValueId>(p_.value_types_.size()) - 1;
  }
  return found->second;
}

void PointsPrinter::print_stmt(const Stmt& stmt) {
  const bool differs = depends(stmt);
  if (differs)
    for (ValueId v : stmt.results) dependent_.insert(v);
  if (!stmt.results.empty() && mask_values_.contains(stmt.results[0])) return;
  for (size_t point = 0; point < (differs ? count_ : 1); ++point)
    if (!differs || alive_[point]) print_copy(stmt, point);
}

// Where it is known which of the two is chosen, it is that one. False: it is not known.
bool PointsPrinter::print_choice(const Stmt& stmt, size_t point) {
  const std::optional<bool> first = known(stmt.args[0], point);
  if (!first) return false;
  const ValueId chosen = stmt.args[*first ? 1 : 2];
  p_.define(depends(stmt) ? copy_of(stmt.results[0], point) : stmt.results[0],
            p_.vector(depends(chosen) ? copy_of(chosen, point) : chosen), true);
  return true;
}

void PointsPrinter::print_copy(const Stmt& source, size_t point) {
  if (is_choice(source) && print_choice(source, point)) return;
  Stmt stmt = source.clone();
  const Substitution map = variables(point);
  for (Expr& e : stmt.index) e = substitute(e, map);
  stmt.expr = substitute(stmt.expr, map);
  if (stmt.kind == StmtKind::load && stmt.mask != no_value &&
      (mask_values_.contains(stmt.mask) || true_.contains(stmt.mask))) {
    const std::optional<bool> on = known(stmt.mask, point);
    if (on == true) {
      stmt.mask = no_value;
    } else {
      p_.value_types_.push_back(DType::boolean);
      stmt.mask = static_cast<ValueId>(p_.value_types_.size()) - 1;
      p_.define(stmt.mask, condition(source.mask, point), false);
    }
  } else if (depends(stmt.mask)) {
    stmt.mask = copy_of(stmt.mask, point);
  }
  if (is_choice(source) && mask_values_.contains(source.args[0])) {
    p_.value_types_.push_back(DType::boolean);
    stmt.args[0] = static_cast<ValueId>(p_.value_types_.size()) - 1;
    p_.define(stmt.args[0], condition(source.args[0], point), false);
  }
  for (ValueId& v : stmt.args)
    if (depends(v)) v = copy_of(v, point);
  if (depends(source))
    for (ValueId& v : stmt.results) v = copy_of(v, point);
  p_.print_stmt(stmt);
}

// ---- Conditions
// --------------------------------------------------------------------------------------------------------

const Stmt* PointsPrinter::definition(ValueId v) const {
  const auto found = definitions_.find(v);
  return found == definitions_.end() ? nullptr : found->second;
}

std::optional<Expr> PointsPrinter::number(ValueId v) const {
  const Stmt* made = definition(v);
  if (!made || made->kind != StmtKind::index_value || made->expr.is_float()) return {};
  return made->expr;
}

std::optional<Expr> PointsPrinter::number(ValueId v, size_t point) const {
  const std::optional<Expr> at = number(v);
  return at ? std::optional<Expr>(substitute(*at, variables(point))) : std::nullopt;
}

std::optional<bool> PointsPrinter::known(ValueId v, size_t point) const {
  if (true_.contains(v)) return true;
  const Stmt* made = definition(v);
  if (!made || made->kind != StmtKind::op) return {};
  if (made->op == ScalarOp::logical_and) {
    const std::optional<bool> a = known(made->args[0], point), b = known(made->args[1], point);
    if (a == false || b == false) return false;
    return a && b ? std::optional<bool>(true) : std::nullopt;
  }
  if (!is_comparison(made->op)) return {};
  if ((inside_ && ends_.contains(made)) || true_terms_.contains(made)) return true;
  const std::optional<Expr> left = number(made->args[0], point), right = number(made->args[1], point);
  if (!left || !right) return {};
  Proof proof = Proof::unknown;
  switch (made->op) {
    case ScalarOp::ge:
      proof = prove_le(*right, *left, p_.env_);
      break;
    case ScalarOp::gt:
      proof = prove_lt(*right, *left, p_.env_);
      break;
    case ScalarOp::le:
      proof = prove_le(*left, *right, p_.env_);
      break;
    case ScalarOp::lt:
      proof = prove_lt(*left, *right, p_.env_);
      break;
    default:
      break;
  }
  return proof == Proof::unknown ? std::nullopt : std::optional<bool>(proof == Proof::yes);
}

std::string PointsPrinter::condition(ValueId v, size_t point) {
  if (const std::optional<bool> sure = known(v, point)) return *sure ? "true" : "false";
  const Stmt* made = definition(v);
  if (!mask_values_.contains(v) || !made || made->kind != StmtKind::op)
    return p_.name(depends(v) ? copy_of(v, point) : v);
  const ValueId a = made->args[0], b = made->args[1];
  if (made->op == ScalarOp::logical_and) {
    if (known(a, point)) return condition(b, point);
    if (known(b, point)) return condition(a, point);
    return str("(", condition(a, point), " & ", condition(b, point), ")");
  }
  auto operand = [&](ValueId x) {
    const std::optional<Expr> as = number(x, point);
    return as ? p_.expr(*as) : p_.name(depends(x) ? copy_of(x, point) : x);
  };
  return p_.dialect_.op(made->op, p_.type(a), {operand(a), operand(b)});
}

}  // namespace kiln::codegen
