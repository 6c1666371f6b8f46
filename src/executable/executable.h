// A program made runnable, by any of three backends that must agree:
//   compiled   compile() into a temporary package, loaded through the C ABI (include/kiln/kiln.h), as users do
//   loops      the pipeline up to Loops, run by the bounds-checked loop interpreter: plain (right after lowering,
//              before any pass on Loops) or scheduled
//   interpret  the reference interpreter ("eager")
//
// An Executable behaves like a module: its mutable buffers live on between calls until reset(). Refused inputs and
// failures while running are thrown as Error. Not thread-safe.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace kiln {

class Settings;

enum class Backend { compiled, loops, interpret };
const char* backend_name(Backend backend);
std::optional<Backend> backend_from_name(std::string_view name);

struct CallResult {
  std::vector<Datum> outputs;           // flat, user outputs only
  std::vector<Datum> inputs;            // after the call; strides and sharing of storages as given
  std::map<std::string, Tensor> state;  // buffers after the call, by name
};

class Executable {
 public:
  virtual ~Executable() = default;
  // The caller's tensors are never written: a program that mutates its inputs gets copies, which come back in
  // CallResult::inputs.
  virtual CallResult call(const std::vector<Datum>& inputs) = 0;
  virtual void reset() = 0;  // a fresh instance: state as in the file
};

struct ExecutableOptions {
  Backend backend = Backend::compiled;
  std::string device;                       // cpu, cuda; empty: where the program was exported
  bool schedule = true;                     // loops: false runs them right after lowering, before any pass on Loops
  bool fp64 = false;                        // interpret: floats computed as f64
  uint64_t seed = 0;                        // interpret: of the first call on a fresh instance
  std::vector<std::string> custom_op_libs;  // shared libraries with the user's operators
  const Settings* settings = nullptr;       // of both phases; may be null
  std::function<void(const std::string&)> note;  // what the compile has to say; may be empty
  // interpret: called as InterpretOptions says (interp/interp.h); may be empty.
  std::function<void(const Node&, const std::vector<Datum>&)> after_node;
  std::function<void(const Graph&, const std::vector<Datum>&)> before_graph;
};

// The program must outlive the Executable.
std::unique_ptr<Executable> make_executable(const Program& program, const ExecutableOptions& options);

// The same values in fresh memory: strides and offsets are kept, and tensors that share a storage share again.
std::vector<Datum> copy_inputs(const std::vector<Datum>& inputs);

}  // namespace kiln
