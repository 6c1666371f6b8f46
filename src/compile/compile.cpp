#include "compile/compile.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>

#include "base/environment.h"
#include "base/file.h"
#include "base/given_settings.h"
#include "base/json.h"
#include "base/version.h"
#include "codegen/backend.h"
#include "compile/compilation.h"
#include "compile/device_object.h"
#include "compile/freeze.h"
#include "compile/missed_fault.h"
#include "compile/program_device.h"
#include "compile/source_paths.h"
#include "package/plan_io.h"
#include "package/writer.h"
#include "pt2/reader.h"
#include "pt2/tensor_files.h"
#include "toolchain/compiler.h"
#include "toolchain/nvrtc.h"
#include "trace/compile_observer.h"
#include "trace/pass_record.h"
#include "trace/plan_text.h"

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

CompilationOptions compilation_options(const CompileOptions& options, DeviceType device, CompileObservers& observers) {
  CompilationOptions out;
  out.device = device;
  out.targets = options.targets;
  out.settings = options.settings;
  out.custom_op_libs = options.custom_op_libs;
  out.extra_flags = options.extra_flags;
  out.inject = options.inject;
  out.keep_record = options.goal == CompileGoal::package;
  if (!observers.empty()) out.observer = &observers;
  if (options.progress) out.progress = [&options](const std::string& pass) { options.progress(pass, 0, 0); };
  return out;
}

// What a compile was told about runs: the package carries it, and its runs start with it.
std::vector<std::string> run_defaults(const CompileOptions& options) {
  std::vector<std::string> out;
  if (!options.settings || options.settings->phase() != Phase::compile) return out;
  for (const GivenSetting& given : given_settings(*options.settings))
    if (given.setting->phase == Phase::run && given.text != Settings(Phase::run).text(*given.setting))
      out.push_back(str(given.setting->key, "=", given.text));
  return out;
}

// These end a compile before there is a package: `kiln compile` looks at them itself.
void refuse_partial_compile(const CompileOptions& options) {
  for (const char* key : {"stop_after", "dump_after"})
    if (!setting(options, key).empty())
      fail_user("K0131", str(key, " prints the program and makes no package: give it to 'kiln compile'"));
}

std::string sample_inputs_file(const Program& program) {
  if (program.sample_inputs.empty()) return "";
  std::string bytes;
  write_pt({program.sample_inputs, {}}, [&](ByteSpan piece) { bytes.append(as_text(piece)); });
  return bytes;
}

BuildRequest build_request(const Compilation& compilation, const codegen::GeneratedCode& generated,
                           const CompileOptions& options) {
  BuildRequest request = compilation.build_request(generated);
  if (options.progress)
    request.progress = [&](int done, int total) { options.progress("compile kernels", done, total); };
  return request;
}

// Where the first error of the compiler lies ("kernels_0.cpp:123:…", NVRTC's "kernels_0.cu(123): …"): the unit, and the
// offset of the line's end in it. Nothing: it does not say.
std::optional<std::pair<size_t, size_t>> failing_place(const codegen::GeneratedCode& generated,
                                                       const std::string& message) {
  const std::string file = "kernels_";
  for (size_t at = message.find(file); at != std::string::npos; at = message.find(file, at + 1)) {
    char* end = nullptr;
    const size_t unit = std::strtoul(message.c_str() + at + file.size(), &end, 10);
    const size_t ending = starts_with(end, ".cpp:") ? 5 : starts_with(end, ".cu(") ? 4 : 0;
    if (unit >= generated.sources.size() || ending == 0) continue;
    const size_t line = std::strtoul(end + ending, nullptr, 10);
    size_t position = 0;
    for (size_t n = 0; n < line && position != std::string::npos; ++n)
      position = generated.sources[unit].find('\n', position + (n > 0));
    if (line > 0) return std::pair(unit, position);
  }
  return std::nullopt;
}

// The kernel in which the C++ compiler found an error; nullptr: not known.
const loops::Kernel* failing_kernel(const codegen::GeneratedCode& generated, const std::string& message) {
  const auto place = failing_place(generated, message);
  if (!place) return nullptr;
  const std::string& source = generated.sources[place->first];
  const size_t position = place->second;
  int function = -1;
  size_t begin = 0;
  for (size_t s = 0; s < generated.symbols.size(); ++s) {
    const size_t defined = source.find(str(" ", generated.symbols[s], "("));
    if (defined == std::string::npos || defined > position || defined < begin) continue;
    begin = defined;
    function = static_cast<int>(s);
  }
  for (const auto& [kernel, step] : generated.steps)
    if (step.function == function && kernel->name == generated.symbols[static_cast<size_t>(function)]) return kernel;
  return nullptr;
}

