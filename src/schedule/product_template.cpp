// The product: a tile of rows by vectors of columns is accumulated in registers while the sums run once.
#include "loop_passes/rewrite.h"
#include "loops/byte_quads.h"
#include "loops/line_windows.h"
#include "loops/narrow_rows.h"
#include "loops/sum_parts.h"
#include "schedule/factors.h"
#include "schedule/group_rows.h"
#include "schedule/least_code.h"
#include "schedule/matrix_tiles.h"
#include "schedule/schedule.h"
#include "schedule/template.h"

namespace kiln::loops {
namespace {

// Multiply-adds: more tiles are put into an item until it has so many, or fewer, where threads then have equal parts;
// with less than the least it would show that items begin.
constexpr double item_work = 400000, least_item_work = 100000;
constexpr double plenty_of_items = 256;  // of so many, what the last of them are like does not matter

constexpr double equal_items = 16;  // of rows alone, so that threads can have equal parts of them

// Of `tiles` times `beside`, so many to an item: how long the busiest thread works against an equal share, for some
// numbers of threads.
double uneven(double tiles, double beside, double high, double most_threads) {
  const double items = std::ceil(tiles / high) * beside;
  double sum = 0, numbers = 0;
  for (double threads = 2; threads <= most_threads; threads *= 2, ++numbers)
    sum += std::ceil(items / threads) * high * threads / (tiles * beside);
  return sum / numbers;
}

// Fewer, but not less than the least, where threads then have more equal parts.
double evened(double tiles, double beside, double least, double most) {
  constexpr double threads = 16;
  double best = most;
  for (double high = most; high >= 1 && high >= least; --high)
    if (uneven(tiles, beside, high, threads) < uneven(tiles, beside, best, threads) - 0.003) best = high;
  return best;
}

double at_least_one(double x) { return std::max(1.0, x); }

// Terms of a part. Where rows and terms are so many that each panel of columns would bring the rows anew from beyond
// the second cache, the sum runs in parts of which the rows fit (loops/sum_parts.h). 0: in one.
constexpr int64_t least_part = 512, most_part = 768;

int64_t terms_of_part(const Kernel& kernel, const LoopProgram& program, const Target& target) {
  const ContractionNest nest = contraction_nest(kernel);
  const Expr &rows = nest.row_count(), &terms = nest.innermost_sum().extent;
  if (nest.sums.size() != 1 || !rows.is_constant() || !terms.is_constant() || !nest.batch.empty()) return 0;
  const auto bytes = [&](int64_t count) { return static_cast<double>(rows.value() * count) * 4; };
  if (bytes(terms.value()) <= target.second_cache || !place_of_sums(kernel, program)) return 0;
  for (int64_t part = most_part; part >= least_part; part -= target.lanes)
    if (terms.value() % part == 0 && bytes(part) <= target.second_cache * 0.75) return part;
  return 0;
}

// Of an element in memory. What is computed on the way from there counts as f32.
double bytes_of_factor(const ContractionNest& nest, ValueId factor, bool left) {
  const FactorValue value = factor_value(nest, factor, left);
  return value.load && (is_narrow(value.dtype) || dtype_bytes(value.dtype) == 8)
             ? static_cast<double>(dtype_bytes(value.dtype))
             : 4;
}

// Rows that are points of one line have one address and no masks (loops/line_windows.h). Tiles that end where lines do
// have a few rows too many, which are computed for nothing: not if they are more than these.
constexpr double most_beyond = 1.07;
constexpr int64_t longest_copy = 64 << 10;  // elements

// The rows that tiles on lines have, as a multiple of the points. Of a line whose length is not known the last tile has
// half of its rows beyond it in the mean.
double rows_on_lines(const LineWindow& window, int64_t rows) {
  const auto points = static_cast<double>(window.about);
  if (!window.points.is_constant()) return 1 + static_cast<double>(rows) / 2 / points;
  return static_cast<double>(window.tiles(rows).value() * rows) / points;
}

// Beside a tile's products, as a share of them: at the ends of a line what lies under it is copied; where rows are no
// line, each finds its place and its mask anew for each place of the window.
double beside_products(const LineWindow& window, const Tile& tile, bool lines, double lanes) {
  const auto rows = static_cast<double>(tile.rows), terms = static_cast<double>(window.terms);
  const double products = terms * rows * static_cast<double>(tile.vectors) / 2;
  if (!lines) return (20 + 2.25 * rows) / products;
  const auto span = static_cast<double>(window.span(tile.rows)),
             tiles = std::ceil(static_cast<double>(window.about) / static_cast<double>(tile.rows));
  const double copying = window.widens ? tiles : std::min(2.0, tiles);
  return copying / tiles * 1.2 * span * terms / lanes / (products * static_cast<double>(window.places));
}

// With 16 registers a tile has few rows, whose addresses do not want for registers, and lines only limit its choice.
bool on_lines(const LineWindow& window, const Tile& tile, const Target& target) {
  if (target.vector_registers < 32 || window.span(tile.rows) * window.distance > longest_copy) return false;
  const double rows = rows_on_lines(window, tile.rows);
  if (window.points.is_constant()) return rows <= most_beyond;
  return rows - 1 + beside_products(window, tile, true, target.lanes) <
         beside_products(window, tile, false, target.lanes);
}

// Of few points with many terms each panel of weights is long, and while the next one is fetched both would have to
// stay in the second cache. Its lines of the window are then parts of the sum, which all points pass one after the
// other.
constexpr int64_t few_points = 128;

bool runs_line_by_line(const Kernel& kernel, const LoopProgram& program, const Target& target, int64_t vectors) {
  const ContractionNest nest = contraction_nest(kernel);
  const Expr rows = nest.row_count(), terms = nest.term_count();
  if (nest.sums.size() < 3 || !rows.is_constant() || rows.value() > few_points || !terms.is_constant()) return false;
  const double panel = static_cast<double>(terms.value() * vectors * target.lanes) *
                       bytes_of_factor(nest, kernel.contraction->right, false);
  // Blocks of the sum are those of the sums inside (order_sums).
  const bool long_lines = terms.value() / nest.sums.front().stmt->loop->extent.value() > least_part;
  return panel > target.second_cache * 0.4 && long_lines && place_of_sums(kernel, program);
}

void serial_lines(Kernel& kernel) {
  for_each_stmt(kernel.body, [&](Stmt& stmt) {
    if (stmt.loop && stmt.loop->var == kernel.contraction->sums[0]) stmt.loop->directives.binding = Binding::serial;
  });
}

// The sum over the terms becomes one over parts around one over the terms of a part.
void split_into_parts(Kernel& kernel, int64_t part) {
  Stmt* sum = nullptr;
  for_each_stmt(kernel.body, [&](Stmt& stmt) {
    if (stmt.loop && stmt.loop->var == kernel.contraction->sums[0]) sum = &stmt;
  });
  const std::set<std::string> used = variables_of(kernel);
  int n = 0;
  while (used.count(str("p", n))) ++n;
  Stmt inner = std::move(*sum);
  const std::string var = inner.loop->var;
  Stmt parts = reduction_stmt(str("p", n), Expr(inner.loop->extent.value() / part), AxisRole::reduce, ReduceOp::sum,
                              inner.loop->reduce_dtype);
  parts.loop->directives.binding = Binding::serial;
  const Substitution map{{var, Expr::symbol(parts.loop->var) * part + Expr::symbol(var)}};
  for_each_stmt(inner.loop->body, [&](Stmt& stmt) {
    for (Expr& e : stmt.index) e = substitute(e, map);
    stmt.expr = substitute(stmt.expr, map);
  });
  rename_in_names(kernel, map);
  inner.loop->extent = Expr(part);
  parts.results = inner.results;
  inner.results = {new_value(kernel, inner.loop->reduce_dtype)};
  parts.loop->yields = inner.results;
  kernel.contraction->sums = {parts.loop->var, var};
  parts.loop->body.push_back(std::move(inner));
  *sum = std::move(parts);
}

// Narrow rows are widened so many terms at a time: few enough that it runs beside the products of the terms before.
constexpr int64_t most_wide_terms = 64;

void widen_rows(LoopProgram& program, Kernel& kernel, const Target& target) {
  const Stmt* rows = narrow_rows(kernel, program);
  const Expr& terms = contraction_nest(kernel).innermost_sum().extent;
  if (!rows || (terms.is_constant() && terms.value() < target.lanes)) return;
  const int64_t vectors = ((terms.is_constant() ? terms.value() : most_wide_terms) + target.lanes - 1) / target.lanes;
  const int64_t room = std::min(most_wide_terms, vectors * target.lanes);
  Buffer wide;
  wide.name = program.buffers[static_cast<size_t>(rows->buffer)].name + "_wide";
  wide.role = BufferRole::scratch;
  wide.sizes = {kernel.schedule->tile.rows, room};
  wide.strides = {room, 1};
  kernel.schedule->tile.rows_wide = program.add_buffer(std::move(wide));
}

class Product : public Template {
 public:
  explicit Product(Together together)
      : pairs_(together != Together::single),
        quads_(together == Together::quads),
        side_(quads_   ? 4
              : pairs_ ? 2
                       : 1) {}
  const char* name() const override { return quads_ ? "quads" : pairs_ ? "pairs" : "mm"; }

