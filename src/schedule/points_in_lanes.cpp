// A window that gives few channels (three colours, one depth, groups of three) leaves most lanes empty where channels
// run in them, as elsewhere. Where the points of a line of results are neighbours in memory they run in lanes instead,
// and the channels are the rows of a product whose weights are numbers:
//
//   sum over c, y, x of w[o, c, y, x] * filled[c, i*S + y, j + x]        rows o, columns j
//
// The picture is copied once with zeros around it, so that no term is masked; under a window that moves by several
// points each of these has lines of its own, [..., point % S, point // S], so that neighbours stay neighbours.
#include "loop_passes/rewrite.h"
#include "loops/walk.h"
#include "schedule/new_loops.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

constexpr int64_t most_made = 7;  // of the result, in a group
constexpr double least_uses = 4;  // of an element of the copy
// Of the window: a copy that turns the picture, whose points are no neighbours, takes as long as some of them.
constexpr int64_t least_places_turned = 16;

// How an index of the picture goes along points and the window: point * step + place * apart - before.
struct SlidingAxis {
  size_t dimension = 0;
  const Loop *points = nullptr, *window = nullptr;
  int64_t step = 1, apart = 1, before = 0;
  int64_t size() const { return (points->extent.value() - 1) * step + (window->extent.value() - 1) * apart + 1; }
};

class PointsInLanes {
 public:
  PointsInLanes(LoopProgram& program, Kernel& kernel, const Target& target)
      : program_(program), kernel_(kernel), target_(target), env_(kernel_ranges(kernel, program)) {}

  // The kernel that copies the picture; nothing: this is no such window, and nothing has changed.
  std::optional<Kernel> run() {
    if (kernel_.schedule || !find_loops() || !find_factors() || !find_channels() || !find_axes() || !is_worth_it())
      return {};
    Kernel copy = copied_picture();
    read_copy();
    order_loops();
    return copy;
  }

 private:
  const Buffer& buffer(BufferId id) const { return program_.buffers[static_cast<size_t>(id)]; }

  // Parallel loops in which nothing else stands, around one nest of sums.
  bool find_loops() {
    Body* body = &kernel_.body;
    while (body->size() == 1 && body->front().loop && body->front().loop->role == AxisRole::parallel) {
      chain_.push_back(body->front().loop.get());
      body = &body->front().loop->body;
    }
    if (chain_.size() < 2) return false;
    inner_ = body;
    while (true) {
      Loop* sum = nullptr;
      for (Stmt& stmt : *body) {
        if (stmt.loop && sum) return false;
        if (stmt.loop) sum = stmt.loop.get();
        if (stmt.kind == StmtKind::check_index || stmt.kind == StmtKind::raise_if || stmt.kind == StmtKind::random)
          return false;
      }
      if (!sum) break;
      if (sum->role != AxisRole::reduce || sum->reduce != ReduceOp::sum || sum->reduce_dtype != DType::f32 ||
          !sum->extent.is_constant())
        return false;
      sums_.push_back(sum);
      body = &sum->body;
    }
    return !sums_.empty() && summed_product(*sums_.back());
  }

  const Loop* mentioned(const Expr& e, const std::vector<Loop*>& loops, bool& several) const {
    const Loop* found = nullptr;
    for (const Loop* loop : loops) {
      if (!mentions(e, loop->var)) continue;
      several |= found != nullptr;
      found = loop;
    }
    return found;
  }

  // Two loads of f32, one of which a window slides over.
  bool find_factors() {
    for (Loop* sum : sums_)
      for (Stmt& stmt : sum->body) {
        if (stmt.kind != StmtKind::load) continue;
        bool several = false;
        const bool slides = std::any_of(stmt.index.begin(), stmt.index.end(), [&](const Expr& e) {
          return mentioned(e, chain_, several) && mentioned(e, sums_, several);
        });
        Stmt*& to = slides ? picture_ : weight_;
        if (to || stmt.dtype != DType::f32) return false;
        to = &stmt;
      }
    const Stmt* product = summed_product(*sums_.back());
    const auto is_factor = [&](const Stmt* load) {
      return load && (product->args[0] == load->results[0] || product->args[1] == load->results[0]);
    };
    return is_factor(picture_) && is_factor(weight_) && weight_->mask == no_value &&
           buffer(picture_->buffer).role != BufferRole::scratch;
  }

