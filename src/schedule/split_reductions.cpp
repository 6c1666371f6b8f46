// A long reduction of few items would leave most of a GPU idle: it becomes two kernels. The first reduces parts of it,
// each of which is an item of its own; the second, which is what the kernel was, reduces the parts. Which part has what
// and in which order the parts meet is written in the loops, so the result has the same bits on every run.
#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

constexpr double long_reduction = 32 << 10;  // terms that keep a block of threads at work for long
constexpr double long_column = 256;          // terms of a sum that one thread runs
constexpr double threads_that_fill = 1024;   // of a multiprocessor
constexpr double blocks_that_fill = 4;       // likewise, where a block of threads takes a part together
constexpr int64_t least_terms_of_a_part = 32;

bool has_division(const Expr& e) {
  if (e.op() == ExprOp::floordiv || e.op() == ExprOp::mod) return true;
  if (e.op() == ExprOp::constant || e.op() == ExprOp::symbol || e.op() == ExprOp::float_constant) return false;
  return std::any_of(e.args().begin(), e.args().end(), has_division);
}

// Nested reductions that run through memory in one line become one, which threads share out better.
bool collapse_reduction(Stmt& stmt, Kernel& kernel, const LoopProgram& program) {
  Loop& outer = *stmt.loop;
  if (outer.body.size() != 1 || !outer.body[0].loop) return false;
  Loop& inner = *outer.body[0].loop;
  const bool same = outer.role == AxisRole::reduce && inner.role == AxisRole::reduce && outer.reduce == inner.reduce &&
                    outer.reduce_dtype == inner.reduce_dtype && reduce_info(outer.reduce).accumulators == 1 &&
                    outer.body[0].results == outer.yields && !mentions(inner.extent, outer.var);
  if (!same) return false;
  const RangeEnv env = kernel_ranges(kernel, program);
  const Expr one = Expr::symbol(outer.var), extent = simplify(outer.extent * inner.extent, env);
  const Substitution map{{outer.var, floordiv(one, inner.extent)}, {inner.var, mod(one, inner.extent)}};
  RangeEnv after = env;
  const int64_t high = range_of(extent, env).high;
  after.ranges[outer.var] = {0, high == INT64_MAX ? INT64_MAX : std::max<int64_t>(0, high - 1)};
  after.upper[outer.var] = extent - 1;
  after.ranges.erase(inner.var);
  after.upper.erase(inner.var);
  Body body = clone(inner.body);
  bool fine = true;
  for (Stmt& s : body) {
    if (s.loop) return false;
    for (Expr& e : s.index) e = simplify(substitute(e, map), after);
    s.expr = simplify(substitute(s.expr, map), after);
    if (s.kind == StmtKind::load) fine &= !has_division(address_of(s, program, after));
    if (s.kind == StmtKind::index_value || s.kind == StmtKind::random || s.kind == StmtKind::check_index)
      fine &= !has_division(s.expr);
  }
  if (!fine) return false;
  rename_in_names(kernel, map);
  outer.yields = inner.yields;
  outer.extent = extent;
  outer.body = std::move(body);
  return true;
}
bool collapse_reductions(Body& body, Kernel& kernel, const LoopProgram& program) {
  bool changed = false;
  for (Stmt& stmt : body) {
    if (!stmt.loop) continue;
    changed |= collapse_reductions(stmt.loop->body, kernel, program);
    changed |= collapse_reduction(stmt, kernel, program);
  }
  return changed;
}

bool splits(ReduceOp op) { return reduce_info(op).accumulators == 1; }

class ReductionSplitter {
 public:
  ReductionSplitter(LoopProgram& program, Kernel& kernel, const Target& target)
      : program_(program), kernel_(kernel), target_(target), env_(kernel_ranges(kernel, program)) {}

  // The kernels that have to run before this one.
  std::vector<Kernel> run(Log& log) {
    std::vector<Kernel> out;
    for (Stmt& stmt : enter_items()) {
      if (stmt.loop && stmt.loop->role == AxisRole::reduce && try_split(stmt, out))
        log.add([&] {
          return Decision{
              "split reduction of", kernel_.name, "", "", "too few items would run beside one another", true, ""};
        });
      if (is_value(stmt)) front_.push_back(&stmt);
    }
    return out;
  }

