#include "trace/compile_trace.h"

#include "base/trace_file.h"
#include "graph/walk.h"
#include "loops/work_count.h"
#include "package/plan_builder.h"
#include "trace/graph_python.h"
#include "trace/kernel_facts.h"
#include "trace/memory_record.h"
#include "trace/plan_text.h"

namespace kiln {
namespace {

Json texts(const std::vector<std::string>& list) {
  Json out = Json::array();
  for (const std::string& item : list) out.push(item);
  return out;
}

Json where_json(const Where& where) {
  Json out = Json::object();
  if (where.source.known()) {
    out.set("file", where.source.file);
    out.set("line", where.source.line);
    out.set("function", where.source.function);
    out.set("text", where.source.text);
  }
  out.set("module", where.module_path);
  out.set("node", where.node);
  out.set("op", where.op);
  out.set("pass", where.pass);
  return out;
}

class CompileTrace : public CompileObserver {
 public:
  explicit CompileTrace(const std::string& directory) : file_(directory) {}

  void started(const CompileStart& start) override {
    program_ = start.program;
    Json record = Json::object();
    record.set("model", start.program->name);
    record.set("model_path", start.model_path);
    record.set("package_path", start.package_path);
    record.set("device", start.device);
    record.set("targets", texts(start.targets));
    record.set("torch_version", start.program->torch_version);
    record.set("nodes", static_cast<int64_t>(start.program->graph.nodes.size()));
    int64_t bytes = 0;
    for (const auto& [name, tensor] : start.program->constants) bytes += tensor.numel() * dtype_bytes(tensor.dtype);
    record.set("weights", static_cast<int64_t>(start.program->constants.size()));
    record.set("weight_bytes", bytes);
    if (start.recorded) {
      record.set("recorded", true);
      record.set("kiln_version", start.recorded->kiln_version);
      record.set("settings", texts(start.recorded->settings));
    }
    file_.write("compile_start", record);
    write_graph("read", "as exported", readable_python(*start.program));
  }

  void pass_done(const PassEvent& pass) override {
    Json record = Json::object();
    record.set("name", pass.name);
    record.set("stage", pass.stage);
    if (!pass.recorded) record.set("start_ms", pass.start_ms), record.set("run_ms", pass.run_ms);
    record.set("changed", pass.changed);
    file_.write("pass", record);
    const bool graph = pass.stage == "graph";
    if (pass.changed && (graph ? pass.program != nullptr : pass.loops != nullptr))
      write_graph(pass.name, pass.stage, graph ? readable_python(*pass.program) : loops::print(*pass.loops));
    if (pass.stage == "lower" && pass.program) remember_values(pass.program->graph);
    for (const std::string& note : pass.notes) {
      Json line = Json::object();
      line.set("pass", pass.name);
      line.set("text", note);
      file_.write("note", line);
    }
    if (pass.decisions.empty()) return;
    Json list = Json::array();
    for (const loops::Decision* decision : pass.decisions) list.push(decision_json(*decision));
    Json decisions = Json::object();
    decisions.set("pass", pass.name);
    decisions.set("decisions", std::move(list));
    file_.write("fusion", decisions);
  }

  void code_made(const CodeEvent& event) override {
    if (!event.plan) return;
    const std::map<std::string, SymbolInfo> symbols =
        program_ ? program_->symbols : std::map<std::string, SymbolInfo>{};
    const SymbolValues sample = sample_values(symbols);
    for (const KernelFacts& kernel : kernel_facts(event)) {
      Json record = kernel_json(kernel);
      if (kernel.kernel) add_work(*kernel.kernel, event.loops->buffers, sample, record);
      file_.write("kernel", record);
    }
    file_.write("guards", guards_json(*event.plan));
    file_.write("values", values_json(event));
    file_.write("memory", memory_record(*event.plan, symbols));
    Json prelude = Json::object();
    prelude.set("target", event.target->name);
    prelude.set("lanes", event.target->lanes);
    prelude.set("flags", texts(event.code->flags));
    prelude.set("units", static_cast<int64_t>(event.code->sources.size()));
    file_.write("code", prelude);
  }

