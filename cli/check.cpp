#include "check/check.h"

#include <sched.h>

#include <cstdio>
#include <map>

#include "base/counted.h"
#include "base/file.h"
#include "check/check_case_files.h"
#include "command.h"
#include "console.h"
#include "device_options.h"
#include "json_output.h"
#include "minify/dump.h"
#include "pt2/reader.h"

namespace kiln::cli {
namespace {

int usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(CPU_COUNT(&set), 1) : 1;
}

CaseOptions case_options(const ParsedOptions& options, const Settings& settings) {
  CaseOptions out;
  const std::string backend = options.value_or("--backend", "compiled");
  const auto known = backend_from_name(backend);
  if (!known) throw UsageError(str("--backend takes compiled, loops or interpret, not '", backend, "'"));
  out.executable.backend = *known;
  out.executable.schedule = options.has("--scheduled");
  if (options.has("--scheduled") && *known != Backend::loops)
    throw UsageError("--scheduled belongs to --backend loops");
  out.executable.device = device_asked_for(options);
  out.executable.custom_op_libs = options.values("--custom-op-lib");
  out.executable.settings = &settings;
  out.rtol = options.number("--rtol", 0);
  out.atol = options.number("--atol", 0);
  return out;
}

void print_failure(const CaseResult& result) {
  printf("FAIL %s: %s%s%s\n", result.path.c_str(), result.stage.c_str(), result.stage.empty() ? "" : ": ",
         replace_all(result.message, "\n", "; ").c_str());
}

// The cases' processes print apart from each other, so that what they say is not mixed up. Settings that ask for
// something to be said have it passed on.
bool wants_output(const Settings& settings) {
  if (!settings.get_list("TORCH_LOGS").empty() || settings.get_int("aot_inductor.repro_level") >= 3) return true;
  if (settings.get_optional_int("check_inputs") == 1 || !settings.get_string("TORCHDYNAMO_REPRO_AFTER").empty())
    return true;
  for (const char* key : {"aot_inductor.debug_intermediate_value_printer", "aot_inductor.dump_aoti_minifier", "debug",
                          "trace.enabled", "verbose_progress"})
    if (settings.get_bool(key)) return true;
  return false;
}

// Those that write files named after the process, or say something of it, have one for each case.
bool wants_processes(const Settings& settings) {
  return wants_output(settings) || !settings.get_string("TORCH_TRACE").empty();
}

// The inputs of the call in which the case failed ("call 1", "bad_inputs_0"); nothing: of none.
std::optional<std::vector<Datum>> failing_inputs(const CaseResult& result) {
  const size_t digits = result.stage.find_last_not_of("0123456789") + 1;
  if (digits >= result.stage.size()) return std::nullopt;
  const size_t number = std::stoul(result.stage.substr(digits));
  CaseFiles files = read_case_files(result.path);
  if (starts_with(result.stage, "bad_inputs"))
    return number < files.bad_inputs.size() ? std::optional(files.bad_inputs[number].inputs) : std::nullopt;
  if (files.calls.empty()) return std::nullopt;
  return files.calls[number % files.calls.size()].inputs;  // a sequence ends with its first call again
}

CaseResult check_watched(const std::string& path, const CaseOptions& options) {
  if (is_package_case(path)) return check_case(path, options);
  const std::string model = is_directory(path) ? join_path(path, "model.pt2") : path;
  minify::DumpOnFailure dump(
      *options.executable.settings, options.executable.custom_op_libs, [&] { return read_pt2(model); },
      [](const std::string& text) { fprintf(stderr, "%s\n", text.c_str()); });
  dump.before();
  CaseResult result = check_case(path, options);
  if (result.status != CaseStatus::failed || !dump.wanted()) return result;
  if (auto inputs = failing_inputs(result)) dump.set_inputs(std::move(*inputs));
  if (result.code.empty())
    dump.wrong_results();
  else
    dump.failed(result.code);
  return result;
}

// Each once, however many cases have it.
void print_notes(const CheckSummary& summary) {
  std::map<std::string, std::vector<std::string>> by_text;
  for (const CaseResult& result : summary.cases)
    for (const std::string& note : result.notes) by_text[note].push_back(result.path);
  for (const auto& [text, paths] : by_text) {
    const std::string who = paths.size() == 1 ? paths[0] : str(paths.size(), " cases");
    tell_note(str(who, ": ", text));
  }
}

int check(const ParsedOptions& options) {
  Settings settings = settings_of(options, Phase::both);
  const std::string backend = options.value_or("--backend", "");
  if (backend == "interpret") note_settings_of_kernels(settings, "the reference interpreter", false);
  if (backend == "loops") note_settings_of_kernels(settings, "the interpreter of loops", true);
  CheckOptions check_options;
  check_options.jobs = static_cast<int>(options.integer("--jobs", 0, 1024).value_or(usable_processors()));
  check_options.timeout_seconds = options.number("--timeout", 0.001).value_or(check_options.timeout_seconds);
  // Every process gets its share of the processors, unless the user has said how many threads.
  if (!settings.given("cpp.threads"))
    settings.set("cpp.threads", std::to_string(std::max(1, usable_processors() / std::max(check_options.jobs, 1))));
  const CaseOptions one_case = case_options(options, settings);
  check_options.run_case = [&](const std::string& path) { return check_watched(path, one_case); };
  check_options.keep_output = wants_output(settings);
  if (wants_processes(settings)) check_options.cases_per_process = 1;
  const JsonOutput json(options);
  const bool details = !is_quiet() && !json.instead_of_text();
  ProgressLine line;
  int failed = 0;
  check_options.progress = [&](const CaseResult& result, int done, int total) {
    if (result.status == CaseStatus::failed) {
      ++failed;
      line.clear();
      if (!json.instead_of_text()) print_failure(result);
      fflush(stdout);
    }
    if (check_options.keep_output && !result.log.empty()) {
      line.clear();
      fprintf(stderr, "# %s\n%s", result.path.c_str(), result.log.c_str());
    }
    line.show(str(done, "/", total, failed ? str(", ", failed, " failed") : "", "  ", result.path));
  };
  const CheckSummary summary = check_cases(find_cases(options.positional), check_options);
  line.clear();
  for (const CaseResult& result : summary.cases) {
    if (!details) break;
    if (result.status == CaseStatus::skipped) printf("skip %s: %s\n", result.path.c_str(), result.message.c_str());
    if (result.rescued > 0 && result.status == CaseStatus::passed)
      printf("rescued %s: %lld values pass only by the fp64 reference\n", result.path.c_str(),
             static_cast<long long>(result.rescued));
  }
  print_notes(summary);
  Json root = json.document("check");
  json.add(root, summary_json(summary));
  json.write(root);
  if (details && summary.rescued > 0)
    printf("%s rescued by the fp64 reference\n", counted(static_cast<uint64_t>(summary.rescued), "value").c_str());
  if (!json.instead_of_text()) printf("%s\n", summary_line(summary).c_str());
  return summary.failed == 0 ? 0 : 1;
}

}  // namespace

