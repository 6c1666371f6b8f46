// Higher-order operators. The drivers of the interpreter and of lowering know them: records only name them and their
// kind. Their arguments have no names in files, so the schemas are nominal.
#include "ops/families.h"
#include "ops/op_record.h"

namespace kiln {

void register_control_flow(Registry& registry) {
  auto add = [&](const char* name, bool wraps) {
    OpRecord record;
    record.schema_text = std::string(name) + "(Tensor[] operands) -> Tensor[]";
    record.name_space = "higher_order";
    record.kind = OpKind::control_flow;
    record.facts.wraps = wraps;
    registry.add(std::move(record));
  };
  for (const char* name : {"cond", "while_loop", "map_impl", "scan", "associative_scan", "auto_functionalized",
                           "auto_functionalized_v2", "out_dtype", "print", "with_effects"})
    add(name, false);
  for (const char* name :
       {"wrap_with_set_grad_enabled", "wrap_with_autocast", "strict_mode", "hints_wrapper", "invoke_subgraph",
        "run_const_graph", "wrap", "wrap_activation_checkpoint", "tag_activation_checkpoint"})
    add(name, true);
  // Gone with the wrappers: graph_passes/vmap_regions.h.
  for (const char* name : {"lazy_load_decompositions", "_vmap_increment_nesting", "_vmap_decrement_nesting",
                           "_add_batch_dim", "_remove_batch_dim"}) {
    OpRecord record;
    record.schema_text = std::string(name) + "(Tensor[] operands) -> Tensor[]";
    record.name_space = "torch._functorch.predispatch";
    record.kind = OpKind::control_flow;
    registry.add(std::move(record));
  }
}

}  // namespace kiln
