// Mean and variance, found one element at a time with a division in each step, become two sums, which run in lanes: the
// mean first, then the squares of what differs from it. Both in f64, so that nothing is lost against the other way; on
// a GPU, where f64 is dear, in f32, of which its threads add up but a few each before these meet in pairs.
#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// The nested loops of a welford reduction, outermost first: each but the innermost yields what the next one gives.
std::vector<const Loop*> levels_of(const Stmt& stmt) {
  std::vector<const Loop*> out;
  for (const Stmt* at = &stmt; at;) {
    const Loop& loop = *at->loop;
    out.push_back(&loop);
    const Stmt* inner = nullptr;
    for (const Stmt& s : loop.body) {
      if (s.kind == StmtKind::loop && inner) return {};
      if (s.kind == StmtKind::loop) inner = &s;
      if (s.kind == StmtKind::store || s.kind == StmtKind::raise_if || s.kind == StmtKind::check_index ||
          s.kind == StmtKind::random)
        return {};
    }
    if (!inner) return loop.yields.size() == 1 ? out : std::vector<const Loop*>();
    const bool same = inner->loop->role == AxisRole::reduce && inner->loop->reduce == ReduceOp::welford &&
                      inner->results == loop.yields && &loop.body.back() == inner;
    if (!same) return {};
    at = inner;
  }
  return {};
}

class Splitter {
 public:
  Splitter(Kernel& kernel, const LoopProgram& program, DType least)
      : kernel_(kernel), ranges_(program.ranges()), used_(variables_of(kernel)), least_(least) {}

  bool visit(Body& body) {
    bool changed = false;
    Body out;
    for (Stmt& stmt : body) {
      // The outermost of nested ones first, and all of them or none: the mean of a part is not rounded.
      const bool moments = stmt.loop && stmt.loop->role == AxisRole::reduce && stmt.loop->reduce == ReduceOp::welford;
      if (moments && split(stmt, out)) {
        changed = true;
        continue;
      }
      if (stmt.loop && (!moments || levels_of(stmt).empty())) {
        changed |= visit(stmt.loop->body);
        changed |= visit(stmt.loop->after);
      }
      if (!goes_on_wide(stmt, out)) out.push_back(std::move(stmt));
    }
    body = std::move(out);
    return changed;
  }

 private:
  // The variance is a quotient of the sum, and the deviation its root: f32 has no place for squares of 1e20 or 1e-25,
  // nor for the sum of many, where the result is a number that it has. Of each row one number is divided.
  bool goes_on_wide(const Stmt& stmt, Body& out) {
    const bool quotient = stmt.kind == StmtKind::op && stmt.op == ScalarOp::div && stmt.dtype == DType::f32,
               root = stmt.kind == StmtKind::op && stmt.op == ScalarOp::sqrt && stmt.dtype == DType::f32;
    const auto wide = quotient || root ? wide_of_.find(stmt.args[0]) : wide_of_.end();
    if (wide == wide_of_.end()) return false;
    wide_ = DType::f64;
    const ValueId value =
        quotient ? op(ScalarOp::div, {wide->second, cast(stmt.args[1], out)}, out) : op(stmt.op, {wide->second}, out);
    append(out, op_stmt_to(stmt.results[0], ScalarOp::cast, DType::f32, {value}));
    wide_of_[stmt.results[0]] = value;
    return true;
  }

