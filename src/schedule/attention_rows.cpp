#include "schedule/attention_rows.h"

#include <cmath>

#include "loop_passes/rewrite.h"
#include "loops/later_keys.h"
#include "schedule/schedule.h"

namespace kiln::loops {

const Stmt* RowPart::result() const {
  const Stmt* found = nullptr;
  for (const auto& [buffer, store] : stores_) {
    if (loaded_.count(buffer)) continue;
    if (found) return nullptr;
    found = store;
  }
  return found;
}

std::string RowPart::read(const Stmt& product, const Stmt& weights, Softmax& out) {
  const std::string no = "its rows are not a softmax of the product";
  for (const auto& [buffer, store] : stores_)
    if (store_around_.at(buffer) == around_.at(product.results[0])) {
      if (out.raw) return "the product is stored in two places";
      out.raw = store;
    }
  if (!out.raw) return "the product is not stored";
  raw_ = out.raw->buffer;
  const Loop* columns = store_around_.at(raw_);
  bool whole = true;
  for (const auto& [v, made] : definitions_) {
    if (made->kind == StmtKind::load && stores_.count(made->buffer)) whole &= in_its_place(*made);
    if (made->loop && around_.at(made->results[0]) != columns) whole &= made->loop->extent == columns->extent;
  }
  if (!whole) return "its rows are not read as they are stored";
  ValueId w = passed(weights.args[0]), empty = no_value;
  if (const Stmt* rounding = op(w, ScalarOp::cast); rounding && rounding->dtype == weights.dtype) {
    out.rounded = true;
    w = passed(rounding->args[0]);
  }
  if (const Stmt* select = op(w, ScalarOp::select)) {
    if (text(select->args[1]) != "0") return no;
    empty = select->args[0];
    w = passed(select->args[2]);
  }
  const Stmt* division = op(w, ScalarOp::div);
  if (!division) return no;
  const ValueId e = passed(division->args[0]);
  const Stmt *exponential = op(e, ScalarOp::exp), *sum = reduction(division->args[1], ReduceOp::sum);
  if (!exponential || !sum || text(sum->loop->yields[0]) != text(e)) return no;
  const Stmt* shifted = op(passed(exponential->args[0]), ScalarOp::sub);
  const Stmt* top = shifted ? reduction(shifted->args[1], ReduceOp::max) : nullptr;
  if (!top || text(top->loop->yields[0]) != text(shifted->args[0])) return no;
  out.score = shifted->args[0];
  out.around = around_.at(exponential->results[0]);
  if (!out.around || out.around->role != AxisRole::parallel) return no;
  if (empty != no_value) {
    const Stmt* compared = op(passed(empty), ScalarOp::eq);
    if (!compared || text(compared->args[0]) != text(shifted->args[1]) || text(compared->args[1]) != "-inf") return no;
    out.empty_rows_are_zero = true;
  }
  if (kernel_.value_types[static_cast<size_t>(out.score)] != DType::f32) return "the softmax is not of f32";
  return "";
}

std::optional<int64_t> RowPart::masked_beyond(const Softmax& softmax) const {
  ScoreReader reader;
  reader.row = kernel_.contraction->rows.back(), reader.key = "x";
  // Through the buffers, that of the product too: a part of f may stand before it.
  reader.made = [&](ValueId v) {
    const Stmt* made = definitions_.at(passed(v));
    if (made->kind == StmtKind::load && made->buffer == raw_) made = definitions_.at(passed(softmax.raw->args[0]));
    return made;
  };
  reader.numbered = [&](const Stmt& stmt) { return substitute(stmt.expr, called_x(around_.at(stmt.results[0]))); };
  return loops::masked_beyond(reader, softmax.score);
}

void RowPart::visit(const Body& body, const Loop* around) {
  for (const Stmt& stmt : body) {
    for (ValueId v : stmt.results) {
      definitions_[v] = &stmt;
      around_[v] = around;
    }
    if (stmt.kind == StmtKind::store) {
      stored_twice_ |=
          !stores_.emplace(stmt.buffer, &stmt).second || stmt.mask != no_value || stmt.mode != StoreMode::plain;
      store_around_[stmt.buffer] = around;
    }
    if (stmt.kind == StmtKind::load) loaded_.insert(stmt.buffer);
    if (stmt.loop) {
      visit(stmt.loop->body, stmt.loop.get());
      visit(stmt.loop->after, stmt.loop.get());
    }
  }
}

ValueId RowPart::passed(ValueId v) const {
  for (;;) {
    const Stmt* made = definitions_.at(v);
    if (made->kind != StmtKind::load || made->buffer == raw_ || !in_its_place(*made)) return v;
    v = stores_.at(made->buffer)->args[0];
  }
}

bool RowPart::in_its_place(const Stmt& load) const {
  const auto stored = stores_.find(load.buffer);
  if (stored == stores_.end() || load.mask != no_value) return false;
  const Substitution here = called_x(around_.at(load.results[0])), there = called_x(store_around_.at(load.buffer));
  for (size_t d = 0; d < load.index.size(); ++d)
    if (substitute(load.index[d], here).text() != substitute(stored->second->index[d], there).text()) return false;
  return true;
}

Substitution RowPart::called_x(const Loop* loop) const {
  Substitution map;
  const Contraction& names = *kernel_.contraction;
  auto one_of = [&](const std::vector<std::string>& list) {
    return std::find(list.begin(), list.end(), loop->var) != list.end();
  };
  if (loop && !one_of(names.batch) && !one_of(names.rows)) map[loop->var] = Expr::symbol("x");
  return map;
}

const Stmt* RowPart::op(ValueId v, ScalarOp which) const {
  const Stmt* made = definitions_.at(v);
  return made->kind == StmtKind::op && made->op == which ? made : nullptr;
}

const Stmt* RowPart::reduction(ValueId v, ReduceOp which) const {
  const Stmt* made = definitions_.at(v);
  return made->loop && made->loop->role == AxisRole::reduce && made->loop->reduce == which ? made : nullptr;
}

std::string RowPart::text(ValueId v) const {
  if (v == no_value) return "";
  v = passed(v);
  const Stmt& made = *definitions_.at(v);
  const Substitution map = called_x(around_.at(v));
  auto all = [&](const std::vector<ValueId>& list) { return join_map(list, ", ", [&](ValueId a) { return text(a); }); };
  switch (made.kind) {
    case StmtKind::constant:
      return made.constant.is_float() && std::isinf(made.constant.as_double())
                 ? (made.constant.as_double() < 0 ? "-inf" : "inf")
             : made.constant.as_double() == 0 ? "0"
                                              : str("constant ", dtype_name(made.dtype), " ", made.constant.text());
    case StmtKind::op:
      return str(scalar_op_info(made.op).name, ".", dtype_name(made.dtype), "(", all(made.args), ")");
    case StmtKind::index_value:
      return str("index.", dtype_name(made.dtype), "(", substitute(made.expr, map).text(), ")");
    case StmtKind::load:
      return str("load ", made.buffer, "[",
                 join_map(made.index, ", ", [&](const Expr& e) { return substitute(e, map).text(); }), "] ",
                 text(made.mask));
    case StmtKind::loop:
      return str(reduce_info(made.loop->reduce).name, " ", made.loop->extent.text(), "[", all(made.loop->yields), "]");
    default:
      return str("%", v);
  }
}

}  // namespace kiln::loops
