// A sum that runs through two dimensions of a temporary as if they were one, x[.., r // n, .., r % n], as the product
// behind attention reads what the heads have made: the two become neighbours in memory, so that the terms are too, and
// no address has to be divided.
#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

bool is_part(const Expr& e, ExprOp op, const std::string& var, const Expr& size) {
  return e.op() == op && e.args()[0].is_symbol() && e.args()[0].name() == var && e.args()[1] == size;
}

class DimensionJoiner {
 public:
  DimensionJoiner(LoopProgram& program, Log& log) : program_(program), log_(log) {}

  bool run() {
    pinned_ = pinned_buffers(program_);
    for (const Item& item : program_.block)
      if (const auto* kernel = std::get_if<Kernel>(&item.what)) visit(kernel->body, "");
    return changed_;
  }

 private:
  void visit(const Body& body, const std::string& sum) {
    for (const Stmt& stmt : body) {
      if (stmt.loop) {
        const bool sums = stmt.loop->role == AxisRole::reduce && stmt.loop->reduce == ReduceOp::sum;
        visit(stmt.loop->body, sums ? stmt.loop->var : sum);
      }
      if (stmt.kind == StmtKind::load && !sum.empty()) join(stmt, sum);
    }
  }

  bool is_dense(const Buffer& b) const {
    Expr dense = 1;
    for (size_t d = b.sizes.size(); d-- > 0;) {
      if (!b.sizes[d].is_constant(1) && !(b.strides[d] == dense)) return false;
      dense = dense * b.sizes[d];
    }
    return b.offset.is_constant(0);
  }

  void join(const Stmt& load, const std::string& var) {
    Buffer& b = program_.buffers[static_cast<size_t>(load.buffer)];
    if (b.role != BufferRole::temp || pinned_.contains(load.buffer) || b.sizes.size() < 3 || !is_dense(b)) return;
    const size_t last = b.sizes.size() - 1;
    if (!is_part(load.index[last], ExprOp::mod, var, b.sizes[last])) return;
    for (size_t d = 0; d + 1 < last; ++d)
      if (is_part(load.index[d], ExprOp::floordiv, var, b.sizes[last])) return lay_out(b, d);
  }

  // The dimension goes in front of the last one; the others stay in their order.
  void lay_out(Buffer& b, size_t dim) {
    const size_t last = b.sizes.size() - 1;
    b.strides[dim] = b.sizes[last];
    Expr dense = b.sizes[last] * b.sizes[dim];
    for (size_t d = last; d-- > 0;) {
      if (d == dim) continue;
      b.strides[d] = dense;
      dense = dense * b.sizes[d];
    }
    changed_ = true;
    log_.add([&] {
      return Decision{"lay out", b.name, "", "", str("dimension ", dim, " in front of the last one: a sum joins them"),
                      true,      ""};
    });
  }

  LoopProgram& program_;
  Log& log_;
  std::set<BufferId> pinned_;
  bool changed_ = false;
};

}  // namespace

bool join_dimensions(LoopProgram& program, Log& log) { return DimensionJoiner(program, log).run(); }

}  // namespace kiln::loops
