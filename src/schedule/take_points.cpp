// Sums over a window that slides over a picture, of few terms for each point: depthwise convolutions, and a model's
// first one, over three colours. Several neighbouring points are taken at a time, each with an accumulator in a
// register and channels in lanes: they share the window's weights and most of what lies under it. Where padding masks
// terms off they are left out: by a condition on whole lines of the window, and at the ends of a line of points, whose
// numbers are known, by not being printed. Pools of maxima (and minima) are taken as well: they share what they
// compare.
#include "loop_passes/rewrite.h"
#include "loops/narrow_rows.h"
#include "loops/walk.h"
#include "schedule/schedule.h"
#include "schedule/widen_picture.h"

namespace kiln::loops {
namespace {

constexpr int64_t few_channels = 8;     // summed over for each place of the window: more are a product's
constexpr int64_t longest_window = 16;  // that is printed term by term
constexpr int64_t enough_items = 12;
constexpr int64_t least_line = 6;  // terms
// That one accumulator adds up where all channels share the picture, as PyTorch's own kernels do: a window in three
// dimensions over three colours has 441.
constexpr int64_t most_shared_terms = 512;

struct Window {
  std::vector<Loop*> around;  // parallel loops outside of the points
  Loop *points = nullptr, *lanes = nullptr;
  std::vector<Loop*> sums;  // outermost first
  Stmt* picture = nullptr;  // the load that moves with the points
  bool own = false;         // each lane, or each few, has its own part of the picture
  int64_t terms = 1;
  bool extremes() const { return sums.front()->reduce != ReduceOp::sum; }
};

class Windows {
 public:
  Windows(LoopProgram& program, Kernel& kernel, const Target& target)
      : program_(program), kernel_(kernel), target_(target), env_(kernel_ranges(kernel, program)) {}

  // `before`: what must run first.
  bool run(std::optional<Kernel>& before, Log& log) {
    Window window;
    if (!find(window)) return false;
    const int64_t points = window.extremes() ? compared_together(window) : together(window);
    if (points < 2) return false;
    kernel_.contraction.reset();
    kernel_.schedule = Schedule();
    kernel_.schedule->lanes = target_.lanes;
    window.points->directives = {Binding::unroll, points, Tail::peel};
    const bool exact = window.lanes->extent.value() % target_.lanes == 0;
    window.lanes->directives = {Binding::lane, target_.lanes, exact ? Tail::exact : Tail::mask};
    for (Loop* sum : window.sums)
      if (beside_points(*sum, window)) sum->directives = {Binding::unroll, sum->extent.value(), Tail::exact};
    leave_out(window);
    if (!window.own && is_narrow(buffer_of(*window.picture).dtype))
      before = widen_picture(program_, kernel_, *window.picture);
    pack_for_lanes(program_, kernel_, log);
    spread(window);
    log.add([&] {
      return Decision{
          "take points of", kernel_.name, "together", "", str(points, " at a time, channels in lanes"), true, ""};
    });
    return true;
  }

 private:
  bool find(Window& window) {
    if (kernel_.body.size() != 1) return false;
    std::vector<Loop*> chain;
    for (Body* body = &kernel_.body;;) {
      auto loop = std::find_if(body->begin(), body->end(), [](const Stmt& stmt) { return stmt.loop != nullptr; });
      if (loop == body->end() || loop->loop->role != AxisRole::parallel) break;
      for (auto before = body->begin(); before != loop; ++before)
        if (before->kind != StmtKind::op && before->kind != StmtKind::constant &&
            before->kind != StmtKind::index_value && before->kind != StmtKind::load)
          return false;
      chain.push_back(loop->loop.get());
      body = &loop->loop->body;
    }
    if (chain.size() < 2) return false;
    window.lanes = chain.back();
    window.points = chain[chain.size() - 2];
    window.around.assign(chain.begin(), chain.end() - 2);
    // Only a point's own channels may be followed by something: a norm over them.
    for (const Loop* loop : window.around)
      if (&loop->body.back() != loop_stmt_of(*loop)) return false;
    // Pictures may be any number, and lines of any length; channels are known.
    for (const Loop* loop : chain)
      if (loop->directives.binding != Binding::none) return false;
    if (!window.lanes->extent.is_constant() || window.lanes->extent.value() < target_.lanes / 2) return false;
    if (window.points->extent.is_constant() && window.points->extent.value() < 2) return false;
    // Items are lines of points, or parts of the channels, unless something that follows needs all of them.
    if (window.around.empty() && &window.points->body.back() != loop_stmt_of(*window.points)) return false;
    return find_sums(window) && (window.extremes() ? find_compared(window) : find_factors(window));
  }

