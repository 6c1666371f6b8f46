// The kernel of Winograd's products (winograd.cpp).
#include "schedule/winograd_kernel.h"

#include <array>

namespace kiln::loops {
namespace {

// A result is a sum of 9 sums over the channels, with what each has lost: blocks shorter than a plain product's make up
// for that.
constexpr int64_t block_of_channels = 64;
constexpr int64_t page_bytes = 4096;

}  // namespace

BufferId Winograd::scratch(const std::string& what, int64_t width, int64_t apart) {
  Buffer buffer;
  buffer.name = kernel_.name + what;
  buffer.role = BufferRole::scratch;
  buffer.sizes = {winograd_places, tile_.squares, width};
  buffer.strides = {places_apart(tile_.squares * apart), apart, 1};
  return program_.add_buffer(std::move(buffer));
}

Kernel Winograd::build(const WinogradTile& tile) {
  tile_ = tile;
  width_ = tile.vectors * target_.lanes;
  all_ = shape();
  squares_ = squares();
  used_ = variables_of(kernel_);
  for (const auto& [name, info] : program_.symbols) used_.insert(name);
  env_ = program_.ranges();
  made_.name = kernel_.name;
  made_.op_names = kernel_.op_names;
  made_.origins = kernel_.origins;
  made_.schedule = Schedule();
  made_.schedule->lanes = target_.lanes;
  build_weights();
  const int64_t panels = all_.columns / width_ / tile.groups, waiting = in_parts() ? panels * width_ : width_;
  picture_ = scratch("_picture", part_terms(), terms_apart(part_terms()));
  sums_ = scratch("_sums", waiting, waiting);
  Stmt pictures = pictures_ ? loop("o", pictures_->extent, Binding::item) : Stmt();
  if (pictures_) picture_number_ = variable(pictures);
  Stmt groups = loop("o", tile.groups, Binding::item),
       blocks = loop("o", simplify(ceildiv(squares_, tile.squares), env_), Binding::item);
  // The transformed points of a block stay for the groups that follow one another; in parts they do not, and weights
  // of a group stay for blocks.
  Stmt &outer = in_parts() ? groups : blocks, &inner = in_parts() ? blocks : groups;
  const Expr first = variable(blocks) * tile.squares;
  Body& body = inner.loop->body;
  Stmt part = in_parts() ? loop("i", tile.parts, Binding::serial) : Stmt();
  Body& of_part = in_parts() ? part.loop->body : body;
  const Expr part_at = in_parts() ? variable(part) : Expr(0);
  build_picture(first, part_at, of_part);
  const auto panel_loop = [&] { return loop("i", panels, Binding::serial); };
  const auto number = [&](const Stmt& panel) {
    return Panel{variable(groups) * panels + variable(panel), in_parts() ? variable(panel) * width_ : Expr(0)};
  };
  Stmt panel = panel_loop();
  build_products(first, number(panel), part_at, panel.loop->body);
  if (in_parts()) {
    build_zeros(waiting, body);
    of_part.push_back(std::move(panel));
    body.push_back(std::move(part));
    panel = panel_loop();
  }
  build_results(first, number(panel), panel.loop->body);
  body.push_back(std::move(panel));
  outer.loop->body.push_back(std::move(inner));
  Body& items = pictures_ ? pictures.loop->body : made_.body;
  items.push_back(std::move(outer));
  if (pictures_) made_.body.push_back(std::move(pictures));
  return std::move(made_);
}

// In f64, and rounded once.
void Winograd::build_weights() {
  const Buffer source = program_.buffers[static_cast<size_t>(weight_->buffer)];
  Buffer made;
  made.name = source.name + "_winograd";
  made.role = BufferRole::derived;
  made.sizes = {all_.columns / width_, winograd_places, all_.terms(), width_};
  made.strides = contiguous_strides(made.sizes);
  weights_ = program_.add_buffer(std::move(made));
  Kernel kernel;
  kernel.name = "winograd_" + source.name;
  kernel.op_names = {"pack"};
  kernel.origins = kernel_.origins;
  // An element at a time, since nothing lies side by side for lanes, from line to line of the weights; of some channels
  // at a time, so that what is written stays at hand from column to column.
  int64_t together = 32;
  while (all_.channels % together != 0) together /= 2;
  const std::vector<Expr> nest = nest_index(5);
  const Expr panel = nest[0], depth = nest[1], column = nest[3], channel = nest[2] * together + nest[4];
  Body body;
  const auto compute = [&](ScalarOp op, ValueId a, ValueId b) {
    return append(body, op_stmt(kernel, op, DType::f64, {a, b}));
  };
  const ValueId half = append(body, constant_stmt(kernel, DType::f64, Scalar(0.5)));
  // Three of a line become four.
  const auto four = [&](const std::array<ValueId, 3>& g) {
    const ValueId ends = compute(ScalarOp::add, g[0], g[2]);
    return std::array<ValueId, 4>{g[0], compute(ScalarOp::mul, compute(ScalarOp::add, ends, g[1]), half),
                                  compute(ScalarOp::mul, compute(ScalarOp::sub, ends, g[1]), half), g[2]};
  };
  std::array<std::array<ValueId, 4>, 3> lines;
  for (int line = 0; line < 3; ++line) {
    std::array<ValueId, 3> g;
    for (int point = 0; point < 3; ++point) {
      Substitution map{{nest_.innermost_column().var, panel * width_ + column},
                       {channels_->var, channel},
                       {lines_.window->var, Expr(line)},
                       {points_.window->var, Expr(point)}};
      if (depth_) map[depth_->var] = depth;
      std::vector<Expr> index;
      for (const Expr& e : weight_->index) index.push_back(substitute(e, map));
      const ValueId value = append(body, load_stmt(kernel, weight_->dtype, weight_->buffer, std::move(index)));
      g[static_cast<size_t>(point)] = append(body, op_stmt(kernel, ScalarOp::cast, DType::f64, {value}));
    }
    lines[static_cast<size_t>(line)] = four(g);
  }
  for (size_t point = 0; point < 4; ++point) {
    const std::array<ValueId, 4> made_of = four({lines[0][point], lines[1][point], lines[2][point]});
    for (size_t line = 0; line < 4; ++line) {
      const ValueId value = append(body, op_stmt(kernel, ScalarOp::cast, DType::f32, {made_of[line]}));
      const auto place = static_cast<int64_t>(4 * line + point);
      append(body, store_stmt(DType::f32, weights_, {panel, place, depth * all_.channels + channel, column}, value));
    }
  }
  kernel.body =
      nest_of({all_.columns / width_, all_.depth, all_.channels / together, width_, together}, std::move(body));
  kernel.body[0].loop->directives.binding = Binding::item;
  program_.init.push_back(Item{std::move(kernel)});
}

Winograd::Place Winograd::place_of(const Expr& square) const {
  Place out;
  Expr rest = square;
  const size_t first = pictures_ ? 1 : 0;
  if (pictures_) out.around[pictures_->var] = picture_number_;
  for (size_t i = nest_.rows.size(); i-- > first;) {
    const Loop* loop = nest_.rows[i];
    const Expr size = loop == lines_.points    ? lines_.squares()
                      : loop == points_.points ? points_.squares()
                                               : loop->extent;
    const bool outermost = std::all_of(nest_.rows.begin() + static_cast<std::ptrdiff_t>(first),
                                       nest_.rows.begin() + static_cast<std::ptrdiff_t>(i),
                                       [](const Loop* around) { return around->extent.is_constant(1); });
    const Expr here = simplify(outermost && !size.is_constant(1) ? rest : mod(rest, size), env_);
    rest = simplify(floordiv(rest, size), env_);
    if (loop == lines_.points)
      out.line = lines_.first(here);
    else if (loop == points_.points)
      out.point = points_.first(here);
    else
      out.around[loop->var] = here;
  }
  return out;
}

Winograd::Varies Winograd::varies(ValueId v) const {
  std::set<const Stmt*> parts;
  collect(v, parts);
  Varies out;
  const auto look = [&](const Expr& e) {
    out.line |= mentions(e, lines_.points->var) || mentions(e, lines_.window->var);
    out.point |= mentions(e, points_.points->var) || mentions(e, points_.window->var);
    out.depth |= depth_ && mentions(e, depth_->var);
    out.channel |= mentions(e, channels_->var);
  };
  for (const Stmt* stmt : parts) {
    look(stmt->expr);
    for (const Expr& e : stmt->index) look(e);
  }
  return out;
}

// The fourth line is the third one of the window at the next point, which the last square may not have: whatever
// stands there then, nothing comes of it.
ValueId Winograd::picture_value(ValueId v, int line, int point) {
  const Varies varies = this->varies(v);
  const auto [found, missing] = copied_.values.try_emplace({v, varies.line ? line : 0, varies.point ? point : 0});
  if (!missing) return found->second;
  Stmt copy = defined_.at(v)->clone();
  Substitution map = copied_.place.around;
  const auto slide = [&](const WinogradSlide& along, const Expr& first, int at) {
    const Expr next = first + along.apart;
    map[along.window->var] = Expr(std::min(at, 2));
    map[along.points->var] = at < 3 ? first : along.has_rest() ? min_expr(next, along.points->extent - 1) : next;
  };
  slide(lines_, copied_.place.line, line);
  slide(points_, copied_.place.point, point);
  map[channels_->var] = copied_.channel_at;
  if (depth_) map[depth_->var] = copied_.depth_at;
  for (Expr& e : copy.index) e = substitute(e, map);
  copy.expr = substitute(copy.expr, map);
  for (ValueId& arg : copy.args) arg = picture_value(arg, line, point);
  if (copy.mask != no_value) copy.mask = picture_value(copy.mask, line, point);
  if (copy.kind == StmtKind::load && copy.mask != no_value) keep_near(copy);
  copy.results = {new_value(made_, kernel_.value_types[static_cast<size_t>(v)])};
  Body& body = varies.channel ? *copied_.channel : varies.depth ? *copied_.depth : *copied_.square;
  const ValueId made = append(body, std::move(copy));
  copied_.values[{v, varies.line ? line : 0, varies.point ? point : 0}] = made;
  return made;
}

// A masked load reads nothing outside of the picture, but where no memory is there at all a processor takes hundreds of
// cycles to find that out: padding that is further away than a page is read, and masked, at the picture's edge.
void Winograd::keep_near(Stmt& load) const {
  const Buffer& picture = program_.buffers[static_cast<size_t>(load.buffer)];
  for (size_t d = 0; d < load.index.size(); ++d) {
    const Expr last = picture.sizes[d] - 1, &stride = picture.strides[d];
    const int64_t near = stride.is_constant() ? page_bytes / 4 / std::max<int64_t>(stride.value(), 1) : 0;
    const Interval range = range_of(load.index[d], env_);
    if (range.low < -near || (last.is_constant() ? range.high > last.value() + near
                                                 : prove_le(load.index[d], last + near, env_) != Proof::yes))
      load.index[d] = max_expr(min_expr(load.index[d], last), Expr(0));
  }
}

// What the first part is added to.
void Winograd::build_zeros(int64_t columns, Body& out) {
  Stmt place = loop("i", winograd_places), square = loop("i", tile_.squares),
       column = loop("i", columns, Binding::lane, target_.lanes);
  const ValueId zero = append(column.loop->body, constant_stmt(made_, DType::f32, Scalar(0.0)));
  append(column.loop->body, store_stmt(DType::f32, sums_, {variable(place), variable(square), variable(column)}, zero));
  square.loop->body.push_back(std::move(column));
  place.loop->body.push_back(std::move(square));
  out.push_back(std::move(place));
}

void Winograd::build_picture(const Expr& first, const Expr& part, Body& out) {
  const bool slices = depth_ && !in_parts();  // all of them one after the other; else a part is of one
  const int64_t channels = slices ? all_.channels : part_terms();
  const Expr parts_of_slice(all_.channels / channels);
  Stmt square = loop("i", squares_from(first), in_parts() ? Binding::none : Binding::kept),
       depth = slices ? loop("i", all_.depth) : Stmt(), channel = loop("i", channels, Binding::lane, target_.lanes);
  Body& around = slices ? depth.loop->body : square.loop->body;
  const Expr depth_at = slices ? variable(depth) : simplify(floordiv(part, parts_of_slice), env_),
             channel_at = simplify(mod(part, parts_of_slice), env_) * channels + variable(channel),
             term = (slices ? variable(depth) * channels : Expr(0)) + variable(channel);
  Body& body = channel.loop->body;
  Expr number = first + variable(square);
  // Squares of the last block beyond the last one are computed as the last one.
  if (!whole_blocks()) number = min_expr(number, squares_ - 1);
  copied_ = {place_of(number), {}, &square.loop->body, &around, &body, depth_at, channel_at};
  const auto four = [&](const std::array<ValueId, 4>& d) {
    return std::array<ValueId, 4>{compute(ScalarOp::sub, d[0], d[2], body), compute(ScalarOp::add, d[1], d[2], body),
                                  compute(ScalarOp::sub, d[2], d[1], body), compute(ScalarOp::sub, d[1], d[3], body)};
  };
  std::array<std::array<ValueId, 4>, 4> points;  // by point, then line
  for (int point = 0; point < 4; ++point) {
    std::array<ValueId, 4> d;
    for (int line = 0; line < 4; ++line)
      d[static_cast<size_t>(line)] = picture_value(kernel_.contraction->left, line, point);
    points[static_cast<size_t>(point)] = four(d);
  }
  for (size_t line = 0; line < 4; ++line) {
    const std::array<ValueId, 4> made = four({points[0][line], points[1][line], points[2][line], points[3][line]});
    for (size_t point = 0; point < 4; ++point)
      append(body, store_stmt(DType::f32, picture_, {static_cast<int64_t>(4 * line + point), variable(square), term},
                              made[point]));
  }
  around.push_back(std::move(channel));
  if (slices) square.loop->body.push_back(std::move(depth));
  out.push_back(std::move(square));
}

void Winograd::build_products(const Expr& first, const Panel& panel, const Expr& part, Body& out) {
  Stmt place = loop("i", winograd_places), square = loop("i", squares_from(first), Binding::unroll, tile_.rows),
       column = loop("i", width_, Binding::lane, width_);
  Stmt sum = reduction_stmt(fresh("r"), part_terms(), AxisRole::reduce, ReduceOp::sum, DType::f32);
  sum.loop->order.block = block_of_channels;
  Body& terms = sum.loop->body;
  const ValueId left = append(
                    terms, load_stmt(made_, DType::f32, picture_, {variable(place), variable(square), variable(sum)})),
                right = append(terms, load_stmt(made_, DType::f32, weights_,
                                                {panel.number, variable(place), part * part_terms() + variable(sum),
                                                 variable(column)}));
  sum.loop->yields = {compute(ScalarOp::mul, left, right, terms)};
  sum.results = {new_value(made_, DType::f32)};
  ValueId made = sum.results[0];
  Body& body = column.loop->body;
  body.push_back(std::move(sum));
  const std::vector<Expr> index{variable(place), variable(square), panel.sums + variable(column)};
  if (in_parts()) made = compute(ScalarOp::add, append(body, load_stmt(made_, DType::f32, sums_, index)), made, body);
  append(body, store_stmt(DType::f32, sums_, index, made));
  square.loop->body.push_back(std::move(column));
  place.loop->body.push_back(std::move(square));
  out.push_back(std::move(place));
}

void Winograd::build_results(const Expr& first, const Panel& panel, Body& out) {
  Stmt square = loop("i", whole_blocks() ? Expr(tile_.squares) : min_expr(squares_from(first), squares_ - first)),
       column = loop("i", width_, Binding::lane, target_.lanes);
  Body& body = column.loop->body;
  const Place place = place_of(first + variable(square));
  const auto two = [&](const std::array<ValueId, 4>& m) {
    return std::array<ValueId, 2>{compute(ScalarOp::add, compute(ScalarOp::add, m[0], m[1], body), m[2], body),
                                  compute(ScalarOp::sub, compute(ScalarOp::sub, m[1], m[2], body), m[3], body)};
  };
  std::array<std::array<ValueId, 2>, 4> points;  // by place along the line
  for (size_t point = 0; point < 4; ++point) {
    std::array<ValueId, 4> m;
    for (size_t line = 0; line < 4; ++line)
      m[line] = append(
          body, load_stmt(made_, DType::f32, sums_,
                          {static_cast<int64_t>(4 * line + point), variable(square), panel.sums + variable(column)}));
    points[point] = two(m);
  }
  // What followed the sum, for each of the four; what is the same for all of them once.
  std::set<const Stmt*> needed;
  std::vector<const Stmt*> all;
  std::vector<const Loop*> around = nest_.rows;
  around.push_back(&nest_.innermost_column());
  for (const Loop* loop : around)
    for (const Stmt& stmt : loop->body) {
      if (stmt.loop) continue;
      all.push_back(&stmt);
      if (stmt.kind != StmtKind::store) continue;
      needed.insert(&stmt);
      collect(stmt.args[0], needed);
      if (stmt.mask != no_value) collect(stmt.mask, needed);
    }
  Substitution map = place.around;
  map[nest_.innermost_column().var] = panel.number * width_ + variable(column);
  const ValueId summed = nest_.sums[0].stmt->results[0];
  Copier shared(kernel_, made_, used_);
  shared.variables = map;
  for (const Stmt* stmt : all)
    if (needed.contains(stmt) && is_shared(*stmt)) append(body, shared.copy(*stmt, body));
  // Points beyond the last one of a line, and lines beyond the last.
  const auto exists = [&](const WinogradSlide& along, const Expr& at) {
    Body& outside = square.loop->body;
    const ValueId here = append(outside, index_stmt(made_, DType::i64, at)),
                  end = append(outside, index_stmt(made_, DType::i64, along.points->extent));
    return append(outside, op_stmt(made_, ScalarOp::lt, DType::boolean, {here, end}));
  };
  const ValueId has_line = lines_.has_rest() ? exists(lines_, place.line + lines_.apart) : no_value,
                has_point = points_.has_rest() ? exists(points_, place.point + points_.apart) : no_value;
  ValueId has_both = has_line == no_value ? has_point : has_line;
  if (has_line != no_value && has_point != no_value)
    has_both = append(square.loop->body, op_stmt(made_, ScalarOp::logical_and, DType::boolean, {has_line, has_point}));
  for (size_t line = 0; line < 2; ++line) {
    const std::array<ValueId, 2> results = two({points[0][line], points[1][line], points[2][line], points[3][line]});
    for (size_t point = 0; point < 2; ++point) {
      Copier copier(kernel_, made_, used_);
      copier.variables = map;
      copier.variables[lines_.points->var] = place.line + static_cast<int64_t>(line) * lines_.apart;
      copier.variables[points_.points->var] = place.point + static_cast<int64_t>(point) * points_.apart;
      copier.values = shared.values;
      copier.values[summed] = results[point];
      copier.mask = line == 0 ? (point == 0 ? no_value : has_point) : (point == 0 ? has_line : has_both);
      for (const Stmt* stmt : all)
        if (needed.contains(stmt) && !is_shared(*stmt)) append(body, copier.copy(*stmt, body));
      copier.copy_names(body);
    }
  }
  square.loop->body.push_back(std::move(column));
  out.push_back(std::move(square));
}

// Whether a statement behind the sums is the same for all results of a square.
bool Winograd::is_shared(const Stmt& stmt) const {
  if (stmt.kind == StmtKind::store) return false;
  const auto same = [&](const Stmt& one) {
    const auto still = [&](const Expr& e) {
      return !mentions(e, lines_.points->var) && !mentions(e, points_.points->var);
    };
    const ValueId summed = nest_.sums[0].stmt->results[0];
    return still(one.expr) && std::all_of(one.index.begin(), one.index.end(), still) &&
           std::find(one.args.begin(), one.args.end(), summed) == one.args.end() && one.mask != summed;
  };
  std::set<const Stmt*> parts;
  collect(stmt.results[0], parts);
  return std::all_of(parts.begin(), parts.end(), [&](const Stmt* part) { return same(*part); });
}

}  // namespace kiln::loops
