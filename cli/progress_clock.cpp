#include "progress_clock.h"

#include "base/text.h"

namespace kiln::cli {

void ProgressClock::begin(const std::string& stage) {
  if (!line_.visible()) return;
  std::lock_guard lock(mutex_);
  if (over_) return;
  stage_ = stage, begun_ = std::chrono::steady_clock::now();
  if (!ticking_.joinable()) ticking_ = std::thread([this] { tick(); });
  changed_.notify_one();
}

void ProgressClock::stop() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_one();
  }
  if (ticking_.joinable()) ticking_.join();
  line_.clear();
}

void ProgressClock::tick() {
  std::unique_lock lock(mutex_);
  while (!over_) {
    const std::chrono::duration<double> so_far = std::chrono::steady_clock::now() - begun_;
    line_.show(so_far.count() < 1 ? stage_ : str(stage_, ", ", static_cast<int64_t>(so_far.count()), " s by now"));
    changed_.wait_for(lock, std::chrono::milliseconds(250));
  }
}

}  // namespace kiln::cli
