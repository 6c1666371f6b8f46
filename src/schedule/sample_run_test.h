// A program in text run by the interpreter on values that are the same each time.
#pragma once
#include "loops/interpreter.h"
#include "schedule/schedule.h"

namespace kiln::loops {

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

}  // namespace kiln::loops
