// Inputs for a package that nobody has given: sizes as asked or as the guards allow, values drawn at random.
//
// Sizes: of symbols that are not given those of the sample inputs, where the guards allow them beside the given ones;
// otherwise the first that are found to fit. Values: each element is one of the sample input's own, drawn at random, so
// that indices stay indices and probabilities probabilities; where there is no sample, floats are even in [-1, 1),
// integers and booleans 0 or 1.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "package/format.h"
#include "types/expr.h"
#include "types/tensor.h"

namespace kiln {

struct RandomInputs {
  std::vector<Datum> inputs;
  std::vector<std::string> notes;  // what a reader should know of the values: no samples to draw from
};

// Throws K0730 for a symbol that is not one of the inputs' sizes, K0731 for sizes that a range or guard forbids, K0732
// where no sizes are found for what was left open.
RandomInputs random_inputs(const format::Plan& plan, const std::vector<Datum>& samples, const SymbolValues& given,
                           uint64_t seed);

// The symbols whose values these inputs decide. Inputs that do not fit the plan decide nothing: the runtime refuses
// them in its own words.
SymbolValues symbol_values(const format::Plan& plan, const std::vector<Datum>& inputs);

}  // namespace kiln
