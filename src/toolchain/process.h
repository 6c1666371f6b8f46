// Runs programs: argument vector, no shell, output captured.
#pragma once
#include <memory>
#include <string>
#include <vector>

namespace kiln {

class LeftoverProcess;  // base/leftovers.h

struct ProcessResult {
  int exit_code = -1;  // 128 + signal when killed
  std::string output;  // stdout and stderr together
};

// A program started and not yet waited for. Several may run at once.
class Process {
 public:
  // arguments[0] is looked up in PATH; throws K0412. `temporary` is its directory for temporary files; empty: ours.
  explicit Process(const std::vector<std::string>& arguments, const std::string& temporary = "");
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();  // kills and reaps what was not waited for
  ProcessResult wait();
  // Waits until one of them (at least one) has ended or closed its output: its number. wait() then returns at once.
  static size_t wait_any(const std::vector<Process*>& running);

 private:
  bool listen();  // takes what it says; false: it says no more

  int pid_ = -1;
  int output_ = -1;
  std::string said_;
  std::unique_ptr<LeftoverProcess> left_;
};

ProcessResult run_process(const std::vector<std::string>& arguments, const std::string& temporary = "");
// Absolute path of a program in PATH, or empty.
std::string find_program(const std::string& name);

}  // namespace kiln
