#include "schedule/widen_picture.h"

#include "loop_passes/rewrite.h"
#include "schedule/new_loops.h"

namespace kiln::loops {
namespace {

// The dimensions as they lie in memory, the innermost one last.
std::vector<size_t> order_in_memory(const Buffer& buffer) {
  std::vector<size_t> order(buffer.sizes.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = d;
  const bool known =
      std::all_of(buffer.strides.begin(), buffer.strides.end(), [](const Expr& e) { return e.is_constant(); });
  if (known)
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return buffer.strides[a].value() > buffer.strides[b].value(); });
  return order;
}

}  // namespace

Kernel widen_picture(LoopProgram& program, Kernel& kernel, Stmt& load) {
  const Buffer source = program.buffers[static_cast<size_t>(load.buffer)];
  const std::vector<size_t> order = order_in_memory(source);
  Buffer wide;
  wide.name = source.name + "_wide";
  wide.sizes = source.sizes;
  wide.strides.assign(order.size(), Expr(1));
  for (size_t i = order.size(); i-- > 1;) wide.strides[order[i - 1]] = wide.strides[order[i]] * wide.sizes[order[i]];
  std::vector<Expr> sizes, index(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    sizes.push_back(source.sizes[order[i]]);
    index[order[i]] = Expr::symbol(str("i", i));
  }
  const BufferId to = program.add_buffer(std::move(wide));
  Kernel copy;
  copy.name = str("widen_", source.name);
  copy.op_names = {"layout"};
  copy.origins = kernel.origins;
  Body body;
  const ValueId narrow = append(body, load_stmt(copy, source.dtype, load.buffer, index));
  const ValueId value = append(body, op_stmt(copy, ScalarOp::cast, DType::f32, {narrow}));
  body.push_back(store_stmt(DType::f32, to, index, value));
  copy.body = nest_of(sizes, std::move(body));
  load.buffer = to;
  load.dtype = DType::f32;
  kernel.value_types[static_cast<size_t>(load.results[0])] = DType::f32;
  return copy;
}

}  // namespace kiln::loops
