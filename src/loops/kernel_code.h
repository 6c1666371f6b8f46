// Inside of the loop interpreter: a kernel translated once into a compact form (slots instead of names, function
// pointers instead of operators), and its execution on concrete buffers.
#pragma once
#include "loops/index_code.h"
#include "loops/loops.h"

namespace kiln::loops {

// A buffer's memory while a kernel runs.
struct BufferView {
  std::byte* data = nullptr;  // of the element with index 0
  const int64_t* sizes = nullptr;
  const int64_t* strides = nullptr;
};

struct LoopCode;

struct Instruction {
  enum class Kind : uint8_t {
    unary,
    binary,
    ternary,
    bitcast,
    index,
    load,
    store,
    check_index,
    raise_if,
    random,
    loop
  };
  Kind kind = Kind::unary;
  DType dtype = DType::f32, operand = DType::f32;
  ScalarFunction function = nullptr;  // operators; store: how the old value and the new one are combined (or null)
  ValueId result = no_value, a = no_value, b = no_value, c = no_value, mask = no_value;
  int buffer = -1;               // place in KernelCode::buffers, or in KernelCode::scratch
  bool scratch = false;          // the latter
  int64_t bytes = 0;             // of an element
  int slot = -1;                 // check_index: of its variable
  std::vector<IndexCode> index;  // load, store: per dimension; others: one expression
  const Stmt* source = nullptr;  // for messages
  std::unique_ptr<LoopCode> loop;
};

struct LoopCode {
  int slot = 0;
  bool starts_item = false;  // each iteration is an item: what an earlier one left in scratch is gone
  IndexCode extent;
  const Loop* source = nullptr;
  ScalarFunction update = nullptr;  // one accumulator: the operator
  const Stmt* product = nullptr;    // of a sum over products: the statement that makes what is yielded
  std::vector<ValueId> results;
  bool goes_on = false;  // a mean and its squares that the loop around goes on with: not rounded in between
  std::vector<Instruction> body, after;
};

struct KernelCode {
  KernelCode(const Kernel& kernel, const LoopProgram& program);
  const Kernel& kernel;
  const LoopProgram& program;
  SlotTable slots;
  std::vector<int> symbols;       // slots of the program's symbols; the others are the kernel's variables
  std::vector<BufferId> buffers;  // that the kernel touches, scratch aside
  std::vector<BufferId> scratch;  // whose memory is made while it runs
  std::vector<std::pair<ValueId, Cell>> constants;
  std::vector<Instruction> body;
};

// `views` in the order of code.buffers. Throws what the kernel raises.
void run_kernel(const KernelCode& code, const std::vector<BufferView>& views, const SymbolValues& symbols,
                uint64_t seed);

// ---- Reductions
// ----------------------------------------------------------------------------------------------------------

// The accumulators before the first iteration.
void start_accumulators(ReduceOp op, DType dtype, Cell* accumulators);
// Takes in one iteration's yields: `count` of them, as ReduceInfo says; `position` is the iteration's number.
void update_accumulators(ReduceOp op, DType dtype, const Cell* yields, size_t count, int64_t position,
                         Cell* accumulators);

}  // namespace kiln::loops
