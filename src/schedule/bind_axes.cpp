#include <cmath>

#include "loop_passes/rewrite.h"
#include "loops/lane_pairs.h"
#include "schedule/contractions.h"
#include "schedule/new_loops.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

constexpr int64_t long_chunk = 4096;  // elements of a one-dimensional loop that make one item
constexpr double few_items = 16;      // so that there are more, each may compute again what all have in common

class Binder {
 public:
  Binder(LoopProgram& program, Kernel& kernel, const Target& target)
      : program_(program), kernel_(kernel), target_(target), env_(kernel_ranges(kernel, program)) {}

  void run(bool in_lanes = true) {
    if (target_.lanes > 1 && in_lanes) bind_lanes(kernel_.body);
    bind_items();
  }

  // Only the loops that follow the one with this variable.
  void bind_lanes_after(Body& body, const std::string& var) {
    bool after = false;
    for (Stmt& stmt : body) {
      if (stmt.kind != StmtKind::loop) continue;
      if (after) bind_lanes_of(stmt);
      after |= stmt.loop->var == var;
    }
  }

 private:
  // Lanes: the innermost parallel loop, or the reductions inside it, whichever runs along memory.
  void bind_lanes(Body& body, const Loop* around = nullptr) {
    for (Stmt& stmt : body)
      if (stmt.kind == StmtKind::loop) bind_lanes_of(stmt, around);
  }

  // A short sum inside a sum, as a convolution's window of dynamic size: most lanes would be off, and summed one by one
  // it is not rounded in between (widen_sums).
  bool is_window(const Stmt& stmt, const Loop* around) const {
    const Loop& loop = *stmt.loop;
    return around && around->role == AxisRole::reduce && loop.reduce == ReduceOp::sum && !loop.extent.is_constant() &&
           estimate(loop.extent, program_) < 8;
  }

  void bind_lanes_of(Stmt& stmt, const Loop* around = nullptr) {
    Loop& loop = *stmt.loop;
    if (loop.directives.binding == Binding::lane) return;  // decided before (take_points)
    if (loop.role == AxisRole::reduce) {
      if (lane_reducible(loop) && wide_enough(loop) && !is_window(stmt, around))
        set_lane(loop);
      else
        bind_lanes(loop.body, &loop);
      return;
    }
    bool innermost =
        loop.role == AxisRole::parallel && loop.directives.binding == Binding::none && !contains_parallel(loop.body);
    if (innermost && choose(loop)) return;
    if (loop.role != AxisRole::scan) bind_lanes(loop.body);
  }

  bool choose(Loop& loop) {
    if (!wide_enough(loop) || !vectorizable(loop) || !stores_move(loop)) return false;
    bool reduces = false;
    for_each_stmt(loop.body, [&](const Stmt& stmt) { reduces |= stmt.kind == StmtKind::loop; });
    if (!reduces) {
      set_lane(loop);
      return true;
    }
    // Along the parallel axis every deep access must be neighbouring or fixed; otherwise the reductions take the lanes,
    // unless they would fill few of them.
    if (deep_stride_score(loop.body, loop.var, 0) < 0 && !has_short_windows(loop)) return false;
    set_lane(loop);
    if (reads_down_columns(loop)) widen(loop);
    return true;
  }

  // One reduction of what is read column by column, each line a jump away from the last: a vector at a time would take
  // one line of the cache of every few, and come again for the next one.
  bool reads_down_columns(const Loop& loop) const {
    constexpr size_t few_statements = 12;
    if (target_.lanes < 4 || !loop.extent.is_constant() || loop.extent.value() < wide_lanes() ||
        !run_side_by_side(loop))
      return false;
    const Loop* down = nullptr;
    for (const Stmt& stmt : loop.body) {
      if (!stmt.loop) continue;
      if (down) return false;
      down = stmt.loop.get();
    }
    if (!down || down->body.size() > few_statements || estimate(down->extent, program_) < target_.lanes) return false;
    bool jumps = false;
    for (const Stmt& stmt : down->body) {
      if (stmt.loop) return false;
      if (stmt.kind != StmtKind::load) continue;
      const Expr address = address_of(stmt, program_, env_);
      const auto along = affine_in(address, loop.var), below = affine_in(address, down->var);
      if (!along || !along->coefficient.is_constant(1) || !below) return false;
      jumps |= !below->coefficient.is_constant() || below->coefficient.value() >= 2 * target_.lanes;
    }
    return jumps;
  }
  int64_t wide_lanes() const { return int64_t{4} * target_.lanes; }
  // Four vectors side by side; plain sums of floats keep the blocks that they have in one.
  void widen(Loop& loop) const {
    loop.directives.factor = wide_lanes();
    loop.directives.tail = loop.extent.value() % wide_lanes() == 0 ? Tail::exact : Tail::mask;
    for (Stmt& stmt : loop.body)
      if (stmt.loop && stmt.loop->reduce == ReduceOp::sum && is_float(stmt.loop->reduce_dtype) &&
          !summed_product(*stmt.loop))
        stmt.loop->order.block = block_of_terms;
  }

