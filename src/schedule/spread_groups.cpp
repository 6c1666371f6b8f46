// What is found for each group of channels (a group norm's mean) and read for each channel again and again:
//
//   for line { for point { for c in [48] { … load mean[c // 6] … } } }
//
// Lanes would have to fetch it one by one, unless the groups fit the vector. It is stored for each channel instead,
// and then lies as the channels do.
#include "loop_passes/rewrite.h"
#include "schedule/new_loops.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

constexpr double often = 64;  // reads of an element that are worth storing it several times

// How a buffer is read: by groups of `each` along the dimension that is innermost in memory.
struct Groups {
  size_t dim = 0;
  int64_t each = 0;
  bool fits = true;
};

class GroupSpreader : NewLoops {
 public:
  explicit GroupSpreader(LoopProgram& program) : program_(program), pinned_(pinned_buffers(program)) {}

  bool run(Log& log) {
    for_each_item(program_.block, [&](const Item& item) {
      if (const auto* kernel = std::get_if<Kernel>(&item.what)) look(*kernel, kernel->body);
    });
    std::erase_if(groups_, [](const auto& entry) { return !entry.second.fits; });
    for (const auto& [id, groups] : groups_) {
      spread_[id] = program_.add_buffer(spread(id, groups));
      log.add([&] {
        return Decision{"spread", name(id), "", "", str("groups of ", groups.each, " channels read it"), true, ""};
      });
    }
    if (groups_.empty()) return false;
    for_each_item(program_.block, [&](Item& item) {
      if (auto* kernel = std::get_if<Kernel>(&item.what)) rewrite(*kernel);
    });
    return true;
  }

 private:
  const Buffer& buffer(BufferId id) const { return program_.buffers[static_cast<size_t>(id)]; }
  const std::string& name(BufferId id) const { return buffer(id).name; }

  void look(const Kernel& kernel, const Body& body) {
    for (const Stmt& stmt : body) {
      if (stmt.kind == StmtKind::load) look_at(stmt);
      const bool accumulates = stmt.kind == StmtKind::store && stmt.mode != StoreMode::plain;
      if ((accumulates || kernel.schedule) && stmt.buffer != no_buffer) groups_[stmt.buffer].fits = false;
      if (!stmt.loop) continue;
      around_.push_back(stmt.loop.get());
      look(kernel, stmt.loop->body);
      look(kernel, stmt.loop->after);
      around_.pop_back();
    }
  }

  // Any other read is as good where the groups stand apart.
  void look_at(const Stmt& load) {
    for (size_t d = 0; d < load.index.size(); ++d) {
      const Expr& e = load.index[d];
      const bool by_groups = !around_.empty() && e.op() == ExprOp::floordiv && e.args()[1].is_constant() &&
                             e.args()[0] == Expr::symbol(around_.back()->var);
      if (!by_groups) continue;
      const auto [found, first] = groups_.emplace(load.buffer, Groups{d, e.args()[1].value(), true});
      Groups& groups = found->second;
      groups.fits &= groups.dim == d && groups.each == e.args()[1].value() && is_read_often(load, d);
    }
  }
  bool is_read_often(const Stmt& load, size_t dim) const {
    const Buffer& b = buffer(load.buffer);
    const bool free = b.role == BufferRole::temp && !pinned_.contains(load.buffer) && b.offset.is_constant(0);
    if (!free || !b.strides[dim].is_constant(1)) return false;
    double reads = 1, elements = 1;
    for (const Loop* loop : around_) reads *= std::max(1.0, estimate(loop->extent, program_));
    for (const Expr& size : b.sizes) elements *= std::max(1.0, estimate(size, program_));
    return reads >= often * elements && b.sizes[dim].is_constant() && around_.back()->role == AxisRole::parallel;
  }

  Buffer spread(BufferId id, const Groups& groups) const {
    Buffer out = buffer(id);
    out.name += "_spread";
    out.sizes[groups.dim] = out.sizes[groups.dim] * groups.each;
    for (size_t d = 0; d < out.strides.size(); ++d)
      if (d != groups.dim) out.strides[d] = out.strides[d] * groups.each;
    return out;
  }

  void rewrite(Kernel& kernel) {
    used_ = variables_of(kernel);
    for (const auto& [symbol, info] : program_.symbols) used_.insert(symbol);
    rewrite(kernel.body);
  }
  void rewrite(Body& body) {
    for (Stmt& stmt : body) {
      if (stmt.loop) rewrite(stmt.loop->body), rewrite(stmt.loop->after);
      const auto found = groups_.find(stmt.buffer);
      if (found == groups_.end()) continue;
      const Groups& groups = found->second;
      Expr& place = stmt.index[groups.dim];
      stmt.buffer = spread_.at(stmt.buffer);
      if (stmt.kind == StmtKind::load) {
        const bool by_groups = place.op() == ExprOp::floordiv && place.args()[1].is_constant(groups.each);
        place = by_groups ? Expr(place.args()[0]) : place * groups.each;
        continue;
      }
      Stmt all = loop("i", Expr(groups.each));
      place = place * groups.each + variable(all);
      all.loop->body.push_back(std::move(stmt));
      stmt = std::move(all);
    }
  }

  LoopProgram& program_;
  const std::set<BufferId> pinned_;
  std::vector<const Loop*> around_;
  std::map<BufferId, Groups> groups_;
  std::map<BufferId, BufferId> spread_;
};

}  // namespace

bool spread_groups(LoopProgram& program, const Target& target, Log& log) {
  return !target.is_gpu() && target.lanes > 1 && GroupSpreader(program).run(log);
}

}  // namespace kiln::loops
