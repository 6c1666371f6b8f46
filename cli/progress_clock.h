// Progress of what cannot say how far it is: what it is at, and for how long by now, rewritten in place.
// Where stderr is no terminal, or with --quiet, there is neither a line nor a thread.
#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "console.h"

namespace kiln::cli {

class ProgressClock {
 public:
  ProgressClock() = default;
  ~ProgressClock() { stop(); }
  ProgressClock(const ProgressClock&) = delete;
  void begin(const std::string& stage);  // from any thread
  void stop();                           // before anything else is printed; nothing appears any more

 private:
  void tick();

  ProgressLine line_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string stage_;
  std::chrono::steady_clock::time_point begun_{};
  bool over_ = false;
  std::thread ticking_;
};

}  // namespace kiln::cli
