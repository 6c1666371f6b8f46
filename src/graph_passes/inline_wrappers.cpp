#include "graph_passes/inline_wrappers.h"

#include "graph_passes/effect_tokens.h"
#include "graph_passes/wrappers.h"

namespace kiln {

bool inline_wrappers(Program& program, PassContext& context) {
  bool changed = drop_effect_tokens(program);
  changed |= inline_wrapper_calls(program.graph, program.ranges());
  if (changed) context.note("wrapped subgraphs were put in their calls' places");
  return changed;
}

}  // namespace kiln
