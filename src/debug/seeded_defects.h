// For tests only: defects of different kinds, each put into one compiled model through the fault injector, with what
// bisect is to say about it.
#pragma once
#include "compile/fault_injector.h"
#include "debug/fault_class.h"
#include "debug/seeded_more_models.h"
#include "debug/seeded_surgery.h"

namespace kiln::seeded {

struct Defect {
  std::string name;
  Model model;
  FaultClass fault = FaultClass::kernel;  // that is to be said; none: whichever
  // The operator in which it lies: one of these counts as right. Empty: it lies in none.
  std::vector<std::string> ops;
  // Exactly one is given. `loops` gives the name of the kernel it changed; `lowered` is an operator's kernel, by the
  // operator's name, and what is done to it.
  std::function<std::string(loops::LoopProgram&)> loops;
  std::function<void(loops::LoopProgram&, loops::Kernel&)> lowered;
  std::function<void(format::Plan&)> plan;
  std::function<void(std::string&)> source;
  std::function<void(std::string&)> code;
  std::function<void(std::map<std::string, Tensor>&)> constants;
  std::string buffer;          // that is to be named; a fault of the plan or of a constant has one
  std::string kernel;          // part of its name, where `loops` does not say it
  std::string value;           // of the operator, where its target alone says too little
  bool out_of_bounds = false;  // a checked run is to find it
  const char* flags = "-O0";   // of the C++ compiler, whose time is most of this test's
};

std::vector<Defect> lowered_defects(size_t per_model);  // a wrong lowering of one operator, all over the models
std::vector<Defect> kernel_defects();                   // wrong loops after all passes
std::vector<Defect> code_defects();                     // right loops, wrong machine code
std::vector<Defect> machine_defects();  // crashes, endless loops, accesses outside, second calls, damaged code
std::vector<Defect> plan_defects();     // right kernels, wrong plan or weights

inline Defect in_loops(const char* name, const Model& model, std::vector<std::string> ops,
                       std::function<std::string(loops::LoopProgram&)> change) {
  Defect d;
  d.name = name, d.model = model, d.ops = std::move(ops), d.loops = std::move(change);
  return d;
}
inline Defect in_code(const char* name, const Model& model, std::vector<std::string> ops, const char* kernel,
                      std::function<void(std::string&)> change) {
  Defect d;
  d.name = name, d.model = model, d.fault = FaultClass::code, d.ops = std::move(ops), d.source = std::move(change);
  d.kernel = kernel;
  return d;
}
inline Defect in_machine_code(const char* name, const Model& model, FaultClass fault, std::vector<std::string> ops,
                              const char* kernel, std::function<void(std::string&)> change) {
  Defect d;
  d.name = name, d.model = model, d.fault = fault, d.ops = std::move(ops), d.code = std::move(change);
  d.kernel = kernel;
  return d;
}
inline Defect in_plan(const char* name, const Model& model, FaultClass fault, const char* buffer,
                      std::function<void(format::Plan&)> change) {
  Defect d;
  d.name = name, d.model = model, d.fault = fault, d.plan = std::move(change), d.buffer = buffer;
  return d;
}
inline Defect in_constants(const char* name, const Model& model, const char* buffer,
                           std::function<void(std::map<std::string, Tensor>&)> change) {
  Defect d;
  d.name = name, d.model = model, d.fault = FaultClass::stale_constant, d.constants = std::move(change);
  d.buffer = buffer;
  return d;
}

// ---- Said of a defect afterwards
inline Defect with_value(Defect d, const char* value) {
  d.value = value;
  return d;
}
inline Defect out_of_bounds(Defect d) {
  d.out_of_bounds = true, d.fault = FaultClass::out_of_bounds;
  return d;
}
inline Defect of_class(Defect d, FaultClass fault) {
  d.fault = fault;
  return d;
}
inline Defect naming(Defect d, const char* buffer) {
  d.buffer = buffer;
  return d;
}

}  // namespace kiln::seeded
