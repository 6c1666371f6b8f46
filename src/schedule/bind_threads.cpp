// Binds a kernel's axes for a GPU: which loops number the items, how many threads take an item together, and which
// loops inside of an item they share out as lanes.
//
// An item is an iteration of the perfectly nested parallel loops. What stands in it is a body that one thread runs
// (pointwise kernels, sums down a column), or one that a team of threads runs together (rows: a norm, a softmax, a sum
// along memory). Iterations of parallel loops are independent, so binding one is never a question of being right.
#include "loop_passes/rewrite.h"
#include "schedule/hold_rows.h"
#include "schedule/schedule.h"
#include "schedule/unroll_windows.h"

namespace kiln::loops {
namespace {

constexpr int threads_of_block = 256, warp = 32, most_threads = 1024;
constexpr double long_row = 1024;           // elements: more are worth more threads than a warp has
constexpr double few_rows = 4;              // per multiprocessor: so few want more threads each
constexpr double many_items = 64 << 10;     // fill the GPU with a thread each
constexpr int word_bytes = 16;              // the widest that a thread fetches at once
constexpr int64_t longest_row = 32 << 10;   // that a block keeps in registers
constexpr int of_a_row_each = 64;           // bytes of a row for each thread, where there are rows enough
constexpr int64_t least_of_a_row = 8;       // elements of it
constexpr int64_t of_a_lone_row_each = 64;  // likewise, where it is reduced once and not held
constexpr int64_t most_held = 64;           // registers of a thread for them

bool is_free(const Loop& loop) { return loop.role == AxisRole::parallel && loop.directives.binding == Binding::none; }

class ThreadBinder {
 public:
  ThreadBinder(LoopProgram& program, Kernel& kernel, const Target& target)
      : program_(program), kernel_(kernel), target_(target), env_(kernel_ranges(kernel, program)) {}

  void run() {
    Body& body = bind_items();
    if (bind_rows(body)) return;
    Grid grid{threads_of_block, 1};
    if (const double width = widest(body); width > 1) {
      grid.team = team_for(body, width);
      // A team is a part of a warp, a warp, or a whole block: nothing else can wait for its own.
      grid.threads = grid.team == 1 ? threads_of_block : std::max(grid.team, grid.team == warp ? 4 * warp : warp);
    }
    if (grid.team > 1) bind_team(body, grid.team);
    if (grid.team > 1 && !any_lane(body)) grid = {threads_of_block, 1};
    // Fewer items than a block has threads: more blocks, so that they run beside one another.
    if (grid.team == 1 && items_ < threads_of_block * target_.multiprocessors) grid.threads = 2 * warp;
    if (grid.team == 1 && innermost_) grid.vector = widen_items();
    if (grid.team == 1 && innermost_ && grid.vector == 1) grid.vector = widen_windows(body);
    if (grid.team > 1) grid.vector = widen_lanes(body, grid.team);
    kernel_.schedule->grid = grid;
  }

 private:
  // ---- Wide words
  // ------------------------------------------------------------------------------------------------------
  // How many neighbours along a loop fill a word of 16 bytes, where most of what its body touches comes in such words.
  int vector_for(const Loop& loop, int most) const {
    int vector = 1;
    for (const Stmt& stmt : loop.body) {
      if (stmt.loop) return 1;
      if (stmt.kind != StmtKind::load && stmt.kind != StmtKind::store) continue;
      const int bytes = static_cast<int>(dtype_bytes(program_.buffers[static_cast<size_t>(stmt.buffer)].dtype));
      if (is_wide(stmt, loop, 2, program_, env_)) vector = std::max(vector, word_bytes / bytes);
    }
    for (vector = std::min({vector, most, 8}); vector > 1; vector /= 2) {
      int wide = 0, other = 0;
      for (const Stmt& stmt : loop.body) {
        if (stmt.kind != StmtKind::load && stmt.kind != StmtKind::store) continue;
        if (program_.buffers[static_cast<size_t>(stmt.buffer)].role == BufferRole::scratch) continue;
        if (is_wide(stmt, loop, vector, program_, env_)) {
          ++wide;
          continue;
        }
        const auto along = affine_in(address_of(stmt, program_, env_), loop.var);
        if (!along || !along->coefficient.is_constant(0) || stmt.mask != no_value) ++other;
      }
      if (wide > 0 && wide >= other) return vector;
    }
    return 1;
  }

  int widen_items() {
    const double enough = static_cast<double>(target_.multiprocessors) * threads_of_block;
    int most = 8;
    while (most > 1 && items_ / most < enough) most /= 2;
    const int vector = vector_for(*innermost_, most);
    if (vector > 1) innermost_->directives = {Binding::item, vector, Tail::mask};
    return vector;
  }

