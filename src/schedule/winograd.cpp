// Convolutions with a window of 3 by 3 points by Winograd's products, F(2x2, 3x3): a square of 2 by 2 results takes 16
// multiplications instead of 36.
//
//   U = G g G'    of the window g of each pair of channels: 4 by 4 places. Once, when weights are loaded
//   V = B' d B    of the 4 by 4 points d of the picture under a square
//   M[p] = sum over channels of V[p] * U[p]         16 products of squares by columns
//   Y = A' M A    the 2 by 2 results
//
// The kernel is one still. Its items are blocks of squares, for all columns or a part of them:
//
//   for block of squares @item { for group of columns @item {
//     for square @kept { for channel @lane { 16 loads; V[p, square, channel] } }                           scratch
//     for panel of columns @serial {
//       for p in 16 { for square @unroll(R) { for column @lane { sum over channels; M[p, square, column] } } }
//       for square { for column @lane { Y from 16 of M; for each of the 4 what followed the sum } } } } }
//
// A window that has a third dimension moves along the two innermost ones; what lies in the third is terms of the
// products as channels are, `depth` times as many. Where the terms are too many for the cache, V is made of a part of
// them at a time, and what each part's products add to M waits there for all columns of the item:
//
//     M = 0
//     for part @serial { V of the part; for panel @serial { M += products } }
//     for panel @serial { Y }
#include <cmath>

#include "schedule/factors.h"
#include "schedule/least_code.h"
#include "schedule/template.h"
#include "schedule/winograd_kernel.h"

