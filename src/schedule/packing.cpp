#include "schedule/packing.h"

#include <utility>

#include "loop_passes/rewrite.h"
#include "schedule/joined_weights.h"

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

// Both hold; either may be no_value.
ValueId both(Kernel& kernel, ValueId a, ValueId b, Body& body) {
  if (a == no_value || b == no_value) return a == no_value ? b : a;
  return append(body, op_stmt(kernel, ScalarOp::logical_and, DType::boolean, {a, b}));
}

// The weights that lie below one another in what is to be packed: they are packed from where they are, and there is no
// copy of them beside the packed one.
std::vector<JoinedPart> parts_of(const LoopProgram& program, const Stmt& load, const Packing& packing) {
  std::vector<JoinedPart> parts = joined_parts(program, load.buffer);
  for (const JoinedPart& part : parts)
    if (load.index[part.dimension] != Expr::symbol(packing.columns)) return {};
  return parts;
}

// A weight that is rounded in the init section (round_factors) is packed, and rounded, from where it is.
BufferId before_rounding(const LoopProgram& program, BufferId rounded) {
  if (program.buffers[static_cast<size_t>(rounded)].role != BufferRole::derived) return rounded;
  const Kernel* writer = nullptr;
  for (const Item& item : program.init) {
    const auto* kernel = std::get_if<Kernel>(&item.what);
    if (!accesses(item).writes.contains(rounded)) continue;
    if (writer || !kernel) return rounded;
    writer = kernel;
  }
  const Body* body = writer ? &writer->body : nullptr;
  while (body && body->size() == 1 && body->front().loop) body = &body->front().loop->body;
  if (!body || body->size() != 2) return rounded;
  const Stmt &load = body->front(), &store = body->back();
  const bool rounds = load.kind == StmtKind::load && store.kind == StmtKind::store && load.index == store.index &&
                      load.mask == no_value && store.mask == no_value && store.args[0] == load.results[0] &&
                      load.dtype == DType::f32 && store.dtype == DType::bf16;
  return rounds ? load.buffer : rounded;
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
  const std::vector<JoinedPart> parts = parts_of(program, *load, packing);
  const bool one = parts.empty() && (!columns.is_constant() || columns.value() <= packing.panel);
  std::vector<Expr> place, where;
  auto next = [&] { return Expr::symbol(str("i", place.size())); };
  Substitution rename;
  for (const std::string& var : packing.batch) {
    rename[var] = next();
    place.push_back(next());
    where.push_back(Expr::symbol(var));
    packed.sizes.push_back(find_loop(kernel.body, var)->extent);
  }
  const size_t panel_at = place.size();
  const Expr panel = next();
  if (!one) {
    packed.sizes.push_back(ceildiv(columns, packing.panel));
    place.push_back(panel);
    where.push_back(floordiv(column, width));
  }
  // With pairs: [batch…, panel, terms…, pair, column of the panel, which of the pair]; with fours alike.
  const Expr terms = find_loop(kernel.body, packing.terms.back())->extent, term = Expr::symbol(packing.terms.back());
  for (const std::string& var : packing.terms) {
    const bool in_pairs = packing.paired > 0 && var == packing.terms.back();
    rename[var] = next();
    place.push_back(next());
    where.push_back(in_pairs ? floordiv(term, packing.side) : Expr::symbol(var));
    const Expr extent = find_loop(kernel.body, var)->extent;
    packed.sizes.push_back(in_pairs ? ceildiv(extent, packing.paired) * (packing.paired / packing.side) : extent);
  }
  const Expr copied = one ? next() : panel * width + next();
  place.push_back(next());
  where.push_back(one ? column : mod(column, width));
  packed.sizes.push_back(width);
  Expr copied_term = terms;
  if (packing.paired > 0) {
    copied_term = rename[packing.terms.back()] * packing.side + next();
    rename[packing.terms.back()] = copied_term;
    place.push_back(next());
    where.push_back(mod(term, packing.side));
    packed.sizes.push_back(packing.side);
  }
  packed.strides.assign(packed.sizes.size(), Expr(1));
  for (size_t d = packed.sizes.size(); d-- > 1;) packed.strides[d - 1] = packed.strides[d] * packed.sizes[d];
  const std::vector<Expr> sizes = packed.sizes;
  const BufferId from_buffer = load->buffer;
  const std::vector<Expr> index = std::exchange(load->index, where);
  load->buffer = program.add_buffer(std::move(packed));
  const auto copy_panels = [&](const JoinedPart& part, const Expr& count, bool last) {
    // The part begins inside of a panel whose beginning is another's, and ends in one whose end is.
    const int64_t first = part.offset / packing.panel, begin = part.offset % packing.panel;
    const bool shares_end = !last && (part.offset + part.count) % packing.panel != 0;
    const bool whole = count.is_constant() && (count.value() + begin) % packing.panel == 0;
    const Expr from_column = copied - Expr(begin);
    Kernel copy;
    copy.name = "pack_" + program.buffers[static_cast<size_t>(part.from)].name;
    copy.op_names = {"pack"};
    copy.origins = kernel.origins;
    Substitution here = rename;
    here[packing.columns] = from_column;
    std::vector<Expr> read_at;
    for (const Expr& e : index) read_at.push_back(substitute(e, here));
    const BufferId from = before_rounding(program, part.from);
    Stmt read = load_stmt(copy, program.buffers[static_cast<size_t>(from)].dtype, from, std::move(read_at));
    Body body;
    ValueId after = no_value, before = no_value;
    if (begin > 0) after = below(copy, Expr(begin - 1), copied, body);  // of the first panel; in others it holds
    if (!whole) before = below(copy, from_column, count, body);
    read.mask = both(copy, after, before, body);
    const ValueId own = shares_end ? read.mask : after;
    if (packing.paired > 0 && !(terms.is_constant() && terms.value() % packing.paired == 0))
      read.mask = both(copy, read.mask, below(copy, copied_term, terms, body), body);
    if (packing.filled > 0)
      read.mask = both(copy, read.mask, below(copy, rename[packing.terms.back()], Expr(packing.filled), body), body);
    const ValueId value = append(body, std::move(read));
    std::vector<Expr> some = sizes, there = place;
    if (!parts.empty()) {
      some[panel_at] =
          last ? sizes[panel_at] - Expr(first) : Expr((begin + part.count + packing.panel - 1) / packing.panel);
      there[panel_at] = panel + Expr(first);
    }
    Stmt stored = store_stmt(source.dtype, load->buffer, there, value);
    stored.mask = own;
    body.push_back(std::move(stored));
    copy.body = nest_of(some, std::move(body));
    program.init.push_back(Item{std::move(copy)});
  };
  if (parts.empty()) {
    copy_panels({from_buffer}, substitute(columns, rename), true);
    if (before_rounding(program, from_buffer) != from_buffer) drop_unread_derived(program, from_buffer);
    return;
  }
  for (const JoinedPart& part : parts) copy_panels(part, Expr(part.count), &part == &parts.back());
  drop_unread_derived(program, from_buffer);
  for (const JoinedPart& part : parts)
    if (before_rounding(program, part.from) != part.from) drop_unread_derived(program, part.from);
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