  // Sums (or maxima) of a few neighbours each, at places equally far apart: a pool along a line.
  bool has_short_windows(const Loop& loop) const {
    constexpr int64_t far = 16;  // lines of the cache that are read for other lanes anyway
    if (estimate(loop.extent, program_) < target_.lanes) return false;
    bool fine = true;
    for_each_stmt(loop.body, [&](const Stmt& stmt) {
      if (stmt.loop) fine &= stmt.loop->extent.is_constant() && stmt.loop->extent.value() <= target_.lanes / 2;
      if (stmt.kind != StmtKind::load) return;
      const auto along = affine_in(address_of(stmt, program_, env_), loop.var);
      fine &= along && along->coefficient.is_constant() && along->coefficient.value() >= 0 &&
              along->coefficient.value() <= far;
    });
    return fine;
  }

  // Positive: accesses inside reductions run along `var`; negative: they jump. Every second element (a pool's columns)
  // is two vectors and a shuffle.
  int deep_stride_score(const Body& body, const std::string& var, int depth) {
    int score = 0;
    for (const Stmt& stmt : body) {
      if (stmt.kind == StmtKind::loop) score += deep_stride_score(stmt.loop->body, var, depth + 1);
      if (depth == 0 || stmt.kind != StmtKind::load) continue;
      auto affine = affine_in(address_of(stmt, program_, env_), var);
      if (!affine)
        score -= 2;
      else if (affine->coefficient.is_constant(1))
        score += 2;
      else if (affine->coefficient.is_constant(2))
        score += 1;
      else if (!affine->coefficient.is_constant(0))
        score -= 2;
    }
    return score;
  }

  // Statements that have a vector form. Random numbers are printed one element at a time, and so is what accumulates in
  // order, unless each lane has an element of its own: rows that are added to one another.
  bool vectorizable(const Loop& loop) {
    bool fine = true;
    const std::set<std::string> varying = varying_variables(loop);
    for_each_stmt(loop.body, [&](const Stmt& stmt) {
      fine &= !(stmt.kind == StmtKind::store && stmt.mode != StoreMode::plain &&
                !accumulates_beside(stmt, loop.var, varying));
      fine &= stmt.kind != StmtKind::random;
      fine &= !(stmt.kind == StmtKind::loop && stmt.loop->role == AxisRole::scan);
      fine &= !(stmt.kind == StmtKind::loop && stmt.loop->role == AxisRole::parallel && !in_order(*stmt.loop));
      fine &= !(stmt.kind == StmtKind::loop && stmt.loop->role == AxisRole::reduce && !vector_reduction(*stmt.loop));
    });
    return fine;
  }
  bool accumulates_beside(const Stmt& store, const std::string& var, const std::set<std::string>& varying) {
    const bool adds = store.dtype == DType::f32 || store.dtype == DType::f64 || store.dtype == DType::i64;
    if (store.mode == StoreMode::atomic_add || !adds) return false;
    const auto affine = affine_in(address_of(store, program_, env_), var);
    if (!affine || !affine->coefficient.is_constant(1)) return false;
    return std::none_of(varying.begin(), varying.end(),
                        [&](const std::string& v) { return mentions(affine->rest, v); });
  }
  // Index variables (of check_index) that differ between the loop's iterations.
  static std::set<std::string> varying_variables(const Loop& loop) {
    std::set<std::string> variables, of_loop = {loop.var};
    std::set<ValueId> values;
    for_each_stmt(loop.body, [&](const Stmt& stmt) {
      auto differs = [&](const Expr& e) {
        return std::any_of(of_loop.begin(), of_loop.end(), [&](const std::string& v) { return mentions(e, v); });
      };
      bool found = stmt.loop != nullptr || differs(stmt.expr) || values.contains(stmt.mask);
      for (const Expr& e : stmt.index) found |= differs(e);
      for (ValueId v : stmt.args) found |= values.contains(v);
      if (!found) return;
      values.insert(stmt.results.begin(), stmt.results.end());
      if (stmt.kind == StmtKind::check_index) variables.insert(stmt.index_var), of_loop.insert(stmt.index_var);
    });
    return variables;
  }
  static bool in_order(const Loop& loop) { return loop.directives.binding == Binding::serial; }