  static const Stmt* loop_stmt_of(const Loop& loop) {
    for (const Stmt& stmt : loop.body)
      if (stmt.loop) return &stmt;
    return nullptr;
  }

  bool find_sums(Window& window) const {
    int loops = 0;
    for (const Stmt& stmt : window.lanes->body) {
      loops += stmt.loop != nullptr;
      if (stmt.kind == StmtKind::check_index || stmt.kind == StmtKind::raise_if || stmt.kind == StmtKind::random ||
          (stmt.kind == StmtKind::store && stmt.mode != StoreMode::plain))
        return false;
    }
    if (loops != 1) return false;
    int64_t terms = 1;
    for (Body* body = &window.lanes->body;;) {
      auto found = std::find_if(body->begin(), body->end(), [](const Stmt& stmt) { return stmt.loop != nullptr; });
      if (found == body->end()) break;
      Loop& loop = *found->loop;
      if (loop.role != AxisRole::reduce || loop.reduce_dtype != DType::f32 || !loop.extent.is_constant()) return false;
      if (loop.reduce != ReduceOp::sum && loop.reduce != ReduceOp::max && loop.reduce != ReduceOp::min) return false;
      if (!window.sums.empty() && loop.reduce != window.sums.front()->reduce) return false;
      if (!window.sums.empty() && (found + 1 != body->end() || window.sums.back()->yields != found->results))
        return false;
      for (const Stmt& stmt : loop.body)
        if (stmt.kind != StmtKind::op && stmt.kind != StmtKind::constant && stmt.kind != StmtKind::index_value &&
            stmt.kind != StmtKind::load && !stmt.loop)
          return false;
      terms *= std::max<int64_t>(1, loop.extent.value());
      window.sums.push_back(&loop);
      body = &loop.body;
    }
    if (window.sums.empty() || terms > (window.extremes() ? most_point_terms : most_shared_terms)) return false;
    window.terms = terms;
    return window.extremes() || summed_product(*window.sums.back()) != nullptr;
  }

  // What a pool compares: neighbours in lanes, and nothing where padding masks them off. Only the innermost loop runs
  // along the points.
  bool find_compared(Window& window) const {
    const Loop& along = *window.sums.back();
    for (Loop* sum : window.sums)
      for (Stmt& stmt : sum->body) {
        if (stmt.kind != StmtKind::load) continue;
        const auto in_lanes = affine_in(address_of(stmt, program_, env_), window.lanes->var);
        if (window.picture || sum != &along || !in_lanes || !in_lanes->coefficient.is_constant(1)) return false;
        window.picture = &stmt;
      }
    if (!window.picture || !beside_points(along, window) || varies_in_lanes(window.picture->mask, window)) return false;
    for (const Loop* sum : window.sums)
      if (sum != &along && beside_points(*sum, window)) return false;
    window.own = true;
    return yields_picture(window);
  }

  bool yields_picture(const Window& window) const {
    const Stmt* made = definition(window.sums.back()->yields[0]);
    if (made && made->kind == StmtKind::op && made->op == ScalarOp::select) {
      const Stmt* otherwise = definition(made->args[2]);
      const double nothing = window.sums.back()->reduce == ReduceOp::max ? -INFINITY : INFINITY;
      if (made->args[0] != window.picture->mask || !otherwise || otherwise->kind != StmtKind::constant ||
          otherwise->constant.as_double() != nothing)
        return false;
      made = definition(made->args[1]);
    } else if (window.picture->mask != no_value) {
      return false;
    }
    while (made && made->kind == StmtKind::op && made->op == ScalarOp::cast) made = definition(made->args[0]);
    return made == window.picture;
  }

  const Stmt* definition(ValueId v) const {
    const Stmt* found = nullptr;
    for_each_stmt(kernel_.body, [&](const Stmt& stmt) {
      if (std::find(stmt.results.begin(), stmt.results.end(), v) != stmt.results.end()) found = &stmt;
    });
    return found;
  }

  bool varies_in_lanes(ValueId v, const Window& window) const {
    const Stmt* made = v == no_value ? nullptr : definition(v);
    if (!made) return false;
    return made->loop || made->kind == StmtKind::load || mentions(made->expr, window.lanes->var) ||
           std::any_of(made->args.begin(), made->args.end(), [&](ValueId arg) { return varies_in_lanes(arg, window); });
  }

