// Blocks and tiles for convolutions by Winograd's products (winograd.cpp), and what each costs.
#pragma once
#include <cstdint>
#include <vector>

#include "schedule/target.h"

namespace kiln::loops {

constexpr int64_t winograd_places = 16;  // of a square: 4 by 4

// A window of 3 by 3 over so many squares of 2 by 2 results, of all pictures; `depth` of them behind one another where
// the window has a third dimension.
struct WinogradShape {
  int64_t squares = 0, channels = 0, columns = 0, depth = 1;
  int64_t terms() const { return depth * channels; }
};

// How it runs: an item is a block of squares and one of so many equal groups of columns.
struct WinogradTile {
  int64_t squares = 0;  // of an item
  int64_t groups = 1;   // of columns
  // Of the terms: each has its products added to what those before it came to, which waits in scratch for all columns
  // of the item. More than one: a slice of the window each, or an equal part of its channels.
  int64_t parts = 1;
  int64_t rows = 0, vectors = 0;  // of a product's tile: squares by vectors of columns
  double work = 0;                // cycles, as those of a template's candidates
  double cost = 0;                // the same, where threads have to wait for one another
  double code = 0;                // how much text it becomes (schedule/least_code.h)
};

// In scratch, the transformed terms of a square: a line more where equally many of all squares would meet in one set
// of the first cache.
int64_t terms_apart(int64_t terms);
// From one of the 16 places to the next: an odd number of lines, so that all of them have sets of their own.
int64_t places_apart(int64_t elements);

std::vector<WinogradTile> winograd_candidates(const WinogradShape& shape, const Target& target);

}  // namespace kiln::loops
