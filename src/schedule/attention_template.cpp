// Attention: the softmax of a product's rows, and a second product whose left factor it is,
//
//   for m { for n { s = sum over d of q(m,d) * k(n,d); scores[m,n] = s };
//           top = max over n of f(scores[m,n]); e[n] = exp(f - top); w[n] = e[n] / sum over n of e }
//   for m { for j { sum over n of w[m,n] * v(n,j); epilogue } }
//
// becomes one kernel whose items are blocks of rows. The scores of a block live in scratch, and lie with the rows
// beside one another: so rows are lanes for the first product, whose left factor is now k as it lies in memory, and for
// the softmax, which then needs nothing across lanes. The rows are divided by their sums when the second product is
// done. f is whatever stands between the product and the softmax: scale, masks, bias.
#include "loop_passes/rewrite.h"
#include "loops/walk.h"
#include "schedule/attention_block.h"
#include "schedule/attention_rows.h"
#include "schedule/attention_tile.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// Of a score less the highest of its row: below it the weight is 0. It would be a subnormal number, less than one part
// in 10^37 of the row's sum, for which processors take a hundred cycles in each product; masks of -100 are full of
// them.
constexpr double least_exponent = -87;

constexpr int64_t most_packed = 16 << 20;  // elements of a copy of weights with the rows beside one another

// The two kernels, and the one that they become.
class Fusion {
 public:
  Fusion(LoopProgram& program, const Kernel& first, const Kernel& second, const Target& target)
      : program_(program),
        a_(first),
        b_(second),
        target_(target),
        env_(kernel_ranges(first, program)),
        rows_(first),
        nest_a_(contraction_nest(first)),
        nest_b_(contraction_nest(second)) {}

  // The empty text, or why not.
  std::string refuses() {
    if (nest_a_.sums.size() != 1 || nest_b_.sums.size() != 1) return "one of the products has nested sums";
    if (nest_a_.innermost_sum().reduce_dtype != DType::f32 || nest_b_.innermost_sum().reduce_dtype != DType::f32)
      return "one of the products is not of f32";
    for (const Kernel* kernel : {&a_, &b_}) {
      bool plain = !raises(kernel->body);
      for_each_stmt(kernel->body, [&](const Stmt& stmt) { plain &= stmt.kind != StmtKind::random; });
      if (!plain) return str(kernel->name, " may raise or draws random numbers");
    }
    if (!nest_a_.whole_rows() || nest_b_.whole_rows()) return "no softmax stands between the products";
    weights_ = rows_.result();
    if (!weights_ || rows_.stored_twice()) return "the first one has several results";
    if (std::string why = rows_.read(*nest_a_.sums[0].stmt, *weights_, softmax_); !why.empty()) return why;
    if (std::string why = same_rows(); !why.empty()) return why;
    if (target_.is_gpu()) return "";  // attention_block.cpp looks at the rest
    for (const Stmt* stmt : nest_b_.sums[0].right) {
      if (stmt->kind != StmtKind::load) continue;
      const auto along =
          affine_in(address_of(*stmt, program_, kernel_ranges(b_, program_)), nest_b_.innermost_column().var);
      if (!along || !(along->coefficient.is_constant(1) || along->coefficient.is_constant(0)))
        return str("columns of ", name_of(stmt->buffer), " are not neighbours in memory");
    }
    if (estimate(row().extent, program_) < target_.lanes / 2) return "too few rows for the lanes";
    if (estimate(nest_b_.innermost_column().extent, program_) < 4) return "too few columns for the lanes";
    return "";
  }

  AttentionTile cheapest() const {
    AttentionShape shape{1, at_least(row().extent), at_least(nest_a_.innermost_column().extent),
                         at_least(nest_a_.term_count()), at_least(nest_b_.innermost_column().extent)};
    for (const Loop* loop : outer()) shape.outer *= at_least(loop->extent);
    const std::vector<AttentionTile> all = attention_candidates(shape, target_);
    return *std::min_element(all.begin(), all.end(), [](const auto& x, const auto& y) { return x.cost < y.cost; });
  }

  Kernel build(const AttentionTile& tile);
  // The same for one row at a time, as AttentionNest has it.
  Kernel build_rows();
  // Of what type the weights are stored that the second product reads.
  DType weight_type() const { return program_.buffers[static_cast<size_t>(weights_->buffer)].dtype; }

 private:
  const Loop& row() const { return nest_a_.innermost_row(); }
  const std::string& name_of(BufferId b) const { return program_.buffers[static_cast<size_t>(b)].name; }
  double at_least(const Expr& e) const { return std::max(1.0, estimate(e, program_)); }
  // The loops around the rows.
  std::vector<const Loop*> outer() const {
    std::vector<const Loop*> out = nest_a_.batch;
    out.insert(out.end(), nest_a_.rows.begin(), nest_a_.rows.end() - 1);
    return out;
  }

