#include "schedule/unroll_windows.h"

#include "loop_passes/rewrite.h"

namespace kiln::loops {
namespace {

constexpr int64_t most_window_terms = 64;  // of all windows of an item

std::optional<ScalarOp> operator_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return ScalarOp::add;
    case ReduceOp::prod:
      return ScalarOp::mul;
    case ReduceOp::max:
      return ScalarOp::max;
    case ReduceOp::min:
      return ScalarOp::min;
    case ReduceOp::any:
      return ScalarOp::logical_or;
    case ReduceOp::all:
      return ScalarOp::logical_and;
    default:
      return {};
  }
}

// The terms of a reduction and of those inside of it; 0: it is no window that can be written out.
int64_t window_terms(const Kernel& kernel, const Loop& loop) {
  if (loop.role != AxisRole::reduce || !loop.after.empty() || !operator_of(loop.reduce) || loop.yields.size() != 1 ||
      !loop.extent.is_constant() || loop.extent.value() < 1 || loop.extent.value() > most_window_terms ||
      kernel.value_types[static_cast<size_t>(loop.yields[0])] != loop.reduce_dtype)
    return 0;
  int64_t inner = 0;
  for (const Stmt& stmt : loop.body) {
    if (stmt.kind == StmtKind::store || stmt.kind == StmtKind::check_index || stmt.kind == StmtKind::raise_if ||
        stmt.kind == StmtKind::random)
      return 0;
    if (!stmt.loop) continue;
    const int64_t terms = window_terms(kernel, *stmt.loop);
    if (terms == 0) return 0;
    inner += terms;
  }
  return loop.extent.value() * std::max<int64_t>(1, inner);
}

class Unroller {
 public:
  explicit Unroller(Kernel& kernel) : kernel_(kernel), copier_(kernel, kernel) {}

  // Gives the value that is the reduction's.
  ValueId write_out(const Stmt& reduction, Body& to) {
    const Loop& loop = *reduction.loop;
    const ScalarOp op = *operator_of(loop.reduce);
    const Stmt* product = is_float(loop.reduce_dtype) ? summed_product(loop) : nullptr;
    ValueId sofar = no_value;
    // A sum begins with 0, which makes 0 of -0.
    if (loop.reduce == ReduceOp::sum)
      sofar = append(to, constant_stmt(kernel_, loop.reduce_dtype,
                                       is_float(loop.reduce_dtype) ? Scalar(0.0) : Scalar(int64_t{0})));
    for (int64_t i = 0; i < loop.extent.value(); ++i) {
      copier_.variables[loop.var] = Expr(i);
      for (const Stmt& stmt : loop.body) {
        if (&stmt == product) continue;
        for (ValueId v : stmt.results) copier_.values.erase(v);  // each term has its own
        if (stmt.loop)
          copier_.values[stmt.results[0]] = write_out(stmt, to);
        else
          append(to, copy(stmt, to));
      }
      if (product)
        sofar = append(to, op_stmt(kernel_, ScalarOp::fma, loop.reduce_dtype,
                                   {known(product->args[0]), known(product->args[1]), sofar}));
      else if (const ValueId term = known(loop.yields[0]); sofar == no_value)
        sofar = term;
      else
        sofar = append(to, op_stmt(kernel_, op, loop.reduce_dtype, {sofar, term}));
    }
    return sofar;
  }

 private:
  // What stands outside of the windows is what it was.
  ValueId known(ValueId v) { return copier_.values.try_emplace(v, v).first->second; }
  Stmt copy(const Stmt& stmt, Body& to) {
    for (ValueId v : stmt.args) known(v);
    if (stmt.mask != no_value) known(stmt.mask);
    return copier_.copy(stmt, to);
  }

  Kernel& kernel_;
  Copier copier_;
};

}  // namespace

bool unroll_windows(Kernel& kernel, Body& item) {
  int64_t terms = 0;
  for (const Stmt& stmt : item) {
    if (!stmt.loop) continue;
    const int64_t own = window_terms(kernel, *stmt.loop);
    if (own == 0) return false;
    terms += own;
  }
  if (terms == 0 || terms > most_window_terms) return false;
  Body out;
  std::set<ValueId> inside;
  Unroller unroller(kernel);
  std::map<ValueId, ValueId> results;
  for (Stmt& stmt : item) {
    if (!stmt.loop) {
      out.push_back(std::move(stmt));
      continue;
    }
    for_each_stmt(stmt.loop->body, [&](const Stmt& s) { inside.insert(s.results.begin(), s.results.end()); });
    results[stmt.results[0]] = unroller.write_out(stmt, out);
  }
  replace_values(out, results);
  // The reductions' names go on with their values; a name of one term's value would now stand for none of them.
  for (NamedValue& named : kernel.named) {
    if (results.contains(named.value)) named.value = results[named.value];
    if (results.contains(named.mask)) named.mask = results[named.mask];
  }
  std::erase_if(kernel.named,
                [&](const NamedValue& named) { return inside.contains(named.value) || inside.contains(named.mask); });
  item = std::move(out);
  return true;
}

}  // namespace kiln::loops