// Runs the C++ compiler; an error of it names what the kernel that it lies in was made from.
template <class Work>
auto located(const codegen::GeneratedCode& generated, Work work) {
  try {
    return work();
  } catch (Error& error) {
    Where where;
    where.pass = "compile kernels";
    if (const loops::Kernel* kernel = failing_kernel(generated, error.message())) {
      where.node = kernel->name;
      std::vector<std::string> ops;
      for (const Origin& origin : kernel->origins) {
        if (std::find(ops.begin(), ops.end(), origin.op) == ops.end()) ops.push_back(origin.op);
        if (!origin.module_path.empty()) where.module_path = origin.module_path;
        if (origin.line()) where.source = *origin.line();
      }
      where.op = join(ops, ", ");
    }
    error.locate(where);
    throw;
  }
}

Json metadata_object(const std::string& text) {
  const char* wanted = "aot_inductor.metadata is a JSON object such as {\"author\": \"me\"}, not ";
  try {
    Json json = parse_json(text, "aot_inductor.metadata");
    if (json.is_object()) return json;
  } catch (const Error& error) {
    fail_user("K0142", str(wanted, quote(text), " (", error.message(), ")"));
  }
  fail_user("K0142", str(wanted, quote(text)));
}

// The user's: files that torch.export.save took along, and the setting.
void add_metadata(const std::string& model_path, const CompileOptions& options, format::Plan& plan) {
  std::map<std::string, std::string> metadata;
  if (!model_path.empty()) metadata = read_extra_files(model_path);
  if (const std::string text = setting(options, "aot_inductor.metadata"); !text.empty()) {
    const Json json = metadata_object(text);
    for (const auto& member : json.members())
      metadata[member.key] = member.value.is_string() ? member.value.as_string() : json_text(member.value);
  }
  for (const auto& [key, value] : metadata) {
    plan.metadata_keys.push_back(key);
    plan.metadata_values.push_back(value);
  }
}

// PTX stands for GPUs that are newer than all targets: the last of them has it. "sm_90a" -> "compute_90".
std::string ptx_architecture(const Compilation& compilation, size_t target) {
  if (target + 1 < compilation.targets().size()) return "";
  std::string name = compilation.targets()[target].name;
  if (ends_with(name, "a")) name.pop_back();
  return replace_all(name, "sm_", "compute_");
}

// The kernels for a GPU, with what a launch of each takes.
std::string build_gpu_code(const codegen::GeneratedCode& generated, const BuildRequest& request, const std::string& ptx,
                           const CompileOptions& options, const KernelCache& cache, CompileReport& report) {
  const Nvrtc& nvrtc = find_nvrtc(setting(options, "nvrtc"));
  const CudaImages built = located(generated, [&] { return build_cuda_images(nvrtc, request, ptx, cache); });
  report.from_cache = built.from_cache;
  if (!built.not_kept.empty())
    report.notes.push_back(str("the kernel cache did not take the kernels: ", built.not_kept));
  return device_object(generated, built);
}

std::string build_code(Compilation& compilation, size_t target, const CompileOptions& options,
                       CompileObservers& observers, const Stopwatch& clock, CompileReport& report) {
  const codegen::GeneratedCode& generated = compilation.code(target);
  const std::string& target_name = compilation.targets()[target].name;
  std::string directory = setting(options, "cache_dir");
  KernelCache cache(directory.empty() ? KernelCache::default_directory() : directory);
  BuildRequest request = build_request(compilation, generated, options);
  if (compilation.targets()[target].is_gpu()) {
    if (!cache.problem().empty()) report.notes.push_back(str("the kernel cache is not used: ", cache.problem()));
    return build_gpu_code(generated, request, ptx_architecture(compilation, target), options, cache, report);
  }
  Compiler compiler = find_compiler(setting(options, "compiler"));
  const double began_ms = clock.since_start() * 1000;
  if (!observers.empty())
    request.job = [&](const std::string& name, double start_ms, double run_ms) {
      observers.job_done({name, target_name, began_ms + start_ms, run_ms, name == "from the cache"});
    };
  BuildResult built = located(generated, [&] { return build_shared_object(compiler, request, cache); });
  report.from_cache = built.from_cache;
  if (!built.not_kept.empty())
    report.notes.push_back(str("the kernel cache did not take the kernels: ", built.not_kept));
  if (!cache.problem().empty()) report.notes.push_back(str("the kernel cache is not used: ", cache.problem()));
  return std::move(built.shared_object);
}

