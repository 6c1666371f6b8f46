// Times every step of an instance's runs: kiln_profile_start … kiln_profile_stop. The runs may come from several
// threads.
#pragma once
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/fork_mutex.h"
#include "runtime/observer.h"
#include "runtime/tools.h"

namespace kiln::runtime {

struct KernelTimes {
  std::string name, kind, origin;
  int64_t calls = 0;
  double seconds = 0, least = 0, bytes = 0, flops = 0;  // flops negative: not known
};

struct Launched {
  int32_t step;
  int32_t thread;  // numbered as they come
  uint64_t run;
  int64_t iteration;
  double begin, seconds;  // from the start of the profile
};

class Profiler : public StepObserver {
 public:
  explicit Profiler(std::shared_ptr<Tools> tools) : tools_(std::move(tools)) {}

  bool wants(const char*) const override { return true; }
  kiln_hook_answer observe(kiln_hook_when when, const kiln_step& step) override;

  const std::map<int32_t, KernelTimes>& kernels() const { return kernels_; }  // by the step's number
  const std::vector<Launched>& launches() const { return launches_; }
  int64_t runs() const { return static_cast<int64_t>(runs_.size()); }
  double overhead() const { return overhead_; }
  const Tools* tools() const { return tools_.get(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct ThreadState {
    int32_t number = 0;
    Clock::time_point begin;
  };
  struct Counted {
    std::vector<int64_t> symbols;
    double flops = -1, bytes = 0;
  };

  void add(const kiln_step& step, const ThreadState& thread, double seconds);
  const Counted& counted(const kiln_step& step);

  static constexpr size_t most_launches = 100'000;
  std::shared_ptr<Tools> tools_;
  const Clock::time_point start_ = Clock::now();
  BriefMutex mutex_;
  std::map<std::thread::id, ThreadState> threads_;
  std::map<int32_t, KernelTimes> kernels_;
  std::map<int32_t, Counted> counted_;  // work depends on sizes only
  std::vector<Launched> launches_;
  std::set<uint64_t> runs_;
  double overhead_ = 0;
};

}  // namespace kiln::runtime
