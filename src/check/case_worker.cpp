#include "check/case_worker.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/file.h"
#include "check/check_json.h"

namespace kiln {
namespace {

// What a worker prints goes to a file without a name, whose end is kept when a case fails. Each case begins it anew:
// what is written goes to the end, wherever that is by then.
int make_log_file() {
  std::string name = join_path(temporary_root(), "kiln-check-XXXXXX");
  const int descriptor = mkostemp(name.data(), O_CLOEXEC | O_APPEND);
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

// False: the other end is closed.
bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = write(descriptor, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    text.remove_prefix(static_cast<size_t>(wrote));
  }
  return true;
}

bool read_all(int descriptor, char* to, size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = read(descriptor, to, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got, bytes -= static_cast<size_t>(got);
  }
  return true;
}

std::string signal_text(int number) {
  const char* name = sigabbrev_np(number);
  return name ? str("SIG", name) : str("signal ", number);
}

constexpr size_t no_more_cases = SIZE_MAX;

}  // namespace

CaseWorker::CaseWorker(const std::vector<std::string>& cases, const CheckOptions& options)
    : cases_(cases), options_(options), log_file_(make_log_file()) {
  int orders[2], results[2];  // a socket: who writes to one that is closed gets no signal
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, orders) != 0 || pipe2(results, O_CLOEXEC) != 0)
    fail_user("K0171", str("cannot make a pipe: ", strerror(errno)));
  fflush(nullptr);
  pid_ = fork();
  if (pid_ < 0) fail_user("K0171", str("cannot start a process: ", strerror(errno)));
  if (pid_ == 0) {
    close(orders[1]);
    serve(orders[0], results[1]);
  }
  setpgid(pid_, pid_);  // here too: whoever comes first
  close(orders[0]), close(results[1]);
  orders_ = orders[1], results_ = results[0];
  left_ = std::make_unique<LeftoverProcess>(pid_);
}

CaseWorker::~CaseWorker() {
  end();
  close(log_file_);
}

// In the child. Leaves without running destructors or exit handlers: those belong to the parent's state.
void CaseWorker::serve(int orders, int results) {
  setpgid(0, 0);                     // so that a timeout takes the compilers that the case has started with it
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // and nothing outlives an interrupted check, nor leaves its temporary files
  dup2(log_file_, STDOUT_FILENO);
  dup2(log_file_, STDERR_FILENO);
  size_t index = 0;
  while (read_all(orders, reinterpret_cast<char*>(&index), sizeof index) && index != no_more_cases) {
    CaseResult result;
    try {
      result = options_.run_case(cases_[index]);
    } catch (const std::exception& error) {
      result.path = cases_[index];
      result.message = str("unexpected: ", error.what());
    }
    fflush(nullptr);
    // A line, so that the parent knows its end; text inside of JSON has none.
    if (!write_all(results, replace_all(json_text(case_to_json(result)), "\n", " ") + "\n")) break;
  }
  _exit(0);
}

void CaseWorker::take(size_t index) {
  if (taken_ > 0 && ftruncate(log_file_, 0) != 0)
    fail_user("K0171", str("cannot empty a temporary file: ", strerror(errno)));
  index_ = index;
  ++taken_;
  started_ = Clock::now();
  order(index);
}

// A worker that is gone says so by the end of its results.
void CaseWorker::order(size_t index) { send(orders_, &index, sizeof index, MSG_NOSIGNAL); }

void CaseWorker::dismiss() {
  if (!ended_ && !busy() && !dismissed_) order(no_more_cases);
  dismissed_ = true;
}

double CaseWorker::seconds_left() const {
  return options_.timeout_seconds - std::chrono::duration<double>(Clock::now() - started_).count();
}

std::optional<CaseResult> CaseWorker::receive() {
  char buffer[4096];
  const ssize_t got = read(results_, buffer, sizeof buffer);
  if (got < 0 && errno == EINTR) return std::nullopt;
  if (got <= 0) return died();
  received_.append(buffer, static_cast<size_t>(got));
  if (received_.back() != '\n') return std::nullopt;
  try {
    CaseResult result = case_from_json(received_);
    received_.clear();
    return finish(std::move(result));
  } catch (const std::exception&) {  // whoever wrote that, it was no result
    return died();
  }
}

CaseResult CaseWorker::died() {
  end();
  CaseResult result;
  result.stage = "process";
  result.message = WIFSIGNALED(status_)
                       ? str("its process died of ", signal_text(WTERMSIG(status_)))
                       : str("its process ended with exit code ", WEXITSTATUS(status_), " and no result");
  return finish(std::move(result));
}

CaseResult CaseWorker::time_out() {
  end();
  CaseResult result;
  result.stage = "process";
  result.message = str("still running after ", options_.timeout_seconds, " s; killed");
  return finish(std::move(result));
}

CaseResult CaseWorker::finish(CaseResult result) {
  result.path = cases_[*index_];
  constexpr off_t end_bytes = 4000, whole_bytes = off_t{64} << 20;
  if (options_.keep_output || result.status == CaseStatus::failed)
    result.log = end_of_log(log_file_, options_.keep_output ? whole_bytes : end_bytes);
  result.seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  index_.reset();
  return result;
}

// Collects the process: it has ended, or is to end now, with what its cases left behind.
void CaseWorker::end() {
  if (ended_) return;
  dismiss();
  ended_ = true;
  if (busy()) kill(-pid_, SIGKILL);
  left_.reset();
  while (waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
  }
  kill(-pid_, SIGKILL);
  close(orders_), close(results_);
}

}  // namespace kiln