  // The picture moves with the points, the weights do not; in lanes both lie side by side, or will once packed.
  bool find_factors(Window& window) {
    bool weights = false;
    for (Loop* sum : window.sums)
      for (Stmt& stmt : sum->body) {
        if (stmt.kind != StmtKind::load) continue;
        const Expr address = address_of(stmt, program_, env_);
        const auto in_lanes = affine_in(address, window.lanes->var);
        const bool shuffled = !in_lanes && buffer_of(stmt).dtype == DType::f32 &&
                              (grouped_lanes(address, window.lanes->var, target_.lanes, env_) ||
                               lanes_by_turns(address, window.lanes->var, target_.lanes, env_));
        if (!shuffled && (!in_lanes || !in_lanes->coefficient.is_constant())) return false;
        const int64_t apart = shuffled ? 1 : in_lanes->coefficient.value();
        window.own |= apart == 1 && mentions(address, window.points->var);
        if (mentions(address, window.points->var)) {
          if (window.picture || (apart != 0 && apart != 1)) return false;
          window.picture = &stmt;
          continue;
        }
        if (stmt.mask != no_value) return false;
        // Sums over what is no weight are as exact as they can be (widen_sums).
        const Buffer& buffer = buffer_of(stmt);
        const bool fixed =
            (buffer.role == BufferRole::constant && !buffer.mutated) || buffer.role == BufferRole::derived;
        if (!fixed) return false;
        weights |= apart != 0;
      }
    if (!window.picture || !weights) return false;
    const Stmt* product = summed_product(*window.sums.back());
    if (std::none_of(product->args.begin(), product->args.end(), [&](ValueId v) { return is_picture(v, window); }))
      return false;
    // A window over many channels is a product's, whose rows are points: it has more to share than these.
    if (window.own) return window.terms <= most_point_terms;
    // Instructions for matrices do more than the sharing, even if their terms are filled up with zeros.
    if (target_.matrix_tiles && buffer_of(*window.picture).dtype == DType::bf16) return false;
    if (has_pairs(window)) return false;
    const bool slides = std::any_of(window.sums.begin(), window.sums.end(),
                                    [&](const Loop* sum) { return moves_over_picture(*sum, window); });
    return slides && channels(window) <= few_channels;
  }

  // Lines of the window are pairs of terms, as fill_windows makes them: a product's.
  bool has_pairs(const Window& window) const {
    const Loop& terms = *window.sums.back();
    const auto along = affine_in(address_of(*window.picture, program_, env_), terms.var);
    return target_.bf16_pairs && buffer_of(*window.picture).dtype == DType::bf16 && window.picture->mask == no_value &&
           along && along->coefficient.is_constant(1) && terms.extent.value() % 2 == 0 &&
           terms.extent.value() >= least_line;
  }

  // What is loaded, or the same as f32 where it is stored in fewer bytes.
  static bool is_picture(ValueId v, const Window& window) {
    const ValueId loaded = window.picture->results[0];
    return v == loaded ||
           std::any_of(window.sums.back()->body.begin(), window.sums.back()->body.end(), [&](const Stmt& stmt) {
             return stmt.kind == StmtKind::op && stmt.op == ScalarOp::cast && stmt.results[0] == v &&
                    stmt.args[0] == loaded;
           });
  }

  const Buffer& buffer_of(const Stmt& access) const { return program_.buffers[static_cast<size_t>(access.buffer)]; }

  // Terms of the sums that do not move over the picture as the points do.
  int64_t channels(const Window& window) const {
    int64_t all = 1;
    for (const Loop* sum : window.sums)
      if (!moves_over_picture(*sum, window)) all *= sum->extent.value();
    return all;
  }

  // An index of the picture goes along this sum's variable and a loop's around it; not a loop over groups, each of
  // which has weights of its own: its number and the sum's make a channel of the picture.
  bool moves_over_picture(const Loop& sum, const Window& window) const {
    for (const Expr& e : window.picture->index) {
      if (!mentions(e, sum.var)) continue;
      if (mentions(e, window.points->var)) return true;
      for (const Loop* loop : window.around)
        if (mentions(e, loop->var) && !weights_vary(*loop, window)) return true;
    }
    return false;
  }
  bool weights_vary(const Loop& loop, const Window& window) const {
    for (const Loop* sum : window.sums)
      for (const Stmt& stmt : sum->body)
        if (stmt.kind == StmtKind::load && &stmt != window.picture &&
            mentions(address_of(stmt, program_, env_), loop.var))
          return true;
    return false;
  }

