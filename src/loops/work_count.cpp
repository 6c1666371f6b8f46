#include "loops/work_count.h"

#include "loops/lane_pairs.h"

namespace kiln {
namespace {

using loops::Stmt;
using loops::StmtKind;

bool is_arithmetic(loops::ScalarOp op) {
  switch (op) {
    case loops::ScalarOp::cast:
    case loops::ScalarOp::bitcast:
    case loops::ScalarOp::select:
      return false;
    default:
      return true;
  }
}

// The values that some store, error or index needs. Scheduling leaves statements behind that the C++ compiler drops.
class Needed {
 public:
  explicit Needed(const loops::Body& body) {
    for (size_t before = SIZE_MAX; before != values_.size();) {
      before = values_.size();
      loops::for_each_stmt(body, [&](const Stmt& stmt) { look(stmt); });
    }
  }
  bool any(const std::vector<loops::ValueId>& values) const {
    return std::any_of(values.begin(), values.end(), [&](loops::ValueId v) { return values_.contains(v); });
  }

 private:
  void look(const Stmt& stmt) {
    const bool acts =
        stmt.kind == StmtKind::store || stmt.kind == StmtKind::check_index || stmt.kind == StmtKind::raise_if;
    if (!acts && !any(stmt.results) && !(stmt.loop && any(stmt.loop->running))) return;
    values_.insert(stmt.args.begin(), stmt.args.end());
    if (stmt.mask != loops::no_value) values_.insert(stmt.mask);
    if (stmt.loop) values_.insert(stmt.loop->yields.begin(), stmt.loop->yields.end());
  }
  std::set<loops::ValueId> values_;
};

bool divides(const Expr& e) {
  if (e.op() == ExprOp::mod) return true;
  return std::any_of(e.args().begin(), e.args().end(), divides);
}

class Counting {
 public:
  Counting(const std::vector<loops::Buffer>& buffers, const SymbolValues& symbols)
      : buffers_(buffers), symbols_(symbols) {}

  Work run(const loops::Kernel& kernel) {
    // Index variables that check_index makes stand in extents nowhere but in the loops' own bodies.
    loops::for_each_stmt(kernel.body, [&](const Stmt& s) {
      if (s.kind == StmtKind::check_index) symbols_.emplace(s.index_var, 0);
    });
    const Needed needed(kernel.body);
    needed_ = &needed;
    loops::for_each_stmt(kernel.body, [&](const Stmt& s) {
      for (loops::ValueId v : s.results) made_by_[v] = &s;
    });
    bytes_ = arithmetic_of(kernel) == Arithmetic::byte_quads;
    Work work;
    work.flops = count(kernel.body);
    for (const auto& reached : {reads_, writes_})
      for (const auto& [id, elements] : reached) {
        const loops::Buffer& buffer = buffers_.at(static_cast<size_t>(id));
        if (buffer.role == loops::BufferRole::scratch) continue;  // stays in the thread's cache
        work.bytes += std::min(elements, size_of(buffer)) * static_cast<double>(dtype_bytes(buffer.dtype));
      }
    return work;
  }

 private:
  bool counts(DType dtype) const { return is_float(dtype) || (bytes_ && dtype == DType::i32); }

  // Extents may depend on loop variables; their upper half of the way is near enough for a count.
  double count(const loops::Body& body) {
    double flops = 0;
    for (const Stmt& stmt : body) {
      if (stmt.kind == StmtKind::op && counts(stmt.dtype) && is_arithmetic(stmt.op) && needed_->any(stmt.results))
        flops += kept_share(stmt.args);
      if (stmt.kind == StmtKind::check_index)
        for (const auto& [var, extent] : around_) moves_with_[stmt.index_var].insert(var);
      if (stmt.kind == StmtKind::load && needed_->any(stmt.results)) reads_[stmt.buffer] += reach(stmt);
      if (stmt.kind == StmtKind::store) writes_[stmt.buffer] += reach(stmt);
      if (stmt.kind == StmtKind::store && stmt.mode != loops::StoreMode::plain) reads_[stmt.buffer] += reach(stmt);
      if (stmt.kind == StmtKind::loop) flops += count_loop(*stmt.loop);
    }
    return flops;
  }

