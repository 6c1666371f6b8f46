// Products by matrix instructions: two by two of their tiles at a time, weights in panels of pairs.
#include "loop_passes/rewrite.h"
#include "schedule/matrix_tiles.h"
#include "schedule/schedule.h"
#include "schedule/template.h"

namespace kiln::loops {
namespace {

// The load of bf16 of which the factor is the value, with nothing in between.
const Stmt* loaded_factor(const std::vector<const Stmt*>& stmts, ValueId factor) {
  if (stmts.size() != 2) return nullptr;
  const Stmt &load = *stmts[0], &cast = *stmts[1];
  const bool fits = load.kind == StmtKind::load && load.dtype == DType::bf16 && cast.kind == StmtKind::op &&
                    cast.op == ScalarOp::cast && cast.results[0] == factor && cast.args[0] == load.results[0];
  return fits ? &load : nullptr;
}

// The distance of neighbouring rows, where all of them are equally far apart and nothing but rows, batches and sums
// says where they are.
std::optional<Expr> distance_of_rows(const Stmt& load, const ContractionNest& nest, const Kernel& kernel,
                                     const LoopProgram& program) {
  const RangeEnv env = kernel_ranges(kernel, program);
  Expr rest = address_of(load, program, env);
  std::set<std::string> known;
  for (const auto& [name, info] : program.symbols) known.insert(name);
  for (const Loop* loop : nest.batch) known.insert(loop->var);
  for (const ContractionNest::Sum& sum : nest.sums) known.insert(sum.stmt->loop->var);
  std::optional<Expr> distance;
  Expr rows = 1;
  for (size_t i = nest.rows.size(); i-- > 0;) {
    const auto along = affine_in(rest, nest.rows[i]->var);
    if (!along) return {};
    if (!distance) distance = along->coefficient;
    const bool in_line = along->coefficient == *distance * rows || nest.rows[i]->extent.is_constant(1);
    if (!in_line) return {};
    rows = rows * nest.rows[i]->extent;
    rest = along->rest;
  }
  std::set<std::string> symbols, of_distance;
  collect_symbols(rest, symbols);
  collect_symbols(*distance, of_distance);
  for (const std::string& s : symbols)
    if (!known.count(s)) return {};
  for (const std::string& s : of_distance)
    if (!program.symbols.count(s)) return {};
  return distance;
}

class MatrixProduct : public Template {
 public:
  const char* name() const override { return "matrix"; }

  std::string refuses(const Kernel& kernel, const LoopProgram& program, const Target& target) const override {
    if (!target.matrix_tiles) return "no matrix instructions";
    const ContractionNest nest = contraction_nest(kernel);
    if (estimate(nest.innermost_column().extent, program) < 8) return "fewer than 8 columns";
    if (estimate(nest.row_count(), program) < 2) return "a single row";
    std::string why;
    if (!matrix_factors(kernel, program, why)) return why;
    // Terms beyond the last are zeros that are multiplied all the same.
    if (nest.innermost_sum().extent.value() < 8) return "fewer than 8 terms";
    if (!constant_right_factor(kernel, program)) return "the right factor is not a constant";
    return "";
  }

  std::optional<Packing> packing(const Kernel& kernel, const LoopProgram& program, const Tile& tile,
                                 const Target& target) const override {
    const Stmt* load = constant_right_factor(kernel, program);
    if (!load) return {};
    const Contraction& names = *kernel.contraction;
    Packing packing{load, names.sums, names.columns.back(), tile.vectors * target.lanes, {}, matrix_terms};
    for (const std::string& var : names.batch)
      if (std::any_of(load->index.begin(), load->index.end(), [&](const Expr& e) { return mentions(e, var); }))
        packing.batch.push_back(var);
    return packing;
  }

  void prepare(LoopProgram& program, Kernel& kernel, const Target&) const override {
    std::string why;
    const auto factors = matrix_factors(kernel, program, why);
    if (factors->row_distance) return;
    Buffer rows;
    rows.name = program.buffers[static_cast<size_t>(factors->left->buffer)].name + "_rows";
    rows.dtype = DType::bf16;
    rows.role = BufferRole::scratch;
    const int64_t terms = copied_terms(contraction_nest(kernel));
    rows.sizes = {kernel.schedule->tile.rows, terms};
    rows.strides = {terms, 1};
    kernel.schedule->tile.rows_copy = program.add_buffer(std::move(rows));
  }