  std::string refuses(const Kernel& kernel, const LoopProgram& program, const Target& target) const override {
    if (target.lanes == 1) return "scalar code has no vectors of columns";
    if (quads_) {
      if (!target.byte_quads) return "no instructions for fours of bytes";
      std::string why;
      if (!quad_factors(kernel, program, why)) return why;
      if (!constant_right_factor(kernel, program)) return "the right factor is not a constant";
    } else if (pairs_) {
      if (!target.bf16_pairs) return "no instructions for pairs of bf16";
      std::string why;
      if (!matrix_factors(kernel, program, why)) return why;
      if (contraction_nest(kernel).innermost_sum().extent.value() % 2 != 0) return "a term without its pair";
      if (!constant_right_factor(kernel, program)) return "the right factor is not a constant";
    }
    const ContractionNest nest = contraction_nest(kernel);
    const Loop& columns = nest.innermost_column();
    // Of a single sum lanes along the terms are better; a window's are in many pieces.
    const bool window = nest.sums.size() > 1 && packed_load(kernel, program);
    if (estimate(columns.extent, program) < 8 && !window) return "fewer than 8 columns";
    if (packed_load(kernel, program)) return "";
    // Without neighbouring columns every load of the right factor would be gathered; summing in lanes is better then.
    const RangeEnv env = kernel_ranges(kernel, program);
    for (const ContractionNest::Sum& sum : nest.sums)
      for (const Stmt* stmt : sum.right) {
        if (stmt->kind != StmtKind::load) continue;
        auto along = affine_in(address_of(*stmt, program, env), columns.var);
        if (!along || !(along->coefficient.is_constant(1) || along->coefficient.is_constant(0)))
          return str("columns of ", program.buffers[static_cast<size_t>(stmt->buffer)].name,
                     " are not neighbours in memory");
      }
    return "";
  }

