#include "driver/package_debug.h"

#include <set>

#include "base/inflate.h"
#include "base/trace_file.h"
#include "base/zip.h"
#include "driver/pipeline.h"
#include "package/plan_io.h"
#include "pt2/tensor_files.h"
#include "trace/compile_logs.h"
#include "trace/compile_observer.h"
#include "trace/compile_trace.h"
#include "trace/debug_directory.h"
#include "trace/plan_text.h"

namespace kiln {
namespace {

// The entries of a package and, where it was stripped, of the sidecar that belongs to it.
class DebugSection {
 public:
  explicit DebugSection(const std::string& path) : file_(MappedFile::open(path)) {
    zip_ = std::make_unique<ZipReader>(file_->bytes(), path, inflate_entry);
    for (const ZipEntry& entry : zip_->entries())
      if (entry.name.find("data/kiln/") != std::string::npos && ends_with(entry.name, "/plan"))
        folder_ = entry.name.substr(0, entry.name.size() - std::string_view("plan").size());
    if (folder_.empty()) fail_user("K0501", str(path, " is not a package of Kiln: it has no plan"));
    plan = format::read_plan(zip_->read(*zip_->find(folder_ + "plan")).bytes);
    const std::string beside = path + ".debug";
    if (zip_->find(folder_ + "debug/loops.txt") || !file_exists(beside)) return;
    sidecar_file_ = MappedFile::open(beside);
    sidecar_ = std::make_unique<ZipReader>(sidecar_file_->bytes(), beside, inflate_entry);
    const ZipEntry* id = sidecar_->find(folder_ + "build_id");
    if (!id || as_text(sidecar_->read(*id).bytes) != plan.build_id) sidecar_.reset();
  }

  std::optional<std::string> text(const std::string& name) const {
    for (const ZipReader* zip : {zip_.get(), sidecar_.get()})
      if (zip)
        if (const ZipEntry* entry = zip->find(folder_ + name)) return std::string(as_text(zip->read(*entry).bytes));
    return std::nullopt;
  }

  // The weights that the plan has kept, for those that the graph names.
  void fill_constants(std::map<std::string, Tensor>& constants) const {
    for (const format::Constant& constant : plan.constants) {
      const auto found = constants.find(constant.name);
      const ZipEntry* entry = zip_->find(constant.entry);
      if (!entry) entry = zip_->find(folder_ + constant.entry);
      if (found == constants.end() || !entry) continue;
      const ByteSpan bytes = zip_->stored(*entry);
      const auto offset = static_cast<size_t>(constant.storage_offset), size = static_cast<size_t>(constant.bytes);
      if (offset > bytes.size() || size > bytes.size() - offset) continue;
      Tensor& tensor = found->second;
      if (storage_bytes_needed(tensor.dtype, tensor.sizes, tensor.strides, 0) > constant.bytes) continue;
      tensor.offset = 0;
      tensor.storage = storage_over(bytes.subspan(offset, size), file_);
    }
  }

  format::Plan plan;

 private:
  std::shared_ptr<const MappedFile> file_, sidecar_file_;
  std::unique_ptr<ZipReader> zip_, sidecar_;
  std::string folder_;
};

std::vector<std::string> custom_operators(const format::Plan& plan) {
  std::set<std::string> names;
  for_each_step(plan.steps, [&](const format::Step& step, int) {
    if (step.kind == format::StepKind::custom) names.insert(step.target);
  });
  return {names.begin(), names.end()};
}

void tell(const DebugSection& section, const std::string& path, CompileObservers& observers) {
  Program program = parse_program(*section.text("debug/graph.txt"));
  section.fill_constants(program.constants);
  const std::string target_name =
      section.plan.code.empty() ? codegen::host_target_name() : section.plan.code.front().target;
  const codegen::CpuTarget target = codegen::cpu_target(target_name);
  observers.started({path, path, "cpu", {target_name}, &program});
  PipelineOptions options;
  options.lanes = target.lanes;
  options.custom_ops = custom_operators(section.plan);
  options.observer = &observers;
  run_pipeline(program, options);
  const loops::LoopProgram loops = loops::parse_loops(*section.text("debug/loops.txt"));
  const codegen::GeneratedCode code = codegen::generate_cpu(loops, target);
  format::Origins origins;
  if (const auto bytes = section.text("debug/origins")) origins = format::read_origins(as_bytes(*bytes));
  observers.code_made({&target, &code, &loops, &section.plan, &origins});
}

}  // namespace

std::vector<std::string> tell_of_package(const std::string& path, const Settings& settings) {
  LogSelection selection(settings.get_list("TORCH_LOGS"));
  const bool logs = selection.any() || selection.help(), debug = debug_directory_wanted(settings);
  if (!logs && !debug) return {};
  const DebugSection section(path);
  const std::string file = settings.get_string("TORCH_LOGS_OUT");
  if (!section.text("debug/graph.txt") || !section.text("debug/loops.txt")) {
    if (logs) log_package({&section.plan, nullptr, {}, "", path}, selection, file);
    if (!debug) return {};
    return {str("no debug directory: ", path, " carries no debug section and ", path, ".debug is not there")};
  }
  CompileObservers observers;
  if (logs) observers.add(make_compile_logs(std::move(selection), file));
  if (debug) observers.add(make_debug_directory(debug_run_directory(settings)));
  tell(section, path, observers);
  return observers.notes();
}

void trace_error(const Error& error, const Settings& settings) {
  const std::string directory = settings.get_string("TORCH_TRACE");
  if (directory.empty()) return;
  try {
    TraceFile file(directory);
    file.write("error", error_record(error));
  } catch (const Error&) {
    // The error itself is what the user must see.
  }
}

}  // namespace kiln
