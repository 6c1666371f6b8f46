#include "schedule/attention_fusion.h"

#include "loops/walk.h"
#include "schedule/least_code.h"

namespace kiln::loops {
namespace {

constexpr int64_t most_rounded_keys = 4096;  // that a block's rows take at once

}  // namespace

std::string AttentionFusion::refuses() {
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
  // Numbers that the program rounds are rounded: where each is known, before the second product.
  const Expr& keys = nest_a_.innermost_column().extent;
  if (softmax_.rounded && (target_.is_gpu() || !keys.is_constant() || keys.value() > most_rounded_keys))
    return "its weights are rounded when their sum is known";
  if (target_.is_gpu()) return "";  // attention_block.cpp looks at the rest
  for (const Stmt* stmt : nest_b_.sums[0].right) {
    if (stmt->kind != StmtKind::load) continue;
    const auto along =
        affine_in(address_of(*stmt, program_, kernel_ranges(b_, program_)), nest_b_.innermost_column().var);
    if (!along || !(along->coefficient.is_constant(1) || along->coefficient.is_constant(0)))
      return str("columns of ", name_of(stmt->buffer), " are not neighbours in memory");
  }
  // With fewer some rows would see none, and their softmax is NaN.
  if (const auto ahead = rows_.masked_beyond(softmax_); ahead && *ahead >= 0) ahead_ = ahead;
  if (estimate(row().extent, program_) < target_.lanes / 2) return "too few rows for the lanes";
  if (estimate(nest_b_.innermost_column().extent, program_) < 4) return "too few columns for the lanes";
  pairs_ = can_take_pairs();
  weight_pairs_ = pairs_ && weight_type() == DType::bf16;
  return "";
}

AttentionTile AttentionFusion::cheapest() const {
  AttentionShape shape{1,
                       at_least(row().extent),
                       at_least(nest_a_.innermost_column().extent),
                       at_least(nest_a_.term_count()),
                       at_least(nest_b_.innermost_column().extent),
                       ahead_ ? std::optional(static_cast<double>(*ahead_)) : std::nullopt,
                       pairs_,
                       weight_pairs_,
                       softmax_.rounded};
  for (const Loop* loop : outer()) shape.outer *= at_least(loop->extent);
  return cheapest_with_least_code(attention_candidates(shape, target_));
}

std::string AttentionFusion::same_rows() {
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
  for (size_t d = 0; d < load->index.size(); ++d) {
    const Expr &stored = weights_->index[d], &loaded = load->index[d];
    if (stored.is_symbol() && stored.name() == x) {
      if (!(loaded.is_symbol() && loaded.name() == r)) return no;
      mapped.insert(x);
      continue;
    }
    if (stored == loaded && stored.is_constant()) continue;
    // Both are the same sum of loops, of which most often there is one: a head may be two, its group and its place.
    Expr rest_a = stored, rest_b = loaded;
    for (const Loop* in_a : all_a) {
      if (!mentions(rest_a, in_a->var)) continue;
      const auto a = affine_in(rest_a, in_a->var);
      const Loop* in_b = nullptr;
      for (const Loop* loop : all_b)
        if (const auto b = affine_in(rest_b, loop->var);
            a && b && !in_b && mentions(rest_b, loop->var) && b->coefficient == a->coefficient)
          in_b = loop;
      if (!in_b || prove_eq(in_a->extent, in_b->extent, env) != Proof::yes) return no;
      if (!mapped.insert(in_a->var).second || !variables_b_.emplace(in_b->var, Expr::symbol(in_a->var)).second)
        return no;
      rest_a = a->rest, rest_b = affine_in(rest_b, in_b->var)->rest;
    }
    if (!(rest_a == rest_b) || !rest_a.is_constant()) return no;
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

const Loop* AttentionFusion::columns_of(const Stmt* store) const {
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

BufferId AttentionFusion::scratch(const std::string& like, std::vector<Expr> sizes, DType dtype) {
  Buffer buffer;
  buffer.name = like;
  buffer.dtype = dtype;
  buffer.sizes = sizes;
  buffer.strides.assign(sizes.size(), Expr(1));
  for (size_t d = sizes.size(); d-- > 1;) buffer.strides[d - 1] = buffer.strides[d] * sizes[d];
  buffer.role = BufferRole::scratch;
  return program_.add_buffer(std::move(buffer));
}

void AttentionFusion::copy_needed(Copier& copier, const std::vector<const Body*>& bodies,
                                  const std::set<ValueId>& roots, Body& out) {
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

void AttentionFusion::begin() {
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

ValueId AttentionFusion::copy_score(Copier& copier, const std::vector<const Body*>& with_row, const Expr& n,
                                    Body& inner) {
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

ValueId AttentionFusion::highest_of(BufferId scores, const Expr& count, const Place& place, Body& inner) {
  Stmt top = reduction_stmt(fresh("r"), count, AxisRole::reduce, ReduceOp::max, DType::f32);
  top.loop->yields = {append(top.loop->body, load_stmt(made_, DType::f32, scores, place(variable(top))))};
  top.results = {new_value(made_, DType::f32)};
  const ValueId highest = top.results[0];
  inner.push_back(std::move(top));
  return highest;
}

ValueId AttentionFusion::above(ValueId highest, Body& inner) {
  constexpr double many = 65536;  // keys, where their number is not known
  const Expr& keys = nest_a_.innermost_column().extent;
  const double count = keys.is_constant() ? static_cast<double>(std::max<int64_t>(keys.value(), 1)) : many;
  // A GPU's template goes through the keys in an order of its own, and reads its shift off these statements.
  if (target_.is_gpu() || count == 1) return highest;
  const ValueId more = append(inner, constant_stmt(made_, DType::f32, Scalar(std::ceil(std::log(count)))));
  return append(inner, op_stmt(made_, ScalarOp::add, DType::f32, {highest, more}));
}

ValueId AttentionFusion::exponentials(BufferId scores, const Expr& count, const Place& place, ValueId shift,
                                      ScalarOp exponential, Body& inner, ValueId empty, ValueId zero) {
  Stmt sum = reduction_stmt(fresh("r"), count, AxisRole::reduce, ReduceOp::sum, DType::f32);
  Body& terms = sum.loop->body;
  ValueId e = append(terms, load_stmt(made_, DType::f32, scores, place(variable(sum))));
  e = append(terms, op_stmt(made_, ScalarOp::sub, DType::f32, {e, shift}));
  e = append(terms, op_stmt(made_, exponential, DType::f32, {e}));
  if (empty != no_value) e = append(terms, op_stmt(made_, ScalarOp::select, DType::f32, {empty, zero, e}));
  terms.push_back(store_stmt(DType::f32, scores, place(variable(sum)), e));
  sum.loop->yields = {e};
  sum.results = {new_value(made_, DType::f32)};
  const ValueId total = sum.results[0];
  inner.push_back(std::move(sum));
  return total;
}

ValueId AttentionFusion::build_softmax(BufferId scores, const Expr& keys, const Place& place, Body& inner,
                                       BufferId pairs) {
  const ValueId highest = highest_of(scores, keys, place, inner);
  // A GPU multiplies subnormal numbers as fast as others, and its template reads an empty row off the terms.
  const bool gpu = target_.is_gpu();
  ValueId empty = no_value, zero = no_value, shift = above(highest, inner);
  if (softmax_.empty_rows_are_zero) {
    const ValueId lowest = append(inner, constant_stmt(made_, DType::f32, Scalar(-INFINITY)));
    zero = append(inner, constant_stmt(made_, DType::f32, Scalar(0.0)));
    empty = append(inner, op_stmt(made_, ScalarOp::eq, DType::boolean, {highest, lowest}));
    // e^(-inf - 0) is the weight of 0 that such a row has.
    if (!gpu) shift = append(inner, op_stmt(made_, ScalarOp::select, DType::f32, {empty, zero, shift}));
  }
  ValueId total = gpu                  ? exponentials(scores, keys, place, shift, ScalarOp::exp, inner, empty, zero)
                  : pairs == no_buffer ? exponentials(scores, keys, place, shift, ScalarOp::exp_or_zero, inner)
                                       : exponential_pairs(scores, keys, place, shift, pairs, inner);
  const ValueId one = append(inner, constant_stmt(made_, DType::f32, Scalar(1.0)));
  if (empty != no_value) total = append(inner, op_stmt(made_, ScalarOp::select, DType::f32, {empty, one, total}));
  total = total_of_keys(total, one, inner);
  return append(inner, op_stmt(made_, ScalarOp::div, DType::f32, {one, total}));
}

ValueId AttentionFusion::total_of_keys(ValueId total, ValueId one, Body& inner) {
  const Expr& keys = nest_a_.innermost_column().extent;
  if (softmax_.empty_rows_are_zero || prove_lt(0, keys, env_) == Proof::yes) return total;
  const ValueId count = append(inner, index_stmt(made_, DType::f32, keys)),
                zero = append(inner, constant_stmt(made_, DType::f32, Scalar(0.0))),
                none = append(inner, op_stmt(made_, ScalarOp::eq, DType::boolean, {count, zero}));
  return append(inner, op_stmt(made_, ScalarOp::select, DType::f32, {none, one, total}));
}

ValueId AttentionFusion::copy_value(Copier& copier, Body& inner, Body& terms) {
  std::vector<const Loop*> loops = nest_b_.batch;
  loops.insert(loops.end(), nest_b_.rows.begin(), nest_b_.rows.end());
  loops.push_back(&nest_b_.innermost_column());
  std::set<ValueId> needed;
  for (const Stmt& stmt : nest_b_.innermost_sum().body) {
    needed.insert(stmt.args.begin(), stmt.args.end());
    needed.insert(stmt.mask);
  }
  const ValueId right = b_.contraction->right;
  copy_needed(copier, bodies_of(loops), needed, inner);
  copy_needed(copier, {&nest_b_.innermost_sum().body}, {right}, terms);
  return copier.value(right);
}

ValueId AttentionFusion::sum_over(const KeyRange& keys, BufferId scores, const Place& place, Copier& copier,
                                  Body& inner) {
  Stmt sum = reduction_stmt(fresh("r"), keys.count, AxisRole::reduce, ReduceOp::sum, DType::f32);
  const Expr key = simplify(keys.first + variable(sum), env_);
  copier.variables[nest_b_.innermost_sum().var] = key;
  Body& terms = sum.loop->body;
  const ValueId weight = append(terms, load_stmt(made_, DType::f32, scores, place(key)));
  const ValueId value = copy_value(copier, inner, terms);
  sum.loop->yields = {append(terms, op_stmt(made_, ScalarOp::mul, DType::f32, {weight, value}))};
  sum.results = {new_value(made_, DType::f32)};
  const ValueId summed = sum.results[0];
  inner.push_back(std::move(sum));
  return summed;
}

void AttentionFusion::finish_output(ValueId summed, ValueId share, Copier& copier, Body& inner) {
  std::vector<const Loop*> loops = nest_b_.batch;
  loops.insert(loops.end(), nest_b_.rows.begin(), nest_b_.rows.end());
  loops.push_back(&nest_b_.innermost_column());
  copier.values[nest_b_.sums[0].stmt->results[0]] =
      share == no_value ? summed : append(inner, op_stmt(made_, ScalarOp::mul, DType::f32, {summed, share}));
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

Kernel AttentionFusion::build_rows() {
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
    share = build_softmax(scores, keys, place, body);
  }
  {
    Copier copier(b_, made_, used_);
    Stmt j = loop("i", nest_b_.innermost_column().extent);
    copier.variables = variables_b_;
    copier.variables[nest_b_.innermost_column().var] = variable(j);
    const ValueId summed = sum_over({0, nest_b_.innermost_sum().extent}, scores, place, copier, j.loop->body);
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

}  // namespace kiln::loops
