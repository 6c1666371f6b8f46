// Loops: the second IR. Every tensor operation is a loop nest over scalar statements; a kernel is a tree of loops.
//
// One form serves both stages. After lowering there is about one kernel per operator and no directive. Scheduling
// merges kernels and adds directives (binding of an axis to items or lanes, tails, templates); directives never change
// what a kernel computes, only the order in which a reduction is summed.
//
//   kernel cpp_fused_softmax_0 ops [softmax] {
//     for i0 in [s0] parallel @item {
//       %0 = for r0 in [64] reduce max.f32 {
//         %1 = load.f32 x[i0, r0]
//         yield %1
//       }
//       %2 = for r1 in [64] reduce sum.f32 {
//         %3 = load.f32 x[i0, r1]
//         %4 = sub.f32 %3, %0
//         %5 = exp.f32 %4
//         yield %5
//       }
//       for i1 in [64] parallel @lane(16, exact) {
//         %6 = load.f32 x[i0, i1]
//         …
//         store out[i0, i1] = %9
//       }
//     }
//   }
//
// Values are numbered per kernel, defined before use in the same or an enclosing loop. Loop variables and index
// variables (made by check_index) are symbols in index expressions, beside the program's size symbols.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <variant>
#include <vector>

#include "graph/graph.h"
#include "loops/scalar_ops.h"
#include "types/expr.h"

namespace kiln::loops {

using ValueId = int32_t;  // index into Kernel::value_types
inline constexpr ValueId no_value = -1;
using BufferId = int32_t;  // index into LoopProgram::buffers
inline constexpr BufferId no_buffer = -1;

enum class BufferRole : uint8_t {
  input,     // a user input; written only if the program mutates it
  constant,  // a weight or lifted constant; `constant` names it; written only if it is a mutable buffer
  derived,   // computed once from constants by the init section
  output,    // a user output
  temp,
  // Memory of whoever runs an item of the one kernel that uses it: undefined when the item begins, gone when it ends.
  // Every element that is read was written before in the same item (loops/verify_scratch.cpp says how that is shown).
  scratch,
};

struct Buffer {
  std::string name;
  DType dtype = DType::f32;
  std::vector<Expr> sizes, strides;  // strides in elements
  Expr offset;
  BufferRole role = BufferRole::temp;
  int position = -1;     // input, output: its place in the flat list
  std::string constant;  // constant: its fully qualified name
  bool mutated = false;  // input, constant: written by the program
  // Its memory is that of a tensor of complex numbers, which others see. Here it holds their parts: the last dimension,
  // of 2, is real and imaginary part.
  bool complex = false;