  // One whose accumulators can be vectors, around other reductions or not.
  static bool vector_reduction(const Loop& loop) {
    return loop.role == AxisRole::reduce && reduce_info(loop.reduce).accumulators == 1;
  }

  // A store that stands still along the loop (its extent is a symbol that is never more than 1) has no lanes.
  bool stores_move(const Loop& loop) {
    bool moves = true;
    for_each_stmt(loop.body, [&](const Stmt& stmt) {
      if (stmt.kind != StmtKind::store) return;
      auto affine = affine_in(address_of(stmt, program_, env_), loop.var);
      moves &= !(affine && affine->coefficient.is_constant(0));
    });
    return moves;
  }

  static bool contains_parallel(const Body& body) {
    bool found = false;
    for_each_stmt(body, [&](const Stmt& stmt) {
      found |= stmt.kind == StmtKind::loop && stmt.loop->role == AxisRole::parallel && !in_order(*stmt.loop);
    });
    return found;
  }

  bool wide_enough(const Loop& loop) const { return range_of(loop.extent, env_).high >= 4; }

  void set_lane(Loop& loop) {
    loop.directives.binding = Binding::lane;
    loop.directives.factor = target_.lanes;
    bool exact = loop.extent.is_constant() && loop.extent.value() % target_.lanes == 0;
    loop.directives.tail = exact ? Tail::exact : Tail::mask;
    if (in_pairs(loop)) loop.directives.factor = int64_t{2} * target_.lanes;
  }
  // A sum across lanes of products of bf16 whose terms are neighbours: half the instructions, so that more lines of the
  // cache are asked for at a time.
  bool in_pairs(const Loop& loop) const {
    if (!target_.bf16_pairs || !loop.extent.is_constant() || loop.extent.value() % (2 * target_.lanes) != 0)
      return false;
    const auto factors = pair_factors(loop);
    return factors && along_terms(*factors->left, loop) && along_terms(*factors->right, loop);
  }
  bool along_terms(const Stmt& load, const Loop& loop) const {
    const auto along = affine_in(address_of(load, program_, env_), loop.var);
    return along && along->coefficient.is_constant(1);
  }

  // Items: the outermost loops. A kernel that is one long loop of lanes is split into chunks.
  void bind_items() {
    if (kernel_.body.size() != 1 || kernel_.body[0].kind != StmtKind::loop) return;
    Loop* loop = kernel_.body[0].loop.get();
    if (loop->role != AxisRole::parallel || loop->directives.binding == Binding::serial ||
        loop->directives.binding == Binding::unroll)
      return;
    if (loop->directives.binding == Binding::lane) return split(kernel_.body);
    loop->directives.binding = Binding::item;
    double width = estimate(loop->extent, program_);
    std::vector<std::string> bound = {loop->var};
    while (width < 64) {
      if (width < few_items) sink_into_items(*loop);
      if (loop->body.size() != 1 || loop->body[0].kind != StmtKind::loop) break;
      Loop* inner = loop->body[0].loop.get();
      if (inner->role != AxisRole::parallel || inner->directives.binding != Binding::none ||
          std::any_of(bound.begin(), bound.end(), [&](const std::string& var) { return mentions(inner->extent, var); }))
        break;
      if (width >= few_items && runs_one_vector(*inner)) break;
      inner->directives.binding = Binding::item;
      bound.push_back(inner->var);
      width *= estimate(inner->extent, program_);
      loop = inner;
    }
    // Few, long rows: cut the rows as well.
    if (width < 8 && loop->body.size() == 1 && loop->body[0].kind == StmtKind::loop &&
        loop->body[0].loop->directives.binding == Binding::lane && loop->body[0].loop->role == AxisRole::parallel &&
        is_long(*loop->body[0].loop))
      split(loop->body);
  }

