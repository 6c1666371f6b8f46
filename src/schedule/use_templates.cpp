#include "loop_passes/rewrite.h"
#include "schedule/packing.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// The cheapest of the template's candidates.
Tile cheapest(const Template& way, const Kernel& kernel, const LoopProgram& program, const Target& target) {
  const std::vector<Tile> tiles = way.candidates(kernel, program, target);
  KILN_CHECK(!tiles.empty(), str(way.name(), " accepted ", kernel.name, " but has no schedule for it"));
  return *std::min_element(tiles.begin(), tiles.end(), [&](const Tile& a, const Tile& b) {
    return way.cost(kernel, program, target, a) < way.cost(kernel, program, target, b);
  });
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
                          packing ? ", weight packed" : ""),
                      true,
                      ""};
    });
    return true;
  }
  return false;
}

}  // namespace

bool use_templates(LoopProgram& program, const Target& target, Log& log) {
  bool changed = false;
  // Packing adds to the init section only, so the block's kernels stay where they are.
  for_each_item(program.block, [&](Item& item) {
    auto* kernel = std::get_if<Kernel>(&item.what);
    if (kernel && kernel->contraction) changed |= use_template(program, *kernel, target, log);
  });
  return changed;
}

}  // namespace kiln::loops