namespace kiln::loops {
namespace {

constexpr int64_t least_winograd_channels = 32;
constexpr double worth_it = 0.9;  // of the cost of the sums as they are

}  // namespace

// Nothing but statements around the sums, the loops that the contraction names, and stores behind the sums.
bool Winograd::plain() const {
  bool fine = !raises(kernel_.body) && !nest_.whole_rows();
  size_t loops = 0;
  for_each_stmt(kernel_.body, [&](const Stmt& stmt) {
    fine &= stmt.kind != StmtKind::random && (stmt.kind != StmtKind::store || stmt.mode == StoreMode::plain);
    loops += stmt.loop != nullptr;
  });
  const Body& columns = nest_.innermost_column().body;
  size_t stores = 0, all = 0;
  for (const Stmt& stmt : columns) stores += stmt.kind == StmtKind::store;
  for_each_stmt(kernel_.body, [&](const Stmt& stmt) { all += stmt.kind == StmtKind::store; });
  return fine && kernel_.body.size() == 1 && stores == all && loops == nest_.rows.size() + 1 + nest_.sums.size();
}

void Winograd::collect(ValueId v, std::set<const Stmt*>& out) const {
  const auto found = defined_.find(v);
  if (found == defined_.end() || !out.insert(found->second).second) return;
  for (ValueId arg : found->second->args) collect(arg, out);
  if (found->second->mask != no_value) collect(found->second->mask, out);
}

// What the left factor is made of depends on the two loops by points + apart * window alone: gives `apart`.
std::optional<int64_t> Winograd::slides(const Loop& window, const Loop& points) const {
  std::set<const Stmt*> parts;
  collect(kernel_.contraction->left, parts);
  std::vector<Expr> all;
  for (const Stmt* stmt : parts) {
    all.push_back(stmt->expr);
    all.insert(all.end(), stmt->index.begin(), stmt->index.end());
  }
  const auto first = std::find_if(all.begin(), all.end(), [&](const Expr& e) { return mentions(e, window.var); });
  if (first == all.end()) return std::nullopt;
  const auto factor = [&](const Loop& loop) {
    const std::optional<Affine> along = affine_in(*first, loop.var);
    return along && along->coefficient.is_constant() ? along->coefficient.value() : 0;
  };
  const int64_t by_point = factor(points), by_window = factor(window);
  if (by_point == 0 || by_window % by_point != 0 || by_window / by_point < 1) return std::nullopt;
  const int64_t apart = by_window / by_point;
  const Substitution map{{points.var, Expr::symbol(points.var) - Expr::symbol(window.var) * apart}};
  const bool fine =
      std::none_of(all.begin(), all.end(), [&](const Expr& e) { return mentions(substitute(e, map), window.var); });
  return fine ? std::optional(apart) : std::nullopt;
}

// The two innermost dimensions that a window of three points moves along.
std::string Winograd::find_slides() {
  std::vector<const Loop*> windows;
  for (const ContractionNest::Sum& sum : nest_.sums)
    if (sum.stmt->loop->extent.is_constant(3)) windows.push_back(sum.stmt->loop.get());
  if (windows.size() < 2) return "its window is not 3 by 3";
  for (auto rows = nest_.rows.rbegin(); rows != nest_.rows.rend() && !lines_.points; ++rows)
    for (const Loop* window : windows) {
      const std::optional<int64_t> apart = slides(*window, **rows);
      if (!apart || window == points_.window) continue;
      WinogradSlide& slide = points_.points ? lines_ : points_;
      if (slide.points) return "its window does not move point by point";
      slide = {*rows, window, *apart};
    }
  if (!lines_.points || lines_.points == points_.points) return "its window does not move point by point";
  return "";
}

std::string Winograd::refuses() {
  const size_t sums = nest_.sums.size();
  if (sums < 3 || sums > 4 || nest_.rows.size() < 2 || nest_.columns.size() != 1 || !nest_.batch.empty())
    return "it is no window over lines and points";
  for_each_stmt(kernel_.body, [&](const Stmt& stmt) {
    if (!stmt.loop && !stmt.results.empty()) defined_[stmt.results[0]] = &stmt;
  });
  if (const std::string why = find_slides(); !why.empty()) return why;
  const Loop& columns = nest_.innermost_column();
  bool known = columns.extent.is_constant();
  for (const ContractionNest::Sum& sum : nest_.sums) {
    const Loop& loop = *sum.stmt->loop;
    if (loop.reduce_dtype != DType::f32) return "its sums are not of f32";
    known &= loop.extent.is_constant();
    if (&loop == lines_.window || &loop == points_.window) continue;
    depth_ = channels_;  // the innermost one is the channels
    channels_ = &loop;
  }
  // Where it is not known how many pictures there are, an item is a part of one of them. Its lines and points may be
  // any number.
  const Loop* outermost = nest_.rows.front();
  if (!outermost->extent.is_constant() && outermost != lines_.points) pictures_ = outermost;
  for (const Loop* loop : nest_.rows) known &= loop == pictures_ || slides_along(loop) || loop->extent.is_constant();
  if (!known) return "sizes that are not known";
  if (channels_->extent.value() < least_winograd_channels || columns.extent.value() < least_winograd_channels ||
      columns.extent.value() % target_.lanes != 0)
    return "too few channels";
  if (!plain()) return "it is more than sums and what follows them";
  weight_ = constant_right_factor(kernel_, program_);
  const bool as_it_is = weight_ && factor_value(nest_, kernel_.contraction->right, false).load == weight_;
  if (!as_it_is || (weight_->dtype != DType::f32 && weight_->dtype != DType::f16))
    return "its weights are not a constant of f32 or f16";
  std::set<const Stmt*> parts;
  collect(kernel_.contraction->left, parts);
  int loads = 0;
  for (const Stmt* stmt : parts) loads += stmt->kind == StmtKind::load;
  if (loads != 1 || kernel_.value_types[static_cast<size_t>(kernel_.contraction->left)] != DType::f32)
    return "its picture is not read as it is";
  return "";
}

Expr Winograd::squares() const {
  Expr all = lines_.squares() * points_.squares();
  for (const Loop* loop : nest_.rows)
    if (!slides_along(loop) && loop != pictures_) all = all * loop->extent;
  return simplify(all, program_.ranges());
}

WinogradShape Winograd::shape() const {
  const auto guess = static_cast<int64_t>(std::max(1.0, estimate(squares(), program_)));
  return {guess, channels_->extent.value(), nest_.innermost_column().extent.value(),
          depth_ ? depth_->extent.value() : 1};
}

double Winograd::pictures() const { return pictures_ ? std::max(1.0, estimate(pictures_->extent, program_)) : 1; }

// Of the slices that the window meets in its third dimension, the share that is not padding: a plain product leaves the
// others out.
double Winograd::slices_inside() const {
  if (!depth_) return 1;
  std::set<const Stmt*> parts;
  collect(kernel_.contraction->left, parts);
  const Stmt& load =
      **std::find_if(parts.begin(), parts.end(), [](const Stmt* s) { return s->kind == StmtKind::load; });
  for (size_t d = 0; d < load.index.size(); ++d)
    for (const Loop* rows : nest_.rows) {
      std::set<std::string> names;
      collect_symbols(load.index[d], names);
      if (names != std::set<std::string>{depth_->var, rows->var}) continue;
      const Expr& size = program_.buffers[static_cast<size_t>(load.buffer)].sizes[d];
      if (!size.is_constant()) continue;
      double inside = 0;
      for (int64_t row = 0; row < rows->extent.value(); ++row)
        for (int64_t slice = 0; slice < depth_->extent.value(); ++slice) {
          const int64_t at = evaluate(load.index[d], {{rows->var, row}, {depth_->var, slice}});
          inside += at >= 0 && at < size.value();
        }
      return inside / static_cast<double>(rows->extent.value() * depth_->extent.value());
    }
  return 1;
}

// ---- The pass
// -----------------------------------------------------------------------------------------------------------

namespace {

// What the sums as they are would take.
std::optional<double> direct_cost(const Kernel& kernel, const LoopProgram& program, const Target& target) {
  for (const Template* way : templates())
    if (way->refuses(kernel, program, target).empty())
      return cheapest_with_least_code(way->candidates(kernel, program, target)).cost;
  return std::nullopt;
}

// Places of f32 are 16/9 of weights of f32, but nearly four times those of f16, where they would be most of what the
// program has in memory: of weights of f16 so many kernels take them, the first ones of a program, whose pictures are
// large and whose weights are few, as together add less than all of the program's weights are.
class RoomForPlaces {
 public:
  explicit RoomForPlaces(const LoopProgram& program) {
    for (const Buffer& buffer : program.buffers)
      if (buffer.role == BufferRole::constant) left_ += estimate(buffer_bytes(buffer), program);
  }
  bool take(DType weights, const WinogradShape& shape) {
    if (weights == DType::f32) return true;
    const double added = static_cast<double>(shape.columns * shape.terms()) * (winograd_places * 4 - 9 * 2);
    if (added > left_) return false;
    left_ -= added;
    return true;
  }

