#include "driver/compile.h"

#include <chrono>
#include <future>

#include "base/file.h"
#include "base/version.h"
#include "codegen/cpu/generate.h"
#include "driver/executable_custom.h"
#include "driver/executable_package.h"
#include "driver/source_paths.h"
#include "package/plan_builder.h"
#include "package/writer.h"
#include "pt2/reader.h"
#include "pt2/tensor_files.h"
#include "toolchain/compiler.h"
#include "trace/compile_observer.h"
#include "trace/pass_record.h"

namespace kiln {
namespace {

class Stopwatch {
 public:
  double since_start() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  }
  double lap() {
    auto now = std::chrono::steady_clock::now();
    double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now(), last_ = began_;
};

std::string setting(const CompileOptions& options, const char* key) {
  return options.settings ? options.settings->get_string(key) : std::string();
}

int simdlen(const CompileOptions& options) {
  if (!options.settings) return 0;
  return static_cast<int>(options.settings->get_optional_int("cpp.simdlen").value_or(0));
}

PipelineOptions pipeline_options(const CompileOptions& options, int lanes) {
  PipelineOptions pipeline;
  pipeline.lanes = lanes;
  if (options.settings) {
    pipeline.disabled = options.settings->get_list("disable_pass");
    pipeline.fault = fault_of(*options.settings);
  }
  if (!options.custom_op_libs.empty()) pipeline.custom_ops = CustomOperators(options.custom_op_libs).declared();
  if (options.progress) pipeline.progress = [&options](const std::string& pass) { options.progress(pass, 0, 0); };
  return pipeline;
}

std::string sample_inputs_file(const Program& program) {
  if (program.sample_inputs.empty()) return "";
  std::string bytes;
  write_pt({program.sample_inputs, {}}, [&](ByteSpan piece) { bytes.append(as_text(piece)); });
  return bytes;
}

BuildRequest build_request(const codegen::GeneratedCode& generated, const CompileOptions& options) {
  BuildRequest request;
  request.sources = generated.sources;
  request.flags = generated.flags;
  request.functions = generated.symbols;
  request.flags.insert(request.flags.end(), options.extra_flags.begin(), options.extra_flags.end());
  if (options.progress)
    request.progress = [&](int done, int total) { options.progress("compile kernels", done, total); };
  return request;
}

PackageContents::Code build_code(const codegen::GeneratedCode& generated, const codegen::CpuTarget& target,
                                 const CompileOptions& options, CompileObservers& observers, const Stopwatch& clock,
                                 CompileReport& report) {
  Compiler compiler = find_compiler(setting(options, "compiler"));
  std::string directory = setting(options, "cache_dir");
  KernelCache cache(directory.empty() ? KernelCache::default_directory() : directory);
  BuildRequest request = build_request(generated, options);
  const double began_ms = clock.since_start() * 1000;
  if (!observers.empty())
    request.job = [&](const std::string& name, double start_ms, double run_ms) {
      observers.job_done({name, target.name, began_ms + start_ms, run_ms, name == "from the cache"});
    };
  BuildResult built = build_shared_object(compiler, request, cache);
  report.from_cache = built.from_cache;
  if (!built.not_kept.empty())
    report.notes.push_back(str("the kernel cache did not take the kernels: ", built.not_kept));
  if (!cache.problem().empty()) report.notes.push_back(str("the kernel cache is not used: ", cache.problem()));
  return {target.name, std::move(built.shared_object)};
}

void tell_start(const Program& program, const std::string& model_path, const std::string& package_path,
                const CompileOptions& options, const std::vector<std::string>& targets, CompileObservers& observers) {
  if (observers.empty()) return;
  observers.started({model_path, package_path, options.device, targets, &program, {}});
}

void tell_end(const CompileReport& report, CompileObservers& observers) {
  if (observers.empty()) return;
  CompileEnd end;
  end.seconds = report.seconds;
  end.schedule_seconds = report.schedule_seconds;
  end.toolchain_seconds = report.toolchain_seconds;
  end.package_seconds = report.package_seconds;
  end.kernels = report.kernels;
  end.kernels_compiled = report.kernels_compiled;
  end.from_cache = report.from_cache;
  end.package_bytes = report.package_bytes;
  observers.finished(end);
}

int count_kernels(const loops::LoopProgram& program) {
  int count = 0;
  loops::for_each_item(program.block,
                       [&](const loops::Item& item) { count += std::holds_alternative<loops::Kernel>(item.what); });
  return count;
}

std::vector<RecordedPass> recorded_passes(const PipelineResult& result) {
  std::vector<RecordedPass> out;
  for (const PassReport& pass : result.passes) {
    out.push_back({pass.name, pass.stage, pass.changed, pass.notes, {}});
    for (const loops::Decision& decision : result.decisions)
      if (decision.pass == pass.name) out.back().decisions.push_back(decision);
  }
  return out;
}

CompileReport compile_program(const Program& program, const std::string& model_path, const std::string& package_path,
                              const CompileOptions& options, CompileObservers& observers);

CompileObservers observers_of(const CompileOptions& options) {
  return options.settings ? compile_observers(*options.settings) : CompileObservers();
}

// Runs the compile and lets those who watch it know when it fails.
template <class Work>
CompileReport watched(const CompileOptions& options, Work work) {
  CompileObservers observers = observers_of(options);
  try {
    CompileReport report = work(observers);
    for (std::string& note : observers.notes()) report.notes.push_back(std::move(note));
    return report;
  } catch (const Error& error) {
    observers.failed(error);
    if (options.note)
      for (const std::string& note : observers.notes()) options.note(note);
    throw;
  }
}

}  // namespace

std::string default_package_path(const std::string& model_path) {
  std::string base = ends_with(model_path, ".pt2") ? model_path.substr(0, model_path.size() - 4) : model_path;
  return base + ".kiln.pt2";
}

CompileReport compile(const std::string& model_path, const std::string& package_path, const CompileOptions& options) {
  return watched(options, [&](CompileObservers& observers) {
    if (options.progress) options.progress("read", 0, 0);
    Program program = read_pt2(model_path);
    if (!options.settings || !options.settings->get_bool("full_source_paths"))
      shorten_source_paths(program, parent_path(model_path));
    return compile_program(program, model_path, package_path, options, observers);
  });
}

CompileReport compile(const Program& program, const std::string& package_path, const CompileOptions& options) {
  return watched(options, [&](CompileObservers& observers) {
    return compile_program(program, "", package_path, options, observers);
  });
}

namespace {

CompileReport compile_program(const Program& program, const std::string& model_path, const std::string& package_path,
                              const CompileOptions& options, CompileObservers& observers) {
  if (options.device != "cpu")
    fail_unsupported("K0404", str("this build of Kiln compiles for cpu; ", options.device, " is not built yet"));
  if (options.strip_debug && is_stream(package_path))
    fail_user("K0147", str("the debug section cannot lie beside ", package_path,
                           ", which is no file: leave out --strip-debug or name a file"));
  Stopwatch total, watch;
  CompileReport report;
  report.package_path = package_path;
  PackageContents contents;
  std::vector<std::string> targets = options.targets;
  if (targets.empty()) targets.push_back(codegen::host_target_name());
  std::vector<codegen::CpuTarget> cpu_targets;
  int lanes = 1;
  for (const std::string& name : targets) {
    cpu_targets.push_back(codegen::cpu_target(name, simdlen(options)));
    lanes = std::max(lanes, cpu_targets.back().lanes);
  }
  // Scheduled once, for the widest vectors; each target prints the same schedule with its own lanes, so that one plan
  // (items, numbers, buffers) serves all code objects.
  tell_start(program, model_path, package_path, options, targets, observers);
  PipelineOptions pipeline = pipeline_options(options, lanes);
  if (!observers.empty()) pipeline.observer = &observers;
  pipeline.keep_record = options.goal == CompileGoal::package;
  PipelineResult result = run_pipeline(program, pipeline);
  if (options.inject.loops) options.inject.loops(result.loops);
  report.schedule_seconds = watch.lap();
  for (const codegen::CpuTarget& target : cpu_targets) {
    codegen::GeneratedCode generated = codegen::generate_cpu(result.loops, target, pipeline.fault);
    if (options.inject.source)
      for (std::string& unit : generated.sources) options.inject.source(unit);
    const bool first = &target == &cpu_targets.front();
    BuiltPlan built;
    if (first) built = build_plan(result.loops, generated);
    if (!observers.empty())
      observers.code_made(
          {&target, &generated, &result.loops, first ? &built.plan : nullptr, &built.origins, &result.merged, false});
    if (options.goal == CompileGoal::syntax)
      check_syntax(find_compiler(setting(options, "compiler")), build_request(generated, options));
    if (options.goal != CompileGoal::package) continue;
    if (!generated.sources.empty())
      contents.code.push_back(build_code(generated, target, options, observers, total, report));
    for (size_t s = 0; s < generated.sources.size(); ++s)
      contents.debug[str("output_code_", target.name, "_", s, ".cpp")] = generated.sources[s];
    if (!generated.sources.empty())
      contents.debug[str("output_code_", target.name, ".flags")] =
          str("lanes ", target.lanes, "\n", join(build_request(generated, options).flags, "\n"), "\n");
    if (!first) continue;
    contents.plan = std::move(built.plan);
    if (options.inject.plan) options.inject.plan(contents.plan);
    contents.origins = std::move(built.origins);
    report.kernels_compiled = static_cast<int>(generated.symbols.size());
  }
  report.toolchain_seconds = watch.lap();
  if (options.goal != CompileGoal::package) return report;
  report.kernels = count_kernels(result.loops);
  contents.debug["loops.txt"] = loops::print(result.loops);
  contents.debug["graph.txt"] = print(program);
  contents.debug["loops_lowered.txt"] = std::move(result.lowered_text);
  contents.debug["passes.json"] = pass_record(recorded_passes(result));
  if (options.settings)
    if (const auto given = compile_assignments(*options.settings); !given.empty())
      contents.debug["settings.txt"] = join(given, "\n") + "\n";
  contents.debug["lowered_graph.txt"] = result.graph_text;  // whose values the buffers hold: the truth for bisecting
  for (const auto& [value, buffer] : result.merged)
    contents.debug["merged_values.txt"] += str(value, "\t", buffer, "\n");
  if (options.inject.constants) options.inject.constants(result.constants);
  contents.constants = std::move(result.constants);
  contents.plan.kiln_version = version_text;
  contents.plan.torch_version = program.torch_version;
  for (const std::string& library : options.custom_op_libs)
    contents.custom_libraries.push_back({file_name(library), read_file(library)});
  contents.sample_inputs = sample_inputs_file(program);
  contents.in_spec = program.in_spec;
  contents.out_spec = program.out_spec;
  contents.argument_names = program.forward_arg_names;
  contents.strip_debug = options.strip_debug;
  if (options.progress) options.progress("write package", 0, 0);
  PackageWritten written = write_package(package_path, std::move(contents));
  report.package_seconds = watch.lap();
  report.package_bytes = written.bytes;
  if (!written.debug_path.empty()) report.notes.push_back(str("debug section written to ", written.debug_path));
  if (options.settings)
    report.notes.insert(report.notes.end(), options.settings->notes().begin(), options.settings->notes().end());
  report.seconds = total.lap();
  tell_end(report, observers);
  return report;
}

}  // namespace

}  // namespace kiln
