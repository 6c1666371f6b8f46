// Higher-order operators. The drivers of the interpreter and of lowering know them: records only name them and their
// kind. Their arguments have no names in files, so the schemas are nominal.
#include "ops/families.h"
#include "ops/op_record.h"

namespace kiln {

void register_control_flow(Registry& registry) {
  for (const char* name : {"cond", "while_loop", "map_impl", "scan", "associative_scan", "wrap_with_set_grad_enabled",
                           "wrap_with_autocast", "auto_functionalized", "auto_functionalized_v2"}) {
    OpRecord record;
    record.schema_text = std::string(name) + "(Tensor[] operands) -> Tensor[]";
    record.name_space = "higher_order";
    record.kind = OpKind::control_flow;
    registry.add(std::move(record));
  }
}

}  // namespace kiln