  std::optional<Packing> packing(const Kernel& kernel, const LoopProgram& program, const Tile& tile,
                                 const Target& target) const override {
    const Stmt* load = packed_load(kernel, program);
    if (!load) return {};
    const Contraction& names = *kernel.contraction;
    Packing packing{load, names.sums,         names.columns.back(), tile.vectors * target.lanes,
                    {},   pairs_ ? side_ : 0, side_ > 1 ? side_ : 2};
    for (const std::string& var : names.batch)
      if (std::any_of(load->index.begin(), load->index.end(), [&](const Expr& e) { return mentions(e, var); }))
        packing.batch.push_back(var);
    return packing;
  }

  void prepare(LoopProgram& program, Kernel& kernel, const Target& target) const override {
    const Tile& tile = kernel.schedule->tile;
    const Expr& columns = contraction_nest(kernel).innermost_column().extent;
    const int64_t part = pairs_ || !tile.beside ? 0 : terms_of_part(kernel, program, target);
    const bool whole = columns.is_constant() && columns.value() % (tile.vectors * target.lanes) == 0;
    if (part > 0 && whole) {
      split_into_parts(kernel, part);
    } else if (const RowGroups groups = row_groups(kernel, program, target, tile); groups.rows > 0) {
      group_rows(kernel, groups.rows);
      set_ahead(contraction_nest(kernel), packed_load(kernel, program), program, target, kernel.schedule->tile);
    }
    const auto window = pairs_ ? std::nullopt : line_window(kernel, program);
    if (!window || !on_lines(*window, tile, target)) {
      if (!pairs_) widen_rows(program, kernel, target);
      return;
    }
    if (tile.beside && whole && runs_line_by_line(kernel, program, target, tile.vectors)) serial_lines(kernel);
    Buffer copy;
    copy.name = program.buffers[static_cast<size_t>(window->load->buffer)].name + "_line";
    copy.role = BufferRole::scratch;
    copy.sizes = {window->span(tile.rows), window->distance};
    copy.strides = {window->distance, 1};
    kernel.schedule->tile.rows_copy = program.add_buffer(std::move(copy));
  }

