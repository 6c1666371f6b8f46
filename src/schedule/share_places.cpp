// A picture is sampled at the same places for all of its channels (grid_sample, interpolation): finding a place and its
// weights takes longer than what is done there. The loop over the channels goes innermost, so that hoist_invariants can
// move all that they share in front of it:
//
//   for c { for y { for x { place of (y, x); out[c, y, x] = picture[c, place] } } }
//   for y { for x { place of (y, x); for c @serial { out[c, y, x] = picture[c, place] } } }
//
// Lanes stay along the points, which are neighbours in the result, several short lines of them together; where a
// picture's channels are neighbours and fill a vector, they are the lanes.
#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

constexpr size_t few_shared_statements = 6;  // statements that are not worth another order of the results
constexpr double items_around_points = 8;    // that the loops around the points must leave

class PlaceSharer {
 public:
  PlaceSharer(const LoopProgram& program, Kernel& kernel, const Target& target)
      : program_(program), kernel_(kernel), target_(target), env_(kernel_ranges(kernel, program)) {}

  bool run() {
    for (Body* body = &kernel_.body; body->size() == 1 && is_plain(body->front()); body = &body->front().loop->body)
      chain_.push_back(body->front().loop.get());
    if (chain_.size() < 2 || !is_straight(chain_.back()->body)) return false;
    for (const Loop* loop : chain_)
      for (const Loop* other : chain_)
        if (mentions(loop->extent, other->var)) return false;
    for (size_t i = chain_.size() - 1; i-- > 0;)
      if (is_worth(i)) return sink(i), true;
    return false;
  }

 private:
  static bool is_plain(const Stmt& stmt) {
    return stmt.loop && stmt.loop->role == AxisRole::parallel && stmt.loop->directives == AxisDirectives();
  }
  static bool is_straight(const Body& body) {
    return std::all_of(body.begin(), body.end(), [](const Stmt& stmt) {
      return !stmt.loop && stmt.kind != StmtKind::random &&
             (stmt.kind != StmtKind::store || stmt.mode == StoreMode::plain);
    });
  }

  // Statements that differ between a loop's iterations, by their places in the innermost body.
  std::vector<bool> differing(const std::string& var) const {
    std::set<std::string> variables = {var};
    std::set<ValueId> values;
    std::vector<bool> out;
    for (const Stmt& stmt : chain_.back()->body) {
      const auto differs = [&](const Expr& e) {
        return std::any_of(variables.begin(), variables.end(), [&](const std::string& v) { return mentions(e, v); });
      };
      bool found = differs(stmt.expr) || values.contains(stmt.mask);
      for (const Expr& e : stmt.index) found |= differs(e);
      for (ValueId v : stmt.args) found |= values.contains(v);
      out.push_back(found);
      if (!found) continue;
      values.insert(stmt.results.begin(), stmt.results.end());
      if (stmt.kind == StmtKind::check_index) variables.insert(stmt.index_var);
    }
    return out;
  }

  // What is shared by the iterations of this loop is computed anew for each point, and more than what is not.
  bool is_worth(size_t i) const {
    const Loop& loop = *chain_[i];
    const std::string& point = chain_.back()->var;
    if (range_of(loop.extent, env_).low < 1 || estimate(loop.extent, program_) < 2) return false;
    double items = 1;
    for (size_t other = 0; other + 1 < chain_.size(); ++other)
      if (other != i) items *= std::max(1.0, estimate(chain_[other]->extent, program_));
    if (items < items_around_points) return false;
    const std::vector<bool> own = differing(loop.var), of_point = differing(point);
    size_t shared = 0, each = 0, found = 0;
    for (size_t s = 0; s < own.size(); ++s) {
      const Stmt& stmt = chain_.back()->body[s];
      each += own[s];
      shared += of_point[s] && !own[s];
      if (stmt.kind != StmtKind::load || !own[s]) continue;
      // What is read along the points would be read in pieces.
      for (const Expr& e : stmt.index)
        if (mentions(e, point)) return false;
      found += of_point[s];
    }
    return found > 0 && shared >= few_shared_statements && shared >= 2 * each;
  }

  bool are_neighbours(const Loop& channels) const {
    if (estimate(channels.extent, program_) < target_.lanes) return false;
    bool all = true;
    for (const Stmt& stmt : chain_.back()->body) {
      if (stmt.kind != StmtKind::load) continue;
      const auto along = affine_in(address_of(stmt, program_, env_), channels.var);
      all &= along && (along->coefficient.is_constant(0) || along->coefficient.is_constant(1));
    }
    return all;
  }

  void sink(size_t i) {
    if (!are_neighbours(*chain_[i])) chain_[i]->directives.binding = Binding::serial;
    for (size_t at = i; at + 1 < chain_.size(); ++at) {
      std::swap(chain_[at]->var, chain_[at + 1]->var);
      std::swap(chain_[at]->extent, chain_[at + 1]->extent);
      std::swap(chain_[at]->directives, chain_[at + 1]->directives);
    }
    join_short_lines();
  }

  // Lines of points too short for lanes (the bins of a region, the points of a query) are one.
  void join_short_lines() {
    const size_t last = chain_.size() - 2;
    if (last < 2 || estimate(chain_[last]->extent, program_) >= target_.lanes) return;
    double items = 1;
    for (size_t i = 0; i + 1 < last; ++i) items *= std::max(1.0, estimate(chain_[i]->extent, program_));
    if (items >= items_around_points) collapse_points(*chain_[last - 1], kernel_, program_);
  }

  const LoopProgram& program_;
  Kernel& kernel_;
  const Target& target_;
  const RangeEnv env_;
  std::vector<Loop*> chain_;
};

}  // namespace

bool share_places(LoopProgram& program, const Target& target, Log& log) {
  if (target.is_gpu() || target.lanes == 1) return false;
  bool changed = false;
  for_each_item(program.block, [&](Item& item) {
    auto* kernel = std::get_if<Kernel>(&item.what);
    if (!kernel || !PlaceSharer(program, *kernel, target).run()) return;
    changed = true;
    log.add([&] {
      return Decision{"order loops of", kernel->name, "", "", "what its channels share is found once", true, ""};
    });
  });
  return changed;
}

}  // namespace kiln::loops
