// What an operator's lowering sees: its arguments, the Loops buffers of its inputs and results, and a way to add
// kernels. The driver (lower.cpp) has made a buffer for each tensor result, with the result's sizes and eager's
// strides.
#pragma once
#include "loops/builder.h"
#include "ops/op_record.h"

namespace kiln {

class LowerCall : public OpCall {
 public:
  LowerCall(const Node& node, const Schema& schema, loops::LoopProgram& program, loops::Block& block,
            const std::map<const Value*, loops::BufferId>& buffers, const RangeEnv& ranges, int64_t& draws);

  loops::LoopProgram& program() { return program_; }
  const RangeEnv& ranges() const { return ranges_; }
  loops::BufferId buffer(const Value* value) const;
  loops::BufferId input(std::string_view arg) const { return buffer(tensor(arg)); }
  loops::BufferId output(int result = 0) const;
  const TensorType& output_type(int result = 0) const { return node().results[static_cast<size_t>(result)]->type; }
  // A buffer that lives only between kernels of this operator; row-major.
  loops::BufferId temp(DType dtype, std::vector<Expr> sizes, std::string name = "tmp");

  // Adds a kernel named after the operator, with the node's origins.
  void kernel(const std::function<void(loops::KernelBuilder&)>& build);
  void call(loops::Call call);

  // Broadcasting: the index into an input of the given sizes for an index into the result (aligned right; a size of 1
  // gives 0; a size that may or may not be 1 gives min(i, size - 1)).
  std::vector<Expr> broadcast(const std::vector<Expr>& sizes, const std::vector<Expr>& index) const;
  // A number argument as a value of the given type, constant or symbolic.
  loops::ValueId scalar_value(loops::KernelBuilder& k, std::string_view arg, DType dtype) const;
  int site(std::string message);
  // The number of a node that draws, in the order of the program: where its numbers start among the run's.
  int64_t next_draw() { return draws_++; }

 private:
  loops::LoopProgram& program_;
  loops::Block& block_;
  const std::map<const Value*, loops::BufferId>& buffers_;
  const RangeEnv& ranges_;
  int64_t& draws_;
};

}  // namespace kiln
