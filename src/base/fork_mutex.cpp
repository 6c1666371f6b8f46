#include "base/fork_mutex.h"

#include <new>

namespace kiln {
namespace {

// Of constants: mutexes that are global variables of other files may be made before this file's.
constinit std::mutex all_fork_mutexes_lock;
constinit ForkMutex* all_fork_mutexes = nullptr;

}  // namespace

struct ForkHandlers {
  template <class What>
  static void each(const What& what) {
    for (ForkMutex* mutex = all_fork_mutexes; mutex; mutex = mutex->next_) what(*mutex);
  }
  static void prepare() {
    all_fork_mutexes_lock.lock();
    each([](ForkMutex& m) {
      if (m.waits_ && !m.held_here()) m.mutex_.lock();
    });
  }
  static void in_parent() {
    each([](ForkMutex& m) {
      if (m.waits_ && !m.held_here()) m.mutex_.unlock();
    });
    all_fork_mutexes_lock.unlock();
  }
  // Others of the parent may sleep in them, so they are made anew, not unlocked.
  static void in_child() {
    each([](ForkMutex& m) {
      if (m.held_here()) return;
      new (&m.mutex_) std::mutex;
      m.holder_.store({}, std::memory_order_relaxed);
    });
    new (&all_fork_mutexes_lock) std::mutex;
  }
  static void insert(ForkMutex& mutex) {
    const std::lock_guard lock(all_fork_mutexes_lock);
    mutex.next_ = all_fork_mutexes;
    if (all_fork_mutexes) all_fork_mutexes->previous_ = &mutex;
    all_fork_mutexes = &mutex;
  }
  static void remove(ForkMutex& mutex) {
    const std::lock_guard lock(all_fork_mutexes_lock);
    (mutex.previous_ ? mutex.previous_->next_ : all_fork_mutexes) = mutex.next_;
    if (mutex.next_) mutex.next_->previous_ = mutex.previous_;
  }
};

namespace {
[[maybe_unused]] const int fork_mutex_handlers =
    pthread_atfork(ForkHandlers::prepare, ForkHandlers::in_parent, ForkHandlers::in_child);
}  // namespace

ForkMutex::ForkMutex(bool waits) : waits_(waits) { ForkHandlers::insert(*this); }
ForkMutex::~ForkMutex() { ForkHandlers::remove(*this); }

}  // namespace kiln
