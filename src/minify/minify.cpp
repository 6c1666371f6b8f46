#include "minify/minify.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "graph/walk.h"
#include "minify/baseline.h"
#include "minify/checkpoints.h"
#include "minify/cut.h"
#include "minify/kernel_bodies.h"
#include "minify/kernel_file.h"
#include "minify/phase.h"
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

// Trials write none of what is left out, and do not minify in turn.
Settings quiet_settings(const MinifyOptions& options) {
  Settings settings = options.settings ? *options.settings : Settings(Phase::both);
  std::vector<std::string> keys = settings_left_out();
  for (const char* more : {"TORCHDYNAMO_REPRO_AFTER", "aot_inductor.dump_aoti_minifier"}) keys.push_back(more);
  for (const Setting& setting : settings_table())
    if (settings.given(setting.key) && std::find(keys.begin(), keys.end(), setting.key) != keys.end())
      settings.set(setting.key, setting.default_text);
  return settings;
}

// The graph of a package has no origins any more: its nodes are where errors and bisecting are to point to.
void name_origins(Graph& graph) {
  for_each_node(graph, [](Node& node) {
    if (node.origins.empty()) node.origins.push_back({node.name, node.target, "", {}});
  });
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
    start_.program = program.clone();
    name_origins(start_.program.graph);
    if (start_.program.sample_inputs.empty()) start_.program.sample_inputs = made_up_inputs(start_.program);
    // Kernels of candidates are of no use to anybody else.
    settings_.set("cache_dir", join_path(trials_.directory(), "cache"));
    trials_.limits.compile_seconds = options.timeout_seconds;
    trials_.limits.run_seconds = options.timeout_seconds / 10;
    trials_.limits.judge_seconds = options.judge_seconds > 0 ? options.judge_seconds : options.timeout_seconds;
    trials_.limits.memory_bytes = std::max<int64_t>(free_memory() / trials_.jobs(), int64_t{1} << 30);
  }

  Failure once() { return trials_.run(task(start_.program, ProbeMode::compiled, first_settings_)).failure; }

  MinifyResult run() {
    MinifyResult result;
    Checkpoints checkpoints(options_, original_.torch_version);
    try {
      begin(checkpoints);
      choose_mode();
      reduce(checkpoints);
    } catch (const Interrupted& interrupted) {
      if (best_ == nullptr) throw;
      interrupted_by_ = interrupted.signal;
    }
    return finish(checkpoints);
  }

 private:
  Trials::Task task(const Program& program, ProbeMode mode, const Settings& settings) const {
    return probe_task(program, probe_options(options_, mode, settings), start_.signature, start_.tries);
  }

  // Pins the failure. What was pinned when it is interrupted is the best so far.
  void begin(Checkpoints& checkpoints) {
    const auto keep = [&] {
      if (start_.signature.kind == FailureKind::none) return;
      best_ = std::make_unique<Program>(start_.program.clone());
      failure_ = start_.first.failure;
      tried_ = start_.tried;
    };
    try {
      Baseline(start_, options_, first_settings_, settings_, trials_).find();
    } catch (const Interrupted&) {
      keep();
      throw;
    }
    keep();
    if (start_.part) checkpoints.offer(*best_);
  }

  void progress(const std::string& text) const {
    if (options_.progress) options_.progress(text);
  }
  void say(const std::string& line) const {
    if (options_.say) options_.say(line);
  }
  double elapsed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count(); }

  // The cheapest mode that shows the same failure on the program. One that takes longer than compiled code is not.
  void choose_mode() {
    std::vector<ProbeMode> cheaper;
    if (start_.signature.kind == FailureKind::error && start_.first.failure.stage == "compile")
      cheaper = {start_.signature.code == "K0411" ? ProbeMode::syntax : ProbeMode::generated};
    else if (start_.signature.kind == FailureKind::error || start_.signature.kind == FailureKind::accuracy)
      cheaper = {ProbeMode::loops};
    for (const ProbeMode mode : cheaper) {
      show_phase(trials_, options_.progress, str("does it show in mode ", probe_mode_name(mode), "?"));
      const TrialLimits limits = trials_.limits;
      trials_.limits.run_seconds = std::max(2.0, compiled_seconds());
      const TrialResult result = trials_.run(task(start_.program, mode, settings_));
      trials_.limits = limits;
      if (!matches(start_.signature, result.failure)) continue;
      mode_ = mode;
      return;
    }
  }

  double compiled_seconds() const {
    return seconds_of(start_.first, "compile") + seconds_of(start_.first, "load") + seconds_of(start_.first, "run");
  }

  ReduceOptions reduce_options(ProbeMode mode, Checkpoints& checkpoints) {
    ReduceOptions out;
    out.probe = probe_options(options_, mode, settings_);
    out.signature = start_.signature;
    out.tries = start_.tries;
    out.hint = failure_.node;
    out.recording_seconds = 10 + 3 * start_.reference_seconds;
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
    options.recorded = std::exchange(start_.recorded, std::nullopt);
    watch(current, options);
    Reducer reducer(start_.program.clone(), trials_, options);
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
      const TrialResult result = trials_.run(task(*candidate, ProbeMode::compiled, settings_));
      ++tried_;
      if (!matches(start_.signature, result.failure)) continue;
      failure_ = result.failure;
      return candidate;
    }
    return accepted.front();
  }

  MinifyResult finish(Checkpoints& checkpoints) {
    MinifyResult result;
    std::vector<std::string> notes = {str("fails with: ", describe(failure_))};
    if (start_.tries > 1)
      notes.push_back(str("fails only sometimes (", start_.part ? "what bisecting blames in " : "the whole program in ",
                          start_.sometimes, "): give it ", start_.tries, " runs"));
    notes.push_back(minimal_note());
    const std::string proved = interrupted_by_ != 0 ? "" : kernel_note();
    if (!proved.empty()) notes.push_back(proved);
    result.repro = checkpoints.finish(*best_, notes);
    result.nodes = count_nodes(*best_);
    result.calls = count_calls(best_->graph);
    result.trials = trials_.started();
    result.failure = failure_;
    result.minimal = proved_ && interrupted_by_ == 0;
    result.seconds = elapsed();
    if (!proved.empty()) say(proved);
    say(minimal_note());
    if (options_.after == "inductor") result.kernel_file = write_kernel_file(stem(result.repro) + "_kernel.cpp");
    say(str(result.calls, result.calls == 1 ? " operator" : " operators", " left of ", count_calls(original_.graph),
            ", ", tried_, " candidates tried in ", static_cast<int>(result.seconds * 100) / 100.0, " s"));
    say(result.minimal ? str("Wrote minimal repro out to ", file_name(result.repro))
                       : str("Wrote repro out to ", file_name(result.repro), ", not shown to be minimal"));
    result.interrupted = interrupted_by_ != 0;
    result.signal = interrupted_by_;
    result.program = std::move(*best_);
    return result;
  }

  std::string minimal_note() const {
    const int calls = count_calls(best_->graph);
    if (interrupted_by_ != 0) return "The search was interrupted: it may not be minimal";
    if (!proved_)
      return str("It may not be minimal: ", undecided_, " of the smaller programs did not end within the limits");
    const std::string some =
        not_removable_ == 0 ? ""
                            : str(" (", not_removable_, " of them cannot be left out: their results can be no inputs)");
    const std::string runs = start_.tries > 1 ? str(" (in ", start_.tries, " runs)") : "";
    return calls == 1 ? str("Minimal: removing the one operator loses the failure", runs)
                      : str("Minimal: removing any of the ", calls, " operators loses the failure", runs, some);
  }

  // --after inductor: the kernels as a C++ file. The work is done in a child, as all that the failure may reach.
  std::string write_kernel_file(const std::string& name) {
    const std::string path = join_path(options_.copy_to, name);
    const auto make = [&](const auto& entering) {
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
    };
    TrialResult made;
    try {
      made = trials_.run(make);
    } catch (const Interrupted& interrupted) {
      interrupted_by_ = interrupted.signal;
      say(str("No ", name, ": interrupted"));
      return "";
    }
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
        out.message = kernel_bodies(program, settings, options_.custom_op_libs, options_.device);
        return out;
      });
    };
    try {
      const TrialResult part = bodies(*best_, settings_), whole = bodies(original_, settings_);
      if (part.failure.failed() || whole.failure.failed()) return "";
      return same_kernels_note(part.failure.message, whole.failure.message);
    } catch (const Interrupted& interrupted) {
      interrupted_by_ = interrupted.signal;
      return "";
    }
  }

  const Program& original_;
  const MinifyOptions& options_;
  Start start_;
  Settings first_settings_, settings_;  // with the user's kernel cache; with one of our own
  Trials trials_;
  std::chrono::steady_clock::time_point began_;
  Failure failure_;
  ProbeMode mode_ = ProbeMode::compiled;
  std::unique_ptr<Program> best_;
  std::string step_;
  int tried_ = 0;
  int not_removable_ = 0, undecided_ = 0;
  int interrupted_by_ = 0;  // a signal
  bool proved_ = false;
};

}  // namespace

std::vector<std::string> settings_left_out() {
  return {"fault_dir", "TORCH_TRACE", "TORCH_LOGS", "debug", "trace.enabled"};
}

MinifyResult minify(const Program& program, const MinifyOptions& options) { return Minifier(program, options).run(); }

Failure run_once(const Program& program, const MinifyOptions& options) { return Minifier(program, options).once(); }

}  // namespace kiln::minify
