// The plan as lines of text: inputs, outputs, symbols, guards, buffers, steps with their arguments. For output_code and
// for the parts of the trace that people read.
#pragma once
#include <functional>
#include <string>

#include "package/format.h"

namespace kiln {

std::string plan_text(const format::Plan& plan);

// "f32[s0, 16]"
std::string plan_buffer_type(const format::Plan& plan, int32_t buffer);
// "cpp_fused_add_0(x: read, y: write)"
std::string plan_step_call(const format::Plan& plan, const format::Step& step);
const char* buffer_role_name(format::BufferRole role);
std::string plan_expr(const format::Plan& plan, format::ExprIndex index);  // "?" where there is none
// Where a symbol's value comes from: "x.size(0)".
std::string symbol_source_text(const format::Plan& plan, const format::Symbol& symbol);

// Every step, blocks included; `depth` counts the blocks around it.
void for_each_step(const std::vector<format::Step>& steps, const std::function<void(const format::Step&, int depth)>& f,
                   int depth = 0);

// Buffers that a step reads or writes, its blocks' included.
struct StepAccess {
  int32_t buffer;
  bool writes;
};
std::vector<StepAccess> step_accesses(const format::Step& step);

}  // namespace kiln
