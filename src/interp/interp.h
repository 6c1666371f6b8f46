// The reference interpreter: runs a Graph node by node with PyTorch's eager meaning, through the operators' reference
// evaluations. It is the oracle for `kiln interpret`, for accuracy checks, bisecting and minifying.
//
// A fixed text of the contract opens the message: "Error: input_handles[0]: unmatched dtype, …".
#pragma once
#include "graph/graph.h"

namespace kiln {

struct InterpretOptions {
  bool fp64 = false;  // floats are stored and computed as f64; explicit casts keep their meaning
  uint64_t seed = 0;
  // Called after each node with its results; may be empty.
  std::function<void(const Node&, const std::vector<Datum>&)> after_node;
  // Called when a graph begins, the program's or a subgraph of a control-flow operator, with its inputs; may be empty.
  std::function<void(const Graph&, const std::vector<Datum>&)> before_graph;
  // Runs nodes that have no record (custom operators): arguments in, results out. Empty: such a node is an error.
  std::function<std::vector<Datum>(const Node&, const std::map<std::string, Datum, std::less<>>&)> custom;
};

struct InterpretResult {
  std::vector<Datum> outputs;           // flat, user outputs only
  std::vector<Datum> inputs;            // the inputs after the call (mutated ones changed)
  std::map<std::string, Tensor> state;  // buffers after the call, by name
};

// An instance keeps its mutable buffers between calls, like a module.
class Interpreter {
 public:
  explicit Interpreter(const Program& program, InterpretOptions options = {});
  // Inputs are flat in graph order, user inputs only; they are copied before anything is written to them. Checks
  // number, dtypes, ranks, sizes, ranges and guards first, with the contract's messages (K06xx).
  InterpretResult run(const std::vector<Datum>& inputs);

 private:
  std::shared_ptr<const Program> inlined_;  // where the given program has wrappers (autocast): it without them
  const Program& program_;
  InterpretOptions options_;
  std::vector<bool> written_;            // by graph input: the program may write to it
  std::map<std::string, Tensor> state_;  // constants as this instance sees them
  uint64_t runs_ = 0;
};

// Values of the program's symbols for these inputs; throws with the contract's message when an input does not fit.
SymbolValues bind_symbols(const Program& program, const std::vector<Datum>& inputs);

}  // namespace kiln
