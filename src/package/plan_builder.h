// Scheduled Loops and their generated code → the plan and the origins that the package carries.
#pragma once
#include <map>

#include "codegen/backend.h"
#include "loops/loops.h"
#include "package/format.h"

namespace kiln {

struct BuiltPlan {
  format::Plan plan;  // without constants' entries, code entries and build id: the archive writer fills them
  format::Origins origins;
};
// The nodes of the exported program that write and that read a buffer, by the buffer's name, while each kernel is still
// of one operator: afterwards a fused kernel does not say which of its operators a value is of.
struct ValueNodes {
  std::map<std::string, std::vector<std::string>> writers, readers;
};
BuiltPlan build_plan(const loops::LoopProgram& program, const codegen::GeneratedCode& code,
                     DeviceType device = DeviceType::cpu, const ValueNodes& nodes = {});

// "model.py:42 in forward:  y = …", or empty.
std::string source_text(const Origin& origin);

}  // namespace kiln
