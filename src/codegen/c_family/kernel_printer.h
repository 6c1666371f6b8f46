// Prints one scheduled kernel as a function, in a language of the C family (codegen/c_family/dialect.h): for the CPU a
// C++ function of the kernel ABI. The text uses neutral names (b0, n0, v0 …) in order of first use, so that two kernels
// that do the same print the same text and are compiled once.
//
// Inside a loop bound to lanes a value is either varying (a vector, one element per lane) or uniform (a scalar, splat
// where it meets a vector). The last, partial group of lanes is printed as a second copy of the body in which loads and
// stores take the number of lanes that are left: the same arithmetic, no access outside.
#pragma once
#include <functional>

#include "codegen/backend.h"
#include "codegen/c_family/dialect.h"
#include "loops/loops.h"
#include "schedule/schedule.h"

namespace kiln::codegen {

struct PrintedKernel {
  std::string text;  // the function, with $NAME for its name
  StepCode step;     // what it is called with
};

class KernelPrinter {
 public:
  // The kernel is scheduled. `any_size`: its sizes are arguments, so that kernels that differ in nothing else share one
  // function; divisors and small numbers (windows, what is unrolled) stay in the text.
  KernelPrinter(const loops::Kernel& kernel, const loops::LoopProgram& program, const Dialect& dialect,
                bool any_size = false);
  PrintedKernel print();

 private:
  // Of the backends (codegen/cpu, codegen/cuda): they print what their schedules ask for with the parts of this one.
  friend class CpuDialect;
  friend class TilePrinter;
  friend class LinePrinter;
  friend class MatrixPrinter;
  friend class JamPrinter;
  friend class PointsPrinter;
  friend class CudaTilePrinter;

  // Where lanes run, while inside such a loop.
  struct Lanes {
    std::string var;
    std::string left;      // C++ expression of the lanes in use in a partial group; empty: all
    bool aligned = false;  // the variable of the first lane is a multiple of the number of lanes
  };

  std::string declare_scratch();
  void print_items();
  void print_body(const loops::Body& body);
  bool print_interleaved(const loops::Stmt& first, const loops::Stmt& second);
  // kernel_printer_turned.cpp
  void find_turned(const loops::Body& body);
  bool print_turned(const loops::Stmt& stmt);
  void print_turned_load(const loops::Stmt& stmt);
  void print_turned_store(const loops::Stmt& stmt);
  void print_stmt(const loops::Stmt& stmt);
  void print_constant(const loops::Stmt& stmt);
  void print_op(const loops::Stmt& stmt);
  bool print_quotient(const loops::Stmt& stmt);  // false: it is printed as any other
  void print_index_value(const loops::Stmt& stmt);
  void print_load(const loops::Stmt& stmt);
  void print_store(const loops::Stmt& stmt);
  void print_check_index(const loops::Stmt& stmt);
  void print_raise(const loops::Stmt& stmt);
  SimdDialect::Lanes lanes_of(const Affine& affine, loops::ValueId mask);
  std::string shuffled_load(DType dtype, const Expr& where, const std::string& buffer, loops::ValueId mask);
  std::string load_by_turns(DType dtype, const loops::LanesByTurns& by, const std::string& pointer,
                            loops::ValueId mask);
  std::string grouped_load(DType dtype, const loops::GroupedLanes& grouped, const std::string& pointer,
                           loops::ValueId mask);
  void find_definitions();
  const loops::Stmt* load_of(loops::ValueId v);
  std::string element_text(loops::ValueId v, const std::string& lane);
  void raise(const std::string& condition, int site, loops::ValueId v, const std::string& mask);
  // kernel_printer_loops.cpp
  void print_loop(const loops::Stmt& stmt);
  void print_serial_loop(const loops::Loop& loop);
  void open_kept();
  bool has_whole_vectors(const loops::Loop& loop) const;  // else what is left over is all there is
  void print_lane_loop(const loops::Loop& loop);
  void find_exchanged();
  // kernel_printer_threads.cpp
  void print_shared_reduction(const loops::Stmt& stmt);
  void print_shared_blocks(const loops::Stmt& stmt);
  void print_shared_loop(const loops::Loop& loop);
  void print_shared_rounds(const loops::Loop& loop, const std::string& begin, const std::string& end,
                           const std::function<void()>& update);
  // `each` prints what is done for one of them.
  void print_neighbours(const loops::Loop& loop, const std::string& first, int vector,
                        const std::function<void()>& each);
  int vector_of(const loops::Loop& loop) const;
  std::string held(const loops::Stmt& access);
  // kernel_printer_loops.cpp
  void print_reduction(const loops::Stmt& stmt);
  void print_iteration(const loops::Loop& loop);
  void print_lane_reduction(const loops::Stmt& stmt);
  void print_pairs(const loops::Loop& loop, const std::string& accumulator);
  void print_update(const loops::Loop& loop, const std::vector<std::string>& accumulators);
  void declare_accumulators(const loops::Stmt& stmt, std::vector<std::string>& names, bool vector);
  std::string identity(const loops::Loop& loop, int which) const;

