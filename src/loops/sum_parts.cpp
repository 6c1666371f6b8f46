#include "loops/sum_parts.h"

namespace kiln::loops {

bool is_in_parts(const ContractionNest& nest) {
  return nest.sums.front().stmt->loop->directives.binding == Binding::serial;
}

const Stmt* place_of_sums(const Kernel& kernel, const LoopProgram& program) {
  const ContractionNest nest = contraction_nest(kernel);
  if (nest.whole_rows() || nest.innermost_sum().reduce_dtype != DType::f32) return nullptr;
  const Stmt* place = nullptr;
  int stores = 0;
  for_each_stmt(kernel.body, [&](const Stmt& stmt) { stores += stmt.kind == StmtKind::store; });
  for (const Stmt& stmt : nest.innermost_column().body)
    if (stmt.kind == StmtKind::store) place = &stmt;
  if (!place || stores != 1 || place->mode != StoreMode::plain || place->mask != no_value) return nullptr;
  const Buffer& buffer = program.buffers[static_cast<size_t>(place->buffer)];
  if (buffer.dtype != DType::f32 || buffer.role == BufferRole::scratch) return nullptr;
  bool read = false;
  for_each_stmt(kernel.body, [&](const Stmt& stmt) {
    read |= (stmt.kind == StmtKind::load && stmt.buffer == place->buffer) || stmt.kind == StmtKind::check_index;
  });
  if (read) return nullptr;
  const std::string& column = nest.innermost_column().var;
  for (size_t d = 0; d < place->index.size(); ++d) {
    if (!mentions(place->index[d], column)) continue;
    const auto along = affine_in(place->index[d], column);
    if (!along || !along->coefficient.is_constant(1) || !buffer.strides[d].is_constant(1)) return nullptr;
  }
  return place;
}

}  // namespace kiln::loops
