#include "debug/profile.h"

#include <time.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/inflate.h"
#include "base/json.h"
#include "base/text_width.h"
#include "base/zip.h"
#include "debug/package_debug.h"
#include "debug/step_copy.h"
#include "executable/package_executable.h"
#include "loops/work_count.h"
#include "package/plan_io.h"
#include "trace/plan_text.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Of this thread, without what others do on its processor.
double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

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
std::map<std::string, std::string> functions_of(const std::string& path) {
  const auto file = MappedFile::open(path);
  const ZipReader zip(file->bytes(), path, inflate_entry);
  std::map<std::string, std::string> out;
  for (const ZipEntry& entry : zip.entries()) {
    if (entry.name.find("data/kiln/") == std::string::npos || !ends_with(entry.name, "/plan")) continue;
    const format::Plan plan = format::read_plan(zip.read(entry).bytes);
    for_each_step(plan.steps, [&](const format::Step& step, int) {
      if (step.kind == format::StepKind::kernel && step.kernel >= 0)
        out[step.name] = plan.kernels.at(static_cast<size_t>(step.kernel)).symbol;
    });
  }
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
  const std::vector<TraceEvent>& last_run() const { return last_run_; }

 private:
  void before(const kiln_step& step) {
    (void)step;
    cpu_begin_ = cpu_seconds();
    begin_ = Clock::now();
  }

  void after(const kiln_step& step) {
    const double seconds = step.seconds > 0 ? step.seconds : since(begin_);  // a GPU has a clock of its own
    runs_.back()[step.name] += seconds;
    cpu_runs_.back()[step.name] += cpu_seconds() - cpu_begin_;
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

double gflops(const KernelProfile& k) { return k.flops > 0 && k.seconds > 0 ? k.flops / k.seconds * 1e-9 : 0; }
double gbs(const KernelProfile& k) { return k.seconds > 0 ? k.bytes / k.seconds * 1e-9 : 0; }
// The nearer of the two limits is the one that counts.
double limit_share(const KernelProfile& k, const MachineLimits& machine) {
  const double per_call = k.bytes / static_cast<double>(std::max<int64_t>(1, k.calls));
  const double reachable = machine.gbs_for(per_call);
  return std::max(machine.gflops > 0 ? gflops(k) / machine.gflops : 0, reachable > 0 ? gbs(k) / reachable : 0);
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

// Three digits or so with the unit that fits.
std::string scaled(double value, const std::vector<std::pair<double, const char*>>& units) {
  for (const auto& [size, name] : units)
    if (std::abs(value) >= size || size == units.back().first)
      return str(fixed_text(value / size, std::abs(value) / size < 10    ? 2
                                          : std::abs(value) / size < 100 ? 1
                                                                         : 0),
                 " ", name);
  return "";
}
std::string time_text(double seconds) { return scaled(seconds, {{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}}); }
std::string count_text(double count) {
  if (count < 1000) return fixed_text(count, 0);
  return scaled(count, {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}});
}
std::string rate_text(double per_second, const char* what) {
  return scaled(per_second, {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}}) + what;
}
std::string percent_text(double share) { return fixed_text(100 * share, 1) + "%"; }
// More than everything: the machine was measured while others used it, or has a faster cache.
std::string limit_text(double share) { return share > 1 ? ">=100%" : percent_text(share); }

// Kernels that call one function are one line of the table.
struct FunctionProfile {
  KernelProfile total;
  std::vector<const KernelProfile*> kernels;
};
std::vector<FunctionProfile> by_function(const std::vector<KernelProfile>& kernels) {
  std::vector<FunctionProfile> out;
  for (const KernelProfile& k : kernels) {
    auto found =
        std::find_if(out.begin(), out.end(), [&](const FunctionProfile& f) { return f.total.function == k.function; });
    if (found == out.end()) {
      out.push_back({k, {&k}});
      out.back().total.name = k.function;
      continue;
    }
    found->total.calls += k.calls, found->total.seconds += k.seconds, found->total.bytes += k.bytes;
    found->total.least += k.least, found->total.least_cpu += k.least_cpu;
    found->total.flops = k.flops < 0 || found->total.flops < 0 ? -1 : found->total.flops + k.flops;
    found->kernels.push_back(&k);
  }
  return out;
}

void sort_functions(std::vector<FunctionProfile>& functions, const std::string& by, const MachineLimits& machine) {
  std::vector<KernelProfile> totals;
  for (const FunctionProfile& f : functions) totals.push_back(f.total);
  sort_kernels(totals, by, machine);
  std::vector<FunctionProfile> sorted;
  for (const KernelProfile& total : totals)
    for (FunctionProfile& f : functions)
      if (f.total.function == total.function) sorted.push_back(std::move(f)), f.total.function.clear();
  functions = std::move(sorted);
}

// "layers.0.up": its calls and time, in the order of the run.
struct ModulePart {
  std::string module, origin;
  int64_t calls = 0;
  double seconds = 0;
};
std::vector<ModulePart> by_module(const FunctionProfile& function) {
  std::vector<ModulePart> out;
  for (const KernelProfile* k : function.kernels) {
    auto found = std::find_if(out.begin(), out.end(), [&](const ModulePart& part) { return part.module == k->module; });
    if (found == out.end()) found = out.insert(out.end(), ModulePart{k->module, k->origin, 0, 0});
    found->calls += k->calls, found->seconds += k->seconds;
  }
  return out;
}

}  // namespace

