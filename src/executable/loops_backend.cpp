#include "compile/missed_fault.h"
#include "custom/custom_operators.h"
#include "executable/backends.h"
#include "loops/interpreter.h"
#include "ops/op_record.h"

namespace kiln {
namespace {

TensorType type_of(const loops::Buffer& buffer) {
  TensorType type;
  type.dtype = buffer.tensor_dtype();
  type.sizes = buffer.tensor_sizes();
  type.strides = buffer.tensor_strides();
  return type;
}

void flatten(const Datum& datum, std::vector<Tensor>& out) {
  if (datum.is_tensor()) out.push_back(datum.tensor());
  if (datum.is_list())
    for (const Datum& item : datum.list()) flatten(item, out);
}

// Runs the steps that are no loops: library kernels by the reference of their operator, custom operators by the user's
// own code.
class CallRunner {
 public:
  CallRunner(const loops::LoopProgram& program, const CustomOperators& custom) : program_(program), custom_(custom) {}

  void run(const loops::Call& call, loops::CallFrame& frame) const {
    try {
      const std::vector<Tensor> results = call.custom ? run_custom(call, frame) : run_reference(call, frame);
      if (results.size() != call.outputs.size())
        fail_bug(
            str(call.target, " gave ", results.size(), " tensors, its call has ", call.outputs.size(), " outputs"));
      for (size_t i = 0; i < results.size(); ++i) frame.set_result(i, results[i]);
    } catch (Error& error) {
      Where where;
      where.op = call.target;
      if (!call.origins.empty()) {
        where.node = call.origins[0].node;
        where.module_path = call.origins[0].module_path;
        if (const SourceLine* line = call.origins[0].line()) where.source = *line;
      }
      error.locate(where);
      throw;
    }
  }

 private:
  const loops::Buffer& output(const loops::Call& call, size_t i) const {
    return program_.buffers[static_cast<size_t>(call.outputs[i])];
  }

  std::vector<Tensor> run_custom(const loops::Call& call, loops::CallFrame& frame) const {
    CustomOperators::Args args;
    for (const loops::Call::Arg& arg : call.args) args.emplace_back(arg.name, frame.argument(arg));
    std::vector<CustomResult> declared;
    for (size_t i = 0; i < call.outputs.size(); ++i) declared.push_back({false, {type_of(output(call, i))}});
    std::vector<Tensor> results;
    for (const Datum& result : custom_.call(call.target, args, declared, written_arguments(call)))
      flatten(result, results);
    return results;
  }

  static std::vector<std::string> written_arguments(const loops::Call& call) {
    std::vector<std::string> names;
    auto written = [&](loops::BufferId id) {
      return std::find(call.mutates.begin(), call.mutates.end(), id) != call.mutates.end();
    };
    for (const loops::Call::Arg& arg : call.args) {
      const auto* id = std::get_if<loops::BufferId>(&arg.value);
      const auto* ids = std::get_if<std::vector<loops::BufferId>>(&arg.value);
      if ((id && written(*id)) || (ids && std::any_of(ids->begin(), ids->end(), written))) names.push_back(arg.name);
    }
    return names;
  }

  Argument graph_argument(Graph& graph, const loops::Call::Arg& arg) const {
    const auto value_of = [&](loops::BufferId id) {
      if (id == loops::no_buffer) return Argument();
      const loops::Buffer& buffer = program_.buffers[static_cast<size_t>(id)];
      Value* value = graph.add_input(graph.unique_name(buffer.name), ValueKind::tensor);
      value->type = type_of(buffer);
      return Argument(value);
    };
    if (const auto* id = std::get_if<loops::BufferId>(&arg.value)) return value_of(*id);
    if (const auto* ids = std::get_if<std::vector<loops::BufferId>>(&arg.value)) {
      Argument::List list;
      for (const loops::BufferId id : *ids) list.push_back(value_of(id));
      return Argument(std::move(list));
    }
    if (const auto* exprs = std::get_if<std::vector<Expr>>(&arg.value))
      return Argument(Argument::List(exprs->begin(), exprs->end()));
    if (const auto* expr = std::get_if<Expr>(&arg.value)) return Argument(*expr);
    if (const auto* scalar = std::get_if<Scalar>(&arg.value)) return Argument(*scalar);
    if (const auto* text = std::get_if<std::string>(&arg.value)) return Argument(*text);
    if (const auto* dtype = std::get_if<DType>(&arg.value)) return Argument(*dtype);
    return Argument();
  }

  std::vector<Tensor> run_reference(const loops::Call& call, loops::CallFrame& frame) const {
    const OpRecord* record = Registry::instance().find(call.target);
    if (!record || !record->reference) fail_bug(str("no reference evaluation for the library call ", call.target));
    // References ask the node for the types of its arguments and results; a call has them in its buffers.
    Graph graph;
    std::vector<Node::NamedArgument> args;
    for (const loops::Call::Arg& arg : call.args) args.push_back({arg.name, graph_argument(graph, arg)});
    Node* node = graph.add_node(call.target, call.name);
    node->args = std::move(args);
    node->op = record;
    node->origins = call.origins;
    for (size_t i = 0; i < call.outputs.size(); ++i)
      graph.add_result(node, str("result_", i), ValueKind::tensor)->type = type_of(output(call, i));
    ReferenceCall reference(*node, record->schema);
    for (const loops::Call::Arg& arg : call.args) {
      const DType* dtype = std::get_if<DType>(&arg.value);
      reference.values[arg.name] = dtype ? Datum{std::string(dtype_name(*dtype))} : frame.argument(arg);
    }
    record->reference(reference);
    std::vector<Tensor> results;
    for (const Datum& result : reference.results) flatten(result, results);
    return results;
  }

  const loops::LoopProgram& program_;
  const CustomOperators& custom_;
};

class LoopsExecutable : public Executable {
 public:
  LoopsExecutable(const Program& program, const ExecutableOptions& options) : custom_(options.custom_op_libs) {
    CompilationOptions compilation_options;
    compilation_options.settings = options.settings;
    compilation_options.custom_ops = custom_.declared();
    Compilation compilation(program, std::move(compilation_options));
    loops_ = (options.schedule ? compilation.scheduled() : compilation.lowered()).clone();
    constants_ = compilation.graph().constants;
    const std::string note = missed_fault(compilation, options.schedule ? FaultReach::scheduled : FaultReach::lowered);
    if (options.note && !note.empty()) options.note(note);
    reset();
  }

  CallResult call(const std::vector<Datum>& inputs) override {
    loops::LoopRun run = interpreter_->run(inputs);
    return {std::move(run.outputs), std::move(run.inputs), std::move(run.state)};
  }

  void reset() override {
    loops::LoopRunOptions options;
    options.call = [this](const loops::Call& call, loops::CallFrame& frame) {
      CallRunner(loops_, custom_).run(call, frame);
    };
    interpreter_ = std::make_unique<loops::LoopInterpreter>(loops_, constants_, options);
  }

 private:
  CustomOperators custom_;
  loops::LoopProgram loops_;
  std::map<std::string, Tensor> constants_;
  std::unique_ptr<loops::LoopInterpreter> interpreter_;
};

}  // namespace

std::unique_ptr<Executable> make_loops_executable(const Program& program, const ExecutableOptions& options) {
  return std::make_unique<LoopsExecutable>(program, options);
}

}  // namespace kiln
