#include "schedule/joined_weights.h"

#include "loop_passes/rewrite.h"

namespace kiln::loops {
namespace {

constexpr const char* join_name = "join";

const Kernel* writer_of(const Item& item, BufferId id) {
  const auto* kernel = std::get_if<Kernel>(&item.what);
  return kernel && accesses(kernel->body).writes.contains(id) ? kernel : nullptr;
}

// A copy of all of a buffer to a place along one dimension.
std::optional<JoinedPart> part_of(const Kernel& kernel, const LoopProgram& program) {
  const Body* body = &kernel.body;
  while (body->size() == 1 && body->front().loop) body = &body->front().loop->body;
  if (kernel.op_names != std::vector<std::string>{join_name} || body->size() != 2) return {};
  const Stmt &load = body->front(), &store = body->back();
  if (load.kind != StmtKind::load || store.kind != StmtKind::store || load.index.size() != store.index.size())
    return {};
  JoinedPart out{load.buffer};
  for (size_t d = 0; d < load.index.size(); ++d) {
    const Expr apart = store.index[d] - load.index[d];
    if (!apart.is_constant()) return {};
    const Expr &whole = program.buffers[static_cast<size_t>(store.buffer)].sizes[d],
               &own = program.buffers[static_cast<size_t>(load.buffer)].sizes[d];
    if (whole == own) continue;
    out.dimension = d, out.offset = apart.value(), out.count = own.value();
  }
  return out.count > 0 ? std::optional(out) : std::nullopt;
}

}  // namespace

void fill_joined(LoopProgram& program, BufferId joined, const std::vector<JoinedPart>& parts) {
  const Buffer made = program.buffers[static_cast<size_t>(joined)];
  for (size_t k = 0; k < parts.size(); ++k) {
    const std::vector<Expr> sizes = program.buffers[static_cast<size_t>(parts[k].from)].sizes;
    Kernel copy;
    copy.name = str(made.name, "_", k);
    copy.op_names = {join_name};
    std::vector<Expr> index = nest_index(sizes.size()), to = index;
    to[parts[k].dimension] = to[parts[k].dimension] + Expr(parts[k].offset);
    Body body;
    const ValueId value = append(body, load_stmt(copy, made.dtype, parts[k].from, index));
    body.push_back(store_stmt(made.dtype, joined, to, value));
    copy.body = nest_of(sizes, std::move(body));
    program.init.push_back(Item{std::move(copy)});
  }
}

std::vector<JoinedPart> joined_parts(const LoopProgram& program, BufferId joined) {
  std::vector<JoinedPart> out;
  for (const Item& item : program.init)
    if (const Kernel* kernel = writer_of(item, joined)) {
      const std::optional<JoinedPart> part = part_of(*kernel, program);
      if (!part) return {};
      out.push_back(*part);
    }
  return out;
}

void drop_unread_derived(LoopProgram& program, BufferId joined) {
  for (const Block* block : {&program.init, &program.block})
    for (const Item& item : *block)
      if (accesses(item).reads.contains(joined)) return;
  std::vector<bool> gone;
  for (const Item& item : program.init) gone.push_back(writer_of(item, joined) != nullptr);
  erase_items(program.init, gone);
  program.buffers[static_cast<size_t>(joined)].role = BufferRole::temp;  // a derived one would have memory
}

}  // namespace kiln::loops
