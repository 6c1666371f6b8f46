// Scheduled Loops and their generated code → the plan and the origins that the package carries.
#pragma once
#include "codegen/backend.h"
#include "loops/loops.h"
#include "package/format.h"

namespace kiln {

struct BuiltPlan {
  format::Plan plan;  // without constants' entries, code entries and build id: the archive writer fills them
  format::Origins origins;
};
BuiltPlan build_plan(const loops::LoopProgram& program, const codegen::GeneratedCode& code,
                     DeviceType device = DeviceType::cpu);

// "model.py:42 in forward:  y = …", or empty.
std::string source_text(const Origin& origin);

}  // namespace kiln
