#include "loops/loops.h"

#include <array>

#include "loops/walk.h"

namespace kiln::loops {

static constexpr std::array<ReduceInfo, 9> reductions = {{
    {"sum", 1, 1},
    {"prod", 1, 1},
    {"max", 1, 1},
    {"min", 1, 1},
    {"any", 1, 1},
    {"all", 1, 1},
    {"argmax", 2, 1},
    {"argmin", 2, 1},
    {"welford", 3, 1},
}};

const ReduceInfo& reduce_info(ReduceOp op) {
  auto row = static_cast<size_t>(op);
  KILN_CHECK(row < reductions.size(), "no such reduction");
  return reductions[row];
}

std::optional<ReduceOp> reduce_op_from_name(std::string_view name) {
  for (size_t i = 0; i < reductions.size(); ++i)
    if (name == reductions[i].name) return static_cast<ReduceOp>(i);
  return {};
}

DType Loop::accumulator_dtype(int which) const {
  bool index = which == 1 && (reduce == ReduceOp::argmax || reduce == ReduceOp::argmin);
  return index ? DType::i64 : reduce_dtype;
}

// ---- Copies
// ----------------------------------------------------------------------------------------------------------

Stmt Stmt::clone() const {
  Stmt out;
  out.kind = kind;
  out.results = results;
  out.op = op;
  out.dtype = dtype;
  out.args = args;
  out.constant = constant;
  out.expr = expr;
  out.index_var = index_var;
  out.buffer = buffer;
  out.index = index;
  out.mask = mask;
  out.mode = mode;
  out.site = site;
  if (loop) {
    out.loop = std::make_unique<Loop>();
    out.loop->var = loop->var;
    out.loop->extent = loop->extent;
    out.loop->role = loop->role;
    out.loop->directives = loop->directives;
    out.loop->reduce = loop->reduce;
    out.loop->reduce_dtype = loop->reduce_dtype;
    out.loop->order = loop->order;
    out.loop->only = loop->only;
    out.loop->yields = loop->yields;
    out.loop->running = loop->running;
    out.loop->body = loops::clone(loop->body);
    out.loop->after = loops::clone(loop->after);
  }
  return out;
}

Body clone(const Body& body) {
  Body out;
  out.reserve(body.size());
  for (const Stmt& stmt : body) out.push_back(stmt.clone());
  return out;
}

Kernel Kernel::clone() const {
  Kernel out;
  out.name = name;
  out.op_names = op_names;
  out.value_types = value_types;
  out.body = loops::clone(body);
  out.origins = origins;
  out.contraction = contraction;
  out.schedule = schedule;
  out.named = named;
  return out;
}

static Block clone_block(const Block& block);
static std::unique_ptr<Block> clone_block(const std::unique_ptr<Block>& block) {
  return block ? std::make_unique<Block>(clone_block(*block)) : nullptr;
}

static Item clone_item(const Item& item) {
  struct Copy {
    Item operator()(const Kernel& kernel) const { return {kernel.clone()}; }
    Item operator()(const Call& call) const { return {call}; }
    Item operator()(const BindSymbol& bind) const { return {bind}; }
    Item operator()(const AssertThat& that) const { return {that}; }
    Item operator()(const Cond& cond) const {
      return {
          Cond{cond.predicate, clone_block(cond.then_block), clone_block(cond.else_block), cond.name, cond.origins}};
    }
    Item operator()(const While& loop) const {
      return {While{clone_block(loop.condition_block), loop.predicate, clone_block(loop.body_block),
                    loop.iteration_symbol, loop.name, loop.origins}};
    }
  };
  return std::visit(Copy{}, item.what);
}

static Block clone_block(const Block& block) {
  Block out;
  out.reserve(block.size());
  for (const Item& item : block) out.push_back(clone_item(item));
  return out;
}

LoopProgram LoopProgram::clone() const {
  LoopProgram out;
  out.name = name;
  out.symbols = symbols;
  out.guards = guards;
  out.buffers = buffers;
  out.inputs = inputs;
  out.outputs = outputs;
  out.sites = sites;
  out.init = clone_block(init);
  out.block = clone_block(block);
  out.keep_alive = keep_alive;
  return out;
}

// ---- Programs
// ----------------------------------------------------------------------------------------------------------

RangeEnv LoopProgram::ranges() const {
  RangeEnv env;
  for (const auto& [symbol, info] : symbols) env.ranges[symbol] = info.range;
  return env;
}

BufferId LoopProgram::add_buffer(Buffer buffer) {
  if (buffer_names.size() != buffers.size()) {
    buffer_names.clear();
    for (const Buffer& b : buffers) buffer_names.insert(b.name);
  }
  if (buffer.name.empty()) buffer.name = "buffer";
  std::string wish = buffer.name;
  for (size_t n = buffers.size(); !buffer_names.insert(buffer.name).second; ++n) buffer.name = str(wish, "_", n);
  buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(buffers.size() - 1);
}

// Whether the strides, in whatever order, leave no gap.
static bool dense(const Buffer& buffer) {
  std::vector<bool> taken(buffer.sizes.size(), false);
  Expr reach = 1;
  for (size_t placed = 0; placed < taken.size(); ++placed) {
    size_t d = 0;
    while (d < taken.size() && (taken[d] || !(buffer.strides[d] == reach || buffer.sizes[d].is_constant(1)))) ++d;
    if (d == taken.size()) return false;
    taken[d] = true;
    reach = reach * buffer.sizes[d];
  }
  return true;
}

DType Buffer::tensor_dtype() const { return complex ? complex_of(dtype) : dtype; }

std::vector<Expr> Buffer::tensor_sizes() const {
  return complex ? std::vector<Expr>(sizes.begin(), sizes.end() - 1) : sizes;
}

std::vector<Expr> Buffer::tensor_strides() const {
  if (!complex) return strides;
  std::vector<Expr> out;
  for (size_t d = 0; d + 1 < strides.size(); ++d) out.push_back(floordiv(strides[d], Expr(2)));
  return out;
}

Expr Buffer::tensor_offset() const { return complex ? floordiv(offset, Expr(2)) : offset; }

Buffer buffer_of_tensor(std::string name, DType dtype, const std::vector<Expr>& sizes, const std::vector<Expr>& strides,
                        BufferRole role) {
  Buffer made;
  made.name = std::move(name);
  made.role = role;
  made.dtype = dtype, made.sizes = sizes, made.strides = strides;
  made.complex = is_complex(dtype);
  if (!made.complex) return made;
  made.dtype = complex_part(dtype);
  for (Expr& stride : made.strides) stride = stride * Expr(2);
  made.sizes.emplace_back(2);
  made.strides.emplace_back(1);
  return made;
}

Tensor parts_seen(Tensor tensor) {
  if (!is_complex(tensor.dtype)) return tensor;
  tensor.dtype = complex_part(tensor.dtype);
  for (int64_t& stride : tensor.strides) stride *= 2;
  tensor.offset *= 2;
  tensor.sizes.push_back(2);
  tensor.strides.push_back(1);
  return tensor;
}

Expr buffer_bytes(const Buffer& buffer) {
  const Expr element = dtype_bytes(buffer.dtype);
  if (buffer.offset.is_constant(0) && dense(buffer)) return product(buffer.sizes) * element;
  Expr last = buffer.offset;
  for (size_t d = 0; d < buffer.sizes.size(); ++d) last = last + (buffer.sizes[d] - 1) * buffer.strides[d];
  return max_expr(last + 1, Expr(0)) * element;
}

Where where_of(const std::vector<Origin>& origins) {
  Where where;
  if (origins.empty()) return where;
  const Origin& origin = origins.front();
  if (const SourceLine* line = origin.line()) where.source = *line;
  where.module_path = origin.module_path;
  where.node = origin.node;
  where.op = origin.op;
  return where;
}

// ---- Walking
// ---------------------------------------------------------------------------------------------------------

template <class B, class F>
static void walk_body(B& body, const F& f) {
  for (auto& stmt : body) {
    f(stmt);
    if (!stmt.loop) continue;
    walk_body(stmt.loop->body, f);
    walk_body(stmt.loop->after, f);
  }
}
void for_each_stmt(Body& body, const std::function<void(Stmt&)>& f) { walk_body(body, f); }
void for_each_stmt(const Body& body, const std::function<void(const Stmt&)>& f) { walk_body(body, f); }

template <class B, class F>
static void walk_block(B& block, const F& f) {
  for (auto& item : block) {
    f(item);
    for_each_block(item, [&](auto& inner) { walk_block(inner, f); });
  }
}
void for_each_item(Block& block, const std::function<void(Item&)>& f) { walk_block(block, f); }
void for_each_item(const Block& block, const std::function<void(const Item&)>& f) { walk_block(block, f); }

}  // namespace kiln::loops
