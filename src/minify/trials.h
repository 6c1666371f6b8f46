// Trials in child processes. This process is the server: it holds the program with its weights mapped, and forks a
// child per trial, which sees all that without reading anything again. A child may crash, hang or use up its memory;
// what it started and what it wrote to temporary files is gone when its trial is over.
//
// SIGINT and SIGTERM end the trials that run and are reported as Interrupted; they are blocked for the rest of the
// process while a Trials object lives, but where it says otherwise (SignalsAsBefore). The process must have no other
// threads.
#pragma once
#include <signal.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "minify/failure.h"

namespace kiln::minify {

class Interrupted : public std::exception {
 public:
  explicit Interrupted(int by) : signal(by) {}
  int signal;
  const char* what() const noexcept override { return "interrupted"; }
};

// What takes longer than its limit is a hang, if it had the processor for half of that time; without the processor (a
// deadlock, or a busy machine) it may take four times as long. Judging (compare, bisect) is Kiln's own work, no part of
// what is tried: too long for it is no hang, but an error with the code not_judged.
struct TrialLimits {
  double compile_seconds = 600, run_seconds = 60;  // of the stage compile; of load and of run
  double judge_seconds = 600;                      // of compare and of bisect
  int64_t memory_bytes = 0;                        // beyond what the child begins with; 0: no limit
};
inline constexpr const char* not_judged = "not judged";

struct TrialResult {
  Failure failure;
  std::map<std::string, double> seconds;  // by stage
};

class Trials {
 public:
  // What a child does: gives its failure, and calls `entering` when a stage begins; behind the stage's name and a tab
  // may stand how far it is, which begins no new one.
  using Task = std::function<Failure(const std::function<void(const std::string&)>& entering)>;

  explicit Trials(int jobs);
  ~Trials();
  Trials(const Trials&) = delete;
  Trials& operator=(const Trials&) = delete;

  TrialLimits limits;
  int jobs() const { return jobs_; }
  int started() const { return started_; }

  TrialResult run(const Task& task);
  // Runs tasks in order, several at a time, until one is accepted and no earlier one is still running; gives its
  // number. `make(i)` gives the task (called in this process, right before its child starts) or nothing to skip it;
  // `ended(i, result)` says whether it is accepted.
  std::optional<size_t> first_accepted(size_t count, const std::function<std::optional<Task>(size_t)>& make,
                                       const std::function<bool(size_t, const TrialResult&)>& ended);
  // Called while waiting, several times a second.
  std::function<void()> idle;
  const std::string& how_far() const { return how_far_; }  // of the child that spoke of it last; empty: none did
  // For work in this process, while no trial runs: throws Interrupted when a signal has come.
  void look_for_signals();
  // While it lives signals do what they did before there were trials. Where nothing is known yet that would be lost.
  class SignalsAsBefore {
   public:
    explicit SignalsAsBefore(const Trials& trials);
    ~SignalsAsBefore();
    SignalsAsBefore(const SignalsAsBefore&) = delete;

   private:
    sigset_t blocked_{};
  };
  // Scratch space of all trials, removed in the end.
  const std::string& directory() const { return directory_.path(); }

 private:
  struct Child;
  Child start(size_t index, const Task& task);
  // Gives the result once the child has ended or was ended.
  std::optional<TrialResult> poll_child(Child& child, bool readable);
  TrialResult finish(Child& child, bool killed_for_time);
  void wait(std::vector<Child>& running);
  void abandon(std::vector<Child>& running);

  int jobs_;
  int started_ = 0;
  std::string how_far_;
  TemporaryDirectory directory_{"kiln-minify"};
  sigset_t previous_signals_{};
  int signal_descriptor_ = -1;
};

}  // namespace kiln::minify
