// A window over few channels of bf16, for a CPU that multiplies pairs: a model's first convolution, over three colours.
// The picture is copied with its edges filled up with zeros, and with a channel of zeros beside an odd number of them.
// Then what lies under a line of the window is one line of memory, of an even number of terms, and no term is masked:
//
//   sum over y, x, c of picture[c, i*S + y - P, j*S + x - P] masked * w[o, c, y, x]
//
// is the sum over y and t of copy[i*S + y, j*S*C + t] * line[y, t, o], a product whose terms come in pairs. Zeros meet
// zeros only: a NaN of the picture shows where it did.
#include "loop_passes/rewrite.h"
#include "loops/walk.h"
#include "schedule/contractions.h"
#include "schedule/new_loops.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

constexpr int64_t fewest_channels = 2, most_channels = 8;  // of one the zeros would be half of it; more are a product's
constexpr double least_products = 300;                     // of an element of the copy, that are worth it

// How an axis of the picture goes along points and window: point * step + place - before.
struct Axis {
  size_t dimension = 0;
  const Loop *points = nullptr, *window = nullptr;
  int64_t step = 1, before = 0;
  int64_t size() const { return (points->extent.value() - 1) * step + window->extent.value(); }
};

class WindowFiller {
 public:
  WindowFiller(LoopProgram& program, Kernel& kernel)
      : program_(program), kernel_(kernel), nest_(contraction_nest(kernel)) {}

  // The kernel that copies the picture; nothing: this is no such window, and nothing has changed.
  std::optional<Kernel> run() {
    if (nest_.sums.size() != 3 || nest_.columns.size() != 1 || !nest_.innermost_column().extent.is_constant())
      return {};
    for_each_stmt(kernel_.body, [&](const Stmt& stmt) {
      for (ValueId v : stmt.results) made_[v] = &stmt;
    });
    picture_ = loaded(kernel_.contraction->left);
    weight_ = loaded(kernel_.contraction->right);
    if (!picture_ || !weight_ || weight_->mask != no_value || !find_axes() || !is_weight() ||
        !only_bounds(picture_->mask))
      return {};
    const int64_t count = channels_->extent.value();
    if (count < fewest_channels || count > most_channels) return {};
    filled_ = (count + 1) / 2 * 2;
    double products = static_cast<double>(nest_.innermost_column().extent.value() * count) *
                      static_cast<double>(lines_.window->extent.value() * along_.window->extent.value());
    for (const auto* part : {&nest_.batch, &nest_.rows})
      for (const Loop* loop : *part) products *= estimate(loop->extent, program_);
    double copied = static_cast<double>(lines_.size() * along_.size() * filled_);
    for (size_t d = 0; d < picture_->index.size(); ++d)
      if (picture_->index[d].is_symbol() && d != channel_dimension_)
        copied *= estimate(buffer(picture_->buffer).sizes[d], program_);
    if (products < least_products * copied || along_.window->extent.value() < 2) return {};
    const BufferId line = lines_of_weight();
    Kernel copy = copied_picture();
    sum_over_lines(line);
    return copy;
  }

 private:
  const Buffer& buffer(BufferId id) const { return program_.buffers[static_cast<size_t>(id)]; }

  // A factor that is a number of bf16 as it lies in memory.
  const Stmt* loaded(ValueId factor) const {
    const Stmt* cast = made_.at(factor);
    if (cast->kind != StmtKind::op || cast->op != ScalarOp::cast) return nullptr;
    const Stmt* load = made_.at(cast->args[0]);
    return load->kind == StmtKind::load && load->dtype == DType::bf16 ? load : nullptr;
  }

  bool is_weight() const {
    const Buffer& source = buffer(weight_->buffer);
    std::set<std::string> symbols, known = {nest_.innermost_column().var};
    for (const ContractionNest::Sum& sum : nest_.sums) known.insert(sum.stmt->loop->var);
    for (const Expr& e : weight_->index) collect_symbols(e, symbols);
    return ((source.role == BufferRole::constant && !source.mutated) || source.role == BufferRole::derived) &&
           std::includes(known.begin(), known.end(), symbols.begin(), symbols.end());
  }

