// kiln_random_programs --count N [--first I] --seed S --jobs J [--together T] [--cache DIR] [--save DIR] [--only I]
//                      [--strided P]
// kiln_random_programs --replay DIR [--jobs J]
//
// Draws N random programs (half of them with symbolic sizes), runs each through the reference in f32 and fp64, the
// scheduled loops and compiled code, and says where they disagree. Failures are shrunk and, with --save, written as
// text; --replay runs such texts again. P percent of the inputs (50) come strided, offset or expanded instead of as
// exported. Exit 0 only if nothing failed.
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "../campaign/arguments.h"
#include "../campaign/dice.h"
#include "base/file.h"
#include "base/text.h"
#include "batch.h"
#include "shrink.h"

namespace kiln::random_programs {
namespace {

using campaign::Dice;

struct Options {
  campaign::Piece piece;
  size_t together = 50, shrink = 12, strided = 50;
};

Options parse(int argc, char** argv) {
  campaign::Arguments arguments(
      argc, argv,
      "usage: kiln_random_programs [--count N] [--first I] [--seed S] [--jobs J] [--together T] [--cache DIR]\n"
      "                            [--save DIR] [--only I] [--shrink N] [--strided PERCENT] [--replay DIR]\n");
  Options out;
  out.piece.jobs = 2;
  out.piece.read(arguments);
  arguments.number("--together", out.together, 1);
  arguments.number("--shrink", out.shrink);
  arguments.number("--strided", out.strided);
  arguments.no_others();
  return out;
}

// Each program must use the next few operators of a shuffled list, so that all come up equally often.
class Source {
 public:
  Source(uint64_t seed, size_t strided)
      : seed_(seed),
        strided_(static_cast<double>(strided) / 100),
        operators_(drawable_operators()),
        order_(operators_) {
    Dice(seed).shuffle(order_);
  }
  RandomProgram operator()(size_t index) const {
    DrawOptions options;
    options.seed = seed_ * 1000003 + index;
    options.strided = strided_;
    // Two programs with the same operators, one of them with symbols: what cannot be done with symbols comes up anyway.
    options.symbolic = index % 2 == 1;
    constexpr size_t each = 3;
    size_t round = index / 2 * each;
    for (size_t k = 0; k < each; ++k) options.required.push_back(order_[(round + k) % order_.size()]);
    Dice dice(options.seed);
    dice.shuffle(options.required);
    options.more = static_cast<int>(dice.below(5));
    return draw_program(operators_, options);
  }
  const std::vector<const OpRecord*>& operators() const { return operators_; }

 private:
  uint64_t seed_;
  double strided_;
  std::vector<const OpRecord*> operators_, order_;
};

struct Summary {
  size_t outcomes[4] = {0, 0, 0, 0}, symbolic = 0, nodes = 0, total = 0;
  std::map<std::string, size_t> uses, refusals;
  std::vector<Report> failures;

  void add(const Report& report) {
    ++outcomes[static_cast<size_t>(report.outcome)];
    ++total;
    symbolic += report.symbolic;
    nodes += report.nodes;
    if (report.outcome != Outcome::refused)
      for (const std::string& name : report.operators) ++uses[name];
    if (report.outcome == Outcome::refused) ++refusals[report.message.substr(0, 160)];
    if (report.outcome == Outcome::failed) failures.push_back(report);
  }

