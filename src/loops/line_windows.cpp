#include "loops/line_windows.h"

#include "loops/estimate.h"
#include "loops/narrow_rows.h"

namespace kiln::loops {
namespace {

class WindowFinder {
 public:
  WindowFinder(const Kernel& kernel, const LoopProgram& program)
      : kernel_(kernel), program_(program), nest_(contraction_nest(kernel)), point_(nest_.innermost_row().var) {
    for_each_stmt(kernel.body, [&](const Stmt& stmt) {
      for (const ValueId v : stmt.results) made_[v] = &stmt;
    });
  }

  std::optional<LineWindow> find() {
    if (nest_.sums.size() < 2 || nest_.innermost_sum().reduce_dtype != DType::f32) return {};
    const Loop &terms = nest_.innermost_sum(), &places = *nest_.sums[nest_.sums.size() - 2].stmt->loop;
    const Loop& points = nest_.innermost_row();
    for (const Loop* loop : {&terms, &places, &points})
      if (loop->extent.is_constant() ? loop->extent.value() < 1 : loop != &points) return {};
    place_ = places.var, term_ = terms.var;
    found_.load = made_[kernel_.contraction->left];
    if (found_.load && found_.load->kind == StmtKind::op && found_.load->op == ScalarOp::cast)
      found_.load = made_[found_.load->args[0]];
    if (!found_.load || found_.load->kind != StmtKind::load || found_.load->mask == no_value) return {};
    found_.points = points.extent;
    found_.about = std::max<int64_t>(1, static_cast<int64_t>(estimate(points.extent, program_)));
    found_.places = places.extent.value(), found_.terms = terms.extent.value();
    if (!find_points() || !find_conditions(found_.load->mask)) return {};
    // Conditions of lines are asked in front of the sum over places, inside of one around it.
    if (!found_.lines.empty() && nest_.sums.size() < 3) return {};
    return found_;
  }

 private:
  // Which dimension of the picture the points number, and how.
  bool find_points() {
    const Buffer& picture = program_.buffers[static_cast<size_t>(found_.load->buffer)];
    found_.widens = is_narrow(found_.load->dtype);
    const bool plain = made_[kernel_.contraction->left] == found_.load;
    if (picture.dtype != found_.load->dtype || (plain ? picture.dtype != DType::f32 : !found_.widens)) return false;
    bool along = false, neighbours = false;
    for (size_t d = 0; d < picture.sizes.size(); ++d) {
      const Expr& index = found_.load->index[d];
      if (mentions(index, term_)) {
        const auto by_term = affine_in(index, term_);
        if (neighbours || !by_term || !by_term->coefficient.is_constant(1) || mentions(by_term->rest, point_) ||
            mentions(by_term->rest, place_) || !picture.strides[d].is_constant(1))
          return false;
        neighbours = true;
        continue;
      }
      if (!mentions(index, point_) && !mentions(index, place_)) continue;
      if (along || !picture.strides[d].is_constant()) return false;
      along = true;
      const auto by_point = affine_in(index, point_);
      const auto by_place = by_point ? affine_in(by_point->rest, place_) : std::nullopt;
      if (!by_place || !by_point->coefficient.is_constant() || !by_place->coefficient.is_constant() ||
          !by_place->rest.is_constant())
        return false;
      found_.step = by_point->coefficient.value(), found_.apart = by_place->coefficient.value();
      found_.before = -by_place->rest.value();
      found_.width = picture.sizes[d], found_.distance = picture.strides[d].value();
      at_ = index;
    }
    // A line of one point has no neighbours, and its stride says nothing: whatever it is, addresses leave it out.
    return along && neighbours && found_.step > 0 && found_.apart > 0 && found_.distance > 0 &&
           !found_.width.is_constant(0) && !found_.width.is_constant(1);
  }

  bool depends(ValueId v, const std::string& var) const {
    const auto found = made_.find(v);
    if (found == made_.end()) return true;
    const Stmt& stmt = *found->second;
    if (stmt.kind != StmtKind::op && stmt.kind != StmtKind::constant && stmt.kind != StmtKind::index_value) return true;
    return mentions(stmt.expr, var) ||
           std::any_of(stmt.args.begin(), stmt.args.end(), [&](ValueId arg) { return depends(arg, var); });
  }
  const Expr* number(ValueId v) const {
    const Stmt& stmt = *made_.at(v);
    return stmt.kind == StmtKind::index_value && !stmt.expr.is_float() ? &stmt.expr : nullptr;
  }

  // The mask is that the point is in its line, and that the line is in the picture.
  bool find_conditions(ValueId mask) {
    if (!depends(mask, point_)) {
      found_.lines.push_back(mask);
      return !depends(mask, place_) && !depends(mask, term_);
    }
    const Stmt& made = *made_.at(mask);
    if (made.kind != StmtKind::op || made.args.size() != 2) return false;
    if (made.op == ScalarOp::logical_and) return find_conditions(made.args[0]) && find_conditions(made.args[1]);
    const Expr *left = number(made.args[0]), *right = number(made.args[1]);
    if (!left || !right || !(*left == at_)) return false;
    return (made.op == ScalarOp::ge && right->is_constant(0)) || (made.op == ScalarOp::lt && *right == found_.width);
  }

  const Kernel& kernel_;
  const LoopProgram& program_;
  const ContractionNest nest_;
  const std::string point_;
  std::string place_, term_;
  Expr at_;
  std::map<ValueId, const Stmt*> made_;
  LineWindow found_;
};

}  // namespace

std::optional<LineWindow> line_window(const Kernel& kernel, const LoopProgram& program) {
  return WindowFinder(kernel, program).find();
}

Expr rows_in_tiles(const ContractionNest& nest, const Tile& tile) {
  if (!takes_lines(tile)) return nest.row_count();
  Expr rows = ceildiv(nest.innermost_row().extent, tile.rows) * tile.rows;
  for (const Loop* loop : nest.rows)
    if (loop != &nest.innermost_row()) rows = rows * loop->extent;
  return rows;
}

}  // namespace kiln::loops
