#include "bench_report.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/text.h"

namespace kiln::cli {
namespace {

// A run of 1000 calls that take between `low` and `high`, whose tenths have medians between the two.
BenchResult run_between(double low, double high) {
  BenchResult r;
  r.package = "p.pt2", r.model = "m", r.target = "t", r.inputs = "samples";
  r.sizes = {{"s0", 8}};
  r.calls = 1000, r.wall = 1, r.mean = (low + high) / 2, r.least = low, r.most = high;
  for (int i = 0; i < 1000; ++i) r.latencies.push_back(low + (high - low) * i / 999);
  for (int i = 0; i < 10; ++i) r.part_medians.push_back(low + (high - low) * i / 9);
  return r;
}

BenchComparison against(const BenchResult& base, const BenchResult& now, double tolerance) {
  const Json json = parse_json(json_text(bench_json(base)), "base");
  require_bench_json(json, "base.json");
  return compare_bench(json, "base.json", now, tolerance);
}

TEST(BenchReport, SlowerIsWhatLeavesTheTolerance) {
  const BenchResult base = run_between(1.00e-3, 1.01e-3);
  EXPECT_FALSE(against(base, base, 10).slower);
  EXPECT_FALSE(against(base, base, 10).uncertain);
  const BenchComparison slower = against(base, run_between(1.2e-3, 1.21e-3), 10);
  EXPECT_TRUE(slower.slower);
  EXPECT_FALSE(slower.uncertain);
  EXPECT_NEAR(slower.ratio, 1.2, 0.01);
  EXPECT_TRUE(starts_with(slower.verdict, "slower: the median call is 19.9 % slower, tolerance 10.0 %"));
  EXPECT_FALSE(against(base, run_between(1.2e-3, 1.21e-3), 25).slower);
  EXPECT_FALSE(against(base, run_between(0.5e-3, 0.51e-3), 0).slower);
}

TEST(BenchReport, NoisyRunsAreSaidToBeUncertain) {
  const BenchResult base = run_between(1.0e-3, 1.4e-3);
  const BenchComparison slower = against(base, run_between(1.2e-3, 1.8e-3), 10);
  EXPECT_TRUE(slower.slower);
  EXPECT_TRUE(slower.uncertain);
  EXPECT_NE(slower.verdict.find("not certain"), std::string::npos);
  EXPECT_TRUE(against(base, run_between(0.9e-3, 1.5e-3), 10).uncertain);
}

TEST(BenchReport, SaysWhatIsNotTheSame) {
  BenchResult now = run_between(1e-3, 1.01e-3);
  EXPECT_TRUE(against(now, now, 10).notes.empty());
  const BenchResult base = now;
  now.sizes = {{"s0", 16}}, now.callers = 2, now.threads = 2;
  EXPECT_EQ(against(base, now, 10).notes.size(), 3u);
  now = base, now.fresh_outputs = true;
  EXPECT_EQ(against(base, now, 10).notes.size(), 1u);
  EXPECT_TRUE(against(now, now, 10).notes.empty());
}

TEST(BenchReport, RefusesWhatIsNoBench) {
  const auto refused = [](const std::string& text) {
    try {
      require_bench_json(parse_json(text, "x.json"), "x.json");
    } catch (const Error& error) {
      return error.code();
    }
    return std::string();
  };
  EXPECT_EQ(refused("[]"), "K0734");
  EXPECT_EQ(refused("{}"), "K0734");
  EXPECT_EQ(refused(R"({"kind": "kiln bench", "version": 2})"), "K0734");
  EXPECT_EQ(refused(R"({"kind": "kiln bench", "version": 1})"), "K0122");
  const std::string whole = json_text(bench_json(run_between(1e-3, 1.1e-3)));
  EXPECT_EQ(refused(whole), "");
  EXPECT_EQ(refused(replace_all(whole, "\"calls_per_second\":1000.0", "\"calls_per_second\":0")), "K0734");
}

TEST(BenchReport, HistogramHasEveryCall) {
  const std::string text = latency_histogram(run_between(1e-3, 2e-3));
  int64_t calls = 0;
  for (const std::string& line : split(trim(text), '\n')) calls += std::stoll(split(line, ' ').back());
  EXPECT_EQ(calls, 1000);
  BenchResult same = run_between(1e-3, 1e-3);
  EXPECT_EQ(split(trim(latency_histogram(same)), '\n').size(), 1u);
}

}  // namespace
}  // namespace kiln::cli