  // The tensor that everybody else sees.
  DType tensor_dtype() const;
  std::vector<Expr> tensor_sizes() const;
  std::vector<Expr> tensor_strides() const;
  Expr tensor_offset() const;
};
// The buffer of a tensor of this type.
Buffer buffer_of_tensor(std::string name, DType dtype, const std::vector<Expr>& sizes, const std::vector<Expr>& strides,
                        BufferRole role);
// A tensor as a kernel sees it: complex numbers as their parts, in the same memory.
Tensor parts_seen(Tensor tensor);

// Reductions to one or more accumulators. docs/semantics.md has identity, update and combine of each.
enum class ReduceOp : uint8_t {
  // one value; max and min propagate NaN
  sum,
  prod,
  max,
  min,
  // bool
  any,
  all,
  // (value, index): first occurrence; NaN wins
  argmax,
  argmin,
  // (mean, m2, count) over one yielded value
  welford,
};
// An iteration yields either `yields` values (one element: argmax takes the loop variable as its index) or
// `accumulators` values (the results of an inner reduction of the same kind, which are combined). Where both numbers
// are 1 there is no difference. KernelBuilder::reduce over several extents nests loops that way, with the innermost
// argmax yielding (value, number of the iteration in row-major order over all extents).
// argmax and argmin: among equal values (two NaNs are equal here) the smaller index wins, whatever the order of
// iterations; the index starts at INT64_MAX.
struct ReduceInfo {
  const char* name;
  int accumulators;  // results of the loop
  int yields;        // values yielded per element
};
const ReduceInfo& reduce_info(ReduceOp op);
std::optional<ReduceOp> reduce_op_from_name(std::string_view name);

enum class AxisRole : uint8_t { parallel, reduce, scan };
// kept: what the loop writes to scratch is the same for all numbers of the innermost item loop, and stays there for
// those that a thread takes one after the other.
enum class Binding : uint8_t { none, item, lane, unroll, serial, kept };
enum class Tail : uint8_t { exact, mask, peel };

struct AxisDirectives {
  Binding binding = Binding::none;
  int64_t factor = 0;  // lane: vector length; item: rows per item; unroll: factor
  Tail tail = Tail::exact;
  bool operator==(const AxisDirectives&) const = default;
};

// How the terms of a float sum are added up. Any order is right; this is the one that runs, whatever the number of
// threads.
struct SumOrder {
  bool fused = false;  // the product that the body ends with is added without being rounded first
  // By instructions for pairs of bf16 terms, for which subnormal numbers are 0. Whether the first or the second of a
  // pair comes first, and whether those of even and of odd number meet at once or at the end of a block, is theirs.
  bool pairs = false;
  int64_t block =
      0;  // > 0: in blocks of so many terms (per lane), each from 0: the error does not grow with the length
  DType meet = DType::f32;  // block: the type in which the blocks meet
  // Of a block in lanes: 2: vectors of even and of odd number have a sum each, so that one addition need not wait for
  // the other.
  int chains = 1;
  bool operator==(const SumOrder&) const = default;
};

enum class StoreMode : uint8_t { plain, add, atomic_add, min, max, prod };  // all but atomic_add are in iteration order

enum class StmtKind : uint8_t { op, constant, index_value, load, store, check_index, raise_if, random, loop };

struct Stmt;
using Body = std::vector<Stmt>;

struct Loop {
  std::string var;
  Expr extent;
  AxisRole role = AxisRole::parallel;
  AxisDirectives directives;
  // reduce and scan: the operator (it says the start values); results of the Stmt are the final accumulators.
  ReduceOp reduce = ReduceOp::sum;
  DType reduce_dtype = DType::f32;  // of the accumulators (argmax: of the value; the index is i64)
  std::vector<ValueId> yields;      // one iteration's values (reduce, scan), defined in body
  SumOrder order;                   // reduce sum of floats
  // reduce: a condition of the body. Where it is false the iteration changes nothing (its loads are masked off), and
  // need not run; who runs it all the same comes to the same result.
  ValueId only = no_value;
  // scan: the accumulators after this iteration's update, usable in `after` (which runs each iteration).
  std::vector<ValueId> running;
  Body body;
  Body after;  // scan; sees the body's values too

  DType accumulator_dtype(int which) const;
};

struct Stmt {
  StmtKind kind = StmtKind::op;
  std::vector<ValueId> results;  // op, constant, index_value, load, check_index, random: one; loop: accumulators
  ScalarOp op{};                 // op; an integer division by zero gives 0 (the builder puts a raise_if before it)
  DType dtype = DType::f32;      // of the result (op: see scalar_ops.h; load: the buffer's)
  std::vector<ValueId> args;     // op: operands; store: {value}; check_index: {value}; raise_if: {condition}
  Scalar constant;               // constant
  Expr expr;                     // index_value: the value (may be a float); check_index: the extent;
                                 // random: the counter (loops/random.h says what comes out)
  std::string index_var;         // check_index: the symbol that later index expressions may use. The value must lie in
                                 // [-extent, extent) and negative ones are wrapped; else the kernel raises at `site`
  BufferId buffer = no_buffer;   // load, store
  std::vector<Expr> index;       // load, store: one per dimension of the buffer
  ValueId mask = no_value;       // load (masked off: 0), store, check_index (masked off: 0), raise_if
  StoreMode mode = StoreMode::plain;
  int site = -1;  // check_index, raise_if: index into LoopProgram::sites
  std::unique_ptr<Loop> loop;

