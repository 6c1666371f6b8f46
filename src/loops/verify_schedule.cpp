#include "loops/verify_schedule.h"

#include "loops/byte_quads.h"
#include "loops/key_slices.h"
#include "loops/lane_pairs.h"
#include "loops/line_windows.h"
#include "loops/narrow_rows.h"
#include "loops/sum_parts.h"

namespace kiln::loops {
namespace {

class ScheduleVerifier {
 public:
  ScheduleVerifier(const LoopProgram& program, const Kernel& kernel) : program_(program), kernel_(kernel) {}

  void run(const Schedule& s) const {
    KILN_VERIFY(s.lanes >= 1 && s.lanes <= 64 && (s.lanes & (s.lanes - 1)) == 0, str(s.lanes, " lanes"));
    KILN_VERIFY(s.grain >= 1, str("a grain of ", s.grain, " items"));
    lanes(kernel_.body, s, false);
    grid(s);
    if (s.tile == Tile()) return;
    KILN_VERIFY(kernel_.contraction && s.lanes > 1, "a tile without a contraction or without lanes");
    KILN_VERIFY(s.tile.rows >= 1 && s.tile.vectors >= 1 && s.tile.rows * s.tile.vectors <= 64,
                str("a tile of ", s.tile.rows, " rows and ", s.tile.vectors, " vectors"));
    KILN_VERIFY(s.tile.ahead >= 0, str("a line ahead with every ", s.tile.ahead, " terms"));
    KILN_VERIFY(s.tile.rows_copy == no_buffer || known_scratch(s.tile.rows_copy),
                "rows that are not copied to scratch");
    KILN_VERIFY(s.tile.rows_copy == no_buffer || !s.tile.matrix || s.tile.high == 1,
                "rows that are copied for several tiles");
    KILN_VERIFY(
        s.tile.together == 1 || (s.tile.together > 1 && !s.tile.beside && !s.tile.interleaved && !s.tile.matrix),
        str(s.tile.together, " items together"));
    if (takes_lines(s.tile)) lines(s);
    if (s.tile.rows_wide != no_buffer) widened(s);
    if (s.tile.matrix || s.tile.pairs) brain_floats(s);
    if (s.tile.quads) bytes(s);
    KILN_VERIFY(!s.tile.interleaved || !kernel_.contraction->batch.empty(),
                "batches that interleave where there are none");
    if (!bound()) return;
    const ContractionNest nest = contraction_nest(kernel_);
    KILN_VERIFY(nest.innermost_row().directives.binding == Binding::item, "rows of a tile that are not items");
    KILN_VERIFY(!s.tile.beside || !nest.whole_rows(),
                "columns beside one another where a part of the kernel needs whole rows");
    KILN_VERIFY(nest.innermost_column().directives.binding == Binding::lane, "columns of a tile that are not in lanes");
    parts(s, nest);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    fail_bug(str("kernel ", kernel_.name, ": ", what), where_of(kernel_.origins));
  }

