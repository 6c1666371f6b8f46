// What torch.autocast does to an operator's arguments on the CPU: PyTorch's lists (aten/src/ATen/autocast_mode.h), and
// the few composite operators that consist of listed ones.
#pragma once
#include "graph/graph.h"

namespace kiln {

enum class AutocastRule : uint8_t {
  none,     // takes its arguments as they are
  lower,    // floats become autocast's dtype
  single,   // floats become f32
  promote,  // floats become f32 if one of them is, autocast's dtype otherwise
};
// f64 is never cast, by any rule.
AutocastRule autocast_rule(const Node& node);

}  // namespace kiln
