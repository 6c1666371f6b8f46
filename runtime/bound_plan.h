// A plan bound to the values of its early symbols: sizes, strides, offsets, item counts and kernel integers as numbers,
// guards and ranges checked. Immutable; shared by all runs with these sizes; the last few are kept (BoundCache).
//
// An expression that cannot be evaluated (it divides by zero, say) is no error until a step needs it: the step may
// stand in a branch that is not taken.
#pragma once
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/fork_mutex.h"
#include "runtime/expression.h"
#include "runtime/program.h"
#include "runtime/strided_copy.h"

namespace kiln::runtime {

struct BufferLayout {
  int64_t offset_bytes = 0;  // from the start of its memory to element [0, …, 0]
  int64_t span_bytes = 0;    // from that element to the end of the last one
  int64_t group_bytes = 0;   // of an owner: the memory its whole group needs
  int64_t arena = -1;        // of an owner in the arena: where
  bool known = false;
};

struct Layout {
  std::vector<int64_t> values;  // by expression
  std::vector<ExprResult> results;
  std::vector<uint8_t> evaluated;  // 0: waits for a late symbol
  std::vector<int64_t> dims;       // sizes and strides of all buffers (Program::dims_at)
  std::vector<BufferLayout> buffers;

  Dims sizes(const Program& program, int32_t buffer) const;
  Dims strides(const Program& program, int32_t buffer) const;
  // Evaluates one expression / a buffer's layout from its expressions. False: not possible; `why` says which and why.
  bool evaluate_expr(const Program& program, format::ExprIndex e, std::span<const int64_t> symbols);
  bool lay_out(const Program& program, int32_t buffer, std::string& why);
  bool value(const Program& program, format::ExprIndex e, int64_t& out, std::string& why) const;
};

struct BoundStep {
  const int64_t* ints = nullptr;
  int64_t items = 0, grain = 1;
  int64_t scratch = 0;  // bytes for each thread
  int32_t error = -1;   // into BoundPlan::errors
};

struct BoundPlan {
  uint64_t id = 0;               // of this one among all that the process has had: an address may come again
  std::vector<int64_t> key;      // values of Program::early
  std::vector<int64_t> symbols;  // all slots; late ones 0
  Layout layout;
  std::vector<BoundStep> steps;  // by position; of late steps and control flow nothing but the error
  std::vector<int64_t> ints;
  std::vector<std::string> errors;
  int64_t arena_bytes = 0, init_arena_bytes = 0;
  size_t arena_alignment = 64;
};

// `symbols` has the early values in their slots. Throws the contract's messages for a range or relation that does not
// hold (K0617, K0619); with `check_ranges` false they are not looked at.
std::shared_ptr<const BoundPlan> bind_plan(const Program& program, std::vector<int64_t> symbols, bool check_ranges);

// Bound to nothing: only expressions without symbols have values. Enough for constants and for the init section.
std::shared_ptr<const BoundPlan> bind_fixed(const Program& program);

// Places temps of `owners` (all known) and gives back the bytes they need; offsets go into the layout.
int64_t place_owners(const Program& program, Layout& layout, const std::vector<int32_t>& owners, size_t& alignment);

// The last few bound plans of a model. Runs look here only when their own short list has missed.
class BoundCache {
 public:
  explicit BoundCache(size_t capacity) : capacity_(capacity) {}
  std::shared_ptr<const BoundPlan> find(std::span<const int64_t> key);
  void insert(std::shared_ptr<const BoundPlan> plan);
  size_t size();

 private:
  size_t capacity_;
  BriefMutex mutex_;
  std::list<std::shared_ptr<const BoundPlan>> plans_;  // most recently used first
};

}  // namespace kiln::runtime
