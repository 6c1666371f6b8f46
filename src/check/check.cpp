#include "check/check.h"

#include <poll.h>

#include <algorithm>
#include <chrono>

#include "check/case_worker.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

// The workers, and the cases that are left.
class Pool {
 public:
  Pool(const std::vector<std::string>& cases, const CheckOptions& options)
      : cases_(cases), options_(options), doubts_(cases.size()) {
    for (size_t i = cases.size(); i-- > 0;) left_.push_back(i);
  }

  ~Pool() {
    for (const auto& worker : workers_) worker->dismiss();  // all at once, before the first is waited for
    for (const auto& worker : resting_) worker->dismiss();
  }

  bool idle() const { return workers_.empty(); }

  void hand_out() {
    for (size_t i = workers_.size(); i-- > 0;) {
      if (workers_[i]->busy()) continue;
      if (!left_.empty()) {
        workers_[i]->take(next(left_));
        continue;
      }
      workers_[i]->dismiss();
      resting_.push_back(std::move(workers_[i]));
      workers_.erase(workers_.begin() + static_cast<ptrdiff_t>(i));
    }
    while (workers_.size() < static_cast<size_t>(options_.jobs) && !(left_.empty() && again_.empty())) {
      workers_.push_back(std::make_unique<CaseWorker>(cases_, options_));
      workers_.back()->take(next(again_.empty() ? left_ : again_));
    }
  }

  // Blocks until at least one thing happened; gives the ended cases.
  std::vector<std::pair<size_t, CaseResult>> wait() {
    std::vector<pollfd> descriptors;
    double least = options_.timeout_seconds;
    for (const auto& worker : workers_) {
      descriptors.push_back({worker->descriptor(), POLLIN, 0});
      least = std::min(least, worker->seconds_left());
    }
    poll(descriptors.data(), descriptors.size(), static_cast<int>(std::max(least, 0.0) * 1000) + 1);
    std::vector<std::pair<size_t, CaseResult>> ended;
    for (size_t i = workers_.size(); i-- > 0;) {
      CaseWorker& worker = *workers_[i];
      const size_t index = worker.index();
      std::optional<CaseResult> result;
      if (descriptors[i].revents != 0) result = worker.receive();
      const bool too_long = !result && worker.seconds_left() < 0;
      if (too_long) result = worker.time_out();
      if (!result) continue;
      const bool failed = result->status == CaseStatus::failed, first = worker.taken() == 1;
      if (failed && !first && !too_long) {
        // Is it the case, or what an earlier one has left behind? A process of its own says it.
        doubts_[index] =
            str("in a process that had run ", worker.taken() - 1, " cases before it failed: ", result->stage,
                result->stage.empty() ? "" : ": ", result->message);
        again_.push_back(index);
      } else {
        if (!failed && !doubts_[index].empty()) result->notes.push_back(doubts_[index]);
        ended.emplace_back(index, std::move(*result));
      }
      if (failed || worker.ended() || worker.taken() >= options_.cases_per_process)
        workers_.erase(workers_.begin() + static_cast<ptrdiff_t>(i));
    }
    return ended;
  }

 private:
  static size_t next(std::vector<size_t>& list) {
    const size_t index = list.back();
    list.pop_back();
    return index;
  }

  const std::vector<std::string>& cases_;
  const CheckOptions& options_;
  std::vector<std::string> doubts_;  // by case: how it failed beside others
  std::vector<size_t> left_;         // backwards
  std::vector<size_t> again_;        // in a new process
  std::vector<std::unique_ptr<CaseWorker>> workers_;
  std::vector<std::unique_ptr<CaseWorker>> resting_;  // there is nothing left for them
};

void check_apart(const std::vector<std::string>& cases, const CheckOptions& options,
                 const std::function<void(size_t, CaseResult)>& take) {
  Pool pool(cases, options);
  for (;;) {
    pool.hand_out();
    if (pool.idle()) return;
    for (auto& [index, result] : pool.wait()) take(index, std::move(result));
  }
}

}  // namespace

CheckSummary check_cases(const std::vector<std::string>& cases, const CheckOptions& options) {
  KILN_CHECK(options.run_case && options.cases_per_process > 0,
             "check_cases needs a case runner and at least one case a process");
  const auto begin = Clock::now();
  CheckSummary summary;
  summary.cases.resize(cases.size());
  int done = 0;
  const auto take = [&](size_t index, CaseResult result) {
    (result.status == CaseStatus::passed   ? summary.passed
     : result.status == CaseStatus::failed ? summary.failed
                                           : summary.skipped)++;
    summary.rescued += result.rescued;
    if (options.progress) options.progress(result, ++done, static_cast<int>(cases.size()));
    summary.cases[index] = std::move(result);
  };
  if (options.jobs > 0)
    check_apart(cases, options, take);
  else
    for (size_t i = 0; i < cases.size(); ++i) take(i, options.run_case(cases[i]));
  summary.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return summary;
}

std::string summary_line(const CheckSummary& summary) {
  return str(summary.passed, " passed, ", summary.failed, " failed, ", summary.skipped, " skipped");
}

}  // namespace kiln
