// Custom operator libraries for the backends that run in this process without the runtime (interpret, loops): opens the
// user's shared libraries and calls their operators through include/kiln/custom_op.h, on Tensors.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "types/tensor.h"

namespace kiln {

class CustomOperators {
 public:
  // Throws K0604 naming the library and why it cannot be used.
  explicit CustomOperators(const std::vector<std::string>& library_paths);
  ~CustomOperators();
  CustomOperators(const CustomOperators&) = delete;

  bool has(const std::string& target) const;                // "mylib.foo.default"
  std::vector<std::string> names() const;                   // sorted
  using Args = std::vector<std::pair<std::string, Datum>>;  // in the order of the call
  // Throws with the operator's own message when it fails.
  std::vector<Datum> call(const std::string& target, const Args& args) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kiln
