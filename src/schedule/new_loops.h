// Loops of a kernel that is being made, under names that nothing else there has.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

inline std::string unused_name(const std::set<std::string>& used, const char* like) {
  for (size_t n = 0;; ++n)
    // i64 is a type in generated code
    if (std::string name = str(like, n); !dtype_from_name(name) && !used.contains(name)) return name;
}

class NewLoops {
 protected:
  std::string fresh(const char* like) { return *used_.insert(unused_name(used_, like)).first; }
  Stmt loop(const char* like, const Expr& extent, Binding binding = Binding::none, int64_t factor = 0) {
    Stmt stmt = loop_stmt(fresh(like), extent);
    const bool exact = factor == 0 || (extent.is_constant() && extent.value() % factor == 0);
    stmt.loop->directives = {binding, factor, exact ? Tail::exact : Tail::mask};
    return stmt;
  }
  static Expr variable(const Stmt& loop) { return Expr::symbol(loop.loop->var); }

  std::set<std::string> used_;
};

}  // namespace kiln::loops
