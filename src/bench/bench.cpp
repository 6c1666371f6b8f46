#include "bench/bench.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <exception>
#include <random>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "bench/random_inputs.h"
#include "executable/package_executable.h"

namespace kiln {
namespace {

using BenchClock = std::chrono::steady_clock;

double seconds_between(BenchClock::time_point begin, BenchClock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// A line of /proc/self/status in bytes: "VmRSS:	   12345 kB"; 0: the system does not say.
uint64_t status_bytes(std::string_view key) {
  try {
    for (const std::string& line : split(read_file("/proc/self/status"), '\n'))
      if (starts_with(line, key)) return 1024 * std::strtoull(line.c_str() + key.size(), nullptr, 10);
  } catch (const std::exception&) {
    // No such file: nothing is known.
  }
  return 0;
}

struct MeasuredCall {
  double begin = 0, seconds = 0;  // begin: since all began
};

// The calls of one caller: all of them, and past `most_kept` a sample in which each has the same chance to be.
class CallLog {
 public:
  explicit CallLog(uint64_t seed) : engine_(seed) { kept_.reserve(4096); }
  void add(MeasuredCall call) {
    ++count_;
    sum_ += call.seconds;
    least_ = std::min(least_, call.seconds);
    most_ = std::max(most_, call.seconds);
    end_ = std::max(end_, call.begin + call.seconds);
    if (kept_.size() < most_kept) return kept_.push_back(call);
    const uint64_t place = std::uniform_int_distribution<uint64_t>(0, static_cast<uint64_t>(count_) - 1)(engine_);
    if (place < most_kept) kept_[place] = call;
  }
  const std::vector<MeasuredCall>& kept() const { return kept_; }
  int64_t count() const { return count_; }
  double sum() const { return sum_; }
  double least() const { return least_; }
  double most() const { return most_; }
  double end() const { return end_; }

 private:
  static constexpr size_t most_kept = 1'000'000;
  std::mt19937_64 engine_;
  std::vector<MeasuredCall> kept_;
  int64_t count_ = 0;
  double sum_ = 0, least_ = HUGE_VAL, most_ = 0, end_ = 0;
};

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Several callers at once: all warm up, wait for each other, and measure.
class Callers {
 public:
  Callers(PackageExecutable& package, const std::vector<Datum>& inputs, const BenchOptions& options)
      : package_(package), inputs_(inputs), options_(options), ready_(options.callers, Begin{this}) {
    for (int i = 0; i < options.callers; ++i) logs_.emplace_back(static_cast<uint64_t>(i));
    errors_.resize(static_cast<size_t>(options.callers));
  }

  void run() {
    std::vector<std::thread> threads;
    try {
      for (size_t i = 1; i < logs_.size(); ++i) threads.emplace_back([this, i] { guarded(i); });
    } catch (const std::system_error& error) {
      failed_ = true;
      errors_[0] = std::make_exception_ptr(Error(
          ErrorKind::user, "K0733", str("cannot start ", logs_.size(), " callers at once: ", error.code().message())));
      for (size_t i = threads.size() + 1; i < logs_.size(); ++i) ready_.arrive_and_drop();
    }
    if (!failed_)
      guarded(0);
    else
      ready_.arrive_and_drop();
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : errors_)
      if (error) std::rethrow_exception(error);
  }
  const std::vector<CallLog>& logs() const { return logs_; }
  bool restored_inputs() const { return restored_; }
  uint64_t resident() const { return resident_; }
  uint64_t peak() const { return peak_; }

 private:
  // All are warm: memory is what they need, and the log of the measurement is not in it yet.
  struct Begin {
    Callers* all;
    void operator()() const noexcept {
      if (all->options_.stage) all->options_.stage(all->what_is_measured());
      all->resident_ = status_bytes("VmRSS:");
      all->peak_ = status_bytes("VmHWM:");
      all->start_ = BenchClock::now();
    }
  };

  std::string what_is_measured() const {
    return options_.count ? str("measuring ", *options_.count, *options_.count == 1 ? " call" : " calls")
                          : str("measuring for ", options_.duration_seconds, " s");
  }

  void guarded(size_t i) {
    try {
      PackageCaller caller(package_, inputs_, options_.fresh_outputs);
      if (i == 0) restored_ = caller.writes_inputs();
      warm_up(caller);
      ready_.arrive_and_wait();
      measure(caller, logs_[i]);
    } catch (...) {
      // One that failed while warming up must not keep the others waiting, nor measuring.
      errors_[i] = std::current_exception();
      failed_ = true;
      ready_.arrive_and_drop();
    }
  }

  void warm_up(PackageCaller& caller) const {
    const auto begin = BenchClock::now();
    do {
      caller.restore_inputs();
      caller.call();
    } while (seconds_between(begin, BenchClock::now()) < options_.warmup_seconds && !failed_);
  }

  void measure(PackageCaller& caller, CallLog& log) {
    const bool restore = caller.writes_inputs();
    while (!failed_) {
      if (options_.count && taken_.fetch_add(1) >= *options_.count) return;
      if (restore) caller.restore_inputs();
      const auto begin = BenchClock::now();
      caller.call();
      const auto end = BenchClock::now();
      log.add({seconds_between(start_, begin), seconds_between(begin, end)});
      if (!options_.count && seconds_between(start_, end) >= options_.duration_seconds) return;
    }
  }

  PackageExecutable& package_;
  const std::vector<Datum>& inputs_;
  const BenchOptions& options_;
  std::barrier<Begin> ready_;
  BenchClock::time_point start_{};
  std::atomic<int64_t> taken_ = 0;
  std::atomic<bool> failed_ = false;
  bool restored_ = false;
  uint64_t resident_ = 0, peak_ = 0;
  std::vector<CallLog> logs_;
  std::vector<std::exception_ptr> errors_;
};

void summarise(const std::vector<CallLog>& logs, BenchResult& result) {
  constexpr size_t parts = 10;
  double sum = 0;
  result.least = HUGE_VAL;
  for (const CallLog& log : logs) {
    result.calls += log.count();
    sum += log.sum();
    result.wall = std::max(result.wall, log.end());
    result.least = std::min(result.least, log.least());
    result.most = std::max(result.most, log.most());
  }
  result.mean = sum / static_cast<double>(std::max<int64_t>(1, result.calls));
  std::vector<std::vector<double>> by_part(parts);
  for (const CallLog& log : logs)
    for (const MeasuredCall& call : log.kept()) {
      result.latencies.push_back(call.seconds);
      const double part = result.wall > 0 ? call.begin / result.wall * static_cast<double>(parts) : 0;
      by_part[std::min(parts - 1, static_cast<size_t>(part))].push_back(call.seconds);
    }
  std::sort(result.latencies.begin(), result.latencies.end());
  for (const std::vector<double>& part : by_part)
    if (!part.empty()) result.part_medians.push_back(median_of(part));
}

}  // namespace

double BenchResult::percentile(double share) const {
  if (latencies.empty()) return 0;
  const double rank = std::ceil(share * static_cast<double>(latencies.size()) - 1e-9);
  const size_t place = rank < 1 ? 0 : static_cast<size_t>(rank) - 1;
  return latencies[std::min(place, latencies.size() - 1)];
}

BenchResult bench(const std::string& path, const std::vector<Datum>& inputs, const BenchOptions& options) {
  const format::Plan plan = package_plan(path);
  BenchResult result;
  result.package = path, result.model = plan.model_name, result.build_id = plan.build_id;
  result.sizes = symbol_values(plan, inputs);
  result.callers = options.callers, result.fresh_outputs = options.fresh_outputs;
  PackageOptions load;
  load.settings = options.settings;
  load.custom_op_libs = options.custom_op_libs;
  load.weights = options.weights;
  load.fault = options.fault;
  load.device_index = options.device_index;
  if (options.stage) options.stage("loading");
  result.resident_before = status_bytes("VmRSS:");
  const auto begin = BenchClock::now();
  PackageExecutable package(path, load);
  const auto loaded = BenchClock::now();
  result.load = seconds_between(begin, loaded);
  result.target = package.target(), result.threads = package.threads();
  {
    PackageCaller first(package, inputs);
    const auto called = BenchClock::now();
    first.call();
    result.first_call = seconds_between(called, BenchClock::now());
  }
  if (options.stage) options.stage(str("warming up for ", options.warmup_seconds, " s"));
  Callers callers(package, inputs, options);
  callers.run();
  result.resident_after = callers.resident();
  result.resident_peak = callers.peak();
  result.restored_inputs = callers.restored_inputs();
  summarise(callers.logs(), result);
  return result;
}

}  // namespace kiln
