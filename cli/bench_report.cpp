#include "bench_report.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "base/text_width.h"
#include "base/version.h"
#include "console.h"

namespace kiln::cli {
namespace {

constexpr const char* bench_kind = "kiln bench";
constexpr int bench_version = 1;

struct Figure {
  const char* name;
  double seconds;
};
std::vector<Figure> latency_figures(const BenchResult& r) {
  return {{"mean", r.mean},
          {"min", r.least},
          {"p50", r.percentile(0.5)},
          {"p90", r.percentile(0.9)},
          {"p95", r.percentile(0.95)},
          {"p99", r.percentile(0.99)},
          {"max", r.most}};
}

// 1234567 -> "1,234,567"
std::string grouped(int64_t count) {
  std::string digits = std::to_string(count);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

// Three digits and more: "0.213", "21.3", "213", "21,345".
std::string rate_of(double per_second) {
  if (per_second >= 100) return grouped(std::llround(per_second));
  char text[32];
  std::snprintf(text, sizeof text, per_second < 10 ? "%.3f" : "%.1f", per_second);
  return text;
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

std::string sizes_text(const SymbolValues& sizes) {
  return join_map(sizes, ", ", [](const auto& one) { return str(one.first, " = ", one.second); });
}

std::string threads_text(int threads) { return threads == 1 ? "1 thread" : str(threads, " threads"); }

std::string right(const std::string& text, size_t width) {
  return std::string(width - std::min(width, text_width(text)), ' ') + text;
}

Json sizes_json(const SymbolValues& sizes) {
  Json out = Json::object();
  for (const auto& [name, value] : sizes) out.set(name, value);
  return out;
}

std::string json_or(const Json& object, std::string_view key) {
  const Json* value = object.find_value(key);
  return !value ? "-" : value->is_string() ? value->as_string() : json_text(*value);
}

// Of ten parts of a run: the quickest and the slowest median.
struct Spread {
  double low = HUGE_VAL, high = 0;
  void add(double median) { low = std::min(low, median), high = std::max(high, median); }
  std::string text() const { return str(seconds_text(low), " to ", seconds_text(high)); }
};

}  // namespace

std::string bench_line(const BenchResult& r) {
  return str("p50 ", seconds_text(r.percentile(0.5)), ", p99 ", seconds_text(r.percentile(0.99)), ", ",
             rate_of(r.throughput()), " calls/s (", grouped(r.calls), r.calls == 1 ? " call)\n" : " calls)\n");
}

std::string bench_text(const BenchResult& r) {
  std::string text =
      str(r.package, ": ", r.model, " for ", r.target, r.sizes.empty() ? "" : str("; ", sizes_text(r.sizes)),
          "; inputs: ", r.inputs, "; ", r.callers == 1 ? "1 caller" : str(r.callers, " callers at once"), ", ",
          threads_text(r.threads), " a call", r.fresh_outputs ? "; outputs allocated by each call" : "", "\n");
  text += str("load        ", seconds_text(r.load), ", first call ", seconds_text(r.first_call), "\n");
  if (r.resident_after > 0) {
    const uint64_t grown = r.resident_after > r.resident_before ? r.resident_after - r.resident_before : 0;
    text += str("memory      ", bytes_text(r.resident_after), " resident, ", bytes_text(grown),
                " of it since before loading, ", bytes_text(r.resident_peak), " at most\n");
  }
  text += str("throughput  ", rate_of(r.throughput()), " calls/s: ", grouped(r.calls),
              r.calls == 1 ? " call" : " calls", " in ", seconds_text(r.wall),
              r.restored_inputs ? ", with putting back the inputs that calls write" : "", "\n");
  text += "latency     ";
  for (const Figure& figure : latency_figures(r))
    text += str(figure.name == std::string_view("mean") ? "" : "  ", figure.name, " ", seconds_text(figure.seconds));
  text += "\n";
  if (static_cast<int64_t>(r.latencies.size()) < r.calls)
    text += str("            percentiles are those of ", grouped(static_cast<int64_t>(r.latencies.size())),
                " of the calls, drawn at random\n");
  if (r.calls < 100) text += "            p99 of fewer than 100 calls is the slowest of them\n";
  return text + "\n" + latency_histogram(r);
}

std::string latency_histogram(const BenchResult& r) {
  constexpr size_t bins = 12;
  constexpr double bar_width = 40;
  if (r.latencies.empty()) return "";
  const double low = r.latencies.front(), high = r.percentile(0.99), step = (high - low) / bins;
  std::vector<int64_t> counts(bins + 1);
  for (const double seconds : r.latencies) {
    const size_t bin = seconds > high ? bins : step > 0 ? static_cast<size_t>((seconds - low) / step) : 0;
    ++counts[seconds > high ? bins : std::min(bin, bins - 1)];
  }
  const int64_t largest = *std::max_element(counts.begin(), counts.end());
  std::string text;
  for (size_t i = 0; i <= bins; ++i) {
    if (i < bins && i > 0 && step <= 0) continue;  // all calls took the same
    if (i == bins && counts[i] == 0) continue;
    const std::string label =
        i == bins ? str("above ", seconds_text(high)) : str("from ", seconds_text(low + step * static_cast<double>(i)));
    const double share = static_cast<double>(counts[i]) / static_cast<double>(largest);
    std::string bar;
    for (int cell = 0; cell < static_cast<int>(std::ceil(share * bar_width)); ++cell) bar += "█";
    text += str(right(label, 18), "  ", bar, bar.empty() ? "" : " ", grouped(counts[i]), "\n");
  }
  return text;
}

Json bench_json(const BenchResult& r) {
  Json root = Json::object(), latency = Json::object(), memory = Json::object(), parts = Json::array();
  root.set("kind", bench_kind), root.set("version", bench_version), root.set("kiln", kiln::version_text);
  root.set("package", r.package), root.set("model", r.model), root.set("build_id", r.build_id);
  root.set("target", r.target), root.set("inputs", r.inputs), root.set("sizes", sizes_json(r.sizes));
  root.set("threads", r.threads), root.set("callers", r.callers);
  root.set("load_seconds", r.load), root.set("first_call_seconds", r.first_call);
  root.set("calls", r.calls), root.set("wall_seconds", r.wall), root.set("calls_per_second", r.throughput());
  for (const Figure& figure : latency_figures(r)) latency.set(figure.name, figure.seconds);
  root.set("latency_seconds", std::move(latency));
  root.set("latencies_kept", static_cast<int64_t>(r.latencies.size()));
  for (const double median : r.part_medians) parts.push(median);
  root.set("p50_seconds_of_tenths", std::move(parts));
  memory.set("before_loading", static_cast<int64_t>(r.resident_before));
  memory.set("warm", static_cast<int64_t>(r.resident_after));
  memory.set("peak", static_cast<int64_t>(r.resident_peak));
  root.set("resident_bytes", std::move(memory));
  root.set("inputs_put_back", r.restored_inputs);
  if (r.fresh_outputs) root.set("fresh_outputs", true);  // files of earlier versions, which had none, compare as equal
  return root;
}

void require_bench_json(const Json& base, const std::string& name) {
  if (!base.is_object() || json_or(base, "kind") != bench_kind)
    fail_user("K0734", str(name, " is not what 'kiln bench --json' writes"));
  if (json_or(base, "version") != str(bench_version))
    fail_user("K0734",
              str(name, " is of version ", json_or(base, "version"),
                  " of what 'kiln bench --json' writes; this Kiln reads version ", bench_version, ": measure again"));
  std::vector<double> figures{base.at("calls_per_second").as_double()};
  for (const Figure& figure : latency_figures({}))
    figures.push_back(base.at("latency_seconds").at(figure.name).as_double());
  for (const Json& median : base.at("p50_seconds_of_tenths").items()) figures.push_back(median.as_double());
  for (const double figure : figures)
    if (!(figure > 0) || !std::isfinite(figure))
      fail_user("K0734", str(name, " has a time or rate of ", figure, ", which nobody measured"));
}

BenchComparison compare_bench(const Json& base, const std::string& name, const BenchResult& result, double tolerance) {
  const Json here = bench_json(result);
  BenchComparison out;
  for (const char* key :
       {"model", "target", "sizes", "inputs", "threads", "callers", "inputs_put_back", "fresh_outputs"})
    if (json_or(base, key) != json_or(here, key))
      out.notes.push_back(str("not the same in both: ", key, ": ", json_or(base, key), " in ", name, ", ",
                              json_or(here, key), " here"));

  Json figures = Json::object();
  out.text = str("\nagainst ", name, "\n");
  const auto row = [&](const std::string& label, double there, double now, const std::string& there_text,
                       const std::string& now_text) {
    char change[32];
    std::snprintf(change, sizeof change, "%+.1f %%", 100 * (now / there - 1));
    out.text += str(right(label, 12), right(there_text, 14), right(now_text, 14), right(change, 11), "\n");
    Json one = Json::object();
    one.set("base", there), one.set("here", now), one.set("ratio", now / there);
    figures.set(label, std::move(one));
  };
  for (const Figure& figure : latency_figures(result)) {
    const double there = base.at("latency_seconds").at(figure.name).as_double();
    row(figure.name, there, figure.seconds, seconds_text(there), seconds_text(figure.seconds));
    if (figure.name == std::string_view("p50")) out.ratio = figure.seconds / there;
  }
  const double rate = base.at("calls_per_second").as_double();
  row("calls/s", rate, result.throughput(), rate_of(rate), rate_of(result.throughput()));

  Spread before, now;
  for (const Json& median : base.at("p50_seconds_of_tenths").items()) before.add(median.as_double());
  for (const double median : result.part_medians) now.add(median);
  const double allowed = 1 + tolerance / 100;
  out.slower = out.ratio > allowed;
  // Some tenth of this run was no slower than some tenth of the other, or the reverse: the figures are within noise.
  out.uncertain = out.slower ? now.low <= before.high * allowed : now.high > before.low * allowed;
  const std::string change = str(percent(std::abs(out.ratio - 1)), out.ratio > 1 ? " slower" : " quicker");
  out.verdict = str(out.slower ? "slower: " : "not slower: ", "the median call is ", change, ", tolerance ",
                    percent(tolerance / 100), "\n");
  if (out.uncertain)
    out.verdict += str("not certain: the medians of tenths of the runs go from ", before.text(), " there and from ",
                       now.text(), " here\n");
  out.text += out.verdict;
  out.json = Json::object();
  out.json.set("base", name), out.json.set("tolerance_percent", tolerance), out.json.set("slower", out.slower);
  out.json.set("uncertain", out.uncertain), out.json.set("p50_ratio", out.ratio),
      out.json.set("figures", std::move(figures));
  Json notes = Json::array();
  for (const std::string& note : out.notes) notes.push(note);
  out.json.set("notes", std::move(notes));
  return out;
}

}  // namespace kiln::cli
