// A contraction on a GPU: a block of threads has a tile of the results; both factors' parts of it come into memory that
// the block shares, some terms at a time, and each thread adds up a small tile of its own in registers.
#include <cmath>

#include "loop_passes/rewrite.h"
#include "schedule/contractions.h"
#include "schedule/factors.h"
#include "schedule/fill_channels.h"
#include "schedule/packing.h"
#include "schedule/schedule.h"
#include "schedule/tile_cost.h"

namespace kiln::loops {
namespace {

constexpr int tile_threads = 256;

bool is_pure(const Stmt& stmt) {
  return stmt.kind == StmtKind::op || stmt.kind == StmtKind::constant || stmt.kind == StmtKind::index_value ||
         stmt.kind == StmtKind::load;
}

// Whether nothing but values stands in front of the next loop, and nothing behind it.
bool leads_to(const Body& body, const Loop* next) {
  for (size_t i = 0; i + 1 < body.size(); ++i)
    if (!is_pure(body[i])) return false;
  return !body.empty() && body.back().loop.get() == next;
}

std::string block_tile_refusal(const Kernel& kernel, const ContractionNest& nest, const LoopProgram& program,
                               bool narrow) {
  if (!kiln::is_float(nest.innermost_sum().reduce_dtype)) return "its sum is of integers";
  std::vector<const Loop*> loops;
  for (const auto* part : {&nest.batch, &nest.rows, &nest.columns})
    loops.insert(loops.end(), part->begin(), part->end());
  const Body* body = &kernel.body;
  for (const Loop* loop : loops) {
    if (!leads_to(*body, loop)) return "more than its loops stands around it";
    if (loop->directives.binding != Binding::none) return "its loops run in order";
    body = &loop->body;
  }
  bool summed = false;
  for (const Stmt& stmt : *body) {
    const bool sum = &stmt == nest.sums.front().stmt;
    if (!sum && !is_pure(stmt) && !(summed && stmt.kind == StmtKind::store && stmt.mode == StoreMode::plain))
      return "its results are used by more than values and stores";
    summed |= sum;
  }
  std::set<std::string> inner;
  for (const Loop* loop : loops) inner.insert(loop->var);
  for (const ContractionNest::Sum& sum : nest.sums) {
    inner.insert(sum.stmt->loop->var);
    for (const auto* part : {&sum.left, &sum.right, &sum.shared})
      for (const Stmt* stmt : *part)
        if (!is_pure(*stmt)) return "its factors are more than values";
  }
  for (const ContractionNest::Sum& sum : nest.sums) loops.push_back(sum.stmt->loop.get());
  for (const Loop* loop : loops)
    for (const std::string& var : inner)
      if (mentions(loop->extent, var)) return "the length of a loop depends on another loop";
  const DType type = nest.innermost_sum().reduce_dtype;
  if (type != DType::f32 && type != DType::f64) return "its sum is of no float type";
  if (estimate(nest.row_count(), program) < (narrow ? 2 : 16))
    return "so few rows: a warp for each result reads as much";
  if (estimate(nest.term_count(), program) < 8) return "fewer than 8 terms";
  double columns = 1;
  for (const Loop* loop : nest.columns) columns *= estimate(loop->extent, program);
  if (columns < 16) return "fewer than 16 columns";
  return "";
}

double columns_of(const ContractionNest& nest, const LoopProgram& program) {
  double columns = 1;
  for (const Loop* loop : nest.columns) columns *= estimate(loop->extent, program);
  return columns;
}

ProductSize size_of(const ContractionNest& nest, const LoopProgram& program) {
  ProductSize size{1, estimate(nest.row_count(), program), columns_of(nest, program),
                   estimate(nest.term_count(), program)};
  for (const Loop* loop : nest.batch) size.batch *= estimate(loop->extent, program);
  return size;
}

constexpr double rows_of_warps = 32, terms_of_warps = 32;  // so many at most; a warpgroup has 64

// The tiles that the product's factors allow. Four warps multiply together what comes in words of bf16 or f16.
std::vector<BlockTile> possible_tiles(const Kernel& kernel, const ContractionNest& nest, const LoopProgram& program,
                                      const Target& target) {
  const FactorValue left = factor_value(nest, kernel.contraction->left, true),
                    right = factor_value(nest, kernel.contraction->right, false);
  const ProductSize size = size_of(nest, program);
  if (!target.warpgroups || left.dtype != right.dtype || left.dtype == DType::f32 || size.rows <= rows_of_warps ||
      size.terms <= terms_of_warps || chunks_of(nest, left, true, 8, kernel, program).chunk == 1)
    return warp_tiles();
  const Chunks chunks = chunks_of(nest, right, false, 8, kernel, program);
  // What comes element by element may be laid out anew, along the columns.
  const auto packing = gpu_packing(nest, right.load, program);
  if (chunks.chunk == 1 && (!packing || packing->panel % 8 != 0)) return warp_tiles();
  std::vector<BlockTile> out = warpgroup_tiles();
  if (!chunks.along_terms || chunks.chunk == 1)
    std::erase_if(out, [](const BlockTile& tile) { return tile.part_columns % 64 != 0; });
  return out;
}

struct Choice {
  std::optional<BlockTile> tile;
  int64_t parts = 1;
  std::string split;  // the sum that has the parts
};

// The cheapest tile, and into how many parts its sum is split so that enough of them run beside one another.
Choice choose_tile(const std::vector<BlockTile>& tiles, const ContractionNest& nest, bool may_split,
                   const LoopProgram& program, const Target& target) {
  const ProductSize size = size_of(nest, program);
  Choice best;
  double least = 0;
  for (const BlockTile& tile : tiles) {
    for (const int64_t parts : {1, 2, 3, 4, 6, 8, 12, 16}) {
      std::string split;
      // Blocks that have a tile together share out its stages, whatever its sums are. That is for multiprocessors that
      // would have nothing to do: else joining costs more than it gains.
      const bool together = target.most_parts > 1;
      const auto count = static_cast<double>(parts);
      if (together && parts > 1 &&
          (parts > target.most_parts || (parts & (parts - 1)) != 0 || !clusters_fit(tile, size, count, target) ||
           count * tile.terms > size.terms))
        continue;
      if (parts > 1 && !together) {
        // Whole stages in each part, so that nothing is computed for nothing.
        const Loop& sum = nest.innermost_sum();
        const bool whole =
            nest.sums.size() == 1 && sum.extent.is_constant() && sum.extent.value() % (parts * tile.terms) == 0;
        if (!may_split || !whole) continue;
        split = sum.var;
      }
      const double cost = tile_cost(tile, size, count, target);
      if (!best.tile || cost < least) best = {tile, parts, split}, least = cost;
    }
  }
  return best;
}

// Whether matrix instructions give what multiply-adds of f32 would: of factors that are bf16 or f16, and of one that is
// f32 with one that is bf16, where the first is the sum of three of bf16.
bool has_exact_matrices(const Kernel& kernel, const ContractionNest& nest, const LoopProgram& program) {
  const DType left = factor_value(nest, kernel.contraction->left, true).dtype;
  const DType right = factor_value(nest, kernel.contraction->right, false).dtype;
  if (nest.innermost_sum().reduce_dtype != DType::f32) return false;
  if (left == DType::f32 && right == DType::bf16) return lies_along_terms(nest.sums, true, kernel, program);
  return left == right && (left == DType::bf16 || left == DType::f16);
}

// Whether matrix instructions may be used all the same: factors of f32 are rounded to TF32 where the user says so.
bool may_round(const Kernel& kernel, const ContractionNest& nest, const Target& target) {
  return target.tf32 && nest.innermost_sum().reduce_dtype == DType::f32 &&
         factor_value(nest, kernel.contraction->left, true).dtype == DType::f32 &&
         factor_value(nest, kernel.contraction->right, false).dtype == DType::f32;
}

// A tile by matrix instructions.
Grid matrix_grid(const BlockTile& tile, int64_t parts, LoopProgram& program, Kernel& kernel, const Target& target) {
  ContractionNest nest = contraction_nest(kernel);
  Grid grid;
  grid.tensor_cores = true;
  grid.warpgroups = tile.warpgroups;
  grid.tile_rows = tile.rows, grid.tile_columns = tile.columns;
  grid.thread_rows = tile.part_rows, grid.thread_columns = tile.part_columns;
  grid.threads = grid.team =
      (tile.warpgroups ? 128 : 32) * (tile.rows / tile.part_rows) * (tile.columns / tile.part_columns);
  grid.tile_terms = tile.terms;
  grid.parts = static_cast<int>(parts);
  const int64_t widest = dtype_bytes(factor_value(nest, kernel.contraction->left, true).dtype);
  grid.stages = tile_stages(tile, size_of(nest, program), static_cast<double>(parts), widest, target);
  FactorValue right = factor_value(nest, kernel.contraction->right, false);
  const int word = static_cast<int>(16 / dtype_bytes(right.dtype));
  Chunks from = chunks_of(nest, right, false, word, kernel, program);
  if (const auto packing = gpu_packing(nest, right.load, program);
      packing && from.chunk == 1 && packing->panel % 8 == 0 && right.dtype != DType::f32) {
    pack(program, kernel, *packing);
    nest = contraction_nest(kernel);
    right = factor_value(nest, kernel.contraction->right, false);
    from = chunks_of(nest, right, false, word, kernel, program);
  }
  grid.right_along_terms = from.along_terms, grid.right_chunk = from.chunk;
  const FactorValue left = factor_value(nest, kernel.contraction->left, true);
  const auto bytes = static_cast<int>(dtype_bytes(left.dtype));
  const Chunks to = chunks_of(nest, left, true, 16 / bytes, kernel, program, 4 / bytes);
  grid.left_along_terms = to.along_terms, grid.left_chunk = to.chunk;
  // Matrices of 32 bits cannot be turned on the way into registers: their lines in shared memory are along the terms.
  if (right.dtype == DType::f32 && !grid.right_along_terms) grid.right_along_terms = true, grid.right_chunk = 1;
  if (right.dtype == DType::f32 && !grid.left_along_terms) grid.left_along_terms = true, grid.left_chunk = 1;
  return grid;
}

// A tile by multiply-adds.
Grid plain_grid(const LoopProgram& program, const Kernel& kernel, const Target& target) {
  const ContractionNest nest = contraction_nest(kernel);
  const double columns = columns_of(nest, program), rows = estimate(nest.row_count(), program);
  double batch = 1;
  for (const Loop* loop : nest.batch) batch *= estimate(loop->extent, program);
  Grid grid{tile_threads, tile_threads};
  const DType type = nest.innermost_sum().reduce_dtype;
  // Large tiles read less; where few of them there would be, small ones keep more of the GPU at work.
  const double results = batch * rows * columns;
  const bool large = results >= 128.0 * 128 * target.multiprocessors && type == DType::f32;
  grid.tile_rows = grid.tile_columns = large ? 128 : results >= 64.0 * 64 * target.multiprocessors ? 64 : 32;
  grid.tile_terms = 16;
  grid.thread_rows = grid.thread_columns = grid.tile_rows / 16;
  grid.stages = 3;
  const int chunk = static_cast<int>(16 / dtype_bytes(type));
  auto fetched = [&](bool left) {
    const FactorValue factor = factor_value(nest, left ? kernel.contraction->left : kernel.contraction->right, left);
    Chunks chunks = chunks_of(nest, factor, left, chunk, kernel, program);
    if (chunks.along_terms || factor.dtype != type) chunks.chunk = 1;  // terms lie below one another in the tile
    return chunks;
  };
  const Chunks left = fetched(true), right = fetched(false);
  grid.left_along_terms = left.along_terms, grid.left_chunk = left.chunk;
  grid.right_along_terms = right.along_terms, grid.right_chunk = right.chunk;
  return grid;
}

void set_tile(Kernel& kernel, const Grid& grid, Log& log) {
  const ContractionNest nest = contraction_nest(kernel);
  for (const auto* part : {&nest.batch, &nest.rows, &nest.columns})
    for (const Loop* loop : *part) const_cast<Loop*>(loop)->directives = {Binding::item, 0, Tail::exact};
  kernel.schedule = Schedule();
  kernel.schedule->grid = grid;
  log.add([&] {
    return Decision{"tile of a block for",
                    kernel.name,
                    "",
                    "",
                    str(grid.tile_rows, " rows by ", grid.tile_columns, " columns",
                        grid.tensor_cores ? " by matrix instructions" : ""),
                    true,
                    ""};
  });
}

// ---- A left factor that is computed
// -------------------------------------------------------------------------------------

constexpr double worth_storing = 128;  // columns that would compute the factor anew

// The left factor of a product, where it is rounded to a narrow type and is no plain row of memory: a kernel that
// stores it, so that the product fetches words of it. Each column's tiles would compute it again.
std::optional<Kernel> store_left_factor(LoopProgram& program, Kernel& kernel) {
  const ContractionNest nest = contraction_nest(kernel);
  Contraction& names = *kernel.contraction;
  const FactorValue factor = factor_value(nest, names.left, true);
  const Expr& terms = nest.innermost_sum().extent;
  if (chunks_of(nest, factor, true, 8, kernel, program).chunk > 1 || columns_of(nest, program) < worth_storing ||
      (factor.dtype != DType::bf16 && factor.dtype != DType::f16) || !terms.is_constant() || terms.value() % 8 != 0)
    return {};
  // Everything that may belong to it, in order, and of that what it needs.
  std::vector<const Stmt*> all;
  const auto add = [&](const Body& body) {
    for (const Stmt& stmt : body)
      if (!stmt.loop) all.push_back(&stmt);
  };
  std::vector<const Loop*> loops;
  for (const auto* part : {&nest.batch, &nest.rows}) loops.insert(loops.end(), part->begin(), part->end());
  for (const ContractionNest::Sum& sum : nest.sums) loops.push_back(sum.stmt->loop.get());
  add(kernel.body);
  for (const Loop* loop : loops) add(loop->body);
  ValueId narrow = no_value;
  for (const Stmt* stmt : all)
    if (stmt->results.size() == 1 && stmt->results[0] == names.left && stmt->kind == StmtKind::op &&
        stmt->op == ScalarOp::cast)
      narrow = stmt->args[0];
  if (narrow == no_value || kernel.value_types[static_cast<size_t>(narrow)] != factor.dtype) return {};
  std::set<ValueId> needed = {narrow};
  std::vector<const Stmt*> kept;
  for (size_t i = all.size(); i-- > 0;) {
    if (all[i]->results.empty() || !needed.contains(all[i]->results[0])) continue;
    if (!is_pure(*all[i])) return {};
    needed.insert(all[i]->args.begin(), all[i]->args.end());
    if (all[i]->mask != no_value) needed.insert(all[i]->mask);
    kept.insert(kept.begin(), all[i]);
  }
  for (ValueId v : needed)  // what stands elsewhere (in the columns' loop) cannot be copied
    if (std::none_of(kept.begin(), kept.end(), [&](const Stmt* stmt) { return stmt->results[0] == v; })) return {};

  Buffer stored;
  stored.name = kernel.name + "_left";
  stored.dtype = factor.dtype;
  std::vector<Expr> index;
  for (const Loop* loop : loops) {
    stored.sizes.push_back(loop->extent);
    index.push_back(Expr::symbol(loop->var));
  }
  stored.strides.assign(stored.sizes.size(), Expr(1));
  for (size_t d = stored.sizes.size(); d-- > 1;) stored.strides[d - 1] = stored.strides[d] * stored.sizes[d];
  const BufferId buffer = program.add_buffer(std::move(stored));

  Kernel out;
  out.name = kernel.name + "_left";
  out.op_names = kernel.op_names;
  out.origins = kernel.origins;
  Copier copier(kernel, out, {});
  for (const Loop* loop : loops) copier.variables[loop->var] = Expr::symbol(loop->var);
  Body body;
  for (const Stmt* stmt : kept) append(body, copier.copy(*stmt, body));
  append(body, store_stmt(factor.dtype, buffer, index, copier.value(narrow)));
  for (size_t i = loops.size(); i-- > 0;) {
    Stmt loop = loop_stmt(loops[i]->var, loops[i]->extent);
    loop.loop->body = std::move(body);
    body.clear();
    body.push_back(std::move(loop));
  }
  out.body = std::move(body);

  // The product reads it instead.
  const std::set<ValueId> gone(names.left_values.begin(), names.left_values.end());
  const ValueId old = names.left;
  const std::string innermost = names.sums.back();
  for_each_stmt(kernel.body, [&](Stmt& stmt) {
    if (!stmt.loop || std::find(names.sums.begin(), names.sums.end(), stmt.loop->var) == names.sums.end()) return;
    std::erase_if(stmt.loop->body,
                  [&](const Stmt& s) { return !s.loop && s.results.size() == 1 && gone.contains(s.results[0]); });
    if (stmt.loop->var != innermost) return;
    Stmt load = load_stmt(kernel, factor.dtype, buffer, index);
    Stmt wide = op_stmt(kernel, ScalarOp::cast, DType::f32, {load.results[0]});
    names.left = wide.results[0];
    names.left_values = {load.results[0], wide.results[0]};
    Body& inner = stmt.loop->body;
    for (ValueId& v : inner.back().args)
      if (v == old) v = names.left;
    inner.insert(inner.begin(), std::move(wide));
    inner.insert(inner.begin(), std::move(load));
  });
  std::erase_if(kernel.named,
                [&](const NamedValue& named) { return gone.contains(named.value) || gone.contains(named.mask); });
  return out;
}

// ---- What follows a product on its whole rows
// ---------------------------------------------------------------------------

std::set<ValueId> values_of(const Body& body) {
  std::set<ValueId> out;
  for_each_stmt(body, [&](const Stmt& stmt) {
    out.insert(stmt.results.begin(), stmt.results.end());
    if (stmt.loop) out.insert(stmt.loop->running.begin(), stmt.loop->running.end());
  });
  return out;
}

// The body of the innermost row: what stands there in front of the columns, their loop, and what follows.
Body& row_body(Kernel& kernel) {
  const std::string innermost = kernel.contraction->rows.back();
  Body* found = nullptr;
  for_each_stmt(kernel.body, [&](Stmt& stmt) {
    if (stmt.loop && stmt.loop->var == innermost) found = &stmt.loop->body;
  });
  return *found;
}

using RowsOf = std::function<Body&(Kernel&)>;

// A product whose rows go on (a softmax) is two kernels here: the product's blocks have tiles, not whole rows. What it
// stores of its rows is memory already. Gives the first one; the kernel is left with the rest.
std::optional<Kernel> split_off_columns(Kernel& kernel, const LoopProgram& program, const RowsOf& row_body,
                                        const std::string& columns) {
  Body& rows = row_body(kernel);
  auto loop = std::find_if(rows.begin(), rows.end(), [&](const Stmt& s) { return s.loop && s.loop->var == columns; });
  if (loop == rows.end() || loop + 1 == rows.end()) return {};
  if (!std::all_of(rows.begin(), loop, is_pure)) return {};
  bool temporary = true;
  for_each_stmt(loop->loop->body, [&](const Stmt& s) {
    if (s.kind != StmtKind::store) return;
    const BufferRole role = program.buffers[static_cast<size_t>(s.buffer)].role;
    temporary &= s.mode == StoreMode::plain && role != BufferRole::scratch;
  });
  if (!temporary) return {};
  const auto place = loop - rows.begin();
  Kernel product = kernel.clone();
  Body& kept = row_body(product);
  kept.erase(kept.begin() + place + 1, kept.end());
  rows.erase(rows.begin() + place);
  kernel.contraction.reset();
  for (Kernel* part : {&product, &kernel}) {
    const std::set<ValueId> made = values_of(part->body);
    std::erase_if(part->named, [&](const NamedValue& named) {
      return !made.contains(named.value) || (named.mask != no_value && !made.contains(named.mask));
    });
  }
  return product;
}

// The body inside of the perfectly nested parallel loops.
Body& innermost_body(Kernel& kernel) {
  Body* body = &kernel.body;
  while (body->size() == 1 && body->front().loop && body->front().loop->role == AxisRole::parallel &&
         body->front().loop->directives.binding == Binding::none)
    body = &body->front().loop->body;
  return *body;
}

}  // namespace

std::optional<Kernel> split_off_sums(LoopProgram& program, Kernel& kernel, const Target& target, Log& log) {
  constexpr double much = 8192;  // products of an item
  const Body& row = innermost_body(kernel);
  const auto first = std::find_if(row.begin(), row.end(), [](const Stmt& stmt) { return stmt.loop != nullptr; });
  if (first == row.end() || first + 1 == row.end() || first->loop->role != AxisRole::parallel) return {};
  const bool goes_on = std::any_of(first + 1, row.end(), [](const Stmt& stmt) { return stmt.loop != nullptr; });
  double terms = 0;
  for (const Stmt& stmt : first->loop->body)
    if (stmt.loop && stmt.loop->role == AxisRole::reduce) terms += estimate(stmt.loop->extent, program);
  double items = 1;
  for (const Body* body = &kernel.body; body != &row; body = &body->front().loop->body)
    items *= std::max(1.0, estimate(body->front().loop->extent, program));
  if (!goes_on || terms * estimate(first->loop->extent, program) < much || items >= 4.0 * target.multiprocessors)
    return {};
  auto sums = split_off_columns(kernel, program, innermost_body, first->loop->var);
  if (sums)
    log.add([&] { return Decision{"sums apart from", kernel.name, "", "", "few items have many of them", true, ""}; });
  return sums;
}

bool use_block_tile(LoopProgram& program, Block& block, size_t& at, const Target& target, Log& log) {
  if (contraction_nest(std::get<Kernel>(block[at].what)).whole_rows()) {
    Kernel& whole = std::get<Kernel>(block[at].what);
    auto product = split_off_columns(whole, program, row_body, whole.contraction->columns.front());
    if (!product) {
      log.add([&] { return Decision{"no tile of a block for", whole.name, "", "", "its rows go on", false, ""}; });
      return false;
    }
    block.insert(block.begin() + static_cast<std::ptrdiff_t>(at), Item{std::move(*product)});
    use_block_tile(program, block, at, target, log);
    ++at;  // the rest
    return true;
  }
  Kernel& kernel = std::get<Kernel>(block[at].what);
  const ContractionNest nest = contraction_nest(kernel);
  const bool narrow = has_exact_matrices(kernel, nest, program) || may_round(kernel, nest, target);
  const std::string why = block_tile_refusal(kernel, nest, program, narrow);
  if (!why.empty()) {
    log.add([&] { return Decision{"no tile of a block for", kernel.name, "", "", why, false, ""}; });
    return false;
  }
  if (!narrow) {
    set_tile(kernel, plain_grid(program, kernel, target), log);
    return true;
  }
  if (auto copy = fill_channels(program, kernel)) {
    log.add([&] {
      return Decision{"channels filled up for", kernel.name, "", "", "so many do not come in words", true, ""};
    });
    block.insert(block.begin() + static_cast<std::ptrdiff_t>(at++), Item{std::move(*copy)});
    return use_block_tile(program, block, at, target, log);
  }
  if (auto left = store_left_factor(program, kernel)) {
    log.add([&] {
      return Decision{"left factor stored for", kernel.name, "", "", "its tiles would compute it again", true, ""};
    });
    block.insert(block.begin() + static_cast<std::ptrdiff_t>(at++), Item{std::move(*left)});
    return use_block_tile(program, block, at, target, log);
  }
  const std::vector<BlockTile> tiles = possible_tiles(kernel, nest, program, target);
  const Choice choice = choose_tile(tiles, nest, true, program, target);
  if (choice.parts > 1 && target.most_parts > 1) {
    set_tile(kernel, matrix_grid(*choice.tile, choice.parts, program, kernel, target), log);
    return true;
  }
  if (choice.parts > 1) {
    const std::string outer = kernel.contraction->sums.front();
    if (auto parts = split_sum(program, kernel, target, outer, choice.split, choice.parts)) {
      kernel.contraction.reset();
      parts->name = kernel.name + "_parts";
      FoundContraction found = recognise_contraction(*parts, program);
      KILN_CHECK(found.contraction, str("the parts of ", kernel.name, " are no contraction: ", found.reason));
      parts->contraction = std::move(found.contraction);
      set_tile(*parts, matrix_grid(*choice.tile, 1, program, *parts, target), log);
      block.insert(block.begin() + static_cast<std::ptrdiff_t>(at++), Item{std::move(*parts)});
      return true;
    }
  }
  const Choice alone = choose_tile(tiles, nest, false, program, target);
  const Grid grid = matrix_grid(*alone.tile, 1, program, kernel, target);
  set_tile(kernel, grid, log);
  return true;
}

}  // namespace kiln::loops
