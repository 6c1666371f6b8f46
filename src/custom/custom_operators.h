// Custom operator libraries for the backends that run in this process without the runtime (interpret, loops): opens the
// user's shared libraries and calls their operators through include/kiln/custom_op.h, on Tensors.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "ops/custom_ops.h"

struct kiln_op_call;  // include/kiln/custom_op.h

namespace kiln {

// One result as the program declares it. A tensor takes one item, a list as many as the program says it has.
struct CustomResult {
  bool list = false;
  std::vector<TensorType> items;
};

class CustomOperators {
 public:
  // Throws K0670 naming the library and why it cannot be used.
  explicit CustomOperators(const std::vector<std::string>& library_paths);
  ~CustomOperators();
  CustomOperators(const CustomOperators&) = delete;

  bool has(const std::string& target) const;                // "mylib.foo.default"
  std::vector<CustomOp> declared() const;                   // sorted, with the schemas that the libraries declare
  using Args = std::vector<std::pair<std::string, Datum>>;  // in the order of the call
  // Arguments that the operator writes to are written in place. Results get the declared dtype and, where they are
  // numbers, the declared strides; otherwise they are row-major. Throws K0671 with the operator's own message, or
  // naming the argument that it wrote to although that is not among `writes`.
  std::vector<Datum> call(const std::string& target, const Args& args, const std::vector<CustomResult>& results,
                          const std::vector<std::string>& writes) const;

 private:
  struct Library;
  std::vector<std::unique_ptr<Library>> libraries_;
  struct Operator {
    int32_t (*run)(kiln_op_call*);
    std::optional<Schema> schema;
  };
  std::map<std::string, Operator> operators_;
};

}  // namespace kiln