  // The parts of the reduction that begins with the loop `outer`, split along `var`.
  std::optional<Kernel> parts_of(const std::string& outer, const std::string& var, int64_t parts) {
    for (Stmt& stmt : enter_items()) {
      if (is_value(stmt)) front_.push_back(&stmt);
      if (!stmt.loop || stmt.loop->var != outer) continue;
      const std::vector<Loop*> chain = chain_of(stmt);
      for (size_t i = 0; i < chain.size(); ++i)
        if (chain[i]->var == var && needs_values_only(stmt)) return part_kernel(stmt, chain, i, parts);
    }
    return {};
  }

 private:
  Body& enter_items() {
    Body* body = &kernel_.body;
    // The perfect nest, with values in front of each loop.
    while (true) {
      Stmt* next = nullptr;
      bool pure = true;
      for (Stmt& stmt : *body) {
        if (&stmt == &body->back() && stmt.loop && stmt.loop->role == AxisRole::parallel) {
          next = &stmt;
          break;
        }
        pure &= is_value(stmt);
      }
      if (!next || !pure || next->loop->directives.binding != Binding::none || mentions_item(next->loop->extent)) break;
      for (Stmt& stmt : *body)
        if (&stmt != next) front_.push_back(&stmt);
      items_.push_back(next->loop.get());
      body = &next->loop->body;
    }
    return *body;
  }

  static bool is_value(const Stmt& stmt) {
    return stmt.kind == StmtKind::op || stmt.kind == StmtKind::constant || stmt.kind == StmtKind::index_value ||
           stmt.kind == StmtKind::load;
  }
  bool mentions_item(const Expr& e) const {
    return std::any_of(items_.begin(), items_.end(), [&](const Loop* loop) { return mentions(e, loop->var); });
  }

  // The chain of reductions from the outermost in, each of which yields what the next one gives.
  static std::vector<Loop*> chain_of(Stmt& stmt) {
    std::vector<Loop*> out;
    for (Stmt* at = &stmt; at;) {
      Loop& loop = *at->loop;
      if (loop.role != AxisRole::reduce || !splits(loop.reduce) || !loop.after.empty() ||
          loop.reduce != stmt.loop->reduce || loop.reduce_dtype != stmt.loop->reduce_dtype)
        return {};
      out.push_back(&loop);
      Stmt* inner = nullptr;
      for (Stmt& s : loop.body) {
        if (s.loop && inner) return {};
        if (s.loop) inner = &s;
        if (!s.loop && !is_value(s)) return {};
      }
      if (inner && inner->results != loop.yields) return {};
      at = inner;
    }
    return out;
  }

  bool try_split(Stmt& stmt, std::vector<Kernel>& out) {
    const std::vector<Loop*> chain = chain_of(stmt);
    if (chain.empty()) return false;
    double terms = 1, items = 1;
    for (const Loop* loop : chain) {
      if (mentions_item(loop->extent)) return false;
      terms *= std::max(1.0, estimate(loop->extent, program_));
    }
    for (const Loop* loop : items_) items *= std::max(1.0, estimate(loop->extent, program_));
    // Down a column each thread has a sum, else a block of them.
    const bool column = is_column(chain);
    const double enough =
        column ? target_.multiprocessors * threads_that_fill : target_.multiprocessors * blocks_that_fill;
    if (terms < (column ? long_column : long_reduction) || items * 2 > enough) return false;
    const Accesses inside = accesses(chain[0]->body), all = accesses(kernel_.body);
    for (BufferId b : inside.reads)
      if (all.writes.contains(b)) return false;
    if (!needs_values_only(stmt)) return false;
    const double wanted = enough / items;
    // The outermost loop that is long enough, else the longest.
    size_t which = 0;
    for (size_t i = 0; i < chain.size(); ++i)
      if (estimate(chain[i]->extent, program_) > estimate(chain[which]->extent, program_) &&
          estimate(chain[which]->extent, program_) < wanted)
        which = i;
    const double inner = terms / std::max(1.0, estimate(chain[which]->extent, program_));
    const double most = estimate(chain[which]->extent, program_) /
                        std::max(1.0, std::ceil(static_cast<double>(least_terms_of_a_part) / inner));
    const int64_t parts = parts_for(chain[which]->extent, static_cast<int64_t>(std::min(wanted, most)));
    if (parts < 2) return false;
    out.push_back(part_kernel(stmt, chain, which, parts));
    return true;
  }

