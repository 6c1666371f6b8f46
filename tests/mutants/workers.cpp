#include "workers.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <deque>

#include "base/error.h"
#include "base/file.h"

namespace kiln::mutants {
namespace {

[[maybe_unused]] constexpr rlim_t most_memory = rlim_t{6} << 30;

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\t') c = ' ';
  return text.substr(0, 1500);
}

// ---- in the child
// -----------------------------------------------------------------------------------------------------

// What a sanitizer or the C library says last; the parent reads it when the child is gone.
std::string complaints_path(const std::string& directory) { return join_path(directory, "stderr"); }

// Processor time tells a loop without end from a machine with much to do; the clock is for what waits for ever (a child
// process too: its time does not count here).
constexpr size_t patience = 20;

void limit_time(size_t seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(seconds);
  setitimer(ITIMER_PROF, &timer, nullptr);
  alarm(static_cast<unsigned>(seconds * patience));
}

[[noreturn]] void child(const std::vector<size_t>& indices, const WorkerOptions& options, const JudgeMutant& judge,
                        const std::string& directory, int pipe) {
  FILE* out = fdopen(pipe, "w");
  if (!freopen(complaints_path(directory).c_str(), "w", stderr)) _exit(3);
#if !KILN_ADDRESS_SANITIZER  // which reserves a large part of the address space
  const rlimit limit{most_memory, most_memory};
  setrlimit(RLIMIT_AS, &limit);
#endif
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  for (size_t index : indices) {
    std::fprintf(out, "%zu\n", index);
    std::fflush(out);
    limit_time(options.seconds);
    Verdict verdict;
    try {
      verdict = judge(index, directory);
    } catch (const std::exception& error) {  // not to the parent's frames: what they own is not the child's to remove
      std::fprintf(stderr, "ERROR: an exception left the judge: %s\n", error.what());
      std::fflush(stderr);
      _exit(4);
    }
    limit_time(0);
    std::fprintf(out, "%d\t%s\n", static_cast<int>(verdict.outcome), one_line(verdict.message).c_str());
    std::fflush(out);
  }
  std::fclose(out);
  _exit(0);
}

// ---- in the parent
// ----------------------------------------------------------------------------------------------------

struct Worker {
  pid_t pid = 0;
  int pipe = -1;
  std::vector<size_t> indices;
  std::unique_ptr<TemporaryDirectory> directory;
  std::string text;
};

Worker start(std::vector<size_t> indices, const WorkerOptions& options, const JudgeMutant& judge) {
  int ends[2];
  if (pipe(ends) != 0) fail_user("K0101", str("pipe: ", std::strerror(errno)));
  Worker worker;
  worker.indices = std::move(indices);
  worker.directory = std::make_unique<TemporaryDirectory>("kiln-mutants");
  std::fflush(nullptr);
  worker.pid = fork();
  if (worker.pid < 0) fail_user("K0101", str("fork: ", std::strerror(errno)));
  if (worker.pid == 0) {
    close(ends[0]);
    child(worker.indices, options, judge, worker.directory->path(), ends[1]);
  }
  close(ends[1]);
  worker.pipe = ends[0];
  return worker;
}

// The first line that says what went wrong, and a few of the stack's.
std::string complaint(const Worker& worker) {
  const std::string path = complaints_path(worker.directory->path());
  const std::string text = file_exists(path) ? read_file(path) : "";
  std::string out;
  size_t lines = 0;
  for (const std::string& line : split(text, '\n')) {
    const bool frame = line.find("    #") != std::string::npos;
    if (line.find("ERROR") == std::string::npos && line.find("runtime error") == std::string::npos && !frame) continue;
    if (frame && ++lines > 12) continue;
    const size_t in = line.find(" in ");
    out += (frame && in != std::string::npos ? line.substr(in + 4, 110) : line.substr(0, 300)) + " | ";
  }
  return out.empty() ? text.substr(0, 500) : out;
}

std::string death(int status, const Worker& worker, const WorkerOptions& options) {
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (signal == SIGPROF) return str("HANG: over ", options.seconds, " s of processor time");
  if (signal == SIGALRM) return str("HANG: over ", options.seconds * patience, " s of waiting");
  const std::string how = WIFSIGNALED(status) ? str("signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")")
                                              : str("exit ", WEXITSTATUS(status));
  return str("CRASH: ", how, "; ", complaint(worker));
}

// Gives out what the child said; what it did not come to is returned.
std::vector<size_t> finish(Worker& worker, const WorkerOptions& options,
                           const std::function<void(const Report&)>& done) {
  close(worker.pipe);
  int status = 0;
  waitpid(worker.pid, &status, 0);
  const std::vector<std::string> lines = split(worker.text, '\n');
  size_t at = 0;
  for (; at * 2 + 1 < lines.size() && at < worker.indices.size(); ++at) {
    const std::string& line = lines[at * 2 + 1];
    if (line.size() < 2 || at * 2 + 2 >= lines.size()) break;  // cut off
    done({worker.indices[at], {static_cast<Outcome>(line[0] - '0'), line.substr(2)}});
  }
  if (at == worker.indices.size()) return {};
  done({worker.indices[at], {Outcome::failed, one_line(death(status, worker, options))}});
  return {worker.indices.begin() + static_cast<std::ptrdiff_t>(at) + 1, worker.indices.end()};
}

}  // namespace

void run_workers(const std::vector<size_t>& indices, const WorkerOptions& options, const JudgeMutant& judge,
                 const std::function<void(const Report&)>& done) {
  std::deque<std::vector<size_t>> waiting;
  for (size_t begin = 0; begin < indices.size(); begin += options.together)
    waiting.emplace_back(
        indices.begin() + static_cast<std::ptrdiff_t>(begin),
        indices.begin() + static_cast<std::ptrdiff_t>(std::min(indices.size(), begin + options.together)));
  std::vector<Worker> running;
  while (!waiting.empty() || !running.empty()) {
    while (running.size() < options.jobs && !waiting.empty()) {
      running.push_back(start(std::move(waiting.front()), options, judge));
      waiting.pop_front();
    }
    std::vector<pollfd> ends;
    for (const Worker& worker : running) ends.push_back({worker.pipe, POLLIN, 0});
    poll(ends.data(), ends.size(), -1);
    for (size_t i = running.size(); i-- > 0;) {
      if ((ends[i].revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
      char buffer[4096];
      const ssize_t got = read(running[i].pipe, buffer, sizeof buffer);
      if (got > 0) {
        running[i].text.append(buffer, static_cast<size_t>(got));
        continue;
      }
      if (std::vector<size_t> rest = finish(running[i], options, done); !rest.empty())
        waiting.push_front(std::move(rest));
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

}  // namespace kiln::mutants