  // The second product reads the weights of one row as the first kernel has stored them.
  std::string same_rows() {
    const Stmt* load = nullptr;
    for_each_stmt(b_.body, [&](const Stmt& stmt) {
      if (stmt.kind == StmtKind::load && stmt.buffer == weights_->buffer) load = load ? &b_.body.front() : &stmt;
    });
    if (!load || load->kind != StmtKind::load || load->mask != no_value)
      return "the second one does not read the weights in one place";
    const std::vector<const Stmt*>& left = nest_b_.sums[0].left;
    const bool cast = left.size() == 2 && left[1]->kind == StmtKind::op && left[1]->op == ScalarOp::cast;
    if (left.empty() || left[0] != load || left.size() > (cast ? 2u : 1u))
      return "the second one does more with the weights than multiply them";
    const std::string no = "the second one reads the weights of other rows";
    const std::string &x = columns_of(weights_)->var, &r = nest_b_.innermost_sum().var;
    std::set<std::string> mapped;
    RangeEnv env = program_.ranges();
    std::vector<const Loop*> all_b = nest_b_.batch;
    all_b.insert(all_b.end(), nest_b_.rows.begin(), nest_b_.rows.end());
    std::vector<const Loop*> all_a = outer();
    all_a.push_back(&row());
    auto named = [](const std::vector<const Loop*>& loops, const Expr& e) -> const Loop* {
      for (const Loop* loop : loops)
        if (e.is_symbol() && e.name() == loop->var) return loop;
      return nullptr;
    };
    for (size_t d = 0; d < load->index.size(); ++d) {
      const Expr &stored = weights_->index[d], &loaded = load->index[d];
      if (stored.is_symbol() && stored.name() == x) {
        if (!(loaded.is_symbol() && loaded.name() == r)) return no;
        mapped.insert(x);
        continue;
      }
      const Loop *in_a = named(all_a, stored), *in_b = named(all_b, loaded);
      if (!in_a && !in_b && stored == loaded && stored.is_constant()) continue;
      if (!in_a || !in_b || prove_eq(in_a->extent, in_b->extent, env) != Proof::yes) return no;
      if (!mapped.insert(in_a->var).second || !variables_b_.emplace(in_b->var, Expr::symbol(in_a->var)).second)
        return no;
    }
    if (mapped.size() != all_a.size() + 1 || variables_b_.size() != all_b.size()) return no;
    if (variables_b_.at(nest_b_.innermost_row().var).name() != row().var) return no;
    if (prove_eq(nest_b_.innermost_sum().extent, nest_a_.innermost_column().extent, env) != Proof::yes) return no;
    // Every buffer that the rows pass through is of one row, with the columns along one dimension.
    for (const auto& [buffer, store] : rows_.stores()) {
      const Loop* around = columns_of(store);
      if (!around || prove_eq(around->extent, nest_a_.innermost_column().extent, env) != Proof::yes)
        return str(name_of(buffer), " is not a row");
    }
    return "";
  }
  const Loop* columns_of(const Stmt* store) const {
    const Loop* found = nullptr;
    std::function<void(const Body&, const Loop*)> visit = [&](const Body& body, const Loop* around) {
      for (const Stmt& stmt : body) {
        if (&stmt == store) found = around;
        if (stmt.loop) visit(stmt.loop->body, stmt.loop.get());
      }
    };
    visit(row().body, nullptr);
    return found;
  }

  // ---- Building
  BufferId scratch(const std::string& like, std::vector<Expr> sizes) {
    Buffer buffer;
    buffer.name = like;
    buffer.sizes = sizes;
    buffer.strides.assign(sizes.size(), Expr(1));
    for (size_t d = sizes.size(); d-- > 1;) buffer.strides[d - 1] = buffer.strides[d] * sizes[d];
    buffer.role = BufferRole::scratch;
    return program_.add_buffer(std::move(buffer));
  }
  std::string fresh(const char* like) {
    for (size_t n = 0;; ++n)
      // i64 is a type in generated code
      if (std::string name = str(like, n); !dtype_from_name(name) && used_.insert(name).second) return name;
  }
  Stmt loop(const char* like, const Expr& extent, Binding binding = Binding::none, int64_t factor = 0) {
    Stmt stmt = loop_stmt(fresh(like), extent);
    const bool exact = factor == 0 || (extent.is_constant() && extent.value() % factor == 0);
    stmt.loop->directives = {binding, factor, exact ? Tail::exact : Tail::mask};
    return stmt;
  }
  static Expr variable(const Stmt& loop) { return Expr::symbol(loop.loop->var); }
  // Copies what the values need, of the bodies' statements outside of loops, from the outside in.
  void copy_needed(Copier& copier, const std::vector<const Body*>& bodies, const std::set<ValueId>& roots, Body& out);
  std::vector<const Body*> bodies_of(const std::vector<const Loop*>& loops) const {
    std::vector<const Body*> out;
    for (const Loop* loop : loops) out.push_back(&loop->body);
    return out;
  }
  // What f reads of weights (a bias of positions, a mask), where it lies apart for the rows: in `to`, where the
  // statements of `from` have been copied to, it is read from a packed copy.
  void pack_for_rows(const Body& from, const Copier& copier, const Expr& key, const Expr& place,
                     const AttentionTile& tile, Body& to);
  void begin();
  // f of the product, for the key `n` of the row that the copier has; in `inner`, where the product stands already.
  ValueId copy_score(Copier& copier, const std::vector<const Body*>& with_row, const Expr& n, Body& inner);
  // Where the score of a key lies.
  using Place = std::function<std::vector<Expr>(const Expr& key)>;
  // The scores become weights, but for the division; gives what they are to be multiplied with.
  ValueId build_softmax(BufferId scores, const Place& place, Body& inner);
  // The second product's sum over so many keys from the given one on; in front of it stands what it needs.
  ValueId sum_over(const Expr& first, const Expr& count, BufferId scores, const Place& place, Copier& copier,
                   Body& inner);
  // What follows the second product: its sum times the share, and stored.
  void finish_output(ValueId summed, ValueId share, Copier& copier, Body& inner);
  // The second product with its sum over scratch.
  void build_output(const AttentionTile& tile, const Expr& block, BufferId scores, BufferId shares, Body& out);

