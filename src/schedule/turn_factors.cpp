// A product of two values that the program computes may have its right factor the wrong way round: a times b
// transposed, where b lies along the sum; a convolution whose weights are computed. Columns that are no neighbours run
// in no tile; each element would be a sum of its own across lanes. A copy that has the columns side by side costs what
// a few rows of the product do.
#include "loop_passes/rewrite.h"
#include "loops/walk.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

constexpr double least_rows = 8, least_products = 1 << 15;

class Turner {
 public:
  Turner(LoopProgram& program, const Target& target, Log& log) : program_(program), target_(target), log_(log) {}

  bool visit(Block& block) {
    bool changed = false;
    for (size_t i = 0; i < block.size(); ++i) {
      for_each_block(block[i], [&](Block& inner) { changed |= visit(inner); });
      auto* kernel = std::get_if<Kernel>(&block[i].what);
      if (!kernel || !kernel->contraction || kernel->schedule) continue;
      std::optional<Kernel> copy = turned(*kernel);
      if (!copy) continue;
      block.insert(block.begin() + static_cast<std::ptrdiff_t>(i++), Item{std::move(*copy)});
      changed = true;
    }
    return changed;
  }

 private:
  // The right factor's load, if it is all of the factor, and its columns are apart while its terms are neighbours.
  const Stmt* load_to_turn(const Kernel& kernel, const ContractionNest& nest) const {
    if (nest.columns.size() != 1) return nullptr;
    std::vector<const Stmt*> right;
    for (const ContractionNest::Sum& sum : nest.sums) right.insert(right.end(), sum.right.begin(), sum.right.end());
    const Stmt* load = right.size() == 1 ? right[0] : nullptr;
    if (!load || load->kind != StmtKind::load || load->mask != no_value) return nullptr;
    const BufferRole role = program_.buffers[static_cast<size_t>(load->buffer)].role;
    const Loop& column = nest.innermost_column();
    if ((role != BufferRole::temp && role != BufferRole::input) || !column.extent.is_constant() ||
        column.extent.value() < target_.lanes)
      return nullptr;
    for (const ContractionNest::Sum& sum : nest.sums)
      if (!sum.stmt->loop->extent.is_constant()) return nullptr;
    const RangeEnv env = kernel_ranges(kernel, program_);
    const Expr address = address_of(*load, program_, env);
    const auto across = affine_in(address, column.var), along = affine_in(address, nest.innermost_sum().var);
    if (!across || !along || !across->coefficient.is_constant() || std::abs(across->coefficient.value()) < 2)
      return nullptr;
    // Of one sum: b transposed. What else has its columns apart is read in other ways.
    if (nest.sums.size() == 1 && !along->coefficient.is_constant(1)) return nullptr;
    std::set<std::string> symbols;
    for (const Expr& e : load->index) collect_symbols(e, symbols);
    return std::any_of(nest.rows.begin(), nest.rows.end(), [&](const Loop* row) { return symbols.contains(row->var); })
               ? nullptr
               : load;
  }

  // Makes the kernel read a copy; gives the kernel that makes it.
  std::optional<Kernel> turned(Kernel& kernel) {
    const ContractionNest nest = contraction_nest(kernel);
    const Stmt* found = load_to_turn(kernel, nest);
    if (!found) return {};
    const double rows = estimate(nest.row_count(), program_);
    const double products = rows * estimate(nest.term_count() * nest.innermost_column().extent, program_);
    if (rows < least_rows || products < least_products) return {};
    // [batch…, terms…, columns], of the batches that the factor has.
    std::set<std::string> symbols;
    for (const Expr& e : found->index) collect_symbols(e, symbols);
    std::vector<const Loop*> loops;
    for (const Loop* loop : nest.batch)
      if (symbols.contains(loop->var)) loops.push_back(loop);
    for (const ContractionNest::Sum& sum : nest.sums) loops.push_back(sum.stmt->loop.get());
    loops.push_back(&nest.innermost_column());
    const Buffer source = program_.buffers[static_cast<size_t>(found->buffer)];
    Buffer copied;
    copied.name = source.name + "_turned";
    copied.dtype = source.dtype;
    copied.role = BufferRole::temp;
    Substitution rename;
    std::vector<Expr> where, place, from;
    for (const Loop* loop : loops) {
      place.push_back(Expr::symbol(str("i", place.size())));
      where.push_back(Expr::symbol(loop->var));
      rename[loop->var] = place.back();
      copied.sizes.push_back(loop->extent);
    }
    copied.strides.assign(copied.sizes.size(), Expr(1));
    for (size_t d = copied.sizes.size(); d-- > 1;) copied.strides[d - 1] = copied.strides[d] * copied.sizes[d];
    for (const Expr& e : found->index) from.push_back(substitute(e, rename));
    Kernel copy;
    copy.name = "turn_" + source.name;
    copy.op_names = {"layout"};
    copy.origins = kernel.origins;
    Body body;
    const ValueId value = append(body, load_stmt(copy, source.dtype, found->buffer, std::move(from)));
    const std::vector<Expr> sizes = copied.sizes;
    const BufferId made = program_.add_buffer(std::move(copied));
    append(body, store_stmt(source.dtype, made, place, value));
    copy.body = nest_of(sizes, std::move(body));
    for_each_stmt(kernel.body, [&](Stmt& stmt) {
      if (&stmt == found) stmt.buffer = made, stmt.index = where;
    });
    log_.add([&] {
      return Decision{"turn", source.name, "for", kernel.name, "its columns are not neighbours in memory", true, ""};
    });
    return copy;
  }

  LoopProgram& program_;
  const Target& target_;
  Log& log_;
};

}  // namespace

bool turn_factors(LoopProgram& program, const Target& target, Log& log) {
  if (target.is_gpu() || target.lanes == 1) return false;
  return Turner(program, target, log).visit(program.block);
}

}  // namespace kiln::loops
