// Templates: ways to run a contraction. Each answers whether it takes a kernel (and why not), lists the schedules that
// it could run it with on a target, says what each would cost, and how an operand would have to lie in memory. The
// scheduler takes the cheapest; nothing else knows them.
#pragma once
#include "loops/loops.h"
#include "schedule/target.h"

namespace kiln::loops {

// A constant operand laid out anew, once, when the weights are loaded: in panels of so many columns, of which each
// holds its rows one after the other, as a tile reads them.
struct Packing {
  const Stmt* load = nullptr;      // of the operand, in the sum's body
  std::vector<std::string> terms;  // variables of the sums, outermost first
  std::string columns;             // variable of the columns; where a batch has its own number of them, one panel's
  int64_t panel = 0;               // columns in a panel
  std::vector<std::string> batch;  // variables of loops around, of which each iteration has panels of its own
  // > 0: neighbouring terms of the innermost sum lie side by side, `side` of them, for instructions that take so many
  // terms at a time; terms beyond the last are zeros.
  int64_t paired = 0;
  int64_t side = 2;
  int64_t filled = 0;  // > 0: of the innermost sum's terms so many are there, and the others are zeros
};

class Template {
 public:
  virtual ~Template() = default;
  virtual const char* name() const = 0;

  // The empty text, or why not. What is refused for its layout only may be taken once it is packed.
  virtual std::string refuses(const Kernel& kernel, const LoopProgram& program, const Target& target) const = 0;
  virtual std::optional<Packing> packing(const Kernel& kernel, const LoopProgram& program, const Tile& tile,
                                         const Target& target) const = 0;
  // What the chosen tile, the kernel's, needs beside it: scratch, or loops that are split.
  virtual void prepare(LoopProgram&, Kernel&, const Target&) const {}
  struct Candidate {
    Tile tile;
    double cost = 0;  // in cycles, about: so that candidates can be compared
    double code = 0;  // how much text it becomes (schedule/least_code.h)
  };
  virtual std::vector<Candidate> candidates(const Kernel& kernel, const LoopProgram& program,
                                            const Target& target) const = 0;
};

const std::vector<const Template*>& templates();
const Template& matrix_template();
// One term at a time, pairs of bf16 terms, or fours of bytes.
enum class Together : uint8_t { single, pairs, quads };
const Template& product_template(Together together);

// The right factor's single load, if it is a plain read of a constant: then it can lie as the tiles read it.
const Stmt* constant_right_factor(const Kernel& kernel, const LoopProgram& program);

}  // namespace kiln::loops
