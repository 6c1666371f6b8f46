#include "loop_passes/rewrite.h"
#include "loops/sum_parts.h"
#include "schedule/contractions.h"
#include "schedule/least_code.h"
#include "schedule/packing.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

Tile cheapest(const Template& way, const Kernel& kernel, const LoopProgram& program, const Target& target) {
  const std::vector<Template::Candidate> all = way.candidates(kernel, program, target);
  KILN_CHECK(!all.empty(), str(way.name(), " accepted ", kernel.name, " but has no schedule for it"));
  return cheapest_with_least_code(all).tile;
}

bool use_template(LoopProgram& program, Kernel& kernel, const Target& target, Log& log) {
  for (const Template* way : templates()) {
    const std::string why = way->refuses(kernel, program, target);
    if (!why.empty()) {
      log.add([&] { return Decision{str("no ", way->name(), " template for"), kernel.name, "", "", why, false, ""}; });
      continue;
    }
    kernel.schedule = Schedule();
    kernel.schedule->lanes = target.lanes;
    kernel.schedule->tile = cheapest(*way, kernel, program, target);
    way->prepare(program, kernel, target);
    const std::optional<Packing> packing = way->packing(kernel, program, kernel.schedule->tile, target);
    if (packing) {
      const std::string source = program.buffers[static_cast<size_t>(packing->load->buffer)].name;
      pack(program, kernel, *packing);
      log.add([&] {
        return Decision{"pack", source, "for", kernel.name, str("panels of ", packing->panel, " columns"), true, ""};
      });
    }
    log.add([&] {
      const Tile& tile = kernel.schedule->tile;
      return Decision{str(way->name(), " template for"),
                      kernel.name,
                      "",
                      "",
                      str("tiles of ", tile.rows, " rows and ", tile.vectors, " vectors of ", target.lanes,
                          packing ? ", weight packed" : "", tile.rows_copy != no_buffer ? ", rows copied" : "",
                          is_in_parts(contraction_nest(kernel)) ? ", the sum in parts" : ""),
                      true,
                      ""};
    });
    return true;
  }
  return false;
}

}  // namespace

namespace {

bool tile_block(Block& block, LoopProgram& program, const Target& target, Log& log) {
  bool changed = false;
  for (size_t i = 0; i < block.size(); ++i) {
    if (auto* cond = std::get_if<Cond>(&block[i].what)) {
      changed |= tile_block(*cond->then_block, program, target, log);
      changed |= tile_block(*cond->else_block, program, target, log);
    }
    if (auto* loop = std::get_if<While>(&block[i].what)) {
      changed |= tile_block(*loop->condition_block, program, target, log);
      changed |= tile_block(*loop->body_block, program, target, log);
    }
    auto* kernel = std::get_if<Kernel>(&block[i].what);
    if (!kernel || kernel->schedule) continue;
    if (kernel->contraction) {
      changed |= use_block_tile(program, block, i, target, log);
    } else if (auto sums = split_off_sums(program, *kernel, target, log)) {
      block.insert(block.begin() + static_cast<std::ptrdiff_t>(i++), Item{std::move(*sums)});
      changed = true;
    }
  }
  return changed;
}

}  // namespace

std::set<const Kernel*> repeated_kernels(const LoopProgram& program) {
  std::set<const Kernel*> again;
  for_each_item(program.block, [&](const Item& item) {
    const auto* loop = std::get_if<While>(&item.what);
    if (!loop) return;
    for_each_item(*loop->body_block, [&](const Item& inner) {
      if (const auto* kernel = std::get_if<Kernel>(&inner.what)) again.insert(kernel);
    });
  });
  return again;
}

bool use_templates(LoopProgram& program, const Target& target, Log& log) {
  bool changed = false;
  if (target.is_gpu()) return tile_block(program.block, program, target, log);
  // Packing adds to the init section only, so the block's kernels stay where they are.
  const std::set<const Kernel*> again = repeated_kernels(program);
  for_each_item(program.block, [&](Item& item) {
    auto* kernel = std::get_if<Kernel>(&item.what);
    if (!kernel) return;
    if (!kernel->contraction && !row_of_one(program, *kernel, target, again.contains(kernel))) return;
    changed |= collapse_rows(program, *kernel);
    changed |= use_template(program, *kernel, target, log);
  });
  return changed;
}

