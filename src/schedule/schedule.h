// The passes of the stage `schedule`: what is merged into one kernel, and how each kernel runs: names, templates, which
// axis is spread over items and which over lanes. Everything is written into the Loops as directives (or as an explicit
// split of an axis); the printers decide nothing.
#pragma once
#include "loop_passes/passes.h"
#include "loops/loops.h"
#include "schedule/target.h"

namespace kiln::loops {

using OperatorNames = std::set<std::string, std::less<>>;

// Where a target multiplies pairs of bf16: the weights of a long attention over bf16 are rounded before its second
// product, as eager's kernel does, and with float32_matmul_precision=medium the factors of all products of f32.
struct RoundedOperators {
  const OperatorNames& products;   // short names
  const OperatorNames& attention;  // whole ones, of the user's program
};
bool round_factors(LoopProgram& program, const Target& target, Log& log, const RoundedOperators& operators);

// Where a target multiplies bytes: products of numbers that were quantised to bytes are products of these. `zeros`: the
// constants, by their names, all of whose elements are 0.
using KnownZeros = std::function<bool(const std::string& constant)>;
bool multiply_bytes(LoopProgram& program, const Target& target, Log& log, const KnownZeros& zeros);

// For a CPU: weights of convolutions that are inputs pass for derived constants until prepare_given_weights, which has
// what was made of them computed in each call. `convolutions`: short names of operators.
bool hold_given_weights(LoopProgram& program, const Target& target, Log& log, const OperatorNames& convolutions);
bool prepare_given_weights(LoopProgram& program, Log& log);
std::set<BufferId> derived_from_inputs(const LoopProgram& program);  // between these two

// Kernels that read constants only move to the init section; their results become derived constants.
bool hoist_constants(LoopProgram& program, Log& log);

// for i { a }; for i { b }   becomes   for i { a; b }     across kernels of one block.
bool merge_kernels(LoopProgram& program, Log& log);

// store t[i] = v; … load t[i]   becomes   … v            inside a kernel; then stores nobody reads go away.
bool forward_stores(LoopProgram& program, Log& log);

// cpp_fused_add_relu_3, cuda_mm_bias_gelu_5: numbered in step order. `moves`: operators that only move data and are
// left out where others are fused with them.
bool name_kernels(LoopProgram& program, Log& log, const OperatorNames& moves = {}, const Target& target = {});

// Statements that do not change inside a loop move in front of it.
bool hoist_invariants(LoopProgram& program, Log& log);
bool hoist_invariants(Body& body, const LoopProgram& program);  // of one body: nothing leaves it

// Lays out temporaries for the sums over products (channels last), and orders loops along them.
bool choose_layouts(LoopProgram& program, Log& log);

// Dimensions of temporaries that a sum runs through as one become neighbours in memory.
bool join_dimensions(LoopProgram& program, Log& log);

// For a GPU: kernels that only compare sizes become assertions of the host. Nobody waits for a kernel that raises
// before those behind it run, and what it asks for they take for granted: an index of an edge that is not there.
bool assert_sizes(LoopProgram& program, const Target& target, Log& log);

// What is copied whole into a part of another temporary is written there at once.
bool place_parts(LoopProgram& program, const Target& target, Log& log);

// Means and variances become two sums, which can run in lanes.
bool split_variances(LoopProgram& program, Log& log, const Target& target = {});

// For a CPU: where the largest element is becomes how much it is and the first place that has as much, in lanes.
bool split_extremes(LoopProgram& program, const Target& target, Log& log);

// For a CPU: a reduction that counts through several dimensions at once, in another order than memory's, becomes one
// for each.
bool split_digits(LoopProgram& program, const Target& target, Log& log);

// For a CPU: temporaries that all run along one dimension are laid out with that one innermost.
bool straighten_rows(LoopProgram& program, const Target& target, Log& log);

// For a CPU: long sums of groups of few channels, which are neighbours in memory, become sums of all channels side by
// side, for parts of the picture, and sums of these.
bool sum_beside(LoopProgram& program, const Target& target, Log& log);

// For a CPU: what is found for a group of channels and read for each of them often is stored for each channel.
bool spread_groups(LoopProgram& program, const Target& target, Log& log);

// Points of a transposed convolution that meet the same places of the window become a loop of their own.
bool split_phases(LoopProgram& program, const Target& target, Log& log);

// For a CPU: windows over few channels that give few channels have their points in lanes, over a picture with zeros
// around it (points_in_lanes.cpp).
bool points_in_lanes(LoopProgram& program, const Target& target, Log& log);

// For a CPU: the loop that only the weights of a window vary with becomes the innermost one, the columns of a product.
bool order_columns(LoopProgram& program, const Target& target, Log& log);

// For a CPU: the loop over channels that are all read at the same computed places becomes the innermost one.
bool share_places(LoopProgram& program, const Target& target, Log& log);
// Of share_places: two loops over points, one in the other and all it has, become one if the results are neighbours.
bool collapse_points(Loop& outer, Kernel& kernel, const LoopProgram& program);

// The channels of a grouped sum become two loops: groups, and the channels of a group.
bool split_groups(LoopProgram& program, const Target& target, Log& log);

// For a GPU: what passes between kernels is stored as narrow as it is used, and in the order in which it is read.
bool refit_temporaries(LoopProgram& program, const Target& target, Log& log);

// Recognises contractions and writes down which loop is which.
bool find_contractions(LoopProgram& program, Log& log);

// Products of the same rows with different weights become one.
bool join_products(LoopProgram& program, const Target& target, Log& log);

// For a CPU: rows that a product reads together and that would meet in one set of the cache move apart by a line.
bool stagger_rows(LoopProgram& program, const Target& target, Log& log);

// A product, the softmax of its rows and the product that these weigh become one kernel over blocks of rows.
bool fuse_attention(LoopProgram& program, const Target& target, Log& log);

// For a CPU: convolutions with a window of 3 by 3 by fewer multiplications, where that takes less time.
bool use_winograd(LoopProgram& program, const Target& target, Log& log);

// For a CPU: a computed right factor whose columns are no neighbours in memory is copied the other way round.
bool turn_factors(LoopProgram& program, const Target& target, Log& log);

// Of windows over few channels of bf16: the picture is copied with zeros around it, so that lines of a window are pairs
// of terms (fill_windows.cpp).
bool fill_windows(LoopProgram& program, const Target& target, Log& log);

// Sums over windows of few terms take several points of the picture at a time.
bool take_points(LoopProgram& program, const Target& target, Log& log);
bool takes_points(const Kernel& kernel);
inline constexpr int64_t most_point_terms = 256;  // that one accumulator adds up, as a tile's does (order_sums)

// Gives contractions the cheapest way to run them (template.h); packs constant operands that are laid out against it.
bool use_templates(LoopProgram& program, const Target& target, Log& log);
// Kernels of the bodies of loops, which run many times in a call.
std::set<const Kernel*> repeated_kernels(const LoopProgram& program);
// Of use_templates, for a GPU: how the contraction that is the item `at` of the block runs there. Where that takes
// several kernels, those before it come into the block, and `at` moves on.
bool use_block_tile(LoopProgram& program, Block& block, size_t& at, const Target& target, Log& log);
// Likewise: where few items begin with many sums each and go on with them (attention of a single row), the sums become
// a kernel of their own, which has as many items as there are sums. The kernel is left with the rest.
std::optional<Kernel> split_off_sums(LoopProgram& program, Kernel& kernel, const Target& target, Log& log);

// On a GPU: a long reduction of few items becomes two, the first over parts of it that run beside one another.
bool split_reductions(LoopProgram& program, const Target& target, Log& log);
// The same for one sum, whose outermost loop is `outer`, along its loop `var`: the kernel that makes the parts.
std::optional<Kernel> split_sum(LoopProgram& program, Kernel& kernel, const Target& target, const std::string& outer,
                                const std::string& var, int64_t parts);

// Perfectly nested parallel loops whose accesses run through memory in one line become one loop; for a CPU so do sums
// of sums.
bool collapse_loops(LoopProgram& program, const Target& target, Log& log);
// Of use_templates: the rows of a contraction that run through memory in one line (the lines and points of a picture
// under a window of one point) become one loop. A tile then needs no quotient to find its rows.
bool collapse_rows(LoopProgram& program, Kernel& kernel);

// Bytes of a matrix of which a core's cache is soon full.
inline constexpr double far_matrix = 512 << 10;

// Binds axes to items and lanes, and packs weights that lie apart for them. From here on every kernel has a schedule.
bool bind_axes(LoopProgram& program, const Target& target, Log& log);

// Of bind_axes and take_points: weights whose elements lie apart for the lanes.
bool pack_for_lanes(LoopProgram& program, Kernel& kernel, Log& log);
bool tile_transpose(Kernel& kernel, const LoopProgram& program, const Target& target);  // of bind_axes
// For a CPU: temporaries of which each item has a part of its own become scratch.
bool use_scratch(LoopProgram& program, const Target& target, Log& log);
bool bind_threads(LoopProgram& program, const Target& target, Log& log);  // of bind_axes, for a GPU

// Sums of f32 outside of lanes are added up in f64.
bool widen_sums(LoopProgram& program, Log& log);

// The order in which float sums are added up; of plain ones so many terms are a block.
inline constexpr int64_t block_of_terms = 32;
bool order_sums(LoopProgram& program, Log& log);

// Statement-lanes of a body, and how many of them, about 6 µs, are worth a thread that is awake: fewer cost less than
// handing them over. What waking one costs is the runtime's affair (runtime/parallel.cpp).
double work_of(const Body& body, const LoopProgram& program);
inline constexpr double worth_a_thread = 125000;

// The number of items of each kernel, and how many are worth a thread.
bool count_items(LoopProgram& program, Log& log);

// For a CPU: kernels that one thread runs anyway, each of which needs what the one before it made, become one.
bool chain_kernels(LoopProgram& program, const Target& target, Log& log);

// The flat address (in elements) of an access: sum of index times stride, simplified.
Expr address_of(const Stmt& access, const LoopProgram& program, const RangeEnv& env);
// Whether the variable is divided, or a rest of it taken.
bool divides(const Expr& e, const std::string& var);
// Ranges of the program's symbols and of all loop variables of the kernel.
RangeEnv kernel_ranges(const Kernel& kernel, const LoopProgram& program);
// Whether `vector` neighbours along the loop, beginning at a multiple of it, are one word of memory that can be
// fetched or written at once: the access is of neighbours, begins at a multiple wherever the loop does, and nothing
// else in the loop's body touches the same memory the other way. A load may have a mask that is the same for all.
bool is_wide(const Stmt& access, const Loop& loop, int vector, const LoopProgram& program, const RangeEnv& env);
// What a mask is made of, in order, where all of that is in the loop's body and the same for all iterations.
std::optional<std::vector<const Stmt*>> common_mask(const Stmt& access, const Loop& loop);
// An address in which so many neighbouring lanes read one element, and the next so many one that is `distance` further:
// channels of a group, that see the group's part of the picture. The first lane is a multiple of the lanes there are.
struct GroupedLanes {
  int64_t each = 0, distance = 0;
  int64_t reach(int64_t lanes) const { return (lanes - 1) / each * distance + 1; }  // elements from first to last
};
std::optional<GroupedLanes> grouped_lanes(const Expr& address, const std::string& var, int64_t lanes,
                                          const RangeEnv& env);
// An address in which lanes read several lines of memory by turns, each along one of them: channels that are shuffled,
// the points of a pixel shuffle. Lane `i` reads element i // turns of line i % turns; lines are `distance` apart. The
// first lane is a multiple of the lanes there are.
struct LanesByTurns {
  int64_t turns = 0;
  Expr distance;
};
std::optional<LanesByTurns> lanes_by_turns(const Expr& address, const std::string& var, int64_t lanes,
                                           const RangeEnv& env);
// A reduction whose iterations can be spread over lanes.
bool lane_reducible(const Loop& loop);

}  // namespace kiln::loops