  bool split(const Stmt& stmt, Body& out) {
    const std::vector<const Loop*> levels = levels_of(stmt);
    if (levels.empty()) return false;
    Expr count = 1;
    for (const Loop* loop : levels) {
      if (range_of(loop->extent, ranges_).low < 1) return false;  // of nothing there is no mean
      count = count * loop->extent;
    }
    const DType dtype = stmt.loop->reduce_dtype;
    wide_ = dtype == DType::f64 ? dtype : least_;
    const ValueId number = index(count, out);
    const ValueId sum = sum_of(levels, no_value, out);
    const ValueId mean = op(ScalarOp::div, {sum, number}, out);
    const ValueId squares = sum_of(levels, mean, out);
    // Element by element what follows an infinite one makes NaN of the mean.
    const ValueId nothing = op(ScalarOp::sub, {mean, mean}, out);
    const ValueId made[] = {op(ScalarOp::add, {mean, nothing}, out), squares, number};
    for (size_t i = 0; i < stmt.results.size(); ++i)
      append(out, op_stmt_to(stmt.results[i], ScalarOp::cast, dtype, {made[i]}));
    if (wide_ == DType::f64 && dtype == DType::f32) wide_of_[stmt.results[1]] = squares;
    return true;
  }

  // A copy of the loops that sums up their values, or (with a mean) the squares of how far they are from it.
  ValueId sum_of(const std::vector<const Loop*>& levels, ValueId mean, Body& out) {
    Copier copier(kernel_, kernel_, used_);
    for (size_t v = 0; v < kernel_.value_types.size(); ++v)
      copier.values[static_cast<ValueId>(v)] = static_cast<ValueId>(v);
    for (const Loop* loop : levels)
      for_each_stmt(loop->body, [&](const Stmt& s) {
        for (ValueId v : s.results) copier.values.erase(v);
      });
    const ValueId total = level(levels, 0, mean, copier, out);
    return total;
  }

  ValueId level(const std::vector<const Loop*>& levels, size_t depth, ValueId mean, Copier& copier, Body& out) {
    const Loop& source = *levels[depth];
    const ValueId result = new_value(kernel_, wide_);
    Stmt stmt = reduction_stmt(fresh(source.var), copier.expr(source.extent), AxisRole::reduce, ReduceOp::sum, wide_);
    stmt.results = {result};
    Loop& loop = *stmt.loop;
    copier.variables[source.var] = Expr::symbol(loop.var);
    for (const Stmt& s : source.body)
      if (s.kind != StmtKind::loop) loop.body.push_back(copier.copy(s, loop.body));
    if (depth + 1 < levels.size()) {
      loop.yields = {level(levels, depth + 1, mean, copier, loop.body)};
    } else {
      ValueId term = cast(copier.value(source.yields[0]), loop.body);
      if (mean != no_value) {
        const ValueId off = op(ScalarOp::sub, {term, mean}, loop.body);
        term = op(ScalarOp::mul, {off, off}, loop.body);
      }
      loop.yields = {term};
    }
    return append(out, std::move(stmt));
  }

  std::string fresh(const std::string& like) {
    int n = 0;
    while (!used_.insert(str(like, "_", n)).second) ++n;
    return str(like, "_", n);
  }
  ValueId cast(ValueId v, Body& out) {
    if (kernel_.value_types[static_cast<size_t>(v)] == wide_) return v;
    return append(out, op_stmt(kernel_, ScalarOp::cast, wide_, {v}));
  }
  ValueId op(ScalarOp which, std::vector<ValueId> args, Body& out) {
    return append(out, op_stmt(kernel_, which, wide_, std::move(args)));
  }
  ValueId index(const Expr& e, Body& out) { return append(out, index_stmt(kernel_, wide_, e)); }

  Kernel& kernel_;
  RangeEnv ranges_;
  std::set<std::string> used_;
  std::map<ValueId, ValueId> wide_of_;  // what is rounded to f32 -> as it was
  const DType least_;                   // in which sums are added up at least
  DType wide_ = DType::f64;
};

}  // namespace

bool split_variances(LoopProgram& program, Log&, const Target& target) {
  bool changed = false;
  const DType least = target.is_gpu() ? DType::f32 : DType::f64;
  auto each = [&](Item& item) {
    if (auto* kernel = std::get_if<Kernel>(&item.what))
      changed |= Splitter(*kernel, program, least).visit(kernel->body);
  };
  for_each_item(program.init, each);
  for_each_item(program.block, each);
  return changed;
}

}  // namespace kiln::loops
