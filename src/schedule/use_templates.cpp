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

// The first load of a weight, inside of the sums that run in these lanes, whose elements lie apart for the lanes.
std::optional<Packing> packing_of(const Kernel& kernel, const Loop& lanes, const LoopProgram& program) {
  if (!lanes.extent.is_constant()) return {};
  const RangeEnv env = kernel_ranges(kernel, program);
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
      const Buffer& source = program.buffers[static_cast<size_t>(stmt.buffer)];
      const bool fixed = stmt.mask == no_value && ((source.role == BufferRole::constant && !source.mutated) ||
                                                   source.role == BufferRole::derived);
      const auto along = affine_in(address_of(stmt, program, env), lanes.var);
      if (!fixed || !along || !along->coefficient.is_constant() || std::abs(along->coefficient.value()) <= 1) continue;
      Packing packing{&stmt, {}, lanes.var, lanes.extent.value(), {}};
      std::set<std::string> symbols, known = {lanes.var};
      bool constant = true;
      for (const Loop* sum : sums) {
        packing.terms.push_back(sum->var);
        known.insert(sum->var);
        constant &= sum->extent.is_constant();
      }
      for (const Expr& e : stmt.index) collect_symbols(e, symbols);
      if (constant && std::includes(known.begin(), known.end(), symbols.begin(), symbols.end())) found = packing;
    }
  };
  visit(lanes.body);
  return found;
}

// The same where the lanes are the innermost terms of a window's sums: the weights of each iteration of the loops
// around that they vary with.
std::optional<Packing> packing_of_terms(const Kernel& kernel, const LoopProgram& program) {
  const RangeEnv env = kernel_ranges(kernel, program);
  std::optional<Packing> found;
  std::vector<const Loop*> around;
  std::function<void(const Body&)> visit = [&](const Body& body) {
    for (const Stmt& stmt : body) {
      if (stmt.loop) {
        around.push_back(stmt.loop.get());
        visit(stmt.loop->body);
        around.pop_back();
      }
      if (found || stmt.kind != StmtKind::load || stmt.mask != no_value || around.size() < 2) continue;
      const Loop& lanes = *around.back();
      const bool of_window = lanes.role == AxisRole::reduce && lanes.directives.binding == Binding::lane &&
                             around[around.size() - 2]->role == AxisRole::reduce && lanes.extent.is_constant();
      const Buffer& source = program.buffers[static_cast<size_t>(stmt.buffer)];
      const bool fixed = (source.role == BufferRole::constant && !source.mutated) || source.role == BufferRole::derived;
      if (!of_window || !fixed) continue;
      const auto along = affine_in(address_of(stmt, program, env), lanes.var);
      if (!along || !along->coefficient.is_constant() || std::abs(along->coefficient.value()) <= 1) continue;
      Packing packing{&stmt, {}, lanes.var, lanes.extent.value(), {}};
      std::set<std::string> symbols, known = {lanes.var};
      for (const Expr& e : stmt.index) collect_symbols(e, symbols);
      Expr elements = lanes.extent, all = 1;
      for (const Expr& size : source.sizes) all = all * size;
      for (const Loop* loop : around) {
        if (loop == &lanes || !symbols.count(loop->var)) continue;
        packing.terms.push_back(loop->var);
        known.insert(loop->var);
        elements = elements * loop->extent;
      }
      const bool small = elements.is_constant() && all.is_constant() && elements.value() <= 2 * all.value();
      if (small && !packing.terms.empty() && std::includes(known.begin(), known.end(), symbols.begin(), symbols.end()))
        found = packing;
    }
  };
  visit(kernel.body);
  return found;
}

}  // namespace

bool pack_for_lanes(LoopProgram& program, Kernel& kernel, Log& log) {
  bool changed = false;
  if (kernel.schedule && kernel.schedule->tile.rows > 0) return changed;
  std::vector<const Loop*> lanes;
  for_each_stmt(kernel.body, [&](const Stmt& stmt) {
    if (stmt.loop && stmt.loop->role == AxisRole::parallel && stmt.loop->directives.binding == Binding::lane)
      lanes.push_back(stmt.loop.get());
  });
  for (const Loop* loop : lanes)
    while (const auto packing = packing_of(kernel, *loop, program)) {
      const std::string source = program.buffers[static_cast<size_t>(packing->load->buffer)].name;
      pack(program, kernel, *packing);
      changed = true;
      log.add([&] {
        return Decision{"pack", source, "for", kernel.name, "its elements lie apart for the lanes", true, ""};
      });
    }
  while (const auto packing = packing_of_terms(kernel, program)) {
    const std::string source = program.buffers[static_cast<size_t>(packing->load->buffer)].name;
    pack(program, kernel, *packing);
    changed = true;
    log.add(
        [&] { return Decision{"pack", source, "for", kernel.name, "its terms lie apart for the lanes", true, ""}; });
  }
  return changed;
}

}  // namespace kiln::loops
