// A stretch of launches as a CUDA graph. It is built node by node, not captured from a stream: what other threads do in
// the meantime cannot get into it, nor is it forbidden to them.
#pragma once
#include <cstdint>
#include <vector>

#include "cuda_device/driver.h"

namespace kiln::cuda {

// A launch as the driver wants it; the kernel's only parameter is a struct, held here as bytes.
struct PreparedLaunch {
  Function function = nullptr;
  unsigned blocks = 1, threads = 1, shared = 0;
  std::vector<char> arguments;
  bool same_shape(const PreparedLaunch& other) const {
    return function == other.function && blocks == other.blocks && threads == other.threads && shared == other.shared &&
           arguments.size() == other.arguments.size();
  }
};

class Replay {
 public:
  ~Replay() { clear(); }
  Replay() = default;
  Replay(const Replay&) = delete;

  // Whether the graph as it is does what these addresses and this seed ask for.
  bool fits(void* const* addresses, size_t count, uint64_t seed) const;
  Result run(Stream stream) const;
  // Makes the graph one of the collected launches: changes what differs, or builds it anew. Then it was made for these
  // addresses. Anything but 0: there is no graph; the launches are as they were.
  Result take(std::vector<PreparedLaunch>& launches, std::vector<void*>& addresses, uint64_t seed);

  uint64_t times = 0, last_used = 0;
  bool impossible = false;
  // Launches collected for `take`: so many of the list; the rest is memory to be used again.
  PreparedLaunch& next() { return used_ < collected.size() ? collected[used_++] : (++used_, collected.emplace_back()); }
  void start_collecting() { used_ = 0; }
  void end_collecting() { collected.resize(used_); }
  std::vector<PreparedLaunch> collected;

 private:
  Result build(std::vector<PreparedLaunch>& launches);
  void clear();
  Graph graph_ = nullptr;
  GraphRun ready_ = nullptr;
  std::vector<GraphNode> nodes_;
  std::vector<PreparedLaunch> launches_;  // what the nodes have
  std::vector<void*> addresses_;
  uint64_t seed_ = 0;
  size_t used_ = 0;
};

}  // namespace kiln::cuda
