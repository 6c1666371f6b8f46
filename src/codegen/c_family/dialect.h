// What differs between the languages of the C family that kernels are printed in. The printer of expressions and
// statements (codegen/c_family/kernel_printer.h) is one; it asks a Dialect how things are called and what lanes are.
//
// A language of vectors (SimdDialect: C++ with vector types) keeps one value per lane in a vector: loads and stores
// come in forms for whole vectors, the first few lanes, lanes under a mask. A language of threads (CUDA) has a thread
// for each lane, and every value is a scalar: a loop over lanes is a loop that each thread enters at its own number,
// and a reduction over lanes ends with one over the threads.
//
// Functions that are called k_… come from the language's prelude; those that CUDA has itself are in the scalar table's
// own column.
#pragma once
#include <string>
#include <vector>

#include "base/text.h"
#include "loops/loops.h"

namespace kiln::codegen {

class KernelPrinter;

const char* c_type(DType dtype);          // f32 for f16, bf16, f8: how values are held
const char* storage_type(DType dtype);    // bool8, bf16: how memory is typed
const char* storage_suffix(DType dtype);  // "bool", "bf16": k_load_bool

class Dialect {
 public:
  virtual ~Dialect() = default;
  virtual bool has_vectors() const = 0;

  // ---- The function, with $NAME for its name
  virtual std::string head() const = 0;  // up to the opening brace
  virtual std::string buffer(DType dtype, bool constant, size_t number) const = 0;
  virtual std::string integer(size_t number) const = 0;
  virtual std::string scratch(DType dtype, size_t number, const std::string& offset) const = 0;
  virtual std::string begin() const { return ""; }  // behind the declarations
  virtual std::string end() const = 0;
  virtual std::string items() const = 0;  // what runs `item` through those of this call: opens a block
  virtual std::string seed() const = 0;   // of random numbers
  // Ends the kernel with an error: the site, then the element and the value or "-2, 0".
  virtual std::string raise(int site, const std::string& told) const = 0;

  // ---- Scalars
  virtual const char* spelling(const loops::ScalarOpInfo& info) const = 0;  // the column of the table
  virtual std::string op(loops::ScalarOp op, DType dtype, const std::vector<std::string>& operands) const;
  virtual std::string cast(DType to, const std::string& value) const;
  virtual std::string bitcast(DType from, DType to, const std::string& value) const;
  virtual std::string fused(const std::string& a, const std::string& b, const std::string& c) const;  // a * b + c

  // ---- One element of memory
  virtual std::string get(DType dtype, const std::string& pointer) const;
  virtual std::string set(DType dtype, const std::string& pointer, const std::string& value) const;
  virtual std::string atomic_add(DType dtype, const std::string& pointer, const std::string& value) const;
  virtual std::string random(DType dtype, const std::string& counter) const;

  // ---- Indices that are not negative, by what is greater than 0
  virtual std::string quotient(const std::string& a, const std::string& b) const { return str("(", a, " / ", b, ")"); }
  virtual std::string remainder(const std::string& a, const std::string& b) const { return str(a, " % ", b); }
  virtual std::string divide(const std::string& a, const std::string& b) const { return str(a, " /= ", b); }

  // ---- Neighbours of one thread: where there are no vectors
  // Behind the declarations: finds out whether these buffers begin where words do.
  virtual std::string wide(const std::vector<std::string>& buffers) const;
  virtual std::string wide_type(DType dtype, int count) const;
  // `left`: how many there are at most, "": all. `fixed`: nobody writes there while the kernel runs.
  virtual std::string wide_load(int count, const std::string& pointer, const std::string& left, bool fixed) const;
  virtual std::string wide_store(const std::string& pointer, const std::string& word, const std::string& left) const;

  // ---- Lanes of threads: where there are no vectors
  // The thread's number among those of its item, and how many there are.
  virtual std::string thread() const;
  virtual std::string threads() const;
  // What every thread has, as one value that they all have.
  virtual std::string over_threads(loops::ReduceOp op, const std::string& value) const;
  // The same for reductions to several accumulators: a statement that brings them together.
  virtual std::string over_threads(loops::ReduceOp op, const std::vector<std::string>& accumulators) const;
  // Which thread does what is done once in an item; "": there is but one.
  virtual std::string leader() const { return ""; }
  // A statement after which the threads of an item see each other's stores.
  virtual std::string barrier() const { return ""; }

  // ---- What a backend prints itself, by its schedules
  // A kernel whose contraction runs in tiles of registers (loops::Tile), or in tiles of a block (loops::Grid).
  virtual void print_tile(KernelPrinter& printer) const;
  virtual void print_block_tile(KernelPrinter& printer) const;
  // A loop whose iterations are printed beside each other. False: it is printed as any other.
  virtual bool print_side_by_side(KernelPrinter&, const loops::Loop&) const { return false; }
};

// C++ with vector types; its prelude is codegen/c_family/prelude.h.
class SimdDialect : public Dialect {
 public:
  bool has_vectors() const override { return true; }
  std::string head() const override;
  std::string buffer(DType dtype, bool constant, size_t number) const override;
  std::string integer(size_t number) const override;
  std::string scratch(DType dtype, size_t number, const std::string& offset) const override;
  std::string begin() const override { return "  (void)ctx; (void)buffers; (void)ints;\n"; }
  std::string end() const override { return "  return 0;\n}\n"; }
  std::string items() const override { return "for (i64 item = item_begin; item < item_end; ++item)"; }
  std::string seed() const override { return "ctx->seed"; }
  std::string raise(int site, const std::string& told) const override;
  const char* spelling(const loops::ScalarOpInfo& info) const override { return info.cpp; }

  // ---- Vectors
  static std::string type(DType dtype);  // vf32, vmask
  static std::string splat(DType dtype, const std::string& value);
  static std::string iota(const std::string& first);   // first, first + 1, …
  static std::string first(const std::string& count);  // a mask of so many lanes
  static std::string select(const std::string& mask, const std::string& yes, const std::string& no);
  // A whole vector, or where `count` or `mask` is given the lanes that these say; `stride`: between the lanes'
  // elements,
  // "" where they are neighbours.
  struct Lanes {
    std::string stride, count, mask;
  };
  static std::string load(DType dtype, const std::string& pointer, const Lanes& lanes);
  static std::string store(DType dtype, const std::string& pointer, const std::string& value, const Lanes& lanes);
  static std::string gather(DType dtype, const std::string& base, const std::string& index, const std::string& mask);
  static std::string scatter(DType dtype, const std::string& base, const std::string& index, const std::string& value,
                             const std::string& mask);
  static std::string across(loops::ReduceOp op, const std::string& value);  // k_hsum: the lanes as one scalar
};
}  // namespace kiln::codegen
