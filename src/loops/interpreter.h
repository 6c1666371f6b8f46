// The loop interpreter: executes a whole LoopProgram, scheduled or not, on concrete inputs. It is the oracle between
// the reference interpreter and compiled code: if it agrees with the reference, lowering and loop passes are right.
//
// Every load and store is checked against the buffer's sizes (K0330 names kernel, buffer, index and loop variables).
// Directives do not change what it does: loops run in order, reductions are summed in iteration order in the
// accumulator's type. Library kernels and custom operators are evaluated by the caller, through `call`.
#pragma once
#include <functional>
#include <memory>

#include "loops/loops.h"

namespace kiln::loops {

// What is known while running: the buffers' contents and the symbols' values.
class RunState {
 public:
  virtual ~RunState() = default;
  // Allocates it if it has no memory yet. Shares memory with the interpreter.
  virtual Tensor buffer(BufferId id) = 0;
  virtual const SymbolValues& symbols() const = 0;
};

// What a call sees: its arguments by name, as Data, and a place for its results.
class CallFrame {
 public:
  CallFrame(const Call& call, RunState& state) : call_(call), state_(state), results_(call.outputs.size()) {}
  RunState& state() { return state_; }
  // Buffers are Tensors that share memory (so that a call can write to what it mutates), expressions are numbers.
  Datum argument(const Call::Arg& arg);
  std::map<std::string, Datum, std::less<>> arguments();
  // One per output of the call. Its sizes give the symbols that the call defines; its values are copied to the output
  // buffer. dtype and sizes must be the buffer's.
  void set_result(size_t output, Tensor result);
  const std::vector<Tensor>& results() const { return results_; }

 private:
  const Call& call_;
  RunState& state_;
  std::vector<Tensor> results_;
};

struct LoopRunOptions {
  uint64_t seed = 0;                                  // of random statements; the number of the run is mixed in
  std::function<void(const Call&, CallFrame&)> call;  // empty: a call is an error
  // Called after each item of the main block and of nested blocks (a cond after its branch).
  std::function<void(const Item&, RunState&)> after_item;
};

struct LoopRun {
  std::vector<Datum> outputs;           // flat
  std::vector<Datum> inputs;            // after the call (mutated ones changed)
  std::map<std::string, Tensor> state;  // mutable constants after the call, by fully qualified name
};

// An instance keeps its mutable constants between runs. The program must outlive it.
class LoopInterpreter {
 public:
  LoopInterpreter(const LoopProgram& program, const std::map<std::string, Tensor>& constants,
                  LoopRunOptions options = {});
  ~LoopInterpreter();
  LoopInterpreter(LoopInterpreter&&) noexcept;
  // Inputs are flat; they are copied before anything is written to them. Their number, dtypes, ranks, sizes, ranges and
  // guards are checked first, with the contract's messages (K0610 … K0619).
  LoopRun run(const std::vector<Datum>& inputs);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Values of the symbols that these inputs determine; throws when an input does not fit.
SymbolValues bind_symbols(const LoopProgram& program, const std::vector<Datum>& inputs);

}  // namespace kiln::loops
