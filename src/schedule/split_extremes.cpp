// Where the largest element of a row is (argmax) is found one element at a time, with two numbers that go along. As two
// reductions, how much it is and the first place that has as much, it runs in lanes, twice over the row. What a row is
// computed from is computed twice then, so only plain loads are taken.
#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

constexpr size_t cheap_statements = 3;  // a load, and what widens it

class Extremes {
 public:
  Extremes(Kernel& kernel, const LoopProgram& program)
      : kernel_(kernel), ranges_(program.ranges()), used_(variables_of(kernel)) {}

  bool visit(Body& body) {
    bool changed = false;
    Body out;
    for (Stmt& stmt : body) {
      if (stmt.loop && fits(*stmt.loop)) {
        split(stmt, out);
        changed = true;
        continue;
      }
      if (stmt.loop) {
        changed |= visit(stmt.loop->body);
        changed |= visit(stmt.loop->after);
      }
      out.push_back(std::move(stmt));
    }
    body = std::move(out);
    return changed;
  }

 private:
  // Of a row with an element: of none neither reduction gives what argmax does.
  bool fits(const Loop& loop) const {
    const bool extreme =
        loop.role == AxisRole::reduce && (loop.reduce == ReduceOp::argmax || loop.reduce == ReduceOp::argmin);
    if (!extreme || loop.reduce_dtype == DType::boolean || loop.yields.size() != 1 || !loop.after.empty() ||
        loop.only != no_value)
      return false;
    if (loop.body.size() > cheap_statements || range_of(loop.extent, ranges_).low < 1) return false;
    return std::all_of(loop.body.begin(), loop.body.end(), [](const Stmt& stmt) {
      return stmt.kind == StmtKind::load || stmt.kind == StmtKind::constant ||
             (stmt.kind == StmtKind::op && stmt.op == ScalarOp::cast);
    });
  }

  void split(Stmt& stmt, Body& out) {
    Loop& source = *stmt.loop;
    const DType dtype = source.reduce_dtype;
    const bool largest = source.reduce == ReduceOp::argmax;
    Stmt places = reduction_stmt(fresh(source.var), source.extent, AxisRole::reduce, ReduceOp::min, DType::i64);
    Copier copier(kernel_, kernel_, used_);
    for (size_t v = 0; v < kernel_.value_types.size(); ++v)
      copier.values[static_cast<ValueId>(v)] = static_cast<ValueId>(v);
    for (const Stmt& s : source.body)
      for (ValueId v : s.results) copier.values.erase(v);
    copier.variables[source.var] = Expr::symbol(places.loop->var);
    Body& inner = places.loop->body;
    for (const Stmt& s : source.body) inner.push_back(copier.copy(s, inner));
    const ValueId element = copier.value(source.yields[0]);
    // The first loop as it is, for its value alone.
    const std::vector<ValueId> results = stmt.results;
    const ValueId most = results[0];
    source.reduce = largest ? ReduceOp::max : ReduceOp::min;
    stmt.results = {most};
    out.push_back(std::move(stmt));
    ValueId same = append(inner, op_stmt(kernel_, ScalarOp::eq, DType::boolean, {element, most}));
    if (is_float(dtype)) {  // NaN comes before all, and two are equal here
      const ValueId nan = append(out, op_stmt(kernel_, ScalarOp::is_nan, DType::boolean, {most}));
      const ValueId here = append(inner, op_stmt(kernel_, ScalarOp::is_nan, DType::boolean, {element}));
      const ValueId both = append(inner, op_stmt(kernel_, ScalarOp::logical_and, DType::boolean, {nan, here}));
      same = append(inner, op_stmt(kernel_, ScalarOp::logical_or, DType::boolean, {same, both}));
    }
    const ValueId at = append(inner, index_stmt(kernel_, DType::i64, Expr::symbol(places.loop->var)));
    const ValueId beyond = append(inner, index_stmt(kernel_, DType::i64, places.loop->extent));
    places.loop->yields = {append(inner, op_stmt(kernel_, ScalarOp::select, DType::i64, {same, at, beyond}))};
    places.results = {results[1]};
    out.push_back(std::move(places));
  }

  std::string fresh(const std::string& like) {
    int n = 0;
    while (!used_.insert(str(like, "_", n)).second) ++n;
    return str(like, "_", n);
  }

  Kernel& kernel_;
  RangeEnv ranges_;
  std::set<std::string> used_;
};

}  // namespace

bool split_extremes(LoopProgram& program, const Target& target, Log&) {
  bool changed = false;
  if (target.is_gpu()) return false;
  auto each = [&](Item& item) {
    if (auto* kernel = std::get_if<Kernel>(&item.what)) changed |= Extremes(*kernel, program).visit(kernel->body);
  };
  for_each_item(program.block, each);
  return changed;
}

}  // namespace kiln::loops
