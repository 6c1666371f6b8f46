#include "minify/baseline.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/counted.h"
#include "base/error.h"
#include "minify/cut.h"
#include "minify/reduce.h"
#include "minify/suspects.h"

namespace kiln::minify {
namespace {

[[noreturn]] void not_reproduced(const std::string& what) {
  fail_user("K0680", str("AOTIMinifierError: ", what,
                         "\n  If the failure is real, please report it with the model and the command that shows it."));
}

}  // namespace

// Runs the program as users do and pins what it shows.
void Baseline::find() {
  progress("the reference");
  record();
  // Compiled code is not slower than the reference; a first run without end should not cost minutes.
  trials_.limits.run_seconds =
      std::min(trials_.limits.run_seconds, std::max(options_.least_run_seconds, 20 * start_.reference_seconds));
  progress("the whole program");
  ProbeOptions as_users_do = probe_options(options_, ProbeMode::compiled, as_given_);
  as_users_do.expected = start_.recorded->result();
  as_users_do.as_check = slow();
  int total = 0;
  do {
    start_.first = run(start_.program, as_users_do);
  } while (++total < options_.runs && !start_.first.failure.failed());
  check_failure(total);
  start_.signature = signature_of(start_.first.failure, options_.check_str);
  say(str("The failure: ", describe(start_.first.failure)));
  set_limits();
  as_users_do.as_check = false;
  if (slow() && start_.first.failure.stage != "compile") {
    if (use_suspects())
      as_users_do.expected = nullptr, total = 1;
    else
      exclude_rounding(as_users_do);
  }
  count_runs(as_users_do, total);
}

void Baseline::record() {
  const Trials::SignalsAsBefore signals(trials_);  // a single operator may take minutes
  const auto begin = std::chrono::steady_clock::now();
  start_.recorded = RecordedValues(start_.program, options_.custom_op_libs, ReduceOptions{}.recorded_bytes,
                                   options_.timeout_seconds, [&] {
                                     if (trials_.idle) trials_.idle();
                                   });
  start_.reference_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// A program that cannot be tried a hundred times: it is bisected before it is searched.
bool Baseline::slow() const { return start_.reference_seconds > options_.slow_reference_seconds; }

// That the first run failed, and with what was asked for.
void Baseline::check_failure(int total) const {
  const Failure& failure = start_.first.failure;
  if (!failure.failed()) {
    const std::string seen = failure.message.empty() ? "" : str(" (", failure.message, ")");
    not_reproduced(str("the failure does not come back: in ", total, " runs the program compiles, loads, ",
                       options_.accuracy ? "runs and gives the right results" : "and runs", " here; nothing to minify",
                       seen, options_.accuracy ? "" : ". Results are compared with --accuracy (accuracy=True) only"));
  }
  // The reference is no part of the program: what it refuses, or has no time for, is no failure of the program.
  if (failure.stage == "compare" && failure.kind != FailureKind::accuracy)
    fail_user("K0685", str("the program runs, but its results could not be compared with the reference: ",
                           describe(failure), failure.code == not_judged ? "\n  --timeout S gives it more time" : ""));
  if (!options_.check_str.empty() && failure.message.find(options_.check_str) == std::string::npos)
    not_reproduced(str("the failure does not mention '", options_.check_str, "'; seen instead: ", describe(failure)));
}

// What `kiln bisect` blames, cut out of the program: the search goes on from there if it fails by itself.
bool Baseline::use_suspects() {
  progress("bisecting the whole program");
  const TrialResult found = trials_.run([this](const auto& entering) {
    Failure out;
    try {
      out.message = suspects_text(
          find_suspects(start_.program, probe_options(options_, ProbeMode::compiled, as_given_), entering));
    } catch (const Error& error) {
      out.kind = FailureKind::error;
      out.message = error.message();
    }
    return out;
  });
  if (found.failure.failed()) return false;
  const Suspects suspects = read_suspects(found.failure.message);
  if (suspects.what.empty()) return false;
  say(str("Bisecting blames ", suspects.what));
  for (const std::vector<bool>& keep : suspected_parts(start_.program, suspects)) {
    std::optional<Program> part = cut(start_.program, keep, *start_.recorded);
    if (!part) continue;
    progress(str("the suspects alone: ", counted(static_cast<uint64_t>(count_calls(part->graph)), "operator")));
    const TrialResult result = run(*part, probe_options(options_, ProbeMode::compiled, own_));
    ++start_.tried;
    if (!blamed(result.failure)) continue;
    take_part(std::move(*part), result);
    return true;
  }
  return false;
}

// Wrong values of the whole program may be NaN or of another size where they begin: bisecting has shown that they
// begin there. Anything else must be the same.
bool Baseline::blamed(const Failure& failure) const {
  if (start_.signature.kind != FailureKind::accuracy) return matches(start_.signature, failure);
  return failure.kind == FailureKind::accuracy &&
         (options_.check_str.empty() || failure.message.find(options_.check_str) != std::string::npos);
}

void Baseline::take_part(Program part, const TrialResult& result) {
  start_.first = result;
  start_.program = std::move(part);
  start_.part = true;
  start_.recorded.reset();
  start_.signature = signature_of(result.failure, options_.check_str);
  say(str("Cut out of the program, with the values it has there, it fails by itself: ", describe(result.failure)));
  set_limits();
}

// `kiln check` calls it wrong, and no operator was found that is: now with the look at how the program magnifies
// rounding, which takes several runs of the reference.
void Baseline::exclude_rounding(const ProbeOptions& as_users_do) {
  if (start_.signature.kind != FailureKind::accuracy) return;
  progress("is it rounding?");
  start_.first = run(start_.program, as_users_do);
  if (const Failure& now = start_.first.failure; !now.failed() && !now.message.empty())
    not_reproduced(str("no operator was found that is wrong by itself; nothing to minify (", now.message, ")"));
  check_failure(2);
}

// How often it fails: compiling is deterministic, running may not be.
void Baseline::count_runs(const ProbeOptions& as_users_do, int total) {
  const bool slow = seconds_of(start_.first, "compile") > 5;
  const bool may_vary =
      start_.first.failure.stage != "compile" && (start_.first.failure.kind != FailureKind::hang || total > 1);
  int failed = 1;
  const auto run_until = [&](int runs) {
    for (; total < runs; ++total) failed += matches(start_.signature, run(start_.program, as_users_do).failure);
  };
  double once = 0;
  for (const auto& [stage, seconds] : start_.first.seconds) once += seconds;
  if (may_vary) run_until(slow ? std::min(options_.runs, 2) : once < 0.5 ? std::max(options_.runs, 5) : options_.runs);
  if (failed == total) return;
  if (!slow) run_until(std::max(options_.runs, 10));
  const double share = static_cast<double>(failed) / total;
  start_.tries = std::clamp(static_cast<int>(std::ceil(std::log(0.01) / std::log(1 - share))), 2, 12);
  start_.sometimes = str(failed, " of ", total, " runs");
  say(str("It comes back only sometimes: ", start_.sometimes, ". Every candidate gets up to ", start_.tries, " runs."));
}

// Near ten times what the program needed; a busy machine gets more (minify/trials.h).
void Baseline::set_limits() {
  const bool hung = start_.first.failure.kind == FailureKind::hang;
  const double compile = seconds_of(start_.first, "compile");
  double run = seconds_of(start_.first, "run") + seconds_of(start_.first, "load");
  if (hung) run = start_.reference_seconds;
  if (!(hung && start_.first.failure.stage == "compile")) trials_.limits.compile_seconds = std::max(10.0, 10 * compile);
  trials_.limits.run_seconds = std::max(1.0, 10 * run);
}

}  // namespace kiln::minify
