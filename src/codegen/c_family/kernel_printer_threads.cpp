// Lanes that are threads: what a team of them shares out, and the neighbours that a thread takes at a time.
#include "codegen/c_family/kernel_printer.h"
#include "schedule/schedule.h"

namespace kiln::codegen {
using namespace loops;

// A lane takes that many neighbours of the loop.
int KernelPrinter::vector_of(const Loop& loop) const {
  const Grid& grid = kernel_.schedule->grid;
  return grid.threads == 0 ? 1 : static_cast<int>(loop.directives.factor / grid.team);
}

// Where a thread has the element of a row that it holds; "": the access is to memory.
std::string KernelPrinter::held(const Stmt& access) {
  const bool scratch = program_.buffers[static_cast<size_t>(access.buffer)].role == BufferRole::scratch;
  if (!scratch || kernel_.schedule->grid.hold == 0) return "";
  const size_t at = static_cast<size_t>(std::find(held_.begin(), held_.end(), access.buffer) - held_.begin());
  if (at == held_.size()) held_.push_back(access.buffer);
  return str("held", at, "[", held_place_, "]");
}

// The iterations first, first + 1, … of the loop, so many as a vector has. What lies beside each other in memory comes
// in one word before them, and goes in one behind them.
void KernelPrinter::print_neighbours(const Loop& loop, const std::string& first, int vector,
                                     const std::function<void()>& each) {
  const std::string& var = loop.var;
  const bool whole = prove_eq(mod(loop.extent, Expr(vector)), Expr(0), env_) == Proof::yes;
  line(str("const i64 ", var, " = ", first, ";"));
  const std::string left = whole ? "" : var + "_left";
  if (!whole) line(str("const i64 ", left, " = ", expr(loop.extent), " - ", var, ";"));
  struct Word {
    const Stmt* access;
    std::string name, pointer;
  };
  std::vector<Word> stores;
  std::vector<const Stmt*> accesses;
  for (const Stmt& stmt : loop.body)
    if (vector > 1 && is_wide(stmt, loop, vector, program_, env_)) accesses.push_back(&stmt);
  for (const Stmt* stmt : accesses) {
    const bool load = stmt->kind == StmtKind::load;
    if (const auto early = early_words_.find(stmt); early != early_words_.end()) {
      words_[stmt] = str(early->second, ".items + e");
      continue;
    }
    const Buffer& buffer = program_.buffers[static_cast<size_t>(stmt->buffer)];
    const std::string b = buffer_name(stmt->buffer, load ? Access::read : Access::write);
    const std::string word = str("w", words_.size(), "_", var), pointer = str(b, " + ", expr(address(*stmt)));
    wide_buffers_.insert(b);
    words_[stmt] = str(word, ".items + e");
    const bool fixed = (buffer.role == BufferRole::constant && !buffer.mutated) || buffer.role == BufferRole::derived;
    if (load)
      line(str("const auto ", word, " = ", dialect_.wide_load(vector, pointer, left, fixed), ";"));
    else
      line(str(dialect_.wide_type(buffer.dtype, vector), " ", word, ";"));
    if (!load) stores.push_back({stmt, word, pointer});
  }
  const std::string outer_place = held_place_;
  if (vector > 1) {
    line("#pragma unroll");
    open(str("for (int e = 0; e < ", vector, "; ++e)"));
    if (!whole) line(str("if (e >= ", left, ") break;"));
    line(str("const i64 ", var, " = ", first, " + e;"));
    if (!held_place_.empty()) held_place_ = str(held_place_, " * ", vector, " + e");
  } else {
    open("");
  }
  each();
  close();
  held_place_ = outer_place;
  for (const Word& word : stores) line(dialect_.wide_store(word.pointer, word.name, left));
  for (const Stmt* stmt : accesses) words_.erase(stmt);
}

// The loop's iterations from `begin`, which is the thread's own, to `end`.
void KernelPrinter::print_shared_rounds(const Loop& loop, const std::string& begin, const std::string& end,
                                        const std::function<void()>& update) {
  const int vector = vector_of(loop);
  const Grid& grid = kernel_.schedule->grid;
  const bool outer = shared_;
  shared_ = true;
  const auto each = [&] {
    print_body(loop.body);
    update();
  };
  if (grid.hold > 0) {
    const int64_t extent = loop.extent.value(), round = loop.directives.factor, rounds = (extent + round - 1) / round;
    line("#pragma unroll");
    open(str("for (int round = 0; round < ", rounds, "; ++round)"));
    const std::string first = loop.var + "_first";
    line(str("const int ", first, " = (round * ", grid.team, " + ", dialect_.thread(), ")",
             vector > 1 ? str(" * ", vector) : "", ";"));
    const bool partial = extent % round != 0;
    if (partial) open(str("if (", first, " < ", extent, ")"));
    held_place_ = "round";
    print_neighbours(loop, first, vector, each);
    held_place_.clear();
    if (partial) close();
    close();
  } else if (vector == 1) {
    open(str("for (i64 ", loop.var, " = ", begin, "; ", loop.var, " < ", end, "; ", loop.var,
             " += ", dialect_.threads(), ")"));
    each();
    close();
  } else {
    const std::string first = loop.var + "_first";
    open(str("for (i64 ", first, " = ", begin, "; ", first, " < ", end, "; ", first, " += ", loop.directives.factor,
             ")"));
    print_neighbours(loop, first, vector, each);
    close();
  }
  shared_ = outer;
}

// Lanes are threads: each takes every so many-th iteration, and sees scalars.
void KernelPrinter::print_shared_reduction(const Stmt& stmt) {
  const Loop& loop = *stmt.loop;
  if (loop.order.block > 0) return print_shared_blocks(stmt);
  std::vector<std::string> acc;
  declare_accumulators(stmt, acc, false);
  const int vector = vector_of(loop);
  print_shared_rounds(loop, vector > 1 ? str(dialect_.thread(), " * ", vector) : dialect_.thread(), expr(loop.extent),
                      [&] { print_update(loop, acc); });
  line(dialect_.over_threads(loop.reduce, acc));
}

// The same for a float sum that is added up in blocks: each thread has blocks of its own terms.
void KernelPrinter::print_shared_blocks(const Stmt& stmt) {
  const Loop& loop = *stmt.loop;
  const std::string result = name(stmt.results[0]), total = result + "_total", part = result + "_part",
                    next = loop.var + "_next", end = loop.var + "_end", step = dialect_.threads();
  const char *meet = c_type(loop.order.meet), *own = c_type(loop.reduce_dtype);
  const int vector = vector_of(loop);
  line(str(meet, " ", total, " = 0;"));
  open(str("for (i64 ", next, " = ", dialect_.thread(), vector > 1 ? str(" * ", vector) : "", "; ", next, " < ",
           expr(loop.extent), "; ", next, " += ", loop.order.block, "l * ", step, ")"));
  line(str("const i64 ", end, " = k_min((i64)(", next, " + ", loop.order.block, "l * ", step, "), (i64)",
           expr(loop.extent), ");"));
  line(str(own, " ", part, " = ", identity(loop, 0), ";"));
  print_shared_rounds(loop, next, end, [&] { print_update(loop, {part}); });
  line(str(total, " = k_add(", total, ", ", meet == std::string(own) ? part : str("k_cast_", meet, "(", part, ")"),
           ");"));
  close();
  line(dialect_.over_threads(ReduceOp::sum, std::vector<std::string>{total}));
  varying_.erase(stmt.results[0]);
  line(str("const ", own, " ", result, " = ", meet == std::string(own) ? total : str("k_cast_", own, "(", total, ")"),
           ";"));
}

// What it writes and others read is seen by all threads behind it, and nobody is still reading when it begins.
void KernelPrinter::print_shared_loop(const Loop& loop) {
  bool meets = false;
  for_each_stmt(loop.body,
                [&](const Stmt& stmt) { meets |= stmt.kind == StmtKind::store && exchanged_.contains(stmt.buffer); });
  if (meets) line(dialect_.barrier());
  const int vector = vector_of(loop);
  print_shared_rounds(loop, vector > 1 ? str(dialect_.thread(), " * ", vector) : dialect_.thread(), expr(loop.extent),
                      [] {});
  if (meets) line(dialect_.barrier());
}

}  // namespace kiln::codegen
