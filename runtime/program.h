// A plan made ready to bind: kernels resolved, steps numbered in execution order, and all that depends on the plan
// alone (which expressions wait for values found while running, who owns which memory, how long temps live) worked out
// once. Immutable after construction; shared by all threads.
//
// A symbol is *early* when it is known before the first step and decides sizes: early values are the key of a
// BoundPlan. It is *late* when a step defines it, when it counts iterations, or when it is a number given by the caller
// that no size and no guard depends on (the position of a token, a temperature): binding again for each new value would
// cost more than evaluating the few expressions that mention it.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kiln/custom_op.h"
#include "kiln/kernel_abi.h"
#include "package/format.h"
#include "package/step_plan.h"
#include "runtime/code_loader.h"
#include "runtime/library/library.h"

namespace kiln::runtime {

struct PreparedStep {
  const format::Step* step = nullptr;
  int32_t index = 0;             // position in execution order, loops and branches counted once
  const void* kernel = nullptr;  // what the device launches
  const LibraryKernel* library = nullptr;
  std::optional<kiln_custom_op> custom;
  bool late = false;                         // some expression of its own mentions a late symbol
  bool visible = false;                      // hooks see it
  int32_t stretch = 0;                       // so many steps from here on whose launches sizes alone decide
  int32_t launches = 0;                      // of the stretch
  std::vector<int32_t> args;                 // buffers of a kernel
  std::vector<std::vector<int32_t>> blocks;  // of a cond or loop: indices into Program::steps
};

struct Lifetime {
  int32_t first = INT32_MAX, last = -1;  // positions; empty: no step uses it
  bool used() const { return last >= 0; }
};

using CustomOps = std::map<std::string, kiln_custom_op, std::less<>>;  // by "mylib::foo"

class Program {
 public:
  // Throws K0503 for what check_plan cannot see, K0514 for a kernel the code lacks, K0515 for a missing library kernel
  // or custom operator.
  Program(format::Plan plan, const CodeModule* code, const CustomOps& custom);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const format::Plan plan;
  std::vector<PreparedStep> steps;  // by position
  std::vector<int32_t> init, main;  // top-level blocks

  // Symbols and expressions.
  std::vector<uint8_t> symbol_late, expr_late;
  std::vector<int32_t> early;        // slots, in order: the key
  std::vector<int32_t> late_inputs;  // late slots whose values the caller gives
  bool has_late = false;
  std::vector<std::vector<int32_t>> symbols_in;                      // per expression: late symbols it mentions
  std::vector<std::vector<int32_t>> exprs_of, owners_of, guards_of;  // per late symbol: what waits for it

  // Buffers.
  std::vector<int32_t> owner;                      // buffer -> the buffer whose memory it lives in (itself: its own)
  std::vector<std::vector<int32_t>> members;       // owner -> its group
  std::vector<Lifetime> lifetime;                  // of owners
  std::vector<uint8_t> in_init;                    // owner is used by the init section
  std::vector<std::vector<int32_t>> late_symbols;  // owner -> late symbols that its group's layouts mention
  std::vector<uint32_t> dims_at;                   // where its sizes, then its strides, stand in Layout::dims
  uint32_t dims_count = 0;
  bool stateful = false;  // some constant is mutated
  bool raises = false;    // some kernel can
  size_t max_args = 0, max_ints = 0;

  const format::Buffer& buffer(int32_t b) const { return plan.buffers[static_cast<size_t>(b)]; }
  bool is_late(int32_t buffer_index) const {
    return !late_symbols[static_cast<size_t>(owner[static_cast<size_t>(buffer_index)])].empty();
  }
  std::vector<int32_t> symbols_of(format::ExprIndex expr) const;  // slots, sorted

 private:
  void classify_symbols();
  void group_buffers();
  void index_late_symbols();
  void check_sections(size_t init_steps);
  void check_devices() const;
  void find_stretches(const std::vector<int32_t>& block);
  std::vector<int32_t> add_steps(const std::vector<format::Step>& block, const CodeModule* code,
                                 const CustomOps& custom);
  void resolve(PreparedStep& step, const CodeModule* code, const CustomOps& custom) const;
  bool step_is_late(const format::Step& step) const;
};

using format::buffers_used;

}  // namespace kiln::runtime
