#include "toolchain/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/environment.h"
#include "base/error.h"
#include "base/leftovers.h"

namespace kiln {

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), X_OK) == 0 ? name : "";
  for (const std::string& directory : program_directories()) {
    if (directory.empty()) continue;
    std::string candidate = directory + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

namespace {

// The environment of this process, with another TMPDIR where one is given.
std::vector<std::string> environment_with(const std::string& temporary) {
  std::vector<std::string> out = environment_assignments();
  if (temporary.empty()) return out;
  std::erase_if(out, [](const std::string& entry) { return starts_with(entry, "TMPDIR="); });
  out.push_back("TMPDIR=" + temporary);
  return out;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

}  // namespace

Process::Process(const std::vector<std::string>& arguments, const std::string& temporary) {
  std::string program = find_program(arguments.at(0));
  if (program.empty()) fail_user("K0412", str("the program ", arguments[0], " is not in PATH"));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail_user("K0412", str("cannot make a pipe: ", std::strerror(errno)));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  const std::vector<char*> argv = pointers(arguments);
  const std::vector<std::string> assignments = environment_with(temporary);
  const std::vector<char*> environment = pointers(assignments);
  int error = posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    pid_ = -1;
    fail_user("K0412", str("cannot start ", program, ": ", std::strerror(error)));
  }
  output_ = ends[0];
  left_ = std::make_unique<LeftoverProcess>(pid_);
}

Process::Process(Process&& other) noexcept
    : pid_(other.pid_), output_(other.output_), said_(std::move(other.said_)), left_(std::move(other.left_)) {
  other.pid_ = other.output_ = -1;
}

Process::~Process() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (output_ >= 0) close(output_);
}

bool Process::listen() {
  char buffer[4096];
  ssize_t got;
  while ((got = read(output_, buffer, sizeof buffer)) < 0 && errno == EINTR) {
  }
  if (got > 0) said_.append(buffer, static_cast<size_t>(got));
  return got > 0;
}

size_t Process::wait_any(const std::vector<Process*>& running) {
  while (true) {
    std::vector<pollfd> outputs;
    for (const Process* process : running) outputs.push_back({process->output_, POLLIN, 0});
    if (poll(outputs.data(), outputs.size(), -1) < 0 && errno != EINTR)
      fail_user("K0412", str("cannot wait for a program: ", std::strerror(errno)));
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i].revents != 0 && !running[i]->listen()) return i;
  }
}

ProcessResult Process::wait() {
  ProcessResult result;
  while (listen()) {
  }
  result.output = std::move(said_);
  int status = 0;
  left_.reset();  // before its number can be another's
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

ProcessResult run_process(const std::vector<std::string>& arguments, const std::string& temporary) {
  return Process(arguments, temporary).wait();
}

}  // namespace kiln
