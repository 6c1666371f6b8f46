// The state of one lowering (private to src/lower).
#pragma once
#include "lower/lower.h"
#include "ops/op_record.h"

namespace kiln {

class Lowering {
 public:
  explicit Lowering(const Program& source);
  loops::LoopProgram run();

 private:
  using BufferId = loops::BufferId;
  loops::Buffer& buffer(BufferId id) { return program_.buffers[static_cast<size_t>(id)]; }
  BufferId make_buffer(const Value& value, loops::BufferRole role);
  bool strides_known(const TensorType& type) const;
  void make_result(const Value& value);
  void note_bound(const Value& value);
  void make_inputs();
  void make_outputs();
  loops::LoopProgram::Output user_output(const Argument& out, int position, std::set<BufferId>& taken);
  void copy(BufferId from, BufferId to, loops::Block& block, const std::vector<Origin>& origins);
  BufferId copy_of(BufferId from, loops::BufferRole role, loops::Block& block);

  void lower_node(const Node& node, loops::Block& block);
  // lower_calls.cpp
  void lower_call(const Node& node, loops::Block& block);
  loops::Call::Arg call_argument(const std::string& name, const Argument& arg);
  void lower_symbolic(const Node& node, loops::Block& block);
  void lower_assertion(const Node& node, loops::Block& block);
  // lower_control_flow.cpp
  void lower_control_flow(const Node& node, loops::Block& block);
  void lower_cond(const Node& node, loops::Block& block);
  void lower_while(const Node& node, loops::Block& block);
  // Lowers a subgraph into a block; gives its outputs.
  std::vector<Argument> lower_subgraph(const Graph& graph, const std::vector<Argument>& operands, loops::Block& block);
  std::variant<BufferId, Expr> predicate(const Argument& arg);

  const Program& source_;
  loops::LoopProgram program_;
  RangeEnv ranges_;
  std::map<const Value*, BufferId> buffers_;
  std::map<std::string, BufferId> by_constant_;
  std::set<std::string> bound_;  // symbols whose values are known at this point of the program
  int control_flow_count_ = 0;
};

}  // namespace kiln