  bool is_column(const std::vector<Loop*>& chain) const {
    if (items_.empty()) return false;
    int along = 0, apart = 0;
    for (const Stmt& stmt : chain.back()->body) {
      if (stmt.kind != StmtKind::load) continue;
      const auto affine = affine_in(address_of(stmt, program_, env_), items_.back()->var);
      if (affine && affine->coefficient.is_constant(0)) continue;  // the same for all neighbours
      (affine && affine->coefficient.is_constant(1) ? along : apart) += 1;
    }
    return along > apart && estimate(items_.back()->extent, program_) >= 32;
  }

  // As many as wanted, about: without a rest where that is possible.
  static int64_t parts_for(const Expr& extent, int64_t wanted) {
    if (!extent.is_constant()) return wanted;
    for (int64_t p = wanted; p * 2 > wanted && p > 1; --p)
      if (extent.value() % p == 0) return p;
    return std::min(wanted, extent.value());
  }

  // Takes the reduction out: what is left reduces the parts.
  Kernel part_kernel(Stmt& stmt, const std::vector<Loop*>& chain, size_t which, int64_t parts) {
    const DType dtype = stmt.loop->reduce_dtype;
    Buffer made;
    made.name = kernel_.name + "_parts";
    made.dtype = dtype;
    for (const Loop* loop : items_) made.sizes.push_back(loop->extent);
    made.sizes.insert(made.sizes.begin(), Expr(parts));  // neighbours in memory are neighbours of the kernel
    made.strides.assign(made.sizes.size(), Expr(1));
    for (size_t d = made.sizes.size(); d-- > 1;) made.strides[d - 1] = made.strides[d] * made.sizes[d];
    const BufferId partial = program_.add_buffer(std::move(made));

    Kernel out;
    out.name = kernel_.name + "_parts";
    out.op_names = kernel_.op_names;
    out.origins = kernel_.origins;
    const std::string part = "part";
    Copier copier(kernel_, out, {part});
    std::vector<Expr> index = {Expr::symbol(part)};
    std::vector<std::pair<std::string, Expr>> nest;
    for (size_t i = 0; i < items_.size(); ++i) {
      const std::string var = str("i", i);
      copier.variables[items_[i]->var] = Expr::symbol(var);
      nest.push_back({var, items_[i]->extent});
      index.push_back(Expr::symbol(var));
    }
    Body body;
    for (const Stmt* value : needed_by(stmt)) append(body, copier.copy(*value, body));
    // The loop that is split runs through a part of it: its variable counts from the part's beginning.
    Loop& split = *chain[which];
    const Expr whole = split.extent, chunk = ceildiv(whole, parts);
    const std::string var = split.var;
    Stmt copy = stmt.clone();
    Loop* at = copy.loop.get();
    for (size_t i = 0; i < which; ++i)
      for (Stmt& s : at->body)
        if (s.loop) {
          at = s.loop.get();
          break;
        }
    const bool exact = whole.is_constant() && whole.value() % parts == 0;
    const Expr begin = Expr::symbol(part) * chunk;
    at->extent = exact ? chunk : max_expr(Expr(0), min_expr(chunk, whole - begin));
    const Expr moved = Expr::symbol(var) + begin;
    for_each_stmt(at->body, [&](Stmt& s) {
      for (Expr& e : s.index) e = substitute(e, {{var, moved}});
      s.expr = substitute(s.expr, {{var, moved}});
    });
    copier.variables[part] = Expr::symbol(part);
    Stmt reduced = copier.copy(copy, body);
    const ValueId result = append(body, std::move(reduced));
    append(body, store_stmt(dtype, partial, index, result));
    for (size_t i = nest.size(); i-- > 0;) {
      Stmt loop = loop_stmt(nest[i].first, nest[i].second);
      loop.loop->body = std::move(body);
      body.clear();
      body.push_back(std::move(loop));
    }
    Stmt loop = loop_stmt(part, Expr(parts));
    loop.loop->body = std::move(body);
    out.body.clear();
    out.body.push_back(std::move(loop));

    // What is left of the reduction here.
    std::set<std::string> taken = variables_of(kernel_);
    std::string over = "p0";
    for (int n = 1; taken.contains(over); ++n) over = str("p", n);
    Stmt rest = reduction_stmt(over, Expr(parts), AxisRole::reduce, stmt.loop->reduce, dtype);
    rest.results = stmt.results;
    std::vector<Expr> from = {Expr::symbol(over)};
    for (const Loop* item : items_) from.push_back(Expr::symbol(item->var));
    rest.loop->yields = {append(rest.loop->body, load_stmt(kernel_, dtype, partial, from))};
    std::erase_if(kernel_.named, [&](const NamedValue& named) {  // values inside of what moved
      bool inside = false;
      for_each_stmt(stmt.loop->body, [&](const Stmt& s) {
        for (ValueId v : s.results) inside |= v == named.value || v == named.mask;
      });
      return inside;
    });
    stmt = std::move(rest);
    return out;
  }