  std::vector<Candidate> candidates(const Kernel& kernel, const LoopProgram& program,
                                    const Target& target) const override {
    const ContractionNest nest = contraction_nest(kernel);
    const int64_t part = pairs_ ? 0 : terms_of_part(kernel, program, target);
    const Expr rows = nest.row_count(), columns = nest.innermost_column().extent;
    const auto most_rows = static_cast<int64_t>(rows.is_constant() ? std::max<int64_t>(1, rows.value()) : 64);
    double batch = 1;
    for (const Loop* loop : nest.batch) batch *= at_least_one(estimate(loop->extent, program));
    Extents extents{at_least_one(estimate(rows, program)), at_least_one(estimate(columns, program)),
                    at_least_one(estimate(nest.term_count(), program)), batch, static_cast<double>(part)};
    extents.registers = dtype_bytes(nest.innermost_sum().reduce_dtype) > 4 ? 2 : 1;
    extents.columns_known = columns.is_constant();
    if (quads_) extents.terms = at_least_one(extents.terms / 4);  // of 4 bytes, as single ones
    if (!pairs_) {
      extents.row_element = bytes_of_factor(nest, kernel.contraction->left, true);
      extents.column_element = bytes_of_factor(nest, kernel.contraction->right, false);
    }
    const auto window = pairs_ ? std::nullopt : line_window(kernel, program);
    const double whole_rows = extents.rows;
    const Stmt* packed = packed_load(kernel, program);
    const bool share_rows = extents.batch > 1 && batches_share_rows(nest, kernel, program);
    // With 32 registers 7 by 2 instead of 6 by 4 takes a tenth longer, whatever it is estimated to.
    const double least =
        (target.vector_registers >= 32 ? 20 : least_accumulators) / static_cast<double>(extents.registers);
    std::vector<Candidate> out;
    // One row reads its panels once, from memory: their number is that of the items, and all that counts.
    const bool one_row = rows.is_constant(1) && extents.columns >= static_cast<double>(vectors_of_row * target.lanes);
    for (int64_t vectors = one_row ? vectors_of_row : 1; vectors <= (one_row ? vectors_of_row : 8); ++vectors) {
      if (vectors > 1 && !one_row && static_cast<double>((vectors - 1) * target.lanes) >= extents.columns) break;
      // Memory is what few rows wait for, and wider items are fewer.
      if (vectors > 4 && !one_row && from_memory_once(extents)) break;
      // Accumulators, the columns' vectors, and one for the row's element.
      const int64_t fit = (target.vector_registers / extents.registers - vectors - 1) / vectors;
      for (int64_t high = std::min<int64_t>({fit, most_rows, 14}); high >= 1; --high) {
        Tile tile{high, vectors};
        tile.pairs = pairs_ && !quads_;
        tile.quads = quads_;
        const bool lines = window && on_lines(*window, tile, target);
        extents.rows = whole_rows;
        extents.part = static_cast<double>(part);
        if (lines) {
          extents.rows *= rows_on_lines(*window, high);
          if (runs_line_by_line(kernel, program, target, vectors))
            extents.part = extents.terms / static_cast<double>(nest.sums.front().stmt->loop->extent.value());
        }
        tile.interleaved = share_rows;
        spread(extents, target, nest, tile);
        set_ahead(nest, packed, program, target, tile);
        const int64_t edge = edge_vectors(columns, vectors, target.lanes);
        const bool whole = !columns.is_constant() || columns.value() >= vectors * target.lanes;
        const auto r = static_cast<double>(high), v = static_cast<double>(vectors), e = static_cast<double>(edge);
        // In steps: a few lines more or less are not worth rows that are computed for nothing.
        const double code = std::floor(((whole ? copy_code(r, v) : 0) + (edge > 0 ? copy_code(r, e) : 0)) / code_step);
        const RowGroups groups = row_groups(kernel, program, target, tile);
        const double far = groups.needed && groups.rows == 0 && part == 0 ? far_rows : 1;
        const double more = window ? beside_products(*window, tile, lines, target.lanes) : 0;
        const bool shared = rows.is_constant() && from_memory_once(extents) && is_much(extents);
        const double busiest = shared ? share_of_busiest(extents, tile, target) : 1;
        out.push_back({tile, (1 + more) * far * busiest * cost(extents, target, tile), tile_code(r, v, code, least)});
      }
    }
    return out;
  }

