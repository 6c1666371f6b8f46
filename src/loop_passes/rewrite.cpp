#include "loop_passes/rewrite.h"

#include "loops/walk.h"

namespace kiln::loops {

std::set<std::string> variables_of(const Kernel& kernel) {
  std::set<std::string> names;
  for_each_stmt(kernel.body, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::loop) names.insert(stmt.loop->var);
    if (stmt.kind == StmtKind::check_index) names.insert(stmt.index_var);
  });
  return names;
}

void erase_items(Block& block, const std::vector<bool>& marked) {
  size_t kept = 0;
  for (size_t i = 0; i < block.size(); ++i) {
    if (marked[i]) continue;
    if (kept != i) block[kept] = std::move(block[i]);
    ++kept;
  }
  block.resize(kept);
}

std::string Copier::fresh(const std::string& like) {
  char prefix = like.empty() ? 'i' : like[0];
  for (size_t n = 0;; ++n) {
    std::string name = str(prefix, n);
    if (!dtype_from_name(name) && used_.insert(name).second) return name;  // i64 is a type in generated code
  }
}

ValueId Copier::value(ValueId v) {
  if (v == no_value) return no_value;
  auto found = values.find(v);
  if (found != values.end()) return found->second;
  return values[v] = new_value(to_, from_.value_types[static_cast<size_t>(v)]);
}

ValueId Copier::both(ValueId a, ValueId b, Body& out) {
  if (a == no_value || b == no_value || a == b) return a == no_value ? b : a;
  return append(out, op_stmt(to_, ScalarOp::logical_and, DType::boolean, {a, b}));
}

void Copier::copy_names(Body& out) {
  for (const NamedValue& named : from_.named) {
    if (!values.count(named.value) || (named.mask != no_value && !values.count(named.mask))) continue;
    NamedValue copied;
    copied.value = value(named.value);
    copied.name = named.name;
    for (const Expr& e : named.index) copied.index.push_back(expr(e));
    copied.mask = both(mask, value(named.mask), out);
    to_.named.push_back(std::move(copied));
  }
}

void rename_in_names(Kernel& kernel, const Substitution& variables) {
  for (NamedValue& named : kernel.named)
    for (Expr& e : named.index) e = substitute(e, variables);
}

void Copier::copy(const Body& source, Body& out) {
  for (const Stmt& stmt : source) {
    Stmt copied = copy(stmt, out);
    out.push_back(std::move(copied));
  }
}

Stmt Copier::copy(const Stmt& source, Body& out) {
  Stmt stmt;
  stmt.kind = source.kind;
  stmt.op = source.op;
  stmt.dtype = source.dtype;
  stmt.constant = source.constant;
  stmt.expr = expr(source.expr);
  stmt.buffer = source.buffer;
  stmt.mode = source.mode;
  stmt.site = source.site;
  for (const Expr& e : source.index) stmt.index.push_back(expr(e));
  for (ValueId v : source.args) stmt.args.push_back(value(v));
  stmt.mask = value(source.mask);
  bool maskable = source.kind == StmtKind::load || source.kind == StmtKind::store ||
                  source.kind == StmtKind::check_index || source.kind == StmtKind::raise_if;
  if (mask != no_value && maskable) {
    stmt.mask = both(mask, stmt.mask, out);
  }
  for (ValueId v : source.results) stmt.results.push_back(value(v));
  if (source.kind == StmtKind::check_index) {
    stmt.index_var = fresh(source.index_var);
    variables[source.index_var] = Expr::symbol(stmt.index_var);
  }
  if (source.loop) {
    const Loop& loop = *source.loop;
    stmt.loop = std::make_unique<Loop>();
    stmt.loop->extent = expr(loop.extent);
    stmt.loop->role = loop.role;
    stmt.loop->directives = loop.directives;
    stmt.loop->reduce = loop.reduce;
    stmt.loop->reduce_dtype = loop.reduce_dtype;
    stmt.loop->order = loop.order;
    stmt.loop->var = fresh(loop.var);
    variables[loop.var] = Expr::symbol(stmt.loop->var);
    copy(loop.body, stmt.loop->body);
    stmt.loop->only = value(loop.only);
    for (ValueId v : loop.yields) stmt.loop->yields.push_back(value(v));
    for (ValueId v : loop.running) stmt.loop->running.push_back(value(v));
    copy(loop.after, stmt.loop->after);
  }
  return stmt;
}

void replace_values(Body& body, const std::map<ValueId, ValueId>& map) {
  auto replace = [&](ValueId& v) {
    for (auto found = map.find(v); found != map.end(); found = map.find(v)) v = found->second;
  };
  for_each_stmt(body, [&](Stmt& stmt) {
    for (ValueId& v : stmt.args) replace(v);
    replace(stmt.mask);
    if (stmt.loop) {
      for (ValueId& v : stmt.loop->yields) replace(v);
      replace(stmt.loop->only);
    }
  });
}

Accesses accesses(const Body& body) {
  Accesses out;
  for_each_stmt(body, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::load) out.reads.insert(stmt.buffer);
    if (stmt.kind == StmtKind::store) {
      out.writes.insert(stmt.buffer);
      if (stmt.mode != StoreMode::plain) out.reads.insert(stmt.buffer);
    }
  });
  return out;
}

