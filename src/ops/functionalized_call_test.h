// For tests: a program with a functionalized call of a custom operator, before operators are resolved.
#pragma once
#include <gtest/gtest.h>

#include "ops/custom_ops.h"

namespace kiln {

inline Program unresolved_program(const std::string& body) {
  return parse_program("program \"test\"\ngraph main {\n" + body + "}\n");
}

inline std::string functionalized_call() {
  return "  input %x: f32[4] = user\n"
         "  %none: none, %new: f32[4] = higher_order.auto_functionalized_v2(\"torch.ops.mylib.inc_.default\", k=2, "
         "_x_base_index=0, _x_slice_dim=0, _x_slice_start=1, _x_slice_end=3, _all_bases=[%x]) named "
         "auto_functionalized_v2\n"
         "  output %new = user\n";
}

// The code of the error that f throws, and its message; "none": it throws none.
inline std::string refusal_of(const std::function<void()>& f, std::string& message) {
  try {
    f();
  } catch (const Error& error) {
    message = error.message();
    return error.code();
  }
  return "none";
}

}  // namespace kiln
