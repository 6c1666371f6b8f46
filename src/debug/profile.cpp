#include "debug/profile.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "debug/package_debug.h"
#include "debug/step_copy.h"
#include "executable/package_executable.h"
#include "loops/work_count.h"
#include "trace/plan_text.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// "q, k, v" where one step computes the same operator for several modules: the time is that of all of them.
constexpr size_t most_modules = 4;
std::string module_of(const kiln_step& step) {
  std::vector<std::string> out;
  std::string_view op;
  for (size_t i = 0; i < step.origin_count; ++i) {
    const kiln_origin& origin = step.origins[i];
    if (!*origin.module || (!out.empty() && op != origin.op)) continue;
    op = origin.op;
    if (std::find(out.begin(), out.end(), origin.module) == out.end()) out.push_back(origin.module);
  }
  if (out.size() > most_modules) {
    const size_t more = out.size() - most_modules;
    out.resize(most_modules);
    out.back() += str(" and ", more, " more");
  }
  return join(out, ", ");
}

// The function that each kernel of the plan calls.
std::map<std::string, std::string> functions_of(const format::Plan& plan) {
  std::map<std::string, std::string> out;
  for_each_step(plan.steps, [&](const format::Step& step, int) {
    if (step.kind == format::StepKind::kernel && step.kernel >= 0)
      out[step.name] = plan.kernels.at(static_cast<size_t>(step.kernel)).symbol;
  });
  return out;
}

std::string origin_of(const kiln_step& step) {
  for (size_t i = 0; i < step.origin_count; ++i)
    if (*step.origins[i].line) return step.origins[i].line;
  return step.origin_count > 0 ? step.origins[0].op : "";
}

class Profiler {
 public:
  Profiler(PackageDebug* package, std::map<std::string, std::string> functions)
      : package_(package), functions_(std::move(functions)) {}

  static kiln_hook_answer hook(void* user, kiln_hook_when when, const kiln_step* step) {
    auto* self = static_cast<Profiler*>(user);
    when == KILN_BEFORE_STEP ? self->before(*step) : self->after(*step);
    return KILN_HOOK_CONTINUE;
  }

  void start_run() {
    runs_.emplace_back();
    cpu_runs_.emplace_back();
    last_run_.clear();
    start_ = Clock::now();
  }

  std::vector<KernelProfile> kernels() const {
    std::vector<KernelProfile> out;
    for (const std::string& name : order_) {
      KernelProfile kernel = facts_.at(name);
      const auto of_runs = [&](const std::vector<std::map<std::string, double>>& runs) {
        std::vector<double> seconds;
        for (const auto& run : runs) {
          const auto found = run.find(name);
          if (found != run.end()) seconds.push_back(found->second);
        }
        return seconds;
      };
      const auto least = [](const std::vector<double>& list) {
        return list.empty() ? 0 : *std::min_element(list.begin(), list.end());
      };
      const std::vector<double> seconds = of_runs(runs_);
      kernel.seconds = median(seconds), kernel.least = least(seconds), kernel.least_cpu = least(of_runs(cpu_runs_));
      out.push_back(kernel);
    }
    return out;
  }
  // All steps of a run together: the median of the runs.
  double steps_seconds() const {
    std::vector<double> totals;
    for (const auto& run : runs_) {
      double total = 0;
      for (const auto& [name, seconds] : run) total += seconds;
      totals.push_back(total);
    }
    return median(totals);
  }
  const std::vector<TraceEvent>& last_run() const { return last_run_; }

 private:
  void before(const kiln_step& step) {
    (void)step;
    cpu_begin_ = processor_seconds();
    begin_ = Clock::now();
  }

  void after(const kiln_step& step) {
    const double seconds = step.seconds > 0 ? step.seconds : since(begin_);  // a GPU has a clock of its own
    runs_.back()[step.name] += seconds;
    cpu_runs_.back()[step.name] += processor_seconds() - cpu_begin_;
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
      facts.name = step.name, facts.origin = origin_of(step), facts.module = module_of(step);
      const auto function = functions_.find(step.name);
      facts.function = function == functions_.end() ? facts.name : function->second;
      const loops::Kernel* kernel = package_ ? package_->steps().kernel(step.name) : nullptr;
      facts.flops = kernel ? 0 : -1;
      if (kernel) facts.arithmetic = arithmetic_of(*kernel);
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
  std::map<std::string, std::string> functions_;
  Clock::time_point begin_, start_;
  double cpu_begin_ = 0;
  std::vector<std::map<std::string, double>> runs_, cpu_runs_;
  std::map<std::string, KernelProfile> facts_;
  std::vector<std::string> order_;
  std::vector<TraceEvent> last_run_;
};

MachineLimits gpu_limits(const PackageExecutable& package) {
  const kiln_profile_summary limits = package.limits();
  MachineLimits out;
  out.what = "this GPU, by its clocks", out.flops_of = "bf16 on tensor cores";
  out.gflops = limits.machine_gflops, out.gbs = limits.machine_gbs;
  out.clock = limits.clock;
  return out;
}

}  // namespace

Profile profile(const std::string& path, const std::vector<Datum>& inputs, const ProfileOptions& options) {
  Profile result;
  require_profile_column(options.sort_by);  // before anything runs
  std::unique_ptr<PackageDebug> package;
  try {
    package = std::make_unique<PackageDebug>(path);
  } catch (const Error& error) {
    // Stripped, or the sidecar is another's, which loading says: everything but the operations can be told.
    if (error.code() != "K0540" && error.code() != "K0541") throw;
  }
  result.counted_flops = package != nullptr;
  PackageOptions load;
  load.settings = options.settings;
  load.custom_op_libs = options.custom_op_libs;
  load.weights = options.weights;
  load.fault = options.fault;
  const auto stage = [&](const std::string& text) {
    if (options.stage) options.stage(text);
  };
  stage("loading");
  PackageExecutable executable(path, load);
  result.threads = executable.threads();
  stage("warming up");
  executable.time_calls(inputs, std::max(1, options.warmup));
  stage(str("running ", 2 * options.runs, " times"));
  Profiler profiler(package.get(), functions_of(package ? package->plan() : package_plan(path)));
  PackageCaller caller(executable, inputs);
  caller.call();  // allocates
  const auto timed_call = [&](Profiler* watching) {
    caller.restore_inputs();
    caller.set_hook(watching ? &Profiler::hook : nullptr, watching);
    if (watching) watching->start_run();
    const auto begin = Clock::now();
    caller.call();
    return since(begin);
  };
  // In turns, so that what else happens on the machine meets both alike.
  std::vector<double> plain, seconds, added;
  for (int i = 0; i < options.runs; ++i) {
    plain.push_back(timed_call(nullptr));
    seconds.push_back(timed_call(&profiler));
    added.push_back(seconds.back() - plain.back());
  }
  caller.set_hook(nullptr, nullptr);
  result.run_seconds = median(plain);
  result.steps_seconds = profiler.steps_seconds();
  result.profiled_seconds = median(seconds);
  std::sort(plain.begin(), plain.end());
  // What runs differ by anyway hides the rest.
  const double spread = plain[plain.size() * 3 / 4] - plain[plain.size() / 4];
  result.overhead = median(added) > spread ? median(added) : 0;
  result.runs = options.runs;
  stage("measuring this machine");
  result.machine = executable.on_gpu() ? gpu_limits(executable) : measure_machine(result.threads);
  result.kernels = profiler.kernels();
  result.last_run = profiler.last_run();
  sort_kernels(result.kernels, options.sort_by, result.machine);
  result.sorted_by = options.sort_by;
  return result;
}

}  // namespace kiln
