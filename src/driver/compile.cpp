#include "driver/compile.h"

#include <chrono>
#include <future>

#include "base/file.h"
#include "base/version.h"
#include "codegen/cpu/generate.h"
#include "driver/executable_custom.h"
#include "package/plan_builder.h"
#include "package/writer.h"
#include "pt2/reader.h"
#include "pt2/tensor_files.h"
#include "toolchain/compiler.h"

namespace kiln {
namespace {

class Stopwatch {
 public:
  double lap() {
    auto now = std::chrono::steady_clock::now();
    double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
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
  if (!options.custom_op_libs.empty()) pipeline.custom_ops = CustomOperators(options.custom_op_libs).names();
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
  request.flags.insert(request.flags.end(), options.extra_flags.begin(), options.extra_flags.end());
  if (options.progress)
    request.progress = [&](int done, int total) { options.progress("compile kernels", done, total); };
  return request;
}

PackageContents::Code build_code(const codegen::GeneratedCode& generated, const codegen::CpuTarget& target,
                                 const CompileOptions& options, CompileReport& report) {
  Compiler compiler = find_compiler(setting(options, "compiler"));
  std::string directory = setting(options, "cache_dir");
  KernelCache cache(directory.empty() ? KernelCache::default_directory() : directory);
  BuildResult built = build_shared_object(compiler, build_request(generated, options), cache);
  report.from_cache = built.from_cache;
  if (!cache.problem().empty()) report.notes.push_back(str("the kernel cache is not used: ", cache.problem()));
  return {target.name, std::move(built.shared_object)};
}

int count_kernels(const loops::LoopProgram& program) {
  int count = 0;
  loops::for_each_item(program.block,
                       [&](const loops::Item& item) { count += std::holds_alternative<loops::Kernel>(item.what); });
  return count;
}

}  // namespace

std::string default_package_path(const std::string& model_path) {
  std::string base = ends_with(model_path, ".pt2") ? model_path.substr(0, model_path.size() - 4) : model_path;
  return base + ".kiln.pt2";
}

CompileReport compile(const std::string& model_path, const std::string& package_path, const CompileOptions& options) {
  if (options.progress) options.progress("read", 0, 0);
  return compile(read_pt2(model_path), package_path, options);
}

CompileReport compile(const Program& program, const std::string& package_path, const CompileOptions& options) {
  if (options.device != "cpu")
    fail_unsupported("K0404", str("this build of Kiln compiles for cpu; ", options.device, " is not built yet"));
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
  const PipelineOptions pipeline = pipeline_options(options, lanes);
  PipelineResult result = run_pipeline(program, pipeline);
  report.schedule_seconds = watch.lap();
  for (const codegen::CpuTarget& target : cpu_targets) {
    codegen::GeneratedCode generated = codegen::generate_cpu(result.loops, target, pipeline.fault);
    if (options.goal == CompileGoal::syntax)
      check_syntax(find_compiler(setting(options, "compiler")), build_request(generated, options));
    if (options.goal != CompileGoal::package) continue;
    if (!generated.sources.empty()) contents.code.push_back(build_code(generated, target, options, report));
    for (size_t s = 0; s < generated.sources.size(); ++s)
      contents.debug[str("output_code_", target.name, "_", s, ".cpp")] = generated.sources[s];
    if (&target != &cpu_targets.front()) continue;
    BuiltPlan built = build_plan(result.loops, generated);
    contents.plan = std::move(built.plan);
    contents.origins = std::move(built.origins);
    report.kernels_compiled = static_cast<int>(generated.symbols.size());
  }
  report.toolchain_seconds = watch.lap();
  if (options.goal != CompileGoal::package) return report;
  report.kernels = count_kernels(result.loops);
  contents.debug["loops.txt"] = loops::print(result.loops);
  contents.debug["graph.txt"] = print(program);
  contents.constants = std::move(result.constants);
  contents.plan.kiln_version = version_text;
  contents.plan.torch_version = program.torch_version;
  for (const std::string& library : options.custom_op_libs)
    contents.custom_libraries.push_back({file_name(library), read_file(library)});
  contents.sample_inputs = sample_inputs_file(program);
  contents.strip_debug = options.strip_debug;
  if (options.progress) options.progress("write package", 0, 0);
  PackageWritten written = write_package(package_path, std::move(contents));
  report.package_seconds = watch.lap();
  report.package_bytes = written.bytes;
  if (!written.debug_path.empty()) report.notes.push_back(str("debug section written to ", written.debug_path));
  if (options.settings)
    report.notes.insert(report.notes.end(), options.settings->notes().begin(), options.settings->notes().end());
  report.seconds = total.lap();
  return report;
}

}  // namespace kiln
