#include "minify/minify.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "minify/checkpoints.h"
#include "minify/cut.h"
#include "minify/kernel_bodies.h"
#include "minify/kernel_file.h"
#include "minify/reduce.h"
#include "minify/suspects.h"

namespace kiln::minify {
namespace {

int usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(CPU_COUNT(&set), 1) : 1;
}

// What all trials together may take.
int64_t free_memory() {
  const std::string text = read_file("/proc/meminfo");
  const size_t at = text.find("MemAvailable:");
  return at == std::string::npos ? 0 : std::strtoll(text.c_str() + at + 13, nullptr, 10) * 1024;
}

// Trials write no fault bundles, traces or debug directories, and do not minify in turn.
Settings quiet_settings(const MinifyOptions& options) {
  Settings settings = options.settings ? *options.settings : Settings(Phase::both);
  for (const char* key : {"fault_dir", "TORCH_TRACE", "TORCHDYNAMO_REPRO_AFTER", "TORCH_LOGS"})
    if (settings.given(key)) settings.set(key, "None");
  for (const char* key : {"debug", "trace.enabled", "aot_inductor.dump_aoti_minifier"})
    if (settings.given(key)) settings.set(key, "0");
  return settings;
}

// The graph of a package has no origins any more: its nodes are where errors and bisecting are to point to.
void name_origins(Graph& graph) {
  for (auto& node : graph.nodes) {
    if (node->origins.empty()) node->origins.push_back({node->name, node->target, "", {}});
    for (const auto& named : node->args)
      if (named.arg.is_graph() && named.arg.as_graph()) name_origins(*named.arg.as_graph());
  }
}

double of_stage(const TrialResult& result, const std::string& stage) {
  const auto found = result.seconds.find(stage);
  return found == result.seconds.end() ? 0 : found->second;
}

class Minifier {
 public:
  Minifier(const Program& program, const MinifyOptions& options)
      : original_(program),
        options_(options),
        first_settings_(quiet_settings(options)),
        settings_(first_settings_),
        trials_(options.jobs > 0 ? options.jobs : usable_processors()),
        began_(std::chrono::steady_clock::now()) {
    start_ = program.clone();
    name_origins(start_.graph);
    if (start_.sample_inputs.empty()) start_.sample_inputs = made_up_inputs(start_);
    // Kernels of candidates are of no use to anybody else.
    settings_.set("cache_dir", join_path(trials_.directory(), "cache"));
    trials_.limits.compile_seconds = options.timeout_seconds;
    trials_.limits.run_seconds = options.timeout_seconds / 10;
    trials_.limits.judge_seconds = options.judge_seconds > 0 ? options.judge_seconds : options.timeout_seconds;
    trials_.limits.memory_bytes = std::max<int64_t>(free_memory() / trials_.jobs(), int64_t{1} << 30);
  }

  Failure once() { return trials_.run(task(start_, probe_options(ProbeMode::compiled, first_settings_), 1)).failure; }

  MinifyResult run() {
    MinifyResult result;
    Checkpoints checkpoints(options_, original_.torch_version);
    try {
      baseline(checkpoints);
      choose_mode();
      reduce(checkpoints);
    } catch (const Interrupted&) {
      if (best_ == nullptr) throw;
      interrupted_ = true;
    }
    return finish(checkpoints);
  }

 private:
  ProbeOptions probe_options(ProbeMode mode, const Settings& settings) const {
    ProbeOptions out;
    out.mode = mode;
    out.accuracy = options_.accuracy;
    out.rtol = options_.rtol;
    out.atol = options_.atol;
    out.settings = &settings;
    out.custom_op_libs = options_.custom_op_libs;
    return out;
  }

  Trials::Task task(const Program& program, const ProbeOptions& probe_with, int tries) const {
    return [&program, probe_with, tries, this](const auto& entering) {
      Failure failure;
      for (int t = 0; t < tries; ++t) {
        failure = probe(program, probe_with, entering);
        if (matches(signature_, failure)) break;
      }
      return failure;
    };
  }

