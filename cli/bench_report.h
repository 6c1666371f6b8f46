// What `kiln bench` found, as text with a histogram and as JSON, and beside an earlier one.
#pragma once
#include <string>

#include "base/json.h"
#include "bench/bench.h"

namespace kiln::cli {

std::string bench_text(const BenchResult& result);  // several lines
std::string bench_line(const BenchResult& result);  // the one that counts
// Latencies between the quickest and the 99th percentile in equal steps, the rest in one line.
std::string latency_histogram(const BenchResult& result);
Json bench_json(const BenchResult& result);

struct BenchComparison {
  bool slower = false;             // the median, by more than the tolerance
  bool uncertain = false;          // the two runs' own ups and downs are as large as what is judged
  double ratio = 1;                // of the medians: 1.2 is 20 % slower
  std::string verdict;             // a line, or two
  std::string text;                // each figure there and here, and the verdict last
  std::vector<std::string> notes;  // what is not the same in both: machine, sizes, threads
  Json json;
};

// Throws K0734, K0121 or K0122 for what bench_json did not give; `name` is the file it came from.
void require_bench_json(const Json& base, const std::string& name);
// `tolerance` is in percent.
BenchComparison compare_bench(const Json& base, const std::string& name, const BenchResult& result, double tolerance);

}  // namespace kiln::cli
