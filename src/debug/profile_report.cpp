#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text_width.h"
#include "debug/profile.h"

namespace kiln {
namespace {

double gflops(const KernelProfile& k) { return k.flops > 0 && k.seconds > 0 ? k.flops / k.seconds * 1e-9 : 0; }
double gbs(const KernelProfile& k) { return k.seconds > 0 ? k.bytes / k.seconds * 1e-9 : 0; }
// The nearer of the two limits is the one that counts.
double limit_share(const KernelProfile& k, const MachineLimits& machine) {
  const double per_call = k.bytes / static_cast<double>(std::max<int64_t>(1, k.calls));
  const double reachable = machine.gbs_for(per_call), computable = machine.gflops_for(k.arithmetic);
  return std::max(computable > 0 ? gflops(k) / computable : 0, reachable > 0 ? gbs(k) / reachable : 0);
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

// "312 GFLOP/s (bf16 pairs), "; nothing where there are none. That of bytes where a kernel multiplies them.
std::string other_arithmetic_text(const Profile& profile) {
  const MachineLimits& machine = profile.machine;
  const bool bytes = std::any_of(profile.kernels.begin(), profile.kernels.end(),
                                 [](const KernelProfile& k) { return k.arithmetic == Arithmetic::byte_quads; });
  std::string text;
  const auto add = [&](double rate, Arithmetic arithmetic) {
    if (rate > 0) text += str(rate_text(rate * 1e9, "FLOP/s"), " (", arithmetic_name(arithmetic), "), ");
  };
  add(machine.pair_gflops, Arithmetic::bf16_pairs);
  add(machine.tile_gflops, Arithmetic::bf16_tiles);
  if (bytes) add(machine.byte_gops, Arithmetic::byte_quads);
  return text;
}

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

void require_profile_column(const std::string& name) {
  std::vector<KernelProfile> none;
  sort_kernels(none, name, {});
}

std::string profile_line(const Profile& profile) {
  return str(profile.runs, profile.runs == 1 ? " run, median " : " runs, median ", time_text(profile.run_seconds),
             " without the profiler; in turns with it ", time_text(profile.profiled_seconds), ", of which all steps ",
             time_text(profile.steps_seconds), "; its overhead: ",
             profile.overhead > 0 ? str(time_text(profile.overhead), " a run")
                                  : std::string("less than runs differ by themselves"),
             "; ", profile.threads, profile.threads == 1 ? " thread\n" : " threads\n");
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
  text += str("\n", profile_line(profile), profile.machine.what, ": ",
              rate_text(profile.machine.gflops * 1e9, "FLOP/s"), " (", profile.machine.flops_of, "), ",
              other_arithmetic_text(profile), rate_text(profile.machine.gbs * 1e9, "B/s"), " from memory");
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
    if (k.flops >= 0) one.set("arithmetic", arithmetic_name(k.arithmetic));
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
  if (profile.machine.pair_gflops > 0) machine.set("bf16_pair_flops_per_second", profile.machine.pair_gflops * 1e9);
  if (profile.machine.tile_gflops > 0) machine.set("bf16_tile_flops_per_second", profile.machine.tile_gflops * 1e9);
  if (profile.machine.byte_gops > 0) machine.set("byte_operations_per_second", profile.machine.byte_gops * 1e9);
  machine.set("bytes_per_second", profile.machine.gbs * 1e9), machine.set("caches", std::move(caches));
  Json root = Json::object();
  root.set("runs", profile.runs), root.set("run_seconds", profile.run_seconds);
  root.set("profiled_run_seconds", profile.profiled_seconds);
  root.set("overhead_seconds", profile.overhead);  // 0: less than runs differ by themselves
  root.set("steps_seconds", profile.steps_seconds), root.set("threads", profile.threads),
      root.set("machine", std::move(machine)), root.set("functions", std::move(list));
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
