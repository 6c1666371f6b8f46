#include "schedule/packing.h"

#include "loop_passes/rewrite.h"

namespace kiln::loops {
namespace {

Stmt* find_load(Body& body, const Stmt* load) {
  Stmt* found = nullptr;
  for_each_stmt(body, [&](Stmt& stmt) {
    if (&stmt == load) found = &stmt;
  });
  return found;
}

const Loop* find_loop(const Body& body, const std::string& var) {
  const Loop* found = nullptr;
  for_each_stmt(body, [&](const Stmt& stmt) {
    if (stmt.loop && stmt.loop->var == var) found = stmt.loop.get();
  });
  return found;
}

Stmt loop_over(const std::string& var, const Expr& extent, Body body) {
  Stmt stmt;
  stmt.kind = StmtKind::loop;
  stmt.loop = std::make_unique<Loop>();
  stmt.loop->var = var;
  stmt.loop->extent = extent;
  stmt.loop->body = std::move(body);
  return stmt;
}

// value < limit, as a value of the kernel
ValueId below(Kernel& kernel, const Expr& value, const Expr& limit, Body& body) {
  std::vector<ValueId> sides;
  for (const Expr& e : {value, limit}) {
    Stmt side;
    side.kind = StmtKind::index_value;
    side.dtype = DType::i64;
    side.expr = e;
    side.results = {new_value(kernel, DType::i64)};
    sides.push_back(side.results[0]);
    body.push_back(std::move(side));
  }
  Stmt compare;
  compare.kind = StmtKind::op;
  compare.op = ScalarOp::lt;
  compare.dtype = DType::boolean;
  compare.args = sides;
  compare.results = {new_value(kernel, DType::boolean)};
  const ValueId out = compare.results[0];
  body.push_back(std::move(compare));
  return out;
}

}  // namespace

void pack(LoopProgram& program, Kernel& kernel, const Packing& packing) {
  Stmt* load = find_load(kernel.body, packing.load);
  KILN_CHECK(load, str("the operand to be packed is not in ", kernel.name));
  const Buffer source = program.buffers[static_cast<size_t>(load->buffer)];
  Buffer packed;
  packed.name = source.name + "_packed";
  packed.dtype = source.dtype;
  packed.role = BufferRole::derived;
  // [panel, terms…, column of the panel]; columns beyond the last are zeros.
  const Expr columns = find_loop(kernel.body, packing.columns)->extent, width(packing.panel);
  const Expr column = Expr::symbol(packing.columns);
  packed.sizes = {ceildiv(columns, packing.panel)};
  std::vector<Expr> place = {Expr::symbol("i0")}, where = {floordiv(column, width)};
  Substitution rename;
  for (const std::string& var : packing.terms) {
    const Expr fresh = Expr::symbol(str("i", place.size()));
    rename[var] = fresh;
    place.push_back(fresh);
    where.push_back(Expr::symbol(var));
    packed.sizes.push_back(find_loop(kernel.body, var)->extent);
  }
  const Expr last = Expr::symbol(str("i", place.size())), copied = place[0] * width + last;
  rename[packing.columns] = copied;
  place.push_back(last);
  where.push_back(mod(column, width));
  packed.sizes.push_back(width);
  packed.strides.assign(packed.sizes.size(), Expr(1));
  for (size_t d = packed.sizes.size(); d-- > 1;) packed.strides[d - 1] = packed.strides[d] * packed.sizes[d];
  const std::vector<Expr> sizes = packed.sizes;

  Kernel copy;
  copy.name = "pack_" + source.name;
  copy.op_names = {"pack"};
  copy.origins = kernel.origins;
  Stmt read;
  read.kind = StmtKind::load;
  read.dtype = source.dtype;
  read.buffer = load->buffer;
  read.results = {new_value(copy, source.dtype)};
  for (const Expr& e : load->index) read.index.push_back(substitute(e, rename));
  Body body;
  const bool whole = columns.is_constant() && columns.value() % packing.panel == 0;
  if (!whole) read.mask = below(copy, copied, columns, body);
  Stmt write;
  write.kind = StmtKind::store;
  write.dtype = source.dtype;
  write.buffer = program.add_buffer(std::move(packed));
  write.index = place;
  write.args = read.results;
  load->buffer = write.buffer;
  load->index = where;
  body.push_back(std::move(read));
  body.push_back(std::move(write));
  for (size_t d = sizes.size(); d-- > 0;) {
    Stmt loop = loop_over(str("i", d), sizes[d], std::move(body));
    body = Body();
    body.push_back(std::move(loop));
  }
  copy.body = std::move(body);
  program.init.push_back(Item{std::move(copy)});
}

}  // namespace kiln::loops
