// kiln_mutants --models DIR [--packages] [--seed S] [--count N] [--first I] [--jobs J] [--seconds T] [--cache DIR]
//              [--save DIR] [--only I]
// kiln_mutants --models DIR --replay SAVED
//
// Mutates the .pt2 files below DIR (or, with --packages, the packages compiled from them), puts each mutant through
// reading, interpreting, compiling, loading and running, and says how it went (judge.h). The mutants follow from the
// seed: --first and --count run a piece of a campaign, --only one mutant. Failures are saved, and --replay runs what
// was saved again. Exit 0 only if nothing failed.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>

#include "../campaign/arguments.h"
#include "../campaign/dice.h"
#include "base/error.h"
#include "base/file.h"
#include "workers.h"

#if KILN_ADDRESS_SANITIZER
// A size that a file claims must be refused before memory is asked for; what is asked for all the same fails like in a
// process with little memory.
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1:max_allocation_size_mb=4096:detect_leaks=0:handle_abort=1";
}
extern "C" const char* __ubsan_default_options() { return "print_stacktrace=1"; }
#endif

namespace kiln::mutants {
namespace {

constexpr size_t largest_model = 32 << 10;

struct Options {
  std::vector<std::string> models;
  bool packages = false;
  campaign::Piece piece;
  WorkerOptions workers;
};

Options parse(int argc, char** argv) {
  campaign::Arguments arguments(
      argc, argv,
      "usage: kiln_mutants --models DIR [--models DIR ...] [--packages] [--seed S] [--count N] [--first I]\n"
      "                    [--jobs J] [--seconds T] [--cache DIR] [--save DIR] [--only I] [--replay SAVED]\n");
  Options out;
  out.piece.read(arguments);
  arguments.texts("--models", out.models);
  arguments.flag("--packages", out.packages);
  arguments.number("--seconds", out.workers.seconds, 1);
  arguments.no_others();
  if (out.models.empty()) arguments.fail("no models");
  out.workers.jobs = out.piece.jobs;
  return out;
}

// Case directories (with a model.pt2) below the directory, small ones only.
void find_bases(const std::string& directory, std::vector<Base>& out) {
  const std::string model = join_path(directory, "model.pt2"), inputs = join_path(directory, "inputs_0.pt");
  if (file_exists(model)) {
    std::string bytes = read_file(model);
    // A loop without end may be what a mutant says; custom operators are not at hand.
    const bool fits = bytes.size() <= largest_model && bytes.find("while_loop") == std::string::npos;
    if (fits) out.push_back({file_name(directory), std::move(bytes), file_exists(inputs) ? inputs : ""});
    return;
  }
  for (const std::string& name : list_directory(directory))
    if (is_directory(join_path(directory, name))) find_bases(join_path(directory, name), out);
}

uint64_t mutant_seed(uint64_t seed, size_t index) { return campaign::Dice(seed * 1000003 + index).next(); }

class Campaign {
 public:
  explicit Campaign(const Options& options) : options_(options) {
    for (const std::string& directory : options.models) find_bases(directory, bases_);
    drop_bases_that_fail();
    if (bases_.empty()) fail_user("K0170", "no model there is small enough and runs without custom operators");
    std::printf("%zu %s\n", bases_.size(), options.packages ? "packages" : "models");
  }

  int run() {
    if (!options_.piece.replay.empty()) return replay();
    auto judge = [this](size_t index, const std::string& directory) {
      return judge_one(mutant(index), base_of(index), directory);
    };
    run_workers(options_.piece.indices(), options_.workers, judge, [this](const Report& report) { add(report); });
    return summary();
  }

 private:
  const Base& base_of(size_t index) const { return bases_[index % bases_.size()]; }
  Mutant mutant(size_t index) const {
    const uint64_t seed = mutant_seed(options_.piece.seed, index);
    return options_.packages ? package_mutant(base_of(index), seed) : model_mutant(base_of(index), seed);
  }

  Verdict judge_one(const Mutant& mutant, const Base& base, const std::string& directory) const {
    if (!options_.packages) return judge_model(mutant, base, directory);
    return PackageJudge(base, directory).judge(mutant);
  }