  // Which sum is which: one numbers channels, two go along lines and points; all else is a number or a loop around.
  bool find_axes() {
    const Buffer& source = buffer(picture_->buffer);
    if (source.role == BufferRole::scratch) return false;
    std::vector<Axis> axes;
    for (size_t d = 0; d < picture_->index.size(); ++d) {
      const Expr& e = picture_->index[d];
      const Loop* window = nullptr;
      for (const ContractionNest::Sum& sum : nest_.sums) {
        if (!sum.stmt->loop->extent.is_constant()) return false;
        if (!mentions(e, sum.stmt->loop->var)) continue;
        if (window) return false;
        window = sum.stmt->loop.get();
      }
      if (!window) {
        if (!e.is_constant() && !(e.is_symbol() && source.sizes[d].is_constant())) return false;
        continue;
      }
      if (e == Expr::symbol(window->var)) {
        if (channels_) return false;
        channels_ = window, channel_dimension_ = d;
        continue;
      }
      const auto along = affine_in(e, window->var);
      if (!along || !along->coefficient.is_constant(1) || !source.sizes[d].is_constant()) return false;
      Axis axis{d, nullptr, window};
      for (const Loop* loop : nest_.rows) {
        if (!mentions(along->rest, loop->var)) continue;
        const auto point = affine_in(along->rest, loop->var);
        if (axis.points || !point || !point->coefficient.is_constant() || point->coefficient.value() < 1 ||
            !point->rest.is_constant() || !loop->extent.is_constant())
          return false;
        axis.points = loop, axis.step = point->coefficient.value(), axis.before = -point->rest.value();
      }
      if (!axis.points) return false;
      axes.push_back(axis);
    }
    if (axes.size() != 2 || !channels_ || axes[0].window == axes[1].window) return false;
    // Points that are neighbours are neighbours in the copy.
    const bool turned = axes[0].points == &nest_.innermost_row();
    lines_ = axes[turned ? 1 : 0], along_ = axes[turned ? 0 : 1];
    return lines_.points != along_.points;
  }

  // Whether a mask says no more than that the picture ends.
  bool only_bounds(ValueId mask) const {
    if (mask == no_value) return true;
    const Stmt* stmt = made_.at(mask);
    if (stmt->kind != StmtKind::op) return false;
    if (stmt->op == ScalarOp::logical_and) return only_bounds(stmt->args[0]) && only_bounds(stmt->args[1]);
    if (stmt->op != ScalarOp::ge && stmt->op != ScalarOp::lt) return false;
    const Stmt *place = made_.at(stmt->args[0]), *limit = made_.at(stmt->args[1]);
    if (place->kind != StmtKind::index_value || limit->kind != StmtKind::index_value) return false;
    for (const Axis* axis : {&lines_, &along_})
      if (place->expr == picture_->index[axis->dimension] &&
          limit->expr == (stmt->op == ScalarOp::ge ? Expr(0) : buffer(picture_->buffer).sizes[axis->dimension]))
        return true;
    return false;
  }