 private:
  const bool pairs_, quads_;  // terms that an instruction adds side by side: two or four
  const int64_t side_;
  static constexpr double late_load = 0.05, code_step = 12;
  static constexpr int64_t vectors_of_row = 4;
  static constexpr double far_rows = 1.06;  // where each panel brings the rows from behind the second cache
  struct Extents {
    double rows, columns, terms, batch, part;
    double row_element = 4, column_element = 4;  // bytes
    int64_t registers = 1;                       // that a vector of the sum's type takes
    bool columns_known = false;                  // what is left over is one tile
    // Terms whose factors are at hand at a time, with tiles of this width.
    double together(double width) const { return part > 0 && std::fmod(columns, width) == 0 ? part : terms; }
  };

  // Cycles for one term of a tile. In each: two multiply-adds, two loads, and every accumulator once in four; meanwhile
  // the columns' factor comes from where it fits, for every tile of rows anew, and so do the rows. Now and then a load
  // comes late.
  static double step(const Extents& extents, const Target& target, double high, double vectors, bool from_memory) {
    const double wide = vectors * static_cast<double>(extents.registers);
    const double vector = target.lanes * extents.column_element, terms = extents.together(vectors * target.lanes);
    const double panel = terms * vectors * vector;
    double moved = 0;
    if (panel > target.near_cache / 2) moved += vectors * vector;
    if (extents.rows * terms * extents.row_element > target.near_cache / 2) moved += high * extents.row_element;
    const double rate = from_memory || panel > target.second_cache * 0.7 ? target.memory_rate
                        : panel > target.page_reach                      ? target.far_rate
                                                                         : target.second_rate;
    // A narrow vector of columns is widened for every tile of rows: two instructions more than its load.
    const double loads = high + wide * (extents.column_element < 4 ? 3 : 1);
    return std::max({high * wide * 0.5, (high + wide) * 0.5, 4.0, moved / rate}) + loads * late_load;
  }