  // Small windows are written out, where neighbours of what lies under them come in words then.
  int widen_windows(Body& body) {
    if (&body != &innermost_->body) return 1;
    Body before = clone(body);
    const std::vector<DType> types = kernel_.value_types;
    const std::vector<NamedValue> named = kernel_.named;
    if (!unroll_windows(kernel_, body)) return 1;
    if (const int vector = widen_items(); vector > 1) return vector;
    body = std::move(before);
    kernel_.value_types = types, kernel_.named = named;
    return 1;
  }

  int widen_lanes(Body& body, int team) {
    std::vector<Loop*> lanes;
    for_each_stmt(body, [&](Stmt& stmt) {
      if (stmt.loop && stmt.loop->directives.binding == Binding::lane) lanes.push_back(stmt.loop.get());
    });
    int vector = 1;
    for (const Loop* loop : lanes)
      if (estimate(loop->extent, program_) >= 8.0 * team) vector = std::max(vector, vector_for(*loop, 8));
    for (Loop* loop : lanes)
      if (vector > 1 && vector_for(*loop, vector) == vector && estimate(loop->extent, program_) >= 8.0 * team)
        loop->directives.factor = int64_t{team} * vector;
    return vector;
  }

  // ---- Rows in registers
  // -----------------------------------------------------------------------------------------------
  // Items that are rows of a fixed length: each thread has a few neighbours at a time and keeps what later loops need.
  bool bind_rows(Body& body) {
    if (!has_flat_rows(body)) return false;
    int64_t longest = 1;
    bool shareable_all = true;
    for (const Stmt& stmt : body) {
      if (!stmt.loop) continue;
      shareable_all &= shareable(*stmt.loop);
      longest = std::max(longest, stmt.loop->extent.value());
    }
    const bool alone = std::count_if(body.begin(), body.end(), [](const Stmt& s) { return s.loop != nullptr; }) == 1;
    if (!shareable_all || longest < 2 * warp || longest > longest_row) return false;
    // A lone sum down a column is better off with a thread for each.
    if (alone && team_for(body, static_cast<double>(longest)) == 1) return false;
    Grid grid;
    int vector = 8;
    for (const Stmt& stmt : body)
      if (stmt.loop)
        while (vector > 1 && (stmt.loop->extent.value() % vector != 0 || stmt.loop->extent.value() < warp * vector))
          vector /= 2;
    int widest_word = 1;
    for (const Stmt& stmt : body)
      if (stmt.loop) widest_word = std::max(widest_word, vector_for(*stmt.loop, vector));
    grid.vector = widest_word;
    // Few rows want more threads each; else enough neighbours for each thread to have several words on their way.
    const bool few = items_ < few_rows * target_.multiprocessors;
    const int64_t words = grid.vector * (of_a_row_each / word_bytes);
    const int64_t each = few ? grid.vector : alone ? of_a_lone_row_each : std::max<int64_t>(words, least_of_a_row);
    grid.team = warp;
    while (grid.team < most_threads && longest > grid.team * each) grid.team *= 2;
    grid.threads = grid.team == warp ? 4 * warp : grid.team;
    const int64_t round = int64_t{grid.team} * grid.vector, rounds = (longest + round - 1) / round;
    if (rounds * grid.vector > most_held) return false;
    grid.hold = static_cast<int>(rounds);
    hold_rows(program_, kernel_, body, static_cast<int>(most_held / (rounds * grid.vector)));
    for (Stmt& stmt : body)
      if (stmt.loop) stmt.loop->directives = {Binding::lane, round, Tail::mask};
    kernel_.schedule->grid = grid;
    return true;
  }

  // Values in front of a lone loop move into it: each item makes them anew, and the nest is perfect.
  void sink(Body& body) const {
    if (body.size() < 2 || !body.back().loop || !is_free(*body.back().loop)) return;
    for (size_t i = 0; i + 1 < body.size(); ++i)
      if (!may_sink(body[i])) return;
    Stmt loop = std::move(body.back());
    body.pop_back();
    Body inner = std::move(body);
    for (Stmt& stmt : loop.loop->body) inner.push_back(std::move(stmt));
    loop.loop->body = std::move(inner);
    body.clear();
    body.push_back(std::move(loop));
  }
  bool may_sink(const Stmt& stmt) const {
    if (stmt.kind == StmtKind::load) return !written_.contains(stmt.buffer);
    return stmt.kind == StmtKind::op || stmt.kind == StmtKind::constant || stmt.kind == StmtKind::index_value;
  }

