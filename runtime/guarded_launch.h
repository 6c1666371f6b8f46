// The arguments of a step, copied into regions that have not one byte too many (runtime/guard_memory.h); in the memory
// of a GPU, which has no such regions, just copied.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/guard_memory.h"
#include "runtime/run.h"

namespace kiln::runtime {

class GuardedArguments {
 public:
  GuardedArguments(Run& run, const PreparedStep& prepared, GuardRegion::Flush flush);  // copies, as they are now
  ~GuardedArguments();                                                                 // puts the run's own back
  GuardedArguments(const GuardedArguments&) = delete;
  GuardedArguments& operator=(const GuardedArguments&) = delete;

  void use();                 // the step sees the copies
  void put_back();            // and the run's own again
  void keep_results();        // what the step wrote to the copies goes to the run's own
  void check_beside() const;  // throws K0643 where something was written beside an argument

 private:
  std::byte* guarded_copy(const std::byte* begin, const std::byte* end, GuardRegion::Flush flush);
  std::byte* copy_there(const std::byte* begin, const std::byte* end);
  struct Argument {
    int32_t buffer;
    Access access;
    std::byte* own;
    int64_t bytes;
    std::byte* copy;
    size_t region;
  };
  Run& run_;
  const PreparedStep& prepared_;
  std::vector<Argument> arguments_;
  std::vector<std::unique_ptr<GuardRegion>> regions_;
  std::vector<Block> blocks_;  // in the device's memory
};

std::string outside_text(bool before, int64_t bytes);  // "4 bytes past its end"

}  // namespace kiln::runtime
