#include "loop_passes/rewrite.h"
#include "schedule/mm_template.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// load_b's single load, if it is a plain read of a constant whose lanes (n) are not neighbours in memory: a copy laid
// out [k, n] is made once when the weights are loaded.
bool pack_constant_operand(LoopProgram& program, Kernel& kernel, MmNest& nest, const RangeEnv& env, Log& log) {
  Stmt* load = nullptr;
  for (Stmt* stmt : nest.load_b)
    if (stmt->kind == StmtKind::load && mentions(address_of(*stmt, program, env), nest.n->var)) {
      if (load) return false;
      load = stmt;
    }
  if (!load || load->mask != no_value) return false;
  const Buffer& source = program.buffers[static_cast<size_t>(load->buffer)];
  bool fixed = (source.role == BufferRole::constant && !source.mutated) || source.role == BufferRole::derived;
  auto along_n = affine_in(address_of(*load, program, env), nest.n->var);
  if (!fixed || !along_n || along_n->coefficient.is_constant(1)) return false;
  // Only n and k may appear: then the packed copy is the matrix itself.
  std::set<std::string> symbols;
  for (const Expr& e : load->index) collect_symbols(e, symbols);
  const Loop& k = *nest.k->loop;
  for (const std::string& s : symbols)
    if (s != nest.n->var && s != k.var) return false;
  if (!k.extent.is_constant() || !nest.n->extent.is_constant()) return false;

  Buffer packed;
  packed.name = source.name + "_packed";
  packed.dtype = source.dtype;
  packed.sizes = {k.extent, nest.n->extent};
  packed.strides = {nest.n->extent, Expr(1)};
  packed.role = BufferRole::derived;
  std::string source_name = source.name;
  DType dtype = source.dtype;
  // The same packing of the same weight (a tied one, or two users) is made once.
  Kernel pack;
  pack.name = "pack_" + source_name;
  pack.op_names = {"pack"};
  pack.origins = kernel.origins;
  Stmt copied_load;
  copied_load.kind = StmtKind::load;
  copied_load.dtype = dtype;
  copied_load.buffer = load->buffer;
  copied_load.results = {new_value(pack, dtype)};
  Substitution rename{{k.var, Expr::symbol("i0")}, {nest.n->var, Expr::symbol("i1")}};
  for (const Expr& e : load->index) copied_load.index.push_back(substitute(e, rename));
  BufferId target = program.add_buffer(std::move(packed));
  Stmt store;
  store.kind = StmtKind::store;
  store.dtype = dtype;
  store.buffer = target;
  store.index = {Expr::symbol("i0"), Expr::symbol("i1")};
  store.args = copied_load.results;
  Stmt inner, outer;
  inner.kind = outer.kind = StmtKind::loop;
  inner.loop = std::make_unique<Loop>();
  inner.loop->var = "i1";
  inner.loop->extent = nest.n->extent;
  inner.loop->body.push_back(std::move(copied_load));
  inner.loop->body.push_back(std::move(store));
  outer.loop = std::make_unique<Loop>();
  outer.loop->var = "i0";
  outer.loop->extent = k.extent;
  outer.loop->body.push_back(std::move(inner));
  pack.body.push_back(std::move(outer));
  program.init.push_back(Item{std::move(pack)});
  load->buffer = target;
  load->index = {Expr::symbol(k.var), Expr::symbol(nest.n->var)};
  log.add([&] {
    return Decision{"pack", source_name, "for", kernel.name, "its columns are not neighbours in memory", true, ""};
  });
  return true;
}

// Rows of a tile: as many accumulators as the registers hold (32 vector registers from 16 lanes on, else 16), no more
// than there are rows.
int64_t tile_rows(const MmNest& nest, int64_t lanes) {
  int64_t rows = lanes >= 16 ? 8 : 6;
  return nest.m->extent.is_constant() ? std::clamp<int64_t>(nest.m->extent.value(), 1, rows) : rows;
}

}  // namespace

bool use_templates(LoopProgram& program, const Machine& machine, Log& log) {
  bool changed = false;
  if (machine.lanes == 1) return false;
  // Packing adds to the init section only, so the block's kernels stay where they are.
  for_each_item(program.block, [&](Item& item) {
    auto* kernel = std::get_if<Kernel>(&item.what);
    if (!kernel) return;
    bool sums = false;
    for_each_stmt(kernel->body, [&](const Stmt& stmt) {
      sums |= stmt.kind == StmtKind::loop && stmt.loop->role == AxisRole::reduce && stmt.loop->reduce == ReduceOp::sum;
    });
    if (!sums) return;
    RangeEnv env = kernel_ranges(*kernel, program);
    MmAnswer answer = match_mm(*kernel, program, env);
    auto refuse = [&](const std::string& why) {
      log.add([&] { return Decision{"no mm template for", kernel->name, "", "", why, false, ""}; });
    };
    if (!answer.accepted) return refuse(answer.reason);
    MmNest& nest = answer.nest;
    if (estimate(nest.n->extent, program) < 8) return refuse("fewer than 8 columns");
    bool packed = pack_constant_operand(program, *kernel, nest, env, log);
    // Without neighbouring columns every load of b would be gathered; summing along k in lanes is better then.
    for (Stmt* stmt : nest.load_b) {
      if (stmt->kind != StmtKind::load) continue;
      auto along_n = affine_in(address_of(*stmt, program, env), nest.n->var);
      if (!along_n || !(along_n->coefficient.is_constant(1) || along_n->coefficient.is_constant(0)))
        return refuse(str("columns of ", program.buffers[static_cast<size_t>(stmt->buffer)].name,
                          " are not neighbours in memory"));
    }
    kernel->use.name = "mm";
    kernel->use.axes = {{"m", nest.m->var}, {"n", nest.n->var}, {"k", nest.k->loop->var}};
    int64_t lanes = machine.lanes;
    double columns = estimate(nest.n->extent, program);
    kernel->use.parameters = {
        {"mr", tile_rows(nest, lanes)}, {"nr", columns >= static_cast<double>(2 * lanes) ? 2 : 1}, {"lanes", lanes}};
    log.add([&] {
      const auto& p = kernel->use.parameters;
      return Decision{"mm template for",
                      kernel->name,
                      "",
                      "",
                      str("tiles of ", p.at("mr"), " rows and ", p.at("nr"), " vectors of ", p.at("lanes"),
                          packed ? ", weight packed" : ""),
                      true,
                      ""};
    });
    changed = true;
  });
  return changed;
}

}  // namespace kiln::loops
