// The values that a program has on its sample inputs, from the reference interpreter: a value that a cut turns into an
// input gets them. What the reference could not compute is filled with seeded random numbers.
#pragma once
#include <functional>

#include "graph/graph.h"

namespace kiln {
struct CallResult;
}

namespace kiln::minify {

class RecordedValues {
 public:
  RecordedValues() = default;
  // Interprets the program; what fails there ends the recording, not the minifier, and so does the end of the time: an
  // edit can make a loop without end.
  // `between` is called between operators; what it throws goes through.
  RecordedValues(const Program& program, const std::vector<std::string>& custom_op_libs, int64_t memory_bytes,
                 double seconds = 60, const std::function<void()>& between = {});

  // Values of inner graphs are found by the graph's name. Where a graph ran several times: of the first.
  const Datum* find(const std::string& graph, const std::string& value) const;
  // A tensor for this value, recorded or made up, with memory of its own, dense, in the order of the value's strides.
  Tensor tensor_for(const std::string& graph, const Value& value) const;
  // Of the inputs' sizes and of what was found while running.
  const SymbolValues& symbols() const { return symbols_; }
  // What the program gave; nullptr: it failed, or the time was over.
  const CallResult* result() const { return result_.get(); }

 private:
  std::map<std::pair<std::string, std::string>, Datum> values_;
  SymbolValues symbols_;
  std::shared_ptr<const CallResult> result_;
};

// Numbers in [-1, 1), integers 0 or 1, the same for the same seed.
Tensor random_tensor(DType dtype, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                     uint64_t seed);
// The same values in memory of its own: with its own strides where they are dense, else as `clone` lays it out.
Tensor own_dense(const Tensor& tensor);
// Sample inputs for a program that has none: random, with the hints for dynamic sizes.
std::vector<Datum> made_up_inputs(const Program& program);

}  // namespace kiln::minify