  void print(const std::vector<const OpRecord*>& operators) const {
    std::vector<std::pair<size_t, std::string>> rarest;
    for (const OpRecord* record : operators) {
      auto found = uses.find(record->name());
      rarest.emplace_back(found == uses.end() ? 0 : found->second, record->name());
    }
    std::sort(rarest.begin(), rarest.end());
    std::printf("%zu programs, %zu with symbols, %zu nodes; %zu operators\n", total, symbolic, nodes, operators.size());
    if (!rarest.empty()) std::printf("rarest operators:");
    for (size_t i = 0; i < rarest.size() && i < 12; ++i)
      std::printf(" %s %zu%s", rarest[i].second.c_str(), rarest[i].first, i < 11 ? "," : "\n");
    size_t below = 0;
    for (const auto& [count, name] : rarest) below += count < 20;
    std::printf("operators drawn fewer than 20 times: %zu\n", below);
    for (const auto& [why, count] : refusals) std::printf("refused %zu times: %s\n", count, why.c_str());
    for (const Report& failure : failures)
      std::printf("FAIL program %zu%s: %s\n", failure.index, failure.symbolic ? " (symbols)" : "",
                  failure.message.c_str());
    std::printf("%zu good, %zu unstable, %zu refused, %zu failed\n", outcomes[0], outcomes[1], outcomes[2],
                outcomes[3]);
  }
};

// One candidate in a child of its own; the same failure has the same first word and, of errors, the same code.
std::string kind_of(const Report& report) {
  if (report.outcome != Outcome::failed) return {};
  std::string where = report.message.substr(0, report.message.find(':'));
  size_t code = report.message.find("error[");
  if (code != std::string::npos) return where + report.message.substr(code, 11);
  return where + (report.message.find("strides") != std::string::npos ? " strides" : "");
}

void shrink_and_save(const Report& failure, const RandomProgram& random, const std::string& directory) {
  std::string message = failure.message, wanted = kind_of(failure);
  RandomProgram smallest = shrink(random, [&](const RandomProgram& candidate) {
    Report seen;
    run_batches(
        {0}, [&](size_t) { return candidate.clone(); }, 1, 1, [&](const Report& r) { seen = r; });
    if (kind_of(seen) != wanted) return false;
    message = seen.message;
    return true;
  });
  std::string text = save_text(smallest, message);
  std::printf("---- program %zu, shrunk to %zu nodes\n%s", failure.index, smallest.program.graph.nodes.size(),
              text.c_str());
  if (!directory.empty()) {
    make_directories(directory);
    const Node& last = *smallest.program.graph.nodes.back();
    write_file_atomic(join_path(directory, str(op_short_name(last.target), "_", smallest.program.name, ".graph")),
                      text);
  }
}

int replay(const Options& options) {
  std::vector<std::string> files;
  std::vector<size_t> indices;
  for (const std::string& name : list_directory(options.piece.replay))
    if (extension(name) == ".graph") files.push_back(join_path(options.piece.replay, name));
  for (size_t i = 0; i < files.size(); ++i) indices.push_back(i);
  size_t failed = 0;
  run_batches(
      indices, [&](size_t i) { return load_text(read_file(files[i])); }, options.together, options.piece.jobs,
      [&](const Report& report) {
        if (report.outcome == Outcome::good || report.outcome == Outcome::unstable) return;
        ++failed;
        std::printf("FAIL %s: %s\n", file_name(files[report.index]).c_str(), report.message.c_str());
      });
  std::printf("%zu replayed, %zu failed\n", files.size(), failed);
  return failed == 0 ? 0 : 1;
}

int run(const Options& options) {
  if (!options.piece.replay.empty()) return replay(options);
  Source source(options.piece.seed, options.strided);
  const std::vector<size_t> indices = options.piece.indices();
  Summary summary;
  run_batches(indices, source, options.together, options.piece.jobs, [&](const Report& report) {
    summary.add(report);
    if (report.outcome == Outcome::failed)
      std::fprintf(stderr, "FAIL program %zu: %s\n", report.index, report.message.c_str());
    if (summary.total % 500 == 0)
      std::fprintf(stderr, "%zu of %zu, %zu failed\n", summary.total, indices.size(), summary.failures.size());
  });
  std::set<std::string> shown;
  size_t count = 0;
  for (const Report& failure : summary.failures)
    if (count < options.shrink && shown.insert(failure.message.substr(0, 60)).second) {
      ++count;
      shrink_and_save(failure, source(failure.index), options.piece.save);
    }
  summary.print(source.operators());
  return summary.failures.empty() ? 0 : 1;
}

}  // namespace
}  // namespace kiln::random_programs

int main(int argc, char** argv) {
  try {
    const kiln::random_programs::Options options = kiln::random_programs::parse(argc, argv);
    const kiln::campaign::KernelCache cache(options.piece.cache);
    return kiln::random_programs::run(options);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