  // A line of a block: finding out which one it is would take longer than all that it does.
  bool runs_one_vector(const Loop& loop) const {
    return loop.body.size() == 1 && loop.body[0].loop && loop.body[0].loop->directives.binding == Binding::lane &&
           range_of(loop.body[0].loop->extent, env_).high <= target_.lanes;
  }

  // What stays the same along a loop was moved in front of it. Where that loop is to be items as well, each of them
  // computes it anew, which is little beside the loops that it runs; few items would leave threads without work.
  void sink_into_items(Loop& loop) const {
    if (loop.body.size() < 2 || !loop.body.back().loop) return;
    Loop& inner = *loop.body.back().loop;
    const bool plain =
        inner.role == AxisRole::parallel && inner.directives.binding == Binding::none &&
        std::any_of(inner.body.begin(), inner.body.end(), [](const Stmt& stmt) { return stmt.loop != nullptr; });
    if (!plain || mentions(inner.extent, loop.var)) return;
    const Accesses inside = accesses(inner.body);
    for (const Stmt& stmt : loop.body) {
      if (&stmt == &loop.body.back()) break;
      const bool pure = stmt.kind == StmtKind::op || stmt.kind == StmtKind::constant ||
                        stmt.kind == StmtKind::index_value ||
                        (stmt.kind == StmtKind::load && !inside.writes.contains(stmt.buffer));
      if (!pure) return;
    }
    inner.body.insert(inner.body.begin(), std::make_move_iterator(loop.body.begin()),
                      std::make_move_iterator(loop.body.end() - 1));
    loop.body.erase(loop.body.begin(), loop.body.end() - 1);
  }

  // Terms of the sums for each element, or channels of a point.
  double terms_of(const Body& body) const {
    double terms = 1;
    for (const Stmt& stmt : body)
      if (stmt.loop && (stmt.loop->role == AxisRole::reduce || in_order(*stmt.loop)))
        terms = std::max(terms, std::max(1.0, estimate(stmt.loop->extent, program_)) * terms_of(stmt.loop->body));
    return terms;
  }
  // Items of elements that are sums, or much else (a short Fourier transform), each worth a thread.
  double items_of_sums(const Loop& loop) const {
    constexpr size_t much = 64;  // statements
    if (terms_of(loop.body) <= 1 && loop.body.size() < much) return 1;
    return std::floor(estimate(loop.extent, program_) * work_of(loop.body, program_) / worth_a_thread);
  }
  bool is_long(const Loop& loop) const {
    return estimate(loop.extent, program_) > 2 * long_chunk || side_by_side(loop) > 0 || items_of_sums(loop) > 1;
  }
  // Elements whose long sums run side by side (a product of one row): each line of the matrix is then read in pieces
  // longer than a vector. So many of them are an item. 0: they do not.
  int64_t side_by_side(const Loop& loop) const {
    const int64_t together = wide_lanes();
    if (!loop.extent.is_constant() || loop.extent.value() < 2 * together) return 0;
    if (target_.lanes < 4 || terms_of(loop.body) < 128) return 0;
    return run_side_by_side(loop) ? together * pieces_together(loop) : 0;
  }
  // A product of a matrix whose lines are pages apart takes longer pieces of each: neither the processor's prefetching
  // nor its table of pages follows short ones. Their sums are to stay in registers, and there are to be items for
  // threads.
  int64_t pieces_together(const Loop& loop) const {
    constexpr int64_t page = 4096, items = 16;
    const Stmt* sum = loop.body.empty() ? nullptr : &loop.body[0];
    if (!sum || !sum->loop || !summed_product(*sum->loop)) return 1;
    bool far = false;
    for (const Stmt& stmt : sum->loop->body) {
      if (stmt.kind != StmtKind::load) continue;
      const Expr address = address_of(stmt, program_, env_);
      const auto along = affine_in(address, loop.var), down = affine_in(address, sum->loop->var);
      far |= along && along->coefficient.is_constant(1) && down && down->coefficient.is_constant() &&
             down->coefficient.value() * dtype_bytes(stmt.dtype) >= page;
    }
    int64_t pieces = far ? std::max(1, target_.vector_registers / 8) : 1;
    while (pieces > 1 && loop.extent.value() < items * pieces * wide_lanes()) pieces /= 2;
    return pieces;
  }
  // As src/loops/verify.cpp wants it of lanes that are several vectors.
  static bool run_side_by_side(const Loop& loop) {
    bool fine = true;
    for_each_stmt(loop.body, [&](const Stmt& stmt) {
      fine &= stmt.kind != StmtKind::check_index && stmt.kind != StmtKind::raise_if && stmt.kind != StmtKind::random;
      fine &= stmt.kind != StmtKind::store || stmt.mode == StoreMode::plain;
      if (!stmt.loop) return;
      fine &= !mentions(stmt.loop->extent, loop.var);
      fine &= vector_reduction(*stmt.loop);
    });
    return fine;
  }