  void job_done(const JobEvent& job) override {
    Json record = Json::object();
    record.set("name", job.name);
    record.set("target", job.target);
    record.set("start_ms", job.start_ms);
    record.set("run_ms", job.run_ms);
    record.set("from_cache", job.from_cache);
    file_.write("job", record);
  }

  void finished(const CompileEnd& end) override {
    Json record = Json::object();
    record.set("seconds", end.seconds);
    record.set("schedule_seconds", end.schedule_seconds);
    record.set("toolchain_seconds", end.toolchain_seconds);
    record.set("package_seconds", end.package_seconds);
    record.set("kernels", end.kernels);
    record.set("kernels_compiled", end.kernels_compiled);
    record.set("from_cache", end.from_cache);
    record.set("package_bytes", static_cast<int64_t>(end.package_bytes));
    file_.write("compile_end", record);
  }

  void failed(const Error& error) override { file_.write("error", error_record(error)); }

  std::vector<std::string> notes() const override { return {str("trace: ", file_.path())}; }

 private:
  void write_graph(const std::string& name, const std::string& stage, const std::string& text) {
    Json record = Json::object();
    record.set("name", name);
    record.set("stage", stage);
    record.set("text", text);
    file_.write("stage", record);
  }

  // Where each value of the lowered graph comes from, the subgraphs of control flow included.
  void remember_values(const Graph& graph) {
    std::map<const Value*, std::string> lists;  // by an element: the list that a node gave
    for_each_node(graph, [&](const Node& node) {
      const Origin origin = node.origins.empty() ? Origin{} : node.origins.front();
      std::vector<std::string> uses;
      for (const Node::NamedArgument& argument : node.args)
        for_each_value(argument.arg, [&](const Value* value) {
          const auto list = lists.find(value);
          const std::string& name = list == lists.end() ? value->name : list->second;
          if (std::find(uses.begin(), uses.end(), name) == uses.end()) uses.push_back(name);
        });
      for (const Value* value : node.results)
        for (const Value* item : value->items) lists[item] = value->name;
      for (const Value* value : node.results) values_.push_back({value->name, node.target, origin, uses});
    });
  }

  // The buffer that holds it and the step that writes it; neither for a value that only exists inside a kernel.
  Json values_json(const CodeEvent& event) const {
    std::map<std::string, std::string> buffers, writers;
    if (event.merged) buffers.insert(event.merged->begin(), event.merged->end());
    const auto visit = [&](const format::Step& step, int) {
      if (!step.blocks.empty()) return;
      for (const StepAccess& access : step_accesses(step))
        if (access.writes) writers.emplace(event.plan->buffers.at(static_cast<size_t>(access.buffer)).name, step.name);
    };
    for_each_step(event.plan->init, visit);
    for_each_step(event.plan->steps, visit);
    Json list = Json::array();
    for (const ValueOrigin& value : values_) {
      Json one = Json::object();
      one.set("value", value.name);
      one.set("op", value.op);
      one.set("node", value.origin.node);
      one.set("module", value.origin.module_path);
      one.set("line", source_text(value.origin));
      one.set("uses", texts(value.uses));
      const auto merged = buffers.find(value.name);
      const std::string buffer = merged == buffers.end() ? value.name : merged->second;
      if (const auto writer = writers.find(buffer); writer != writers.end())
        one.set("buffer", buffer), one.set("kernel", writer->second);
      list.push(std::move(one));
    }
    Json record = Json::object();
    record.set("values", std::move(list));
    return record;
  }