 private:
  double left_ = 0;  // bytes
};

bool rewrite(LoopProgram& program, Kernel& kernel, const Target& target, RoomForPlaces& room, Log& log) {
  const auto no = [&](const std::string& why) {
    log.add([&] { return Decision{"no Winograd products for", kernel.name, "", "", why, false, ""}; });
    return false;
  };
  Winograd winograd(program, kernel, target);
  if (const std::string why = winograd.refuses(); !why.empty()) return no(why);
  std::vector<WinogradTile> all = winograd_candidates(winograd.shape(), target);
  // A block that ends where a picture does has whole tiles: so does each.
  if (!winograd.knows_squares()) std::erase_if(all, [](const WinogradTile& t) { return t.squares % t.rows != 0; });
  const std::optional<double> whole = direct_cost(kernel, program, target);
  if (all.empty() || !whole) return no("no block of it fits the cache");
  const double direct = *whole / winograd.pictures() * winograd.slices_inside();
  const WinogradTile tile = cheapest_with_least_code(all);
  if (tile.work > worth_it * direct)
    return no(str("its sums as they are take ", std::llround(direct / 1000), "k cycles, these ",
                  std::llround(tile.work / 1000), "k"));
  if (!room.take(winograd.weights(), winograd.shape())) return no("its places would be more than the weights");
  log.add([&] {
    return Decision{
        "Winograd products for",
        kernel.name,
        "",
        "",
        str("blocks of ", tile.squares, " squares", tile.parts > 1 ? str(" and 1/", tile.parts, " of the terms") : "",
            tile.groups > 1 ? str(" and 1/", tile.groups) : "", tile.groups > 1 ? " of the columns" : "", "; tiles of ",
            tile.rows, " by ", tile.vectors, " vectors; ", std::llround(tile.work / 1000), "k cycles instead of ",
            std::llround(direct / 1000), "k"),
        true,
        ""};
  });
  Kernel made = winograd.build(tile);
  kernel = std::move(made);
  return true;
}

}  // namespace

bool use_winograd(LoopProgram& program, const Target& target, Log& log) {
  if (target.is_gpu() || target.lanes == 1) return false;
  bool changed = false;
  RoomForPlaces room(program);
  const std::set<BufferId> given = derived_from_inputs(program);
  for_each_item(program.block, [&](Item& item) {
    auto* kernel = std::get_if<Kernel>(&item.what);
    if (!kernel || !kernel->contraction || kernel->schedule) return;
    const std::set<BufferId> reads = accesses(item).reads;
    // Their places take longer to compute than is won, where it is done in each call.
    if (std::any_of(reads.begin(), reads.end(), [&](BufferId id) { return given.contains(id); })) {
      log.add([&] {
        return Decision{
            "no Winograd products for", kernel->name, "", "", "its weights are given with each call", false, ""};
      });
      return;
    }
    changed |= rewrite(program, *kernel, target, room, log);
  });
  return changed;
}

}  // namespace kiln::loops
