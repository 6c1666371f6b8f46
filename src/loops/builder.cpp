#include "loops/builder.h"

#include "loops/statements.h"

namespace kiln::loops {

ValueId KernelBuilder::emit(Stmt stmt) { return append(*bodies_.back(), std::move(stmt)); }

ValueId KernelBuilder::constant(DType dtype, Scalar value) {
  const ValueId result = emit(constant_stmt(kernel_, dtype, value));
  if (is_integral(dtype)) known_[result] = cell_of(dtype, value).i;
  return result;
}

ValueId KernelBuilder::index_value(const Expr& expr, DType dtype) {
  const ValueId result = emit(index_stmt(kernel_, dtype, expr));
  if (dtype == DType::i64 && !expr.is_float()) known_[result] = expr;
  return result;
}

// ---- Operators
// -------------------------------------------------------------------------------------------------------

static bool divides(ScalarOp op) {
  return op == ScalarOp::div || op == ScalarOp::floordiv || op == ScalarOp::mod || op == ScalarOp::fmod;
}

void KernelBuilder::refuse_zero_divisor(ValueId divisor) {
  if (auto found = known_.find(divisor); found != known_.end())
    if (!range_of(found->second, program_.ranges()).contains(0)) return;
  std::string message = "ZeroDivisionError: integer division by zero";
  if (!kernel_.origins.empty() && !kernel_.origins.front().op.empty()) message += " in " + kernel_.origins.front().op;
  int at = site(std::move(message), kernel_.origins.empty() ? Origin{} : kernel_.origins.front());
  raise_if(op(ScalarOp::eq, divisor, constant(type(divisor), 0)), at);
}

ValueId KernelBuilder::op_v(ScalarOp op, std::vector<ValueId> args) {
  const ScalarOpInfo& info = scalar_op_info(op);
  KILN_CHECK(static_cast<int>(args.size()) == info.arity, str(info.name, " with ", args.size(), " operands"));
  KILN_CHECK(info.rule != TypeRule::convert, str(info.name, " has a builder function of its own"));
  const size_t first = info.rule == TypeRule::select ? 1 : 0;
  for (size_t i = first; i < args.size() && info.rule != TypeRule::select; ++i)
    args[i] = as(compute_dtype(type(args[i])), args[i]);
  const DType operand = type(args[first]);
  for (size_t i = first; i < args.size(); ++i)
    KILN_CHECK(type(args[i]) == operand,
               str(info.name, " of ", dtype_name(operand), " and ", dtype_name(type(args[i]))));
  KILN_CHECK(info.rule != TypeRule::select || type(args[0]) == DType::boolean, "the condition of select must be bool");
  const bool to_bool =
      info.rule == TypeRule::compare || info.rule == TypeRule::predicate || info.rule == TypeRule::boolean;
  const DType dtype = to_bool ? DType::boolean : operand;
  KILN_CHECK(scalar_function(op, dtype, operand) && (!info.floats_only || is_float(operand)) &&
                 (info.rule != TypeRule::boolean || operand == DType::boolean),
             str(info.name, " does not take ", dtype_name(operand)));
  if (divides(op) && is_integer(operand)) refuse_zero_divisor(args[1]);
  return emit(op_stmt(kernel_, op, dtype, std::move(args)));
}

ValueId KernelBuilder::cast(DType dtype, ValueId v) { return emit(op_stmt(kernel_, ScalarOp::cast, dtype, {v})); }

ValueId KernelBuilder::as(DType dtype, ValueId v) { return type(v) == dtype ? v : cast(dtype, v); }

ValueId KernelBuilder::bitcast(DType dtype, ValueId v) {
  KILN_CHECK(dtype_bytes(dtype) == dtype_bytes(type(v)), "bitcast between different widths");
  return emit(op_stmt(kernel_, ScalarOp::bitcast, dtype, {v}));
}

ValueId KernelBuilder::random(DType dtype, const Expr& counter) { return emit(random_stmt(kernel_, dtype, counter)); }

// ---- Memory
// ------------------------------------------------------------------------------------------------------------

ValueId KernelBuilder::load(BufferId b, std::vector<Expr> index, ValueId mask) {
  KILN_CHECK(index.size() == buffer(b).sizes.size(),
             str("load of ", buffer(b).name, " with another number of indices"));
  return emit(load_stmt(kernel_, buffer(b).dtype, b, std::move(index), mask));
}

ValueId KernelBuilder::load_compute(BufferId b, std::vector<Expr> index, ValueId mask) {
  return as(compute_dtype(buffer(b).dtype), load(b, std::move(index), mask));
}

void KernelBuilder::store(BufferId b, std::vector<Expr> index, ValueId v, StoreMode mode, ValueId mask) {
  KILN_CHECK(index.size() == buffer(b).sizes.size(),
             str("store to ", buffer(b).name, " with another number of indices"));
  const DType dtype = buffer(b).dtype;
  if (type(v) != dtype) v = as(compute_dtype(dtype), v);
  emit(store_stmt(dtype, b, std::move(index), v, mode, mask));
}

// ---- Errors
// ------------------------------------------------------------------------------------------------------------

Expr KernelBuilder::check_index(ValueId v, const Expr& extent, int site, ValueId mask) {
  const std::string var = str("j", next_index_++);
  const ValueId number = as(DType::i64, v);
  emit(check_index_stmt(kernel_, number, extent, var, site, mask));
  return Expr::symbol(var);
}

void KernelBuilder::raise_if(ValueId condition, int site, ValueId mask) {
  KILN_CHECK(type(condition) == DType::boolean, "raise_if takes a bool");
  emit(raise_stmt(condition, site, mask));
}

int KernelBuilder::site(std::string message, Origin origin) {
  program_.sites.push_back({std::move(message), std::move(origin)});
  return static_cast<int>(program_.sites.size() - 1);
}

// ---- Loops
// -------------------------------------------------------------------------------------------------------------

void KernelBuilder::nest(const std::vector<Expr>& extents, Binding binding, const IndexFn& f) {
  std::vector<Expr> index;
  for (const Expr& extent : extents) {
    std::string var = str("i", next_parallel_++);
    while (dtype_from_name(var)) var = str("i", next_parallel_++);  // i64 is a type in generated code
    index.push_back(Expr::symbol(var));
    Stmt stmt = loop_stmt(std::move(var), extent);
    stmt.loop->directives.binding = binding;
    Body* inner = &stmt.loop->body;
    emit(std::move(stmt));
    bodies_.push_back(inner);
  }
  f(index);
  bodies_.resize(bodies_.size() - extents.size());
}

void KernelBuilder::parallel(const std::vector<Expr>& extents, const IndexFn& f) { nest(extents, Binding::none, f); }
void KernelBuilder::serial(const std::vector<Expr>& extents, const IndexFn& f) { nest(extents, Binding::serial, f); }

std::vector<ValueId> KernelBuilder::new_accumulators(const Loop& loop) {
  std::vector<ValueId> out;
  for (int i = 0; i < reduce_info(loop.reduce).accumulators; ++i)
    out.push_back(new_value(kernel_, loop.accumulator_dtype(i)));
  return out;
}

static bool gives_index(ReduceOp op) { return op == ReduceOp::argmax || op == ReduceOp::argmin; }

std::vector<ValueId> KernelBuilder::reduce_level(ReduceOp op, DType dtype, const std::vector<Expr>& extents,
                                                 std::vector<Expr>& index, const ReduceFn& f) {
  if (index.size() == extents.size()) {
    std::vector<ValueId> yields = f(index);
    KILN_CHECK(static_cast<int>(yields.size()) == reduce_info(op).yields,
               str(reduce_info(op).name, " of ", yields.size(), " values"));
    yields[0] = as(dtype, yields[0]);
    if (gives_index(op) && extents.size() > 1) {
      Expr linear = 0;
      for (size_t d = 0; d < extents.size(); ++d) linear = linear * extents[d] + index[d];
      yields.push_back(index_value(linear));
    }
    return yields;
  }
  std::string var = str("r", next_reduce_++);
  Stmt stmt = reduction_stmt(var, extents[index.size()], AxisRole::reduce, op, dtype);
  Loop* loop = stmt.loop.get();
  index.push_back(Expr::symbol(var));
  bodies_.push_back(&loop->body);
  loop->yields = reduce_level(op, dtype, extents, index, f);
  bodies_.pop_back();
  index.pop_back();
  stmt.results = new_accumulators(*loop);
  std::vector<ValueId> results = stmt.results;
  emit(std::move(stmt));
  return results;
}

std::vector<ValueId> KernelBuilder::reduce(ReduceOp op, DType dtype, const std::vector<Expr>& extents,
                                           const ReduceFn& f) {
  if (op == ReduceOp::any || op == ReduceOp::all) KILN_CHECK(dtype == DType::boolean, "any and all reduce bool");
  std::vector<Expr> index;
  if (!extents.empty()) return reduce_level(op, dtype, extents, index, f);
  // A scalar: one iteration.
  return reduce_level(op, dtype, {Expr(1)}, index, [&](const std::vector<Expr>&) { return f({}); });
}

ValueId KernelBuilder::reduce_one(ReduceOp op, DType dtype, const std::vector<Expr>& extents,
                                  const std::function<ValueId(const std::vector<Expr>&)>& f) {
  return reduce(op, dtype, extents, [&](const std::vector<Expr>& i) { return std::vector<ValueId>{f(i)}; })[0];
}

void KernelBuilder::scan(ReduceOp op, DType dtype, const Expr& extent,
                         const std::function<std::vector<ValueId>(const Expr&)>& f,
                         const std::function<void(const Expr&, const std::vector<ValueId>&)>& after) {
  std::string var = str("r", next_reduce_++);
  Expr index = Expr::symbol(var);
  Stmt stmt = reduction_stmt(std::move(var), extent, AxisRole::scan, op, dtype);
  Loop* loop = stmt.loop.get();
  bodies_.push_back(&loop->body);
  loop->yields = f(index);
  if (!loop->yields.empty()) loop->yields[0] = as(dtype, loop->yields[0]);
  loop->running = new_accumulators(*loop);
  bodies_.back() = &loop->after;
  after(index, loop->running);
  bodies_.pop_back();
  stmt.results = new_accumulators(*loop);
  emit(std::move(stmt));
}

}  // namespace kiln::loops
