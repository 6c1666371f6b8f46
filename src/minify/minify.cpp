#include "minify/minify.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "minify/checkpoints.h"
#include "minify/cut.h"
#include "minify/kernel_bodies.h"
#include "minify/kernel_file.h"
#include "minify/reduce.h"

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
    if (start_.sample_inputs.empty()) start_.sample_inputs = made_up_inputs(start_);
    // Kernels of candidates are of no use to anybody else.
    settings_.set("cache_dir", join_path(trials_.directory(), "cache"));
    trials_.limits.compile_seconds = options.timeout_seconds;
    trials_.limits.run_seconds = options.timeout_seconds / 10;
    trials_.limits.memory_bytes = std::max<int64_t>(free_memory() / trials_.jobs(), int64_t{1} << 30);
  }

  Failure once() { return trials_.run(task(start_, probe_options(ProbeMode::compiled, first_settings_), 1)).failure; }

  MinifyResult run() {
    MinifyResult result;
    Checkpoints checkpoints(options_, original_.torch_version);
    try {
      baseline();
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

  double reference_seconds() {
    const TrialResult result = trials_.run([this](const auto& entering) {
      entering("run");
      RecordedValues(start_, options_.custom_op_libs, 0);
      return Failure{};
    });
    return of_stage(result, "run");
  }

  // Runs the program as users do, several times, and pins what it shows.
  void baseline() {
    progress("the reference");
    const double reference = reference_seconds();
    recording_seconds_ = 10 + 3 * std::min(reference, trials_.limits.run_seconds);
    // Compiled code is not slower than the reference; a first run without end should not cost minutes.
    trials_.limits.run_seconds =
        std::min(trials_.limits.run_seconds, std::max(options_.least_run_seconds, 20 * reference));
    progress("the whole program");
    const ProbeOptions as_users_do = probe_options(ProbeMode::compiled, first_settings_);
    int total = 0;
    do {
      first_ = trials_.run(task(start_, as_users_do, 1));
    } while (++total < options_.runs && !first_.failure.failed());
    if (!first_.failure.failed()) {
      const std::string seen = first_.failure.message.empty() ? "" : str(" (", first_.failure.message, ")");
      not_reproduced(str("the failure does not come back: in ", total, " runs the program compiles, loads, ",
                         options_.accuracy ? "runs and gives the right results" : "and runs",
                         " here; nothing to minify", seen,
                         options_.accuracy ? "" : ". Results are compared with --accuracy only"));
    }
    if (!options_.check_str.empty() && first_.failure.message.find(options_.check_str) == std::string::npos)
      not_reproduced(
          str("the failure does not mention '", options_.check_str, "'; seen instead: ", describe(first_.failure)));
    signature_ = signature_of(first_.failure, options_.check_str);
    say(str("The failure: ", describe(first_.failure)));
    set_limits(reference);
    best_ = std::make_unique<Program>(start_.clone());
    failure_ = first_.failure;
    count_runs(as_users_do, total);
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

  // Near ten times what the whole program needed; a busy machine gets more (minify/trials.h).
  void set_limits(double reference) {
    const bool hung = first_.failure.kind == FailureKind::hang;
    const double compile = of_stage(first_, "compile");
    double run = of_stage(first_, "run") + of_stage(first_, "load") + of_stage(first_, "compare");
    if (hung) run = reference;
    if (!(hung && first_.failure.stage == "compile")) trials_.limits.compile_seconds = std::max(10.0, 10 * compile);
    trials_.limits.run_seconds = std::max(1.0, 10 * run);
  }

  // The cheapest mode that shows the same failure on the whole program.
  void choose_mode() {
    std::vector<ProbeMode> cheaper;
    if (signature_.kind == FailureKind::error && first_.failure.stage == "compile")
      cheaper = {signature_.code == "K0411" ? ProbeMode::syntax : ProbeMode::generated};
    else if (signature_.kind == FailureKind::error || signature_.kind == FailureKind::accuracy)
      cheaper = {ProbeMode::loops};
    for (const ProbeMode mode : cheaper) {
      progress(str("does it show in mode ", probe_mode_name(mode), "?"));
      const TrialResult result = trials_.run(task(start_, probe_options(mode, settings_), tries_));
      if (!matches(signature_, result.failure)) continue;
      mode_ = mode;
      return;
    }
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
      notes.push_back(str("fails only sometimes (the whole program in ", sometimes_, "): give it ", tries_, " runs"));
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
    if (options_.after == "inductor") result.kernel_file = write_kernel_file(stem(result.repro) + "_kernel.cpp");
    say(str(result.calls, result.calls == 1 ? " operator" : " operators", " left of ", count_calls(original_.graph),
            ", ", tried_, " candidates tried in ", static_cast<int>(result.seconds * 100) / 100.0, " s"));
    say(str("Wrote minimal repro out to ", file_name(result.repro)));
    result.program = std::move(*best_);
    return result;
  }

  std::string minimal_note() const {
    const int calls = count_calls(best_->graph);
    if (!proved_ || interrupted_) return "The search was interrupted: it may not be minimal";
    const std::string some =
        not_removable_ == 0 ? ""
                            : str(" (", not_removable_, " of them cannot be left out: their results can be no inputs)");
    const std::string runs = tries_ > 1 ? str(" (in ", tries_, " runs)") : "";
    return calls == 1 ? str("Minimal: removing the one operator loses the failure", runs)
                      : str("Minimal: removing any of the ", calls, " operators loses the failure", runs, some);
  }

  // --after inductor: the kernels as a C++ file. The work is done in a child, as all that the failure may reach.
  std::string write_kernel_file(const std::string& name) {
    const std::string path = join_path(options_.copy_to, name);
    const TrialResult made = trials_.run([&](const auto& entering) {
      entering("compile");
      Failure out;
      try {
        const KernelFile file = kernel_file(*best_, settings_, name);
        write_file_atomic(path, file.text);
        out.message = file.command;
      } catch (const Error& error) {
        out.kind = FailureKind::error;
        out.message = error.message();
      }
      return out;
    });
    if (made.failure.failed()) {
      say(str("No ", name, ": ", made.failure.message));
      return "";
    }
    say(str("Wrote the kernel to ", name, "; build and run it with\n  ", made.failure.message));
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
      const TrialResult part = bodies(*best_, settings_), whole = bodies(start_, settings_);
      if (part.failure.failed() || whole.failure.failed()) return "";
      return same_kernels_note(part.failure.message, whole.failure.message);
    } catch (const Interrupted&) {
      return "";
    }
  }

  const Program& original_;
  const MinifyOptions& options_;
  Program start_;
  Settings first_settings_, settings_;  // with the user's kernel cache; with one of our own
  Trials trials_;
  std::chrono::steady_clock::time_point began_;
  TrialResult first_;
  Signature signature_;
  Failure failure_;
  ProbeMode mode_ = ProbeMode::compiled;
  std::unique_ptr<Program> best_;
  std::string step_, sometimes_;
  int tries_ = 1, tried_ = 0;
  int not_removable_ = 0;
  double recording_seconds_ = 60;
  bool interrupted_ = false, proved_ = false;
};

}  // namespace

MinifyResult minify(const Program& program, const MinifyOptions& options) { return Minifier(program, options).run(); }

Failure run_once(const Program& program, const MinifyOptions& options) { return Minifier(program, options).once(); }

}  // namespace kiln::minify
