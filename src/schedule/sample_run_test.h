// A program in text run by the interpreter on values that are the same each time.
#pragma once
#include <gtest/gtest.h>

#include "loops/interpreter.h"
#include "schedule/schedule.h"

#define EXPECT_TEXT(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

namespace kiln::loops {

inline void expect_all(const std::string& text, const std::vector<const char*>& parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

inline Tensor filled(const Buffer& buffer, int seed) {
  std::vector<int64_t> sizes;
  for (const Expr& size : buffer.sizes) sizes.push_back(evaluate(size, {}));
  Tensor tensor = Tensor::empty(buffer.dtype, sizes);
  for (int64_t i = 0; i < tensor.numel(); ++i)
    tensor.set_item(i, Scalar(static_cast<double>((i * 37 + seed * 11) % 29) / 8.0 - 1.5));
  return tensor;
}

inline std::vector<Datum> run_on_samples(const LoopProgram& program) {
  std::vector<Datum> inputs;
  std::map<std::string, Tensor> constants;
  int seed = 1;
  for (const Buffer& buffer : program.buffers)
    if (buffer.role == BufferRole::constant) constants[buffer.constant] = filled(buffer, seed++);
  for (const LoopProgram::Input& input : program.inputs)
    inputs.push_back({filled(program.buffers[static_cast<size_t>(std::get<BufferId>(input.what))], seed++)});
  return LoopInterpreter(program, constants, {}).run(inputs).outputs;
}

inline void expect_near(const std::vector<Datum>& a, const std::vector<Datum>& b, double within) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t d = 0; d < a.size(); ++d) {
    ASSERT_EQ(a[d].tensor().numel(), b[d].tensor().numel());
    for (int64_t i = 0; i < a[d].tensor().numel(); ++i)
      EXPECT_NEAR(a[d].tensor().item(i).as_double(), b[d].tensor().item(i).as_double(), within) << i;
  }
}

inline Target of_eight_lanes() {
  Target target;
  target.name = "x86-64-v3";
  target.lanes = 8;
  target.vector_registers = 16;
  return target;
}

inline Target an_h200() {
  Target target;
  target.name = "sm_90a", target.lanes = 1, target.device = DeviceType::cuda;
  target.multiprocessors = 132, target.shared_memory = 227 << 10, target.most_parts = 8;
  return target;
}

}  // namespace kiln::loops