  // The same for all tiles of rows. The first one has the columns' factor from memory: of few rows that is most of it,
  // and of more it is fetched ahead.
  static constexpr double few_rows = 16;
  static bool from_memory_once(const Extents& extents) { return extents.rows <= few_rows && extents.batch == 1; }
  static double steps(const Extents& extents, const Target& target, double high, double wide) {
    const double tiles = std::ceil(extents.rows / high), again = step(extents, target, high, wide, false);
    if (!from_memory_once(extents)) return tiles * again;
    return step(extents, target, high, wide, true) + (tiles - 1) * again;
  }

  // What an edge wastes counts.
  static double cost(const Extents& extents, const Target& target, const Tile& tile) {
    const auto r = static_cast<double>(tile.rows), v = static_cast<double>(tile.vectors);
    const double width = v * target.lanes, whole = std::floor(extents.columns / width),
                 left = std::ceil((extents.columns - whole * width) / target.lanes);
    const double start = 20 + 3 * r;  // of a tile: addresses of its rows, its way through memory to the epilogue
    const double tiles = std::ceil(extents.rows / r);
    const auto panel = [&](double vectors) {
      return extents.terms * steps(extents, target, r, vectors) + tiles * (start + 3 * r * vectors);
    };
    return whole * panel(v) + (left == 0 ? 0 : extents.columns_known ? panel(left) : left * panel(1));
  }

  static bool is_much(const Extents& extents) {
    return extents.rows * extents.columns * extents.terms >= 10 * item_work;
  }

  // Of few rows the items are few as well: those of the busiest thread against an equal share.
  static double share_of_busiest(const Extents& extents, const Tile& tile, const Target& target) {
    const double wide = static_cast<double>(tile.vectors * target.lanes),
                 tiles = std::ceil(extents.rows / static_cast<double>(tile.rows));
    return uneven(tiles, tile.beside ? std::ceil(extents.columns / wide) : 1, static_cast<double>(tile.high), 8);
  }

  static const Stmt* packed_load(const Kernel& kernel, const LoopProgram& program) {
    return constant_right_factor(kernel, program);
  }

  // Whether the rows' factor is the same in every batch (the phases of a transposed convolution).
  static bool batches_share_rows(const ContractionNest& nest, const Kernel& kernel, const LoopProgram& program) {
    const RangeEnv env = kernel_ranges(kernel, program);
    for (const ContractionNest::Sum& sum : nest.sums)
      for (const Stmt* stmt : sum.left)
        for (const Loop* loop : nest.batch)
          if (stmt->kind == StmtKind::load && mentions(address_of(*stmt, program, env), loop->var)) return false;
    return true;
  }

  // While the rows pass over one panel, the next one comes from memory: so many terms to a line of it. 0: there is
  // none, too few rows to hide it behind, or sums so short that the fetching shows.
  void set_ahead(const ContractionNest& nest, const Stmt* packed, const LoopProgram& program, const Target& target,
                 Tile& tile) const {
    const int64_t wide = tile.vectors * target.lanes;
    tile.ahead = 0;
    if (!packed || !tile.beside || estimate(nest.innermost_column().extent, program) <= static_cast<double>(wide))
      return;
    const double rows = at_least_one(estimate(nest.row_count(), program)),
                 tiles = std::ceil(rows / static_cast<double>(tile.rows));
    const auto terms = static_cast<int64_t>(tiles * 64 / static_cast<double>(wide * dtype_bytes(packed->dtype)));
    const bool shows = terms < 2 || terms > 64 || estimate(nest.innermost_sum().extent, program) < 128;
    if (!shows) tile.ahead = terms / side_ * side_;
  }

