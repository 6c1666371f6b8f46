#include "debug/watched_child.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

#include "base/error.h"
#include "debug/step_copy.h"

namespace kiln {
namespace {

int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void set_name(char (&to)[ChildProgress::longest_name], const char* name) {
  std::strncpy(to, name, sizeof to - 1);
  to[sizeof to - 1] = '\0';
}

ChildProgress* child_progress = nullptr;  // of this process, when it is a child: for its signal handler

// Leaves the address behind; the instruction runs again, and the signal then does what it always does.
void note_address(int signal, siginfo_t* info, void*) {
  child_progress->fault_address = reinterpret_cast<uint64_t>(info->si_addr);
  child_progress->fault_known = 1;
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  sigaction(signal, &standard, nullptr);
}

void note_addresses(ChildProgress& progress) {
  child_progress = &progress;
  static std::byte stack[1 << 16];
  stack_t alternative = {};
  alternative.ss_sp = stack, alternative.ss_size = sizeof stack;
  sigaltstack(&alternative, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = note_address;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (int signal : {SIGSEGV, SIGBUS}) sigaction(signal, &action, nullptr);
}

class Pipe {
 public:
  Pipe() {
    if (pipe(ends_) != 0) fail_user("K0545", str("a pipe to a child process: ", std::strerror(errno)));
  }
  Pipe(const Pipe&) = delete;
  ~Pipe() {
    for (int i : {0, 1}) close_end(i);
  }
  int end(int i) const { return ends_[i]; }
  void close_end(int i) {
    if (ends_[i] >= 0) close(ends_[i]);
    ends_[i] = -1;
  }

 private:
  int ends_[2] = {-1, -1};
};

class SharedProgress {
 public:
  SharedProgress() {
    void* memory = mmap(nullptr, sizeof(ChildProgress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail_user("K0545", "memory to share with a child process");
    progress_ = new (memory) ChildProgress();
  }
  SharedProgress(const SharedProgress&) = delete;
  ~SharedProgress() { munmap(progress_, sizeof(ChildProgress)); }
  ChildProgress& get() { return *progress_; }

 private:
  ChildProgress* progress_;
};

void write_all(int to, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = write(to, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    done += static_cast<size_t>(n);
  }
}

[[noreturn]] void be_child(Pipe& report, Pipe& errors, ChildProgress& progress,
                           const std::function<std::string(ChildProgress&)>& work) {
  report.close_end(0), errors.close_end(0);
  dup2(errors.end(1), STDERR_FILENO);
  note_addresses(progress);
  int status = 1;
  try {
    write_all(report.end(1), work(progress));
    status = 0;
  } catch (const std::exception& error) {
    write_all(STDERR_FILENO, str(error.what(), "\n"));
  }
  _exit(status);  // nothing of the parent's is to be ended here
}

// Reads what is there. False: the other end is closed.
bool read_some(int from, std::string& to) {
  char buffer[1 << 16];
  const ssize_t n = read(from, buffer, sizeof buffer);
  if (n > 0) to.append(buffer, static_cast<size_t>(n));
  return n > 0 || (n < 0 && errno == EINTR);
}

}  // namespace

void ChildProgress::enter(const kiln_step& begun) {
  ++launches;
  number = begun.number;
  set_name(step, begun.name);
  place_count = 0;
  for (size_t i = 0; i < begun.arg_count && place_count < most_buffers; ++i) {
    Place& place = places[place_count++];
    set_name(place.name, begun.args[i].name);
    place.begin = reinterpret_cast<uint64_t>(begun.args[i].tensor.data);
    place.end = place.begin + static_cast<uint64_t>(bytes_of(begun.args[i].tensor));
  }
  fault_known = 0;
  since = now_ms();
  inside_step = 1;
}

namespace {
constexpr uint64_t near_bytes = 1 << 20;
// How far the address is outside of the buffer; 0: inside.
uint64_t distance(const ChildProgress::Place& place, uint64_t address) {
  if (address < place.begin) return place.begin - address;
  return address >= place.end ? address - place.end + 1 : 0;
}
const ChildProgress::Place* nearest_place(const ChildProgress& progress) {
  const ChildProgress::Place* best = nullptr;
  for (uint32_t i = 0; i < progress.place_count && progress.fault_known; ++i) {
    const ChildProgress::Place& place = progress.places[i];
    if (!best || distance(place, progress.fault_address) < distance(*best, progress.fault_address)) best = &place;
  }
  return best && distance(*best, progress.fault_address) <= near_bytes ? best : nullptr;
}
}  // namespace

std::string ChildProgress::address_buffer() const {
  const Place* place = nearest_place(*this);
  return place ? place->name : "";
}

std::string ChildProgress::address_text() const {
  if (!fault_known) return "";
  const Place* place = nearest_place(*this);
  if (!place) return " at an address that belongs to none of its buffers";
  const uint64_t far = distance(*place, fault_address);
  if (far == 0) return str(" at an address in ", place->name);
  return str(" at an address ", far, " byte", far == 1 ? "" : "s",
             fault_address < place->begin ? " before " : " behind the last of ", place->name);
}

std::string ChildEnd::signal_text() const {
  if (signal == 0) return str("exit code ", status);
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV";
    case SIGBUS:
      return "SIGBUS";
    case SIGILL:
      return "SIGILL";
    case SIGFPE:
      return "SIGFPE";
    case SIGABRT:
      return "SIGABRT";
    default:
      return str("signal ", signal);
  }
}

ChildEnd run_watched(double hang_seconds, const std::function<std::string(ChildProgress&)>& work) {
  SharedProgress shared;
  Pipe report, errors;
  fflush(nullptr);  // else both processes write what is buffered
  const pid_t child = fork();
  if (child < 0) fail_user("K0545", str("a child process: ", std::strerror(errno)));
  if (child == 0) be_child(report, errors, shared.get(), work);
  report.close_end(1), errors.close_end(1);
  ChildEnd end;
  bool reporting = true, complaining = true;
  while (reporting || complaining) {
    pollfd both[2] = {{reporting ? report.end(0) : -1, POLLIN, 0}, {complaining ? errors.end(0) : -1, POLLIN, 0}};
    poll(both, 2, 100);
    if (both[0].revents) reporting = read_some(report.end(0), end.report);
    if (both[1].revents) complaining = read_some(errors.end(0), end.errors);
    const ChildProgress& at = shared.get();
    if (at.inside_step && static_cast<double>(now_ms() - at.since) > hang_seconds * 1e3) {
      kill(child, SIGKILL);
      end.how = ChildEnd::How::hung;
      break;
    }
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  end.progress = shared.get();
  if (end.how == ChildEnd::How::hung) return end;
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  if (WIFEXITED(status)) end.status = WEXITSTATUS(status);
  if (end.signal != 0 || end.status != 0) end.how = ChildEnd::How::died;
  return end;
}

}  // namespace kiln