  LoopProgram& program_;
  const Kernel &a_, &b_;
  const Target& target_;
  RangeEnv env_;
  RowPart rows_;
  ContractionNest nest_a_, nest_b_;
  Softmax softmax_;
  const Stmt* weights_ = nullptr;
  Substitution variables_b_;
  Kernel made_;
  std::set<std::string> used_;
};

void Fusion::copy_needed(Copier& copier, const std::vector<const Body*>& bodies, const std::set<ValueId>& roots,
                         Body& out) {
  std::vector<const Stmt*> all, kept;
  for (const Body* body : bodies)
    for (const Stmt& stmt : *body)
      if (!stmt.loop && stmt.kind != StmtKind::store) all.push_back(&stmt);
  std::set<ValueId> wanted = roots;
  for (size_t i = all.size(); i-- > 0;) {
    if (!wanted.count(all[i]->results[0]) || copier.values.count(all[i]->results[0])) continue;
    wanted.insert(all[i]->args.begin(), all[i]->args.end());
    wanted.insert(all[i]->mask);
    kept.push_back(all[i]);
  }
  for (size_t i = kept.size(); i-- > 0;) out.push_back(copier.copy(*kept[i], out));
}

void Fusion::pack_for_rows(const Body& from, const Copier& copier, const Expr& key, const Expr& place,
                           const AttentionTile& tile, Body& to) {
  const Expr rows = row().extent, keys = nest_a_.innermost_column().extent;
  if (!rows.is_constant() || !keys.is_constant()) return;
  for (const Stmt& original : from) {
    if (original.kind != StmtKind::load || original.mask != no_value) continue;
    const Buffer source = program_.buffers[static_cast<size_t>(original.buffer)];
    const bool fixed = (source.role == BufferRole::constant && !source.mutated) || source.role == BufferRole::derived;
    const auto along = affine_in(address_of(original, program_, env_), row().var);
    if (!fixed || (along && (along->coefficient.is_constant(0) || along->coefficient.is_constant(1)))) continue;
    const auto copied = copier.values.find(original.results[0]);
    const auto load = std::find_if(to.begin(), to.end(), [&](const Stmt& stmt) {
      return copied != copier.values.end() && stmt.kind == StmtKind::load && stmt.results[0] == copied->second;
    });
    if (load == to.end()) continue;
    // [what is around, key, row]; rows beyond the last are zeros.
    std::vector<Expr> sizes, where;
    Substitution rename;
    auto dimension = [&](const std::string& var, const Expr& size, const Expr& at) {
      rename[var] = Expr::symbol(str("i", sizes.size()));
      sizes.push_back(size);
      where.push_back(at);
    };
    std::set<std::string> symbols;
    for (const Expr& e : original.index) collect_symbols(e, symbols);
    int64_t elements = keys.value();
    for (const Loop* loop : outer()) {
      if (!symbols.erase(loop->var)) continue;
      if (!loop->extent.is_constant()) return;
      elements *= loop->extent.value();
      dimension(loop->var, loop->extent, Expr::symbol(loop->var));
    }
    symbols.erase(row().var);
    const std::string columns = symbols.empty() ? nest_a_.innermost_column().var : *symbols.begin();
    const bool of_columns = columns == nest_a_.innermost_column().var || columns == softmax_.around->var;
    const int64_t padded = (rows.value() + tile.block - 1) / tile.block * tile.block;
    if (symbols.size() > 1 || !of_columns || elements * padded > most_packed) continue;
    dimension(columns, keys, key);
    dimension(row().var, padded, place);
    Buffer packed;
    packed.name = source.name + "_by_rows";
    packed.dtype = source.dtype;
    packed.role = BufferRole::derived;
    packed.sizes = sizes;
    packed.strides.assign(sizes.size(), Expr(1));
    for (size_t d = sizes.size(); d-- > 1;) packed.strides[d - 1] = packed.strides[d] * sizes[d];
    Kernel copy;
    copy.name = "pack_" + source.name;
    copy.op_names = {"pack"};
    copy.origins = a_.origins;
    std::vector<Expr> index, all;
    for (const Expr& e : original.index) index.push_back(substitute(e, rename));
    for (size_t d = 0; d < sizes.size(); ++d) all.push_back(Expr::symbol(str("i", d)));
    Body body;
    Stmt read = load_stmt(copy, source.dtype, original.buffer, std::move(index));
    if (padded != rows.value()) {
      const ValueId at = append(body, index_stmt(copy, DType::i64, all.back())),
                    end = append(body, index_stmt(copy, DType::i64, rows));
      read.mask = append(body, op_stmt(copy, ScalarOp::lt, DType::boolean, {at, end}));
    }
    const ValueId value = append(body, std::move(read));
    load->buffer = program_.add_buffer(std::move(packed));
    load->index = where;
    append(body, store_stmt(source.dtype, load->buffer, all, value));
    copy.body = nest_of(sizes, std::move(body));
    program_.init.push_back(Item{std::move(copy)});
  }
}

