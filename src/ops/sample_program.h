// A one-node Program from a record's sample: what the generated tests run through inference, reference, Loops and
// compiled code.
#pragma once
#include "ops/op_record.h"

namespace kiln {

// The tensors are user inputs with seeded values in `sample_inputs`. With symbolic sizes, every size of at least 2
// becomes a symbol (equal sizes share one), known only to lie between 2 and 4096. Throws what the operator's rule
// throws when the sample is refused.
Program program_from_sample(const OpRecord& record, const Sample& sample, bool symbolic_sizes, uint64_t seed);

// The tensor of a sample, filled with values from its range. The same seed gives the same values everywhere.
Tensor sample_tensor(const Sample::TensorSpec& spec, uint64_t seed);

}  // namespace kiln