  // Rows of a tile on one line: a window's that slides along it, and scratch for all that lies under them.
  void lines(const Schedule& s) const {
    const auto window = line_window(kernel_, program_);
    KILN_VERIFY(window.has_value() && !s.tile.pairs && !s.tile.quads,
                "rows of one line under no window that slides along it");
    const Buffer& copy = program_.buffers[static_cast<size_t>(s.tile.rows_copy)];
    KILN_VERIFY(copy.dtype == DType::f32 && copy.sizes.size() == 2 &&
                    copy.sizes[0].is_constant(window->span(s.tile.rows)) && copy.sizes[1].is_constant(window->distance),
                "scratch that does not hold what lies under a tile");
  }
  // Rows that are widened: those of every row of the tile, whole vectors of terms.
  void widened(const Schedule& s) const {
    KILN_VERIFY(
        narrow_rows(kernel_, program_) && !s.tile.pairs && !s.tile.quads && !s.tile.matrix && !takes_lines(s.tile),
        "rows that are widened where they are not narrow, or by no plain tile");
    KILN_VERIFY(known_scratch(s.tile.rows_wide), "rows that are not widened to scratch");
    const Buffer& wide = program_.buffers[static_cast<size_t>(s.tile.rows_wide)];
    KILN_VERIFY(wide.dtype == DType::f32 && wide.sizes.size() == 2 && wide.sizes[0].is_constant(s.tile.rows) &&
                    wide.sizes[1].is_constant() && wide.sizes[1].value() > 0 && wide.sizes[1].value() % s.lanes == 0,
                "scratch that does not hold the rows of a tile in vectors");
  }
  // Sums that wait where the results will be: of whole tiles beside one another.
  void parts(const Schedule& s, const ContractionNest& nest) const {
    for (size_t l = 1; l < nest.sums.size(); ++l)
      KILN_VERIFY(nest.sums[l].stmt->loop->directives.binding != Binding::serial, "an inner sum of a tile in parts");
    if (!is_in_parts(nest)) return;
    const Expr& columns = nest.innermost_column().extent;
    KILN_VERIFY(nest.sums.size() > 1 && nest.sums.front().stmt->loop->order.block == 0 && !s.tile.matrix &&
                    !s.tile.pairs && !s.tile.quads,
                "a sum in parts that is one sum, in blocks, or of pairs, bytes or matrices");
    KILN_VERIFY(s.tile.beside && columns.is_constant() && columns.value() % (s.tile.vectors * s.lanes) == 0 &&
                    place_of_sums(kernel_, program_),
                "a sum in parts that has no place to wait in");
  }
  // Instructions for pairs and for matrices take bf16, both factors just as they are loaded.
  void brain_floats(const Schedule& s) const {
    KILN_VERIFY(s.lanes == 16 && s.tile.pairs != s.tile.matrix, "pairs or matrices that are not in 16 lanes, or both");
    KILN_VERIFY(
        !s.tile.matrix || ((s.tile.rows == 16 || s.tile.rows == 32) && s.tile.vectors <= 2 && s.tile.ahead == 0),
        "a tile that is no matrix instruction's");
    KILN_VERIFY(s.tile.ahead % 2 == 0 || !s.tile.pairs, "half a pair ahead");
    const ContractionNest nest = contraction_nest(kernel_);
    for (const ValueId factor : {kernel_.contraction->left, kernel_.contraction->right}) {
      const Stmt *cast = nullptr, *load = nullptr;
      for (const Stmt& stmt : nest.innermost_sum().body)
        if (stmt.kind == StmtKind::op && stmt.op == ScalarOp::cast && stmt.results[0] == factor) cast = &stmt;
      for (const Stmt& stmt : nest.innermost_sum().body)
        if (cast && stmt.kind == StmtKind::load && stmt.dtype == DType::bf16 && stmt.results[0] == cast->args[0])
          load = &stmt;
      const bool fits = load && nest.innermost_sum().reduce_dtype == DType::f32;
      KILN_VERIFY(fits, "pairs or matrices of factors that are not loads of bf16, summed in f32");
    }
  }
  // Those for bytes take fours of u8 and i8.
  void bytes(const Schedule& s) const {
    std::string why;
    KILN_VERIFY(s.lanes == 16 && !s.tile.pairs && !s.tile.matrix && s.tile.ahead % 4 == 0,
                "fours of bytes that are not in 16 lanes, or also something else");
    KILN_VERIFY(quad_factors(kernel_, program_, why), "fours of bytes: " + why);
  }
  void grid(const Schedule& s) const {
    const Grid& g = s.grid;
    if (g == Grid()) return;
    KILN_VERIFY(g.threads >= 1 && g.threads <= 1024 && g.threads % g.team == 0,
                str("a block of ", g.threads, " threads"));
    KILN_VERIFY(g.team >= 1 && (g.team & (g.team - 1)) == 0 && (g.team <= 32 || g.team == g.threads),
                str("a team of ", g.team, " threads in a block of ", g.threads));
    KILN_VERIFY(s.lanes == 1 && s.tile == Tile(), "a GPU's threads beside vectors");
    KILN_VERIFY(g.vector >= 1 && g.vector <= 16 && (g.vector & (g.vector - 1)) == 0, str("vectors of ", g.vector));
    if (g.hold > 0) held(g);
    if (g.tile_rows == 0) return;
    KILN_VERIFY(kernel_.contraction.has_value(), "a tile of a block without a contraction");
    KILN_VERIFY(g.tile_columns >= 1 && g.tile_terms >= 1 && g.thread_rows >= 1 && g.thread_columns >= 1,
                "a tile of a block without columns, terms or parts for its threads");
    KILN_VERIFY(g.team == g.threads, "a tile of a block that is not the work of all its threads");
    KILN_VERIFY(g.vector == 1 && g.hold == 0, "a tile of a block whose threads take vectors");
    const int64_t together = g.warpgroups ? 128 : g.tensor_cores ? 32 : 1;
    KILN_VERIFY(
        g.tile_rows % g.thread_rows == 0 && g.tile_columns % g.thread_columns == 0 &&
            g.tile_rows / g.thread_rows * (g.tile_columns / g.thread_columns) * together * key_slices(g) == g.threads,
        "parts of a block's tile that are not those of its threads");
    KILN_VERIFY(!g.tensor_cores || (g.thread_rows % 16 == 0 && g.thread_columns % 16 == 0 && g.tile_terms % 16 == 0),
                "a warp's part that is no whole number of matrix instructions");
    const int64_t left_run = g.left_along_terms ? g.tile_terms : g.tile_rows;
    const int64_t right_run = g.right_along_terms ? g.tile_terms : g.tile_columns;
    KILN_VERIFY(g.stages >= 1 && g.left_chunk >= 1 && g.right_chunk >= 1 && left_run % g.left_chunk == 0 &&
                    right_run % g.right_chunk == 0,
                "chunks that do not fill a block's tile");
    KILN_VERIFY(g.parts >= 1 && g.parts <= 8 && (g.parts & (g.parts - 1)) == 0 &&
                    (g.parts == 1 || (g.tensor_cores && (g.keys > 0 || g.tile_rows % g.parts == 0))),
                str("a tile of a block in ", g.parts, " parts"));
    if (g.warpgroups) warpgroups(g);
    if (g.keys > 0) attention(g);
  }
  // Lines of 128 bytes are 64 elements of 16 bits; a stage may be filled again when the products behind the next one
  // are done.
  void warpgroups(const Grid& g) const {
    KILN_VERIFY(g.tensor_cores && g.keys == 0 && g.tile_terms == 64 && g.stages >= 3,
                "warpgroups without tiles for them");
    KILN_VERIFY(
        g.thread_rows % 64 == 0 && g.thread_columns <= 256 && (g.right_along_terms || g.thread_columns % 64 == 0),
        "a warpgroup's part that is no whole number of matrix instructions");
    const ContractionNest nest = contraction_nest(kernel_);
    const auto type_of = [&](ValueId v, bool left) {
      for (bool found = true; found;) {
        found = false;
        for (const ContractionNest::Sum& sum : nest.sums)
          for (const Stmt* stmt : left ? sum.left : sum.right) {
            if (found || stmt->results[0] != v || stmt->kind != StmtKind::op || stmt->op != ScalarOp::cast ||
                stmt->dtype != DType::f32)
              continue;
            v = stmt->args[0], found = true;
          }
      }
      return kernel_.value_types[static_cast<size_t>(v)];
    };
    const DType left = type_of(kernel_.contraction->left, true), right = type_of(kernel_.contraction->right, false);
    KILN_VERIFY(
        left == right && (left == DType::bf16 || left == DType::f16) && nest.innermost_sum().reduce_dtype == DType::f32,
        "a warpgroup's factors that are not both bf16 or both f16, summed in f32");
  }
  void attention(const Grid& g) const {
    const AttentionNest nest = attention_nest(kernel_);
    auto power = [](int64_t n) { return n >= 16 && (n & (n - 1)) == 0; };
    KILN_VERIFY(g.tensor_cores && g.keys % (16 * key_slices(g)) == 0 && g.thread_rows == 16 &&
                    g.thread_columns == g.tile_columns && power(g.tile_terms) && power(g.tile_columns) &&
                    g.stages >= 2 && g.left_along_terms && g.right_along_terms && g.tile_columns % g.value_chunk == 0 &&
                    g.weight_parts >= 1 && g.weight_parts <= 3,
                "tiles of attention that do not fit its matrix instructions");
    const Expr &width = nest.scores.innermost_sum().extent, &columns = nest.values.innermost_column().extent;
    KILN_VERIFY(width.is_constant() && width.value() <= g.tile_terms && columns.is_constant() &&
                    columns.value() <= g.tile_columns,
                "attention that is wider than its tiles");
    KILN_VERIFY(nest.scores.rows.size() == 1 && (!g.causal || sees_no_later_keys(kernel_)),
                "attention whose rows are several loops, or see later keys");
  }
  // What a thread of a team reads of scratch it has written itself: lanes of one length, and the lane's own element.
  void held(const Grid& g) const {
    KILN_VERIFY(g.team > 1, "scratch in registers without a team");
    std::function<void(const Body&, const Loop*)> walk = [&](const Body& body, const Loop* lane) {
      for (const Stmt& stmt : body) {
        const bool scratch = stmt.buffer != no_buffer && known_scratch(stmt.buffer);
        KILN_VERIFY(!scratch || (lane && stmt.index.size() == 1 && stmt.index[0] == Expr::symbol(lane->var) &&
                                 stmt.mode == StoreMode::plain && stmt.mask == no_value),
                    "scratch in registers that another thread might have");
        if (!stmt.loop) continue;
        const bool own = stmt.loop->directives.binding == Binding::lane;
        KILN_VERIFY(!own || (stmt.loop->extent.is_constant() &&
                             stmt.loop->extent.value() <= stmt.loop->directives.factor * g.hold &&
                             stmt.loop->extent.value() % (stmt.loop->directives.factor / g.team) == 0),
                    "lanes that do not fit the rounds of what is held");
        walk(stmt.loop->body, own ? stmt.loop.get() : lane);
        walk(stmt.loop->after, own ? stmt.loop.get() : lane);
      }
    };
    walk(kernel_.body, nullptr);
  }
  bool known_scratch(BufferId id) const {
    return id >= 0 && static_cast<size_t>(id) < program_.buffers.size() &&
           program_.buffers[static_cast<size_t>(id)].role == BufferRole::scratch;
  }
  // Whether its axes have been bound yet. Loops in order do not tell: operators and templates make them before.
  bool bound() const {
    bool any = false;
    for_each_stmt(kernel_.body, [&](const Stmt& s) {
      any |= s.loop && s.loop->directives.binding != Binding::none && s.loop->directives.binding != Binding::serial;
    });
    return any;
  }
  void lanes(const Body& body, const Schedule& s, bool inside) const {
    for (const Stmt& stmt : body) {
      if (!stmt.loop) continue;
      const AxisDirectives& directives = stmt.loop->directives;
      const bool lane = directives.binding == Binding::lane;
      KILN_VERIFY(!lane || !inside, str("lanes inside of lanes at ", stmt.loop->var));
      const int together = s.grid.threads > 0 ? s.grid.team : s.lanes;
      const int64_t factor = directives.factor;
      const bool vectors = s.grid.threads == 0 && s.lanes > 1 && stmt.loop->role == AxisRole::parallel;
      const bool pairs = s.grid.threads == 0 && together == 16 && takes_pairs(*stmt.loop, together);
      KILN_VERIFY(!lane || factor == together || (vectors && factor > 0 && factor % together == 0) || pairs ||
                      (s.grid.threads > 0 && factor == int64_t{together} * s.grid.vector),
                  str("loop ", stmt.loop->var, " has ", factor, " lanes, its kernel ", together));
      if (vectors && directives.binding == Binding::unroll && directives.tail != Tail::peel) rows(*stmt.loop);
      if (lane && factor > together && !pairs) copies(stmt.loop->body, stmt.loop->var);
      lanes(stmt.loop->body, s, inside || lane);
      lanes(stmt.loop->after, s, inside || lane);
    }
  }

