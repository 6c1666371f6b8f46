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

// value < limit, as a value of the kernel
ValueId below(Kernel& kernel, const Expr& value, const Expr& limit, Body& body) {
  const ValueId left = append(body, index_stmt(kernel, DType::i64, value));
  const ValueId right = append(body, index_stmt(kernel, DType::i64, limit));
  return append(body, op_stmt(kernel, ScalarOp::lt, DType::boolean, {left, right}));
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
  // [batch…, panel, terms…, column of the panel]; columns beyond the last are zeros. Where one panel holds all there is
  // no dimension for it.
  const Expr columns = find_loop(kernel.body, packing.columns)->extent, width(packing.panel);
  const Expr column = Expr::symbol(packing.columns);
  const bool one = !columns.is_constant() || columns.value() <= packing.panel;
  std::vector<Expr> place, where;
  auto next = [&] { return Expr::symbol(str("i", place.size())); };
  Substitution rename;
  for (const std::string& var : packing.batch) {
    rename[var] = next();
    place.push_back(next());
    where.push_back(Expr::symbol(var));
    packed.sizes.push_back(find_loop(kernel.body, var)->extent);
  }
  const Expr panel = next();
  if (!one) {
    packed.sizes.push_back(ceildiv(columns, packing.panel));
    place.push_back(panel);
    where.push_back(floordiv(column, width));
  }
  // With pairs: [batch…, panel, terms…, pair, column of the panel, which of the pair].
  const Expr terms = find_loop(kernel.body, packing.terms.back())->extent, term = Expr::symbol(packing.terms.back());
  for (const std::string& var : packing.terms) {
    const bool in_pairs = packing.paired > 0 && var == packing.terms.back();
    rename[var] = next();
    place.push_back(next());
    where.push_back(in_pairs ? floordiv(term, 2) : Expr::symbol(var));
    const Expr extent = find_loop(kernel.body, var)->extent;
    packed.sizes.push_back(in_pairs ? ceildiv(extent, packing.paired) * (packing.paired / 2) : extent);
  }
  const Expr copied = one ? next() : panel * width + next();
  rename[packing.columns] = copied;
  place.push_back(next());
  where.push_back(one ? column : mod(column, width));
  packed.sizes.push_back(width);
  Expr copied_term = terms;
  if (packing.paired > 0) {
    copied_term = rename[packing.terms.back()] * 2 + next();
    rename[packing.terms.back()] = copied_term;
    place.push_back(next());
    where.push_back(mod(term, 2));
    packed.sizes.push_back(2);
  }
  packed.strides.assign(packed.sizes.size(), Expr(1));
  for (size_t d = packed.sizes.size(); d-- > 1;) packed.strides[d - 1] = packed.strides[d] * packed.sizes[d];
  const std::vector<Expr> sizes = packed.sizes;

  Kernel copy;
  copy.name = "pack_" + source.name;
  copy.op_names = {"pack"};
  copy.origins = kernel.origins;
  std::vector<Expr> from;
  for (const Expr& e : load->index) from.push_back(substitute(e, rename));
  Stmt read = load_stmt(copy, source.dtype, load->buffer, std::move(from));
  Body body;
  const bool whole = columns.is_constant() && columns.value() % packing.panel == 0;
  if (!whole) read.mask = below(copy, copied, substitute(columns, rename), body);
  if (packing.paired > 0 && !(terms.is_constant() && terms.value() % packing.paired == 0)) {
    const ValueId inside = below(copy, copied_term, terms, body);
    read.mask = read.mask == no_value
                    ? inside
                    : append(body, op_stmt(copy, ScalarOp::logical_and, DType::boolean, {read.mask, inside}));
  }
  if (packing.filled > 0) {
    const ValueId inside = below(copy, rename[packing.terms.back()], Expr(packing.filled), body);
    read.mask = read.mask == no_value
                    ? inside
                    : append(body, op_stmt(copy, ScalarOp::logical_and, DType::boolean, {read.mask, inside}));
  }
  load->buffer = program.add_buffer(std::move(packed));
  load->index = where;
  const ValueId value = append(body, std::move(read));
  append(body, store_stmt(source.dtype, load->buffer, place, value));
  copy.body = nest_of(sizes, std::move(body));
  program.init.push_back(Item{std::move(copy)});
}

std::optional<Packing> gpu_packing(const ContractionNest& nest, const Stmt* load, const LoopProgram& program) {
  if (!load || load->mask != no_value || nest.columns.size() != 1) return {};
  const Buffer& source = program.buffers[static_cast<size_t>(load->buffer)];
  const bool fixed = (source.role == BufferRole::constant && !source.mutated) || source.role == BufferRole::derived;
  const Loop& columns = nest.innermost_column();
  if (!fixed || !columns.extent.is_constant()) return {};
  Packing packing{load, {}, columns.var, columns.extent.value(), {}};
  std::set<std::string> symbols, known = {columns.var};
  for (const ContractionNest::Sum& sum : nest.sums) {
    if (!sum.stmt->loop->extent.is_constant()) return {};
    packing.terms.push_back(sum.stmt->loop->var);
    known.insert(sum.stmt->loop->var);
  }
  for (const Expr& e : load->index) collect_symbols(e, symbols);
  if (!std::includes(known.begin(), known.end(), symbols.begin(), symbols.end())) return {};
  return packing;
}

}  // namespace kiln::loops
