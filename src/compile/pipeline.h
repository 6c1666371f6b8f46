// The one list of passes and the one runner. pipeline.cpp holds the list, in order, each entry with the reason why it
// stands where it stands. The runner times each pass, verifies the IR after it, keeps its text when asked
// ("unchanged" is said), can stop after a pass and can leave one out by name. Who wants the results of a stage asks a
// Compilation (compilation.h), which runs it.
#pragma once
#include <functional>

#include "graph/graph.h"
#include "loop_passes/decisions.h"
#include "loop_passes/inject_fault.h"
#include "loops/loops.h"
#include "ops/custom_ops.h"
#include "package/plan_builder.h"
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
  std::vector<std::string> disabled;                 // names of passes
  std::string stop_after;                            // a pass's name; empty: run all
  bool keep_texts = false;                           // fill PassReport::text
  bool keep_record = false;                          // fill PassReport::notes and keep the text of the lowered Loops
  bool graph_is_final = false;                       // the program is as the passes over the graph left it
  std::vector<CustomOp> custom_ops;                  // operators that a custom library provides
  loops::FaultInjection fault;                       // testing only: what goes wrong on purpose
  std::function<void(loops::LoopProgram&)> lowered;  // testing only: sees the loops as they were lowered
  std::function<void(const std::string& pass)> progress;
  CompileObserver* observer = nullptr;  // told of every pass
};

class Settings;
// What the settings `…inject_relu_bug_TESTING_ONLY` and `inject_fault_TESTING_ONLY` ask for.
loops::FaultInjection fault_of(const Settings& settings);

enum class PassStage : uint8_t { graph, lower, loops, schedule };
const char* stage_name(PassStage stage);

struct PassListing {
  std::string name, stage /* graph, lower, loops, schedule */, why;
};
std::vector<PassListing> list_passes();
std::vector<std::string> known_targets();  // of all devices
// Throws K0403 for a target that the device does not have; without a device, for one that none has.
void require_target(const std::string& name, std::optional<DeviceType> device);
void require_pass(const std::string& name);  // throws K0221 when there is no such pass

// The passes at work on a copy of one program.
class Pipeline {
 public:
  Pipeline(const Program& program, PipelineOptions options);
  // Runs the passes that are left up to the end of this stage; none after the one to stop at. Throws Error with the
  // pass's name filled in.
  void run_to(PassStage stage);
  bool run_lowering();  // up to the plain Loops; false: passes over them ran already
  // Another one that goes on from here, on a copy of the loops, for this target. Passes before it are done.
  Pipeline for_target(const loops::Target& target) const;
  void watched_by(CompileObserver* observer) { options_.observer = observer; }

  const Program& graph() const { return *program_; }
  const loops::LoopProgram& loops() const { return loops_; }
  loops::LoopProgram take_loops() { return std::move(loops_); }
  const std::vector<PassReport>& passes() const { return reports_; }
  const std::string& lowered_text() const { return lowered_text_; }  // the Loops before any pass over them
  const ValueNodes& value_nodes() const { return value_nodes_; }     // of the Loops before any pass over them
  const loops::Log& log() const { return log_; }                     // decisions, and values that share a buffer

 private:
  Pipeline() = default;
  struct Pass;
  static const std::vector<Pass>& list();
  void run_next();
  void run(const Pass& pass);
  void tell(const Pass& pass, const PassReport& report);
  friend std::vector<PassListing> list_passes();

  PipelineOptions options_;
  std::shared_ptr<Program> program_;  // shared by those that go on from one: only the passes over the graph write
  loops::LoopProgram loops_;
  loops::Target target_;
  loops::Log log_;
  size_t next_ = 0;  // index of the pass that comes next
  std::vector<PassReport> reports_;
  std::string lowered_text_;
  ValueNodes value_nodes_;
  std::vector<std::string> notes_;  // of the graph pass at work
  size_t told_decisions_ = 0;       // how many of the log's the observer has seen
  double passes_ms_ = 0;            // of the passes so far, without what observers did in between
};

}  // namespace kiln
