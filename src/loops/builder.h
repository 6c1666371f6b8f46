// Builds the body of one kernel, statement by statement. Loops are opened by callbacks:
//
//   KernelBuilder k(program, kernel);
//   k.parallel({rows, cols}, [&](const std::vector<Expr>& i) {
//     ValueId x = k.load(in, i);
//     k.store(out, i, k.op(ScalarOp::exp, k.as(DType::f32, x)));
//   });
#pragma once
#include <functional>
#include <initializer_list>

#include "loops/loops.h"

namespace kiln::loops {

class KernelBuilder {
 public:
  KernelBuilder(LoopProgram& program, Kernel& kernel) : program_(program), kernel_(kernel) {
    bodies_.push_back(&kernel.body);
  }
  KernelBuilder(const KernelBuilder&) = delete;

  DType type(ValueId v) const { return kernel_.value_types[static_cast<size_t>(v)]; }
  const Buffer& buffer(BufferId b) const { return program_.buffers[static_cast<size_t>(b)]; }

  ValueId constant(DType dtype, Scalar value);
  ValueId index_value(const Expr& expr, DType dtype = DType::i64);  // an index expression as a number
  // dtype of the result follows the operator's rule from its operands (same: operand type; compare: bool). f16, bf16
  // and f8 operands of anything but a select are widened to f32 first. An integer division by what may be zero gets a
  // raise_if before it.
  ValueId op(ScalarOp op, std::initializer_list<ValueId> args) { return op_v(op, std::vector<ValueId>(args)); }
  ValueId op(ScalarOp op, ValueId a) { return op_v(op, {a}); }
  ValueId op(ScalarOp op, ValueId a, ValueId b) { return op_v(op, {a, b}); }
  ValueId op_v(ScalarOp op, std::vector<ValueId> args);
  ValueId select(ValueId condition, ValueId a, ValueId b) { return op_v(ScalarOp::select, {condition, a, b}); }
  ValueId cast(DType dtype, ValueId v);     // always a statement, also when it rounds to a narrow float
  ValueId as(DType dtype, ValueId v);       // cast unless it already has the type
  ValueId bitcast(DType dtype, ValueId v);  // same width
  // A number of [0, 1) (floats) or random bits (integers), the same for the same counter and seed of the run. Operators
  // that share a run keep apart by the counters they use.
  ValueId random(DType dtype, const Expr& counter);
  ValueId load(BufferId b, std::vector<Expr> index, ValueId mask = no_value);
  // load, then widened to the type PyTorch computes in (f16, bf16, f8 -> f32)
  ValueId load_compute(BufferId b, std::vector<Expr> index, ValueId mask = no_value);
  // The value may have the buffer's type or its compute type; then the store rounds (a rounding that fusion may skip).
  // Any other type is converted first.
  void store(BufferId b, std::vector<Expr> index, ValueId v, StoreMode mode = StoreMode::plain,
             ValueId mask = no_value);
  // Wraps negative indices, raises outside [-extent, extent); gives the symbol for index expressions.
  Expr check_index(ValueId v, const Expr& extent, int site, ValueId mask = no_value);
  void raise_if(ValueId condition, int site, ValueId mask = no_value);
  int site(std::string message, Origin origin);

  using IndexFn = std::function<void(const std::vector<Expr>&)>;
  void parallel(const std::vector<Expr>& extents, const IndexFn& f);  // i0, i1, … (numbered through the kernel)
  void serial(const std::vector<Expr>& extents, const IndexFn& f);    // ordered: parallel axes bound serial
  using ReduceFn = std::function<std::vector<ValueId>(const std::vector<Expr>&)>;
  // Several extents make nested loops; accumulators are carried through by reducing the inner results.
  std::vector<ValueId> reduce(ReduceOp op, DType dtype, const std::vector<Expr>& extents, const ReduceFn& f);
  ValueId reduce_one(ReduceOp op, DType dtype, const std::vector<Expr>& extents,
                     const std::function<ValueId(const std::vector<Expr>&)>& f);
  // f gives one iteration's values; after(running accumulators) runs each iteration.
  void scan(ReduceOp op, DType dtype, const Expr& extent, const std::function<std::vector<ValueId>(const Expr&)>& f,
            const std::function<void(const Expr&, const std::vector<ValueId>&)>& after);

 private:
  ValueId emit(Stmt stmt);  // gives its first result
  void nest(const std::vector<Expr>& extents, Binding binding, const IndexFn& f);
  std::vector<ValueId> reduce_level(ReduceOp op, DType dtype, const std::vector<Expr>& extents,
                                    std::vector<Expr>& index, const ReduceFn& f);
  void refuse_zero_divisor(ValueId divisor);
  std::vector<ValueId> new_accumulators(const Loop& loop);
  LoopProgram& program_;
  Kernel& kernel_;
  std::vector<Body*> bodies_;
  std::map<ValueId, Expr> known_;  // constants and index expressions, by value
  int next_parallel_ = 0, next_reduce_ = 0, next_index_ = 0;
};

}  // namespace kiln::loops