  // Whether all that the reduction reads from around it are plain values: what other loops made stays where it is.
  bool needs_values_only(const Stmt& stmt) const {
    std::set<ValueId> known = {no_value};
    for (const Stmt* value : front_) known.insert(value->results.at(0));
    bool all = true;
    auto look = [&](const Stmt& s) {
      for (ValueId v : s.args) all &= known.contains(v);
      all &= known.contains(s.mask);
      known.insert(s.results.begin(), s.results.end());
    };
    for (const Stmt* value : needed_by(stmt)) look(*value);
    std::function<void(const Body&)> walk = [&](const Body& body) {
      for (const Stmt& s : body) {
        if (s.loop) walk(s.loop->body);
        look(s);
      }
    };
    walk(stmt.loop->body);
    return all;
  }

  // The values around that the reduction reads, in order.
  std::vector<const Stmt*> needed_by(const Stmt& stmt) const {
    std::set<ValueId> needed;
    for_each_stmt(stmt.loop->body, [&](const Stmt& s) {
      needed.insert(s.args.begin(), s.args.end());
      needed.insert(s.mask);
    });
    std::vector<const Stmt*> out;
    for (size_t i = front_.size(); i-- > 0;) {
      if (!needed.contains(front_[i]->results.at(0))) continue;
      needed.insert(front_[i]->args.begin(), front_[i]->args.end());
      needed.insert(front_[i]->mask);
      out.insert(out.begin(), front_[i]);
    }
    return out;
  }

  LoopProgram& program_;
  Kernel& kernel_;
  const Target& target_;
  RangeEnv env_;
  std::vector<Loop*> items_;
  std::vector<const Stmt*> front_;  // values in front of what is looked at
};

bool split_in(Block& block, LoopProgram& program, const Target& target, Log& log) {
  bool changed = false;
  for (size_t i = 0; i < block.size(); ++i) {
    if (auto* cond = std::get_if<Cond>(&block[i].what)) {
      changed |= split_in(*cond->then_block, program, target, log);
      changed |= split_in(*cond->else_block, program, target, log);
    }
    if (auto* loop = std::get_if<While>(&block[i].what)) {
      changed |= split_in(*loop->condition_block, program, target, log);
      changed |= split_in(*loop->body_block, program, target, log);
    }
    auto* kernel = std::get_if<Kernel>(&block[i].what);
    if (!kernel || kernel->schedule) continue;
    if (collapse_reductions(kernel->body, *kernel, program)) changed = true, kernel->contraction.reset();
    std::vector<Kernel> parts = ReductionSplitter(program, *kernel, target).run(log);
    if (parts.empty()) continue;
    changed = true;
    kernel->contraction.reset();
    for (Kernel& part : parts) block.insert(block.begin() + static_cast<std::ptrdiff_t>(i++), Item{std::move(part)});
  }
  return changed;
}

}  // namespace

std::optional<Kernel> split_sum(LoopProgram& program, Kernel& kernel, const Target& target, const std::string& outer,
                                const std::string& var, int64_t parts) {
  return ReductionSplitter(program, kernel, target).parts_of(outer, var, parts);
}

bool split_reductions(LoopProgram& program, const Target& target, Log& log) {
  if (!target.is_gpu()) return false;
  return split_in(program.block, program, target, log);
}

}  // namespace kiln::loops
