#include "check/check.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "base/file.h"
#include "base/leftovers.h"
#include "check/check_json.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

// One case in a process of its own. The result comes through a pipe; what the process prints goes to a file without
// a name, whose end is kept when the case fails.
struct CaseProcess {
  size_t index = 0;
  pid_t pid = -1;
  int result_pipe = -1;
  int log_file = -1;
  Clock::time_point started;
  std::string received;
  bool timed_out = false;
  std::unique_ptr<LeftoverProcess> left;
};

int make_log_file() {
  std::string name = join_path(temporary_root(), "kiln-check-XXXXXX");
  const int descriptor = mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0)
    fail_user("K0171", str("cannot make a temporary file in ", temporary_root(), ": ", strerror(errno)));
  unlink(name.c_str());
  return descriptor;
}

std::string end_of_log(int descriptor, off_t most) {
  const off_t size = lseek(descriptor, 0, SEEK_END);
  const off_t begin = size > most ? size - most : 0;
  std::string text(static_cast<size_t>(std::max<off_t>(size - begin, 0)), '\0');
  const ssize_t got = pread(descriptor, text.data(), text.size(), begin);
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = write(descriptor, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return;
    text.remove_prefix(static_cast<size_t>(wrote));
  }
}

// In the child. Leaves without running destructors or exit handlers: those belong to the parent's state.
[[noreturn]] void run_child(const CheckOptions& options, const std::string& path, int result_pipe, int log_file) {
  setpgid(0, 0);                     // so that a timeout takes the compilers that the case has started with it
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // and nothing outlives an interrupted check, nor leaves its temporary files
  dup2(log_file, STDOUT_FILENO);
  dup2(log_file, STDERR_FILENO);
  CaseResult result;
  try {
    result = options.run_case(path);
  } catch (const std::exception& error) {
    result.path = path;
    result.message = str("unexpected: ", error.what());
  }
  write_all(result_pipe, json_text(case_to_json(result)));
  fflush(nullptr);
  _exit(0);
}

CaseProcess start_case(const CheckOptions& options, const std::string& path, size_t index) {
  CaseProcess process;
  process.index = index;
  process.log_file = make_log_file();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail_user("K0171", str("cannot make a pipe: ", strerror(errno)));
  fflush(nullptr);
  process.pid = fork();
  if (process.pid < 0) fail_user("K0171", str("cannot start a process: ", strerror(errno)));
  if (process.pid == 0) run_child(options, path, ends[1], process.log_file);
  setpgid(process.pid, process.pid);  // here too: whoever comes first
  close(ends[1]);
  process.result_pipe = ends[0];
  process.left = std::make_unique<LeftoverProcess>(process.pid);
  process.started = Clock::now();
  return process;
}

std::string signal_text(int number) {
  const char* name = sigabbrev_np(number);
  return name ? str("SIG", name) : str("signal ", number);
}

// The process has closed its pipe or was killed: collect it and read what it said.
CaseResult finish_case(CaseProcess& process, const std::string& path, const CheckOptions& options) {
  // Itself after a timeout; otherwise it has ended, and this is for what it left behind.
  kill(-process.pid, SIGKILL);
  int status = 0;
  process.left.reset();
  while (waitpid(process.pid, &status, 0) < 0 && errno == EINTR) {
  }
  CaseResult result;
  result.path = path;
  result.stage = "process";
  bool complete = false;
  if (!process.timed_out) {
    try {
      result = case_from_json(process.received);
      complete = true;
    } catch (const std::exception&) {
    }
  }
  if (process.timed_out)
    result.message = str("still running after ", options.timeout_seconds, " s; killed");
  else if (!complete && WIFSIGNALED(status))
    result.message = str("its process died of ", signal_text(WTERMSIG(status)));
  else if (!complete)
    result.message = str("its process ended with exit code ", WEXITSTATUS(status), " and no result");
  constexpr off_t end_bytes = 4000, whole_bytes = off_t{64} << 20;
  if (options.keep_output || result.status == CaseStatus::failed)
    result.log = end_of_log(process.log_file, options.keep_output ? whole_bytes : end_bytes);
  result.seconds = std::chrono::duration<double>(Clock::now() - process.started).count();
  close(process.result_pipe);
  close(process.log_file);
  return result;
}

