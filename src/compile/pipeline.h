// The one list of passes and the one runner. pipeline.cpp holds the list, in order, each entry with the reason why it
// stands where it stands. The runner times each pass, verifies the IR after it, keeps its text when asked
// ("unchanged" is said), can stop after a pass and can disable one by name.
#pragma once
#include <functional>

#include "graph/graph.h"
#include "loop_passes/decisions.h"
#include "loop_passes/inject_fault.h"
#include "loops/loops.h"
#include "ops/custom_ops.h"
#include "schedule/target.h"

namespace kiln {

class CompileObserver;

struct PassReport {
  std::string name, stage;
  double milliseconds = 0;
  bool changed = false;
  std::string text;                // the IR after the pass, when dumps were asked for
  std::vector<std::string> notes;  // of graph passes
};

struct PipelineOptions {
  std::vector<std::string> disabled;  // names of passes
  std::string stop_after;             // a pass's name; empty: run all
  bool keep_texts = false;            // fill PassReport::text
  bool keep_record = false;           // fill PassReport::notes and PipelineResult::lowered_text
  bool schedule = true;               // false: the plain Loops, right after lowering and before any pass on Loops
  bool constant_folding = true;
  loops::Target target;                              // that the schedule is for
  std::vector<CustomOp> custom_ops;                  // operators that a custom library provides
  loops::FaultInjection fault;                       // testing only: what goes wrong on purpose
  std::function<void(loops::LoopProgram&)> lowered;  // testing only: sees the loops as they were lowered
  std::function<void(const std::string& pass)> progress;
  CompileObserver* observer = nullptr;  // told of every pass
};

class Settings;
// What the settings `…inject_relu_bug_TESTING_ONLY` and `inject_fault_TESTING_ONLY` ask for.
loops::FaultInjection fault_of(const Settings& settings);

struct PipelineResult {
  loops::LoopProgram loops;                 // scheduled unless options.schedule is false or stop_after came first
  std::map<std::string, Tensor> constants;  // by name: the file's and those that folding made
  std::vector<PassReport> passes;
  std::string stopped_after;  // the pass that stop_after named; empty: all ran
  std::string graph_text;     // the graph after the last of its passes that ran: as it was lowered, if it was
  std::string lowered_text;   // the Loops that lowering made, before any pass over them
  std::vector<std::pair<std::string, std::string>> merged;  // value of the graph, the buffer of another it lives in
  std::vector<loops::Decision> decisions;                   // of the passes over Loops, with reasons
};

struct PassListing {
  std::string name, stage /* graph, loops, schedule */, why;
};
std::vector<PassListing> list_passes();
void require_pass(const std::string& name);  // throws K0221 when there is no such pass

// Consumes a copy of the program; throws Error with the pass's name filled in.
PipelineResult run_pipeline(const Program& program, const PipelineOptions& options);

}  // namespace kiln