namespace {

MachineLimits gpu_limits(const PackageExecutable& package) {
  const kiln_profile_summary limits = package.limits();
  MachineLimits out;
  out.what = "this GPU, by its clocks", out.flops_of = "bf16 on tensor cores";
  out.gflops = limits.machine_gflops, out.gbs = limits.machine_gbs;
  out.clock = limits.clock;
  return out;
}

}  // namespace

void require_profile_column(const std::string& name) {
  std::vector<KernelProfile> none;
  sort_kernels(none, name, {});
}

Profile profile(const std::string& path, const std::vector<Datum>& inputs, const ProfileOptions& options) {
  Profile result;
  require_profile_column(options.sort_by);  // before anything runs
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
  load.fault = options.fault;
  PackageExecutable executable(path, load);
  executable.time_calls(inputs, std::max(1, options.warmup));
  result.run_seconds = median(executable.time_calls(inputs, options.runs));
  Profiler profiler(package.get(), functions_of(path));
  // In turns, so that what else happens on the machine meets both alike.
  const auto timed_call = [&] {
    const auto begin = Clock::now();
    executable.call(inputs);
    return since(begin);
  };
  std::vector<double> plain, seconds, added;
  for (int i = 0; i < options.runs; ++i) {
    executable.set_hook(nullptr, nullptr);
    plain.push_back(timed_call());
    executable.set_hook(&Profiler::hook, &profiler);
    profiler.start_run();
    seconds.push_back(timed_call());
    added.push_back(seconds.back() - plain.back());
  }
  result.profiled_seconds = median(seconds);
  std::sort(plain.begin(), plain.end());
  // What runs differ by anyway hides the rest.
  const double spread = plain[plain.size() * 3 / 4] - plain[plain.size() / 4];
  result.overhead = median(added) > spread ? median(added) : 0;
  result.runs = options.runs;
  result.machine = executable.on_gpu() ? gpu_limits(executable) : measure_machine();
  result.kernels = profiler.kernels();
  result.last_run = profiler.last_run();
  sort_kernels(result.kernels, options.sort_by, result.machine);
  result.sorted_by = options.sort_by;
  return result;
}

double MachineLimits::gbs_for(double bytes) const {
  for (const Level& level : caches)
    if (bytes <= level.bytes) return level.gbs;
  return gbs;
}

std::string profile_line(const Profile& profile) {
  double total = 0;
  for (const KernelProfile& k : profile.kernels) total += k.seconds;
  return str(profile.runs, " runs, median ", time_text(profile.run_seconds), " without the profiler; its overhead: ",
             profile.overhead > 0 ? str(time_text(profile.overhead), " a run")
                                  : std::string("less than runs differ by themselves"),
             "; steps together ", time_text(total), "\n");
}