  // The loop that the weights vary with, and what its variable is divided by where the picture is read in groups.
  bool find_channels() {
    for (Loop* loop : chain_) {
      const bool varies = std::any_of(weight_->index.begin(), weight_->index.end(),
                                      [&](const Expr& e) { return mentions(e, loop->var); });
      if (varies && channels_) return false;
      if (varies) channels_ = loop;
    }
    group_ = 1;
    if (!channels_) return true;  // it makes one
    if (!channels_->extent.is_constant()) return false;
    std::set<int64_t> divisors;
    for (const Expr& e : picture_->index) divisors_of(e, divisors);
    if (divisors.size() > 1) return false;
    const int64_t all = channels_->extent.value();
    group_ = divisors.empty() ? all : *divisors.begin();
    return (group_ > 1 || all == 1) && group_ <= most_made && all % group_ == 0;
  }
  void divisors_of(const Expr& e, std::set<int64_t>& found) const {
    if (!mentions(e, channels_->var)) return;
    if (e.op() == ExprOp::floordiv && e.args()[0].is_symbol() && e.args()[1].is_constant()) {
      found.insert(e.args()[1].value());
      return;
    }
    if (e.op() == ExprOp::symbol) found.insert(1);  // a channel of its own each
    for (const Expr& arg : e.args()) divisors_of(arg, found);
  }

  // Each axis of the window goes along points of its own; those of one are neighbours where they are stored.
  bool find_axes() {
    const Buffer& source = buffer(picture_->buffer);
    for (size_t d = 0; d < picture_->index.size(); ++d) {
      const Expr& e = picture_->index[d];
      bool several = false;
      const Loop *points = mentioned(e, chain_, several), *window = mentioned(e, sums_, several);
      if (!points || !window || points == channels_) continue;
      const auto place = affine_in(e, window->var);
      if (!source.sizes[d].is_constant() || !points->extent.is_constant()) return false;
      if (several || !place || !place->coefficient.is_constant() || place->coefficient.value() < 1) return false;
      const auto point = affine_in(place->rest, points->var);
      if (!point || !point->coefficient.is_constant() || point->coefficient.value() < 1 || !point->rest.is_constant())
        return false;
      axes_.push_back(
          {d, points, window, point->coefficient.value(), place->coefficient.value(), -point->rest.value()});
    }
    for (const SlidingAxis& axis : axes_) {
      for (const SlidingAxis& other : axes_)
        if (&axis != &other && (axis.points == other.points || axis.window == other.window)) return false;
    }
    for (const Stmt& stmt : *inner_) {
      if (stmt.kind != StmtKind::store) continue;
      const Expr address = address_of(stmt, program_, env_);
      const auto found = std::find_if(axes_.begin(), axes_.end(), [&](const SlidingAxis& axis) {
        const auto along = affine_in(address, axis.points->var);
        return along && along->coefficient.is_constant(1);
      });
      if (stmt.mode != StoreMode::plain || found == axes_.end() || (along_ && along_ != &*found)) return false;
      along_ = &*found;
    }
    if (!along_ || along_->points->extent.value() < target_.lanes || !only_bounds(picture_->mask)) return false;
    const bool done =
        picture_->mask == no_value && chain_.back() == along_->points && chain_[chain_.size() - 2] == channels_;
    return !done;
  }

  const Stmt* definition(ValueId v) const {
    const Stmt* found = nullptr;
    for_each_stmt(kernel_.body, [&](const Stmt& stmt) {
      if (stmt.results == std::vector<ValueId>{v}) found = &stmt;
    });
    return found;
  }

  // Whether a mask says no more than that the picture ends.
  bool only_bounds(ValueId mask) const {
    if (mask == no_value) return true;
    const Stmt* stmt = definition(mask);
    if (!stmt || stmt->kind != StmtKind::op) return false;
    if (stmt->op == ScalarOp::logical_and) return only_bounds(stmt->args[0]) && only_bounds(stmt->args[1]);
    if (stmt->op != ScalarOp::ge && stmt->op != ScalarOp::lt) return false;
    const Stmt *place = definition(stmt->args[0]), *limit = definition(stmt->args[1]);
    if (!place || !limit || place->kind != StmtKind::index_value || limit->kind != StmtKind::index_value) return false;
    for (const SlidingAxis& axis : axes_)
      if (place->expr == picture_->index[axis.dimension] &&
          limit->expr == (stmt->op == ScalarOp::ge ? Expr(0) : buffer(picture_->buffer).sizes[axis.dimension]))
        return true;
    return false;
  }

