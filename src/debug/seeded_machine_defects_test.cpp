// Code that ends the process, never ends, leaves its buffers, is right only once; and damaged machine code.
#include "base/pattern_test.h"
#include "debug/seeded_defects.h"
#include "debug/seeded_machine_code.h"

namespace kiln::seeded {
namespace {

// A line at the beginning of the function of a kernel's C++.
void at_start(std::string& unit, const std::string& kernel, const std::string& line) {
  const Pattern head("int [a-z0-9_]*" + kernel + "[a-z0-9_]*\\([^;{]*\\{");
  std::vector<Pattern::Match> found = head.find_all(unit);
  for (auto match = found.rbegin(); match != found.rend(); ++match)
    unit.insert(match->position + match->groups[0].size(), "\n  " + line);
}

Defect crashing(const char* name, const Model& model, FaultClass fault, std::vector<std::string> ops,
                const char* kernel, const std::string& line) {
  Defect d = in_code(name, model, std::move(ops), kernel,
                     [kernel = std::string(kernel), line](std::string& unit) { at_start(unit, kernel, line); });
  d.fault = fault;
  return d;
}

}  // namespace

std::vector<Defect> machine_defects() {
  std::vector<Defect> d;
  // ---- In the C++: the package has what a wrong printer would have made
  d.push_back(crashing("code: null pointer", dynamic, FaultClass::crash, {"aten.cumsum.default"}, "cpp_fused_cumsum",
                       "*(volatile int*)0 = 1;"));
  d.push_back(crashing("code: null pointer", pooling, FaultClass::crash, {}, "convolution", "*(volatile int*)0 = 1;"));
  d.push_back(crashing("code: division by zero", control, FaultClass::crash, {"aten.lt.Tensor"}, "cpp_fused_lt",
                       "volatile int zero = 0; zero = 7 / zero;"));
  d.push_back(crashing("code: does not end", dynamic, FaultClass::hang, {"aten.amax.default"}, "cpp_fused_amax",
                       "for (volatile int i = 0;;) (void)i;"));
  d.push_back(crashing("code: crash in the second call", dynamic, FaultClass::crash, {"aten.amax.default"},
                       "cpp_fused_amax", "static int calls = 0; if (calls++ > 0) *(volatile int*)0 = 1;"));
  d.push_back(crashing("code: write behind a buffer", dynamic, FaultClass::outside, {"aten.cumsum.default"},
                       "cpp_fused_cumsum", "((volatile float*)buffers[1])[11] = 7;"));
  d.push_back(crashing("code: write before a buffer", dynamic, FaultClass::outside, {"aten.cumsum.default"},
                       "cpp_fused_cumsum", "((volatile float*)buffers[1])[-2] = 7;"));
  d.push_back(crashing("code: read behind a buffer", dynamic, FaultClass::outside, {"aten.cumsum.default"},
                       "cpp_fused_cumsum", "(void)((volatile float*)buffers[0])[11];"));
  d.push_back(crashing("code: nothing done in the second call", dynamic, FaultClass::code, {"aten.cumsum.default"},
                       "cpp_fused_cumsum", "static int calls = 0; if (calls++ > 0) return 0;"));
  d.push_back(crashing("code: addresses of the first call kept", dynamic, FaultClass::outside, {"aten.cumsum.default"},
                       "cpp_fused_cumsum",
                       "static void* kept[2]; static int calls = 0; if (calls++ == 0) kept[0] = buffers[0], kept[1] = "
                       "buffers[1]; buffers = kept;"));
  d.push_back(
      in_code("code: wrong function in the second call", mlp, {"aten.tanh.default"}, "sub_tanh", [](std::string& unit) {
        at_start(unit, "sub_tanh", "static int calls = 0; const bool again = calls++ > 0;");
        edit(unit, "= k_tanh\\((v[0-9]+)\\);", "= again ? $1 : k_tanh($1);");
      }));
  // ---- In the machine code: nothing in the package says what was meant but its loops
  d.push_back(in_machine_code("machine code: undefined instruction", mlp, FaultClass::crash, {}, "linear_sub_tanh",
                              [](std::string& object) {
                                patch_start(object, "sub_tanh", {0x0f, 0x0b});
                              }));
  d.push_back(in_machine_code("machine code: undefined instruction", cache, FaultClass::crash, {"aten.add.Tensor"},
                              "cpp_fused_add", [](std::string& object) {
                                patch_start(object, "cpp_fused_add", {0x0f, 0x0b});
                              }));
  d.push_back(in_machine_code("machine code: jump to itself", control, FaultClass::hang, {"aten.lt.Tensor"},
                              "cpp_fused_lt", [](std::string& object) {
                                patch_start(object, "cpp_fused_lt", {0xeb, 0xfe});
                              }));
  d.push_back(in_machine_code("machine code: returns at once", dynamic, FaultClass::code, {"aten.cumsum.default"},
                              "cpp_fused_cumsum", [](std::string& object) {
                                patch_start(object, "cpp_fused_cumsum", {0x31, 0xc0, 0xc3});
                              }));
  d.push_back(in_machine_code("machine code: returns at once", control, FaultClass::code, {"aten.exp.default"},
                              "cpp_fused_exp", [](std::string& object) {
                                patch_start(object, "cpp_fused_exp", {0x31, 0xc0, 0xc3});
                              }));
  d.push_back(in_machine_code("machine code: another number", control, FaultClass::code, {"aten.add.Tensor"},
                              "cpp_fused_mul_add", [](std::string& object) { patch_number(object, 0.75f, 0.8125f); }));
  d.push_back(in_machine_code("machine code: subtraction for addition", dynamic, FaultClass::code,
                              {"aten.cumsum.default"}, "cpp_fused_cumsum",
                              [](std::string& object) { patch_additions(object, "cpp_fused_cumsum"); }));
  d.back().flags = "-O1";
  return d;
}

}  // namespace kiln::seeded
