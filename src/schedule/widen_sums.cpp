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
    if (kernel_.schedule && kernel_.schedule->grid.tile_rows > 0) return false;  // as matrix products are
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
        out.push_back(op_stmt_to(narrow[i], ScalarOp::cast, DType::f32, {wide[i]}));
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
    const ValueId wide_a = append_cast(body, a), wide_b = a == b ? wide_a : append_cast(body, b);
    return append(body, op_stmt(kernel_, ScalarOp::mul, DType::f64, {wide_a, wide_b}));
  }

  ValueId append_cast(Body& body, ValueId narrow) {
    return append(body, op_stmt(kernel_, ScalarOp::cast, DType::f64, {narrow}));
  }

  Kernel& kernel_;
  const LoopProgram& program_;
  std::map<ValueId, ValueId> wide_of_;  // a sum rounded to f32 -> the sum
  bool changed_ = false;
};

}  // namespace

bool widen_sums(LoopProgram& program, Log&) {
  bool changed = false;
  const auto each = [&](Item& item) {
    if (auto* kernel = std::get_if<Kernel>(&item.what)) changed |= SumWidener(*kernel, program).run();
  };
  for_each_item(program.init, each);
  for_each_item(program.block, each);
  return changed;
}

}  // namespace kiln::loops