std::string profile_table(const Profile& profile) {
  double total = 0;
  for (const KernelProfile& k : profile.kernels) total += k.seconds;
  std::vector<FunctionProfile> functions = by_function(profile.kernels);
  sort_functions(functions, profile.sorted_by, profile.machine);
  std::vector<std::vector<std::string>> rows = {
      {"kernel", "calls", "time", "share", "bytes", "FLOPs", "FLOP/s", "B/s", "of limit", "origin"}};
  bool beyond = false;
  for (const FunctionProfile& function : functions) {
    const KernelProfile& k = function.total;
    const bool known = k.flops >= 0;
    const double share = limit_share(k, profile.machine);
    beyond = beyond || share > 1;
    const std::vector<ModulePart> parts = by_module(function);
    rows.push_back(
        {k.name, std::to_string(k.calls), time_text(k.seconds), percent_text(total > 0 ? k.seconds / total : 0),
         bytes_text(static_cast<uint64_t>(k.bytes)), known ? count_text(k.flops) : "-",
         known ? rate_text(gflops(k) * 1e9, "") : "-", rate_text(gbs(k) * 1e9, "B/s"), limit_text(share),
         parts.size() == 1 ? str(k.module, k.module.empty() ? "" : "  ", k.origin) : str(parts.size(), " modules")});
    if (parts.size() == 1) continue;
    for (const ModulePart& part : parts)
      rows.push_back({str("  ", part.module.empty() ? "(no module)" : part.module), std::to_string(part.calls),
                      time_text(part.seconds), percent_text(total > 0 ? part.seconds / total : 0), "", "", "", "", "",
                      part.origin});
  }
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], text_width(row[c]));
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string pad(widths[c] - text_width(row[c]), ' ');
      const bool left = c == 0 || c + 1 == row.size();
      line += left ? str(row[c], c + 1 == row.size() ? "" : pad) : str(pad, row[c]);
      if (c + 1 < row.size()) line += "  ";
    }
    while (ends_with(line, " ")) line.pop_back();
    text += line + "\n";
  }
  text +=
      str("\n", profile_line(profile), profile.machine.what, ": ", rate_text(profile.machine.gflops * 1e9, "FLOP/s"),
          " (", profile.machine.flops_of, "), ", rate_text(profile.machine.gbs * 1e9, "B/s"), " from memory");
  for (const MachineLimits::Level& level : profile.machine.caches)
    text += str(", ", rate_text(level.gbs * 1e9, "B/s"), " up to ", bytes_text(static_cast<uint64_t>(level.bytes)));
  text += "\n";
  if (!profile.machine.clock.empty()) text += str("kernels timed by ", profile.machine.clock, "\n");
  if (beyond) text += ">=100%: faster than this machine was when it was measured; other programs use it too\n";
  if (!profile.counted_flops) text += "no debug section: operations are not counted\n";
  return text;
}

Json profile_json(const Profile& profile) {
  double total = 0;
  for (const KernelProfile& k : profile.kernels) total += k.seconds;
  const auto facts = [&](const KernelProfile& k) {
    Json one = Json::object();
    one.set("name", k.name), one.set("calls", k.calls), one.set("seconds", k.seconds);
    one.set("least_seconds", k.least), one.set("least_cpu_seconds", k.least_cpu);
    one.set("share", total > 0 ? k.seconds / total : 0), one.set("bytes", k.bytes);
    if (k.flops >= 0) one.set("flops", k.flops), one.set("flops_per_second", gflops(k) * 1e9);
    one.set("bytes_per_second", gbs(k) * 1e9), one.set("share_of_limit", limit_share(k, profile.machine));
    return one;
  };
  std::vector<FunctionProfile> functions = by_function(profile.kernels);
  sort_functions(functions, profile.sorted_by, profile.machine);
  Json list = Json::array();
  for (const FunctionProfile& function : functions) {
    Json one = facts(function.total), kernels = Json::array();
    for (const KernelProfile* k : function.kernels) {
      Json kernel = facts(*k);
      kernel.set("module", k->module), kernel.set("origin", k->origin);
      kernels.push(std::move(kernel));
    }
    one.set("kernels", std::move(kernels));
    list.push(std::move(one));
  }
  Json machine = Json::object(), caches = Json::array();
  for (const MachineLimits::Level& level : profile.machine.caches) {
    Json one = Json::object();
    one.set("bytes", level.bytes), one.set("bytes_per_second", level.gbs * 1e9);
    caches.push(std::move(one));
  }
  if (!profile.machine.clock.empty()) machine.set("clock", profile.machine.clock);
  machine.set("flops_per_second", profile.machine.gflops * 1e9);
  machine.set("bytes_per_second", profile.machine.gbs * 1e9), machine.set("caches", std::move(caches));
  Json root = Json::object();
  root.set("runs", profile.runs), root.set("run_seconds", profile.run_seconds);
  root.set("profiled_run_seconds", profile.profiled_seconds);
  root.set("overhead_seconds", profile.overhead);  // 0: less than runs differ by themselves
  root.set("steps_seconds", total), root.set("machine", std::move(machine)), root.set("functions", std::move(list));
  return root;
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
