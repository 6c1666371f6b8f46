// Inside of the loop interpreter: index expressions over slots of an array instead of names in a map. The common forms
// (a constant, a variable, a sum of multiples) need no tree.
#pragma once
#include <map>

#include "types/expr.h"

namespace kiln::loops {

class SlotTable {
 public:
  int slot(const std::string& name);  // makes one if there is none
  size_t size() const { return names_.size(); }
  const std::string& name(int slot) const { return names_[static_cast<size_t>(slot)]; }

 private:
  std::map<std::string, int, std::less<>> slots_;
  std::vector<std::string> names_;
};

class IndexCode {
 public:
  IndexCode() = default;
  IndexCode(const Expr& expr, SlotTable& slots);
  bool is_float() const { return is_float_; }
  int64_t evaluate(const int64_t* slots) const;  // K0211 on overflow and division by zero
  double evaluate_float(const int64_t* slots) const;

 private:
  struct Node {
    ExprOp op = ExprOp::constant;
    bool is_float = false;
    int64_t value = 0;  // constant, or slot of a symbol
    double number = 0;
    std::vector<int> args;  // indices of nodes
  };
  struct Multiple {
    int slot;
    int64_t factor;
  };
  int add(const Expr& expr, SlotTable& slots);
  bool make_affine(const Expr& expr, SlotTable& slots);
  int64_t tree(const Node& node, const int64_t* slots) const;
  double float_tree(const Node& node, const int64_t* slots) const;
  bool truth(const Node& node, const int64_t* slots) const;
  bool relation(const Node& node, const int64_t* slots) const;

  bool is_float_ = false, affine_ = true;
  int64_t constant_ = 0;
  std::vector<Multiple> multiples_;
  std::vector<Node> nodes_;  // the last one is the root
};

}  // namespace kiln::loops