  // [line, place * channels + channel, column]
  BufferId lines_of_weight() {
    const Loop& columns = nest_.innermost_column();
    Buffer line;
    line.name = buffer(weight_->buffer).name + "_lines";
    line.dtype = DType::bf16;
    line.role = BufferRole::derived;
    line.sizes = {lines_.window->extent, Expr(along_.window->extent.value() * filled_), columns.extent};
    line.strides = {line.sizes[1] * line.sizes[2], line.sizes[2], Expr(1)};
    const std::vector<Expr> sizes = line.sizes, index = nest_index(3);
    const BufferId to = program_.add_buffer(std::move(line));
    Kernel made;
    made.name = str("lines_", buffer(weight_->buffer).name);
    made.op_names = {"layout"};
    made.origins = kernel_.origins;
    const Expr channel = mod(index[1], Expr(filled_));
    const Substitution map{{lines_.window->var, index[0]},
                           {along_.window->var, floordiv(index[1], Expr(filled_))},
                           {channels_->var, channel},
                           {columns.var, index[2]}};
    std::vector<Expr> from;
    for (const Expr& e : weight_->index) from.push_back(substitute(e, map));
    Body body;
    const ValueId there = in_range(made, channel, channels_->extent, body);
    const ValueId value = append(body, load_stmt(made, DType::bf16, weight_->buffer, from, there));
    body.push_back(store_stmt(DType::bf16, to, index, value));
    made.body = nest_of(sizes, std::move(body));
    program_.init.push_back(Item{std::move(made)});
    return to;
  }

  // Whether 0 <= place < size.
  static ValueId in_range(Kernel& kernel, const Expr& place, const Expr& size, Body& body) {
    const ValueId at = append(body, index_stmt(kernel, DType::i64, place)),
                  zero = append(body, index_stmt(kernel, DType::i64, Expr(0))),
                  end = append(body, index_stmt(kernel, DType::i64, size)),
                  low = append(body, op_stmt(kernel, ScalarOp::ge, DType::boolean, {at, zero})),
                  high = append(body, op_stmt(kernel, ScalarOp::lt, DType::boolean, {at, end}));
    return append(body, op_stmt(kernel, ScalarOp::logical_and, DType::boolean, {low, high}));
  }

  // [what is around, line, place * channels + channel]
  Kernel copied_picture() {
    const Buffer source = buffer(picture_->buffer);
    Buffer copy;
    copy.name = source.name + "_filled";
    copy.dtype = DType::bf16;
    std::vector<Expr> from(source.sizes.size()), sizes;
    for (size_t d = 0; d < from.size(); ++d) {
      if (d == lines_.dimension || d == along_.dimension || d == channel_dimension_) continue;
      from[d] = picture_->index[d];
      if (from[d].is_constant()) continue;
      around_.push_back(from[d]);
      from[d] = Expr::symbol(str("i", sizes.size()));
      sizes.push_back(source.sizes[d]);
    }
    copy.sizes = sizes;
    copy.sizes.push_back(Expr(lines_.size()));
    copy.sizes.push_back(Expr(along_.size() * filled_));
    copy.strides.assign(copy.sizes.size(), Expr(1));
    for (size_t d = copy.sizes.size(); d-- > 1;) copy.strides[d - 1] = copy.strides[d] * copy.sizes[d];
    copy_ = program_.add_buffer(std::move(copy));
    // Points innermost, as pictures mostly lie: reading neighbours counts for more than writing them.
    for (const int64_t size : {lines_.size(), filled_, along_.size()}) sizes.emplace_back(size);
    const std::vector<Expr> index = nest_index(sizes.size());
    const Expr &line = index[index.size() - 3], &channel = index[index.size() - 2], &place = index.back();
    from[lines_.dimension] = line - Expr(lines_.before);
    from[along_.dimension] = place - Expr(along_.before);
    from[channel_dimension_] = channel;
    Kernel made;
    made.name = str("copy_", buffer(copy_).name);
    made.op_names = {"layout"};
    made.origins = kernel_.origins;
    Body body;
    ValueId there = in_range(made, from[lines_.dimension], source.sizes[lines_.dimension], body);
    for (const ValueId more : {in_range(made, from[along_.dimension], source.sizes[along_.dimension], body),
                               in_range(made, channel, channels_->extent, body)})
      there = append(body, op_stmt(made, ScalarOp::logical_and, DType::boolean, {there, more}));
    const ValueId value = append(body, load_stmt(made, DType::bf16, picture_->buffer, from, there));
    std::vector<Expr> to(index.begin(), index.end() - 2);
    to.push_back(place * filled_ + channel);
    body.push_back(store_stmt(DType::bf16, copy_, to, value));
    made.body = nest_of(sizes, std::move(body));
    return made;
  }

