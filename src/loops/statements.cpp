#include "loops/statements.h"

namespace kiln::loops {
namespace {

Stmt value_stmt(StmtKind kind, ValueId result, DType dtype) {
  Stmt stmt;
  stmt.kind = kind;
  stmt.results = {result};
  stmt.dtype = dtype;
  return stmt;
}

}  // namespace

ValueId new_value(Kernel& kernel, DType dtype) {
  kernel.value_types.push_back(dtype);
  return static_cast<ValueId>(kernel.value_types.size() - 1);
}

Stmt constant_stmt(Kernel& kernel, DType dtype, Scalar value) {
  Stmt stmt = value_stmt(StmtKind::constant, new_value(kernel, dtype), dtype);
  stmt.constant = value;
  return stmt;
}

Stmt index_stmt(Kernel& kernel, DType dtype, Expr expr) {
  Stmt stmt = value_stmt(StmtKind::index_value, new_value(kernel, dtype), dtype);
  stmt.expr = std::move(expr);
  return stmt;
}

Stmt op_stmt(Kernel& kernel, ScalarOp op, DType dtype, std::vector<ValueId> args) {
  return op_stmt_to(new_value(kernel, dtype), op, dtype, std::move(args));
}

Stmt op_stmt_to(ValueId result, ScalarOp op, DType dtype, std::vector<ValueId> args) {
  Stmt stmt = value_stmt(StmtKind::op, result, dtype);
  stmt.op = op;
  stmt.args = std::move(args);
  return stmt;
}

Stmt random_stmt(Kernel& kernel, DType dtype, Expr counter) {
  Stmt stmt = value_stmt(StmtKind::random, new_value(kernel, dtype), dtype);
  stmt.expr = std::move(counter);
  return stmt;
}

Stmt load_stmt(Kernel& kernel, DType dtype, BufferId buffer, std::vector<Expr> index, ValueId mask) {
  Stmt stmt = value_stmt(StmtKind::load, new_value(kernel, dtype), dtype);
  stmt.buffer = buffer;
  stmt.index = std::move(index);
  stmt.mask = mask;
  return stmt;
}

Stmt check_index_stmt(Kernel& kernel, ValueId value, Expr extent, std::string index_var, int site, ValueId mask) {
  Stmt stmt = value_stmt(StmtKind::check_index, new_value(kernel, DType::i64), DType::i64);
  stmt.args = {value};
  stmt.expr = std::move(extent);
  stmt.index_var = std::move(index_var);
  stmt.site = site;
  stmt.mask = mask;
  return stmt;
}

Stmt store_stmt(DType dtype, BufferId buffer, std::vector<Expr> index, ValueId value, StoreMode mode, ValueId mask) {
  Stmt stmt;
  stmt.kind = StmtKind::store;
  stmt.dtype = dtype;
  stmt.buffer = buffer;
  stmt.index = std::move(index);
  stmt.args = {value};
  stmt.mode = mode;
  stmt.mask = mask;
  return stmt;
}

Stmt raise_stmt(ValueId condition, int site, ValueId mask) {
  Stmt stmt;
  stmt.kind = StmtKind::raise_if;
  stmt.dtype = DType::boolean;
  stmt.args = {condition};
  stmt.site = site;
  stmt.mask = mask;
  return stmt;
}

Stmt loop_stmt(std::string var, Expr extent, AxisRole role, Body body) {
  Stmt stmt;
  stmt.kind = StmtKind::loop;
  stmt.loop = std::make_unique<Loop>();
  stmt.loop->var = std::move(var);
  stmt.loop->extent = std::move(extent);
  stmt.loop->role = role;
  stmt.loop->body = std::move(body);
  return stmt;
}

Stmt reduction_stmt(std::string var, Expr extent, AxisRole role, ReduceOp reduce, DType dtype) {
  Stmt stmt = loop_stmt(std::move(var), std::move(extent), role);
  stmt.dtype = dtype;
  stmt.loop->reduce = reduce;
  stmt.loop->reduce_dtype = dtype;
  return stmt;
}

std::vector<Expr> nest_index(size_t rank) {
  std::vector<Expr> index;
  for (size_t d = 0; d < rank; ++d) index.push_back(Expr::symbol(str("i", d)));
  return index;
}

Body nest_of(const std::vector<Expr>& sizes, Body body) {
  for (size_t d = sizes.size(); d-- > 0;) {
    Stmt loop = loop_stmt(str("i", d), sizes[d], AxisRole::parallel, std::move(body));
    body = Body();
    body.push_back(std::move(loop));
  }
  return body;
}

ValueId append(Body& body, Stmt stmt) {
  const ValueId result = stmt.results.empty() ? no_value : stmt.results[0];
  body.push_back(std::move(stmt));
  return result;
}

}  // namespace kiln::loops