  void progress(const std::string& text) const {
    if (options_.progress) options_.progress(text);
  }
  void say(const std::string& line) const {
    if (options_.say) options_.say(line);
  }
  double elapsed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count(); }

  [[noreturn]] void not_reproduced(const std::string& what) const {
    fail_user("K0680",
              str("AOTIMinifierError: ", what,
                  "\n  If the failure is real, please report it with the model and the command that shows it."));
  }

  // Runs the program as users do and pins what it shows.
  void baseline(Checkpoints& checkpoints) {
    progress("the reference");
    record();
    // Compiled code is not slower than the reference; a first run without end should not cost minutes.
    trials_.limits.run_seconds =
        std::min(trials_.limits.run_seconds, std::max(options_.least_run_seconds, 20 * reference_seconds_));
    progress("the whole program");
    ProbeOptions as_users_do = probe_options(ProbeMode::compiled, first_settings_);
    as_users_do.expected = recorded_->result();
    as_users_do.as_check = slow();
    int total = 0;
    do {
      first_ = trials_.run(task(start_, as_users_do, 1));
    } while (++total < options_.runs && !first_.failure.failed());
    check_failure(total);
    signature_ = signature_of(first_.failure, options_.check_str);
    say(str("The failure: ", describe(first_.failure)));
    set_limits();
    best_ = std::make_unique<Program>(start_.clone());
    failure_ = first_.failure;
    as_users_do.as_check = false;
    if (slow() && first_.failure.stage != "compile") {
      if (use_suspects(checkpoints))
        as_users_do.expected = nullptr, total = 1;
      else
        exclude_rounding(as_users_do);
    }
    count_runs(as_users_do, total);
  }

