#include "schedule/row_bytes.h"

#include "loop_passes/rewrite.h"
#include "schedule/quantised_numbers.h"

namespace kiln::loops {
namespace {

ValueId as_u8(Kernel& kernel, ValueId bytes, Body& body) {
  if (kernel.value_types[static_cast<size_t>(bytes)] == DType::u8) return bytes;
  const ValueId wide = append(body, op_stmt(kernel, ScalarOp::cast, DType::i32, {bytes}));
  const ValueId middle = append(body, constant_stmt(kernel, DType::i32, Scalar(middle_of_bytes)));
  const ValueId sum = append(body, op_stmt(kernel, ScalarOp::add, DType::i32, {wide, middle}));
  return append(body, op_stmt(kernel, ScalarOp::cast, DType::u8, {sum}));
}

}  // namespace

RowBytes::RowBytes(LoopProgram& program) : program_(program) {
  for_each_item(program.block, [&](Item& item) {
    auto* kernel = std::get_if<Kernel>(&item.what);
    if (std::holds_alternative<Cond>(item.what) || std::holds_alternative<While>(item.what)) return;
    for (BufferId w : accesses(item).writes) kernel ? void(writers_[w].push_back(kernel)) : void(foreign_.insert(w));
  });
}

const std::vector<Kernel*>* RowBytes::writers_of(BufferId id) const {
  const auto found = writers_.find(id);
  return found == writers_.end() ? nullptr : &found->second;
}

// Bytes with a sign are stored a second time, by whom they are stored; those of an input by a kernel of its own.
bool RowBytes::can_shift(BufferId id) const {
  const Buffer& from = buffer(id);
  if (from.mutated || foreign_.contains(id)) return false;
  const auto writers = writers_.find(id);
  if (writers == writers_.end()) return from.role == BufferRole::input;
  bool plain = true;
  for (const Kernel* writer : writers->second)
    for_each_stmt(writer->body, [&](const Stmt& stmt) {
      if (stmt.kind == StmtKind::store && stmt.buffer == id)
        plain = plain && stmt.mode == StoreMode::plain &&
                writer->value_types[static_cast<size_t>(stmt.args[0])] == from.dtype;
    });
  return plain;
}

BufferId RowBytes::of(BufferId from, const std::vector<Origin>& origins) {
  if (buffer(from).dtype == DType::u8) return from;
  if (const auto found = bytes_.find(from); found != bytes_.end()) return found->second;
  Buffer made;
  made.name = buffer(from).name + "_bytes";
  made.dtype = DType::u8;
  made.role = BufferRole::temp;
  made.sizes = buffer(from).sizes;
  made.strides = buffer(from).strides;
  const bool written = writers_.contains(from);
  if (!written)
    for (size_t d = made.sizes.size(); d-- > 0;)
      made.strides[d] = d + 1 == made.sizes.size() ? Expr(1) : made.strides[d + 1] * made.sizes[d + 1];
  const BufferId to = program_.add_buffer(std::move(made));
  bytes_[from] = to;
  if (written)
    for (Kernel* writer : writers_[from]) store_bytes(*writer, writer->body, from, to);
  else
    first_.push_back(Item{shifting(from, to, origins)});
  return to;
}

// A store of what is made of bytes is followed by one of these.
void RowBytes::store_bytes(Kernel& kernel, Body& body, BufferId from, BufferId to) {
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i].loop) {
      store_bytes(kernel, body[i].loop->body, from, to);
      store_bytes(kernel, body[i].loop->after, from, to);
    }
    if (body[i].kind != StmtKind::store || body[i].buffer != from) continue;
    const ValueId bytes =
        is_byte(buffer(from).dtype) && is_byte(kernel.value_types[static_cast<size_t>(body[i].args[0])])
            ? body[i].args[0]
            : quantised(kernel, body[i].args[0])->bytes;
    Body more;
    const ValueId shifted = as_u8(kernel, bytes, more);
    Stmt store = store_stmt(DType::u8, to, body[i].index, shifted);
    store.mask = body[i].mask;
    more.push_back(std::move(store));
    body.insert(body.begin() + static_cast<std::ptrdiff_t>(i + 1), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
    i += more.size();
  }
}

Kernel RowBytes::shifting(BufferId from, BufferId to, const std::vector<Origin>& origins) const {
  Kernel kernel;
  kernel.name = "bytes_of_" + buffer(from).name;
  kernel.op_names = {"bytes"};
  kernel.origins = origins;
  Body body;
  const std::vector<Expr> sizes = buffer(from).sizes, index = nest_index(sizes.size());
  const ValueId value = append(body, load_stmt(kernel, DType::i8, from, index));
  const ValueId shifted = as_u8(kernel, value, body);
  body.push_back(store_stmt(DType::u8, to, index, shifted));
  kernel.body = nest_of(sizes, std::move(body));
  return kernel;
}

void RowBytes::finish() {
  const std::set<BufferId> read = read_buffers(program_.block);
  for (const auto& [from, to] : bytes_)
    if (!read.contains(from) && buffer(from).role == BufferRole::temp && !observable(program_, from))
      for (Kernel* writer : writers_[from]) drop_stores(writer->body, from);
  program_.block.insert(program_.block.begin(), std::make_move_iterator(first_.begin()),
                        std::make_move_iterator(first_.end()));
}

}  // namespace kiln::loops
