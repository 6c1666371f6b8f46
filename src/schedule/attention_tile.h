// Blocks and tiles for attention (attention_template.cpp), and what each costs.
#pragma once
#include <optional>

#include "schedule/target.h"

namespace kiln::loops {

// How the block of rows runs.
struct AttentionTile {
  int64_t block = 0;                  // rows of an item
  int64_t keys = 0, vectors = 0;      // first product: columns of the weights by vectors of rows
  int64_t rows = 0, out_vectors = 0;  // second product: rows by vectors of its columns
  int64_t chunk = 0;                  // its keys are taken so many at a time; 0: all at once
  double cost = 0;
  double code = 0;  // how much text it becomes (schedule/least_code.h)
};

// Sizes as numbers: guesses where they are symbols.
struct AttentionShape {
  double outer, rows, keys, width, out_width;
  std::optional<double> ahead;  // a row sees keys up to its own number and this many only
  bool pairs = false;           // the first product takes two terms at a time
  bool weight_pairs = false;    // and so does the second
  bool at_once = false;         // a row's keys are not taken in chunks
};

std::vector<AttentionTile> attention_candidates(const AttentionShape& shape, const Target& target);

}  // namespace kiln::loops
