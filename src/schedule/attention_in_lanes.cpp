// Attention for a CPU: items are blocks of rows, whose scores live in scratch with the rows beside one another.
#include "loops/walk.h"
#include "schedule/attention_fusion.h"

namespace kiln::loops {
namespace {

constexpr int64_t most_packed = 16 << 20;  // elements of a copy of weights with the rows beside one another

}  // namespace

void AttentionFusion::pack_for_rows(const Body& from, const Copier& copier, const Expr& key, const Expr& place,
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

Kernel AttentionFusion::build(const AttentionTile& tile) {
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

void AttentionFusion::build_output(const AttentionTile& tile, const Expr& base, BufferId scores, BufferId shares,
                                   Body& out) {
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

}  // namespace kiln::loops