  bool is_worth_it() const {
    double products = 1, copied = 1;
    for (const Loop* loop : chain_) products *= estimate(loop->extent, program_);
    for (const Loop* sum : sums_) products *= static_cast<double>(sum->extent.value());
    for (const Expr& size : copy_sizes()) copied *= estimate(size, program_);
    int64_t places = 1;
    for (const SlidingAxis& axis : axes_) places *= axis.window->extent.value();
    const bool turned = !buffer(picture_->buffer).strides[along_->dimension].is_constant(1);
    return products >= least_uses * copied && copied > 0 && (!turned || places >= least_places_turned);
  }

  const SlidingAxis* axis_of(size_t dimension) const {
    for (const SlidingAxis& axis : axes_)
      if (axis.dimension == dimension) return &axis;
    return nullptr;
  }

  // The picture's dimensions but the points' in the order of the copy: what lies under a line of results is near by.
  std::vector<size_t> order() const {
    std::vector<size_t> pictures, lines, channels;
    for (size_t d = 0; d < picture_->index.size(); ++d) {
      bool several = false;
      const Expr& e = picture_->index[d];
      const bool channel = mentioned(e, sums_, several) || (channels_ && mentions(e, channels_->var));
      if (axis_of(d) != along_) (axis_of(d) ? lines : channel ? channels : pictures).push_back(d);
    }
    pictures.insert(pictures.end(), lines.begin(), lines.end());
    pictures.insert(pictures.end(), channels.begin(), channels.end());
    return pictures;
  }

  // [pictures, lines, channels, which of a step, point]
  std::vector<Expr> copy_sizes() const {
    std::vector<Expr> sizes;
    for (const size_t d : order()) {
      const SlidingAxis* axis = axis_of(d);
      sizes.push_back(axis ? Expr(axis->size()) : buffer(picture_->buffer).sizes[d]);
    }
    if (along_->step > 1) sizes.emplace_back(along_->step);
    sizes.emplace_back((along_->size() + along_->step - 1) / along_->step);
    return sizes;
  }

  static ValueId compared(Kernel& kernel, ScalarOp op, const Expr& a, const Expr& b, Body& body) {
    const ValueId left = append(body, index_stmt(kernel, DType::i64, a)),
                  right = append(body, index_stmt(kernel, DType::i64, b));
    return append(body, op_stmt(kernel, op, DType::boolean, {left, right}));
  }

  Kernel copied_picture() {
    const Buffer source = buffer(picture_->buffer);
    Buffer copy;
    copy.name = source.name + "_filled";
    copy.dtype = source.dtype;
    copy.role = BufferRole::temp;
    copy.sizes = copy_sizes();
    copy.strides.assign(copy.sizes.size(), Expr(1));
    for (size_t d = copy.sizes.size(); d-- > 1;) copy.strides[d - 1] = copy.strides[d] * copy.sizes[d];
    const std::vector<Expr> sizes = copy.sizes, index = nest_index(sizes.size());
    copy_ = program_.add_buffer(std::move(copy));
    Kernel made;
    made.name = str("copy_", buffer(copy_).name);
    made.op_names = {"layout"};
    made.origins = kernel_.origins;
    Body body;
    std::vector<Expr> from(source.sizes.size());
    const std::vector<size_t> ordered = order();
    for (size_t i = 0; i < ordered.size(); ++i) from[ordered[i]] = index[i];
    from[along_->dimension] = along_->step == 1 ? index.back() : index.back() * along_->step + index[index.size() - 2];
    ValueId there = no_value;
    for (size_t d = 0; d < source.sizes.size(); ++d) {
      const SlidingAxis* axis = axis_of(d);
      if (!axis) continue;
      from[d] = from[d] - Expr(axis->before);
      const int64_t last = (axis->size() + axis->step - 1) / axis->step * axis->step - axis->before;
      const auto require = [&](ScalarOp op, const Expr& limit) {
        const ValueId holds = compared(made, op, from[d], limit, body);
        there = there == no_value ? holds
                                  : append(body, op_stmt(made, ScalarOp::logical_and, DType::boolean, {there, holds}));
      };
      if (axis->before > 0) require(ScalarOp::ge, Expr(0));
      if (last > source.sizes[d].value()) require(ScalarOp::lt, source.sizes[d]);
    }
    const ValueId value = append(body, load_stmt(made, source.dtype, picture_->buffer, from, there));
    body.push_back(store_stmt(source.dtype, copy_, index, value));
    made.body = nest_of(sizes, std::move(body));
    return made;
  }