  static Json decision_json(const loops::Decision& decision) {
    Json one = Json::object();
    one.set("verdict", decision.verdict);
    one.set("subject", decision.subject);
    if (!decision.other.empty()) one.set("link", decision.link);
    if (!decision.other.empty()) one.set("other", decision.other);
    one.set("reason", decision.reason);
    one.set("taken", decision.taken);
    return one;
  }

  static Json kernel_json(const KernelFacts& kernel) {
    Json record = Json::object();
    record.set("name", kernel.name);
    record.set("step", kernel.step);
    record.set("kind", kernel.kind);
    record.set("init", kernel.init);
    record.set("depth", kernel.depth);
    record.set("call", kernel.call);
    record.set("symbol", kernel.symbol);
    // Equal bodies are said once, with the kernel that gave the function its name.
    if (kernel.symbol == kernel.name) record.set("source", kernel.source);
    record.set("loops", kernel.loops);
    record.set("schedule", kernel.schedule);
    Json origins = Json::array();
    for (const KernelFacts::From& from : kernel.origins) {
      Json one = Json::object();
      one.set("node", from.node);
      one.set("op", from.op);
      one.set("module", from.module);
      one.set("line", from.line);
      origins.push(std::move(one));
    }
    record.set("origins", std::move(origins));
    record.set("hints", texts(kernel.hints));
    record.set("reads", texts(kernel.reads));
    record.set("writes", texts(kernel.writes));
    return record;
  }

  // For the sizes of the sample; nothing where a loop's length depends on what only a run knows.
  static void add_work(const loops::Kernel& kernel, const std::vector<loops::Buffer>& buffers,
                       const SymbolValues& sample, Json& record) {
    try {
      const Work work = count_work(kernel, buffers, sample);
      record.set("flops", work.flops);
      record.set("bytes", work.bytes);
    } catch (const Error&) {
    }
  }

  static Json guards_json(const format::Plan& plan) {
    Json guards = Json::array(), symbols = Json::array(), inputs = Json::array(), outputs = Json::array();
    for (const format::Guard& guard : plan.guards) {
      Json one = Json::object();
      one.set("text", guard.text);
      one.set("reason", guard.reason);
      guards.push(std::move(one));
    }
    for (const format::Symbol& symbol : plan.symbols) {
      Json one = Json::object();
      one.set("name", symbol.name);
      if (symbol.low != INT64_MIN) one.set("low", symbol.low);
      if (symbol.high != INT64_MAX) one.set("high", symbol.high);
      one.set("source", symbol_source_text(plan, symbol));
      symbols.push(std::move(one));
    }
    for (const format::Input& input : plan.inputs) {
      Json one = Json::object();
      one.set("name", input.name);
      one.set("type", input.buffer == format::none ? "number" : plan_buffer_type(plan, input.buffer));
      one.set("mutated", input.mutated);
      inputs.push(std::move(one));
    }
    for (const format::Output& output : plan.outputs) {
      Json one = Json::object();
      one.set("name", output.shown_name());
      if (!output.key.empty()) one.set("value", output.name);
      one.set("type", output.buffer == format::none ? "number" : plan_buffer_type(plan, output.buffer));
      outputs.push(std::move(one));
    }
    Json record = Json::object();
    record.set("guards", std::move(guards));
    record.set("symbols", std::move(symbols));
    record.set("inputs", std::move(inputs));
    record.set("outputs", std::move(outputs));
    return record;
  }

  struct ValueOrigin {
    std::string name, op;
    Origin origin;
    std::vector<std::string> uses;  // values
  };
  TraceFile file_;
  const Program* program_ = nullptr;
  std::vector<ValueOrigin> values_;
};

}  // namespace

Json error_record(const Error& error) {
  Json record = Json::object();
  record.set("code", error.code());
  record.set("message", error.message());
  record.set("where", where_json(error.where()));
  record.set("text", error.what());
  return record;
}

std::unique_ptr<CompileObserver> make_compile_trace(const std::string& directory) {
  return std::make_unique<CompileTrace>(directory);
}

}  // namespace kiln
