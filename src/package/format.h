// The plan: the host side of a compiled model, as data. Written by the compiler, read by the runtime, described for
// people in docs/package-format.md. It depends on nothing but three enums of types/; beside it the two sides share
// plan_io.h, which reads and writes it, and step_plan.h.
//
// On disk: 8 bytes "KILNPLAN", u32 major, u32 minor, u64 payload bytes, then the payload: the fields of Plan in the
// order of `fields` below, little-endian; vectors and strings are a u64 count and their items; every struct is preceded
// by its u32 byte length, so that a reader of an older minor version skips fields that were appended later. Another
// major is refused.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "types/access.h"
#include "types/device.h"
#include "types/dtype.h"

namespace kiln::format {

inline constexpr uint32_t plan_major = 2, plan_minor = 5;
inline constexpr char plan_magic[8] = {'K', 'I', 'L', 'N', 'P', 'L', 'A', 'N'};

// ---- Expressions: overflow-checked int64 stack code -----------------------------------------------------------------
// Floats (from symbolic true division) travel on the same stack as bit patterns of doubles; truediv, sqrt, to_int,
// floor_to_int, ceil_to_int and float_* take floats only (integers go through to_float first), comparisons give 0 or 1.
enum class ExprCode : uint8_t {
  constant,  // operand: value
  symbol,    // operand: symbol slot
  add,
  sub,
  mul,
  floordiv,
  mod,
  pow,
  min,
  max,
  neg,
  eq,
  ne,
  lt,
  le,
  logical_and,
  logical_or,
  logical_not,
  ite,             // condition a b -> condition ? a : b
  float_constant,  // operand: bits
  to_float,
  truediv,
  to_int,
  floor_to_int,
  ceil_to_int,
  sqrt,
  float_add,
  float_mul,
  float_min,
  float_max,
  float_eq,
  float_ne,
  float_lt,
  float_le,
  float_neg,
  float_pow,
  float_floordiv,
  float_mod,
};
struct ExprInstruction {
  ExprCode code;
  int64_t operand;
};
// What an output is, a constant input, an argument of a call (the first eight are KILN_ARG_* of kiln/custom_op.h).
// Declared before the constant below, which one of their names would shadow.
enum class OutputWhat : uint8_t { tensor, integer, floating, boolean, none, string };
enum class ConstantKind : uint8_t { none, integer, floating, boolean, string };
enum class ArgKind : uint8_t { none, buffer, buffers, expr, exprs, floating, boolean, string, dtype };
// Sizes, offsets, guards refer to expressions by index into Plan::exprs. Equal expressions are stored once.
using ExprIndex = int32_t;
inline constexpr int32_t none = -1;
struct ExprProgram {
  std::vector<ExprInstruction> code;
  bool is_float = false;
  std::string text;  // for messages: "s0*2 + 1"
};

// ---- Symbols --------------------------------------------------------------------------------------------------------
enum class SymbolSource : uint8_t { input_size, input_value, step /* bound while running */, iteration };
struct Symbol {
  std::string name;
  SymbolSource source = SymbolSource::input_size;
  int32_t input = none, dim = none;  // input_size, input_value
  int64_t low = INT64_MIN, high = INT64_MAX;
  // input_size, where no input has the plain symbol as a size: size == scale * symbol + rest. `rest` mentions only
  // symbols with lower slots. Whether the division was exact is seen when the size is verified.
  int64_t scale = 1;
  ExprIndex rest = none;
};

// ---- Inputs, outputs, constants -------------------------------------------------------------------------------------
enum class InputWhat : uint8_t { tensor, sym_int, sym_float, sym_bool, constant /* must equal */, ignored };
struct Input {
  std::string name;
  InputWhat what = InputWhat::tensor;
  int32_t buffer = none;                            // tensor
  int32_t symbol = none;                            // sym_*
  ConstantKind constant_kind = ConstantKind::none;  // constant
  int64_t constant_int = 0;
  double constant_float = 0;
  std::string constant_string;
  bool mutated = false;  // written back when it had to be copied
  bool on_host = false;  // in a plan for another device: the program has it on the CPU, where the caller gives it
};
// `buffer` may be any buffer: where it is not the output buffer with this very position (the same tensor returned
// twice, an input or a constant returned), the runtime copies at the end, so that outputs never share memory.
struct Output {
  std::string name;
  OutputWhat what = OutputWhat::tensor;
  int32_t buffer = none;
  ExprIndex expr = none;  // integer, floating, boolean
  std::string key;        // its name in the program's result: "last_hidden_state"; empty: it has none
  std::string text;       // string: a constant of the program
  bool on_host = false;   // as an input's: the caller gets it there
  const std::string& shown_name() const { return key.empty() ? name : key; }
};
// Whose values they are. made: the compiler's own, computed from the program (folded); state: of the model's state
// dict; other: a tensor that stands in the program, or a buffer that is not saved with the model.
enum class ConstantOrigin : uint8_t { made, state, other };
struct Constant {
  std::string name;            // fully qualified
  std::string entry;           // archive entry that holds its storage
  int64_t storage_offset = 0;  // bytes from the start of that entry
  int64_t bytes = 0;           // of the region its elements span
  bool mutated = false;        // a buffer that runs write: each Instance has its own copy
  ConstantOrigin origin = ConstantOrigin::state;
  // A derived buffer with an entry of its own that has every value of this constant, in another order: then the package
  // has the values there alone (`entry` is empty). none: they are where `entry` says.
  int32_t packed_in = none;
  // An earlier constant that is this one under another name: the same elements of one storage (tied weights). Whatever
  // changes one of them changes both. none: there is none.
  int32_t same_as = none;
};
// How the order of packed values is found: the step that packs is given the numbers of the values to pack, from 1, so
// many bits of them at a time. Without an element's upper two bits no number is a NaN, which some conversions change.
inline constexpr int64_t packed_number_bits(int64_t element_bytes) {
  return element_bytes >= 8 ? 62 : 8 * element_bytes - 2;
}

// ---- Buffers --------------------------------------------------------------------------------------------------------
enum class BufferRole : uint8_t { input, constant, derived, output, temp };
struct Buffer {
  std::string name;
  DType dtype = DType::boolean;
  BufferRole role = BufferRole::temp;
  DeviceType device = DeviceType::cpu;  // whose memory it is in
  int32_t position = none;              // input/output position, or index into constants
  std::vector<ExprIndex> sizes, strides;
  // In elements, from the start of the memory to the element [0, …, 0]; none: 0. Kernels get the address of that
  // element (they do not add the offset); for inputs and constants that is the data pointer itself.
  ExprIndex offset = none;
  // temp, derived, output: of the allocation, from its start to the end of the last element (strides may leave gaps).
  ExprIndex bytes = none;
  // temp, output: lives where that buffer lives. The compiler updates in place in the loops already and does not write
  // it; plans made by hand do, and so do the tests that plant two values in one place.
  int32_t same_memory_as = none;
  int32_t alignment = 64;  // assumed by the kernels
  // derived: the archive entry with what init would make of the constants as packaged; empty: init makes it.
  std::string entry;
};

// ---- Steps ----------------------------------------------------------------------------------------------------------
enum class StepKind : uint8_t { kernel, library, custom, bind_symbol, assert_that, cond, while_loop };
struct KernelArg {
  int32_t buffer = none;
  Access access = Access::read;
};
struct CallArg {
  std::string name;
  ArgKind kind = ArgKind::none;
  std::vector<int32_t> items;  // buffers (none: a None element), ExprIndex, {kiln::DType}
  double floating = 0;         // floating; boolean: 0 or 1
  std::string string;
  bool is_tensors() const { return kind == ArgKind::buffer || kind == ArgKind::buffers; }
  bool is_integers() const { return kind == ArgKind::expr || kind == ArgKind::exprs; }
};
struct Step {
  StepKind kind = StepKind::kernel;
  std::string name;    // cpp_fused_add_relu_3
  int32_t number = 0;  // block-order number, unique in the plan; the key into the debug section
  // Where it runs. A kernel's arguments are all in this device's memory; what a library kernel or a custom operator of
  // the host is given of another device's is copied for it.
  DeviceType device = DeviceType::cpu;
  // kernel
  int32_t kernel = none;  // index into Plan::kernels
  std::vector<KernelArg> args;
  std::vector<ExprIndex> ints;
  ExprIndex items = none;  // item count
  ExprIndex grain = none;  // items that are worth one thread's while
  // Bytes that each thread wants for itself while it runs items, aligned to 64; none: nothing. What is in them is
  // undefined when an item begins.
  ExprIndex scratch = none;
  // library, custom
  std::string target;  // "topk", "mylib.foo.default"
  std::vector<CallArg> call_args;
  std::vector<int32_t> outputs;  // buffers
  std::vector<int32_t> defines;  // symbol slots that it gives (library: size phase; custom: from output sizes)
  std::vector<int32_t> mutates;
  // bind_symbol: args[0] is the buffer, defines[0] the symbol
  // assert_that, cond (symbolic predicate), while_loop: condition expression; cond with a tensor: args[0]
  ExprIndex condition = none;
  std::string message;
  // cond: {then, else}; while_loop: {condition, body}
  std::vector<std::vector<Step>> blocks;
  int32_t iteration_symbol = none;
  // kernel: a kernel raises with a number local to its body (identical bodies are shared); this maps it to Plan::sites
  std::vector<int32_t> sites;
  // kernel: threads go through their items forwards and backwards in turns
  bool turns = false;
};

struct Kernel {
  std::string symbol;  // exported by the code object of its steps' device
};
struct Site {
  std::string message, op, node, source;  // source: "model.py:42 in forward:  y = …"
};
struct Guard {
  ExprIndex condition = none;
  std::string text, reason;
};
struct CodeObject {
  std::string target;     // "x86-64-v4"
  std::string entry;      // archive entry
  std::string plan = "";  // archive entry of the plan that was scheduled for it; empty: this one
  DeviceType device = DeviceType::cpu;
};
struct CustomLibrary {
  std::string name, entry;
};

struct Plan {
  std::string model_name;
  std::string build_id;  // hash over everything the package says
  std::string kiln_version, torch_version;
  uint32_t kernel_abi = 0;
  DeviceType device = DeviceType::cpu;  // that the program was compiled for: inputs and outputs are there
  std::vector<Symbol> symbols;
  std::vector<ExprProgram> exprs;
  std::vector<Guard> guards;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<Constant> constants;
  std::vector<Buffer> buffers;
  std::vector<Kernel> kernels;
  std::vector<Site> sites;
  std::vector<Step> init;  // derived constants
  std::vector<Step> steps;
  std::vector<CodeObject> code;
  std::vector<CustomLibrary> custom_libraries;
  std::vector<std::string> metadata_keys, metadata_values;  // the user's
  // Some kernel draws random numbers: each run then has a number of its own. Where none does, runs on several threads
  // need not share a counter.
  bool uses_random = true;
  // What draws is numbered through the whole program, and so launches need no streams of their own.
  bool numbered_draws = false;
};

// ---- Fields, once for reader and writer -----------------------------------------------------------------------------
template <class A>
void fields(A& a, ExprInstruction& v) {
  a(v.code), a(v.operand);
}
template <class A>
void fields(A& a, ExprProgram& v) {
  a(v.code), a(v.is_float), a(v.text);
}
template <class A>
void fields(A& a, Symbol& v) {
  a(v.name), a(v.source), a(v.input), a(v.dim), a(v.low), a(v.high), a(v.scale), a(v.rest);
}
template <class A>
void fields(A& a, Input& v) {
  a(v.name), a(v.what), a(v.buffer), a(v.symbol), a(v.constant_kind), a(v.constant_int), a(v.constant_float),
      a(v.constant_string), a(v.mutated), a(v.on_host);
}
template <class A>
void fields(A& a, Output& v) {
  a(v.name), a(v.what), a(v.buffer), a(v.expr), a(v.key), a(v.text), a(v.on_host);
}
template <class A>
void fields(A& a, Constant& v) {
  a(v.name), a(v.entry), a(v.storage_offset), a(v.bytes), a(v.mutated), a(v.origin), a(v.packed_in), a(v.same_as);
}
template <class A>
void fields(A& a, Buffer& v) {
  a(v.name), a(v.dtype), a(v.role), a(v.device), a(v.position), a(v.sizes), a(v.strides), a(v.offset), a(v.bytes),
      a(v.same_memory_as), a(v.alignment), a(v.entry);
}
template <class A>
void fields(A& a, KernelArg& v) {
  a(v.buffer), a(v.access);
}
template <class A>
void fields(A& a, CallArg& v) {
  a(v.name), a(v.kind), a(v.items), a(v.floating), a(v.string);
}
template <class A>
void fields(A& a, Step& v) {
  a(v.kind), a(v.name), a(v.number), a(v.device), a(v.kernel), a(v.args), a(v.ints), a(v.items), a(v.grain),
      a(v.scratch), a(v.target), a(v.call_args), a(v.outputs), a(v.defines), a(v.mutates), a(v.condition), a(v.message),
      a(v.blocks), a(v.iteration_symbol), a(v.sites), a(v.turns);
}
template <class A>
void fields(A& a, Kernel& v) {
  a(v.symbol);
}
template <class A>
void fields(A& a, Site& v) {
  a(v.message), a(v.op), a(v.node), a(v.source);
}
template <class A>
void fields(A& a, Guard& v) {
  a(v.condition), a(v.text), a(v.reason);
}
template <class A>
void fields(A& a, CodeObject& v) {
  a(v.target), a(v.entry), a(v.plan), a(v.device);
}
template <class A>
void fields(A& a, CustomLibrary& v) {
  a(v.name), a(v.entry);
}
template <class A>
void fields(A& a, Plan& v) {
  a(v.model_name), a(v.build_id), a(v.kiln_version), a(v.torch_version), a(v.kernel_abi), a(v.device), a(v.symbols),
      a(v.exprs), a(v.guards), a(v.inputs), a(v.outputs), a(v.constants), a(v.buffers), a(v.kernels), a(v.sites),
      a(v.init), a(v.steps), a(v.code), a(v.custom_libraries), a(v.metadata_keys), a(v.metadata_values),
      a(v.uses_random), a(v.numbered_draws);
}

// ---- The debug section ----------------------------------------------------------------------------------------------
// Entry debug/origins: "KILNORIG", then like the plan. One record per step number.
struct StepOrigin {
  int32_t number = 0;
  std::vector<std::string> nodes, ops, modules, lines;  // parallel; lines: "model.py:42 in forward:  y = …"
  // Of the buffers that the step writes: which of these operators the value is of. Parallel.
  std::vector<std::string> values;
  std::vector<int32_t> value_origins;
};
struct Origins {
  std::string build_id;
  std::vector<StepOrigin> steps;
};
template <class A>
void fields(A& a, StepOrigin& v) {
  a(v.number), a(v.nodes), a(v.ops), a(v.modules), a(v.lines), a(v.values), a(v.value_origins);
}
template <class A>
void fields(A& a, Origins& v) {
  a(v.build_id), a(v.steps);
}

}  // namespace kiln::format
