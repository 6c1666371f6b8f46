// The pointwise family: rows stand in arithmetic.cpp, binary_math.cpp, unary_math.cpp, activations.cpp, comparisons.cpp
// and casts.cpp.
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

void register_pointwise(Registry& registry) {
  register_arithmetic(registry);
  register_binary_math(registry);
  register_unary_math(registry);
  register_activations(registry);
  register_comparisons(registry);
  register_casts(registry);
}

}  // namespace kiln
