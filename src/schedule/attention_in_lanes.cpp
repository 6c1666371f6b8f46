// Attention for a CPU: items are blocks of rows, whose scores live in scratch with the rows beside one another. Few
// keys are taken all at once; many in parts, so that what belongs to a part stays in the near caches from the first
// product to the second.
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
  begin();
  const std::string like = name_of(weights_->buffer);
  Stmt blocks = loop("o", simplify(ceildiv(rows, tile.block), env_), Binding::item);
  Body& body = blocks.loop->body;
  const Expr base = variable(blocks) * tile.block;
  const bool one = blocks.loop->extent.is_constant(1);
  RowBlock block{tile, base, rows.is_constant() && rows.value() % tile.block == 0, keys_of(tile, one ? 0 : base)};
  block.left = scratch(like + "_rows", {width, Expr(tile.block)});
  block.scores = scratch(like + "_block", {tile.chunk > 0 ? Expr(tile.chunk) : keys, Expr(tile.block)});
  block.shares = scratch(like + "_shares", {Expr(tile.block)});
  turn_rows(block, body);
  if (pairs_) {
    const Expr at_once = tile.chunk > 0 ? Expr(tile.chunk) : keys, columns = nest_b_.innermost_column().extent,
               whole = simplify(ceildiv(columns, target_.lanes) * target_.lanes, env_);
    block.left_pairs = scratch(like + "_row_pairs", {pairs_of(width), Expr(tile.block), Expr(2)}, DType::bf16);
    if (weight_pairs_)
      block.weight_pairs = scratch(like + "_pairs", {pairs_of(at_once), Expr(tile.block), Expr(2)}, DType::bf16);
    if (weight_pairs_)
      block.value_pairs = scratch(like + "_value_pairs", {pairs_of(at_once), whole, Expr(2)}, DType::bf16);
    pair_up(
        width, tile.block, block.left_pairs,
        [&](const Expr& term, const Expr& lane, ValueId mask, Body& inner) {
          Stmt load = load_stmt(made_, DType::f32, block.left, {term, lane});
          load.mask = mask;
          return append(inner, std::move(load));
        },
        body);
  }
  if (tile.chunk == 0) {
    build_scores(block, {0, block.keys}, body);
    Stmt q = rows_in_lanes(block);
    const Expr lane = variable(q);
    const ValueId share = build_softmax(
        block.scores, block.keys,
        [&](const Expr& key) {
          return std::vector<Expr>{key, lane};
        },
        q.loop->body, pairs_at_once(block, block.keys));
    q.loop->body.push_back(store_stmt(DType::f32, block.shares, {lane}, share));
    body.push_back(std::move(q));
    build_output(block, body);
  } else {
    build_parts(block, body);
  }
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

Stmt AttentionFusion::rows_in_lanes(const RowBlock& block) {
  // As many vectors side by side as there are registers for, all alike if that can be.
  const int64_t all = block.tile.block / target_.lanes, most = std::min<int64_t>(all, target_.vector_registers / 8);
  int64_t vectors = most;
  while (vectors > 1 && all % vectors != 0) --vectors;
  return loop("i", block.tile.block, Binding::lane, (vectors > 1 ? vectors : most) * target_.lanes);
}

Copier AttentionFusion::copier_of_row(const RowBlock& block, const Expr& q) {
  Copier copier(a_, made_, used_);
  const Expr at = block.base + q;
  // Rows of the last block beyond the last one are computed as the last one, and not stored.
  copier.variables[row().var] = block.even ? at : min_expr(at, row().extent - 1);
  return copier;
}

