// Building blocks of the loop passes: copying statements between kernels with renaming, and asking which buffers an
// item touches.
#pragma once
#include "loops/estimate.h"
#include "loops/loops.h"
#include "loops/statements.h"

namespace kiln::loops {

std::set<std::string> variables_of(const Kernel& kernel);  // loop and index variables

// Copies statements into a kernel. Every value gets a new number there, every loop and index variable a new name, and
// index expressions are rewritten accordingly.
class Copier {
 public:
  Copier(const Kernel& from, Kernel& to) : Copier(from, to, variables_of(to)) {}
  Copier(const Kernel& from, Kernel& to, std::set<std::string> used) : from_(from), to_(to), used_(std::move(used)) {}
  const std::set<std::string>& used() const { return used_; }  // names that are taken, those it made included
  Substitution variables;             // what a variable of `from` becomes; preset to bind loop variables
  std::map<ValueId, ValueId> values;  // likewise for values
  // Every load, store, check and raise of the copy is also masked by this value of `to` (no_value: not).
  ValueId mask = no_value;

  void copy(const Body& source, Body& out);
  Stmt copy(const Stmt& source, Body& out);  // `out` receives what a combined mask needs, before the statement
  ValueId value(ValueId v);
  // The names of `from` whose values were copied. `out` receives what a combined mask needs.
  void copy_names(Body& out);
  Expr expr(const Expr& e) const { return substitute(e, variables); }

 private:
  std::string fresh(const std::string& like);
  ValueId both(ValueId a, ValueId b, Body& out);  // masked by both; either may be no_value
  const Kernel& from_;
  Kernel& to_;
  std::set<std::string> used_;
};

// Rewrites variables in the places of a kernel's named values.
void rename_in_names(Kernel& kernel, const Substitution& variables);

// Takes the marked items out of a block, in one go.
void erase_items(Block& block, const std::vector<bool>& marked);

// Replaces uses of values (operands, masks, yields), everywhere in the body.
void replace_values(Body& body, const std::map<ValueId, ValueId>& map);

struct Accesses {
  std::set<BufferId> reads, writes;
  bool touches(BufferId b) const { return reads.count(b) || writes.count(b); }
};
Accesses accesses(const Item& item);  // nested blocks included
Accesses accesses(const Body& body);
bool conflict(const Accesses& a, const Accesses& b);  // one writes what the other touches

std::set<BufferId> read_buffers(const Block& block);  // by any item of it, predicates included
void drop_stores(Body& body, BufferId id);            // all that write to it

size_t statement_count(const Body& body);  // loops and what is inside of them
bool raises(const Body& body);             // has a check_index or raise_if
void replace_buffer(Block& block, BufferId from, BufferId to);
// Buffers that are read or written from outside the kernels' view: program outputs, mutated inputs and constants.
bool observable(const LoopProgram& program, BufferId buffer);
// Buffers whose layout is not free: what others than kernels of the main block touch, and what the user sees.
std::set<BufferId> pinned_buffers(const LoopProgram& program);

}  // namespace kiln::loops
