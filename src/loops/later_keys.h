// Which keys a row of attention never sees, by their numbers alone: a causal mask, whoever wrote it.
#pragma once
#include <functional>

#include "loops/loops.h"

namespace kiln::loops {

// How to read the statements that make a score.
struct ScoreReader {
  std::function<const Stmt*(ValueId)> made;   // what makes a value; nullptr: not known
  std::function<Expr(const Stmt&)> numbered;  // the expression of an index_value, by the names below
  std::string row, key;
};

// The least n, for all that the text says, such that the score is -inf wherever key > row + n. What is added to a -inf
// may be anything else but infinity or NaN: those of keys that a row does not see do not count. Nothing: not known.
std::optional<int64_t> masked_beyond(const ScoreReader& reader, ValueId score);

}  // namespace kiln::loops
