#include "debug/profile.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/json.h"
#include "debug/package_debug.h"
#include "debug/step_copy.h"
#include "debug/work_count.h"
#include "driver/executable_package.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string origin_of(const kiln_step& step) {
  for (size_t i = 0; i < step.origin_count; ++i)
    if (*step.origins[i].line) return step.origins[i].line;
  return step.origin_count > 0 ? step.origins[0].op : "";
}

class Profiler {
 public:
  explicit Profiler(PackageDebug* package) : package_(package) {}

  static kiln_hook_answer hook(void* user, kiln_hook_when when, const kiln_step* step) {
    auto* self = static_cast<Profiler*>(user);
    when == KILN_BEFORE_STEP ? self->before(*step) : self->after(*step);
    return KILN_HOOK_CONTINUE;
  }

  void start_run() {
    runs_.emplace_back();
    last_run_.clear();
    start_ = Clock::now();
  }

  std::vector<KernelProfile> kernels() const {
    std::vector<KernelProfile> out;
    for (const std::string& name : order_) {
      KernelProfile kernel = facts_.at(name);
      std::vector<double> seconds;
      for (const auto& run : runs_) {
        const auto found = run.find(name);
        if (found != run.end()) seconds.push_back(found->second);
      }
      kernel.seconds = median(seconds);
      out.push_back(kernel);
    }
    return out;
  }
  const std::vector<TraceEvent>& last_run() const { return last_run_; }

 private:
  void before(const kiln_step& step) {
    (void)step;
    begin_ = Clock::now();
  }

  void after(const kiln_step& step) {
    const double seconds = since(begin_);
    runs_.back()[step.name] += seconds;
    TraceEvent event;
    event.name = step.name, event.seconds = seconds, event.iteration = step.iteration;
    event.begin = std::chrono::duration<double>(begin_ - start_).count();
    if (runs_.size() == 1) count(step);
    event.origin = facts_[step.name].origin;
    last_run_.push_back(std::move(event));
  }

  // Facts are the same in every run: counted in the first.
  void count(const kiln_step& step) {
    auto [found, fresh] = facts_.try_emplace(step.name);
    KernelProfile& facts = found->second;
    if (fresh) {
      order_.push_back(step.name);
      facts.name = step.name, facts.origin = origin_of(step);
      const loops::Kernel* kernel = package_ ? package_->steps().kernel(step.name) : nullptr;
      facts.flops = kernel ? 0 : -1;
    }
    ++facts.calls;
    if (facts.flops < 0) {
      for (size_t i = 0; i < step.arg_count; ++i)
        facts.bytes += static_cast<double>(bytes_of(step.args[i].tensor)) * (step.args[i].access == 3 ? 2 : 1);
      return;
    }
    SymbolValues symbols;
    for (size_t i = 0; i < step.symbol_count; ++i) symbols[step.symbol_names[i]] = step.symbol_values[i];
    const StepInterpreter& steps = package_->steps();
    const Work work = count_work(*steps.kernel(step.name), steps.program().buffers, symbols);
    facts.flops += work.flops;
    facts.bytes += work.bytes;
  }

  PackageDebug* package_;
  Clock::time_point begin_, start_;
  std::vector<std::map<std::string, double>> runs_;
  std::map<std::string, KernelProfile> facts_;
  std::vector<std::string> order_;
  std::vector<TraceEvent> last_run_;
};

double gflops(const KernelProfile& k) { return k.flops > 0 && k.seconds > 0 ? k.flops / k.seconds * 1e-9 : 0; }
double gbs(const KernelProfile& k) { return k.seconds > 0 ? k.bytes / k.seconds * 1e-9 : 0; }
// The nearer of the two limits is the one that counts.
double limit_share(const KernelProfile& k, const MachineLimits& machine) {
  return std::max(machine.gflops > 0 ? gflops(k) / machine.gflops : 0, machine.gbs > 0 ? gbs(k) / machine.gbs : 0);
}

void sort_kernels(std::vector<KernelProfile>& kernels, const std::string& by, const MachineLimits& machine) {
  const std::map<std::string, std::function<double(const KernelProfile&)>> columns = {
      {"calls", [](const KernelProfile& k) { return static_cast<double>(k.calls); }},
      {"time", [](const KernelProfile& k) { return k.seconds; }},
      {"share", [](const KernelProfile& k) { return k.seconds; }},
      {"bytes", [](const KernelProfile& k) { return k.bytes; }},
      {"flops", [](const KernelProfile& k) { return k.flops; }},
      {"gflops", gflops},
      {"gbs", gbs},
      {"limit", [&](const KernelProfile& k) { return limit_share(k, machine); }},
  };
  if (by == "name")
    return std::stable_sort(kernels.begin(), kernels.end(),
                            [](const auto& a, const auto& b) { return a.name < b.name; });
  if (by == "order") return;
  const auto found = columns.find(lower_case(by));
  if (found == columns.end()) {
    std::vector<std::string> names{"name", "order"};
    for (const auto& column : columns) names.push_back(column.first);
    fail_user("K0679", str("there is no column ", quote(by), " to sort by; there are ", join(names, ", ")));
  }
  std::stable_sort(kernels.begin(), kernels.end(),
                   [&](const auto& a, const auto& b) { return found->second(a) > found->second(b); });
}

