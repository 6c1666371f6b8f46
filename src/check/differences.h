// Where two sets of outputs differ: of each output the places that are furthest over the tolerance, for `kiln
// compare`.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "check/compare.h"

namespace kiln {

struct DifferenceLimits {
  CompareOptions tolerance;
  bool values_only = false;  // another dtype is no difference
  size_t most_places = 3;    // to list per output
};

// One place where values differ.
struct DifferentPlace {
  std::vector<int64_t> index;
  std::string a, b;                   // the values
  double absolute = 0, relative = 0;  // of b; infinite where only one is finite, or b is 0
  double tolerances = 0;              // how far off in units of what is allowed there: beyond 1 it is outside
};

struct OutputDifference {
  std::string name;
  std::string type;                              // "float32[8, 1]", or of both where they are not of one
  std::string failure;                           // kind, dtype or sizes are not the same; empty: they are
  bool compared = false;                         // values could be compared, element by element
  int64_t values = 0, unequal = 0, outside = 0;  // outside: of the tolerance
  Tolerance tolerance;
  double mean_absolute = 0;     // of the finite differences
  double largest_relative = 0;  // of the values that are unequal
  // Furthest over the tolerance first; where some are outside of it, those alone.
  std::vector<DifferentPlace> places;
  bool ok() const { return failure.empty() && outside == 0; }
};

struct NamedDatum {
  std::string name;
  Datum value;
};

// Both in the same order.
std::vector<OutputDifference> find_differences(const std::vector<NamedDatum>& a, const std::vector<Datum>& b,
                                               const DifferenceLimits& limits);
std::string difference_text(const OutputDifference& difference);  // a line, and one per place that is listed
Json difference_json(const OutputDifference& difference);

}  // namespace kiln