  // Whether the sum runs through the window's places along the points. Where the picture's lines, columns and channels
  // are one dimension (a reshaped row of tokens) all of the window's sums are in its index, and the nearest one does.
  bool beside_points(const Loop& sum, const Window& window) const {
    if (sum.extent.value() > longest_window || !shares_index(sum, window)) return false;
    const auto distance = distance_of(sum, window);
    return !distance || std::none_of(window.sums.begin(), window.sums.end(), [&](const Loop* other) {
      const auto nearer = other != &sum && shares_index(*other, window) ? distance_of(*other, window) : std::nullopt;
      return nearer && *nearer < *distance;
    });
  }
  static bool shares_index(const Loop& sum, const Window& window) {
    return std::any_of(window.picture->index.begin(), window.picture->index.end(),
                       [&](const Expr& e) { return mentions(e, sum.var) && mentions(e, window.points->var); });
  }
  // Between neighbouring places in memory, where that is known.
  std::optional<int64_t> distance_of(const Loop& sum, const Window& window) const {
    const auto along = affine_in(address_of(*window.picture, program_, env_), sum.var);
    if (!along || !along->coefficient.is_constant() || sum.extent.is_constant(1)) return {};
    return std::abs(along->coefficient.value());
  }

  // How many points a pool takes at a time: as many as have a register for each column under their windows. A column
  // costs a load and a comparison that keeps what is no number, in each line of the window; a point compares its own
  // columns in the end.
  int64_t compared_together(const Window& window) const {
    const Loop& along = *window.sums.back();
    const Expr address = address_of(*window.picture, program_, env_);
    const auto step = affine_in(address, window.points->var), place = affine_in(address, along.var);
    if (!step || !place || !step->coefficient.is_constant() || !place->coefficient.is_constant()) return 0;
    const int64_t wide = along.extent.value(), line = line_of(window);
    int64_t lines = 1;
    for (const Loop* sum : window.sums)
      if (sum != &along) lines *= sum->extent.value();
    const auto columns = [&](int64_t points) {
      return columns_under(points, wide, step->coefficient.value(), place->coefficient.value());
    };
    const auto cost_of = [&](int64_t points) {
      return static_cast<double>(2 * lines * columns(points) + 2 * points * (wide - 1) + 4 * lines);
    };
    // Each place under the windows is a stream along the channels. From afar only few of them are fetched ahead.
    const bool far = estimate(buffer_bytes(buffer_of(*window.picture)), program_) > 2 * target_.second_cache;
    std::map<int64_t, double> costs;
    for (int64_t points = std::min<int64_t>(line, far ? 2 : 14); points >= 2; --points) {
      if (columns(points) + 4 > target_.vector_registers) continue;
      const int64_t rest = line % points;
      costs[points] = static_cast<double>(line / points) * cost_of(points) +
                      rest_of_line(window, cost_of(points), rest > 0 ? cost_of(rest) : 0);
    }
    return cheapest(window, costs);
  }

  int64_t line_of(const Window& window) const {
    return std::max<int64_t>(1, static_cast<int64_t>(estimate(window.points->extent, program_)));
  }

  // The number of points at a time that costs least. Of a line whose length is a guess it is the smallest that costs
  // hardly more: a shorter line still has groups.
  int64_t cheapest(const Window& window, const std::map<int64_t, double>& costs) const {
    const double more = window.points->extent.is_constant() ? 1 / 0.999 : 1.1;
    double least = INFINITY;
    for (const auto& [points, cost] : costs) least = std::min(least, cost);
    int64_t best = 0;
    for (auto each = costs.rbegin(); each != costs.rend(); ++each)
      if (each->second <= least * more) {
        best = each->first;
        if (window.points->extent.is_constant()) break;
      }
    return best;
  }

  // What the rest of a line costs that is no whole number of groups, if `group` is what one costs and `rest` what the
  // points that are left over do. A line of which the length is a guess has half a group too many in the mean, and two
  // groups that are masked.
  static double rest_of_line(const Window& window, double group, double rest) {
    return window.points->extent.is_constant() ? rest : 1.5 * group;
  }

  static int64_t columns_under(int64_t points, int64_t wide, int64_t step, int64_t place) {
    std::set<int64_t> columns;
    for (int64_t point = 0; point < points; ++point)
      for (int64_t k = 0; k < wide; ++k) columns.insert(point * step + k * place);
    return static_cast<int64_t>(columns.size());
  }

