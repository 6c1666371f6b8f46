#include "runtime/run_trace.h"

#include <chrono>
#include <map>
#include <thread>

#include "base/error.h"
#include "base/fork_mutex.h"
#include "base/trace_file.h"
#include "runtime/step_text.h"
#include "runtime/tensor_statistics.h"

namespace kiln::runtime {
namespace {

using Clock = std::chrono::steady_clock;

class RunTrace : public StepObserver {
 public:
  RunTrace(const std::string& directory, bool numerics, const Program& program)
      : file_(directory), numerics_(numerics), model_(program.plan.model_name), build_(program.plan.build_id) {}

  ~RunTrace() override {
    try {
      write();
    } catch (const Error&) {
      // The disk is full: the runs themselves were right.
    }
  }

  bool wants(const char*) const override { return true; }

  kiln_hook_answer observe(kiln_hook_when when, const kiln_step& step) override {
    const Clock::time_point now = Clock::now();
    const std::lock_guard lock(mutex_);
    Clock::time_point& start = started_[std::this_thread::get_id()];
    if (when == KILN_BEFORE_STEP) {
      start = Clock::now();  // after waiting for the lock
      return KILN_HOOK_CONTINUE;
    }
    if (step.run == 0) return KILN_HOOK_CONTINUE;  // weights are prepared: no run
    Time& time = times_[step.number];
    const double seconds = std::chrono::duration<double>(now - start).count();
    time.name = step.name;
    time.least = time.calls == 0 ? seconds : std::min(time.least, seconds);
    time.seconds += seconds;
    ++time.calls;
    runs_ = std::max(runs_, step.run);
    if (numerics_ && step.run == 1 && values_.items().size() < most_values) add_values(step);
    return KILN_HOOK_CONTINUE;
  }

 private:
  static constexpr size_t most_values = 20000;  // of a loop that runs for long
  struct Time {
    std::string name;
    int64_t calls = 0;
    double seconds = 0, least = 0;
  };

  void add_values(const kiln_step& step) {
    for (size_t i = 0; i < step.arg_count; ++i) {
      const kiln_step_arg& arg = step.args[i];
      if ((arg.access & 2) == 0) continue;
      const TensorStatistics s = tensor_statistics(host_tensor(step, arg), 0);
      Json one = Json::object();
      one.set("kernel", step.name);
      one.set("when", "after");
      one.set("buffer", arg.name);
      one.set("type", tensor_text(arg.tensor));
      one.set("min", number_json(s.minimum, s.exact_minimum));
      one.set("max", number_json(s.maximum, s.exact_maximum));
      one.set("mean", s.mean);
      one.set("std", s.deviation);
      one.set("nan", s.nan);
      one.set("inf", s.infinite);
      one.set("zero", s.zero);
      values_.push(std::move(one));
    }
  }

  void write() {
    if (times_.empty()) return;
    double total = 0;
    Json steps = Json::array();
    for (const auto& [number, time] : times_) {
      total += time.seconds;
      Json one = Json::object();
      one.set("step", number);
      one.set("name", time.name);
      one.set("calls", time.calls);
      one.set("seconds", time.seconds);
      one.set("least_seconds", time.least);
      steps.push(std::move(one));
    }
    Json record = Json::object();
    record.set("model", model_);
    record.set("build_id", build_);
    record.set("calls", static_cast<int64_t>(runs_));
    record.set("seconds", total);
    record.set("steps", std::move(steps));
    file_.write("run", record);
    if (values_.items().empty()) return;
    Json numerics = Json::object();
    numerics.set("model", model_);
    numerics.set("build_id", build_);
    numerics.set("values", std::move(values_));
    file_.write("numerics", numerics);
  }

  TraceFile file_;
  bool numerics_;
  std::string model_, build_;
  BriefMutex mutex_;
  std::map<std::thread::id, Clock::time_point> started_;
  std::map<int32_t, Time> times_;  // by the step's number
  uint64_t runs_ = 0;
  Json values_ = Json::array();
};

}  // namespace

std::unique_ptr<StepObserver> make_run_trace(const std::string& directory, bool numerics, const Program& program) {
  return std::make_unique<RunTrace>(directory, numerics, program);
}

}  // namespace kiln::runtime
