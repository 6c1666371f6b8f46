#include "base/leftovers.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>

namespace kiln {
namespace {

// Fixed memory: a signal handler reads it. `owner` is the process that made the thing (a fork must not remove what is
// its parent's); 0: free, -1: being filled.
template <class Content>
struct Slot {
  std::atomic<pid_t> owner{0};
  Content content{};
};
struct Path {
  char text[PATH_MAX];
};
constexpr int slot_count = 64;
Slot<Path> paths[slot_count];
Slot<pid_t> processes[slot_count];

template <class Content, class Fill>
int take_slot(Slot<Content> (&slots)[slot_count], Fill fill) {
  for (int i = 0; i < slot_count; ++i) {
    pid_t free = 0;
    if (!slots[i].owner.compare_exchange_strong(free, -1)) continue;
    fill(slots[i].content);
    slots[i].owner.store(getpid());
    return i;
  }
  return -1;
}

struct DirectoryRecord {  // as getdents64 gives it
  uint64_t inode;
  int64_t offset;
  unsigned short bytes;
  unsigned char type;
  char name[1];
};

// Only calls that a signal handler may make. Deeper than anything Kiln makes is left alone.
void remove_entry(int folder, const char* name, int depth) {
  if (unlinkat(folder, name, 0) == 0 || (errno != EISDIR && errno != EPERM) || depth > 6) return;
  const int inner = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (inner < 0) return;
  alignas(DirectoryRecord) char buffer[4096];
  for (long got; (got = syscall(SYS_getdents64, inner, buffer, sizeof buffer)) > 0;) {
    for (long at = 0; at < got;) {
      const auto* record = reinterpret_cast<const DirectoryRecord*>(buffer + at);
      const bool dots = strcmp(record->name, ".") == 0 || strcmp(record->name, "..") == 0;
      if (!dots) remove_entry(inner, record->name, depth + 1);
      at += record->bytes;
    }
  }
  close(inner);
  unlinkat(folder, name, AT_REMOVEDIR);
}

struct Ending {
  int signal;
  struct sigaction before {};
};
Ending endings[] = {{SIGINT}, {SIGTERM}, {SIGHUP}};
std::atomic<bool> handled{false};

void remove_and_end(int signal) {
  const pid_t self = getpid();
  for (Slot<pid_t>& process : processes)
    if (process.owner.load() == self) kill(process.content, SIGTERM);  // its own temporary files go too
  // A path whose name has been given meanwhile is not there any more: nothing is removed that was finished.
  for (Slot<Path>& path : paths)
    if (path.owner.load() == self) remove_entry(AT_FDCWD, path.content.text, 0);
  // The signal now does what it did before, once this returns.
  for (const Ending& ending : endings)
    if (ending.signal == signal) sigaction(signal, &ending.before, nullptr);
  raise(signal);
}

}  // namespace

Leftover::Leftover(const std::string& path) {
  char here[PATH_MAX];
  // The process may change its directory.
  std::string full = path;
  if (!path.empty() && path[0] != '/' && getcwd(here, sizeof here)) full = std::string(here) + "/" + path;
  if (full.size() >= sizeof(Path::text)) return;
  slot_ = take_slot(paths, [&](Path& out) { memcpy(out.text, full.c_str(), full.size() + 1); });
}

Leftover::~Leftover() {
  if (slot_ >= 0 && paths[slot_].owner.load() == getpid()) paths[slot_].owner.store(0);
}

LeftoverProcess::LeftoverProcess(int pid) {
  slot_ = take_slot(processes, [&](pid_t& out) { out = pid; });
}

LeftoverProcess::~LeftoverProcess() {
  if (slot_ >= 0 && processes[slot_].owner.load() == getpid()) processes[slot_].owner.store(0);
}

void remove_leftovers_on_signals() {
  if (handled.exchange(true)) return;
  for (Ending& ending : endings) {
    if (sigaction(ending.signal, nullptr, &ending.before) != 0 || ending.before.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = remove_and_end;
    sigemptyset(&action.sa_mask);
    for (const Ending& other : endings) sigaddset(&action.sa_mask, other.signal);
    sigaction(ending.signal, &action, nullptr);
  }
}

bool leftovers_go_on_signals() { return handled.load(); }

}  // namespace kiln