void Fusion::begin() {
  made_ = Kernel();
  made_.name = a_.name;
  made_.op_names = a_.op_names;
  made_.op_names.insert(made_.op_names.end(), b_.op_names.begin(), b_.op_names.end());
  made_.origins = a_.origins;
  made_.origins.insert(made_.origins.end(), b_.origins.begin(), b_.origins.end());
  made_.schedule = Schedule();
  made_.schedule->lanes = target_.lanes;
  used_ = variables_of(a_);
  for (const std::string& name : variables_of(b_)) used_.insert(name);
  for (const auto& [name, info] : program_.symbols) used_.insert(name);
}

ValueId Fusion::copy_score(Copier& copier, const std::vector<const Body*>& with_row, const Expr& n, Body& inner) {
  std::vector<const Body*> bodies = with_row;
  bodies.push_back(&nest_a_.innermost_column().body);
  copy_needed(copier, bodies, {softmax_.raw->args[0]}, inner);
  // f stands in the loop of the exponentials: there its variable is another one, and it loads what is at hand here.
  copier.variables[softmax_.around->var] = n;
  for (const Stmt& stmt : softmax_.around->body)
    if (stmt.kind == StmtKind::load && stmt.buffer == softmax_.raw->buffer)
      copier.values[stmt.results[0]] = copier.value(softmax_.raw->args[0]);
  bodies = with_row;
  bodies.push_back(&softmax_.around->body);
  copy_needed(copier, bodies, {softmax_.score}, inner);
  return copier.value(softmax_.score);
}

ValueId Fusion::build_softmax(BufferId scores, const Place& place, Body& inner) {
  const Expr& keys = nest_a_.innermost_column().extent;
  Stmt top = reduction_stmt(fresh("r"), keys, AxisRole::reduce, ReduceOp::max, DType::f32);
  top.loop->yields = {append(top.loop->body, load_stmt(made_, DType::f32, scores, place(variable(top))))};
  top.results = {new_value(made_, DType::f32)};
  const ValueId highest = top.results[0];
  inner.push_back(std::move(top));
  // A GPU multiplies subnormal numbers as fast as others.
  const bool clear_small = !target_.is_gpu();
  ValueId empty = no_value, zero = no_value, limit = no_value, lowest = no_value;
  if (clear_small) limit = append(inner, constant_stmt(made_, DType::f32, Scalar(least_exponent)));
  if (clear_small || softmax_.empty_rows_are_zero)
    lowest = append(inner, constant_stmt(made_, DType::f32, Scalar(-INFINITY)));
  if (softmax_.empty_rows_are_zero) {
    zero = append(inner, constant_stmt(made_, DType::f32, Scalar(0.0)));
    empty = append(inner, op_stmt(made_, ScalarOp::eq, DType::boolean, {highest, lowest}));
  }
  Stmt sum = reduction_stmt(fresh("r"), keys, AxisRole::reduce, ReduceOp::sum, DType::f32);
  Body& terms = sum.loop->body;
  ValueId e = append(terms, load_stmt(made_, DType::f32, scores, place(variable(sum))));
  e = append(terms, op_stmt(made_, ScalarOp::sub, DType::f32, {e, highest}));
  if (clear_small)
    e = append(terms, op_stmt(made_, ScalarOp::select, DType::f32,
                              {append(terms, op_stmt(made_, ScalarOp::lt, DType::boolean, {e, limit})), lowest, e}));
  e = append(terms, op_stmt(made_, ScalarOp::exp, DType::f32, {e}));
  if (empty != no_value) e = append(terms, op_stmt(made_, ScalarOp::select, DType::f32, {empty, zero, e}));
  terms.push_back(store_stmt(DType::f32, scores, place(variable(sum)), e));
  sum.loop->yields = {e};
  sum.results = {new_value(made_, DType::f32)};
  ValueId total = sum.results[0];
  inner.push_back(std::move(sum));
  const ValueId one = append(inner, constant_stmt(made_, DType::f32, Scalar(1.0)));
  if (empty != no_value) total = append(inner, op_stmt(made_, ScalarOp::select, DType::f32, {empty, one, total}));
  return append(inner, op_stmt(made_, ScalarOp::div, DType::f32, {one, total}));
}