  // Elements that make an item: fewer where they are long sums. Of a product of one row those that run side by side,
  // which have their part of the matrix in one piece.
  int64_t chunk_of(const Loop& loop, int64_t together) const {
    if (together > 0 && multiplies(loop.body)) return together;
    const double items = items_of_sums(loop);
    if (items <= 1) return together > 0 ? together : long_chunk;
    const double each = std::ceil(estimate(loop.extent, program_) / items);
    const int64_t whole = std::max<int64_t>({together, target_.lanes, loop.directives.factor});
    return std::min(long_chunk, (static_cast<int64_t>(each) + whole - 1) / whole * whole);
  }
  static bool multiplies(const Body& body) {
    bool found = false;
    for_each_stmt(body, [&](const Stmt& stmt) { found |= stmt.loop && summed_product(*stmt.loop); });
    return found;
  }

  // for i in n @lane   becomes   for o in ceildiv(n, chunk) @item { for i in min(chunk, n - o*chunk) @lane }
  void split(Body& body) {
    Loop& loop = *body[0].loop;
    const int64_t together = side_by_side(loop), chunk = chunk_of(loop, together);
    if (together > 0) loop.directives.factor = together;
    if (range_of(loop.extent, env_).high <= chunk) {
      // One item: nothing to spread.
      Stmt outer = item_loop(Expr(1));
      outer.loop->body.push_back(std::move(body[0]));
      body[0] = std::move(outer);
      return;
    }
    Expr extent = loop.extent;
    Stmt outer = item_loop(simplify(ceildiv(extent, chunk), env_));
    Expr base = Expr::symbol(outer.loop->var) * chunk;
    bool even = extent.is_constant() && extent.value() % chunk == 0;
    loop.extent = even ? Expr(chunk) : min_expr(Expr(chunk), extent - base);
    if (!even) loop.directives.tail = Tail::mask;
    Substitution map{{loop.var, base + Expr::symbol(loop.var)}};
    for_each_stmt(loop.body, [&](Stmt& stmt) {
      for (Expr& e : stmt.index) e = substitute(e, map);
      stmt.expr = substitute(stmt.expr, map);
      if (stmt.loop) stmt.loop->extent = substitute(stmt.loop->extent, map);
    });
    rename_in_names(kernel_, map);
    outer.loop->body.push_back(std::move(body[0]));
    body[0] = std::move(outer);
  }

  Stmt item_loop(const Expr& extent) {
    Stmt stmt = loop_stmt(unused_name(variables_of(kernel_), "o"), extent);
    stmt.loop->directives.binding = Binding::item;
    return stmt;
  }

  LoopProgram& program_;
  Kernel& kernel_;
  const Target& target_;
  RangeEnv env_;
};