  // Into items: columns beside one another where no row is needed whole, and enough tiles below one another.
  static void spread(const Extents& extents, const Target& target, const ContractionNest& nest, Tile& tile) {
    const double columns = extents.columns, terms = extents.terms,
                 tiles = std::ceil(extents.rows / static_cast<double>(tile.rows));
    // Where each core's cache has room for all columns, items are rows alone: who made them goes on with them.
    const bool near = columns * terms * 4 <= target.second_cache / 2 && tiles >= equal_items / 2;
    tile.beside = !nest.whole_rows() && !near;
    const double wide = tile.beside ? std::min(columns, static_cast<double>(tile.vectors * target.lanes)) : columns;
    const double work = static_cast<double>(tile.rows) * wide * terms;
    // Where an item runs through all columns, the columns' factor passes once for it: the more rows the better, as long
    // as there are items for the threads.
    double high = tile.beside ? std::floor(item_work / work)
                              : std::max(std::floor(item_work / work), std::min(16.0, std::floor(tiles / 6)));
    if (near && !nest.whole_rows()) high = std::min(high, std::floor(tiles / equal_items));
    const double panels = tile.beside ? std::ceil(columns / wide) : 1, most = std::clamp(high, 1.0, tiles);
    const bool few = std::ceil(tiles / most) * panels * extents.batch < plenty_of_items;
    const double least = !few ? most / 2 : tile.beside ? std::min(least_item_work / work, most / 2) : most / 3;
    const bool known = nest.row_count().is_constant();
    tile.high = static_cast<int64_t>(known ? evened(tiles, panels * extents.batch, least, most) : most);
    tile.together = 1;
    if (!tile.beside && known && few && !tile.interleaved) split_items(tile, least_item_work / work, most);
  }

  // Threads are not equally fast, so items are as small as they may be, and those that a thread has one behind the
  // other pass through the columns together.
  static void split_items(Tile& tile, double least, double most) {
    const double high = std::clamp(std::ceil(least), 1.0, most);
    if (high >= static_cast<double>(tile.high)) return;
    tile.high = static_cast<int64_t>(high);
    tile.together = static_cast<int64_t>(std::max(1.0, std::round(most / high)));
  }
};

}  // namespace

const Stmt* constant_right_factor(const Kernel& kernel, const LoopProgram& program) {
  const ContractionNest nest = contraction_nest(kernel);
  const RangeEnv env = kernel_ranges(kernel, program);
  const Loop& columns = nest.innermost_column();
  const Stmt* load = nullptr;
  for (const ContractionNest::Sum& sum : nest.sums)
    for (const Stmt* stmt : sum.right)
      if (stmt->kind == StmtKind::load && mentions(address_of(*stmt, program, env), columns.var)) {
        if (load) return nullptr;
        load = stmt;
      }
  if (!load || load->mask != no_value) return nullptr;
  const Buffer& source = program.buffers[static_cast<size_t>(load->buffer)];
  const bool fixed = (source.role == BufferRole::constant && !source.mutated) || source.role == BufferRole::derived;
  if (!fixed || !columns.extent.is_constant()) return nullptr;
  // Only columns, sums and batches may appear: then the packed copy is the matrices themselves.
  std::set<std::string> symbols, known = {columns.var};
  for (const Loop* loop : nest.batch)
    if (loop->extent.is_constant()) known.insert(loop->var);
  for (const ContractionNest::Sum& sum : nest.sums) {
    if (!sum.stmt->loop->extent.is_constant()) return nullptr;
    known.insert(sum.stmt->loop->var);
  }
  for (const Expr& e : load->index) collect_symbols(e, symbols);
  for (const std::string& s : symbols)
    if (!known.count(s)) return nullptr;
  return load;
}

const Template& product_template(Together together) {
  static const Product single(Together::single), pairs(Together::pairs), quads(Together::quads);
  return together == Together::quads ? quads : together == Together::pairs ? pairs : single;
}

const std::vector<const Template*>& templates() {
  static const std::vector<const Template*> list = {&matrix_template(), &product_template(Together::pairs),
                                                    &product_template(Together::quads),
                                                    &product_template(Together::single)};
  return list;
}

}  // namespace kiln::loops
