#include "debug/work_count.h"

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

class Counting {
 public:
  Counting(const std::vector<loops::Buffer>& buffers, const SymbolValues& symbols)
      : buffers_(buffers), symbols_(symbols) {}

  Work run(const loops::Kernel& kernel) {
    // Index variables that check_index makes stand in extents nowhere but in the loops' own bodies.
    loops::for_each_stmt(kernel.body, [&](const Stmt& s) {
      if (s.kind == StmtKind::check_index) symbols_.emplace(s.index_var, 0);
    });
    Work work;
    work.flops = count(kernel.body);
    for (const auto& reached : {reads_, writes_})
      for (const auto& [id, elements] : reached) {
        const loops::Buffer& buffer = buffers_.at(static_cast<size_t>(id));
        work.bytes += std::min(elements, size_of(buffer)) * static_cast<double>(dtype_bytes(buffer.dtype));
      }
    return work;
  }

 private:
  // Extents may depend on loop variables; their upper half of the way is near enough for a count.
  double count(const loops::Body& body) {
    double flops = 0;
    for (const Stmt& stmt : body) {
      if (stmt.kind == StmtKind::op && is_float(stmt.dtype) && is_arithmetic(stmt.op)) flops += 1;
      if (stmt.kind == StmtKind::check_index)
        for (const auto& [var, extent] : around_) moves_with_[stmt.index_var].insert(var);
      if (stmt.kind == StmtKind::load) reads_[stmt.buffer] += reach(stmt);
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
    around_.pop_back();
    if (loop.role != loops::AxisRole::parallel && is_float(loop.reduce_dtype)) inside += 1;
    return extent * inside;
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
};

}  // namespace

Work count_work(const loops::Kernel& kernel, const std::vector<loops::Buffer>& buffers, const SymbolValues& symbols) {
  return Counting(buffers, symbols).run(kernel);
}

}  // namespace kiln
