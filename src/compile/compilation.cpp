#include "compile/compilation.h"

#include <algorithm>

#include "custom/custom_operators.h"
#include "pt2/pytree.h"
#include "trace/compile_observer.h"

namespace kiln {
namespace {

PipelineOptions pipeline_options(const CompilationOptions& options, const loops::FaultInjection& fault) {
  PipelineOptions out;
  if (options.settings) {
    out.disabled = options.settings->get_list("disable_pass");
    // Those that look for the nests of certain operators; what they leave runs as any other.
    if (!options.settings->get_bool("pattern_matcher"))
      out.disabled.insert(out.disabled.end(), pattern_passes().begin(), pattern_passes().end());
  }
  out.fault = fault;
  out.custom_ops = options.custom_ops;
  if (!options.custom_op_libs.empty())
    for (CustomOp& op : CustomOperators(options.custom_op_libs).declared()) out.custom_ops.push_back(std::move(op));
  out.graph_is_final = options.graph_is_final;
  out.lowered = options.inject.lowered;
  out.stop_after = options.stop_after;
  out.keep_texts = options.keep_texts;
  out.keep_record = options.keep_record;
  out.observer = options.observer;
  out.progress = options.progress;
  return out;
}

// The names that the program's result has them under: {"last_hidden_state": …}. One without is called by its value,
// which may be returned twice.
void add_output_names(const Program& program, format::Plan& plan) {
  const std::vector<std::string> keys = output_keys(program.out_spec);
  std::vector<std::string> names;
  std::vector<bool> keyed;
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    format::Output& output = plan.outputs[i];
    if (keys.size() == plan.outputs.size()) output.key = keys[i];
    names.push_back(output.shown_name()), keyed.push_back(!output.key.empty());
  }
  names = unique_names(std::move(names), keyed);
  for (size_t i = 0; i < plan.outputs.size(); ++i)
    if (!keyed[i]) plan.outputs[i].name = names[i];
}

// What the program does not have, a pass has made.
void add_origins(const Program& program, format::Plan& plan) {
  std::map<std::string_view, bool> saved;
  for (const InputSpec& input : program.input_specs)
    saved[input.target] = input.kind == InputKind::parameter || (input.kind == InputKind::buffer && input.persistent);
  for (format::Constant& constant : plan.constants) {
    const auto found = saved.find(constant.name);
    constant.origin = found == saved.end() ? format::ConstantOrigin::made
                      : found->second      ? format::ConstantOrigin::state
                                           : format::ConstantOrigin::other;
  }
}

void add_types(const Graph& graph, std::set<DType>& types) {
  auto add = [&](const Value* value) {
    if (value->kind == ValueKind::tensor) types.insert(value->type.dtype);
    for (const Value* item : value->items)
      if (item) types.insert(item->type.dtype);
  };
  for (const Value* input : graph.inputs) add(input);
  for (const auto& node : graph.nodes) {
    for (const Value* result : node->results) add(result);
    for (const Node::NamedArgument& arg : node->args)
      if (arg.arg.is_graph()) add_types(*arg.arg.as_graph(), types);
  }
}

}  // namespace

const std::vector<std::string>& pattern_passes() {
  static const std::vector<std::string> names = {"fuse_attention", "join_products", "use_winograd"};
  return names;
}

int simdlen_of(const Settings* settings) {
  return settings ? static_cast<int>(settings->get_optional_int("cpp.simdlen").value_or(0)) : 0;
}

ProductPrecision product_precision(const Settings* settings) {
  const std::string text = settings ? settings->get_string("float32_matmul_precision") : "highest";
  return text == "medium" ? ProductPrecision::medium
         : text == "high" ? ProductPrecision::high
                          : ProductPrecision::highest;
}

