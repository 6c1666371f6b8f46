#include "runtime/fault_signals.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <mutex>

namespace kiln::runtime {
namespace {

constexpr std::array<int, 4> watched = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};

// initial-exec: reading it in a handler must not allocate.
__attribute__((tls_model("initial-exec"))) thread_local const RunningStep* current = nullptr;

struct sigaction previous[watched.size()];

void put(const char* text, size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = write(STDERR_FILENO, text, bytes);
    if (written <= 0) return;
    text += written, bytes -= static_cast<size_t>(written);
  }
}
void put(const char* text) { put(text, std::strlen(text)); }

void restore(int signal) {
  for (size_t i = 0; i < watched.size(); ++i)
    if (watched[i] == signal) sigaction(signal, &previous[i], nullptr);
}

void handle(int signal, siginfo_t* info, void*) {
  // The next one of this kind, even inside the report, goes to the handler before this one. Returning runs the faulting
  // instruction again, which then raises it there.
  restore(signal);
  const RunningStep* step = current;
  current = nullptr;
  if (step) {
    put("error[K0638]: ");
    put(signal_name(signal));
    put(" inside ");
    put(step->text.data(), step->text.size());
    put("\n");
    step->report(signal, info->si_addr);
  }
  // A signal that was sent, not caused by an instruction, does not come again by itself.
  if (info->si_code <= 0) raise(signal);
}

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
  static std::once_flag once;
  std::call_once(once, [] {
    for (size_t i = 0; i < watched.size(); ++i) {
      struct sigaction action {};
      action.sa_sigaction = handle;
      action.sa_flags = SA_SIGINFO | SA_NODEFER;
      sigemptyset(&action.sa_mask);
      sigaction(watched[i], &action, &previous[i]);
    }
  });
}

StepMark::StepMark(const RunningStep* step) : before_(current) { current = step; }
StepMark::~StepMark() { current = before_; }

}  // namespace kiln::runtime