  // Rows that run side by side, around columns in lanes.
  void rows(const Loop& loop) const {
    KILN_VERIFY(loop.directives.factor >= 1, str(loop.directives.factor, " rows of ", loop.var, " at a time"));
    const bool around = !loop.body.empty() && loop.body.back().loop &&
                        loop.body.back().loop->role == AxisRole::parallel &&
                        loop.body.back().loop->directives.binding == Binding::lane;
    KILN_VERIFY(around, str("loop ", loop.var, " is unrolled around no lanes"));
    for (const Stmt& stmt : loop.body)
      KILN_VERIFY(&stmt == &loop.body.back() || !stmt.loop, str("loop ", loop.var, " is unrolled around two loops"));
    KILN_VERIFY(!mentions(loop.body.back().loop->extent, loop.var),
                str("loop ", loop.body.back().loop->var, " has another length for each ", loop.var));
    copies(loop.body, loop.var);
  }
  // Statements of which several copies run side by side: loops have one length for all of them.
  void copies(const Body& body, const std::string& var) const {
    for_each_stmt(body, [&](const Stmt& stmt) {
      KILN_VERIFY(
          stmt.kind != StmtKind::check_index && stmt.kind != StmtKind::raise_if && stmt.kind != StmtKind::random,
          str("a statement inside of ", var, " that does not run side by side"));
      KILN_VERIFY(stmt.kind != StmtKind::store || stmt.mode == StoreMode::plain,
                  str("an accumulating store inside of ", var));
      if (!stmt.loop) return;
      KILN_VERIFY(!mentions(stmt.loop->extent, var),
                  str("loop ", stmt.loop->var, " has another length for each ", var));
      KILN_VERIFY(stmt.loop->role == AxisRole::parallel ||
                      (stmt.loop->role == AxisRole::reduce && reduce_info(stmt.loop->reduce).accumulators == 1),
                  str("loop ", stmt.loop->var, " inside of ", var, " does not run side by side"));
      KILN_VERIFY(!stmt.loop->order.pairs || kernel_.schedule->tile.rows > 0 || takes_pairs_in_tile(*stmt.loop),
                  str("sum ", stmt.loop->var, " of pairs that are not"));
    });
  }

  const LoopProgram& program_;
  const Kernel& kernel_;
};

}  // namespace

void verify_schedule(const LoopProgram& program, const Kernel& kernel) {
  if (kernel.schedule) ScheduleVerifier(program, kernel).run(*kernel.schedule);
}

}  // namespace kiln::loops