  // Also fills the kernel cache, so that mutants with the same kernels cost no compiler.
  void drop_bases_that_fail() {
    std::vector<size_t> all(bases_.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = i;
    std::vector<bool> good(bases_.size(), false);
    auto judge = [this](size_t index, const std::string& directory) {
      const Verdict verdict = judge_model({bases_[index].bytes, "", true}, bases_[index], directory);
      if (verdict.outcome == Outcome::right && options_.packages)
        write_file_atomic(package_path(index), package_of(bases_[index], directory).bytes);
      return verdict;
    };
    run_workers(all, options_.workers, judge, [&](const Report& report) {
      good[report.index] = report.verdict.outcome == Outcome::right;
      if (!good[report.index])
        std::printf("left out: %s (%s: %s)\n", bases_[report.index].name.c_str(), outcome_name(report.verdict.outcome),
                    report.verdict.message.c_str());
    });
    std::vector<Base> kept;
    for (size_t i = 0; i < bases_.size(); ++i) {
      if (!good[i]) continue;
      if (options_.packages) bases_[i].bytes = read_file(package_path(i));
      kept.push_back(std::move(bases_[i]));
    }
    bases_ = std::move(kept);
  }
  std::string package_path(size_t index) const { return join_path(packages_.path(), str(index, ".kiln.pt2")); }

  void add(const Report& report) {
    ++counts_[static_cast<size_t>(report.verdict.outcome)];
    const size_t total = ++total_;
    if (report.verdict.outcome == Outcome::refused) {
      const size_t code = report.verdict.message.find("error[");
      ++codes_[code == std::string::npos ? "?" : report.verdict.message.substr(code + 6, 5)];
    }
    if (report.verdict.outcome == Outcome::failed) fail(report);
    if (total % 500 == 0) std::fprintf(stderr, "%zu judged, %zu failed\n", total, counts_[4]);
  }

  void fail(const Report& report) {
    const Mutant bad = mutant(report.index);
    const std::string text = str("seed ", options_.piece.seed, " index ", report.index, " of ",
                                 base_of(report.index).name, ": ", bad.what, "\n  ", report.verdict.message, "\n");
    std::printf("FAIL %s", text.c_str());
    std::fflush(stdout);
    if (options_.piece.save.empty()) return;
    make_directories(options_.piece.save);
    const std::string name = str(base_of(report.index).name, "_", options_.piece.seed, "_", report.index);
    write_file_atomic(join_path(options_.piece.save, name + (options_.packages ? ".kiln.pt2" : ".pt2")), bad.bytes);
    write_file_atomic(join_path(options_.piece.save, name + ".txt"), text);
  }

  // Files that were saved: <base>_<seed>_<index>.pt2 or .kiln.pt2.
  int replay() {
    std::vector<std::string> files;
    for (const std::string& name : list_directory(options_.piece.replay))
      if (ends_with(name, ".pt2") && ends_with(name, ".kiln.pt2") == options_.packages) files.push_back(name);
    std::vector<size_t> indices(files.size());
    for (size_t i = 0; i < files.size(); ++i) indices[i] = i;
    auto judge = [&](size_t index, const std::string& directory) {
      Mutant mutant{read_file(join_path(options_.piece.replay, files[index])), "", !options_.packages};
      const std::string name = files[index].substr(0, files[index].rfind('_', files[index].rfind('_') - 1));
      for (const Base& base : bases_)
        if (base.name == name) return judge_one(mutant, base, directory);
      return judge_one(mutant, bases_[0], directory);
    };
    size_t failed = 0;
    run_workers(indices, options_.workers, judge, [&](const Report& report) {
      failed += report.verdict.outcome == Outcome::failed;
      std::printf("%s %s: %s\n",
                  report.verdict.outcome == Outcome::failed ? "FAIL" : outcome_name(report.verdict.outcome),
                  files[report.index].c_str(), report.verdict.message.c_str());
    });
    std::printf("%zu replayed, %zu failed\n", files.size(), failed);
    return failed == 0 ? 0 : 1;
  }

  int summary() const {
    for (const auto& [code, count] : codes_) std::printf("refused with %s: %zu\n", code.c_str(), count);
    std::printf("%zu mutants:", total_);
    for (size_t i = 0; i < outcomes; ++i)
      std::printf(" %zu %s%s", counts_[i], outcome_name(static_cast<Outcome>(i)), i + 1 < outcomes ? "," : "\n");
    return counts_[static_cast<size_t>(Outcome::failed)] == 0 ? 0 : 1;
  }

  const Options& options_;
  TemporaryDirectory packages_{"kiln-mutants"};
  std::vector<Base> bases_;
  size_t counts_[outcomes] = {}, total_ = 0;
  std::map<std::string, size_t> codes_;
};

}  // namespace
}  // namespace kiln::mutants

int main(int argc, char** argv) {
  try {
    const kiln::mutants::Options options = kiln::mutants::parse(argc, argv);
    const kiln::campaign::KernelCache cache(options.piece.cache);
    return kiln::mutants::Campaign(options).run();
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