  // One: tiles of two by two instructions share what they load best; what is smaller has smaller ones.
  std::vector<Candidate> candidates(const Kernel& kernel, const LoopProgram& program,
                                    const Target& target) const override {
    const ContractionNest nest = contraction_nest(kernel);
    std::string why;
    const bool copied = !matrix_factors(kernel, program, why)->row_distance;
    const Expr rows = nest.row_count(), columns = nest.innermost_column().extent;
    Tile tile;
    tile.matrix = true;
    tile.rows = rows.is_constant() && rows.value() <= matrix_rows ? matrix_rows : 2 * matrix_rows;
    tile.vectors = columns.is_constant() && columns.value() <= matrix_columns ? 1 : 2;
    double batch = 1;
    for (const Loop* loop : nest.batch) batch *= std::max(1.0, estimate(loop->extent, program));
    const double terms = std::max(1.0, estimate(nest.term_count(), program)),
                 width = std::max(1.0, estimate(columns, program)),
                 tiles = std::ceil(std::max(1.0, estimate(rows, program)) / static_cast<double>(tile.rows)),
                 panel = static_cast<double>(tile.vectors * target.lanes);
    // Where each core's cache has room for all columns, or each item copies its rows, items are rows alone.
    const bool near = width * terms * 2 <= target.second_cache / 2 && tiles * batch >= equal_items / 2;
    tile.beside = !nest.whole_rows() && !near && !(copied && tiles * batch >= equal_items / 2);
    const double work = static_cast<double>(tile.rows) * (tile.beside ? panel : width) * terms;
    double high = std::floor(item_work / work);
    if (!tile.beside) high = std::min(high, std::floor(tiles * batch / equal_items));
    tile.high = copied ? 1 : static_cast<int64_t>(std::clamp(high, 1.0, tiles));
    return {{tile, 1}};
  }

 private:
  static constexpr double item_work = 3000000;  // multiply-adds that an item should have
  static constexpr double equal_items = 16;     // of rows alone, so that threads can have equal parts of them
};

}  // namespace

std::optional<MatrixFactors> matrix_factors(const Kernel& kernel, const LoopProgram& program, std::string& why) {
  const ContractionNest nest = contraction_nest(kernel);
  const ContractionNest::Sum& sum = nest.sums.back();
  const Loop& terms = *sum.stmt->loop;
  auto no = [&](const char* reason) {
    why = reason;
    return std::nullopt;
  };
  if (terms.reduce_dtype != DType::f32) return no("the sum is not of f32");
  MatrixFactors found;
  found.left = loaded_factor(sum.left, kernel.contraction->left);
  found.right = loaded_factor(sum.right, kernel.contraction->right);
  if (!found.left || !found.right || !sum.shared.empty()) return no("the factors are not bf16 as they lie in memory");
  for (size_t i = 0; i + 1 < nest.sums.size(); ++i)
    if (!nest.sums[i].right.empty() || !nest.sums[i].stmt->loop->extent.is_constant())
      return no("the sums around are not plain");
  if (found.right->mask != no_value) return no("the right factor is masked");
  if (!terms.extent.is_constant()) return no("the number of terms is not known");
  const RangeEnv env = kernel_ranges(kernel, program);
  const auto along = affine_in(address_of(*found.left, program, env), terms.var);
  if (!along || !along->coefficient.is_constant(1)) return no("terms of the left factor are not neighbours in memory");
  if (found.left->mask == no_value && terms.extent.value() % matrix_terms == 0)
    found.row_distance = distance_of_rows(*found.left, nest, kernel, program);
  return found;
}

int64_t copied_terms(const ContractionNest& nest) {
  int64_t terms = (nest.innermost_sum().extent.value() + matrix_terms - 1) / matrix_terms * matrix_terms;
  for (size_t i = 0; i + 1 < nest.sums.size(); ++i)
    terms *= std::max<int64_t>(1, nest.sums[i].stmt->loop->extent.value());
  return terms;
}

const Template& matrix_template() {
  static const MatrixProduct product;
  return product;
}

}  // namespace kiln::loops