namespace {

// Whether each item would read such a matrix, of whose lines it has a few columns, in pieces: every line is another
// page, which neither a processor's prefetching nor the memory likes. A product of one row reads at half of the rate
// that memory has.
bool read_in_pieces(const Stmt& load, const Expr& address, const Loop& lanes, const Loop& sum, const Kernel& kernel,
                    const LoopProgram& program) {
  const int64_t columns = lanes.directives.factor;
  if (columns <= kernel.schedule->lanes) return false;
  const auto across = affine_in(address, sum.var);
  const Buffer& matrix = program.buffers[static_cast<size_t>(load.buffer)];
  return across && across->coefficient.is_constant() && across->coefficient.value() > columns &&
         estimate(buffer_bytes(matrix), program) >= far_matrix;
}

// Of which the last item may have fewer. 0: not known.
int64_t columns_of_item(const Loop& lanes, const RangeEnv& env) {
  if (lanes.extent.is_constant()) return lanes.extent.value();
  const int64_t together = lanes.directives.factor;
  return range_of(lanes.extent, env).high <= together ? together : 0;
}

// The first load of a weight, inside of the sums that run in these lanes, whose elements lie apart for the lanes, or
// whose lines are read in pieces.
std::optional<Packing> packing_of(const Kernel& kernel, const Loop& lanes, const LoopProgram& program, bool by_item) {
  const RangeEnv env = kernel_ranges(kernel, program);
  const int64_t columns = columns_of_item(lanes, env);
  if (columns == 0) return {};
  std::optional<Packing> found;
  std::vector<const Loop*> sums;
  std::function<void(const Body&)> visit = [&](const Body& body) {
    for (const Stmt& stmt : body) {
      if (stmt.loop) {
        sums.push_back(stmt.loop.get());
        visit(stmt.loop->body);
        sums.pop_back();
      }
      if (found || stmt.kind != StmtKind::load || sums.empty()) continue;
      const bool fixed = packs_for_lanes(stmt, program);
      const Expr address = address_of(stmt, program, env);
      const auto along = affine_in(address, lanes.var);
      if (!fixed || !along || !along->coefficient.is_constant()) continue;
      const bool apart = std::abs(along->coefficient.value()) > 1, pieces = along->coefficient.is_constant(1);
      if (!apart && !pieces) continue;
      if (pieces && !read_in_pieces(stmt, address, lanes, *sums.back(), kernel, program)) continue;
      Packing packing{&stmt, {}, lanes.var, columns, {}};
      std::set<std::string> symbols, known = {lanes.var};
      bool constant = true;
      for (const Loop* sum : sums) {
        packing.terms.push_back(sum->var);
        known.insert(sum->var);
        constant &= sum->extent.is_constant();
      }
      for (const Expr& e : stmt.index) collect_symbols(e, symbols);
      collect_symbols(lanes.extent, symbols);
      if (by_item || pieces)
        for (const Loop* item : item_loops(kernel).loops) {
          if (!symbols.contains(item->var)) continue;
          packing.batch.push_back(item->var);
          known.insert(item->var);
          constant &= item->extent.is_constant();
        }
      if (constant && std::includes(known.begin(), known.end(), symbols.begin(), symbols.end())) found = packing;
    }
  };
  visit(lanes.body);
  return found;
}

}  // namespace

bool packs_for_lanes(const Stmt& load, const LoopProgram& program) {
  const Buffer& source = program.buffers[static_cast<size_t>(load.buffer)];
  return load.mask == no_value &&
         ((source.role == BufferRole::constant && !source.mutated) || source.role == BufferRole::derived);
}

bool pack_for_lanes(LoopProgram& program, Kernel& kernel, Log& log, bool by_item) {
  bool changed = false;
  if (kernel.schedule && kernel.schedule->tile.rows > 0) return changed;
  std::vector<const Loop*> lanes;
  for_each_stmt(kernel.body, [&](const Stmt& stmt) {
    if (stmt.loop && stmt.loop->role == AxisRole::parallel && stmt.loop->directives.binding == Binding::lane)
      lanes.push_back(stmt.loop.get());
  });
  for (const Loop* loop : lanes)
    while (const auto packing = packing_of(kernel, *loop, program, by_item)) {
      const std::string source = program.buffers[static_cast<size_t>(packing->load->buffer)].name;
      pack(program, kernel, *packing);
      changed = true;
      log.add([&] {
        const char* why = "its elements lie apart for the lanes, or its lines are read in pieces";
        return Decision{"pack", source, "for", kernel.name, why, true, ""};
      });
    }
  return changed;
}

}  // namespace kiln::loops