Compilation::Compilation(const Program& program, CompilationOptions options)
    : program_(program), options_(std::move(options)) {
  if (options_.settings) fault_ = fault_of(*options_.settings);
  const ProductPrecision precision = product_precision(options_.settings);
  if (options_.targets.empty()) {
    std::set<DType> types;
    add_types(program.graph, types);
    if (precision == ProductPrecision::medium) types.insert(DType::bf16);
    options_.targets.push_back(backend().host_target_for(types));
  }
  for (const std::string& name : options_.targets) {
    const auto same = [&](const codegen::Target& target) { return target.name == name; };
    if (std::any_of(targets_.begin(), targets_.end(), same)) continue;  // named twice
    targets_.push_back(backend().target(name, simdlen_of(options_.settings)));
    codegen::Target& target = targets_.back();
    target.tf32 = target.is_gpu() && precision != ProductPrecision::highest;
    target.rounds_to_bf16 = target.bf16_pairs && precision == ProductPrecision::medium;
  }
  results_.resize(targets_.size());
}

Pipeline& Compilation::through(PassStage stage) {
  if (!shared_) shared_ = std::make_unique<Pipeline>(program_, pipeline_options(options_, fault_));
  shared_->run_to(stage);
  return *shared_;
}

const std::vector<PassReport>& Compilation::reports() const {
  static const std::vector<PassReport> none;
  if (!results_.empty() && results_[0].passes) return results_[0].passes->passes();
  return shared_ ? shared_->passes() : none;
}

const Program& Compilation::graph() { return through(PassStage::graph).graph(); }

const loops::LoopProgram& Compilation::lowered() {
  if (!lowered_) {
    KILN_CHECK(through(PassStage::graph).run_lowering(), "passes have changed the loops already");
    lowered_ = std::make_unique<loops::LoopProgram>(shared_->loops().clone());
  }
  return *lowered_;
}

const loops::LoopProgram& Compilation::loops() { return through(PassStage::loops).loops(); }

const Pipeline& Compilation::passes(size_t target) {
  ForTarget& result = results_.at(target);
  if (!result.passes) {
    Pipeline pipeline = through(PassStage::loops).for_target(targets_[target]);
    if (target != 0) pipeline.watched_by(nullptr);
    pipeline.run_to(PassStage::schedule);
    result.passes = std::make_unique<Pipeline>(std::move(pipeline));
  }
  return *result.passes;
}

const loops::LoopProgram& Compilation::scheduled(size_t target) {
  ForTarget& result = results_.at(target);
  if (!result.scheduled) {
    passes(target);
    result.scheduled = std::make_unique<loops::LoopProgram>(result.passes->take_loops());
    if (options_.inject.loops) options_.inject.loops(*result.scheduled);
  }
  return *result.scheduled;
}

const codegen::GeneratedCode& Compilation::code(size_t target) {
  ForTarget& result = results_.at(target);
  if (!result.code) result.code = generate(scheduled(target), target);
  return *result.code;
}

const BuiltPlan& Compilation::plan(size_t target) {
  ForTarget& result = results_.at(target);
  if (!result.plan) {
    scheduled(target);
    result.plan = build_plan(scheduled(target), code(target), options_.device, result.passes->value_nodes());
    add_output_names(program_, result.plan->plan);
    add_origins(program_, result.plan->plan);
    if (options_.observer)
      options_.observer->code_made({&targets_[target], &*result.code, result.scheduled.get(), &result.plan->plan,
                                    &result.plan->origins, &result.passes->log().merges(), false});
  }
  return *result.plan;
}

codegen::GeneratedCode Compilation::generate(const loops::LoopProgram& loops, size_t target) const {
  codegen::GeneratedCode code = backend().generate(loops, targets_.at(target), fault_);
  if (options_.inject.source) {
    for (std::string& unit : code.sources) options_.inject.source(unit);
    code.compiled.clear();  // the same with common parts taken out, but without the fault
  }
  return code;
}

BuildRequest Compilation::build_request(const codegen::GeneratedCode& code) const {
  BuildRequest request;
  request.sources = code.compiled.empty() ? code.sources : code.compiled;
  request.flags = code.flags;
  request.functions = code.symbols;
  request.flags.insert(request.flags.end(), options_.extra_flags.begin(), options_.extra_flags.end());
  return request;
}

}  // namespace kiln