// The rows' factor, so that rows are neighbours.
void AttentionFusion::turn_rows(const RowBlock& block, Body& out) {
  Stmt q = loop("i", block.tile.block, Binding::unroll, target_.lanes),
       d = loop("i", nest_a_.innermost_sum().extent, Binding::lane, target_.lanes);
  Copier copier = copier_of_row(block, variable(q));
  copier.variables[nest_a_.innermost_sum().var] = variable(d);
  std::vector<const Body*> bodies = bodies_of(outer());
  bodies.push_back(&row().body);
  bodies.push_back(&nest_a_.innermost_column().body);
  bodies.push_back(&nest_a_.innermost_sum().body);
  const ValueId factor = a_.contraction->left;
  copy_needed(copier, bodies, {factor}, d.loop->body);
  d.loop->body.push_back(store_stmt(DType::f32, block.left, {variable(d), variable(q)}, copier.value(factor)));
  used_.insert(copier.used().begin(), copier.used().end());
  copier.copy_names(d.loop->body);
  q.loop->body.push_back(std::move(d));
  out.push_back(std::move(q));
}

// The first product, and what stands between it and the softmax.
void AttentionFusion::build_scores(const RowBlock& block, const KeyRange& keys, Body& out) {
  const Contraction& names = *a_.contraction;
  std::vector<const Body*> with_row = bodies_of(outer());
  with_row.push_back(&row().body);
  Stmt n = loop("i", keys.count, Binding::unroll, block.tile.keys),
       q = loop("i", block.tile.block, Binding::lane, block.tile.vectors * target_.lanes);
  Body& inner = q.loop->body;
  const Expr key = simplify(keys.first + variable(n), env_);
  Copier copier = copier_of_row(block, variable(q));
  copier.variables[nest_a_.innermost_column().var] = key;
  const Expr& width = nest_a_.innermost_sum().extent;
  Stmt sum =
      pairs_ ? sum_of_pairs(width) : reduction_stmt(fresh("r"), width, AxisRole::reduce, ReduceOp::sum, DType::f32);
  Body& terms = sum.loop->body;
  const ValueId from_rows = pairs_
                                ? paired(block.left_pairs, variable(sum), variable(q), terms)
                                : append(terms, load_stmt(made_, DType::f32, block.left, {variable(sum), variable(q)}));
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
  sum.loop->yields = {append(terms, op_stmt(made_, ScalarOp::mul, DType::f32, {from_rows, copier.value(names.right)}))};
  sum.results = {new_value(made_, DType::f32)};
  copier.values[nest_a_.sums[0].stmt->results[0]] = sum.results[0];
  inner.push_back(std::move(sum));
  const ValueId score = copy_score(copier, with_row, key, inner);
  for (const Body* from : {&nest_a_.innermost_column().body, &softmax_.around->body})
    pack_for_rows(*from, copier, key, block.base + variable(q), block.tile, inner);
  inner.push_back(store_stmt(DType::f32, block.scores, {variable(n), variable(q)}, score));
  used_.insert(copier.used().begin(), copier.used().end());
  copier.copy_names(inner);
  n.loop->body.push_back(std::move(q));
  out.push_back(std::move(n));
}

Expr AttentionFusion::rows_of(const RowBlock& block) const {
  const Expr& rows = row().extent;
  if (block.even) return block.tile.block;
  if (rows.is_constant() && rows.value() <= block.tile.block) return rows;
  return min_expr(Expr(block.tile.block), rows - block.base);
}

// Keys behind those that the block's last row sees have weights of 0 in all of them. A whole number of tiles: what is
// left over of a number that is not known runs one by one.
Expr AttentionFusion::keys_of(const AttentionTile& tile, const Expr& base) const {
  const Expr& keys = nest_a_.innermost_column().extent;
  if (!ahead_) return keys;
  const Expr seen = base + Expr(tile.block + *ahead_);
  const bool whole = tile.block % tile.keys == 0 && *ahead_ % tile.keys == 0;
  return min_expr(keys, whole ? seen : ceildiv(seen, tile.keys) * tile.keys);
}

Copier AttentionFusion::copier_of_output(const RowBlock& block, const Stmt& q, const Stmt& j) {
  Copier copier(b_, made_, used_);
  copier.variables = variables_b_;
  copier.variables[nest_b_.innermost_row().var] = block.base + variable(q);
  copier.variables[nest_b_.innermost_column().var] = variable(j);
  return copier;
}

