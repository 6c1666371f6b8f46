// A tile of a product reads a dozen rows at once, each along its own line. Where rows lie a multiple of 4096 bytes
// apart, as those of 1024 or 3072 numbers do, their lines all fall into one set of the first cache, which holds 8 or
// 12 of them: every read then comes from the second cache. Temporaries whose rows a product reads that way get a gap
// of one line behind each row, and the rows spread over the sets.
//
// Keys and values of attention are read again for every block of rows, some hundred of their rows at a time: theirs
// already crowd the sets of both caches where they lie a multiple of 512 bytes apart, as the heads of most models do.
#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

constexpr int64_t bytes_of_sets = 4096;  // a line of each set: 64 sets of 64 bytes, on every processor of today
constexpr int64_t line_bytes = 64, bytes_of_many_sets = 512;

class RowStaggerer {
 public:
  RowStaggerer(LoopProgram& program, Log& log) : program_(program), log_(log) {}

  bool run() {
    pinned_ = pinned_buffers(program_);
    for (const Item& item : program_.block)
      if (const auto* kernel = std::get_if<Kernel>(&item.what); kernel && kernel->contraction) visit(*kernel);
    return changed_;
  }

 private:
  // Rows' factors, and columns': of these either the terms are neighbours, as those of keys are, or the columns.
  void visit(const Kernel& kernel) {
    const ContractionNest nest = contraction_nest(kernel);
    const RangeEnv env = kernel_ranges(kernel, program_);
    for (const ContractionNest::Sum& sum : nest.sums) {
      const Loop &row = nest.innermost_row(), &column = nest.innermost_column(), &term = nest.innermost_sum();
      for (const Stmt* load : sum.left) consider(*load, row, term, bytes_of_sets, env);
      for (const Stmt* load : sum.right)
        for (const auto& [across, along] : {std::pair(&column, &term), std::pair(&term, &column)}) {
          consider(*load, *across, *along, bytes_of_sets, env);
          consider(*load, *across, *along, bytes_of_many_sets, env);
        }
    }
  }

  void consider(const Stmt& load, const Loop& row_loop, const Loop& along_loop, int64_t crowded, const RangeEnv& env) {
    const std::string &row = row_loop.var, &term = along_loop.var;
    if (load.kind != StmtKind::load || pinned_.contains(load.buffer)) return;
    Buffer& b = program_.buffers[static_cast<size_t>(load.buffer)];
    if (b.role != BufferRole::temp || !b.offset.is_constant(0)) return;
    const Expr address = address_of(load, program_, env);
    const auto along = affine_in(address, term), apart = affine_in(address, row);
    if (!along || !along->coefficient.is_constant(1) || !apart || !apart->coefficient.is_constant()) return;
    const int64_t distance = apart->coefficient.value() * dtype_bytes(b.dtype);
    if (distance == 0 || distance % crowded != 0) return;
    // Whole rows one behind the other, of which as much is read, are in all sets.
    if (crowded < bytes_of_sets &&
        !(along_loop.extent.is_constant() && along_loop.extent.value() * dtype_bytes(b.dtype) < distance))
      return;
    // Rows are the dimension that the row's variable numbers, the nearest where it numbers several.
    std::optional<size_t> rows;
    for (size_t d = 0; d < b.sizes.size(); ++d)
      if (mentions(load.index[d], row) && b.strides[d].is_constant() &&
          (!rows || b.strides[d].value() < b.strides[*rows].value()))
        rows = d;
    if (rows && !b.strides[*rows].is_constant(1)) widen(b, *rows);
  }

  // Dimensions from the innermost on: those that are of a row stay, the others move apart by a line for each row.
  void widen(Buffer& b, size_t rows) {
    std::vector<Expr> strides = b.strides;
    std::vector<bool> placed(b.sizes.size());
    Expr dense = 1, wider = 1;
    for (size_t left = b.sizes.size(); left > 0; --left) {
      size_t next = b.sizes.size();
      for (size_t d = b.sizes.size(); d-- > 0;)
        if (!placed[d] && (b.strides[d] == dense || b.sizes[d].is_constant(1)) &&
            (next == b.sizes.size() || !b.sizes[d].is_constant(1)))
          next = d;
      if (next == b.sizes.size()) return;  // not dense: someone had reasons
      if (next == rows) wider = wider + line_bytes / dtype_bytes(b.dtype);
      strides[next] = wider;
      placed[next] = true;
      dense = dense * b.sizes[next], wider = wider * b.sizes[next];
    }
    b.strides = strides;
    changed_ = true;
    log_.add([&] {
      return Decision{"lay out", b.name, "", "", "a gap behind each row: rows would meet in one set of the cache",
                      true,      ""};
    });
  }

  LoopProgram& program_;
  Log& log_;
  std::set<BufferId> pinned_;
  bool changed_ = false;
};

}  // namespace

bool stagger_rows(LoopProgram& program, const Target& target, Log& log) {
  return !target.is_gpu() && target.lanes > 1 && RowStaggerer(program, log).run();
}

}  // namespace kiln::loops