Kernel Fusion::build(const AttentionTile& tile) {
  const Expr rows = row().extent, keys = nest_a_.innermost_column().extent, width = nest_a_.innermost_sum().extent;
  const Expr block_size = tile.block;
  const bool even = rows.is_constant() && rows.value() % tile.block == 0;
  begin();
  const BufferId left = scratch(name_of(weights_->buffer) + "_rows", {width, block_size}),
                 scores = scratch(name_of(weights_->buffer) + "_block", {keys, block_size}),
                 shares = scratch(name_of(weights_->buffer) + "_shares", {block_size});

  Stmt blocks = loop("o", simplify(ceildiv(rows, tile.block), env_), Binding::item);
  const Expr base = variable(blocks) * tile.block;
  Body& body = blocks.loop->body;
  const std::vector<const Body*> around = bodies_of(outer());
  std::vector<const Body*> with_row = around;
  with_row.push_back(&row().body);
  // Rows of the last block beyond the last one are computed as the last one, and not stored.
  auto row_of = [&](const Expr& q) { return even ? base + q : min_expr(base + q, rows - 1); };
  auto copier_of = [&](const Expr& q) {
    Copier copier(a_, made_, used_);
    copier.variables[row().var] = row_of(q);
    return copier;
  };
  const Contraction& names = *a_.contraction;

  {  // The rows' factor, so that rows are neighbours.
    Stmt q = loop("i", block_size), d = loop("i", width, Binding::lane, target_.lanes);
    Copier copier = copier_of(variable(q));
    copier.variables[nest_a_.innermost_sum().var] = variable(d);
    std::vector<const Body*> bodies = with_row;
    bodies.push_back(&nest_a_.innermost_column().body);
    bodies.push_back(&nest_a_.innermost_sum().body);
    copy_needed(copier, bodies, {names.left}, d.loop->body);
    d.loop->body.push_back(store_stmt(DType::f32, left, {variable(d), variable(q)}, copier.value(names.left)));
    used_.insert(copier.used().begin(), copier.used().end());
    copier.copy_names(d.loop->body);
    q.loop->body.push_back(std::move(d));
    body.push_back(std::move(q));
  }
  {  // The first product, and what stands between it and the softmax.
    Stmt n = loop("i", keys, Binding::unroll, tile.keys),
         q = loop("i", block_size, Binding::lane, tile.vectors * target_.lanes);
    Body& inner = q.loop->body;
    Copier copier = copier_of(variable(q));
    copier.variables[nest_a_.innermost_column().var] = variable(n);
    Stmt sum = reduction_stmt(fresh("r"), width, AxisRole::reduce, ReduceOp::sum, DType::f32);
    Body& terms = sum.loop->body;
    const ValueId from_rows = append(terms, load_stmt(made_, DType::f32, left, {variable(sum), variable(q)}));
    copier.variables[nest_a_.innermost_sum().var] = variable(sum);
    std::vector<const Body*> bodies = with_row;
    bodies.push_back(&nest_a_.innermost_column().body);
    // What the columns' factor needs from outside of the sum stands there.
    std::set<ValueId> needed = {names.right};
    for (const Stmt& stmt : nest_a_.innermost_sum().body) {
      if (std::find(names.left_values.begin(), names.left_values.end(), stmt.results[0]) != names.left_values.end())
        continue;
      needed.insert(stmt.args.begin(), stmt.args.end());
      needed.insert(stmt.mask);
    }
    needed.erase(names.left);
    copy_needed(copier, bodies, needed, inner);
    copy_needed(copier, {&nest_a_.innermost_sum().body}, {names.right}, terms);
    sum.loop->yields = {
        append(terms, op_stmt(made_, ScalarOp::mul, DType::f32, {from_rows, copier.value(names.right)}))};
    sum.results = {new_value(made_, DType::f32)};
    copier.values[nest_a_.sums[0].stmt->results[0]] = sum.results[0];
    inner.push_back(std::move(sum));
    const ValueId score = copy_score(copier, with_row, variable(n), inner);
    for (const Body* from : {&nest_a_.innermost_column().body, &softmax_.around->body})
      pack_for_rows(*from, copier, variable(n), base + variable(q), tile, inner);
    inner.push_back(store_stmt(DType::f32, scores, {variable(n), variable(q)}, score));
    used_.insert(copier.used().begin(), copier.used().end());
    copier.copy_names(inner);
    n.loop->body.push_back(std::move(q));
    body.push_back(std::move(n));
  }
  {  // The softmax, but for the division.
    const int64_t vectors = std::min<int64_t>(target_.vector_registers >= 32 ? 4 : 2, tile.block / target_.lanes);
    Stmt q = loop("i", block_size, Binding::lane, vectors * target_.lanes);
    Body& inner = q.loop->body;
    const ValueId share = build_softmax(
        scores,
        [&](const Expr& key) {
          return std::vector<Expr>{key, variable(q)};
        },
        inner);
    inner.push_back(store_stmt(DType::f32, shares, {variable(q)}, share));
    body.push_back(std::move(q));
  }
  build_output(tile, base, scores, shares, body);

  Stmt nest = std::move(blocks);
  const std::vector<const Loop*> loops = outer();
  for (size_t i = loops.size(); i-- > 0;) {
    Stmt outer = loop_stmt(loops[i]->var, loops[i]->extent);
    outer.loop->directives.binding = Binding::item;
    outer.loop->body.push_back(std::move(nest));
    nest = std::move(outer);
  }
  made_.body.push_back(std::move(nest));
  return std::move(made_);
}

