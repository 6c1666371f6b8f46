#include "trace/compile_logs.h"

#include "base/counted.h"
#include "base/log_writer.h"
#include "trace/graph_python.h"
#include "trace/kernel_facts.h"
#include "trace/plan_text.h"

namespace kiln {
namespace {

std::string ms_text(double ms) {
  char text[32];
  snprintf(text, sizeof text, "%.2f ms", ms);
  return text;
}

std::string bound(int64_t value) {
  if (value == INT64_MIN) return "-oo";
  return value == INT64_MAX ? "oo" : str(value);
}

std::unique_ptr<LogWriter> make_writer(const std::string& file) {
  return file.empty() ? std::make_unique<LogWriter>(stderr) : std::make_unique<LogWriter>(file);
}

std::string signature_text(const Program& program) {
  size_t users = 0;
  for (const InputSpec& spec : program.input_specs) users += spec.kind == InputKind::user;
  return str(counted(program.graph.nodes.size(), "node"), ", ", counted(users, "input"), ", ",
             counted(program.constants.size(), "weight"), ", ", counted(program.symbols.size(), "symbol"));
}

class CompileLogs : public CompileObserver {
 public:
  CompileLogs(LogSelection selection, const std::string& file)
      : selection_(std::move(selection)), writer_(make_writer(file)) {
    if (selection_.help()) writer_->write(LogLevel::info, "logs", "", LogSelection::help_text());
  }

  void started(const CompileStart& start) override {
    const Program& program = *start.program;
    if (start.recorded)
      say("inductor", LogLevel::info, "package",
          str(start.package_path, ", compiled by Kiln ", start.recorded->kiln_version, " for ", start.device, " (",
              join(start.targets, ", "), ")",
              start.recorded->settings.empty() ? "" : str(" with ", join(start.recorded->settings, ", ")), ": ",
              signature_text(program), "; what follows was recorded then"));
    else
      say("inductor", LogLevel::info, "compile",
          str("compiling ", start.model_path.empty() ? program.name : start.model_path, " for ", start.device, " (",
              join(start.targets, ", "), "): ", signature_text(program)));
    say("export", LogLevel::info, "read",
        str("exported by torch ", program.torch_version, ", schema ", program.schema_major, ".", program.schema_minor));
    artifact("graph", "read", [&] { return node_table(program.graph); });
    artifact("graph_code", "read", [&] { return readable_python(program); });
    artifact("graph_sizes", "read", [&] { return sizes_text(program.graph); });
    say_symbols(program);
    artifact("guards", "read", [&] { return guards_text(program); });
  }

  void pass_done(const PassEvent& pass) override {
    if (selection_.wants("inductor", LogLevel::debug))
      writer_->write(LogLevel::debug, pass.name, "",
                     str("pass ", pass.name, ": ", pass.changed ? "changed" : "unchanged",
                         pass.recorded ? "" : str(" in ", ms_text(pass.run_ms))));
    for (const std::string& note : pass.notes) artifact("fusion", pass.name, [&] { return note; });
    for (const loops::Decision* decision : pass.decisions) {
      if (decision->verdict != "name") artifact("fusion", pass.name, [&] { return decision->text(); });
      if (starts_with(decision->verdict, "mm template") || starts_with(decision->verdict, "no mm template") ||
          starts_with(decision->verdict, "no contraction"))
        artifact("autotuning", pass.name, [&] { return str(decision->text(), " (by rule, not measured)"); });
    }
    if (pass.stage != "lower") return;
    if (pass.program) artifact("aot_graphs", pass.name, [&] { return readable_python(*pass.program); });
    if (pass.program) artifact("post_grad_graphs", pass.name, [&] { return readable_python(*pass.program); });
    if (pass.loops) artifact("ir_pre_fusion", pass.name, [&] { return loops::print(*pass.loops); });
  }