  // The perfect nest from the top becomes items. Gives what one of them runs.
  Body& bind_items() {
    for_each_stmt(kernel_.body, [&](const Stmt& stmt) {
      if (stmt.kind == StmtKind::store) written_.insert(stmt.buffer);
    });
    Body* body = &kernel_.body;
    for (sink(*body); body->size() == 1 && body->front().kind == StmtKind::loop && is_free(*body->front().loop) &&
                      !mentions_bound(body->front().loop->extent);
         sink(*body)) {
      Loop& loop = *body->front().loop;
      loop.directives = {Binding::item, 0, Tail::exact};
      innermost_ = &loop;
      bound_.push_back(loop.var);
      items_ *= std::max(1.0, estimate(loop.extent, program_));
      body = &loop.body;
    }
    return *body;
  }
  bool mentions_bound(const Expr& extent) const {
    return std::any_of(bound_.begin(), bound_.end(), [&](const std::string& var) { return mentions(extent, var); });
  }

  // The longest loop that a team could share out; 1: none.
  double widest(const Body& body) const {
    double width = 1;
    for (const Stmt& stmt : body) {
      if (!stmt.loop) continue;
      const Loop& loop = *stmt.loop;
      if (shareable(loop)) width = std::max(width, estimate(loop.extent, program_));
      if (loop.role != AxisRole::scan) width = std::max(width, widest(loop.body));
    }
    return width;
  }

  static bool shareable(const Loop& loop) {
    if (loop.role == AxisRole::parallel) return loop.directives.binding == Binding::none;
    return loop.role == AxisRole::reduce && loop.after.empty() && !stores(loop.body);
  }
  static bool stores(const Body& body) {
    bool found = false;
    for_each_stmt(body, [&](const Stmt& stmt) { found |= stmt.kind == StmtKind::store; });
    return found;
  }

  int team_for(const Body& body, double width) const {
    const bool only_sums = std::all_of(
        body.begin(), body.end(), [](const Stmt& stmt) { return !stmt.loop || stmt.loop->role != AxisRole::parallel; });
    // Neighbouring items read neighbours: a thread each reads memory in one line.
    if (only_sums && items_ >= warp * target_.multiprocessors && !bound_.empty() &&
        stride_score(body, bound_.back()) >= 0)
      return 1;
    if (width < 8 || (width < warp && items_ >= many_items)) return 1;
    if (width <= long_row && items_ >= few_rows * target_.multiprocessors) return warp;
    int team = warp;
    while (team < most_threads && team * 4 <= width) team *= 2;
    return team;
  }

  // Positive: accesses inside of the loops run along `var`; negative: they jump.
  int stride_score(const Body& body, const std::string& var, bool inside = false) const {
    int score = 0;
    for (const Stmt& stmt : body) {
      if (stmt.loop) score += stride_score(stmt.loop->body, var, true);
      if (!inside || stmt.kind != StmtKind::load) continue;
      const auto affine = affine_in(address_of(stmt, program_, env_), var);
      if (affine && affine->coefficient.is_constant(0)) continue;
      score += affine && affine->coefficient.is_constant(1) ? 2 : -2;
    }
    return score;
  }

  // Lanes for the loops that the team meets: each takes the longest of a nest.
  void bind_team(Body& body, int team) {
    for (Stmt& stmt : body) {
      if (!stmt.loop) continue;
      Loop& loop = *stmt.loop;
      if (loop.role == AxisRole::scan) continue;
      const bool inner = widest(loop.body) > std::max(1.0, estimate(loop.extent, program_));
      if (shareable(loop) && (!inner || estimate(loop.extent, program_) >= team))
        loop.directives = {Binding::lane, team, Tail::mask};
      else
        bind_team(loop.body, team);
    }
  }
  static bool any_lane(const Body& body) {
    bool found = false;
    for_each_stmt(body,
                  [&](const Stmt& stmt) { found |= stmt.loop && stmt.loop->directives.binding == Binding::lane; });
    return found;
  }

  LoopProgram& program_;
  Kernel& kernel_;
  const Target& target_;
  RangeEnv env_;
  std::set<BufferId> written_;
  std::vector<std::string> bound_;  // variables of the items, outermost first
  Loop* innermost_ = nullptr;       // of the items
  double items_ = 1;
};

}  // namespace

bool bind_threads(LoopProgram& program, const Target& target, Log&) {
  auto each = [&](Item& item) {
    auto* kernel = std::get_if<Kernel>(&item.what);
    if (!kernel || (kernel->schedule && kernel->schedule->grid.tile_rows > 0)) return;
    if (!kernel->schedule) kernel->schedule = Schedule();
    kernel->contraction.reset();
    ThreadBinder(program, *kernel, target).run();
  };
  for_each_item(program.init, each);
  for_each_item(program.block, each);
  return true;
}

}  // namespace kiln::loops
