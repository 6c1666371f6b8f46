#include <atomic>

#include "runtime/model.h"

namespace kiln::runtime {
namespace {

// Threads start at different slots, so that each usually finds the Run it used before.
size_t thread_number() {
  static std::atomic<size_t> next{0};
  thread_local size_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

}  // namespace

RunPool::~RunPool() {
  for (Slot& slot : slots_) delete slot.run.load();
}

std::unique_ptr<Run> RunPool::take() {
  size_t start = thread_number();
  for (size_t i = 0; i < slot_count; ++i) {
    std::atomic<Run*>& slot = slots_[(start + i) % slot_count].run;
    if (!slot.load(std::memory_order_relaxed)) continue;
    if (Run* run = slot.exchange(nullptr, std::memory_order_acquire)) return std::unique_ptr<Run>(run);
  }
  return nullptr;
}

void RunPool::give_back(std::unique_ptr<Run> run) {
  size_t start = thread_number();
  for (size_t i = 0; i < slot_count; ++i) {
    std::atomic<Run*>& slot = slots_[(start + i) % slot_count].run;
    Run* empty = nullptr;
    if (slot.load(std::memory_order_relaxed)) continue;
    if (slot.compare_exchange_strong(empty, run.get(), std::memory_order_seq_cst)) {
      run.release();
      return;
    }
  }
}

void RunPool::drop_weights_except(uint64_t version) {
  for (Slot& slot : slots_) {
    std::unique_ptr<Run> run(slot.run.exchange(nullptr));
    if (!run) continue;
    if (run->weights_version() != version) run->drop_weights();
    give_back(std::move(run));
  }
}

}  // namespace kiln::runtime