  double count_loop(const loops::Loop& loop) {
    const auto extent = static_cast<double>(std::max<int64_t>(0, evaluate(loop.extent, symbols_)));
    symbols_[loop.var] = static_cast<int64_t>(extent / 2);
    around_.emplace_back(loop.var, extent);
    double inside = count(loop.body) + count(loop.after);
    if (loop.role != loops::AxisRole::parallel && counts(loop.reduce_dtype) && !continues(loop))
      inside += kept_share(loop.yields);
    around_.pop_back();
    return extent * inside;
  }

  const Stmt* maker(loops::ValueId v) const {
    const auto found = made_by_.find(v);
    return found == made_by_.end() ? nullptr : found->second;
  }
  const Stmt* behind_casts(loops::ValueId v) const {
    const Stmt* stmt = maker(v);
    while (stmt && stmt->kind == StmtKind::op && stmt->op == loops::ScalarOp::cast) stmt = maker(stmt->args[0]);
    return stmt;
  }
  // The outer loop of one reduction over several axes: its elements are counted inside.
  bool continues(const loops::Loop& loop) const {
    const Stmt* inner = loop.yields.size() == 1 ? behind_casts(loop.yields[0]) : nullptr;
    return inner && inner->kind == StmtKind::loop && inner->loop->role == loops::AxisRole::reduce &&
           loop.role == loops::AxisRole::reduce && inner->loop->reduce == loop.reduce;
  }

  // Which part of the iterations works on something that a stride did not leave out: 1 but for transposed convolutions,
  // whose loads are masked by a remainder.
  double kept_share(const std::vector<loops::ValueId>& values) {
    double share = 1;
    for (loops::ValueId v : values) {
      const Stmt* stmt = behind_casts(v);
      if (stmt && stmt->kind == StmtKind::op && is_float(stmt->dtype)) share = std::min(share, kept_share(stmt->args));
      if (!stmt || stmt->kind != StmtKind::load || stmt->mask == loops::no_value) continue;
      const auto [found, fresh] = shares_.try_emplace(stmt->mask, 1.0);
      if (fresh) found->second = share_of(stmt->mask);
      share = std::min(share, found->second);
    }
    return share;
  }

  double share_of(loops::ValueId mask) {
    std::set<std::string> names;
    bool remainder = false;
    if (!condition(mask, names, remainder) || !remainder) return 1;
    std::vector<std::pair<std::string, int64_t>> axes;
    double points = 1;
    for (const auto& [var, extent] : around_)
      if (names.contains(var)) axes.emplace_back(var, static_cast<int64_t>(extent)), points *= extent;
    constexpr double most_points = 2e7;
    if (points < 1 || points > most_points) return 1;
    SymbolValues at = symbols_;
    std::vector<int64_t> place(axes.size());
    double held = 0;
    for (bool more = true; more;) {
      for (size_t i = 0; i < axes.size(); ++i) at[axes[i].first] = place[i];
      held += holds(mask, at) != 0;
      more = false;
      for (size_t i = axes.size(); i-- > 0 && !more;) {
        more = ++place[i] < axes[i].second;
        if (!more) place[i] = 0;
      }
    }
    return held / points;
  }

  // Whether the mask is made of comparisons of indices alone; collects what they mention.
  bool condition(loops::ValueId v, std::set<std::string>& names, bool& remainder) const {
    const Stmt* stmt = maker(v);
    if (!stmt) return false;
    if (stmt->kind == StmtKind::index_value && !stmt->expr.is_float()) {
      collect_symbols(stmt->expr, names);
      remainder = remainder || divides(stmt->expr);
      return true;
    }
    switch (stmt->kind == StmtKind::op ? stmt->op : loops::ScalarOp::cast) {
      case loops::ScalarOp::ge:
      case loops::ScalarOp::lt:
      case loops::ScalarOp::le:
      case loops::ScalarOp::gt:
      case loops::ScalarOp::eq:
      case loops::ScalarOp::ne:
      case loops::ScalarOp::logical_and:
      case loops::ScalarOp::logical_or:
        return condition(stmt->args[0], names, remainder) && condition(stmt->args[1], names, remainder);
      default:
        return false;
    }
  }