Command check_command() {
  CommandSpec spec;
  spec.name = "check";
  spec.positional = "PATH…";
  spec.least = 1;
  spec.most = 1'000'000;
  spec.summary = "compiles and runs cases and compares the results";
  spec.details =
      "A PATH is a .pt2 (compared with the reference interpreter), a case directory (compared with the values in its "
      "files), a package with a test in it ('kiln compile --bundle'; run as it is, nothing is compiled), or a folder "
      "searched for case directories. Cases run apart from each other, in processes that take one after another: one "
      "that "
      "crashes, hangs or uses up its memory fails alone.";
  spec.options = {
      {"--backend", "", "compiled|loops|interpret", "how to compute (default: compiled)", false},
      {"--scheduled", "", "", "with --backend loops: after all passes, not right after lowering", false},
      {"--device", "", "D", "cpu or cuda (default: where each model was exported)", false},
      {"--jobs", "-j", "N",
       "processes at a time (default: one per processor); 0: all in this one, for debuggers and compute-sanitizer",
       false},
      {"--timeout", "", "S", "seconds after which a case is killed and failed (default: 120)", false},
      {"--rtol", "", "R", "relative tolerance for floats, over those of case and dtype", false},
      {"--atol", "", "A", "absolute tolerance for floats, over those of case and dtype", false},
      {"--custom-op-lib", "", "L", "shared library with custom operators", true, FileUse::read},
      JsonOutput::option(),
  };
  spec.examples = {"kiln check tests/cases --jobs 4", "kiln check model.pt2 --backend loops",
                   "kiln check cases/ops/add --rtol 1e-4 --json result.json"};
  return {spec, check};
}

}  // namespace kiln::cli
