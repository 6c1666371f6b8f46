// An innermost loop whose reads go along memory in pieces: a rolled picture's lines begin anew at the wrap, a reflected
// one's run backwards, forwards and backwards again.
//
//   for i in [96] { y[i] = x[(i + 93) % 96] }
//
// As one loop its lanes would find each element by divisions and gather it. It becomes a loop for each piece:
//
//   for i in [3] { y[i] = x[i + 93] }
//   for i in [93] { y[i + 3] = x[i] }
//
// Where the pieces meet need not be known while compiling, nor that there are so many elements: those that are not
// there are no iterations, and what cannot be shown to be simpler within a piece stays as it is.
#include "schedule/split_pieces.h"

#include "loop_passes/rewrite.h"
#include "schedule/new_loops.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

constexpr size_t most_pieces = 4;
constexpr size_t most_statements = 24;  // they are written out for each piece

struct Piece {
  Expr base, extent;
};

class PieceSplitter : NewLoops {
 public:
  PieceSplitter(Kernel& kernel, const LoopProgram& program)
      : kernel_(kernel), program_(program), env_(kernel_ranges(kernel, program)) {
    used_ = variables_of(kernel);
    for (const auto& [name, info] : program.symbols) used_.insert(name);
  }

  // Not the outermost loop: a kernel is one nest.
  bool visit(Body& body, bool outermost = true) {
    bool changed = false;
    Body out;
    for (Stmt& stmt : body) {
      if (stmt.loop) changed |= visit(stmt.loop->body, false);
      const std::vector<Piece> pieces = outermost || !stmt.loop ? std::vector<Piece>() : pieces_of(*stmt.loop);
      if (pieces.size() < 2) {
        out.push_back(std::move(stmt));
        continue;
      }
      write_out(*stmt.loop, pieces, out);
      changed = true;
    }
    body = std::move(out);
    return changed;
  }

 private:
  static bool is_plain(const Loop& loop) {
    return loop.role == AxisRole::parallel && loop.directives == AxisDirectives() &&
           loop.body.size() <= most_statements && std::all_of(loop.body.begin(), loop.body.end(), [](const Stmt& stmt) {
             return stmt.kind == StmtKind::load || stmt.kind == StmtKind::op || stmt.kind == StmtKind::constant ||
                    stmt.kind == StmtKind::index_value ||
                    (stmt.kind == StmtKind::store && stmt.mode == StoreMode::plain);
           });
  }

  // The loop's variable is the piece's own, which begins at 0.
  RangeEnv env_of(const Loop& loop, const Piece& piece) const {
    RangeEnv env = env_;
    const int64_t high = range_of(piece.extent, env_).high;
    env.ranges[loop.var] = {0, high == INT64_MAX ? high : std::max<int64_t>(0, high - 1)};
    env.upper[loop.var] = piece.extent - 1;
    return env;
  }
  static Substitution shifted(const Loop& loop, const Piece& piece) {
    return {{loop.var, Expr::symbol(loop.var) + piece.base}};
  }

  bool goes_along(const Stmt& access, const Loop& loop, const RangeEnv& env) const {
    const auto along = affine_in(address_of(access, program_, env), loop.var);
    return along && along->coefficient.is_constant();
  }

  // The accesses of a piece, as simple as they are there.
  std::vector<Stmt> accesses_of(const Loop& loop, const Piece& piece, const RangeEnv& env) const {
    std::vector<Stmt> out;
    for (const Stmt& stmt : loop.body) {
      if (stmt.kind != StmtKind::load && stmt.kind != StmtKind::store) continue;
      out.push_back(stmt.clone());
      for (Expr& e : out.back().index) e = simplify(substitute(e, shifted(loop, piece)), env);
    }
    return out;
  }

