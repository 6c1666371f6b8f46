// The product: a tile of rows by vectors of columns is accumulated in registers while the sum runs once.
#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"
#include "schedule/template.h"

namespace kiln::loops {
namespace {

class Product : public Template {
 public:
  const char* name() const override { return "mm"; }

  std::string refuses(const Kernel& kernel, const LoopProgram& program, const Target& target) const override {
    if (target.lanes == 1) return "scalar code has no vectors of columns";
    const ContractionNest nest = contraction_nest(kernel);
    const Loop& columns = nest.innermost_column();
    if (estimate(columns.extent, program) < 8) return "fewer than 8 columns";
    if (packing(kernel, program)) return "";
    // Without neighbouring columns every load of the right factor would be gathered; summing in lanes is better then.
    const RangeEnv env = kernel_ranges(kernel, program);
    for (const Stmt* stmt : nest.right) {
      if (stmt->kind != StmtKind::load) continue;
      auto along = affine_in(address_of(*stmt, program, env), columns.var);
      if (!along || !(along->coefficient.is_constant(1) || along->coefficient.is_constant(0)))
        return str("columns of ", program.buffers[static_cast<size_t>(stmt->buffer)].name,
                   " are not neighbours in memory");
    }
    return "";
  }

  // The right factor's single load, if it is a plain read of a constant whose columns are not neighbours in memory.
  std::optional<Packing> packing(const Kernel& kernel, const LoopProgram& program) const override {
    const ContractionNest nest = contraction_nest(kernel);
    const RangeEnv env = kernel_ranges(kernel, program);
    const Loop &columns = nest.innermost_column(), &sum = nest.innermost_sum();
    const Stmt* load = nullptr;
    for (const Stmt* stmt : nest.right)
      if (stmt->kind == StmtKind::load && mentions(address_of(*stmt, program, env), columns.var)) {
        if (load) return {};
        load = stmt;
      }
    if (!load || load->mask != no_value) return {};
    const Buffer& source = program.buffers[static_cast<size_t>(load->buffer)];
    const bool fixed = (source.role == BufferRole::constant && !source.mutated) || source.role == BufferRole::derived;
    auto along = affine_in(address_of(*load, program, env), columns.var);
    if (!fixed || !along || along->coefficient.is_constant(1)) return {};
    // Only columns and sum may appear: then the packed copy is the matrix itself.
    std::set<std::string> symbols;
    for (const Expr& e : load->index) collect_symbols(e, symbols);
    for (const std::string& s : symbols)
      if (s != columns.var && s != sum.var) return {};
    if (!sum.extent.is_constant() || !columns.extent.is_constant()) return {};
    return Packing{load, {sum.var, columns.var}};
  }

  std::vector<Tile> candidates(const Kernel& kernel, const LoopProgram& program, const Target& target) const override {
    const ContractionNest nest = contraction_nest(kernel);
    const Expr& m = nest.innermost_row().extent;
    // As many accumulators as the registers hold, no more than there are rows.
    int64_t rows = target.vector_registers >= 32 ? 8 : 6;
    if (m.is_constant()) rows = std::clamp<int64_t>(m.value(), 1, rows);
    const double columns = estimate(nest.innermost_column().extent, program);
    return {{rows, columns >= 2.0 * target.lanes ? 2 : 1}};
  }

  double cost(const Kernel& kernel, const LoopProgram& program, const Target& target, const Tile& tile) const override {
    const ContractionNest nest = contraction_nest(kernel);
    auto tiles = [&](const Loop& loop, int64_t of) {
      return std::max(1.0, std::ceil(estimate(loop.extent, program) / static_cast<double>(of)));
    };
    const double depth = std::max(1.0, estimate(nest.innermost_sum().extent, program));
    const double blocks =
        tiles(nest.innermost_row(), tile.rows) * tiles(nest.innermost_column(), tile.vectors * target.lanes);
    // A tile's step: its multiply-adds, and what it loads of either factor.
    const auto r = static_cast<double>(tile.rows), v = static_cast<double>(tile.vectors);
    return blocks * depth * (r * v + 0.5 * (r + v));
  }
};

}  // namespace

const std::vector<const Template*>& templates() {
  static const Product product;
  static const std::vector<const Template*> list = {&product};
  return list;
}

}  // namespace kiln::loops