ValueId Fusion::sum_over(const Expr& first, const Expr& count, BufferId scores, const Place& place, Copier& copier,
                         Body& inner) {
  std::vector<const Loop*> loops = nest_b_.batch;
  loops.insert(loops.end(), nest_b_.rows.begin(), nest_b_.rows.end());
  loops.push_back(&nest_b_.innermost_column());
  Stmt sum = reduction_stmt(fresh("r"), count, AxisRole::reduce, ReduceOp::sum, DType::f32);
  const Expr key = simplify(first + variable(sum), env_);
  copier.variables[nest_b_.innermost_sum().var] = key;
  Body& terms = sum.loop->body;
  const ValueId weight = append(terms, load_stmt(made_, DType::f32, scores, place(key)));
  std::set<ValueId> needed;
  for (const Stmt& stmt : nest_b_.innermost_sum().body) {
    needed.insert(stmt.args.begin(), stmt.args.end());
    needed.insert(stmt.mask);
  }
  const ValueId right = b_.contraction->right;
  copy_needed(copier, bodies_of(loops), needed, inner);
  copy_needed(copier, {&nest_b_.innermost_sum().body}, {right}, terms);
  sum.loop->yields = {append(terms, op_stmt(made_, ScalarOp::mul, DType::f32, {weight, copier.value(right)}))};
  sum.results = {new_value(made_, DType::f32)};
  const ValueId summed = sum.results[0];
  inner.push_back(std::move(sum));
  return summed;
}

void Fusion::finish_output(ValueId summed, ValueId share, Copier& copier, Body& inner) {
  std::vector<const Loop*> loops = nest_b_.batch;
  loops.insert(loops.end(), nest_b_.rows.begin(), nest_b_.rows.end());
  loops.push_back(&nest_b_.innermost_column());
  copier.values[nest_b_.sums[0].stmt->results[0]] =
      append(inner, op_stmt(made_, ScalarOp::mul, DType::f32, {summed, share}));
  std::set<ValueId> needed;
  for (const Stmt& stmt : nest_b_.innermost_column().body) {
    if (stmt.loop) continue;
    needed.insert(stmt.args.begin(), stmt.args.end());
    needed.insert(stmt.mask);
  }
  copy_needed(copier, bodies_of(loops), needed, inner);
  for (const Stmt& stmt : nest_b_.innermost_column().body)
    if (stmt.kind == StmtKind::store) inner.push_back(copier.copy(stmt, inner));
  copier.copy_names(inner);
  used_.insert(copier.used().begin(), copier.used().end());
}

Kernel Fusion::build_rows() {
  begin();
  const Expr& keys = nest_a_.innermost_column().extent;
  const BufferId scores = scratch(name_of(weights_->buffer) + "_row", {keys});
  const Place place = [](const Expr& key) { return std::vector<Expr>{key}; };
  Stmt m = loop_stmt(row().var, row().extent);
  Body& body = m.loop->body;
  std::vector<const Body*> with_row = bodies_of(outer());
  with_row.push_back(&row().body);
  ValueId share = no_value;
  {
    Copier copier(a_, made_, used_);
    Stmt n = loop("i", keys),
         sum = reduction_stmt(fresh("r"), nest_a_.innermost_sum().extent, AxisRole::reduce, ReduceOp::sum, DType::f32);
    Body &inner = n.loop->body, &terms = sum.loop->body;
    copier.variables[nest_a_.innermost_column().var] = variable(n);
    copier.variables[nest_a_.innermost_sum().var] = variable(sum);
    std::set<ValueId> needed;
    for (const Stmt& stmt : nest_a_.innermost_sum().body) {
      needed.insert(stmt.args.begin(), stmt.args.end());
      needed.insert(stmt.mask);
    }
    std::vector<const Body*> bodies = with_row;
    bodies.push_back(&nest_a_.innermost_column().body);
    copy_needed(copier, bodies, needed, inner);
    const Contraction& names = *a_.contraction;
    copy_needed(copier, {&nest_a_.innermost_sum().body}, {names.left, names.right}, terms);
    Contraction& mine = made_.contraction.emplace();
    for (const Loop* around : outer()) mine.batch.push_back(around->var);
    mine.rows = {row().var}, mine.columns = {n.loop->var}, mine.sums = {sum.loop->var};
    mine.left = copier.value(names.left), mine.right = copier.value(names.right);
    const auto copied = [&](const std::vector<ValueId>& from, std::vector<ValueId>& to) {
      for (ValueId v : from)
        if (copier.values.count(v)) to.push_back(copier.value(v));
    };
    copied(names.left_values, mine.left_values);
    copied(names.right_values, mine.right_values);
    copied(names.shared_values, mine.shared_values);
    sum.loop->yields = {append(terms, op_stmt(made_, ScalarOp::mul, DType::f32, {mine.left, mine.right}))};
    sum.results = {new_value(made_, DType::f32)};
    copier.values[nest_a_.sums[0].stmt->results[0]] = sum.results[0];
    const Expr key = variable(n);
    inner.push_back(std::move(sum));
    const ValueId score = copy_score(copier, with_row, key, inner);
    inner.push_back(store_stmt(DType::f32, scores, place(key), score));
    used_.insert(copier.used().begin(), copier.used().end());
    copier.copy_names(inner);
    body.push_back(std::move(n));
    share = build_softmax(scores, place, body);
  }
  {
    Copier copier(b_, made_, used_);
    Stmt j = loop("i", nest_b_.innermost_column().extent);
    copier.variables = variables_b_;
    copier.variables[nest_b_.innermost_column().var] = variable(j);
    const ValueId summed = sum_over(0, nest_b_.innermost_sum().extent, scores, place, copier, j.loop->body);
    finish_output(summed, share, copier, j.loop->body);
    body.push_back(std::move(j));
  }
  Stmt nest = std::move(m);
  const std::vector<const Loop*> loops = outer();
  for (size_t i = loops.size(); i-- > 0;) {
    Stmt around = loop_stmt(loops[i]->var, loops[i]->extent);
    around.loop->body.push_back(std::move(nest));
    nest = std::move(around);
  }
  made_.body.push_back(std::move(nest));
  return std::move(made_);
}