  void read_copy() {
    std::vector<Expr> at;
    for (const size_t d : order())
      at.push_back(axis_of(d) ? picture_->index[d] + Expr(axis_of(d)->before) : picture_->index[d]);
    const Expr place = Expr::symbol(along_->window->var) * along_->apart;
    if (along_->step > 1) at.push_back(mod(place, Expr(along_->step)));
    at.push_back(Expr::symbol(along_->points->var) + (along_->step > 1 ? floordiv(place, Expr(along_->step)) : place));
    picture_->buffer = copy_;
    picture_->index = std::move(at);
    picture_->mask = no_value;
    drop_unused();
  }

  // What only the mask was made of.
  void drop_unused() {
    for (bool again = true; again;) {
      std::set<ValueId> used;
      for (const NamedValue& named : kernel_.named) used.insert({named.value, named.mask});
      for_each_stmt(kernel_.body, [&](const Stmt& stmt) {
        used.insert(stmt.args.begin(), stmt.args.end());
        used.insert(stmt.mask);
        if (stmt.loop) used.insert(stmt.loop->yields.begin(), stmt.loop->yields.end()), used.insert(stmt.loop->only);
      });
      again = false;
      for (Loop* sum : sums_)
        again |= std::erase_if(sum->body, [&](const Stmt& stmt) {
                   return (stmt.kind == StmtKind::op || stmt.kind == StmtKind::index_value ||
                           stmt.kind == StmtKind::constant) &&
                          !used.contains(stmt.results[0]);
                 }) > 0;
    }
  }

  // All others, the groups, other points, channels, points of a line.
  void order_loops() {
    struct Parallel {
      std::string var;
      Expr extent;
    };
    std::vector<Parallel> order;
    const std::set<std::string> used = variables_of(kernel_);
    const std::string channel = channels_ ? channels_->var : unused_name(used, "i"), points = along_->points->var;
    const int64_t all = channels_ ? channels_->extent.value() : 1;
    const Expr line = along_->points->extent;
    const std::string group = unused_name(used, "g");
    for (const Loop* loop : chain_) {
      if (loop == channels_ && group_ < all) order.push_back({group, Expr(all / group_)});
      if (loop != channels_ && loop != along_->points) order.push_back({loop->var, loop->extent});
    }
    order.push_back({channel, Expr(group_)});
    order.push_back({points, line});
    if (group_ < all) {
      env_.ranges[group] = {0, all / group_ - 1};
      env_.ranges[channel] = {0, group_ - 1};
      const Substitution map{{channel, Expr::symbol(group) * group_ + Expr::symbol(channel)}};
      for_each_stmt(*inner_, [&](Stmt& stmt) {
        for (Expr& e : stmt.index) e = simplify(substitute(e, map), env_);
        stmt.expr = simplify(substitute(stmt.expr, map), env_);
      });
      rename_in_names(kernel_, map);
    }
    Body nest = std::move(*inner_);
    for (size_t i = order.size(); i-- > 0;) {
      Stmt loop = loop_stmt(order[i].var, order[i].extent);
      loop.loop->body = std::move(nest);
      nest.clear();
      nest.push_back(std::move(loop));
    }
    kernel_.body = std::move(nest);
  }

  LoopProgram& program_;
  Kernel& kernel_;
  const Target& target_;
  RangeEnv env_;
  std::vector<Loop*> chain_, sums_;  // outermost first
  Body* inner_ = nullptr;
  Stmt *picture_ = nullptr, *weight_ = nullptr;
  const Loop* channels_ = nullptr;
  int64_t group_ = 0;
  std::vector<SlidingAxis> axes_;
  const SlidingAxis* along_ = nullptr;
  BufferId copy_ = no_buffer;
};

bool points_in_lanes_of(Block& block, LoopProgram& program, const Target& target, Log& log) {
  bool changed = false;
  for (size_t i = 0; i < block.size(); ++i) {
    for_each_block(block[i], [&](Block& nested) { changed |= points_in_lanes_of(nested, program, target, log); });
    auto* kernel = std::get_if<Kernel>(&block[i].what);
    if (!kernel) continue;
    auto copy = PointsInLanes(program, *kernel, target).run();
    if (!copy) continue;
    log.add([&] {
      return Decision{"run the points in lanes of", kernel->name, "", "", "it makes few channels", true, ""};
    });
    block.insert(block.begin() + static_cast<std::ptrdiff_t>(i++), Item{std::move(*copy)});
    changed = true;
  }
  return changed;
}

}  // namespace

bool points_in_lanes(LoopProgram& program, const Target& target, Log& log) {
  if (target.is_gpu() || target.lanes == 1) return false;
  return points_in_lanes_of(program.block, program, target, log);
}

}  // namespace kiln::loops