namespace {
void add(Accesses& to, const Accesses& from) {
  to.reads.insert(from.reads.begin(), from.reads.end());
  to.writes.insert(from.writes.begin(), from.writes.end());
}

struct ItemAccesses {
  Accesses out;
  void operator()(const Kernel& kernel) { out = accesses(kernel.body); }
  void operator()(const Call& call) {
    for (const Call::Arg& arg : call.args) {
      if (auto* id = std::get_if<BufferId>(&arg.value)) out.reads.insert(*id);
      if (auto* ids = std::get_if<std::vector<BufferId>>(&arg.value))
        for (BufferId id : *ids)
          if (id != no_buffer) out.reads.insert(id);
    }
    out.writes.insert(call.outputs.begin(), call.outputs.end());
    out.writes.insert(call.mutates.begin(), call.mutates.end());
  }
  void operator()(const BindSymbol& bind) { out.reads.insert(bind.buffer); }
  void operator()(const AssertThat&) {}
  void operator()(const Cond& cond) {
    if (auto* id = std::get_if<BufferId>(&cond.predicate)) out.reads.insert(*id);
  }
  void operator()(const While& loop) {
    if (auto* id = std::get_if<BufferId>(&loop.predicate)) out.reads.insert(*id);
  }
};
}  // namespace

Accesses accesses(const Item& item) {
  ItemAccesses visitor;
  std::visit(visitor, item.what);
  for_each_block(item, [&](const Block& inner) {
    for (const Item& inside : inner) add(visitor.out, accesses(inside));
  });
  return visitor.out;
}

bool conflict(const Accesses& a, const Accesses& b) {
  for (BufferId w : a.writes)
    if (b.touches(w)) return true;
  for (BufferId w : b.writes)
    if (a.touches(w)) return true;
  return false;
}

size_t statement_count(const Body& body) {
  size_t count = 0;
  for_each_stmt(body, [&](const Stmt&) { ++count; });
  return count;
}

bool raises(const Body& body) {
  bool found = false;
  for_each_stmt(
      body, [&](const Stmt& stmt) { found |= stmt.kind == StmtKind::check_index || stmt.kind == StmtKind::raise_if; });
  return found;
}

void replace_buffer(Block& block, BufferId from, BufferId to) {
  auto replace = [&](BufferId& id) {
    if (id == from) id = to;
  };
  for_each_item(block, [&](Item& item) {
    if (auto* kernel = std::get_if<Kernel>(&item.what))
      for_each_stmt(kernel->body, [&](Stmt& stmt) { replace(stmt.buffer); });
    if (auto* call = std::get_if<Call>(&item.what)) {
      for (Call::Arg& arg : call->args) {
        if (auto* id = std::get_if<BufferId>(&arg.value)) replace(*id);
        if (auto* ids = std::get_if<std::vector<BufferId>>(&arg.value))
          for (BufferId& id : *ids) replace(id);
      }
      for (BufferId& id : call->outputs) replace(id);
      for (BufferId& id : call->mutates) replace(id);
    }
    if (auto* bind = std::get_if<BindSymbol>(&item.what)) replace(bind->buffer);
    if (auto* cond = std::get_if<Cond>(&item.what))
      if (auto* id = std::get_if<BufferId>(&cond->predicate)) replace(*id);
    if (auto* loop = std::get_if<While>(&item.what))
      if (auto* id = std::get_if<BufferId>(&loop->predicate)) replace(*id);
  });
}

bool observable(const LoopProgram& program, BufferId buffer) {
  const Buffer& b = program.buffers[static_cast<size_t>(buffer)];
  return b.role != BufferRole::temp;
}

std::set<BufferId> read_buffers(const Block& block) {
  std::set<BufferId> read;
  for_each_item(block, [&](const Item& item) {
    if (const auto* cond = std::get_if<Cond>(&item.what))
      if (const auto* id = std::get_if<BufferId>(&cond->predicate)) read.insert(*id);
    if (const auto* loop = std::get_if<While>(&item.what))
      if (const auto* id = std::get_if<BufferId>(&loop->predicate)) read.insert(*id);
    if (std::holds_alternative<Cond>(item.what) || std::holds_alternative<While>(item.what)) return;
    const Accesses a = accesses(item);
    read.insert(a.reads.begin(), a.reads.end());
  });
  return read;
}

void drop_stores(Body& body, BufferId id) {
  for (Stmt& stmt : body)
    if (stmt.loop) drop_stores(stmt.loop->body, id), drop_stores(stmt.loop->after, id);
  std::erase_if(body, [&](const Stmt& stmt) { return stmt.kind == StmtKind::store && stmt.buffer == id; });
}

std::set<BufferId> pinned_buffers(const LoopProgram& program) {
  std::set<BufferId> out;
  auto pin = [&](const Item& item) {
    const Accesses a = accesses(item);
    out.insert(a.reads.begin(), a.reads.end());
    out.insert(a.writes.begin(), a.writes.end());
  };
  for (const Item& item : program.init) pin(item);
  for (const Item& item : program.block)
    if (!std::holds_alternative<Kernel>(item.what)) pin(item);
  for (const auto& output : program.outputs)
    if (const auto* id = std::get_if<BufferId>(&output.what)) out.insert(*id);
  // The parts of a complex number are neighbours.
  for (size_t b = 0; b < program.buffers.size(); ++b)
    if (program.buffers[b].complex) out.insert(static_cast<BufferId>(b));
  return out;
}

}  // namespace kiln::loops