void Fusion::build_output(const AttentionTile& tile, const Expr& base, BufferId scores, BufferId shares, Body& out) {
  const Expr rows = row().extent, width = nest_b_.innermost_column().extent, keys = nest_b_.innermost_sum().extent;
  const bool even = rows.is_constant() && rows.value() % tile.block == 0;
  const bool one_block = rows.is_constant() && rows.value() <= tile.block;
  const Expr rows_here = even ? Expr(tile.block) : one_block ? rows : min_expr(Expr(tile.block), rows - base);
  auto copier_of = [&](const Stmt& q, const Stmt& j) {
    Copier copier(b_, made_, used_);
    copier.variables = variables_b_;
    copier.variables[nest_b_.innermost_row().var] = base + variable(q);
    copier.variables[nest_b_.innermost_column().var] = variable(j);
    return copier;
  };
  auto place_of = [](const Stmt& q) -> Place {
    return [row = variable(q)](const Expr& key) { return std::vector<Expr>{key, row}; };
  };
  auto share_of = [&](const Stmt& q, Body& inner) {
    return append(inner, load_stmt(made_, DType::f32, shares, {variable(q)}));
  };
  const int64_t lanes = tile.out_vectors * target_.lanes;
  if (tile.chunk == 0) {
    Stmt q = loop("i", rows_here, Binding::unroll, tile.rows), j = loop("i", width, Binding::lane, lanes);
    Copier copier = copier_of(q, j);
    const ValueId summed = sum_over(0, keys, scores, place_of(q), copier, j.loop->body);
    finish_output(summed, share_of(q, j.loop->body), copier, j.loop->body);
    q.loop->body.push_back(std::move(j));
    out.push_back(std::move(q));
    return;
  }
  // Some keys at a time, so that what belongs to them is at hand for all rows of the block. The sums wait in scratch.
  const BufferId sums = scratch(name_of(weights_->buffer) + "_sums", {Expr(tile.block), width});
  {
    Stmt q = loop("i", tile.block), j = loop("i", width, Binding::lane, target_.lanes);
    Body& inner = j.loop->body;
    const ValueId zero = append(inner, constant_stmt(made_, DType::f32, Scalar(0.0)));
    inner.push_back(store_stmt(DType::f32, sums, {variable(q), variable(j)}, zero));
    q.loop->body.push_back(std::move(j));
    out.push_back(std::move(q));
  }
  {
    Stmt c = loop("c", simplify(ceildiv(keys, tile.chunk), env_), Binding::serial);
    Stmt q = loop("i", rows_here, Binding::unroll, tile.rows), j = loop("i", width, Binding::lane, lanes);
    Body& inner = j.loop->body;
    Copier copier = copier_of(q, j);
    const Expr first = variable(c) * tile.chunk;
    const bool whole = keys.is_constant() && keys.value() % tile.chunk == 0;
    const Expr count = whole ? Expr(tile.chunk) : min_expr(Expr(tile.chunk), keys - first);
    const ValueId part = sum_over(first, count, scores, place_of(q), copier, inner);
    const ValueId before = append(inner, load_stmt(made_, DType::f32, sums, {variable(q), variable(j)}));
    const ValueId both = append(inner, op_stmt(made_, ScalarOp::add, DType::f32, {before, part}));
    inner.push_back(store_stmt(DType::f32, sums, {variable(q), variable(j)}, both));
    used_.insert(copier.used().begin(), copier.used().end());
    q.loop->body.push_back(std::move(j));
    c.loop->body.push_back(std::move(q));
    out.push_back(std::move(c));
  }
  Stmt q = loop("i", rows_here), j = loop("i", width, Binding::lane, target_.lanes);
  Body& inner = j.loop->body;
  Copier copier = copier_of(q, j);
  const ValueId summed = append(inner, load_stmt(made_, DType::f32, sums, {variable(q), variable(j)}));
  finish_output(summed, share_of(q, inner), copier, inner);
  q.loop->body.push_back(std::move(j));
  out.push_back(std::move(q));
}

