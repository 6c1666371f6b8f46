// The invariants of Loops. A broken one is a bug of the pass that ran last, and is reported as such.
#include <set>

#include "base/side_by_side.h"
#include "loops/key_slices.h"
#include "loops/lane_pairs.h"
#include "loops/line_windows.h"
#include "loops/loops.h"
#include "loops/narrow_rows.h"
#include "loops/sum_parts.h"
#include "loops/verify_order.h"
#include "loops/verify_scratch.h"

// The text is made where the condition fails: programs are verified after every pass.
#define KILN_VERIFY(condition, what) ((condition) ? void() : fail(what))

namespace kiln::loops {
namespace {

class KernelVerifier {
 public:
  KernelVerifier(const LoopProgram& program, const Kernel& kernel, const std::set<std::string>& symbols)
      : program_(program),
        kernel_(kernel),
        program_symbols_(symbols),
        visible_(kernel.value_types.size(), false),
        defined_(kernel.value_types.size(), false) {}

  void run() {
    body(kernel_.body);
    for (const NamedValue& named : kernel_.named) {
      const auto exists = [&](ValueId id) { return id >= 0 && static_cast<size_t>(id) < defined_.size(); };
      KILN_VERIFY(exists(named.value) && (named.mask == no_value || exists(named.mask)),
                  str(named.name, " is the name of a value that does not exist"));
    }
    if (kernel_.contraction) contraction_nest(kernel_);
    if (kernel_.schedule) schedule(*kernel_.schedule);
    verify_scratch(program_, kernel_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    fail_bug(str("kernel ", kernel_.name, ": ", what), where_of(kernel_.origins));
  }
  static std::string v(ValueId id) { return str("%", id); }

  DType type(ValueId id) const { return kernel_.value_types[static_cast<size_t>(id)]; }
  void use(ValueId id) const {
    KILN_VERIFY(id >= 0 && static_cast<size_t>(id) < visible_.size(), str("value ", v(id), " does not exist"));
    KILN_VERIFY(visible_[static_cast<size_t>(id)], str("value ", v(id), " is used where it is not defined"));
  }
  void define(ValueId id, DType dtype) {
    KILN_VERIFY(id >= 0 && static_cast<size_t>(id) < visible_.size(), str("value ", v(id), " does not exist"));
    KILN_VERIFY(!defined_[static_cast<size_t>(id)], str("value ", v(id), " is defined twice"));
    KILN_VERIFY(type(id) == dtype, str("value ", v(id), " is ", dtype_name(type(id)),
                                       " in the table but its statement gives ", dtype_name(dtype)));
    defined_[static_cast<size_t>(id)] = visible_[static_cast<size_t>(id)] = true;
    scope_.push_back(id);
  }
  void expect_type(ValueId id, DType dtype, const char* what) const {
    KILN_VERIFY(type(id) == dtype, str(what, " ", v(id), " is ", dtype_name(type(id)), ", not ", dtype_name(dtype)));
  }

  void index_expr(const Expr& expr) const {
    std::set<std::string> names;
    collect_symbols(expr, names);
    for (const std::string& name : names)
      KILN_VERIFY(variables_.count(name) || program_symbols_.count(name),
                  str("symbol ", name, " of ", expr.text(), " is not known here"));
  }
  void integer_expr(const Expr& expr) const {
    KILN_VERIFY(!expr.is_float(), str("index expression ", expr.text(), " is a float"));
    index_expr(expr);
  }

  // ---- Schedules
  // -------------------------------------------------------------------------------------------------------
  void schedule(const Schedule& s) const {
    KILN_VERIFY(s.lanes >= 1 && s.lanes <= 64 && (s.lanes & (s.lanes - 1)) == 0, str(s.lanes, " lanes"));
    KILN_VERIFY(s.grain >= 1, str("a grain of ", s.grain, " items"));
    index_expr(s.items);
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
    if (takes_lines(s.tile)) lines(s);
    if (s.tile.rows_wide != no_buffer) widened(s);
    if (s.tile.matrix || s.tile.pairs) brain_floats(s);
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
  // Rows of a tile on one line: a window's that slides along it, and scratch for all that lies under them.
  void lines(const Schedule& s) const {
    const auto window = line_window(kernel_, program_);
    KILN_VERIFY(window.has_value() && !s.tile.pairs, "rows of one line under no window that slides along it");
    const Buffer& copy = program_.buffers[static_cast<size_t>(s.tile.rows_copy)];
    KILN_VERIFY(copy.dtype == DType::f32 && copy.sizes.size() == 2 &&
                    copy.sizes[0].is_constant(window->span(s.tile.rows)) && copy.sizes[1].is_constant(window->distance),
                "scratch that does not hold what lies under a tile");
  }
  // Rows that are widened: those of every row of the tile, whole vectors of terms.
  void widened(const Schedule& s) const {
    KILN_VERIFY(narrow_rows(kernel_, program_) && !s.tile.pairs && !s.tile.matrix && !takes_lines(s.tile),
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
    KILN_VERIFY(
        nest.sums.size() > 1 && nest.sums.front().stmt->loop->order.block == 0 && !s.tile.matrix && !s.tile.pairs,
        "a sum in parts that is one sum, in blocks, or of pairs or matrices");
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

  // ---- Statements
  // ------------------------------------------------------------------------------------------------------
  void body(const Body& statements) {
    size_t values = scope_.size(), names = names_.size();
    inner(statements);
    leave(values, names);
  }
  void inner(const Body& statements) {
    for (const Stmt& s : statements) statement(s);
  }
  void leave(size_t values, size_t names) {
    for (; scope_.size() > values; scope_.pop_back()) visible_[static_cast<size_t>(scope_.back())] = false;
    for (; names_.size() > names; names_.pop_back()) variables_.erase(names_.back());
  }
  void declare(const std::string& name) {
    KILN_VERIFY(!name.empty(), "a variable has no name");
    KILN_VERIFY(!program_symbols_.count(name) && variables_.insert(name).second,
                str("variable ", name, " hides another one"));
    names_.push_back(name);
  }

  void statement(const Stmt& s) {
    KILN_VERIFY((s.kind == StmtKind::loop) == (s.loop != nullptr),
                "a loop without its contents, or contents without a loop");
    for (ValueId a : s.args) use(a);
    if (s.mask != no_value) {
      use(s.mask);
      expect_type(s.mask, DType::boolean, "mask");
    }
    switch (s.kind) {
      case StmtKind::op:
        return op(s);
      case StmtKind::constant:
        KILN_VERIFY(!s.constant.is_complex(), "a complex constant");
        return one_result(s, 0);
      case StmtKind::index_value:
        index_expr(s.expr);
        return one_result(s, 0);
      case StmtKind::random:
        integer_expr(s.expr);
        return one_result(s, 0);
      case StmtKind::load:
        access(s);
        KILN_VERIFY(s.dtype == buffer(s).dtype, str("load of ", buffer(s).name, " as ", dtype_name(s.dtype)));
        return one_result(s, 0);
      case StmtKind::store:
        return store(s);
      case StmtKind::check_index:
        return check_index(s);
      case StmtKind::raise_if:
        KILN_VERIFY(s.args.size() == 1 && s.results.empty(), "raise_if takes one value and gives none");
        expect_type(s.args[0], DType::boolean, "condition");
        return site(s);
      case StmtKind::loop:
        return loop(s);
    }
    fail("unknown kind of statement");
  }
  void one_result(const Stmt& s, size_t args) {
    KILN_VERIFY(s.results.size() == 1 && s.args.size() == args,
                "a statement with a wrong number of operands or results");
    KILN_VERIFY(!is_complex(s.dtype), "a complex value");
    define(s.results[0], s.dtype);
  }
  const Buffer& buffer(const Stmt& s) const {
    KILN_VERIFY(s.buffer >= 0 && static_cast<size_t>(s.buffer) < program_.buffers.size(), "access to no buffer");
    return program_.buffers[static_cast<size_t>(s.buffer)];
  }
  void access(const Stmt& s) const {
    const Buffer& b = buffer(s);
    KILN_VERIFY(s.index.size() == b.sizes.size(),
                str(b.name, " has ", b.sizes.size(), " dimensions but is accessed with ", s.index.size(), " indices"));
    for (const Expr& e : s.index) integer_expr(e);
  }
  void store(const Stmt& s) const {
    access(s);
    const Buffer& b = buffer(s);
    KILN_VERIFY(s.args.size() == 1 && s.results.empty(), "store takes one value and gives none");
    bool given = b.role == BufferRole::input || b.role == BufferRole::constant;
    KILN_VERIFY(!given || b.mutated, str("store to ", b.name, ", which is not marked as mutated"));
    DType dtype = type(s.args[0]);
    KILN_VERIFY(dtype == b.dtype || dtype == compute_dtype(b.dtype),
                str("store of ", dtype_name(dtype), " to ", b.name, " of ", dtype_name(b.dtype)));
  }
  void site(const Stmt& s) const {
    KILN_VERIFY(s.site >= 0 && static_cast<size_t>(s.site) < program_.sites.size(), str("there is no site ", s.site));
  }
  void check_index(const Stmt& s) {
    KILN_VERIFY(s.args.size() == 1 && is_integer(type(s.args[0])), "check_index takes one integer");
    KILN_VERIFY(s.dtype == DType::i64, "check_index gives i64");
    integer_expr(s.expr);
    site(s);
    one_result(s, 1);
    declare(s.index_var);
  }

  void op(const Stmt& s) {
    const ScalarOpInfo& info = scalar_op_info(s.op);
    KILN_VERIFY(static_cast<int>(s.args.size()) == info.arity, str(info.name, " with ", s.args.size(), " operands"));
    const size_t first = info.rule == TypeRule::select ? 1 : 0;
    const DType operand = type(s.args[first]);
    for (size_t i = first; i < s.args.size(); ++i) expect_type(s.args[i], operand, info.name);
    if (first) expect_type(s.args[0], DType::boolean, "condition");
    DType result = operand;
    if (info.rule == TypeRule::compare || info.rule == TypeRule::predicate) result = DType::boolean;
    if (info.rule == TypeRule::convert) result = s.dtype;
    if (info.rule == TypeRule::boolean) KILN_VERIFY(operand == DType::boolean, str(info.name, " takes bool"));
    KILN_VERIFY(s.dtype == result, str(info.name, " of ", dtype_name(operand), " does not give ", dtype_name(s.dtype)));
    KILN_VERIFY(!info.floats_only || is_float(operand), str(info.name, " does not take ", dtype_name(operand)));
    if (s.op == ScalarOp::bitcast)
      KILN_VERIFY(dtype_bytes(operand) == dtype_bytes(s.dtype), "bitcast between different widths");
    else
      KILN_VERIFY(scalar_function(s.op, s.dtype, operand), str(info.name, " does not take ", dtype_name(operand)));
    one_result(s, s.args.size());
  }

  void loop(const Stmt& s) {
    const Loop& l = *s.loop;
    integer_expr(l.extent);
    size_t values = scope_.size(), names = names_.size();
    declare(l.var);
    inner(l.body);
    if (l.role == AxisRole::parallel) {
      KILN_VERIFY(s.results.empty() && l.yields.empty() && l.running.empty() && l.after.empty() && l.only == no_value,
                  str("parallel loop ", l.var, " with results"));
    } else {
      accumulators(s, l);
      inner(l.after);
    }
    leave(values, names);
    for (size_t i = 0; i < s.results.size(); ++i) define(s.results[i], l.accumulator_dtype(static_cast<int>(i)));
  }
  void accumulators(const Stmt& s, const Loop& l) {
    const ReduceInfo& info = reduce_info(l.reduce);
    auto count = static_cast<size_t>(info.accumulators);
    KILN_VERIFY(l.yields.size() == static_cast<size_t>(info.yields) || l.yields.size() == count,
                str(info.name, " ", l.var, " yields ", l.yields.size(), " values"));
    KILN_VERIFY(s.results.size() == count, str(info.name, " ", l.var, " has ", s.results.size(), " results"));
    KILN_VERIFY(l.running.size() == (l.role == AxisRole::scan ? count : 0),
                str("scan ", l.var, " without its running values"));
    KILN_VERIFY(l.role == AxisRole::scan || l.after.empty(), str("reduce ", l.var, " with a part after its update"));
    bool logical = l.reduce == ReduceOp::any || l.reduce == ReduceOp::all;
    KILN_VERIFY(logical ? l.reduce_dtype == DType::boolean : !is_complex(l.reduce_dtype),
                str(info.name, " of ", dtype_name(l.reduce_dtype)));
    const std::string wrong = wrong_order(l);
    KILN_VERIFY(wrong.empty(), wrong);
    KILN_VERIFY(l.only == no_value || l.role == AxisRole::reduce, str("scan ", l.var, " that leaves out iterations"));
    if (l.only != no_value) {
      const bool own = std::any_of(l.body.begin(), l.body.end(), [&](const Stmt& stmt) {
        return stmt.kind != StmtKind::loop && stmt.results == std::vector<ValueId>{l.only};
      });
      KILN_VERIFY(own, str(info.name, " ", l.var, " is left out by a value that is not of its body"));
      expect_type(l.only, DType::boolean, "condition");
    }
    KILN_VERIFY(l.reduce != ReduceOp::welford || is_float(l.reduce_dtype), "welford takes floats");
    for (size_t i = 0; i < l.yields.size(); ++i) {
      use(l.yields[i]);
      expect_type(l.yields[i], l.accumulator_dtype(static_cast<int>(i)), "yielded");
    }
    for (size_t i = 0; i < l.running.size(); ++i) define(l.running[i], l.accumulator_dtype(static_cast<int>(i)));
  }

  const LoopProgram& program_;
  const Kernel& kernel_;
  const std::set<std::string>& program_symbols_;
  std::vector<bool> visible_, defined_;
  std::vector<ValueId> scope_;
  std::set<std::string> variables_;
  std::vector<std::string> names_;
};

class ProgramVerifier {
 public:
  explicit ProgramVerifier(const LoopProgram& program) : program_(program) {}

  void run() {
    for (const auto& [name, info] : program_.symbols) {
      KILN_VERIFY(name == info.name, str("symbol ", name, " is called ", info.name));
      symbols_.insert(name);
    }
    // Symbols that steps define may appear in sizes of buffers, which are listed before all steps.
    for (const Block* block : {&program_.init, &program_.block})
      for_each_item(*block, [&](const Item& i) { defines(i); });
    std::set<std::string> names;
    for (const Buffer& b : program_.buffers) {
      KILN_VERIFY(!b.name.empty() && names.insert(b.name).second, str("two buffers are called ", b.name));
      buffer(b);
    }
    for (const Guard& g : program_.guards) expr(g.condition);
    for (const auto& in : program_.inputs) input(in);
    for (const auto& out : program_.outputs) {
      if (auto* id = std::get_if<BufferId>(&out.what)) known(*id);
      if (auto* e = std::get_if<Expr>(&out.what)) expr(*e);
    }
    block(program_.init);
    block(program_.block);
    side_by_side(kernels_.size(), [&](size_t i) { KernelVerifier(program_, *kernels_[i], symbols_).run(); });
    verify_scratch_users(program_);
  }

 private:
  [[noreturn]] static void fail(const std::string& what) { fail_bug(what); }
  void known(BufferId id) const {
    KILN_VERIFY(id >= 0 && static_cast<size_t>(id) < program_.buffers.size(), str("there is no buffer ", id));
  }
  void expr(const Expr& e) const {
    std::set<std::string> names;
    collect_symbols(e, names);
    for (const std::string& name : names)
      KILN_VERIFY(symbols_.count(name), str("symbol ", name, " of ", e.text(), " is not known"));
  }
  void buffer(const Buffer& b) const {
    KILN_VERIFY(b.sizes.size() == b.strides.size(), str("buffer ", b.name, " has not as many strides as sizes"));
    for (const auto* list : {&b.sizes, &b.strides})
      for (const Expr& e : *list) expr(e);
    expr(b.offset);
    KILN_VERIFY(b.role != BufferRole::constant || !b.constant.empty(),
                str("constant buffer ", b.name, " names no constant"));
  }
  void input(const LoopProgram::Input& in) const {
    if (auto* id = std::get_if<BufferId>(&in.what)) {
      known(*id);
      KILN_VERIFY(program_.buffers[static_cast<size_t>(*id)].role == BufferRole::input,
                  str("input ", in.name, " is no input buffer"));
    }
    if (auto* name = std::get_if<std::string>(&in.what))
      KILN_VERIFY(symbols_.count(*name), str("input symbol ", *name, " is not known"));
  }
  void defines(const Item& item) {
    if (auto* call = std::get_if<Call>(&item.what)) symbols_.insert(call->defines.begin(), call->defines.end());
    if (auto* bind = std::get_if<BindSymbol>(&item.what)) symbols_.insert(bind->symbol);
    if (auto* loop = std::get_if<While>(&item.what))
      if (!loop->iteration_symbol.empty()) symbols_.insert(loop->iteration_symbol);
  }

  void block(const Block& b) {
    for (const Item& item : b) std::visit([&](const auto& what) { check_item(what); }, item.what);
  }
  void block(const std::unique_ptr<Block>& b) {
    KILN_VERIFY(b != nullptr, "a branch or loop without its block");
    block(*b);
  }
  void check_item(const Kernel& kernel) { kernels_.push_back(&kernel); }
  void check_item(const Call& call) const {
    for (const Call::Arg& arg : call.args) {
      if (auto* id = std::get_if<BufferId>(&arg.value); id && *id != no_buffer) known(*id);
      if (auto* ids = std::get_if<std::vector<BufferId>>(&arg.value))
        for (BufferId id : *ids)
          if (id != no_buffer) known(id);
      if (auto* e = std::get_if<Expr>(&arg.value)) expr(*e);
      if (auto* es = std::get_if<std::vector<Expr>>(&arg.value))
        for (const Expr& e : *es) expr(e);
    }
    for (BufferId id : call.outputs) known(id);
    for (BufferId id : call.mutates) known(id);
    for (const auto* written : {&call.outputs, &call.mutates})
      for (BufferId id : *written) {
        const Buffer& b = program_.buffers[static_cast<size_t>(id)];
        bool given = b.role == BufferRole::input || b.role == BufferRole::constant;
        KILN_VERIFY(!given || b.mutated,
                    str("call ", call.name, " writes ", b.name, ", which is not marked as mutated"));
      }
  }
  void check_item(const BindSymbol& bind) const { known(bind.buffer); }
  void check_item(const AssertThat& that) const { expr(that.condition); }
  void predicate(const std::variant<BufferId, Expr>& p) const {
    if (auto* id = std::get_if<BufferId>(&p))
      known(*id);
    else
      expr(std::get<Expr>(p));
  }
  void check_item(const Cond& cond) {
    predicate(cond.predicate);
    block(cond.then_block);
    block(cond.else_block);
  }
  void check_item(const While& loop) {
    predicate(loop.predicate);
    block(loop.condition_block);
    block(loop.body_block);
  }

  const LoopProgram& program_;
  std::set<std::string> symbols_;
  std::vector<const Kernel*> kernels_;
};

}  // namespace

void verify(const LoopProgram& program) { ProgramVerifier(program).run(); }

}  // namespace kiln::loops

#undef KILN_VERIFY
