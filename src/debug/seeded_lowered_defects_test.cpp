// Mistakes in the lowering of single operators, at every place of every model: for each operator kinds of mistakes are
// tried until one shows in the model's results, as the loops that were lowered compute them.
#include <algorithm>
#include <set>

#include "check/compare.h"
#include "compile/pipeline.h"
#include "debug/seeded_defects.h"
#include "debug/seeded_mutations.h"
#include "debug/tensor_difference.h"
#include "loops/interpreter.h"

namespace kiln::seeded {
namespace {

struct Lowered {
  loops::LoopProgram loops;
  std::map<std::string, Tensor> constants;
  std::set<std::string> nodes;  // names of the operators in the graph that was lowered
};

void collect_nodes(const Graph& graph, std::set<std::string>& names) {
  for (const auto& node : graph.nodes) {
    names.insert(node->name);
    for (const auto& named : node->args)
      if (named.arg.is_graph()) collect_nodes(*named.arg.as_graph(), names);
  }
}

Lowered lower_model(const Program& program) {
  Lowered out;
  PipelineOptions options;
  options.schedule = false;
  options.lowered = [&](loops::LoopProgram& p) { out.loops = p.clone(); };
  PipelineResult result = run_pipeline(program, options);
  out.constants = std::move(result.constants);
  collect_nodes(parse_program(result.graph_text).graph, out.nodes);
  return out;
}

std::vector<loops::Kernel*> kernels_of(loops::LoopProgram& program) {
  std::vector<loops::Kernel*> out;
  loops::for_each_item(program.block, [&](loops::Item& item) {
    if (auto* kernel = std::get_if<loops::Kernel>(&item.what)) out.push_back(kernel);
  });
  return out;
}

std::vector<Tensor> results_of(const loops::LoopProgram& program, const Lowered& lowered,
                               const std::vector<Datum>& inputs) {
  const loops::LoopRun run = loops::LoopInterpreter(program, lowered.constants).run(inputs);
  std::vector<Tensor> out;
  for (const auto* list : {&run.outputs, &run.inputs})
    for (const Datum& datum : *list)
      if (datum.is_tensor()) out.push_back(datum.tensor());
  for (const auto& [name, tensor] : run.state) out.push_back(tensor);
  return out;
}

// Whether the results of the changed program show it, or an access outside of a buffer does.
bool shows(const loops::LoopProgram& changed, const Lowered& lowered, const std::vector<Datum>& inputs,
           const std::vector<Tensor>& right) {
  std::vector<Tensor> got;
  try {
    got = results_of(changed, lowered, inputs);
  } catch (const Error& error) {
    return error.code() == "K0330";
  }
  for (size_t i = 0; i < right.size(); ++i) {
    const Tolerance tolerance = default_tolerance(right[i].dtype);  // far beyond what rounding could explain
    if (find_difference(got[i], right[i], {}, {20 * tolerance.rtol, 20 * tolerance.atol})) return true;
  }
  return false;
}

// Of an operator of the model, by its name.
loops::Kernel* kernel_named(loops::LoopProgram& program, const std::string& name, size_t which) {
  for (loops::Kernel* kernel : kernels_of(program))
    if (kernel->name == name && which-- == 0) return kernel;
  return nullptr;
}

// Those of them that are spread evenly over the model.
std::vector<std::string> chosen(const std::vector<std::string>& names, size_t per_model) {
  if (names.size() <= per_model) return names;
  std::vector<std::string> out;
  for (size_t i = 0; i < per_model; ++i) out.push_back(names[i * (names.size() - 1) / (per_model - 1)]);
  return out;
}

void add_defects(const Model& model, size_t per_model, size_t& kind, std::vector<Defect>& all) {
  const Program program = program_of(model);
  const std::vector<Datum> inputs = inputs_of(program);
  Lowered lowered = lower_model(program);
  const std::vector<Tensor> right = results_of(lowered.loops, lowered, inputs);
  std::vector<std::string> names;
  for (const loops::Kernel* kernel : kernels_of(lowered.loops))
    if (lowered.nodes.count(kernel->name) && std::count(names.begin(), names.end(), kernel->name) == 0)
      names.push_back(kernel->name);
  const std::vector<std::string> nodes = chosen(names, per_model);
  size_t made = 0;
  std::set<std::string> done;
  for (size_t turn = 0; made < per_model && turn < nodes.size() * mutations().size(); ++turn) {
    const std::string& node = nodes[turn % nodes.size()];
    for (size_t tried = 0; tried < mutations().size(); ++tried) {
      const Mutation& mutation = mutations()[kind++ % mutations().size()];
      loops::LoopProgram changed = lowered.loops.clone();
      loops::Kernel* kernel = kernel_named(changed, node, 0);
      if (done.count(node + mutation.name) || !mutation.apply(changed, *kernel)) continue;
      if (!shows(changed, lowered, inputs, right)) continue;
      done.insert(node + mutation.name);
      Defect d;
      d.name = str("lowering: ", mutation.name), d.model = model, d.fault = FaultClass::none;
      d.kernel = node, d.value = node, d.ops = {node};
      d.lowered = [&mutation](loops::LoopProgram& p, loops::Kernel& k) { mutation.apply(p, k); };
      all.push_back(std::move(d));
      ++made;
      break;
    }
  }
}

}  // namespace

std::vector<Defect> lowered_defects(size_t per_model) {
  std::vector<Defect> all;
  size_t kind = 0;
  for (const Model& model : every_model()) add_defects(model, per_model, kind, all);
  return all;
}

}  // namespace kiln::seeded
