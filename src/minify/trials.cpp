#include "minify/trials.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace kiln::minify {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = write(descriptor, text.data(), text.size());
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;
    text.remove_prefix(static_cast<size_t>(sent));
  }
}

// Private memory that this process may still take.
void limit_memory(int64_t bytes) {
  if (bytes <= 0) return;
  int64_t now = 0;
  const std::string status = read_file("/proc/self/status");
  if (const size_t at = status.find("VmData:"); at != std::string::npos)
    now = std::strtoll(status.c_str() + at + 7, nullptr, 10) * 1024;
  const rlimit limit{static_cast<rlim_t>(now + bytes), static_cast<rlim_t>(now + bytes)};
  setrlimit(RLIMIT_DATA, &limit);
}

// Processor time of a process, with its threads.
double processor_seconds(pid_t pid) {
  try {
    const std::string text = read_file(str("/proc/", pid, "/stat"));
    // After the name in brackets: field 3 is the state, 14 and 15 are the time in user mode and in the system.
    const std::vector<std::string> fields = split(text.substr(text.rfind(')') + 2), ' ');
    if (fields.size() < 13) return 0;
    const double ticks = std::strtod(fields[11].c_str(), nullptr) + std::strtod(fields[12].c_str(), nullptr);
    return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  } catch (const Error&) {
    return 0;
  }
}

bool is_judging(const std::string& stage) { return stage == "compare" || stage == "bisect"; }

double limit_of(const TrialLimits& limits, const std::string& stage) {
  if (stage.empty() || stage == "compile") return limits.compile_seconds;
  return is_judging(stage) ? limits.judge_seconds : limits.run_seconds;
}

std::string stage_line(const std::string& stage) { return str("stage ", stage, "\n"); }

// What a child inherits must not hold the terminal, the signals or the temporary files of this process.
void enter_child(const sigset_t& signals, const std::string& directory, int64_t memory_bytes, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  signal(SIGINT, SIG_IGN);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  limit_memory(memory_bytes);
  setenv("TMPDIR", directory.c_str(), 1);
  const int null = open("/dev/null", O_RDWR);
  for (int descriptor : {0, 1, 2}) dup2(null, descriptor);
}

}  // namespace

struct Trials::Child {
  size_t index = 0;
  pid_t pid = -1;
  int pipe = -1;
  std::string received, directory, stage;
  std::map<std::string, double> seconds;
  Clock::time_point stage_began;
  double processor_before = 0;  // seconds of the processor when the stage began
};

Trials::Trials(int jobs) : jobs_(std::max(jobs, 1)) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, &previous_signals_);
  signal_descriptor_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

Trials::~Trials() {
  if (signal_descriptor_ >= 0) close(signal_descriptor_);
  sigprocmask(SIG_SETMASK, &previous_signals_, nullptr);
}

Trials::Child Trials::start(size_t index, const Task& task) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail_user("K0412", str("cannot make a pipe: ", std::strerror(errno)));
  Child child;
  child.index = index;
  child.directory = join_path(directory_.path(), str("trial_", started_++));
  make_directories(child.directory, 0700);
  const pid_t parent = getpid();
  fflush(nullptr);
  child.pid = fork();
  if (child.pid < 0) {
    close(ends[0]), close(ends[1]);
    fail_user("K0412", str("cannot start a process: ", std::strerror(errno)));
  }
  if (child.pid == 0) {
    Failure failure;
    try {
      enter_child(previous_signals_, child.directory, limits.memory_bytes, parent);
      failure = task([&](const std::string& stage) { write_all(ends[1], stage_line(stage)); });
      write_all(ends[1], str("result ", json_text(to_json(failure)), "\n"));
    } catch (...) {
      _exit(3);
    }
    _exit(0);  // no destructors: they are the server's
  }
  setpgid(child.pid, child.pid);
  close(ends[1]);
  child.pipe = ends[0];
  child.stage_began = Clock::now();
  return child;
}

TrialResult Trials::finish(Child& child, bool killed_for_time) {
  kill(-child.pid, SIGKILL);  // itself, or what it left behind
  kill(child.pid, SIGKILL);
  int status = 0;
  while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  close(child.pipe);
  child.pid = -1;
  how_far_.clear();
  remove_tree(child.directory);
  if (!child.stage.empty()) child.seconds[child.stage] += since(child.stage_began);
  TrialResult result;
  result.seconds = child.seconds;
  result.failure.stage = child.stage;
  const size_t at = child.received.rfind("result ", 0) == 0 ? 0 : child.received.find("\nresult ");
  if (killed_for_time) {
    result.failure.kind = is_judging(child.stage) ? FailureKind::error : FailureKind::hang;
    if (is_judging(child.stage)) result.failure.code = not_judged;
    result.failure.message = str("no end of ", child.stage, " after ", child.seconds[child.stage], " s");
  } else if (at != std::string::npos && child.received.back() == '\n') {
    const size_t begin = child.received.find('{', at);
    result.failure = failure_from_json(
        parse_json(std::string_view(child.received).substr(begin, child.received.size() - 1 - begin), "a trial"));
  } else if (WIFSIGNALED(status)) {
    result.failure.kind = WTERMSIG(status) == SIGKILL ? FailureKind::memory : FailureKind::signal;
    result.failure.signal = WTERMSIG(status);
    result.failure.message = str("the process died of signal ", WTERMSIG(status), " in ", child.stage);
  } else {
    result.failure.kind = FailureKind::error;
    result.failure.code = "exit";
    result.failure.message = str("the process ended with exit code ", WEXITSTATUS(status), " in ", child.stage);
  }
  return result;
}

