// Operators that passes put into graphs, by what they do: a pass spells no operator's name.
#pragma once
#include "ops/op_record.h"

namespace kiln::common_operators {

const OpRecord& cast();            // (self, dtype)
const OpRecord& copy();            // (self)
const OpRecord& fill();            // (size, fill_value, dtype, …): a tensor of one number
const OpRecord& slice();           // (self, dim, start, end)
const OpRecord& select();          // (self, dim, index)
const OpRecord& strided_view();    // (self, size, stride, storage_offset)
const OpRecord& move_dimension();  // (self, source, destination)
const OpRecord& repeat();          // (self, repeats)
const OpRecord& lower_triangle();  // (self, diagonal): zeros above it
const OpRecord& upper_triangle();  // (self, diagonal): zeros below it
const OpRecord& choose();          // (condition, self, other)

}  // namespace kiln::common_operators
