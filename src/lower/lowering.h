// The state of one lowering (private to src/lower).
#pragma once
#include <functional>

#include "loops/builder.h"
#include "lower/lower.h"
#include "ops/op_record.h"

namespace kiln {

class Lowering {
 public:
  Lowering(const Program& source, std::map<const Value*, std::string>* names);
  loops::LoopProgram run();

 private:
  using BufferId = loops::BufferId;
  loops::Buffer& buffer(BufferId id) { return program_.buffers[static_cast<size_t>(id)]; }
  BufferId make_buffer(const Value& value, loops::BufferRole role);
  std::vector<Expr> input_strides(const TensorType& type) const;
  void refuse_shared_places(const loops::Buffer& written) const;
  void make_result(const Value& value);
  void note_bound(const Value& value);
  void make_inputs();
  void make_outputs();
  loops::LoopProgram::Output user_output(const Argument& out, int position, std::set<BufferId>& taken);
  void copy(BufferId from, BufferId to, loops::Block& block, const std::vector<Origin>& origins);
  BufferId copy_of(BufferId from, loops::BufferRole role, loops::Block& block);

  void lower_node(const Node& node, loops::Block& block);
  void bind_fresh_sizes(const Node& node, loops::Block& block);
  // check_types.cpp: what a file says of a value must be what it gets (K0237)
  void check_results(const Node& node);
  void check_operand(const Value& input, BufferId operand, loops::Block& block);
  void check_same(BufferId to, BufferId from, loops::Block& block);
  void check_slice(BufferId one, BufferId all, const Expr& count, loops::Block& block);
  void assert_same_sizes(const std::vector<Expr>& said, const std::string& name, const std::vector<Expr>& given,
                         loops::Block& block);
  // lower_calls.cpp
  void lower_call(const Node& node, loops::Block& block);
  std::vector<BufferId> write_to_copies(const Node& node, loops::Call& call, loops::Block& block);
  loops::Call::Arg call_argument(const std::string& name, const Argument& arg);
  void lower_symbolic(const Node& node, loops::Block& block);
  void lower_assertion(const Node& node, loops::Block& block);
  // lower_control_flow.cpp
  void lower_control_flow(const Node& node, loops::Block& block);
  void lower_cond(const Node& node, loops::Block& block);
  void lower_while(const Node& node, loops::Block& block);
  // Lowers a subgraph into a block; gives its outputs.
  std::vector<Argument> lower_subgraph(const Graph& graph, const std::vector<Argument>& operands, loops::Block& block);
  // Gives an input of a subgraph its value; a number under another symbol than the operand's is bound here.
  void bind_operand(const Value& input, const Argument& operand, loops::Block& block);
  void check_number(const Value& number, BufferId data, const std::vector<Origin>& origins, loops::Block& block);
  void forget_known_symbols(loops::Block& block, size_t from) const;
  void bind_symbol(const std::string& symbol, const Expr& value, loops::Block& block);
  std::string new_counter();  // the symbol of a new loop's counter
  BufferId tensor_of(const Node& node, const Argument& arg) const;
  void update_carried(const Node& node, const std::vector<BufferId>& carried, const Argument* next,
                      loops::Block& block);
  // lower_iteration.cpp: map, scan and associative_scan, as loops over slices of the first dimension
  struct Iteration {
    const Graph* body = nullptr;
    Argument::List carried, xs, extra;
    bool associative = false;  // the first slice is the initial carry, and each new carry is the result
  };
  static Iteration iteration_of(const Node& node);
  void lower_iteration(const Node& node, const Iteration& parts, loops::Block& block);
  std::vector<BufferId> initial_carry(const Node& node, const Iteration& parts, const Expr& length,
                                      loops::Block& block);
  void take_slice(BufferId from, const Expr& at, BufferId to, loops::Block& block, const std::vector<Origin>& origins);
  void put_slice(BufferId from, BufferId to, const Expr& at, loops::Block& block, const std::vector<Origin>& origins);
  void add_kernel(const std::string& name, const std::vector<Origin>& origins, loops::Block& block,
                  const std::function<void(loops::KernelBuilder&)>& fill);
  std::variant<BufferId, Expr> predicate(const Argument& arg);

  const Program& source_;
  std::map<const Value*, std::string>* names_;  // may be nullptr
  loops::LoopProgram program_;
  RangeEnv ranges_;
  std::map<const Value*, BufferId> buffers_;
  std::map<std::string, BufferId> by_constant_;
  std::set<std::string> bound_;                // symbols whose values are known at this point of the program
  std::map<std::string, BufferId> read_from_;  // symbols of numbers that were read from data
  int control_flow_count_ = 0;
  int64_t draws_ = 0;  // nodes that draw random numbers, so far
};

}  // namespace kiln
