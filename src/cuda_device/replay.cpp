#include "cuda_device/replay.h"

#include <cstring>
#include <utility>

namespace kiln::cuda {
namespace {

class NodeOf {
 public:
  explicit NodeOf(PreparedLaunch& launch) : argument_{launch.arguments.data()} {
    node_.function = launch.function;
    node_.blocks = launch.blocks, node_.threads = launch.threads, node_.shared = launch.shared;
    node_.arguments = argument_;
  }
  NodeOf(const NodeOf&) = delete;
  const KernelNode* get() const { return &node_; }

 private:
  void* argument_[1];
  KernelNode node_;
};

}  // namespace

void Replay::clear() {
  if (ready_) driver().free_ready(ready_);
  if (graph_) driver().free_graph(graph_);
  ready_ = nullptr, graph_ = nullptr;
  nodes_.clear(), launches_.clear(), addresses_.clear();
}

bool Replay::fits(void* const* addresses, size_t count, uint64_t seed) const {
  return ready_ && seed_ == seed && addresses_.size() == count &&
         (count == 0 || std::memcmp(addresses_.data(), addresses, count * sizeof *addresses) == 0);
}

Result Replay::run(Stream stream) const { return driver().launch_graph(ready_, stream); }

Result Replay::build(std::vector<PreparedLaunch>& launches) {
  clear();
  const Driver& cuda = driver();
  if (const Result result = cuda.new_graph(&graph_, 0); result != 0) return result;
  for (PreparedLaunch& launch : launches) {
    GraphNode node = nullptr;
    const NodeOf given(launch);
    const GraphNode* before = nodes_.empty() ? nullptr : &nodes_.back();
    if (const Result result = cuda.add_kernel(&node, graph_, before, before ? 1 : 0, given.get()); result != 0)
      return result;
    nodes_.push_back(node);
  }
  return cuda.make_ready(&ready_, graph_, 0);
}

Result Replay::take(std::vector<PreparedLaunch>& launches, std::vector<void*>& addresses, uint64_t seed) {
  addresses_.clear();  // until all is well it fits nothing
  bool same = ready_ && launches.size() == launches_.size();
  for (size_t i = 0; same && i < launches.size(); ++i) same = launches[i].same_shape(launches_[i]);
  Result result = 0;
  for (size_t i = 0; same && i < launches.size(); ++i) {
    if (launches[i].arguments == launches_[i].arguments) continue;
    result = driver().change_kernel(ready_, nodes_[i], NodeOf(launches[i]).get());
    same = result == 0;
  }
  if (!same) result = build(launches);
  if (result != 0) {
    clear();
    return result;
  }
  std::swap(launches_, launches);
  std::swap(addresses_, addresses);
  seed_ = seed;
  return 0;
}

}  // namespace kiln::cuda