// The processes that run now.
class Pool {
 public:
  Pool(const std::vector<std::string>& cases, const CheckOptions& options) : cases_(cases), options_(options) {}
  ~Pool() {
    for (CaseProcess& process : running_) {  // after an exception: leave nothing behind
      process.timed_out = true;
      finish_case(process, cases_[process.index], options_);
    }
  }

  void start_next() {
    running_.push_back(start_case(options_, cases_[next_], next_));
    ++next_;
  }
  bool may_start() const { return next_ < cases_.size() && running_.size() < static_cast<size_t>(options_.jobs); }
  bool idle() const { return running_.empty(); }

  // Blocks until at least one thing happened; gives the ended cases.
  std::vector<std::pair<size_t, CaseResult>> wait() {
    std::vector<pollfd> descriptors;
    for (const CaseProcess& process : running_) descriptors.push_back({process.result_pipe, POLLIN, 0});
    poll(descriptors.data(), descriptors.size(), milliseconds_to_next_timeout());
    std::vector<std::pair<size_t, CaseResult>> ended;
    for (size_t i = running_.size(); i-- > 0;) {
      CaseProcess& process = running_[i];
      bool end = descriptors[i].revents != 0 && !receive(process);
      if (!end && elapsed(process) > options_.timeout_seconds) end = process.timed_out = true;
      if (!end) continue;
      ended.emplace_back(process.index, finish_case(process, cases_[process.index], options_));
      running_.erase(running_.begin() + static_cast<ptrdiff_t>(i));
    }
    return ended;
  }

 private:
  static double elapsed(const CaseProcess& process) {
    return std::chrono::duration<double>(Clock::now() - process.started).count();
  }
  int milliseconds_to_next_timeout() const {
    double least = options_.timeout_seconds;
    for (const CaseProcess& process : running_) least = std::min(least, options_.timeout_seconds - elapsed(process));
    return static_cast<int>(std::max(least, 0.0) * 1000) + 1;
  }
  // False at the end of the pipe.
  static bool receive(CaseProcess& process) {
    char buffer[4096];
    const ssize_t got = read(process.result_pipe, buffer, sizeof buffer);
    if (got < 0) return errno == EINTR;
    process.received.append(buffer, static_cast<size_t>(got));
    return got > 0;
  }

  const std::vector<std::string>& cases_;
  const CheckOptions& options_;
  std::vector<CaseProcess> running_;
  size_t next_ = 0;
};

}  // namespace

CheckSummary check_cases(const std::vector<std::string>& cases, const CheckOptions& options) {
  KILN_CHECK(options.run_case && options.jobs > 0, "check_cases needs a case runner and at least one job");
  const auto begin = Clock::now();
  CheckSummary summary;
  summary.cases.resize(cases.size());
  Pool pool(cases, options);
  int done = 0;
  for (;;) {
    while (pool.may_start()) pool.start_next();
    if (pool.idle()) break;
    for (auto& [index, result] : pool.wait()) {
      (result.status == CaseStatus::passed   ? summary.passed
       : result.status == CaseStatus::failed ? summary.failed
                                             : summary.skipped)++;
      summary.rescued += result.rescued;
      if (options.progress) options.progress(result, ++done, static_cast<int>(cases.size()));
      summary.cases[index] = std::move(result);
    }
  }
  summary.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return summary;
}

std::string summary_line(const CheckSummary& summary) {
  return str(summary.passed, " passed, ", summary.failed, " failed, ", summary.skipped, " skipped");
}

}  // namespace kiln
