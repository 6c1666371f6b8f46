#include "compile/pipeline.h"

#include <chrono>
#include <set>
#include <utility>

#include "base/settings.h"
#include "base/suggest.h"
#include "codegen/backend.h"
#include "graph_passes/common_subexpressions.h"
#include "graph_passes/dead_code.h"
#include "graph_passes/decompose.h"
#include "graph_passes/fold_constants.h"
#include "graph_passes/functionalize.h"
#include "graph_passes/inline_wrappers.h"
#include "graph_passes/remove_symbolic.h"
#include "graph_passes/split_complex.h"
#include "loop_passes/passes.h"
#include "loop_passes/rewrite.h"
#include "lower/lower.h"
#include "ops/declared_types.h"
#include "ops/op_record.h"
#include "schedule/schedule.h"
#include "trace/compile_observer.h"

namespace kiln {
// What a pass works on.
struct PassInput {
  Program& program;
  loops::LoopProgram& loops;
  PassContext& context;
  const loops::Target& target;
  loops::Log& log;
  const PipelineOptions& options;
};

namespace {

template <bool (*pass)(Program&, PassContext&)>
bool graph_pass(PassInput& in) {
  return pass(in.program, in.context);
}
template <bool (*pass)(loops::LoopProgram&, loops::Log&)>
bool loop_pass(PassInput& in) {
  return pass(in.loops, in.log);
}

}  // namespace

struct Pipeline::Pass {
  const char* name;
  PassStage stage;
  const char* why;  // why it stands where it stands
  std::function<bool(PassInput&)> run;
};

// The one list of passes.
const std::vector<Pipeline::Pass>& Pipeline::list() {
  static const std::vector<Pass> passes = {
      {"inline_wrappers", PassStage::graph, "first: later passes see one flat graph",
       [](PassInput& in) {
         if (!inline_wrappers(in.program, in.context)) return false;
         check_declared_types(in.program);  // of what stood inside
         return true;
       }},
      {"expand_writes", PassStage::graph, "gives functionalize only writes that it knows: one argument each",
       graph_pass<expand_writes>},
      {"functionalize", PassStage::graph, "before anything that moves or shares nodes: afterwards no node writes",
       graph_pass<functionalize>},
      {"decompose", PassStage::graph,
       "after functionalize, which removes in-place variants that have no rule of their own", graph_pass<decompose>},
      {"remove_symbolic", PassStage::graph, "once sizes are expressions, the nodes that computed them are not needed",
       graph_pass<remove_symbolic>},
      {"split_complex", PassStage::graph, "on primitive operators only; folding sees the real constants it makes",
       graph_pass<split_complex>},
      {"fold_constants", PassStage::graph, "after decompose, whose small constants it folds",
       graph_pass<fold_constants>},
      {"common_subexpressions", PassStage::graph, "decompositions of neighbours repeat themselves",
       graph_pass<common_subexpressions>},
      {"dead_code", PassStage::graph, "last of the graph passes: lowering should see only what is used",
       graph_pass<dead_code>},
      {"lower", PassStage::lower, "one operator at a time; everything across operators comes after",
       [](PassInput& in) {
         in.loops = lower(in.program);
         return true;
       }},
      {"inject_fault", PassStage::loops,
       "does nothing unless a testing setting asks for a fault; while kernels are operators",
       [](PassInput& in) {
         if (in.options.lowered) in.options.lowered(in.loops);
         return loops::inject_fault(in.loops, in.options.fault, false) || in.options.lowered;
       }},
      {"name_values", PassStage::loops, "while every value of the graph is still stored",
       loop_pass<loops::name_values>},
      {"update_in_place", PassStage::loops,
       "before inlining, while the copies it removes are still kernels of their own",
       loop_pass<loops::update_in_place>},
      {"simplify_bodies", PassStage::loops, "gives inlining small bodies to weigh", loop_pass<loops::simplify_bodies>},
      {"inline_producers", PassStage::loops, "before merging: what is inlined needs no kernel to merge with",
       loop_pass<loops::inline_producers>},
      {"remove_dead_kernels", PassStage::loops, "producers that went into all their readers",
       loop_pass<loops::remove_dead_kernels>},
      {"simplify_inlined", PassStage::loops, "inlining leaves casts of casts and equal loads",
       loop_pass<loops::simplify_bodies>},
      {"inline_simplified", PassStage::loops, "what simplifying has made a plain move (a mask that is widened)",
       loop_pass<loops::inline_producers>},
      {"remove_dead_simplified", PassStage::loops, "producers that went into all their readers now",
       loop_pass<loops::remove_dead_kernels>},
      {"hold_given_weights", PassStage::schedule,
       "for a CPU only; before layouts are chosen, which is done for windows with weights that can be laid out",
       [](PassInput& in) {
         static const loops::OperatorNames convolutions = short_names_with(&OpFacts::convolves);
         return loops::hold_given_weights(in.loops, in.target, in.log, convolutions);
       }},
      {"choose_layouts", PassStage::schedule,
       "while kernels are still single nests, before their loops decide what can merge",
       loop_pass<loops::choose_layouts>},
      {"join_dimensions", PassStage::schedule, "after layouts are chosen: it changes those that nobody asked for",
       loop_pass<loops::join_dimensions>},
      {"round_factors", PassStage::schedule, "on final layouts, before merging, which sees who stores what",
       [](PassInput& in) {
         static const loops::OperatorNames products = short_names_with(&OpFacts::rounds_factors);
         static const loops::OperatorNames attention = names_with(&OpFacts::rounds_weights);
         return loops::round_factors(in.loops, in.target, in.log, {products, attention});
       }},
      {"multiply_bytes", PassStage::schedule,
       "on final layouts; before merging, which sees that rows are stored as bytes",
       [](PassInput& in) {
         const Program& program = in.program;
         return loops::multiply_bytes(in.loops, in.target, in.log,
                                      [&](const std::string& constant) { return is_all_zero(program, constant); });
       }},
      {"hoist_constants", PassStage::schedule,
       "after inlining, so that views of weights are not copied; before merging, so that what is fixed is not merged "
       "into "
       "what is not",
       loop_pass<loops::hoist_constants>},
      {"merge_kernels", PassStage::schedule, "on final bodies, so that its size limit means something",
       loop_pass<loops::merge_kernels>},
      {"forward_stores", PassStage::schedule, "merged kernels read what they just stored",
       loop_pass<loops::forward_stores>},
      {"simplify_merged", PassStage::schedule, "after forwarding, to share equal loads of the merged parts",
       loop_pass<loops::simplify_bodies>},
      {"remove_dead_after_merge", PassStage::schedule, "kernels whose stores were all forwarded",
       loop_pass<loops::remove_dead_kernels>},
      {"assert_sizes", PassStage::schedule, "for a GPU only; after merging, which moves nothing past an assertion",
       [](PassInput& in) { return loops::assert_sizes(in.loops, in.target, in.log); }},
      {"place_parts", PassStage::schedule,
       "after merging, which wants plain indices; before what follows looks at copies",
       [](PassInput& in) { return loops::place_parts(in.loops, in.target, in.log); }},
      {"inject_fused_fault", PassStage::schedule, "as inject_fault, for faults of two operators in one merged kernel",
       [](PassInput& in) { return loops::inject_fault(in.loops, in.options.fault, true); }},
      {"split_variances", PassStage::schedule, "after merging, which wants one loop for a norm's statistics, not two",
       [](PassInput& in) { return loops::split_variances(in.loops, in.log, in.target); }},
      {"split_extremes", PassStage::schedule, "for a CPU only; as split_variances",
       [](PassInput& in) { return loops::split_extremes(in.loops, in.target, in.log); }},
      {"split_digits", PassStage::schedule,
       "for a CPU only; when a norm's statistics are plain sums, before loops are looked at as they run through memory",
       [](PassInput& in) { return loops::split_digits(in.loops, in.target, in.log); }},
      {"straighten_rows", PassStage::schedule,
       "for a CPU only; when sums have a loop for each dimension, before anything looks at what runs along memory",
       [](PassInput& in) { return loops::straighten_rows(in.loops, in.target, in.log); }},
      {"sum_beside", PassStage::schedule,
       "for a CPU only; when sums have a loop for each dimension, before loops are taken for what they stay",
       [](PassInput& in) { return loops::sum_beside(in.loops, in.target, in.log); }},
      {"spread_groups", PassStage::schedule,
       "for a CPU only; after sum_beside, which looks for what is stored once for a group",
       [](PassInput& in) { return loops::spread_groups(in.loops, in.target, in.log); }},
      {"split_phases", PassStage::schedule,
       "when nothing merges any more; before what stays the same in a sum moves out of it",
       [](PassInput& in) { return loops::split_phases(in.loops, in.target, in.log); }},
      {"order_columns", PassStage::schedule,
       "for a CPU only; when layouts and phases have ordered loops, before statements stand between them",
       [](PassInput& in) { return loops::order_columns(in.loops, in.target, in.log); }},
      {"points_in_lanes", PassStage::schedule,
       "for a CPU only; after order_columns, which would put channels innermost, while nothing stands between loops",
       [](PassInput& in) { return loops::points_in_lanes(in.loops, in.target, in.log); }},
      {"share_places", PassStage::schedule,
       "for a CPU only; as order_columns, before what the innermost loop shares moves out of it",
       [](PassInput& in) { return loops::share_places(in.loops, in.target, in.log); }},
      {"hoist_invariants", PassStage::schedule, "before templates, which want only what varies inside the product",
       loop_pass<loops::hoist_invariants>},
      {"split_groups", PassStage::schedule,
       "when nothing merges any more: it orders loops for products, not for neighbours",
       [](PassInput& in) { return loops::split_groups(in.loops, in.target, in.log); }},
      {"refit_temporaries", PassStage::schedule,
       "for a GPU only; before contractions, whose factors say how they are fetched",
       [](PassInput& in) { return loops::refit_temporaries(in.loops, in.target, in.log); }},
      {"find_contractions", PassStage::schedule,
       "on whole nests, before their axes are split: from here on they are known", loop_pass<loops::find_contractions>},
      {"join_products", PassStage::schedule, "on known contractions, before attention reads what they make",
       [](PassInput& in) { return loops::join_products(in.loops, in.target, in.log); }},
      {"stagger_rows", PassStage::schedule,
       "for a CPU only; on known contractions, before addresses decide what collapses and which tiles are cheap",
       [](PassInput& in) { return loops::stagger_rows(in.loops, in.target, in.log); }},
      {"fuse_attention", PassStage::schedule, "on known contractions, before each of the two gets tiles of its own",
       [](PassInput& in) { return loops::fuse_attention(in.loops, in.target, in.log); }},
      {"fill_windows", PassStage::schedule,
       "for a CPU that multiplies pairs of bf16; before take_points, which is for windows without pairs",
       [](PassInput& in) { return loops::fill_windows(in.loops, in.target, in.log); }},
      {"take_points", PassStage::schedule, "before templates, which would take a window over few channels as a product",
       [](PassInput& in) { return loops::take_points(in.loops, in.target, in.log); }},
      {"use_winograd", PassStage::schedule,
       "for a CPU only; when layouts are final, before templates, whose cost it compares with its own",
       [](PassInput& in) { return loops::use_winograd(in.loops, in.target, in.log); }},
      {"turn_factors", PassStage::schedule,
       "for a CPU only; after attention, which turns its rows itself, before templates, which want neighbours",
       [](PassInput& in) { return loops::turn_factors(in.loops, in.target, in.log); }},
      {"use_templates", PassStage::schedule, "on whole nests, before their axes are split",
       [](PassInput& in) { return loops::use_templates(in.loops, in.target, in.log); }},
      {"split_reductions", PassStage::schedule,
       "for a GPU only; after templates, whose sums are split their own way, while nests are whole",
       [](PassInput& in) { return loops::split_reductions(in.loops, in.target, in.log); }},
      {"collapse_loops", PassStage::schedule, "after templates took theirs: the rest likes long loops",
       [](PassInput& in) { return loops::collapse_loops(in.loops, in.target, in.log); }},
      {"bind_axes", PassStage::schedule, "needs the final loops",
       [](PassInput& in) { return loops::bind_axes(in.loops, in.target, in.log); }},
      {"use_scratch", PassStage::schedule, "for a CPU only; when it is known what an item runs",
       [](PassInput& in) { return loops::use_scratch(in.loops, in.target, in.log); }},
      {"prepare_given_weights", PassStage::schedule,
       "after all that lays out weights; before widen_sums, which knows weights of the package from others",
       loop_pass<loops::prepare_given_weights>},
      {"widen_sums", PassStage::schedule, "knows what lanes took: the other sums of f32 can afford f64",
       loop_pass<loops::widen_sums>},
      {"order_sums", PassStage::schedule, "on the sums as they are bound and typed", loop_pass<loops::order_sums>},
      {"count_items", PassStage::schedule, "after everything that makes the work of an item larger or smaller",
       loop_pass<loops::count_items>},
      {"chain_kernels", PassStage::schedule, "for a CPU only; when it is known what one thread runs anyway",
       [](PassInput& in) { return loops::chain_kernels(in.loops, in.target, in.log); }},
      {"name_kernels", PassStage::schedule, "last: names say what is fused",
       [](PassInput& in) {
         static const loops::OperatorNames moves = short_names_with(&OpFacts::moves_data);
         return loops::name_kernels(in.loops, in.log, moves, in.target);
       }},
  };
  return passes;
}

namespace {

// Without them there is nothing to print.
bool is_needed(std::string_view pass) {
  return pass == "lower" || pass == "bind_axes" || pass == "prepare_given_weights" || pass == "count_items";
}

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

const char* stage_name(PassStage stage) {
  switch (stage) {
    case PassStage::graph:
      return "graph";
    case PassStage::lower:
      return "lower";
    case PassStage::loops:
      return "loops";
    case PassStage::schedule:
      return "schedule";
  }
  return "";
}

loops::FaultInjection fault_of(const Settings& settings) {
  if (const std::string text = settings.get_string("inject_fault_TESTING_ONLY"); !text.empty())
    return loops::parse_fault(text);
  for (const char* key : {"cpp.inject_relu_bug_TESTING_ONLY", "triton.inject_relu_bug_TESTING_ONLY"})
    if (const std::string kind = settings.get_string(key); !kind.empty()) return loops::parse_fault(kind + ":relu");
  return {};
}

std::vector<std::string> known_targets() {
  std::vector<std::string> out;
  for (const DeviceType device : {DeviceType::cpu, DeviceType::cuda})
    for (const std::string& name : codegen::backend_for(device).target_names()) out.push_back(name);
  return out;
}

void require_target(const std::string& name, std::optional<DeviceType> device) {
  if (device) {
    codegen::backend_for(*device).target(name);
    return;
  }
  const std::vector<std::string> known = known_targets();
  if (std::find(known.begin(), known.end(), name) == known.end())
    fail_user("K0403", str("unknown target ", name, "; known are ", join(known, ", ")));
}

std::vector<PassListing> list_passes() {
  std::vector<PassListing> out;
  for (const Pipeline::Pass& pass : Pipeline::list()) out.push_back({pass.name, stage_name(pass.stage), pass.why});
  return out;
}

void require_pass(const std::string& name) {
  std::vector<std::string> names;
  for (const PassListing& pass : list_passes()) names.push_back(pass.name);
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  fail_user("K0221", str("there is no pass '", name, "'", nearest_hint(name, names), " ('kiln passes' lists them)"));
}

Pipeline::Pipeline(const Program& program, PipelineOptions options) : options_(std::move(options)) {
  for (const std::string& name : options_.disabled) {
    require_pass(name);
    if (is_needed(name)) fail_user("K0222", str("the pass ", name, " cannot be disabled"));
  }
  if (!options_.stop_after.empty()) require_pass(options_.stop_after);
  program_ = std::make_shared<Program>(program.clone());
  resolve_with_custom(program_->graph, options_.custom_ops);
  if (!options_.graph_is_final) check_declared_types(*program_);
  while (options_.graph_is_final && list()[next_].stage == PassStage::graph) ++next_;
}

// A fault that a test asks for is part of the lowering, as the passes behind it see it.
bool Pipeline::run_lowering() {
  run_to(PassStage::lower);
  if (next_ < list().size() && std::string_view(list()[next_].name) == "inject_fault") run_next();
  return std::string_view(list()[next_ - 1].name) == "inject_fault" || !options_.stop_after.empty();
}

void Pipeline::run_next() {
  const Pass& pass = list()[next_++];
  if (std::find(options_.disabled.begin(), options_.disabled.end(), pass.name) != options_.disabled.end()) return;
  run(pass);
  if (options_.stop_after == pass.name) next_ = list().size();
}

void Pipeline::run_to(PassStage stage) {
  while (next_ < list().size() && list()[next_].stage <= stage) run_next();
}

Pipeline Pipeline::for_target(const loops::Target& target) const {
  Pipeline out = Pipeline();
  out.options_ = options_, out.program_ = program_, out.loops_ = loops_.clone(), out.target_ = target;
  out.log_ = log_, out.next_ = next_, out.reports_ = reports_, out.lowered_text_ = lowered_text_;
  out.value_nodes_ = value_nodes_;
  out.told_decisions_ = told_decisions_, out.passes_ms_ = passes_ms_;
  return out;
}

namespace {

ValueNodes nodes_of_values(const loops::LoopProgram& program) {
  ValueNodes nodes;
  const auto add = [&](const loops::Item& item, const std::vector<Origin>& origins) {
    const auto name = [&](loops::BufferId id) { return program.buffers[static_cast<size_t>(id)].name; };
    const loops::Accesses touched = loops::accesses(item);
    // A copy that is no operator of the user's (into a buffer or an input that the program changes): of who wrote it.
    if (origins.empty()) {
      for (const loops::BufferId id : touched.writes)
        for (const loops::BufferId from : touched.reads) {
          const std::vector<std::string> before = nodes.writers[name(from)];
          nodes.writers[name(id)].insert(nodes.writers[name(id)].end(), before.begin(), before.end());
        }
      return;
    }
    for (const loops::BufferId id : touched.writes) nodes.writers[name(id)].push_back(origins[0].node);
    for (const loops::BufferId id : touched.reads) nodes.readers[name(id)].push_back(origins[0].node);
  };
  for (const loops::Block* block : {&program.init, &program.block})
    loops::for_each_item(*block, [&](const loops::Item& item) {
      if (auto* kernel = std::get_if<loops::Kernel>(&item.what)) add(item, kernel->origins);
      if (auto* call = std::get_if<loops::Call>(&item.what)) add(item, call->origins);
    });
  return nodes;
}

// A weight that is laid out anew is of the operators that read the weight, not of all that its reader is fused with.
void narrow_origins_of_init(loops::LoopProgram& program, const ValueNodes& nodes) {
  loops::for_each_item(program.init, [&](loops::Item& item) {
    auto* kernel = std::get_if<loops::Kernel>(&item.what);
    if (!kernel || kernel->origins.size() < 2) return;
    std::set<std::string> readers;
    for (const loops::BufferId id : loops::accesses(item).reads) {
      const loops::Buffer& buffer = program.buffers[static_cast<size_t>(id)];
      const auto found = nodes.readers.find(buffer.name);
      if (buffer.role != loops::BufferRole::constant || found == nodes.readers.end()) return;
      readers.insert(found->second.begin(), found->second.end());
    }
    std::vector<Origin> kept;
    for (const Origin& origin : kernel->origins)
      if (readers.contains(origin.node)) kept.push_back(origin);
    if (!kept.empty()) kernel->origins = std::move(kept);
  });
}

}  // namespace

void Pipeline::run(const Pass& pass) {
  if (options_.progress) options_.progress(pass.name);
  PassReport report;
  report.name = pass.name;
  report.stage = stage_name(pass.stage);
  PassContext context;
  if (options_.observer || options_.keep_record) context.log = &notes_;
  PassInput input{*program_, loops_, context, target_, log_, options_};
  const double start = now_ms();
  try {
    report.changed = pass.run(input);
    if (report.changed) pass.stage == PassStage::graph ? verify(*program_) : loops::verify(loops_);
  } catch (Error& error) {
    Where where;
    where.pass = pass.name;
    error.locate(where);
    throw;
  }
  report.milliseconds = now_ms() - start;
  log_.close_pass(pass.name);
  if (options_.keep_record) report.notes = notes_;
  if (&pass == &list().back()) narrow_origins_of_init(loops_, value_nodes_);
  if (std::string_view(pass.name) == "lower") {
    value_nodes_ = nodes_of_values(loops_);
    if (options_.keep_record) lowered_text_ = loops::print(loops_);
  }
  if (options_.observer) tell(pass, report);
  notes_.clear();
  if (options_.keep_texts) report.text = pass.stage == PassStage::graph ? print(*program_) : loops::print(loops_);
  reports_.push_back(std::move(report));
}

void Pipeline::tell(const Pass& pass, const PassReport& report) {
  PassEvent event;
  event.name = pass.name;
  event.stage = stage_name(pass.stage);
  event.start_ms = passes_ms_;
  event.run_ms = report.milliseconds;
  passes_ms_ += report.milliseconds;
  event.changed = report.changed;
  event.program = program_.get();
  event.loops = &loops_;
  for (; told_decisions_ < log_.size(); ++told_decisions_)
    event.decisions.push_back(&log_.decisions()[told_decisions_]);
  event.notes = std::exchange(notes_, {});
  options_.observer->pass_done(event);
}

}  // namespace kiln
