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

}  // namespace

void pack(LoopProgram& program, Kernel& kernel, const Packing& packing) {
  Stmt* load = find_load(kernel.body, packing.load);
  KILN_CHECK(load, str("the operand to be packed is not in ", kernel.name));
  const Buffer source = program.buffers[static_cast<size_t>(load->buffer)];
  Buffer packed;
  packed.name = source.name + "_packed";
  packed.dtype = source.dtype;
  packed.role = BufferRole::derived;
  Substitution rename;
  std::vector<Expr> place, where;
  for (const std::string& var : packing.variables) {
    packed.sizes.push_back(find_loop(kernel.body, var)->extent);
    const std::string fresh = str("i", place.size());
    rename[var] = Expr::symbol(fresh);
    place.push_back(Expr::symbol(fresh));
    where.push_back(Expr::symbol(var));
  }
  packed.strides.assign(packed.sizes.size(), Expr(1));
  for (size_t d = packed.sizes.size(); d-- > 1;) packed.strides[d - 1] = packed.strides[d] * packed.sizes[d];

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
  Stmt write;
  write.kind = StmtKind::store;
  write.dtype = source.dtype;
  write.buffer = program.add_buffer(std::move(packed));
  write.index = place;
  write.args = read.results;
  load->buffer = write.buffer;
  load->index = where;
  const std::vector<Expr>& sizes = program.buffers[static_cast<size_t>(write.buffer)].sizes;
  Body body;
  body.push_back(std::move(read));
  body.push_back(std::move(write));
  for (size_t d = place.size(); d-- > 0;) {
    Stmt loop = loop_over(str("i", d), sizes[d], std::move(body));
    body = Body();
    body.push_back(std::move(loop));
  }
  copy.body = std::move(body);
  program.init.push_back(Item{std::move(copy)});
}

}  // namespace kiln::loops
