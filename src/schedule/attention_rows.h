// What stands between the two products of attention (attention_template.cpp): is it a softmax of the first one's rows?
#pragma once
#include <map>
#include <set>

#include "loops/loops.h"

namespace kiln::loops {

// A softmax over the rows of a product, as it stands in its kernel.
struct Softmax {
  const Stmt* raw = nullptr;         // the store of the product, in its columns
  const Loop* around = nullptr;      // the loop over the columns that computes the exponentials
  ValueId score = no_value;          // f of the product, in there
  bool rounded = false;              // the program rounds the weights, by a cast
  bool empty_rows_are_zero = false;  // rows of which every score is -inf have weights of 0, not NaN
};

// Reads the row part of a kernel: what each of its values is, through the buffers that the rows pass through.
class RowPart {
 public:
  explicit RowPart(const Kernel& kernel) : kernel_(kernel) { visit(kernel.body, nullptr); }

  // The store whose buffer nothing in the kernel reads; nullptr: there are several.
  const Stmt* result() const;
  bool stored_twice() const { return stored_twice_; }
  const std::map<BufferId, const Stmt*>& stores() const { return stores_; }

  // What the weights must be; the empty text, or why they are something else.
  std::string read(const Stmt& product, const Stmt& weights, Softmax& out);

  // The row sees no key beyond its own number and this many; nothing: not known. After read().
  std::optional<int64_t> masked_beyond(const Softmax& softmax) const;

 private:
  void visit(const Body& body, const Loop* around);

  // The value behind loads of what the kernel has stored in the same place, but not behind those of the product.
  ValueId passed(ValueId v) const;
  // A load of the element that the same iteration of another loop over the row has stored.
  bool in_its_place(const Stmt& load) const;
  // The variable of a loop over the row is called x; those of the rows and around them keep their names.
  Substitution called_x(const Loop* loop) const;
  const Stmt* op(ValueId v, ScalarOp which) const;
  const Stmt* reduction(ValueId v, ReduceOp which) const;

  // Two values with equal texts are equal.
  std::string text(ValueId v) const;

  const Kernel& kernel_;
  std::map<ValueId, const Stmt*> definitions_;
  std::map<ValueId, const Loop*> around_;
  std::map<BufferId, const Stmt*> stores_;
  std::map<BufferId, const Loop*> store_around_;
  std::set<BufferId> loaded_;
  bool stored_twice_ = false;
  BufferId raw_ = no_buffer;
};

}  // namespace kiln::loops