bool AttentionFusion::can_take_pairs() const {
  const Expr& width = nest_a_.innermost_sum().extent;
  if (!target_.bf16_pairs || target_.lanes != 16 || !width.is_constant() || width.value() % 2 != 0) return false;
  // A number of bf16 that is widened; `as_it_lies`: loaded, and nothing else.
  const auto narrow = [](const Kernel& kernel, const std::vector<const Stmt*>& stmts, ValueId factor, bool as_it_lies) {
    if (stmts.empty() || (as_it_lies && (stmts.size() != 2 || stmts[0]->kind != StmtKind::load ||
                                         stmts[0]->mask != no_value || stmts[1]->args[0] != stmts[0]->results[0])))
      return false;
    const Stmt& last = *stmts.back();
    return last.kind == StmtKind::op && last.op == ScalarOp::cast && last.results[0] == factor &&
           kernel.value_types[static_cast<size_t>(last.args[0])] == DType::bf16;
  };
  const ContractionNest::Sum &scores = nest_a_.sums[0], &values = nest_b_.sums[0];
  if (!narrow(a_, scores.left, a_.contraction->left, false) || !narrow(a_, scores.right, a_.contraction->right, true) ||
      !narrow(b_, values.right, b_.contraction->right, false) || !scores.shared.empty())
    return false;
  const auto along = affine_in(address_of(*nest_a_.sums[0].right[0], program_, env_), nest_a_.innermost_sum().var);
  return along && along->coefficient.is_constant(1);
}

void AttentionFusion::pair_up(const Expr& terms, const Expr& lanes, BufferId to, const Term& load, Body& out) {
  Stmt pair = loop("i", pairs_of(terms)), lane = loop("i", lanes, Binding::lane, target_.lanes);
  const Expr first = variable(pair) * 2, second = first + 1;
  Body &around = pair.loop->body, &inner = lane.loop->body;
  ValueId there = no_value;
  if (!simplify(mod(terms, 2), env_).is_constant(0)) {
    const ValueId at = append(around, index_stmt(made_, DType::i64, second)),
                  end = append(around, index_stmt(made_, DType::i64, terms));
    there = append(around, op_stmt(made_, ScalarOp::lt, DType::boolean, {at, end}));
  }
  const ValueId a = load(first, variable(lane), no_value, inner), b = load(second, variable(lane), there, inner);
  inner.push_back(store_stmt(DType::bf16, to, {variable(pair), variable(lane), Expr(0)}, a));
  inner.push_back(store_stmt(DType::bf16, to, {variable(pair), variable(lane), Expr(1)}, b));
  around.push_back(std::move(lane));
  out.push_back(std::move(pair));
}

ValueId AttentionFusion::paired(BufferId pairs, const Expr& term, const Expr& lane, Body& terms) {
  const ValueId narrow =
      append(terms, load_stmt(made_, DType::bf16, pairs, {floordiv(term, Expr(2)), lane, mod(term, Expr(2))}));
  return append(terms, op_stmt(made_, ScalarOp::cast, DType::f32, {narrow}));
}

Stmt AttentionFusion::sum_of_pairs(const Expr& terms) {
  Stmt sum =
      reduction_stmt(fresh("r"), simplify(pairs_of(terms) * 2, env_), AxisRole::reduce, ReduceOp::sum, DType::f32);
  sum.loop->directives = {Binding::unroll, 2, Tail::exact};
  return sum;
}

ValueId AttentionFusion::sum_over_pairs(const RowBlock& block, const Expr& keys, const Expr& row, const Expr& column,
                                        Body& inner) {
  Stmt sum = sum_of_pairs(keys);
  Body& terms = sum.loop->body;
  const ValueId weight = paired(block.weight_pairs, variable(sum), row, terms),
                value = paired(block.value_pairs, variable(sum), column, terms);
  sum.loop->yields = {append(terms, op_stmt(made_, ScalarOp::mul, DType::f32, {weight, value}))};
  sum.results = {new_value(made_, DType::f32)};
  const ValueId summed = sum.results[0];
  inner.push_back(std::move(sum));
  return summed;
}