  Stmt clone() const;
};
Body clone(const Body& body);

// A place that can raise: what the message says.
struct Site {
  std::string message;  // "index out of range in aten.embedding"
  Origin origin;
};

// A sum over products of two factors, of which one stands still along the columns and the other along the rows: a
// matrix product, a convolution. Recognised once (schedule/find_contractions.cpp); whoever schedules or prints the
// kernel reads it here. Several rows (a picture's lines and points) count as one axis; so do several sums (channels,
// the window).
struct Contraction {
  std::vector<std::string> batch, rows, columns;  // variables of the parallel loops, outermost first
  std::vector<std::string> sums;                  // variables of the reductions, outermost first
  ValueId left = no_value, right = no_value;      // the factors: left varies with the rows, right with the columns
  // What the sums' bodies compute for each of them, in order; `shared`: what varies with neither.
  std::vector<ValueId> left_values, right_values, shared_values;
};

// A tile of a contraction, accumulated in registers while the sums run once.
struct Tile {
  int64_t rows = 0;     // 0: no tile, the nest runs as it is written
  int64_t vectors = 0;  // of columns
  int64_t high = 1;     // so many tiles, one below the other, are an item
  // Not beside: so many items, where a thread has them one behind the other, pass through the columns as one, so that
  // each panel serves all of their rows. Items then are small, and threads that are not equally fast have equal parts.
  int64_t together = 1;
  bool beside = false;  // each tile's width of columns is an item of its own; else an item runs through all columns
  int64_t ahead = 0;    // > 0: with every so many terms a line of the next panel of a packed factor is fetched
  // Both factors are bf16, and two neighbouring terms are added by one instruction. The right factor lies in panels of
  // pairs of terms.
  bool pairs = false;
  // The left factor is u8 or i8 (a masked one may be a number instead), the right one i8, and four neighbouring terms
  // are added to an i32 by one instruction. The right factor lies in panels of fours of terms.
  bool quads = false;
  // Both factors are bf16, and the products are matrix instructions, of 16 rows, 16 columns and 32 terms each. The
  // right factor lies in panels of pairs of terms.
  bool matrix = false;
  // matrix: scratch that an item first copies its rows of the left factor to, one after the other, each sum's terms up
  // to a multiple of 32. Else they are read where they lie, neighbouring terms, rows equally far apart.
  // Without matrix: the rows of a tile are points of one line, and what lies under them at its ends is copied there
  // (loops/line_windows.h).
  BufferId rows_copy = no_buffer;
  // Scratch of f32, so many terms for each row of a tile, that rows of bf16 or f16 are widened to as the sum comes to
  // them (loops/narrow_rows.h).
  BufferId rows_wide = no_buffer;
  // Batches that share the rows' factor: their items for one block of rows follow one another, so that it is at hand.
  bool interleaved = false;
  bool operator==(const Tile&) const = default;
};

// How a kernel runs on a GPU. Blocks of threads share out the items; `team` of them take one together: its lanes are
// the team's threads, and what stands outside of lanes each of them does for itself, stores aside, which the first one
// does.
struct Grid {
  int threads = 0;  // of a block; 0: not on a GPU
  int team = 1;     // threads that take an item together: a power of two, at most those of the block
  // Neighbours that a thread takes at a time, so that memory moves in wide words. Where each thread has items of its
  // own, the innermost loop of the items is `@item(vector)`; the lanes of a team are `@lane(team * vector)`.
  int vector = 1;
  // > 0: lanes run in so many rounds, which are unrolled, and the item's scratch is registers: what a thread reads of
  // it was written by itself, in the round of the same number.
  int hold = 0;
  // A contraction that a block runs by tiles of its results, which share what they read: rows and columns of such a
  // tile, terms of the sums that are at hand at a time, and what one thread has of them. 0: none.
  int64_t tile_rows = 0, tile_columns = 0, tile_terms = 0, thread_rows = 0, thread_columns = 0;
  // The tile's products are matrix instructions, and the part above is a warp's: of bf16 or f16 where both factors are
  // just that, else of f32 cut to TF32.
  bool tensor_cores = false;
  // Those of four warps together, which read both factors from shared memory (wgmma): the part above is theirs, 64 rows
  // or a multiple, of which warp i has the 16 from 16 i on in every 64. Lines in shared memory are 128 bytes long.
  bool warpgroups = false;
  int stages = 1;  // of terms that are at hand or on their way
  // In which order neighbouring threads fetch the factors: along the terms, or along the rows (the columns); and how
  // many neighbours of that order they fetch in one word.
  bool left_along_terms = false, right_along_terms = false;
  int left_chunk = 1, right_chunk = 1;
  // > 0: attention (AttentionNest). A block has some rows of the first product, whose columns are keys: so many of
  // these are at hand at a time, with what they weigh. Weights are taken relative to the greatest score so far, and
  // what is summed up already is scaled when a greater one comes. A warp has whole rows; terms and columns are as wide
  // as the lines of the tiles in shared memory. value_chunk: neighbours of what is weighed that come in one word.
  int64_t keys = 0;
  int value_chunk = 1;
  // As so many narrow numbers each weight goes into the matrix instructions: 1 rounds it to the other factor's type.
  int weight_parts = 1;
  bool causal = false;  // keys behind the row's own number have scores of -inf, and need not be looked at
  // > 1: so many blocks (a cluster) have a tile together, each every so many-th of its stages of terms; then each adds
  // up all parts of some rows, in the order of the blocks.
  int parts = 1;
  bool operator==(const Grid&) const = default;
};

// How a kernel runs, beside what stands at its loops. Decided by the scheduler; the printers decide nothing.
struct Schedule {
  int lanes = 1;      // elements in a vector of its code; 1: scalar code
  Expr items = 1;     // independent parts, numbered by the loops bound to items
  int64_t grain = 1;  // so many of them are worth waking a thread
  // Each thread goes through its items one way and the other in turns: the matrix that they read, which is larger than
  // its cache, is then still there in part when the same step, or its like, comes again.
  bool turns = false;
  Tile tile;
  Grid grid;
};

// Where a kernel computes a value of the graph: the element `index` of the value `name`, unless masked off. Lowering
// stores every value of the graph; these stay behind when fusion forwards the value to its readers and the store goes,
// so that the values *between* the operators of a fused kernel can still be looked at. Nothing that runs reads them.
struct NamedValue {
  ValueId value = no_value;
  std::string name;
  std::vector<Expr> index;
  ValueId mask = no_value;
};

struct Kernel {
  std::string name;                   // cpp_fused_add_relu_3; until scheduling: the node's name
  std::vector<std::string> op_names;  // what is fused, in order, for the name: {"add", "relu"}
  std::vector<DType> value_types;     // by ValueId
  Body body;
  std::vector<Origin> origins;
  std::optional<Contraction> contraction;
  std::optional<Schedule> schedule;  // once it is scheduled
  std::vector<NamedValue> named;     // in the order of their computation
  Kernel clone() const;
};

// A step that calls a library kernel (lib_topk), a custom operator, or nothing but binds symbols.
struct Call {
  std::string target;   // operator: "aten.topk.default", "mylib.foo.default"
  bool custom = false;  // a user's library provides it
  std::string library;  // name of the runtime's library kernel ("topk"); empty for custom
  struct Arg {
    std::string name;
    std::variant<std::monostate, BufferId, std::vector<BufferId>, Expr, std::vector<Expr>, Scalar, std::string, DType>
        value;
  };
  std::vector<Arg> args;
  std::vector<BufferId> outputs;     // written by the call
  std::vector<std::string> defines;  // symbols (u0) whose values the call gives, in the library kernel's order
  std::vector<BufferId> mutates;     // inputs that are written
  bool proves_sizes = false;         // sizes that it finds in data were known before: it stays though nobody reads it
  std::string name;                  // step name: lib_topk_0, or the custom operator's own
  std::vector<Origin> origins;
};

// symbol = buffer's only element (integer or bool)
struct BindSymbol {
  std::string symbol;
  BufferId buffer = no_buffer;
  std::vector<Origin> origins;
};

struct AssertThat {
  Expr condition;
  std::string message;
  std::vector<Origin> origins;
};

struct Item;
using Block = std::vector<Item>;

// Branches write the cond's output buffers themselves; they see all buffers of the program.
struct Cond {
  std::variant<BufferId, Expr> predicate;
  std::unique_ptr<Block> then_block, else_block;
  std::string name;
  std::vector<Origin> origins;
};

// while: condition block computes the predicate buffer; then the body runs and writes the carried buffers.
struct While {
  std::unique_ptr<Block> condition_block;
  std::variant<BufferId, Expr> predicate;
  std::unique_ptr<Block> body_block;
  std::string iteration_symbol;  // counts iterations from 0, usable in expressions of the body
  std::string name;
  std::vector<Origin> origins;
};

struct Item {
  std::variant<Kernel, Call, BindSymbol, AssertThat, Cond, While> what;
};

struct LoopProgram {
  std::string name = "model";
  std::map<std::string, SymbolInfo> symbols;
  std::vector<Guard> guards;
  std::vector<Buffer> buffers;
  // The flat list of user inputs and outputs: buffers, symbols, constants.
  struct Input {
    std::string name;
    std::variant<BufferId, std::string /* symbol of an int input */, Argument /* constant to be passed */> what;
  };
  struct Output {
    std::variant<BufferId, Expr, Argument> what;
  };
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<Site> sites;
  Block init;  // derived constants, run when weights are loaded or updated
  Block block;
  std::shared_ptr<void> keep_alive;

