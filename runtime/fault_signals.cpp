#include "runtime/fault_signals.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>

#include "base/fork_mutex.h"

namespace kiln::runtime {
namespace {

constexpr std::array<int, 4> watched = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
constexpr int report_milliseconds = 20'000;
constexpr size_t handler_stack_bytes = 64 * 1024;  // registers of AVX-512 and AMX are saved on it

// initial-exec: reading it in a handler must not allocate.
__attribute__((tls_model("initial-exec"))) thread_local const RunningStep* current = nullptr;

struct sigaction previous[watched.size()];
std::atomic<bool> armed[watched.size()];
std::atomic<bool> complete{false};  // all of them are armed, and the reporter waits

void put(const char* text, size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = write(STDERR_FILENO, text, bytes);
    if (written <= 0) return;
    text += written, bytes -= static_cast<size_t>(written);
  }
}
void put(const char* text) { put(text, std::strlen(text)); }

// ---- The thread that reports. A request is a pointer through a pipe, its answer a byte through another one.
struct Request {
  const RunningStep* step;
  int signal;
  const void* address;
};
int requests[2] = {-1, -1}, answers[2] = {-1, -1};
std::atomic<pid_t> reporter_process{0};  // threads do not follow a fork
std::atomic<bool> reporting{false};
BriefMutex installing;
[[maybe_unused]] const int told_of_forks = pthread_atfork(nullptr, nullptr, [] { complete = false; });

void* report_requests(void*) {
  const Request* request = nullptr;
  while (::read(requests[0], &request, sizeof request) == sizeof request) {
    request->step->report(request->signal, request->address);
    const char done = 1;
    if (write(answers[1], &done, 1) != 1) break;
  }
  return nullptr;
}

void start_reporter() {
  if (reporter_process.load() == getpid()) return;
  for (int* ends : {requests, answers}) {
    if (ends[0] >= 0) close(ends[0]), close(ends[1]);
    if (pipe(ends) != 0) return;
  }
  reporting = false;
  sigset_t all, before;
  sigfillset(&all);
  for (int signal : watched) sigdelset(&all, signal);  // a fault of its own ends the process, as it must
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, report_requests, nullptr) == 0) {
    pthread_detach(thread);
    reporter_process = getpid();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void ask_reporter(const RunningStep* step, int signal, const void* address) {
  if (reporter_process.load() != getpid()) return;
  // Another thread's fault is being reported: the process must not end before that is done.
  const bool first = !reporting.exchange(true);
  const Request request{step, signal, address}, *pointer = &request;
  if (first && write(requests[1], &pointer, sizeof pointer) != sizeof pointer) return;
  pollfd wait{answers[0], POLLIN, 0};
  if (poll(&wait, 1, report_milliseconds) <= 0)
    return put("no more can be said: a lock was held that the report needs\n");
  char done;
  if (first && ::read(answers[0], &done, 1) == 1) reporting = false;
}

// ---- The handler
void restore(int signal) {
  for (size_t i = 0; i < watched.size(); ++i)
    if (watched[i] == signal) sigaction(signal, &previous[i], nullptr), armed[i] = false;
  complete = false;
}

// The address lies where the stack pointer is: the step has used its stack up. The guard page below a thread's stack is
// small, and so are most steps into it.
bool stack_used_up(int signal, const siginfo_t* info, const void* context) {
#if defined(__x86_64__)
  const auto* state = static_cast<const ucontext_t*>(context);
  const auto pointer = static_cast<uintptr_t>(state->uc_mcontext.gregs[REG_RSP]);
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  constexpr uintptr_t near = 64 * 1024;
  return signal == SIGSEGV && address + near > pointer && address < pointer + near;
#else
  (void)signal, (void)info, (void)context;
  return false;
#endif
}

void handle(int signal, siginfo_t* info, void* context) {
  // The next one of this kind, even inside the report, goes to the handler before this one. Returning runs the faulting
  // instruction again, which then raises it there.
  restore(signal);
  const RunningStep* step = current;
  current = nullptr;
  if (step) {
    put("error[K0638]: ");
    put(signal_name(signal));
    if (stack_used_up(signal, info, context)) put(", the stack is used up,");
    put(" inside ");
    const std::string_view text = step->text();
    put(text.data(), text.size());
    put("\n");
    ask_reporter(step, signal, info->si_addr);
  }
  // A signal that was sent, not caused by an instruction, does not come again by itself.
  if (info->si_code <= 0) raise(signal);
}

// A stack for the handler, of a thread that runs steps; taken away when the thread ends.
class HandlerStack {
 public:
  HandlerStack() {
    stack_t now{};
    if (sigaltstack(nullptr, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) return;  // the embedder gave it one
    memory_ =
        mmap(nullptr, handler_stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (memory_ == MAP_FAILED) return;
    stack_t mine{};
    mine.ss_sp = memory_, mine.ss_size = handler_stack_bytes;
    if (sigaltstack(&mine, nullptr) != 0) release();
  }
  ~HandlerStack() {
    if (memory_ == MAP_FAILED) return;
    stack_t now{};
    if (sigaltstack(nullptr, &now) == 0 && now.ss_sp == memory_) {
      stack_t none{};
      none.ss_flags = SS_DISABLE;
      sigaltstack(&none, nullptr);
    }
    release();
  }
  HandlerStack(const HandlerStack&) = delete;

 private:
  void release() {
    munmap(memory_, handler_stack_bytes);
    memory_ = MAP_FAILED;
  }
  void* memory_ = MAP_FAILED;
};

}  // namespace

const char* signal_name(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV (an address that is not this process's)";
    case SIGBUS:
      return "SIGBUS (an address behind which there is no memory)";
    case SIGFPE:
      return "SIGFPE (arithmetic without a result)";
    default:
      return "SIGILL (an instruction that this processor does not have)";
  }
}

void install_fault_handlers() {
  if (complete.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(installing);
  start_reporter();
  for (size_t i = 0; i < watched.size(); ++i) {
    if (armed[i]) continue;
    struct sigaction action {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    armed[i] = sigaction(watched[i], &action, &previous[i]) == 0;
  }
  complete = true;
}

StepMark::StepMark(const RunningStep* step) : before_(current) {
  if (step) {
    static thread_local const HandlerStack stack;
    (void)stack;
  }
  current = step;
}
StepMark::~StepMark() { current = before_; }

}  // namespace kiln::runtime