  // kernel_printer_expr.cpp
  std::string expr(const Expr& e);         // scalar i64
  std::string vector_expr(const Expr& e);  // vi64 over the lanes
  std::string parameter(const Expr& e);    // n3: computed by the host
  std::string parameter_or_constant(const Expr& e);
  // A constant of an index or an extent; where sizes are arguments, up to `small` it is not one.
  std::string size(int64_t value, int64_t small = 16);
  std::string divisor(const Expr& e);  // a constant one stays in the text: the compiler multiplies instead
  std::string item_extent(const Expr& e);
  bool local(const Expr& e) const;    // mentions a variable of this kernel
  Expr by_lane(const Expr& e) const;  // with quotients that all lanes share as symbols of their own
  std::optional<Affine> lane_affine(const Expr& address) const;  // where the lanes of an access are equally far apart
  bool varies(const Expr& e) const;  // mentions the lane variable or an index variable that differs by lane
  Expr address(const loops::Stmt& access) const;
  std::string pointer(const loops::Stmt& access, const std::string& address);
  std::string literal(DType dtype, const Scalar& value) const;

  DType type(loops::ValueId v) const { return value_types_[static_cast<size_t>(v)]; }
  std::string name(loops::ValueId v);
  bool varying(loops::ValueId v) const { return lanes_ && varying_.count(v); }
  std::string vector(loops::ValueId v);            // splat if uniform
  std::string mask_and_left(loops::ValueId mask);  // vmask text of the lanes in use; empty: all
  void define(loops::ValueId v, const std::string& text, bool is_varying);
  std::string buffer_name(loops::BufferId b, Access access);  // b0; of scratch: scratch0
  int local_site(int site);
  void line(const std::string& text);
  void open(const std::string& text);
  void close();

  const loops::Kernel& kernel_;
  const loops::LoopProgram& program_;
  const Dialect& dialect_;
  // Kernels of the init section run once, when weights are loaded: sizes are arguments, so that all that pack alike
  // share one function. A model has dozens of them, and they would be a tenth of the C++ compiler's time.
  bool in_init_ = false, sizes_given_ = false;
  bool notes_kept_ = false;  // for which items scratch was filled
  // What is printed several times, for each row of a tile, has its sizes from the same arguments.
  const loops::Stmt* place_ = nullptr;
  int sizes_of_place_ = 0;
  std::map<std::pair<const loops::Stmt*, int>, int> size_numbers_;
  std::vector<DType> value_types_;  // the kernel's, and those of copies that a template prints
  RangeEnv env_;
  int lane_count_;
  std::string out_;
  int depth_ = 1;
  std::optional<Lanes> lanes_;
  bool shared_ = false;                                    // inside of a loop that the threads of an item share out
  std::set<loops::BufferId> exchanged_;                    // filled where an item has several threads
  std::map<const loops::Stmt*, std::string> words_;        // accesses that go in one word with their neighbours, and it
  std::map<const loops::Stmt*, std::string> early_words_;  // words that are there before the neighbours' turn comes
  std::set<std::string> wide_buffers_;                     // that are accessed in such words
  std::string held_place_;                                 // of the element at hand, in what a thread holds of a row
  std::vector<loops::BufferId> held_;                      // rows in registers
  std::set<loops::ValueId> varying_;
  std::map<loops::ValueId, const loops::Stmt*> definitions_;  // filled when somebody asks
  std::set<std::string> varying_index_;                       // index variables that differ by lane
  std::map<loops::ValueId, int> value_numbers_;
  std::map<std::string, int> int_numbers_;  // by text
  std::map<int, int> site_numbers_;
  int grouped_count_ = 0;
  // Accesses of lanes that are far apart, to neighbours one after the other: as one block, turned in registers.
  struct Turned {
    std::vector<const loops::Stmt*> members;  // in the order of their addresses
    const loops::Stmt* last = nullptr;        // as they are written
    int64_t apart = 0;                        // from lane to lane
    std::string name;                         // of the block, once it is declared
  };
  std::vector<Turned> turned_groups_;
  std::map<const loops::Stmt*, std::pair<size_t, size_t>> turned_;  // its group, and its place there
  int turned_count_ = 0;
  PrintedKernel result_;
};

std::string vector_type(DType dtype);  // vf32, vmask

}  // namespace kiln::codegen