  void sum_over_lines(BufferId line) {
    auto* sum = const_cast<Stmt*>(nest_.sums.front().stmt);
    const std::set<std::string> used = variables_of(kernel_);
    const Expr y = Expr::symbol(lines_.window->var);
    Stmt terms = reduction_stmt(unused_name(used, "r"), Expr(along_.window->extent.value() * filled_), AxisRole::reduce,
                                ReduceOp::sum, DType::f32);
    const Expr t = Expr::symbol(terms.loop->var);
    std::vector<Expr> from = around_;
    from.push_back(Expr::symbol(lines_.points->var) * lines_.step + y);
    from.push_back(Expr::symbol(along_.points->var) * (along_.step * filled_) + t);
    Body& body = terms.loop->body;
    const auto factor = [&](BufferId id, const std::vector<Expr>& index) {
      const ValueId narrow = append(body, load_stmt(kernel_, DType::bf16, id, index));
      return append(body, op_stmt(kernel_, ScalarOp::cast, DType::f32, {narrow}));
    };
    const ValueId left = factor(copy_, from), right = factor(line, {y, t, Expr::symbol(nest_.innermost_column().var)});
    terms.loop->yields = {append(body, op_stmt(kernel_, ScalarOp::mul, DType::f32, {left, right}))};
    terms.results = {new_value(kernel_, DType::f32)};
    Stmt outer = reduction_stmt(lines_.window->var, lines_.window->extent, AxisRole::reduce, ReduceOp::sum, DType::f32);
    outer.loop->yields = terms.results;
    outer.loop->body.push_back(std::move(terms));
    outer.results = sum->results;
    *sum = std::move(outer);
    std::set<ValueId> computed;
    for_each_stmt(kernel_.body, [&](const Stmt& stmt) { computed.insert(stmt.results.begin(), stmt.results.end()); });
    std::erase_if(kernel_.named, [&](const NamedValue& named) {
      return !computed.contains(named.value) || (named.mask != no_value && !computed.contains(named.mask));
    });
    kernel_.contraction.reset();
    FoundContraction found = recognise_contraction(kernel_, program_);
    KILN_CHECK(found.contraction, str("the lines of ", kernel_.name, " are no contraction: ", found.reason));
    kernel_.contraction = std::move(found.contraction);
  }

  LoopProgram& program_;
  Kernel& kernel_;
  const ContractionNest nest_;
  std::map<ValueId, const Stmt*> made_;
  const Stmt *picture_ = nullptr, *weight_ = nullptr;
  const Loop* channels_ = nullptr;
  size_t channel_dimension_ = 0;
  Axis lines_, along_;
  int64_t filled_ = 0;
  std::vector<Expr> around_;  // the copy's first indices
  BufferId copy_ = no_buffer;
};

bool fill_windows_of(Block& block, LoopProgram& program, Log& log) {
  bool changed = false;
  for (size_t i = 0; i < block.size(); ++i) {
    for_each_block(block[i], [&](Block& nested) { changed |= fill_windows_of(nested, program, log); });
    auto* kernel = std::get_if<Kernel>(&block[i].what);
    if (!kernel || !kernel->contraction || kernel->schedule) continue;
    auto copy = WindowFiller(program, *kernel).run();
    if (!copy) continue;
    log.add([&] {
      return Decision{"fill the picture of", kernel->name, "", "", "lines of its window are pairs of terms", true, ""};
    });
    block.insert(block.begin() + static_cast<std::ptrdiff_t>(i++), Item{std::move(*copy)});
    changed = true;
  }
  return changed;
}

}  // namespace

bool fill_windows(LoopProgram& program, const Target& target, Log& log) {
  // Instructions for matrices have another way to such windows.
  if (target.is_gpu() || !target.bf16_pairs || target.matrix_tiles) return false;
  return fill_windows_of(program.block, program, log);
}

}  // namespace kiln::loops