BufferId AttentionFusion::pairs_at_once(const RowBlock& block, const Expr& count) const {
  const bool whole = simplify(mod(count, 2), env_).is_constant(0);
  return weight_pairs_ && !softmax_.rounded && whole ? block.weight_pairs : no_buffer;
}

ValueId AttentionFusion::exponential_pairs(BufferId scores, const Expr& count, const Place& place, ValueId shift,
                                           BufferId pairs, Body& inner) {
  Stmt sum =
      reduction_stmt(fresh("r"), simplify(floordiv(count, 2), env_), AxisRole::reduce, ReduceOp::sum, DType::f32);
  Body& terms = sum.loop->body;
  std::vector<ValueId> both;
  for (const int which : {0, 1}) {
    const ValueId score = append(terms, load_stmt(made_, DType::f32, scores, place(variable(sum) * 2 + which))),
                  less = append(terms, op_stmt(made_, ScalarOp::sub, DType::f32, {score, shift}));
    both.push_back(append(terms, op_stmt(made_, ScalarOp::exp_or_zero, DType::f32, {less})));
  }
  for (const int which : {0, 1}) {
    std::vector<Expr> index = place(variable(sum));
    index.emplace_back(which);
    terms.push_back(store_stmt(DType::bf16, pairs, index, both[static_cast<size_t>(which)]));
  }
  sum.loop->yields = {append(terms, op_stmt(made_, ScalarOp::add, DType::f32, both))};
  sum.results = {new_value(made_, DType::f32)};
  const ValueId total = sum.results[0];
  inner.push_back(std::move(sum));
  return total;
}

void AttentionFusion::pair_weights(const RowBlock& block, const KeyRange& keys, Body& out) {
  if (pairs_at_once(block, keys.count) != no_buffer) return;
  pair_up(
      keys.count, block.tile.block, block.weight_pairs,
      [&](const Expr& term, const Expr& lane, ValueId mask, Body& inner) {
        return whole_weight(block, term, lane, mask, inner);
      },
      out);
}

// A weight; divided by its row's sum where it is to be rounded.
ValueId AttentionFusion::whole_weight(const RowBlock& block, const Expr& key, const Expr& lane, ValueId mask,
                                      Body& inner) {
  Stmt load = load_stmt(made_, DType::f32, block.scores, {key, lane});
  load.mask = mask;
  const ValueId weight = append(inner, std::move(load));
  if (!softmax_.rounded) return weight;
  const ValueId share = append(inner, load_stmt(made_, DType::f32, block.shares, {lane}));
  return append(inner, op_stmt(made_, ScalarOp::mul, DType::f32, {weight, share}));
}

void AttentionFusion::round_weights(const RowBlock& block, Body& out) {
  Stmt n = loop("i", block.keys), q = loop("i", block.tile.block, Binding::lane, target_.lanes);
  Body& inner = q.loop->body;
  const ValueId weight = whole_weight(block, variable(n), variable(q), no_value, inner);
  const ValueId narrow = append(inner, op_stmt(made_, ScalarOp::cast, weight_type(), {weight}));
  const ValueId wide = append(inner, op_stmt(made_, ScalarOp::cast, DType::f32, {narrow}));
  inner.push_back(store_stmt(DType::f32, block.scores, {variable(n), variable(q)}, wide));
  n.loop->body.push_back(std::move(q));
  out.push_back(std::move(n));
}

void AttentionFusion::pair_values(const RowBlock& block, const KeyRange& keys, Body& out) {
  pair_up(
      keys.count, nest_b_.innermost_column().extent, block.value_pairs,
      [&](const Expr& term, const Expr& lane, ValueId mask, Body& inner) {
        Copier copier(b_, made_, used_);
        copier.variables = variables_b_;
        copier.variables[nest_b_.innermost_column().var] = lane;
        copier.variables[nest_b_.innermost_sum().var] = simplify(keys.first + term, env_);
        copier.mask = mask;
        const ValueId value = copy_value(copier, inner, inner);
        used_.insert(copier.used().begin(), copier.used().end());
        return value;
      },
      out);
}

