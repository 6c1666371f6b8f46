// Makes the statements of a kernel, each kind in one place: what builds a kernel (builder.h) and what rewrites one
// (loop_passes/, schedule/, debug/) call these. They check nothing; verify() does.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

ValueId new_value(Kernel& kernel, DType dtype);

// The result is a new value of the kernel.
Stmt constant_stmt(Kernel& kernel, DType dtype, Scalar value);
Stmt index_stmt(Kernel& kernel, DType dtype, Expr expr);  // an index expression as a number
Stmt op_stmt(Kernel& kernel, ScalarOp op, DType dtype, std::vector<ValueId> args);
Stmt random_stmt(Kernel& kernel, DType dtype, Expr counter);
Stmt load_stmt(Kernel& kernel, DType dtype, BufferId buffer, std::vector<Expr> index, ValueId mask = no_value);
Stmt check_index_stmt(Kernel& kernel, ValueId value, Expr extent, std::string index_var, int site,
                      ValueId mask = no_value);
// The result is a value that is there already.
Stmt op_stmt_to(ValueId result, ScalarOp op, DType dtype, std::vector<ValueId> args);
// Without a result.
Stmt store_stmt(DType dtype, BufferId buffer, std::vector<Expr> index, ValueId value, StoreMode mode = StoreMode::plain,
                ValueId mask = no_value);
Stmt raise_stmt(ValueId condition, int site, ValueId mask = no_value);
Stmt loop_stmt(std::string var, Expr extent, AxisRole role = AxisRole::parallel, Body body = {});
// A loop that accumulates; its results are to be set once its yields are known.
Stmt reduction_stmt(std::string var, Expr extent, AxisRole role, ReduceOp reduce, DType dtype);

// Perfectly nested parallel loops i0, i1, … over these sizes, around the body.
Body nest_of(const std::vector<Expr>& sizes, Body body);
std::vector<Expr> nest_index(size_t rank);  // i0, i1, …

// Puts the statement at the end; gives its first result.
ValueId append(Body& body, Stmt stmt);

}  // namespace kiln::loops