class AttentionFuser {
 public:
  AttentionFuser(LoopProgram& program, const Target& target, Log& log)
      : program_(program), target_(target), log_(log) {}

  bool run(Block& block) {
    bool changed = false;
    std::vector<bool> gone(block.size());
    for (size_t i = 0; i < block.size(); ++i) {
      for_each_block(block[i], [&](Block& nested) { changed |= run(nested); });
      auto* second = std::get_if<Kernel>(&block[i].what);
      if (!second || !second->contraction) continue;
      for (size_t j = i; j-- > (i > window ? i - window : 0);) {
        auto* first = std::get_if<Kernel>(&block[j].what);
        if (gone[j] || !first || !first->contraction || !feeds(*first, *second)) continue;
        if (!fuse(block, j, i, gone)) break;
        gone[j] = changed = true;
        break;
      }
    }
    erase_items(block, gone);
    return changed;
  }

 private:
  static constexpr size_t window = 16;  // how far back the softmax is looked for

  static bool feeds(const Kernel& first, const Kernel& second) {
    const Accesses a = accesses(first.body), b = accesses(second.body);
    return std::any_of(a.writes.begin(), a.writes.end(), [&](BufferId id) { return b.reads.count(id) > 0; });
  }

  bool fuse(Block& block, size_t first, size_t second, const std::vector<bool>& gone) {
    auto &a = std::get<Kernel>(block[first].what), &b = std::get<Kernel>(block[second].what);
    const auto no = [&](const std::string& why) {
      log_.add([&] { return Decision{"no attention of", a.name, "with", b.name, why, false, ""}; });
      return false;
    };
    Fusion fusion(program_, a, b, target_);
    if (std::string why = fusion.refuses(); !why.empty()) return no(why);
    const Accesses mine = accesses(a.body);
    Accesses between;
    for (size_t i = first + 1; i < second; ++i) {
      if (gone[i]) continue;
      const Accesses other = accesses(block[i]);
      between.reads.insert(other.reads.begin(), other.reads.end());
      between.writes.insert(other.writes.begin(), other.writes.end());
    }
    if (conflict(mine, between)) return no("something between them needs the first one's memory");
    for (BufferId id : mine.writes)
      if (observable(program_, id) || program_.buffers[static_cast<size_t>(id)].role != BufferRole::temp ||
          users(id) > (accesses(b.body).reads.count(id) ? 2 : 1))
        return no(str(program_.buffers[static_cast<size_t>(id)].name, " is needed by others"));
    if (target_.is_gpu()) {
      const size_t buffers = program_.buffers.size();
      Kernel rows = fusion.build_rows();
      const std::string why = use_attention_block(rows, fusion.weight_type(), program_, target_);
      if (!why.empty()) {
        program_.buffers.resize(buffers);
        return no(why);
      }
      log_.add([&] {
        const Grid& grid = rows.schedule->grid;
        return Decision{
            "attention of", a.name, "with", b.name, str("blocks of ", grid.tile_rows, " rows and ", grid.keys, " keys"),
            true,           ""};
      });
      block[second].what = std::move(rows);
      return true;
    }
    const AttentionTile tile = fusion.cheapest();
    log_.add([&] {
      return Decision{
          "attention of",
          a.name,
          "with",
          b.name,
          str("blocks of ", tile.block, " rows; tiles of ", tile.keys, " by ", tile.vectors, " and ", tile.rows, " by ",
              tile.out_vectors, " vectors", tile.chunk > 0 ? str("; keys in chunks of ", tile.chunk) : ""),
          true,
          ""};
    });
    block[second].what = fusion.build(tile);
    return true;
  }

  // Items of the whole program that touch the buffer.
  int users(BufferId id) const {
    int count = 0;
    for (const Block* block : {&program_.init, &program_.block})
      for_each_item(*block, [&](const Item& item) {
        const auto* kernel = std::get_if<Kernel>(&item.what);
        if (kernel ? accesses(kernel->body).touches(id)
                   : !std::holds_alternative<Cond>(item.what) && !std::holds_alternative<While>(item.what) &&
                         accesses(item).touches(id))
          ++count;
      });
    return count;
  }

  LoopProgram& program_;
  const Target& target_;
  Log& log_;
};

}  // namespace

bool fuse_attention(LoopProgram& program, const Target& target, Log& log) {
  if (!target.is_gpu() && target.lanes == 1) return false;
  return AttentionFuser(program, target, log).run(program.block);
}

}  // namespace kiln::loops