  // One piece: the loop is as good as it was.
  std::vector<Piece> pieces_of(const Loop& loop) const {
    if (!is_plain(loop)) return {};
    std::vector<Piece> pieces = {{Expr(0), loop.extent}};
    for (size_t i = 0; i < pieces.size() && pieces.size() < most_pieces;) {
      const auto cut = cut_of(loop, pieces[i]);
      if (!cut) {
        ++i;
        continue;
      }
      const Piece whole = pieces[i];
      pieces[i].extent = simplify(min_expr(*cut, whole.extent), env_);
      const Expr left = simplify(max_expr(Expr(0), whole.extent - *cut), env_);
      pieces.insert(pieces.begin() + static_cast<std::ptrdiff_t>(i) + 1, {simplify(whole.base + *cut, env_), left});
    }
    const bool better = std::any_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
      const RangeEnv env = env_of(loop, piece);
      const std::vector<Stmt> all = accesses_of(loop, piece, env);
      return 2 * estimate(piece.extent, program_) >= estimate(loop.extent, program_) &&
             std::all_of(all.begin(), all.end(), [&](const Stmt& stmt) { return goes_along(stmt, loop, env); });
    });
    return better ? pieces : std::vector<Piece>();
  }

  // Where one of the piece's reads leaves the line that it goes along.
  std::optional<Expr> cut_of(const Loop& loop, const Piece& piece) const {
    const RangeEnv env = env_of(loop, piece);
    for (const Stmt& access : accesses_of(loop, piece, env)) {
      if (access.kind != StmtKind::load || goes_along(access, loop, env)) continue;
      for (const Expr& e : access.index)
        if (auto cut = cut_in(e, loop.var, piece)) return cut;
    }
    return {};
  }
  std::optional<Expr> cut_in(const Expr& e, const std::string& var, const Piece& piece) const {
    if (e.op() == ExprOp::constant || e.op() == ExprOp::symbol || !mentions(e, var) || e.is_float()) return {};
    for (const Expr& arg : e.args())
      if (auto cut = cut_in(arg, var, piece)) return cut;
    for (const Expr& cut : e.op() == ExprOp::mod                            ? wraps(e, var)
                           : e.op() == ExprOp::max || e.op() == ExprOp::min ? crossings(e, var)
                                                                            : std::vector<Expr>())
      if (prove_le(1, cut, env_) == Proof::yes && prove_lt(cut, piece.extent, env_) != Proof::no) return cut;
    return {};
  }
  // (v + c) % m begins anew where v + c is 0 or m.
  static std::vector<Expr> wraps(const Expr& e, const std::string& var) {
    const auto inner = affine_in(e.args()[0], var);
    if (!inner || !inner->coefficient.is_constant(1) || mentions(e.args()[1], var)) return {};
    return {-inner->rest, e.args()[1] - inner->rest};
  }
  // The first number for which the other of two is the greater one.
  static std::vector<Expr> crossings(const Expr& e, const std::string& var) {
    if (e.args().size() != 2) return {};
    const auto difference = affine_in(e.args()[0] - e.args()[1], var);
    if (!difference || !difference->coefficient.is_constant() || difference->coefficient.is_constant(0)) return {};
    const int64_t slope = difference->coefficient.value();
    return {slope > 0 ? ceildiv(-difference->rest, Expr(slope)) : ceildiv(difference->rest, Expr(-slope))};
  }

  void write_out(const Loop& loop, const std::vector<Piece>& pieces, Body& out) {
    std::vector<NamedValue> names;
    std::set<ValueId> own;  // all others are the same in each piece
    for (const Stmt& stmt : loop.body) own.insert(stmt.results.begin(), stmt.results.end());
    for (const Piece& piece : pieces) {
      Stmt stmt = NewLoops::loop("i", piece.extent);
      const Substitution map = {{loop.var, variable(stmt) + piece.base}};
      RangeEnv env = env_of(loop, piece);
      env.ranges[stmt.loop->var] = env.ranges[loop.var];
      env.upper.insert_or_assign(stmt.loop->var, piece.extent - 1);
      Copier copier(kernel_, kernel_, used_);
      copier.variables = map;
      for (const Stmt& inner : loop.body) {
        for (ValueId v : inner.args)
          if (!own.contains(v)) copier.values[v] = v;
        if (!own.contains(inner.mask)) copier.values[inner.mask] = inner.mask;
      }
      copier.copy(loop.body, stmt.loop->body);
      for (Stmt& inner : stmt.loop->body) {
        for (Expr& e : inner.index) e = simplify(e, env);
        inner.expr = simplify(inner.expr, env);
      }
      for (const NamedValue& named : kernel_.named) {
        if (!own.contains(named.value)) continue;
        NamedValue here = named;
        here.value = copier.values.at(named.value);
        if (own.contains(named.mask)) here.mask = copier.values.at(named.mask);
        for (Expr& e : here.index) e = simplify(substitute(e, map), env);
        names.push_back(std::move(here));
      }
      out.push_back(std::move(stmt));
    }
    std::erase_if(kernel_.named, [&](const NamedValue& named) { return own.contains(named.value); });
    kernel_.named.insert(kernel_.named.end(), std::make_move_iterator(names.begin()),
                         std::make_move_iterator(names.end()));
  }

  Kernel& kernel_;
  const LoopProgram& program_;
  const RangeEnv env_;
};

}  // namespace

bool split_pieces(Kernel& kernel, const LoopProgram& program) {
  return PieceSplitter(kernel, program).visit(kernel.body);
}

}  // namespace kiln::loops