void AttentionFusion::build_output(const RowBlock& block, Body& out) {
  if (weight_pairs_) pair_weights(block, {0, block.keys}, out), pair_values(block, {0, block.keys}, out);
  if (!weight_pairs_ && softmax_.rounded) round_weights(block, out);
  Stmt q = loop("i", rows_of(block), Binding::unroll, block.tile.rows),
       j = loop("i", nest_b_.innermost_column().extent, Binding::lane, block.tile.out_vectors * target_.lanes);
  Body& inner = j.loop->body;
  Copier copier = copier_of_output(block, q, j);
  const Place place = [row = variable(q)](const Expr& key) { return std::vector<Expr>{key, row}; };
  const ValueId summed = weight_pairs_ ? sum_over_pairs(block, block.keys, variable(q), variable(j), inner)
                                       : sum_over({0, block.keys}, block.scores, place, copier, inner);
  const ValueId share =
      softmax_.rounded ? no_value : append(inner, load_stmt(made_, DType::f32, block.shares, {variable(q)}));
  finish_output(summed, share, copier, inner);
  q.loop->body.push_back(std::move(j));
  out.push_back(std::move(q));
}

// Some keys after the other. What a row has summed up so far is in units of e^top, top being above() its highest score
// so far: where a part has a higher one, the sums are scaled down to it. Of a row whose scores are all -inf up to here
// every weight is 0; if they all are, 1 / 0 makes NaN of it in the end, as a softmax of such a row is.
void AttentionFusion::build_parts(const RowBlock& block, Body& out) {
  const AttentionTile& tile = block.tile;
  const std::string like = name_of(weights_->buffer);
  const Expr &keys = block.keys, width = nest_b_.innermost_column().extent;
  const BufferId tops = scratch(like + "_tops", {Expr(tile.block)}),
                 factors = scratch(like + "_factors", {Expr(tile.block)}),
                 sums = scratch(like + "_sums", {Expr(tile.block), width}), totals = block.shares;
  const auto number = [&](double value, Body& inner) {
    return append(inner, constant_stmt(made_, DType::f32, Scalar(value)));
  };
  const auto compute = [&](ScalarOp op, std::vector<ValueId> args, Body& inner) {
    return append(inner, op_stmt(made_, op, op == ScalarOp::eq ? DType::boolean : DType::f32, std::move(args)));
  };
  {
    Stmt q = loop("i", tile.block, Binding::lane, target_.lanes);
    Body& inner = q.loop->body;
    inner.push_back(store_stmt(DType::f32, tops, {variable(q)}, number(-INFINITY, inner)));
    inner.push_back(store_stmt(DType::f32, totals, {variable(q)}, number(0, inner)));
    out.push_back(std::move(q));
  }
  {
    Stmt q = loop("i", tile.block), j = loop("i", width, Binding::lane, target_.lanes);
    Body& inner = j.loop->body;
    inner.push_back(store_stmt(DType::f32, sums, {variable(q), variable(j)}, number(0, inner)));
    q.loop->body.push_back(std::move(j));
    out.push_back(std::move(q));
  }
  Stmt c = loop("c", simplify(ceildiv(keys, tile.chunk), env_), Binding::serial);
  Body& part = c.loop->body;
  const Expr first = variable(c) * tile.chunk;
  const bool whole = keys.is_constant() && keys.value() % tile.chunk == 0;
  const KeyRange range{first, whole ? Expr(tile.chunk) : min_expr(Expr(tile.chunk), keys - first)};
  build_scores(block, range, part);
  {
    Stmt q = rows_in_lanes(block);
    Body& inner = q.loop->body;
    const Expr lane = variable(q);
    const Place place = [&](const Expr& key) { return std::vector<Expr>{key, lane}; };
    const ValueId before = append(inner, load_stmt(made_, DType::f32, tops, {lane})),
                  here = above(highest_of(block.scores, range.count, place, inner), inner),
                  top = compute(ScalarOp::max, {before, here}, inner),
                  none = compute(ScalarOp::eq, {top, number(-INFINITY, inner)}, inner),
                  shift = compute(ScalarOp::select, {none, number(0, inner), top}, inner),
                  factor = compute(ScalarOp::exp_or_zero, {compute(ScalarOp::sub, {before, shift}, inner)}, inner);
    inner.push_back(store_stmt(DType::f32, tops, {lane}, top));
    inner.push_back(store_stmt(DType::f32, factors, {lane}, factor));
    const BufferId pairs = pairs_at_once(block, range.count);
    const ValueId added = pairs == no_buffer
                              ? exponentials(block.scores, range.count, place, shift, ScalarOp::exp_or_zero, inner)
                              : exponential_pairs(block.scores, range.count, place, shift, pairs, inner),
                  so_far = append(inner, load_stmt(made_, DType::f32, totals, {lane})),
                  total = compute(ScalarOp::add, {compute(ScalarOp::mul, {so_far, factor}, inner), added}, inner);
    inner.push_back(store_stmt(DType::f32, totals, {lane}, total));
    part.push_back(std::move(q));
  }
  if (weight_pairs_) pair_weights(block, range, part), pair_values(block, range, part);
  {
    Stmt q = loop("i", rows_of(block), Binding::unroll, tile.rows),
         j = loop("i", width, Binding::lane, tile.out_vectors * target_.lanes);
    Body& inner = j.loop->body;
    Copier copier = copier_of_output(block, q, j);
    const Place place = [&, row = variable(q)](const Expr& key) {
      return std::vector<Expr>{simplify(key - first, env_), row};
    };
    const ValueId weighed = weight_pairs_ ? sum_over_pairs(block, range.count, variable(q), variable(j), inner)
                                          : sum_over(range, block.scores, place, copier, inner),
                  factor = append(inner, load_stmt(made_, DType::f32, factors, {variable(q)})),
                  before = append(inner, load_stmt(made_, DType::f32, sums, {variable(q), variable(j)})),
                  both = compute(ScalarOp::add, {compute(ScalarOp::mul, {before, factor}, inner), weighed}, inner);
    inner.push_back(store_stmt(DType::f32, sums, {variable(q), variable(j)}, both));
    used_.insert(copier.used().begin(), copier.used().end());
    q.loop->body.push_back(std::move(j));
    part.push_back(std::move(q));
  }
  out.push_back(std::move(c));
  {
    Stmt q = loop("i", tile.block, Binding::lane, target_.lanes);
    Body& inner = q.loop->body;
    const ValueId one = number(1, inner);
    ValueId total = append(inner, load_stmt(made_, DType::f32, totals, {variable(q)}));
    if (softmax_.empty_rows_are_zero) {
      const ValueId top = append(inner, load_stmt(made_, DType::f32, tops, {variable(q)}));
      const ValueId empty = compute(ScalarOp::eq, {top, number(-INFINITY, inner)}, inner);
      total = compute(ScalarOp::select, {empty, one, total}, inner);
    }
    total = total_of_keys(total, one, inner);
    inner.push_back(store_stmt(DType::f32, block.shares, {variable(q)}, compute(ScalarOp::div, {one, total}, inner)));
    out.push_back(std::move(q));
  }
  Stmt q = loop("i", rows_of(block)), j = loop("i", width, Binding::lane, target_.lanes);
  Body& inner = j.loop->body;
  Copier copier = copier_of_output(block, q, j);
  const ValueId summed = append(inner, load_stmt(made_, DType::f32, sums, {variable(q), variable(j)}));
  finish_output(summed, append(inner, load_stmt(made_, DType::f32, block.shares, {variable(q)})), copier, inner);
  q.loop->body.push_back(std::move(j));
  out.push_back(std::move(q));
}

}  // namespace kiln::loops
