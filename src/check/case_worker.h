// A process that takes cases one after another: what takes long to make, a GPU's context above all, is made once for
// many. A crash, a hang or exhausted memory ends the worker, and fails the one case that it was at.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/leftovers.h"
#include "check/check.h"

namespace kiln {

class CaseWorker {
 public:
  // Starts a process; it waits for cases. `cases` and `options` are those of its parent at this moment.
  CaseWorker(const std::vector<std::string>& cases, const CheckOptions& options);
  ~CaseWorker();  // ends it, and what it has started
  CaseWorker(const CaseWorker&) = delete;
  CaseWorker& operator=(const CaseWorker&) = delete;

  void take(size_t index);
  void dismiss();  // an idle one ends; nobody waits for that yet
  bool busy() const { return index_.has_value(); }
  size_t index() const { return *index_; }  // of the case that it is at
  int taken() const { return taken_; }      // cases, the present one among them
  bool ended() const { return ended_; }     // takes no more
  int descriptor() const { return results_; }
  double seconds_left() const;  // until the present case has run too long

  // Reads what has come. The present case's result, once it is there: the worker's, or why there is none.
  std::optional<CaseResult> receive();
  CaseResult time_out();

 private:
  using Clock = std::chrono::steady_clock;
  [[noreturn]] void serve(int orders, int results);
  void order(size_t index);
  CaseResult finish(CaseResult result);
  CaseResult died();
  void end();

  const std::vector<std::string>& cases_;
  const CheckOptions& options_;
  pid_t pid_ = -1;
  int orders_ = -1, results_ = -1, log_file_ = -1;
  std::unique_ptr<LeftoverProcess> left_;
  std::optional<size_t> index_;
  Clock::time_point started_;
  std::string received_;
  int taken_ = 0;
  int status_ = 0;  // of the process that has ended
  bool dismissed_ = false, ended_ = false;
};

}  // namespace kiln