  int64_t holds(loops::ValueId v, const SymbolValues& at) const {
    const Stmt& stmt = *maker(v);
    if (stmt.kind == StmtKind::index_value) return evaluate(stmt.expr, at);
    const int64_t a = holds(stmt.args[0], at), b = holds(stmt.args[1], at);
    switch (stmt.op) {
      case loops::ScalarOp::ge:
        return a >= b;
      case loops::ScalarOp::lt:
        return a < b;
      case loops::ScalarOp::le:
        return a <= b;
      case loops::ScalarOp::gt:
        return a > b;
      case loops::ScalarOp::eq:
        return a == b;
      case loops::ScalarOp::ne:
        return a != b;
      case loops::ScalarOp::logical_and:
        return a && b;
      default:
        return a || b;
    }
  }

  // Elements that one load or store touches: a loop whose variable is not in the index touches the same ones again.
  double reach(const Stmt& access) const {
    std::set<std::string> named, moving;
    for (const Expr& index : access.index) collect_symbols(index, named);
    for (const std::string& name : named) {
      auto found = moves_with_.find(name);
      if (found == moves_with_.end())
        moving.insert(name);
      else
        moving.insert(found->second.begin(), found->second.end());
    }
    double elements = 1;
    for (const auto& [var, extent] : around_)
      if (moving.contains(var)) elements *= extent;
    return elements;
  }

  double size_of(const loops::Buffer& buffer) const {
    double elements = 1;
    for (const Expr& size : buffer.sizes) {
      std::set<std::string> named;
      collect_symbols(size, named);
      for (const std::string& name : named)
        if (!symbols_.contains(name)) return INFINITY;
      elements *= static_cast<double>(evaluate(size, symbols_));
    }
    return elements;
  }

  const std::vector<loops::Buffer>& buffers_;
  SymbolValues symbols_;
  std::vector<std::pair<std::string, double>> around_;
  std::map<std::string, std::set<std::string>> moves_with_;  // an index read from memory, with the loops around it
  std::map<loops::BufferId, double> reads_, writes_;
  const Needed* needed_ = nullptr;
  bool bytes_ = false;  // the products are of bytes
  std::map<loops::ValueId, const Stmt*> made_by_;
  std::map<loops::ValueId, double> shares_;  // of masks
};

}  // namespace

Work count_work(const loops::Kernel& kernel, const std::vector<loops::Buffer>& buffers, const SymbolValues& symbols) {
  return Counting(buffers, symbols).run(kernel);
}

const char* arithmetic_name(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::bf16_pairs   ? "bf16 pairs"
         : arithmetic == Arithmetic::bf16_tiles ? "bf16 tiles"
         : arithmetic == Arithmetic::byte_quads ? "bytes"
                                                : "f32";
}

Arithmetic arithmetic_of(const loops::Kernel& kernel) {
  if (!kernel.schedule) return Arithmetic::single_terms;
  if (kernel.schedule->tile.matrix) return Arithmetic::bf16_tiles;
  if (kernel.schedule->tile.quads) return Arithmetic::byte_quads;
  bool pairs = kernel.schedule->tile.pairs;
  loops::for_each_stmt(kernel.body, [&](const Stmt& stmt) {
    pairs = pairs || (stmt.loop && (stmt.loop->order.pairs || loops::takes_pairs(*stmt.loop, kernel.schedule->lanes)));
  });
  return pairs ? Arithmetic::bf16_pairs : Arithmetic::single_terms;
}

}  // namespace kiln
