#include "debug/watched_child.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <new>

#include "base/error.h"
#include "base/leftovers.h"

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

[[noreturn]] void be_child(Pipe& report, Pipe& errors, ChildProgress& progress, pid_t parent,
                           const std::function<std::string(ChildProgress&)>& work) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // nothing outlives what is interrupted, nor leaves its temporary files
  if (getppid() != parent) _exit(1);
  report.close_end(0), errors.close_end(0);
  dup2(errors.end(1), STDERR_FILENO);
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
  since = now_ms();
  inside_step = 1;
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

ChildEnd run_watched(double hang_seconds, const std::function<void(const ChildProgress&)>& told,
                     const std::function<std::string(ChildProgress&)>& work) {
  SharedProgress shared;
  Pipe report, errors;
  fflush(nullptr);  // else both processes write what is buffered
  const pid_t parent = getpid(), child = fork();
  if (child < 0) fail_user("K0545", str("a child process: ", std::strerror(errno)));
  if (child == 0) be_child(report, errors, shared.get(), parent, work);
  const LeftoverProcess left(child);
  report.close_end(1), errors.close_end(1);
  ChildEnd end;
  bool reporting = true, complaining = true;
  while (reporting || complaining) {
    pollfd both[2] = {{reporting ? report.end(0) : -1, POLLIN, 0}, {complaining ? errors.end(0) : -1, POLLIN, 0}};
    poll(both, 2, 100);
    if (both[0].revents) reporting = read_some(report.end(0), end.report);
    if (both[1].revents) complaining = read_some(errors.end(0), end.errors);
    const ChildProgress& at = shared.get();
    if (told) told(at);
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
