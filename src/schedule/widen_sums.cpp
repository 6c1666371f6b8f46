// Sums of f32 that run one number at a time (outside and around lanes) are added up in f64: there it costs nothing, and
// a long sum is then as exact as a matrix product's blocked one. So are means and variances, as eager's are. Sums over
// lanes stay as they are: they have many accumulators, and wider ones would halve the lanes.
#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

class SumWidener {
 public:
  explicit SumWidener(Kernel& kernel) : kernel_(kernel) {}
  bool run() {
    visit(kernel_.body);
    return changed_;
  }

 private:
  void visit(Body& body) {
    Body out;
    for (Stmt& stmt : body) {
      bool loop = stmt.kind == StmtKind::loop, lane = loop && stmt.loop->directives.binding == Binding::lane;
      if (loop && !lane) {
        visit(stmt.loop->body);
        visit(stmt.loop->after);
      }
      bool widens = loop && !lane && stmt.loop->role == AxisRole::reduce && stmt.loop->reduce_dtype == DType::f32 &&
                    (stmt.loop->reduce == ReduceOp::sum || stmt.loop->reduce == ReduceOp::welford);
      if (!widens) {
        out.push_back(std::move(stmt));
        continue;
      }
      std::vector<ValueId> narrow = stmt.results;
      widen(stmt);
      std::vector<ValueId> wide = stmt.results;
      out.push_back(std::move(stmt));
      for (size_t i = 0; i < narrow.size(); ++i) {
        out.push_back(cast(narrow[i], wide[i], DType::f32));
        wide_of_[narrow[i]] = wide[i];
      }
    }
    body = std::move(out);
  }

  void widen(Stmt& stmt) {
    Loop& loop = *stmt.loop;
    for (ValueId& result : stmt.results) result = new_value(kernel_, DType::f64);
    loop.reduce_dtype = DType::f64;
    for (ValueId& yielded : loop.yields) {
      ValueId narrow = yielded;
      if (auto inner = wide_of_.find(narrow); inner != wide_of_.end())
        yielded = inner->second;
      else
        yielded = loop.reduce == ReduceOp::sum ? widened_product(loop.body, narrow) : append_cast(loop.body, narrow);
    }
    changed_ = true;
  }

  // A product that is only summed is not rounded to f32 either; anything else is converted.
  ValueId widened_product(Body& body, ValueId narrow) {
    const Stmt* made = nullptr;
    for (const Stmt& stmt : body)
      if (stmt.kind == StmtKind::op && stmt.results[0] == narrow && stmt.op == ScalarOp::mul) made = &stmt;
    if (!made) return append_cast(body, narrow);
    ValueId a = made->args[0], b = made->args[1];
    Stmt product;
    product.kind = StmtKind::op;
    product.op = ScalarOp::mul;
    product.dtype = DType::f64;
    ValueId wide_a = append_cast(body, a);
    product.args = {wide_a, a == b ? wide_a : append_cast(body, b)};
    product.results = {new_value(kernel_, DType::f64)};
    body.push_back(std::move(product));
    return body.back().results[0];
  }

  ValueId append_cast(Body& body, ValueId narrow) {
    ValueId wide = new_value(kernel_, DType::f64);
    body.push_back(cast(wide, narrow, DType::f64));
    return wide;
  }

  static Stmt cast(ValueId to, ValueId from, DType dtype) {
    Stmt out;
    out.kind = StmtKind::op;
    out.op = ScalarOp::cast;
    out.dtype = dtype;
    out.args = {from};
    out.results = {to};
    return out;
  }

  Kernel& kernel_;
  std::map<ValueId, ValueId> wide_of_;  // a sum rounded to f32 -> the sum
  bool changed_ = false;
};

bool widen_block(Block& block) {
  bool changed = false;
  for (Item& item : block) {
    if (auto* kernel = std::get_if<Kernel>(&item.what)) {
      changed |= SumWidener(*kernel).run();
    } else if (auto* cond = std::get_if<Cond>(&item.what)) {
      changed |= widen_block(*cond->then_block);
      changed |= widen_block(*cond->else_block);
    } else if (auto* loop = std::get_if<While>(&item.what)) {
      changed |= widen_block(*loop->condition_block);
      changed |= widen_block(*loop->body_block);
    }
  }
  return changed;
}

}  // namespace

bool widen_sums(LoopProgram& program, Log&) {
  bool init = widen_block(program.init), main = widen_block(program.block);
  return init || main;
}

}  // namespace kiln::loops