  RangeEnv ranges() const;
  BufferId add_buffer(Buffer buffer);  // makes the name unique
  LoopProgram clone() const;

  std::unordered_set<std::string> buffer_names;  // for add_buffer, which brings it up to date
};

// ---- Walking
// ---------------------------------------------------------------------------------------------------------

// Every statement of a body, outermost first, loops before their contents.
void for_each_stmt(Body& body, const std::function<void(Stmt&)>& f);
void for_each_stmt(const Body& body, const std::function<void(const Stmt&)>& f);
// Every item of a block, nested blocks included.
void for_each_item(Block& block, const std::function<void(Item&)>& f);
void for_each_item(const Block& block, const std::function<void(const Item&)>& f);

// The chain of loops bound to items, from the outermost, and the body inside of them: what one item runs.
struct ItemLoops {
  std::vector<const Loop*> loops;
  const Body* body = nullptr;
};
ItemLoops item_loops(const Kernel& kernel);
// How many items there are: the product of those loops' extents, in groups of the factor where there is one.
Expr item_count(const Kernel& kernel);
// Columns that are left over beside whole tiles of so many vectors are a tile of their own, of so many vectors as this,
// of which the last may have fewer columns. 0: none are left over. 1 where it is not known how many columns there are:
// then each vector of them is a tile.
int64_t edge_vectors(const Expr& columns, int64_t vectors, int64_t lanes);
// From the start of the buffer's memory to the end of its last element: strides may leave gaps, which nobody reads.
Expr buffer_bytes(const Buffer& buffer);
// A sum whose body ends with the product that it yields, of the sum's own type; else nullptr.
const Stmt* summed_product(const Loop& loop);
const Stmt* any_summed_product(const Loop& loop);  // the same, of integers too

// The loops and statements that a kernel's contraction names.
struct ContractionNest {
  std::vector<const Loop*> batch, rows, columns;
  struct Sum {
    const Stmt* stmt = nullptr;                    // the reduction
    std::vector<const Stmt*> left, right, shared;  // of its body
  };
  std::vector<Sum> sums;  // outermost first
  const Loop& innermost_row() const { return *rows.back(); }
  const Loop& innermost_column() const { return *columns.back(); }
  const Loop& innermost_sum() const { return *sums.back().stmt->loop; }
  bool whole_rows() const;  // something follows the columns of a row
  Expr row_count() const;
  Expr term_count() const;
};
ContractionNest contraction_nest(const Kernel& kernel);  // fails as a bug where the names do not fit the body

// Attention, as a row of it stands in its kernel (schedule/attention_template.cpp):
//
//   for m { for n { s = sum over d of left * right; score of s; store scores[n] = score }
//           top = max over n of scores; total = sum over n of (scores[n] = exp(scores[n] - top)); share = 1 / total
//           for j { (sum over n of scores[n] * value(n, j)) * share; … } }
//
// The first product is the kernel's contraction.
struct AttentionNest {
  ContractionNest scores;       // rows m, columns n, sum over d
  const Stmt* score = nullptr;  // the store of a score, in scratch
  const Stmt *top = nullptr, *total = nullptr;
  bool empty_rows_are_zero = false;  // rows of which every score is -inf have weights of 0, not NaN
  ContractionNest values;            // rows m, columns j, sum over n: its left factor is the weights
  ValueId value = no_value;          // its right factor
  const Stmt* scaled = nullptr;      // the product with the share
};
AttentionNest attention_nest(const Kernel& kernel);  // fails as a bug where the kernel is something else
// Whether every key whose number is greater than the row's has a score of -inf, for all that the kernel's text says.
bool sees_no_later_keys(const Kernel& kernel);

// Where the first of these origins is, for errors.
Where where_of(const std::vector<Origin>& origins);

// ---- Text and checks (docs/loops-text.md)
// ---------------------------------------------------------------------------------------------------

std::string print(const LoopProgram& program);
std::string print(const Kernel& kernel, const LoopProgram& program);
LoopProgram parse_loops(std::string_view text);  // throws K0320 with the line
void verify(const LoopProgram& program);         // throws fail_bug

}  // namespace kiln::loops