std::optional<TrialResult> Trials::poll_child(Child& child, bool readable) {
  if (readable) {
    char buffer[4096];
    const ssize_t got = read(child.pipe, buffer, sizeof buffer);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) return finish(child, false);
    if (got > 0) child.received.append(buffer, static_cast<size_t>(got));
    for (size_t line;
         child.received.rfind("stage ", 0) == 0 && (line = child.received.find('\n')) != std::string::npos;) {
      const std::string said = child.received.substr(6, line - 6);
      child.received.erase(0, line + 1);
      const std::string stage = said.substr(0, said.find('\t'));
      how_far_ = said.substr(std::min(stage.size() + 1, said.size()));
      if (stage == child.stage) continue;
      if (!child.stage.empty()) child.seconds[child.stage] += since(child.stage_began);
      child.stage = stage;
      child.stage_began = Clock::now();
      child.processor_before = processor_seconds(child.pid);
    }
    return std::nullopt;
  }
  const double limit = limit_of(limits, child.stage);
  const double took = since(child.stage_began);
  if (took <= limit) return std::nullopt;
  // The compiler's own processes are not counted here, so compiling goes by the clock.
  const bool compiling = child.stage.empty() || child.stage == "compile";
  const bool computed =
      compiling || took > 4 * limit || processor_seconds(child.pid) - child.processor_before > limit / 2;
  if (computed) return finish(child, true);
  return std::nullopt;
}

void Trials::abandon(std::vector<Child>& running) {
  for (Child& child : running)
    if (child.pid > 0) finish(child, true);
  running.clear();
}

// Until something can be read, at most a little while.
void Trials::wait(std::vector<Child>& running) {
  std::vector<pollfd> descriptors;
  for (const Child& child : running) descriptors.push_back({child.pipe, POLLIN, 0});
  descriptors.push_back({signal_descriptor_, POLLIN, 0});
  poll(descriptors.data(), descriptors.size(), 50);
  try {
    look_for_signals();
  } catch (const Interrupted&) {
    abandon(running);
    throw;
  }
  if (idle) idle();
}

void Trials::look_for_signals() {
  signalfd_siginfo info;
  if (read(signal_descriptor_, &info, sizeof info) > 0) throw Interrupted(static_cast<int>(info.ssi_signo));
}

Trials::SignalsAsBefore::SignalsAsBefore(const Trials& trials) {
  sigprocmask(SIG_SETMASK, &trials.previous_signals_, &blocked_);
}
Trials::SignalsAsBefore::~SignalsAsBefore() { sigprocmask(SIG_SETMASK, &blocked_, nullptr); }

TrialResult Trials::run(const Task& task) {
  TrialResult out;
  first_accepted(
      1, [&](size_t) { return task; },
      [&](size_t, const TrialResult& result) {
        out = result;
        return true;
      });
  return out;
}

std::optional<size_t> Trials::first_accepted(size_t count, const std::function<std::optional<Task>(size_t)>& make,
                                             const std::function<bool(size_t, const TrialResult&)>& ended) {
  std::vector<Child> running;
  std::optional<size_t> best;
  size_t next = 0;
  try {
    for (;;) {
      while (!best && next < count && running.size() < static_cast<size_t>(jobs_)) {
        const size_t index = next++;
        if (const std::optional<Task> task = make(index)) running.push_back(start(index, *task));
      }
      if (best) {
        // Later ones cannot win any more.
        std::vector<Child> later;
        for (size_t i = running.size(); i-- > 0;)
          if (running[i].index > *best) {
            later.push_back(std::move(running[i]));
            running.erase(running.begin() + static_cast<ptrdiff_t>(i));
          }
        abandon(later);
      }
      if (running.empty()) {
        if (best || next >= count) return best;
        continue;
      }
      wait(running);
      for (size_t i = running.size(); i-- > 0;) {
        pollfd one{running[i].pipe, POLLIN, 0};
        const bool readable = poll(&one, 1, 0) > 0;
        const std::optional<TrialResult> result = poll_child(running[i], readable);
        if (!result) continue;
        const size_t index = running[i].index;
        running.erase(running.begin() + static_cast<ptrdiff_t>(i));
        if (ended(index, *result) && (!best || index < *best)) best = index;
      }
    }
  } catch (...) {
    abandon(running);
    throw;
  }
}

}  // namespace kiln::minify