  // How many at a time: each adds up one after the other, a term in four cycles; two are added and two loaded in one.
  int64_t together(const Window& window) const {
    const auto line = static_cast<double>(line_of(window));
    double wide = 1;  // places of the window along the points
    for (const Loop* sum : window.sums)
      if (beside_points(*sum, window)) wide *= static_cast<double>(sum->extent.value());
    const bool own = window.own;
    std::map<int64_t, double> costs;
    for (int64_t points = std::min<int64_t>(line_of(window), 14); points >= 1; --points) {
      const auto n = static_cast<double>(points);
      const double loads = own ? n + wide - 1 + wide : wide * (n + 1);
      const double registers = own ? 2 * n + wide + 1 : n + 3;
      if (registers > target_.vector_registers) continue;
      const double cycles = std::max({4 * wide, n * wide / 2, loads / 2}) + 2;
      const double rest = std::fmod(line, n);
      const double left_over = rest > 0 ? std::max(4 * wide, rest * wide / 2) + 4 : 0;
      costs[points] = std::floor(line / n) * cycles + rest_of_line(window, cycles, left_over);
    }
    return cheapest(window, costs);
  }

  // Which conditions leave out what: for each sum the part of the picture's mask that its own body makes.
  void leave_out(const Window& window) {
    if (window.picture->mask == no_value) return;
    std::map<ValueId, const Stmt*> made;
    for_each_stmt(kernel_.body, [&](const Stmt& stmt) {
      for (ValueId v : stmt.results) made[v] = &stmt;
    });
    for (Loop* sum : window.sums) {
      std::vector<ValueId> open = {window.picture->mask};
      for (size_t i = 0; i < open.size() && sum->only == no_value; ++i) {
        for (const Stmt& stmt : sum->body)
          if (!stmt.loop && stmt.results == std::vector<ValueId>{open[i]}) sum->only = open[i];
        const Stmt* from = made[open[i]];
        if (from && from->kind == StmtKind::op && from->op == ScalarOp::logical_and)
          open.insert(open.end(), from->args.begin(), from->args.end());
      }
    }
  }

  // Where there are few lines of points, channels are shared out as well.
  void spread(const Window& window) {
    double items = 1;
    for (const Loop* loop : window.around) items *= std::max(1.0, estimate(loop->extent, program_));
    const int64_t channels = window.lanes->extent.value();
    int64_t panel = channels;
    for (int64_t vectors = channels / target_.lanes; channels % target_.lanes == 0 && vectors >= 1; --vectors)
      if (channels % (vectors * target_.lanes) == 0 && items * static_cast<double>(channels / panel) < enough_items)
        panel = vectors * target_.lanes;
    if (panel == channels && !window.around.empty()) return;
    if (&window.points->body.back() != loop_stmt_of(*window.points)) return;  // what follows needs all channels
    std::set<std::string> used = variables_of(kernel_);
    int n = 0;
    while (used.count(str("o", n))) ++n;
    Stmt outer = loop_stmt(str("o", n), Expr(channels / panel));
    const std::string var = window.lanes->var;
    const Substitution map{{var, Expr::symbol(outer.loop->var) * panel + Expr::symbol(var)}};
    window.lanes->extent = Expr(panel);
    for_each_stmt(window.lanes->body, [&](Stmt& stmt) {
      for (Expr& e : stmt.index) e = substitute(e, map);
      stmt.expr = substitute(stmt.expr, map);
    });
    rename_in_names(kernel_, map);
    outer.loop->body = std::move(kernel_.body);
    kernel_.body.clear();
    kernel_.body.push_back(std::move(outer));
  }

  LoopProgram& program_;
  Kernel& kernel_;
  const Target& target_;
  const RangeEnv env_;
};

bool take_points_of(Block& block, LoopProgram& program, const Target& target, Log& log) {
  bool changed = false;
  for (size_t i = 0; i < block.size(); ++i) {
    for_each_block(block[i], [&](Block& nested) { changed |= take_points_of(nested, program, target, log); });
    auto* kernel = std::get_if<Kernel>(&block[i].what);
    std::optional<Kernel> before;
    if (kernel && !kernel->schedule) changed |= Windows(program, *kernel, target).run(before, log);
    if (before) block.insert(block.begin() + static_cast<std::ptrdiff_t>(i++), Item{std::move(*before)});
  }
  return changed;
}

}  // namespace

bool take_points(LoopProgram& program, const Target& target, Log& log) {
  if (target.is_gpu() || target.lanes == 1) return false;
  return take_points_of(program.block, program, target, log);
}

bool takes_points(const Kernel& kernel) {
  bool found = false;
  for_each_stmt(kernel.body, [&](const Stmt& stmt) {
    found |= stmt.loop && stmt.loop->role == AxisRole::parallel && stmt.loop->directives.binding == Binding::unroll &&
             stmt.loop->directives.tail == Tail::peel;
  });
  return found;
}

}  // namespace kiln::loops