  void code_made(const CodeEvent& event) override {
    if (event.plan) {
      artifact("ir_post_fusion", "schedule", [&] { return loops::print(*event.loops); });
      for (const KernelFacts& kernel : kernel_facts(event)) say_kernel(kernel);
    }
    for (size_t s = 0; s < event.code->sources.size(); ++s)
      artifact("output_code", event.target->name, [&] {
        return str("Output code, unit ", s + 1, " of ", event.code->sources.size(), ":\n", event.code->sources[s]);
      });
  }

  void job_done(const JobEvent& job) override {
    say("async_compile", LogLevel::info, "toolchain", str(job.target, ": ", job.name, " in ", ms_text(job.run_ms)));
    say("cache", LogLevel::info, "toolchain", str(job.target, ": ", job.from_cache ? "cache hit" : "cache miss"));
  }

  void finished(const CompileEnd& end) override {
    const std::string counts =
        str(counted(static_cast<uint64_t>(end.kernels), "kernel"), ", ", end.kernels_compiled, " distinct");
    say("inductor", LogLevel::info, "compile",
        str("done: ", counts, " in ", ms_text(end.seconds * 1000), " (schedule ", ms_text(end.schedule_seconds * 1000),
            ", C++ ", ms_text(end.toolchain_seconds * 1000), end.from_cache ? " from the cache" : "", ", package ",
            ms_text(end.package_seconds * 1000), ")"));
    artifact("inductor_metrics", "compile",
             [&] { return str(counts, ", package of ", bytes_text(end.package_bytes)); });
  }

  void failed(const Error& error) override { writer_->write(LogLevel::error, "compile", "", error.what()); }

 private:
  void say(const char* component, LogLevel level, std::string_view who, const std::string& text) {
    if (selection_.wants(component, level)) writer_->write(level, who, "", text);
  }
  template <class Make>
  void artifact(const char* name, std::string_view who, Make make) {
    if (selection_.artifact(name)) writer_->write(LogLevel::debug, who, name, make());
  }

  void say_symbols(const Program& program) {
    if (!selection_.wants("dynamic", LogLevel::info)) return;
    for (const auto& [name, info] : program.symbols)
      writer_->write(LogLevel::info, "read", "",
                     str("symbol ", name, " in [", bound(info.range.low), ", ", bound(info.range.high), "]",
                         info.hint ? str(", ", *info.hint, " in the sample") : "", info.unbacked ? ", from data" : ""));
    if (program.symbols.empty()) writer_->write(LogLevel::info, "read", "", "every size is fixed");
  }

  static std::string guards_text(const Program& program) {
    if (program.guards.empty()) return "no guards";
    return join_map(program.guards, "\n",
                    [](const Guard& guard) { return str(guard.condition.text(), "  because ", guard.reason); });
  }

  static std::string sizes_text(const Graph& graph) {
    std::string out;
    for (const auto& node : graph.nodes)
      for (const Value* value : node->results)
        if (value->kind == ValueKind::tensor) out += str(value->name, ": (", shape_text(value->type.sizes), ")\n");
    return out;
  }

  void say_kernel(const KernelFacts& kernel) {
    artifact("schedule", kernel.name, [&] { return kernel.schedule; });
    artifact("kernel_code", kernel.name, [&] {
      std::string text = str("step ", kernel.step, ": ", kernel.call, "\n");
      for (const KernelFacts::From& from : kernel.origins)
        text += str("  from ", from.op, " (", from.node, ")", from.module.empty() ? "" : " in " + from.module,
                    from.line.empty() ? "" : "  " + from.line, "\n");
      return text + kernel.source;
    });
    for (const std::string& hint : kernel.hints) artifact("perf_hints", kernel.name, [&] { return hint; });
  }

  LogSelection selection_;
  std::unique_ptr<LogWriter> writer_;
};

}  // namespace

std::unique_ptr<CompileObserver> make_compile_logs(LogSelection selection, const std::string& file) {
  return std::make_unique<CompileLogs>(std::move(selection), file);
}

}  // namespace kiln