void tell_start(const Program& program, const std::string& model_path, const std::string& package_path,
                DeviceType device, const std::vector<std::string>& targets, CompileObservers& observers) {
  if (observers.empty()) return;
  observers.started({model_path, package_path, device_type_name(device), targets, &program, {}});
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

// What a package would be made from, one file each: a change of the compiler is seen as a difference of them.
void write_generated(const std::string& directory, const loops::LoopProgram& program,
                     const codegen::GeneratedCode& generated, const codegen::Target& target, const format::Plan& plan) {
  const char* ending = codegen::backend_for(target.device).source_ending();
  const std::string folder = join_path(directory, target.name);
  make_directories(folder);
  write_file_atomic(join_path(folder, "loops.txt"), loops::print(program));
  write_file_atomic(join_path(folder, "plan.txt"), plan_text(plan));
  write_file_atomic(join_path(folder, "plan"), format::write_plan(plan));
  for (size_t i = 0; i < generated.sources.size(); ++i)
    write_file_atomic(join_path(folder, str("kernels_", i, ".", ending)), generated.sources[i]);
  write_file_atomic(join_path(folder, "flags.txt"), join(generated.flags, "\n") + "\n");
}

// Steps of a GPU's program that run on the host: their tensors go there and back.
void note_host_steps(const loops::LoopProgram& program, CompileReport& report) {
  std::vector<std::string> names;
  loops::for_each_item(program.block, [&](const loops::Item& item) {
    if (const auto* call = std::get_if<loops::Call>(&item.what)) names.push_back(call->name);
  });
  if (names.empty()) return;
  const size_t count = names.size();
  if (count > 8) names.resize(8);
  report.notes.push_back(str("performance hint: ", join(names, ", "),
                             count > 8   ? " and others run"
                             : count > 1 ? " run"
                                         : " runs",
                             " on the CPU, and what they read and write is copied between the GPU and the host"));
}

int count_kernels(const loops::LoopProgram& program) {
  int count = 0;
  loops::for_each_item(program.block,
                       [&](const loops::Item& item) { count += std::holds_alternative<loops::Kernel>(item.what); });
  return count;
}

std::vector<RecordedPass> recorded_passes(const Pipeline& passes) {
  std::vector<RecordedPass> out;
  for (const PassReport& pass : passes.passes()) {
    out.push_back({pass.name, pass.stage, pass.changed, pass.notes, {}});
    for (const loops::Decision& decision : passes.log().decisions())
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

Program read_model(const std::string& path, const Settings* settings) {
  Program program = read_pt2(path);
  if (!settings || !settings->get_bool("full_source_paths")) shorten_source_paths(program, parent_path(path));
  return program;
}

CompileReport compile(const std::string& model_path, const std::string& package_path, const CompileOptions& options) {
  return watched(options, [&](CompileObservers& observers) {
    if (options.progress) options.progress("read", 0, 0);
    const Program program = read_model(model_path, options.settings);
    return compile_program(program, model_path, package_path, options, observers);
  });
}

CompileReport compile(const Program& program, const std::string& package_path, const CompileOptions& options) {
  return watched(options, [&](CompileObservers& observers) {
    return compile_program(program, "", package_path, options, observers);
  });
}

namespace {

constexpr int64_t worth_a_thread = 4 << 20;  // bytes of weights

using DebugTexts = std::map<std::string, std::string>;

// What the debug section has that depends neither on the target nor on the code: the program, and what the passes did.
DebugTexts program_texts(const Program& program, const Program& graph, const Pipeline& passes) {
  DebugTexts out;
  out["graph.txt"] = print(program);
  out["passes.json"] = pass_record(recorded_passes(passes));
  out["loops_lowered.txt"] = passes.lowered_text();
  // Whose values the buffers hold: the truth for bisecting.
  out["lowered_graph.txt"] = print(graph);
  for (const auto& [value, buffer] : passes.log().merges()) out["merged_values.txt"] += str(value, "\t", buffer, "\n");
  return out;
}

// The weights go to the disk while kernels are compiled, where their form is known by now and there is a file to write.
void start_weights(PackageWriter& writer, Compilation& compilation, const CompileOptions& options,
                   PackageContents& contents) {
  contents.constants = compilation.graph().constants;
  if (options.inject.constants) options.inject.constants(contents.constants);
  const bool frozen = options.settings && options.settings->get_bool("freezing");
  int64_t bytes = 0;
  for (const auto& [name, tensor] : contents.constants) bytes += tensor.storage ? tensor.storage->bytes : 0;
  if (frozen || options.inject.plan || bytes < worth_a_thread || is_stream(writer.path())) return;
  writer.start_weights(compilation.plan(0).plan, contents);
}

// What a program for a GPU has on the CPU its callers have there.
void place_on_host(const HostValues& on_host, format::Plan& plan) {
  if (plan.device == DeviceType::cpu) return;
  for (size_t i = 0; i < plan.inputs.size() && plan.inputs.size() == on_host.inputs.size(); ++i)
    plan.inputs[i].on_host = on_host.inputs[i];
  for (size_t i = 0; i < plan.outputs.size() && plan.outputs.size() == on_host.outputs.size(); ++i)
    plan.outputs[i].on_host = on_host.outputs[i];
}

// The part of a package that is a target's own.
PackageContents::Variant make_variant(Compilation& compilation, size_t target, const HostValues& on_host,
                                      const std::string& model_path, const CompileOptions& options, std::string code) {
  PackageContents::Variant variant;
  variant.target = compilation.targets()[target].name;
  variant.code = std::move(code);
  variant.plan = compilation.plan(target).plan;
  place_on_host(on_host, variant.plan);
  if (options.inject.plan) options.inject.plan(variant.plan);
  variant.plan.kiln_version = version_text;
  variant.plan.torch_version = compilation.program().torch_version;
  add_metadata(model_path, options, variant.plan);
  variant.origins = compilation.plan(target).origins;
  variant.debug["loops.txt"] = loops::print(compilation.scheduled(target));
  return variant;
}

void keep_sources(Compilation& compilation, size_t target, PackageContents& contents) {
  const codegen::GeneratedCode& code = compilation.code(target);
  const std::string name = str("output_code_", compilation.targets()[target].name);
  for (size_t i = 0; i < code.sources.size(); ++i)
    contents.debug[str(name, "_", i, ".", compilation.backend().source_ending())] = code.sources[i];
  if (!code.sources.empty())
    contents.debug[name + ".flags"] = str("lanes ", compilation.targets()[target].lanes, "\n",
                                          join(compilation.build_request(code).flags, "\n"), "\n");
}

CompileReport compile_program(const Program& read, const std::string& model_path, const std::string& package_path,
                              const CompileOptions& options, CompileObservers& observers) {
  refuse_partial_compile(options);
  if (options.strip_debug && is_stream(package_path))
    fail_user("K0147", str("the debug section cannot lie beside ", package_path,
                           ", which is no file: leave out --strip-debug or name a file"));
  Stopwatch total, watch;
  CompileReport report;
  const std::optional<Program> moved =
      placed_program(read, options.device, [&](const std::string& note) { report.notes.push_back(note); });
  const Program& program = moved ? *moved : read;
  report.package_path = package_path;
  PackageContents contents;
  const DeviceType device = report.device = compile_device(read, options.device);
  Compilation compilation(program, compilation_options(options, device, observers));
  std::vector<std::string> names;
  for (const codegen::Target& target : compilation.targets()) {
    names.push_back(target.name);
    const ProductPrecision precision = product_precision(options.settings);
    if (precision != ProductPrecision::highest && !target.is_gpu() && !target.rounds_to_bf16)
      report.notes.push_back(str("float32_matmul_precision: products of f32 stay f32 on ", target.name,
                                 precision == ProductPrecision::medium
                                     ? ", which has no instructions for bf16"
                                     : ", which has nothing faster that is more precise than bf16 (medium)"));
    if (const int wanted = simdlen_of(options.settings); !target.is_gpu() && wanted > target.lanes * 32)
      report.notes.push_back(str("cpp.simdlen=", wanted, ": the vectors of ", target.name, " have ", target.lanes * 32,
                                 " bits, and those are used"));
  }
  if (options.settings && !options.settings->get_bool("pattern_matcher"))
    report.notes.push_back(str("pattern_matcher: without ", join(pattern_passes(), ", ")));
  contents.without_state = options.settings && !options.settings->get_bool("aot_inductor.package_constants_in_so");
  for (const InputSpec& input : program.input_specs)
    if (input.kind == InputKind::parameter || (input.kind == InputKind::buffer && input.persistent))
      contents.state.insert(input.target);
  PackageWriter writer(package_path);
  tell_start(program, model_path, package_path, device, names, observers);
  for (size_t target = 0; target < names.size(); ++target) {
    compilation.scheduled(target);
    const auto rounded = [](const PassReport& pass) { return pass.name == "round_factors" && pass.changed; };
    const std::vector<PassReport>& passes = compilation.passes(target).passes();
    if (compilation.targets()[target].rounds_to_bf16 && std::none_of(passes.begin(), passes.end(), rounded))
      report.notes.push_back(
          str("float32_matmul_precision: products of f32 stay f32 on ", names[target],
              ": none of them has a weight as a factor (an input is none), in pairs of terms, or one of bf16"));
    if (target == 0) report.missed_fault = missed_fault(compilation, FaultReach::code);
    if (target == 0 && !report.missed_fault.empty()) report.notes.push_back(report.missed_fault);
    report.schedule_seconds += watch.lap();
    const codegen::GeneratedCode& generated = compilation.code(target);
    const format::Plan& plan = compilation.plan(target).plan;
    if (!options.generated_to.empty())
      write_generated(options.generated_to, compilation.scheduled(target), generated, compilation.targets()[target],
                      plan);
    // NVRTC has no mode that only reads: there the kernels are built.
    if (options.goal == CompileGoal::syntax && device == DeviceType::cuda)
      build_code(compilation, target, options, observers, total, report);
    else if (options.goal == CompileGoal::syntax)
      located(generated, [&] {
        check_syntax(find_compiler(setting(options, "compiler")), build_request(compilation, generated, options));
        return true;
      });
    if (options.goal == CompileGoal::package) {
      std::string code;
      std::future<DebugTexts> texts;
      if (target == 0) {
        start_weights(writer, compilation, options, contents);
        // Written while kernels are compiled: near the end of that a processor has nothing else to do.
        texts = std::async(std::launch::async, [&, &graph = compilation.graph(), &passes = compilation.passes()] {
          return program_texts(program, graph, passes);
        });
      }
      if (!generated.sources.empty()) {
        code = build_code(compilation, target, options, observers, total, report);
        if (options.inject.code) options.inject.code(code);
      }
      if (texts.valid()) contents.debug = texts.get();
      contents.variants.push_back(
          make_variant(compilation, target, values_on_host(read), model_path, options, std::move(code)));
      keep_sources(compilation, target, contents);
    }
    report.toolchain_seconds += watch.lap();
  }
  if (device == DeviceType::cuda) {
    note_host_steps(compilation.scheduled(), report);
    if (simdlen_of(options.settings) != 0)
      report.notes.push_back(
          "cpp.simdlen does nothing: the package is for cuda, whose vectors are as wide as they are");
    // In the environment it is for whichever compile uses it.
    if (const std::string cxx = setting(options, "compiler"); !cxx.empty() && cxx != compiler_of_environment())
      report.notes.push_back(
          "compiler does nothing: the package is for cuda, which NVRTC compiles for (setting nvrtc)");
  } else if (!setting(options, "nvrtc").empty() && setting(options, "nvrtc") != "None")
    report.notes.push_back("nvrtc does nothing: the package is for the CPU");
  report.kernels = count_kernels(compilation.scheduled());
  report.kernels_compiled = static_cast<int>(compilation.code().symbols.size());
  if (options.goal != CompileGoal::package) return report;
  if (options.settings)
    if (const auto given = compile_assignments(*options.settings); !given.empty())
      contents.debug["settings.txt"] = join(given, "\n") + "\n";
  for (const std::string& library : options.custom_op_libs)
    contents.custom_libraries.push_back({file_name(library), read_file(library)});
  contents.sample_inputs = sample_inputs_file(program);
  contents.run_settings = run_defaults(options);
  if (!contents.run_settings.empty())
    report.notes.push_back(str("the package keeps ", join(contents.run_settings, ", "),
                               " for its runs; environment, options and calls of a run override it"));
  contents.in_spec = program.in_spec;
  contents.out_spec = program.out_spec;
  contents.argument_names = program.forward_arg_names;
  contents.strip_debug = options.strip_debug;
  contents.test = options.test;
  if (options.settings && options.settings->get_bool("freezing")) {
    if (options.progress) options.progress("pack weights", 0, 0);
    watch.lap();
    if (const std::string note = freeze(contents); !note.empty()) report.notes.push_back(note);
    const double seconds = watch.lap();
    if (!contents.variants.front().derived.empty()) report.packing_seconds = seconds;  // something was packed
  }
  if (options.progress) options.progress("write package", 0, 0);
  PackageWritten written = writer.finish(std::move(contents));
  report.package_seconds = watch.lap();
  report.weights_seconds = writer.weights_seconds();
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