// The tile's own axes: batches and tiles of rows are items; columns run in lanes. What follows the columns inside the
// rows, the row part, is bound like any other body.
void bind_tiled(LoopProgram& program, Kernel& kernel, const Target& target) {
  const Tile& tile = kernel.schedule->tile;
  const Contraction& names = *kernel.contraction;
  Body* body = &kernel.body;
  while (true) {
    auto found = std::find_if(body->begin(), body->end(), [](const Stmt& stmt) { return stmt.kind == StmtKind::loop; });
    Loop& loop = *found->loop;
    if (loop.var == names.columns.back()) {
      loop.directives = {Binding::lane, target.lanes, Tail::mask};
      break;
    }
    const bool rows = loop.var == names.rows.back();
    loop.directives = {Binding::item, rows ? tile.rows * tile.high : 0, rows ? Tail::mask : Tail::exact};
    body = &loop.body;
  }
  Binder(program, kernel, target).bind_lanes_after(*body, names.columns.back());
}

// A kernel of `init` that has next to nothing to do, when weights are loaded: compiling it costs a thousand times what
// it runs, and one element at a time it is half the code. (Packing is for weights of any size, and shared by them.)
constexpr double few_elements = 1 << 18;

bool is_packing(const Kernel& kernel) { return kernel.op_names == std::vector<std::string>{"pack"}; }

// Packing that computes nothing. One element at a time it takes a little longer than by gathered vectors, whose code
// takes the C++ compiler five times as long: that is a good bargain for a program whose weights are few (a few ms of
// loading at most). One choice for all of them, since kernels that pack alike are one function.
constexpr double few_weight_elements = 8 << 20;

bool only_moves(const Kernel& kernel) {
  bool moves = is_packing(kernel);
  for_each_stmt(kernel.body, [&](const Stmt& stmt) {
    for (const ValueId result : stmt.results)
      if (stmt.kind == StmtKind::op) moves &= !is_float(kernel.value_types[static_cast<size_t>(result)]);
  });
  return moves;
}

bool has_few_weights(const LoopProgram& program) {
  double elements = 0;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.role != BufferRole::derived) continue;
    double all = 1;
    for (const Expr& size : buffer.sizes) all *= std::max(1.0, estimate(size, program));
    elements += all;
  }
  return elements <= few_weight_elements;
}

bool is_small(const Kernel& kernel, const LoopProgram& program) {
  if (is_packing(kernel)) return false;
  bool small = true;
  std::function<void(const Body&, double)> visit = [&](const Body& body, double times) {
    for (const Stmt& stmt : body) {
      if (!stmt.loop) continue;
      const double all = times * std::max(1.0, estimate(stmt.loop->extent, program));
      small &= stmt.loop->role == AxisRole::parallel && all <= few_elements;
      visit(stmt.loop->body, all);
      visit(stmt.loop->after, all);
    }
  };
  visit(kernel.body, 1);
  return small;
}

}  // namespace

bool bind_axes(LoopProgram& program, const Target& target, Log& log) {
  if (target.is_gpu()) return bind_threads(program, target, log);
  const bool few_weights = has_few_weights(program);
  auto each = [&](Item& item, bool once) {
    auto* kernel = std::get_if<Kernel>(&item.what);
    if (!kernel) return;
    if (!kernel->schedule) {
      kernel->schedule = Schedule();
      kernel->schedule->lanes = target.lanes;
    }
    // A contraction that no template took is a nest like any other, and later passes change its loops.
    if (kernel->schedule->tile.rows == 0) kernel->contraction.reset();
    if (kernel->schedule->tile.rows > 0) return bind_tiled(program, *kernel, target);
    if (!item_loops(*kernel).loops.empty()) return;  // bound when it was made
    if (once && (is_small(*kernel, program) || (few_weights && only_moves(*kernel))))
      return Binder(program, *kernel, target).run(false);
    if (target.lanes > 1 && straighten_sums(*kernel, program))
      log.add([&] {
        return Decision{"order the sums of", kernel->name, "", "", "the innermost one reads neighbours", true, ""};
      });
    if (tile_transpose(*kernel, program, target))
      log.add([&] { return Decision{"transpose", kernel->name, "in blocks", "", "it reads across lines", true, ""}; });
    Binder(program, *kernel, target).run();
  };
  for_each_item(program.block, [&](Item& item) { each(item, false); });
  for_each_item(program.block, [&](Item& item) {
    if (auto* kernel = std::get_if<Kernel>(&item.what)) pack_for_lanes(program, *kernel, log);
  });
  for_each_item(program.init, [&](Item& item) { each(item, true); });
  return true;
}

}  // namespace kiln::loops
