// Inside a fused kernel: which statement computes which operator, and the first operator whose value is wrong. The
// kernel's loops are executed statement by statement on the inputs it was given, and every value that any statement
// computes is looked up among the values that the operators should have had. An operator none of whose readers found
// its value either, while its own inputs were there, is the first that went wrong. Statements beside the one that is
// stored to the wrong output must also compute their values in the order of its elements: a wrong index often gives the
// right values in the wrong places.
#pragma once
#include <functional>
#include <map>
#include <vector>

#include "debug/graph_truth.h"
#include "loops/kernel_code.h"

namespace kiln {

class OperatorTrace {
 public:
  // `types` by ValueId, of the kernel. Both must outlive this.
  OperatorTrace(const std::vector<TruthNode>& nodes, const std::vector<DType>& types);
  // Sees every value of one run of the kernel.
  void see(loops::ValueId id, const loops::Cell& cell);
  // Before the run: the statement whose value is stored to the output, and all of the body that it stands in.
  void follow(loops::ValueId stored, const std::vector<loops::ValueId>& body);
  // After the run: what the output holds. Where it was not written in the order of its elements, order says nothing.
  void finish(const Tensor& output);
  // nullptr: no operator could be singled out.
  const Node* first_wrong() const;
  // The operator whose value the statement computes; nullptr: none, it is a part of one.
  const Node* node_of(loops::ValueId id) const;

 private:
  struct Sample {
    double value, tolerance;
    size_t node;
    uint32_t bit;
  };
  // How often a statement ran and gave something else than 0: all that can be said of bools and small integers.
  struct Count {
    int64_t all = 0, nonzero = 0;
  };
  void add_samples(size_t node);
  bool has(size_t node, loops::ValueId id) const;
  bool present(size_t node) const;
  bool in_order(size_t node, loops::ValueId id) const;

  const std::vector<TruthNode>& nodes_;
  const std::vector<DType>& types_;
  std::vector<Sample> samples_;  // by value
  double widest_ = 0;            // tolerance
  std::vector<uint64_t> full_;   // per node: all its bits
  std::vector<Count> expected_;  // per node that is no float
  std::map<std::pair<size_t, loops::ValueId>, uint64_t> found_;
  std::map<loops::ValueId, Count> counts_;
  std::vector<std::pair<double, double>> tolerance_;  // per node: absolute, relative
  loops::ValueId stored_ = loops::no_value;
  std::map<loops::ValueId, std::vector<double>> sequences_;  // of the statements that are followed
  bool ordered_ = false;
};

}  // namespace kiln
