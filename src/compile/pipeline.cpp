#include "compile/pipeline.h"

#include <chrono>
#include <utility>

#include "base/settings.h"
#include "base/suggest.h"
#include "graph_passes/common_subexpressions.h"
#include "graph_passes/dead_code.h"
#include "graph_passes/decompose.h"
#include "graph_passes/fold_constants.h"
#include "graph_passes/functionalize.h"
#include "graph_passes/inline_wrappers.h"
#include "graph_passes/remove_symbolic.h"
#include "graph_passes/split_complex.h"
#include "loop_passes/passes.h"
#include "lower/lower.h"
#include "ops/declared_types.h"
#include "ops/op_record.h"
#include "schedule/schedule.h"
#include "trace/compile_observer.h"

namespace kiln {
namespace {

struct State {
  Program program;
  loops::LoopProgram loops;
  PassContext context;
  loops::Target target;
  loops::Log log;
  std::vector<std::string> notes;  // of graph passes
  size_t told_decisions = 0;       // how many of the log's the observer has seen
  double passes_ms = 0;            // of the passes so far, without what observers did in between
  loops::FaultInjection fault;
  std::function<void(loops::LoopProgram&)> lowered;
};

enum class Stage { graph, lower, loops, schedule };

struct Pass {
  const char* name;
  Stage stage;
  const char* why;  // why it stands where it stands
  std::function<bool(State&)> run;
};

template <bool (*pass)(Program&, PassContext&)>
bool graph_pass(State& s) {
  return pass(s.program, s.context);
}
template <bool (*pass)(loops::LoopProgram&, loops::Log&)>
bool loop_pass(State& s) {
  return pass(s.loops, s.log);
}

// The one list of passes.
const std::vector<Pass>& passes() {
  static const std::vector<Pass> list = {
      {"inline_wrappers", Stage::graph, "first: later passes see one flat graph",
       [](State& s) {
         if (!inline_wrappers(s.program, s.context)) return false;
         check_declared_types(s.program);  // of what stood inside
         return true;
       }},
      {"expand_writes", Stage::graph, "gives functionalize only writes that it knows: one argument each",
       graph_pass<expand_writes>},
      {"functionalize", Stage::graph, "before anything that moves or shares nodes: afterwards no node writes",
       graph_pass<functionalize>},
      {"decompose", Stage::graph, "after functionalize, which removes in-place variants that have no rule of their own",
       graph_pass<decompose>},
      {"remove_symbolic", Stage::graph, "once sizes are expressions, the nodes that computed them are not needed",
       graph_pass<remove_symbolic>},
      {"split_complex", Stage::graph, "on primitive operators only; folding sees the real constants it makes",
       graph_pass<split_complex>},
      {"fold_constants", Stage::graph, "after decompose, whose small constants it folds", graph_pass<fold_constants>},
      {"common_subexpressions", Stage::graph, "decompositions of neighbours repeat themselves",
       graph_pass<common_subexpressions>},
      {"dead_code", Stage::graph, "last of the graph passes: lowering should see only what is used",
       graph_pass<dead_code>},
      {"lower", Stage::lower, "one operator at a time; everything across operators comes after",
       [](State& s) {
         s.loops = lower(s.program);
         return true;
       }},
      {"inject_fault", Stage::loops,
       "does nothing unless a testing setting asks for a fault; while kernels are operators",
       [](State& s) {
         if (s.lowered) s.lowered(s.loops);
         return loops::inject_fault(s.loops, s.fault, false) || s.lowered;
       }},
      {"name_values", Stage::loops, "while every value of the graph is still stored", loop_pass<loops::name_values>},
      {"update_in_place", Stage::loops, "before inlining, while the copies it removes are still kernels of their own",
       loop_pass<loops::update_in_place>},
      {"simplify_bodies", Stage::loops, "gives inlining small bodies to weigh", loop_pass<loops::simplify_bodies>},
      {"inline_producers", Stage::loops, "before merging: what is inlined needs no kernel to merge with",
       loop_pass<loops::inline_producers>},
      {"remove_dead_kernels", Stage::loops, "producers that went into all their readers",
       loop_pass<loops::remove_dead_kernels>},
      {"simplify_inlined", Stage::loops, "inlining leaves casts of casts and equal loads",
       loop_pass<loops::simplify_bodies>},
      {"choose_layouts", Stage::schedule,
       "while kernels are still single nests, before their loops decide what can merge",
       loop_pass<loops::choose_layouts>},
      {"hoist_constants", Stage::schedule,
       "after inlining, so that views of weights are not copied; before merging, so that what is fixed is not merged "
       "into "
       "what is not",
       loop_pass<loops::hoist_constants>},
      {"merge_kernels", Stage::schedule, "on final bodies, so that its size limit means something",
       loop_pass<loops::merge_kernels>},
      {"forward_stores", Stage::schedule, "merged kernels read what they just stored",
       loop_pass<loops::forward_stores>},
      {"simplify_merged", Stage::schedule, "after forwarding, to share equal loads of the merged parts",
       loop_pass<loops::simplify_bodies>},
      {"remove_dead_after_merge", Stage::schedule, "kernels whose stores were all forwarded",
       loop_pass<loops::remove_dead_kernels>},
      {"inject_fused_fault", Stage::schedule, "as inject_fault, for faults of two operators in one merged kernel",
       [](State& s) { return loops::inject_fault(s.loops, s.fault, true); }},
      {"split_variances", Stage::schedule, "after merging, which wants one loop for a norm's statistics, not two",
       loop_pass<loops::split_variances>},
      {"hoist_invariants", Stage::schedule, "before templates, which want only what varies inside the product",
       loop_pass<loops::hoist_invariants>},
      {"find_contractions", Stage::schedule, "on whole nests, before their axes are split: from here on they are known",
       loop_pass<loops::find_contractions>},
      {"use_templates", Stage::schedule, "on whole nests, before their axes are split",
       [](State& s) { return loops::use_templates(s.loops, s.target, s.log); }},
      {"collapse_loops", Stage::schedule, "after templates took theirs: the rest likes long loops",
       loop_pass<loops::collapse_loops>},
      {"bind_axes", Stage::schedule, "needs the final loops",
       [](State& s) { return loops::bind_axes(s.loops, s.target, s.log); }},
      {"widen_sums", Stage::schedule, "knows what lanes took: the other sums of f32 can afford f64",
       loop_pass<loops::widen_sums>},
      {"order_sums", Stage::schedule, "on the sums as they are bound and typed", loop_pass<loops::order_sums>},
      {"count_items", Stage::schedule, "after everything that makes the work of an item larger or smaller",
       loop_pass<loops::count_items>},
      {"name_kernels", Stage::schedule, "last: names say what is fused",
       [](State& s) {
         static const loops::OperatorNames moves = short_names_with(&OpFacts::moves_data);
         return loops::name_kernels(s.loops, s.log, moves);
       }},
  };
  return list;
}

// Without them there is nothing to print.
bool is_needed(std::string_view pass) { return pass == "lower" || pass == "bind_axes" || pass == "count_items"; }

// What comes after lowering. A fault that a test asks for is part of the lowering, as the passes behind it see it.
bool works_on_loops(const Pass& pass) {
  return (pass.stage == Stage::loops && std::string_view(pass.name) != "inject_fault") || pass.stage == Stage::schedule;
}

const char* stage_name(Stage stage) {
  switch (stage) {
    case Stage::graph:
      return "graph";
    case Stage::lower:
      return "lower";
    case Stage::loops:
      return "loops";
    case Stage::schedule:
      return "schedule";
  }
  return "";
}

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void verify_state(const State& state, Stage stage) {
  if (stage == Stage::graph)
    verify(state.program);
  else
    loops::verify(state.loops);
}

void tell(const Pass& pass, const PassReport& report, State& state, CompileObserver& observer) {
  PassEvent event;
  event.name = pass.name;
  event.stage = stage_name(pass.stage);
  event.start_ms = state.passes_ms;
  event.run_ms = report.milliseconds;
  state.passes_ms += report.milliseconds;
  event.changed = report.changed;
  event.program = &state.program;
  event.loops = &state.loops;
  for (; state.told_decisions < state.log.size(); ++state.told_decisions)
    event.decisions.push_back(&state.log.decisions()[state.told_decisions]);
  event.notes = std::exchange(state.notes, {});
  observer.pass_done(event);
}

void run_pass(const Pass& pass, State& state, const PipelineOptions& options, PipelineResult& result) {
  if (options.progress) options.progress(pass.name);
  PassReport report;
  report.name = pass.name;
  report.stage = stage_name(pass.stage);
  double start = now_ms();
  try {
    report.changed = pass.run(state);
    if (report.changed) verify_state(state, pass.stage);
  } catch (Error& error) {
    Where where;
    where.pass = pass.name;
    error.locate(where);
    throw;
  }
  report.milliseconds = now_ms() - start;
  state.log.close_pass(pass.name);
  if (options.keep_record) report.notes = state.notes;
  if (options.keep_record && pass.stage == Stage::lower) result.lowered_text = loops::print(state.loops);
  if (options.observer) tell(pass, report, state, *options.observer);
  state.notes.clear();
  if (options.keep_texts) report.text = pass.stage == Stage::graph ? print(state.program) : loops::print(state.loops);
  result.passes.push_back(std::move(report));
}

}  // namespace

loops::FaultInjection fault_of(const Settings& settings) {
  if (const std::string text = settings.get_string("inject_fault_TESTING_ONLY"); !text.empty())
    return loops::parse_fault(text);
  for (const char* key : {"cpp.inject_relu_bug_TESTING_ONLY", "triton.inject_relu_bug_TESTING_ONLY"})
    if (const std::string kind = settings.get_string(key); !kind.empty()) return loops::parse_fault(kind + ":relu");
  return {};
}

std::vector<PassListing> list_passes() {
  std::vector<PassListing> out;
  for (const Pass& pass : passes()) out.push_back({pass.name, stage_name(pass.stage), pass.why});
  return out;
}

void require_pass(const std::string& name) {
  std::vector<std::string> names;
  for (const Pass& pass : passes()) names.push_back(pass.name);
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  fail_user("K0221", str("there is no pass '", name, "'", nearest_hint(name, names), " ('kiln passes' lists them)"));
}

PipelineResult run_pipeline(const Program& program, const PipelineOptions& options) {
  for (const std::string& name : options.disabled) require_pass(name);
  if (!options.stop_after.empty()) require_pass(options.stop_after);

  State state;
  state.program = program.clone();
  state.target = options.target;
  state.fault = options.fault;
  state.lowered = options.lowered;
  resolve_with_custom(state.program.graph, options.custom_ops);
  check_declared_types(state.program);
  PipelineResult result;
  if (options.observer || options.keep_record) state.context.log = &state.notes;
  for (const Pass& pass : passes()) {
    if (!options.schedule && works_on_loops(pass)) break;
    bool off = std::find(options.disabled.begin(), options.disabled.end(), pass.name) != options.disabled.end();
    if (!options.constant_folding && std::string_view(pass.name) == "fold_constants") off = true;
    if (off) {
      if (is_needed(pass.name)) fail_user("K0222", str("the pass ", pass.name, " cannot be disabled"));
      continue;
    }
    run_pass(pass, state, options, result);
    if (options.stop_after == pass.name) {
      result.stopped_after = pass.name;
      break;
    }
  }
  result.graph_text = print(state.program);
  result.merged = state.log.merges();
  result.loops = std::move(state.loops);
  result.constants = std::move(state.program.constants);
  result.decisions = state.log.take();
  return result;
}

}  // namespace kiln
