// A convolution as Winograd's products (winograd.cpp says how): whether it is one for them, and the kernel it becomes.
#pragma once
#include "loop_passes/rewrite.h"
#include "schedule/new_loops.h"
#include "schedule/schedule.h"
#include "schedule/winograd_tile.h"

namespace kiln::loops {

// A dimension of the picture: the loop over its points and the one over the window.
// Results of one square are `apart` points from one another, as those of the window are: a dilated window sees that
// many grids, one between the points of the other.
struct WinogradSlide {
  const Loop *points = nullptr, *window = nullptr;
  int64_t apart = 1;
  // The first result of each square exists; the second one may not.
  Expr squares() const {
    if (apart == 1) return ceildiv(points->extent, 2);
    return floordiv(points->extent, 2 * apart) * apart + min_expr(rest(), Expr(apart));
  }
  bool has_rest() const { return !rest().is_constant(0); }
  Expr first(const Expr& square) const {
    return apart == 1 ? square * 2 : floordiv(square, apart) * (2 * apart) + mod(square, apart);
  }

 private:
  Expr rest() const { return mod(points->extent, 2 * apart); }
};

class Winograd : NewLoops {
 public:
  Winograd(LoopProgram& program, const Kernel& kernel, const Target& target)
      : program_(program), kernel_(kernel), target_(target), nest_(contraction_nest(kernel)) {}

  std::string refuses();
  // Of one picture where their number is not known, and how many there are then; else of all. Of pictures whose size is
  // not known the squares are a guess.
  WinogradShape shape() const;
  double pictures() const;
  bool knows_squares() const { return squares().is_constant(); }
  double slices_inside() const;
  DType weights() const { return weight_->dtype; }
  Kernel build(const WinogradTile& tile);

 private:
  bool plain() const;
  bool slides_along(const Loop* rows) const { return rows == lines_.points || rows == points_.points; }
  Expr squares() const;
  void collect(ValueId v, std::set<const Stmt*>& out) const;
  std::optional<int64_t> slides(const Loop& window, const Loop& points) const;
  std::string find_slides();

  Stmt loop(const char* like, const Expr& extent, Binding binding = Binding::none, int64_t factor = 0) {
    Stmt stmt = NewLoops::loop(like, extent, binding, factor);
    env_.ranges[stmt.loop->var] = {0, range_of(extent, env_).high - 1};
    if (!extent.is_constant()) env_.upper[stmt.loop->var] = extent - 1;
    return stmt;
  }
  BufferId scratch(const std::string& what, int64_t width, int64_t apart);

  // The variables of the loops around the sums, for the square of this number.
  struct Place {
    Substitution around;  // loops that do not slide
    Expr line, point;     // of the square's first result
  };
  Place place_of(const Expr& square) const;

  // Which loops a value of the left factor depends on.
  struct Varies {
    bool line = false, point = false, depth = false, channel = false;
  };
  Varies varies(ValueId v) const;
  bool is_shared(const Stmt& stmt) const;

  // Of columns: which one it is among the weights, and where its sums are in scratch.
  struct Panel {
    Expr number, sums;
  };
  // How many squares of a block are computed, its first one being this: those of a known picture all, and beyond the
  // last one that one again. Of another picture there may be so few that this would be most of the work: whole tiles.
  Expr squares_from(const Expr& first) const {
    if (squares_.is_constant() || whole_blocks()) return tile_.squares;
    return min_expr(Expr(tile_.squares), ceildiv(squares_ - first, tile_.rows) * tile_.rows);
  }
  bool whole_blocks() const { return simplify(mod(squares_, tile_.squares), env_).is_constant(0); }
  bool in_parts() const { return tile_.parts > 1; }
  int64_t part_terms() const { return all_.terms() / tile_.parts; }

  void build_weights();
  void build_zeros(int64_t columns, Body& out);
  void build_picture(const Expr& first, const Expr& part, Body& out);
  void build_products(const Expr& first, const Panel& panel, const Expr& part, Body& out);
  void build_results(const Expr& first, const Panel& panel, Body& out);
  // A value of the left factor for the point (line, point) of the 4 by 4 under a square.
  ValueId picture_value(ValueId v, int line, int point);
  void keep_near(Stmt& load) const;
  ValueId compute(ScalarOp op, ValueId a, ValueId b, Body& body) {
    return append(body, op_stmt(made_, op, DType::f32, {a, b}));
  }

  LoopProgram& program_;
  const Kernel& kernel_;
  const Target& target_;
  ContractionNest nest_;
  WinogradSlide lines_, points_;
  const Loop *channels_ = nullptr, *depth_ = nullptr;  // depth: the window's third dimension, where it has one
  const Loop* pictures_ = nullptr;                     // where it is not known how many there are
  Expr picture_number_;                                // of an item
  const Stmt* weight_ = nullptr;
  std::map<ValueId, const Stmt*> defined_;  // outside of the sums and in them

  WinogradTile tile_;
  int64_t width_ = 0;  // of a panel of columns
  WinogradShape all_;
  Expr squares_;  // of an item's picture, or of all
  RangeEnv env_;
  Kernel made_;
  BufferId weights_ = no_buffer, picture_ = no_buffer, sums_ = no_buffer;
  // Of build_picture.
  struct Copied {
    Place place;
    std::map<std::tuple<ValueId, int, int>, ValueId> values;
    Body *square = nullptr, *depth = nullptr, *channel = nullptr;
    Expr depth_at, channel_at;
  } copied_;
};

}  // namespace kiln::loops