std::string fixed_text(double value, int digits) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

}  // namespace

Profile profile(const std::string& path, const std::vector<Datum>& inputs, const ProfileOptions& options) {
  Profile result;
  std::vector<KernelProfile> none;
  sort_kernels(none, options.sort_by, {});  // a wrong column is said before anything runs
  std::unique_ptr<PackageDebug> package;
  try {
    package = std::make_unique<PackageDebug>(path);
  } catch (const Error& error) {
    if (error.code() != "K0540") throw;  // stripped: everything but the operations can be told
  }
  result.counted_flops = package != nullptr;
  PackageOptions load;
  load.settings = options.settings;
  load.custom_op_libs = options.custom_op_libs;
  PackageExecutable executable(path, load);
  executable.time_calls(inputs, std::max(1, options.warmup));
  result.run_seconds = median(executable.time_calls(inputs, options.runs));
  Profiler profiler(package.get());
  executable.set_hook(&Profiler::hook, &profiler);
  std::vector<double> seconds;
  // One call at a time: time_calls makes a first call of its own, which is not counted.
  for (int i = 0; i < options.runs; ++i) {
    profiler.start_run();
    const auto begin = Clock::now();
    executable.call(inputs);
    seconds.push_back(since(begin));
  }
  result.profiled_seconds = median(seconds);
  result.runs = options.runs;
  result.machine = measure_machine();
  result.kernels = profiler.kernels();
  result.last_run = profiler.last_run();
  sort_kernels(result.kernels, options.sort_by, result.machine);
  return result;
}

std::string profile_table(const Profile& profile) {
  double total = 0;
  for (const KernelProfile& k : profile.kernels) total += k.seconds;
  std::vector<std::vector<std::string>> rows = {
      {"kernel", "calls", "time us", "share", "bytes", "FLOPs", "GFLOP/s", "GB/s", "of limit", "origin"}};
  for (const KernelProfile& k : profile.kernels) {
    const bool known = k.flops >= 0;
    rows.push_back({k.name, std::to_string(k.calls), fixed_text(k.seconds * 1e6, 2),
                    fixed_text(total > 0 ? 100 * k.seconds / total : 0, 1) + "%",
                    bytes_text(static_cast<uint64_t>(k.bytes)), known ? fixed_text(k.flops, 0) : "-",
                    known ? fixed_text(gflops(k), 2) : "-", fixed_text(gbs(k), 2),
                    fixed_text(100 * limit_share(k, profile.machine), 1) + "%", k.origin});
  }
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  for (const auto& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string pad(widths[c] - row[c].size(), ' ');
      const bool left = c == 0 || c + 1 == row.size();
      text += left ? str(row[c], c + 1 == row.size() ? "" : pad) : str(pad, row[c]);
      if (c + 1 < row.size()) text += "  ";
    }
    text += "\n";
  }
  const double overhead = profile.profiled_seconds - profile.run_seconds;
  text +=
      str("\n", profile.runs, " runs, median ", fixed_text(profile.run_seconds * 1e6, 2), " us without the profiler, ",
          fixed_text(profile.profiled_seconds * 1e6, 2), " us with it (its overhead: ", fixed_text(overhead * 1e6, 2),
          " us a run, copies of inputs and outputs included); steps together ", fixed_text(total * 1e6, 2),
          " us\nthis machine, measured: ", fixed_text(profile.machine.gflops, 1), " GFLOP/s (f32), ",
          fixed_text(profile.machine.gbs, 1), " GB/s (reading memory; what fits a cache can be faster)\n");
  if (!profile.counted_flops) text += "no debug section: operations are not counted\n";
  return text;
}

std::string chrome_trace(const Profile& profile) {
  Json events = Json::array();
  for (const TraceEvent& e : profile.last_run) {
    Json args = Json::object();
    args.set("origin", e.origin);
    args.set("iteration", e.iteration);
    for (const KernelProfile& k : profile.kernels)
      if (k.name == e.name) args.set("bytes", k.bytes / static_cast<double>(std::max<int64_t>(1, k.calls)));
    Json event = Json::object();
    event.set("name", e.name), event.set("cat", "kernel"), event.set("ph", "X");
    event.set("ts", e.begin * 1e6), event.set("dur", e.seconds * 1e6);
    event.set("pid", 1), event.set("tid", 1);
    event.set("args", std::move(args));
    events.push(std::move(event));
  }
  Json root = Json::object();
  root.set("traceEvents", std::move(events));
  root.set("displayTimeUnit", "ns");
  return json_text(root, JsonStyle::pretty) + "\n";
}

}  // namespace kiln