  void record() {
    const auto begin = std::chrono::steady_clock::now();
    recorded_ =
        RecordedValues(start_, options_.custom_op_libs, ReduceOptions{}.recorded_bytes, options_.timeout_seconds);
    reference_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  // A program that cannot be tried a hundred times: it is bisected before it is searched.
  bool slow() const { return reference_seconds_ > options_.slow_reference_seconds; }

  // That the first run failed, and with what was asked for.
  void check_failure(int total) const {
    const Failure& failure = first_.failure;
    if (!failure.failed()) {
      const std::string seen = failure.message.empty() ? "" : str(" (", failure.message, ")");
      not_reproduced(str("the failure does not come back: in ", total, " runs the program compiles, loads, ",
                         options_.accuracy ? "runs and gives the right results" : "and runs",
                         " here; nothing to minify", seen,
                         options_.accuracy ? "" : ". Results are compared with --accuracy only"));
    }
    // The reference is no part of the program: what it refuses, or has no time for, is no failure of the program.
    if (failure.stage == "compare" && failure.kind != FailureKind::accuracy)
      fail_user("K0685",
                str("the program runs, but its results could not be compared with the reference: ", describe(failure),
                    failure.code == not_judged ? "\n  --timeout S gives it more time" : ""));
    if (!options_.check_str.empty() && failure.message.find(options_.check_str) == std::string::npos)
      not_reproduced(str("the failure does not mention '", options_.check_str, "'; seen instead: ", describe(failure)));
  }

  // What `kiln bisect` blames, cut out of the program: the search goes on from there if it fails by itself.
  bool use_suspects(Checkpoints& checkpoints) {
    progress("bisecting the whole program");
    const TrialResult found = trials_.run([this](const auto& entering) {
      Failure out;
      try {
        out.message =
            suspects_text(find_suspects(start_, probe_options(ProbeMode::compiled, first_settings_), entering));
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
    for (const std::vector<bool>& keep : suspected_parts(start_, suspects)) {
      std::optional<Program> part = cut(start_, keep, *recorded_);
      if (!part) continue;
      progress(str("the suspects alone: ", count_calls(part->graph), " operators"));
      const TrialResult result = trials_.run(task(*part, probe_options(ProbeMode::compiled, settings_), 1));
      ++tried_;
      if (!blamed(result.failure)) continue;
      take_part(std::move(*part), result, checkpoints);
      return true;
    }
    return false;
  }

  // Wrong values of the whole program may be NaN or of another size where they begin: bisecting has shown that they
  // begin there. Anything else must be the same.
  bool blamed(const Failure& failure) const {
    if (signature_.kind != FailureKind::accuracy) return matches(signature_, failure);
    return failure.kind == FailureKind::accuracy &&
           (options_.check_str.empty() || failure.message.find(options_.check_str) != std::string::npos);
  }

  void take_part(Program part, const TrialResult& result, Checkpoints& checkpoints) {
    first_ = result;
    start_ = std::move(part);
    part_ = true;
    recorded_.reset();
    signature_ = signature_of(result.failure, options_.check_str);
    failure_ = result.failure;
    *best_ = start_.clone();
    say(str("Cut out of the program, with the values it has there, it fails by itself: ", describe(failure_)));
    checkpoints.offer(*best_);
    set_limits();
  }

  // `kiln check` calls it wrong, and no operator was found that is: now with the look at how the program magnifies
  // rounding, which takes several runs of the reference.
  void exclude_rounding(const ProbeOptions& as_users_do) {
    if (signature_.kind != FailureKind::accuracy) return;
    progress("is it rounding?");
    first_ = trials_.run(task(start_, as_users_do, 1));
    if (!first_.failure.failed())
      not_reproduced(
          str("no operator was found that is wrong by itself, and rounding can explain what differs; nothing "
              "to minify (",
              first_.failure.message, ")"));
    check_failure(2);
  }

  // How often it fails: compiling is deterministic, running may not be.
  void count_runs(const ProbeOptions& as_users_do, int total) {
    const bool slow = of_stage(first_, "compile") > 5;
    const bool may_vary = first_.failure.stage != "compile" && (first_.failure.kind != FailureKind::hang || total > 1);
    int failed = 1;
    const auto run_until = [&](int runs) {
      for (; total < runs; ++total) failed += matches(signature_, trials_.run(task(start_, as_users_do, 1)).failure);
    };
    double once = 0;
    for (const auto& [stage, seconds] : first_.seconds) once += seconds;
    if (may_vary)
      run_until(slow ? std::min(options_.runs, 2) : once < 0.5 ? std::max(options_.runs, 5) : options_.runs);
    if (failed == total) return;
    if (!slow) run_until(std::max(options_.runs, 10));
    const double share = static_cast<double>(failed) / total;
    tries_ = std::clamp(static_cast<int>(std::ceil(std::log(0.01) / std::log(1 - share))), 2, 12);
    sometimes_ = str(failed, " of ", total, " runs");
    say(str("It comes back only sometimes: ", sometimes_, ". Every candidate gets up to ", tries_, " runs."));
  }

  // Near ten times what the program needed; a busy machine gets more (minify/trials.h).
  void set_limits() {
    const bool hung = first_.failure.kind == FailureKind::hang;
    const double compile = of_stage(first_, "compile");
    double run = of_stage(first_, "run") + of_stage(first_, "load");
    if (hung) run = reference_seconds_;
    if (!(hung && first_.failure.stage == "compile")) trials_.limits.compile_seconds = std::max(10.0, 10 * compile);
    trials_.limits.run_seconds = std::max(1.0, 10 * run);
    recording_seconds_ = 10 + 3 * reference_seconds_;
  }

  // The cheapest mode that shows the same failure on the program. One that takes longer than compiled code is not.
  void choose_mode() {
    std::vector<ProbeMode> cheaper;
    if (signature_.kind == FailureKind::error && first_.failure.stage == "compile")
      cheaper = {signature_.code == "K0411" ? ProbeMode::syntax : ProbeMode::generated};
    else if (signature_.kind == FailureKind::error || signature_.kind == FailureKind::accuracy)
      cheaper = {ProbeMode::loops};
    for (const ProbeMode mode : cheaper) {
      progress(str("does it show in mode ", probe_mode_name(mode), "?"));
      const TrialLimits limits = trials_.limits;
      trials_.limits.run_seconds = std::max(2.0, compiled_seconds());
      const TrialResult result = trials_.run(task(start_, probe_options(mode, settings_), tries_));
      trials_.limits = limits;
      if (!matches(signature_, result.failure)) continue;
      mode_ = mode;
      return;
    }
  }

  double compiled_seconds() const {
    return of_stage(first_, "compile") + of_stage(first_, "load") + of_stage(first_, "run");
  }

  ReduceOptions reduce_options(ProbeMode mode, Checkpoints& checkpoints) {
    ReduceOptions out;
    out.probe = probe_options(mode, settings_);
    out.signature = signature_;
    out.tries = tries_;
    out.hint = failure_.node;
    out.recording_seconds = recording_seconds_;
    out.prove = mode == ProbeMode::compiled;
    out.smaller = [&](const Program& best) {
      *best_ = best.clone();
      checkpoints.offer(best);
    };
    return out;
  }

  // Runs one search and keeps its result, however it ends.
  void search(Reducer& reducer) {
    const auto keep = [&] {
      *best_ = reducer.best().clone();
      if (reducer.failure().failed()) failure_ = reducer.failure();
      tried_ += reducer.tried();
      proved_ = reducer.proved();
      not_removable_ = reducer.not_removable();
      undecided_ = reducer.undecided();
    };
    try {
      reducer.run();
    } catch (...) {
      keep();
      throw;
    }
    keep();
  }

  void watch(Reducer*& current, ReduceOptions& options) {
    options.progress = [this](const std::string& step) { step_ = step; };
    trials_.idle = [this, &current] {
      if (!current) return;
      progress(str(count_calls(current->best().graph), " of ", count_calls(original_.graph), " nodes left, ",
                   tried_ + current->tried(), " candidates tried, ", static_cast<int>(elapsed()), " s (", step_, ")"));
    };
  }

  void reduce(Checkpoints& checkpoints) {
    Reducer* current = nullptr;
    ReduceOptions options = reduce_options(mode_, checkpoints);
    options.recorded = std::exchange(recorded_, std::nullopt);
    watch(current, options);
    Reducer reducer(start_.clone(), trials_, options);
    current = &reducer;
    search(reducer);
    if (mode_ != ProbeMode::compiled) {
      const std::shared_ptr<const Program> from = confirmed(reducer.accepted());
      const bool whole = from == reducer.accepted().back();
      ReduceOptions again = reduce_options(ProbeMode::compiled, checkpoints);
      watch(current, again);
      // What the cheaper mode made minimal is looked at once more where it counts.
      again.only_nodes = whole;
      Reducer last(from->clone(), trials_, again);
      current = &last;
      *best_ = from->clone();
      search(last);
    }
    trials_.idle = {};
  }

  // The smallest accepted program that fails the same way as compiled code; at worst the whole program, which does.
  std::shared_ptr<const Program> confirmed(const std::vector<std::shared_ptr<const Program>>& accepted) {
    progress("confirming");
    for (size_t back = 1; back < accepted.size(); back = back < 4 ? back + 1 : back * 2) {
      const auto& candidate = accepted[accepted.size() - back];
      const TrialResult result = trials_.run(task(*candidate, probe_options(ProbeMode::compiled, settings_), tries_));
      ++tried_;
      if (!matches(signature_, result.failure)) continue;
      failure_ = result.failure;
      return candidate;
    }
    return accepted.front();
  }

  MinifyResult finish(Checkpoints& checkpoints) {
    MinifyResult result;
    std::vector<std::string> notes = {str("fails with: ", describe(failure_))};
    if (tries_ > 1)
      notes.push_back(str("fails only sometimes (", part_ ? "what bisecting blames in " : "the whole program in ",
                          sometimes_, "): give it ", tries_, " runs"));
    notes.push_back(minimal_note());
    const std::string proved = interrupted_ ? "" : kernel_note();
    if (!proved.empty()) notes.push_back(proved);
    result.repro = checkpoints.finish(*best_, notes);
    result.nodes = count_nodes(*best_);
    result.calls = count_calls(best_->graph);
    result.trials = trials_.started();
    result.failure = failure_;
    result.interrupted = interrupted_;
    result.minimal = proved_ && !interrupted_;
    result.seconds = elapsed();
    if (!proved.empty()) say(proved);
    say(minimal_note());
    if (options_.after == "inductor") result.kernel_file = write_kernel_file();
    say(str(result.calls, result.calls == 1 ? " operator" : " operators", " left of ", count_calls(original_.graph),
            ", ", tried_, " candidates tried in ", static_cast<int>(result.seconds * 100) / 100.0, " s"));
    say(result.minimal ? "Wrote minimal repro out to repro.py"
                       : "Wrote repro out to repro.py, not shown to be minimal");
    result.program = std::move(*best_);
    return result;
  }

  std::string minimal_note() const {
    const int calls = count_calls(best_->graph);
    if (interrupted_) return "The search was interrupted: it may not be minimal";
    if (!proved_)
      return str("It may not be minimal: ", undecided_, " of the smaller programs did not end within the limits");
    const std::string some =
        not_removable_ == 0 ? ""
                            : str(" (", not_removable_, " of them cannot be left out: their results can be no inputs)");
    const std::string runs = tries_ > 1 ? str(" (in ", tries_, " runs)") : "";
    return calls == 1 ? str("Minimal: removing the one operator loses the failure", runs)
                      : str("Minimal: removing any of the ", calls, " operators loses the failure", runs, some);
  }

  // --after inductor: the kernels as a C++ file. The work is done in a child, as all that the failure may reach.
  std::string write_kernel_file() {
    const std::string path = join_path(options_.copy_to, "repro_kernel.cpp");
    const TrialResult made = trials_.run([&](const auto& entering) {
      entering("compile");
      Failure out;
      try {
        const KernelFile file = kernel_file(*best_, settings_, "repro_kernel.cpp");
        write_file_atomic(path, file.text);
        out.message = file.command;
      } catch (const Error& error) {
        out.kind = FailureKind::error;
        out.message = error.message();
      }
      return out;
    });
    if (made.failure.failed()) {
      say(str("No repro_kernel.cpp: ", made.failure.message));
      return "";
    }
    say(str("Wrote the kernel to repro_kernel.cpp; build and run it with\n  ", made.failure.message));
    return path;
  }

  // What was proved about the kernels: the same body as in the whole program, or another.
  std::string kernel_note() {
    if (failure_.stage == "compile" && failure_.code != "K0411") return "";
    const auto bodies = [&](const Program& program, const Settings& settings) {
      return trials_.run([&](const auto& entering) {
        entering("compile");
        Failure out;
        out.message = kernel_bodies(program, settings, options_.custom_op_libs);
        return out;
      });
    };
    try {
      const TrialResult part = bodies(*best_, settings_), whole = bodies(original_, settings_);
      if (part.failure.failed() || whole.failure.failed()) return "";
      return same_kernels_note(part.failure.message, whole.failure.message);
    } catch (const Interrupted&) {
      return "";
    }
  }

  const Program& original_;
  const MinifyOptions& options_;
  Program start_;                           // what the search begins with: the whole, or the part that bisecting blames
  std::optional<RecordedValues> recorded_;  // of the whole, until the search has them
  Settings first_settings_, settings_;      // with the user's kernel cache; with one of our own
  Trials trials_;
  std::chrono::steady_clock::time_point began_;
  TrialResult first_;
  Signature signature_;
  Failure failure_;
  ProbeMode mode_ = ProbeMode::compiled;
  std::unique_ptr<Program> best_;
  std::string step_, sometimes_;
  int tries_ = 1, tried_ = 0;
  int not_removable_ = 0, undecided_ = 0;
  double reference_seconds_ = 0, recording_seconds_ = 60;
  bool interrupted_ = false, proved_ = false;
  bool part_ = false;  // the search begins with what bisecting blames
};

}  // namespace

MinifyResult minify(const Program& program, const MinifyOptions& options) { return Minifier(program, options).run(); }

Failure run_once(const Program& program, const MinifyOptions& options) { return Minifier(program, options).once(); }

}  // namespace kiln::minify
