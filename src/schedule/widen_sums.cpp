// Sums of f32 that run one number at a time (outside and around lanes) are added up in f64: there it costs nothing, and
// a long sum is then as exact as a matrix product's blocked one. So are means and variances, as eager's are. Sums over
// lanes stay as they are: they have many accumulators, and wider ones would halve the lanes. So do sums that lanes run
// around, unless their terms are sums themselves and no weight is among them: what is not a layer of a model is seldom
// large, and is then as exact as it can be.
#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

class SumWidener {
 public:
  SumWidener(Kernel& kernel, const LoopProgram& program) : kernel_(kernel), program_(program) {}
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
      if (lane && stmt.loop->role == AxisRole::parallel && !tiled()) visit_lanes(stmt.loop->body);
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

  bool tiled() const { return kernel_.schedule && kernel_.schedule->tile.rows > 0; }

  void visit_lanes(Body& body) {
    Body out;
    for (Stmt& stmt : body) {
      const bool widens = stmt.loop && sum_of_sums(*stmt.loop) && !reads_weights(stmt.loop->body);
      if (!widens) {
        out.push_back(std::move(stmt));
        continue;
      }
      Body one;
      one.push_back(std::move(stmt));
      visit(one);
      for (Stmt& made : one) out.push_back(std::move(made));
    }
    body = std::move(out);
  }
  static bool sum_of_sums(const Loop& loop) {
    return loop.role == AxisRole::reduce && loop.reduce == ReduceOp::sum && loop.reduce_dtype == DType::f32 &&
           std::any_of(loop.body.begin(), loop.body.end(), [](const Stmt& stmt) { return stmt.loop != nullptr; });
  }
  bool reads_weights(const Body& body) const {
    bool found = false;
    for_each_stmt(body, [&](const Stmt& stmt) {
      if (stmt.kind != StmtKind::load) return;
      const BufferRole role = program_.buffers[static_cast<size_t>(stmt.buffer)].role;
      found |= role == BufferRole::constant || role == BufferRole::derived;
    });
    return found;
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
  const LoopProgram& program_;
  std::map<ValueId, ValueId> wide_of_;  // a sum rounded to f32 -> the sum
  bool changed_ = false;
};

bool widen_block(Block& block, const LoopProgram& program) {
  bool changed = false;
  for (Item& item : block) {
    if (auto* kernel = std::get_if<Kernel>(&item.what)) {
      changed |= SumWidener(*kernel, program).run();
    } else if (auto* cond = std::get_if<Cond>(&item.what)) {
      changed |= widen_block(*cond->then_block, program);
      changed |= widen_block(*cond->else_block, program);
    } else if (auto* loop = std::get_if<While>(&item.what)) {
      changed |= widen_block(*loop->condition_block, program);
      changed |= widen_block(*loop->body_block, program);
    }
  }
  return changed;
}

}  // namespace

bool widen_sums(LoopProgram& program, Log&) {
  bool init = widen_block(program.init, program), main = widen_block(program.block, program);
  return init || main;
}

}  // namespace kiln::loops
