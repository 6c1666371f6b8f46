// One program on its way to a package, stage by stage: the graph after its passes, the loops it is lowered to, and for
// each target the scheduled loops, their code and the plan. A stage is made when it is first asked for, from the one
// before it and the settings, and kept. Whoever needs a part of the compiler takes it from here, so that no two can
// disagree: compile(), `--dump-after`, the loops that an Executable interprets, the files and notes of the minifier,
// and the tools that look into a package that exists (PackageDebug::compilation makes one from its debug section).
#pragma once
#include <optional>

#include "base/settings.h"
#include "codegen/backend.h"
#include "compile/fault_injector.h"
#include "compile/pipeline.h"
#include "package/plan_builder.h"
#include "toolchain/compiler.h"

namespace kiln {

struct CompilationOptions {
  DeviceType device = DeviceType::cpu;      // to make code for
  std::vector<std::string> targets;         // x86-64-v4, sm_90a, …; empty: the host's best
  const Settings* settings = nullptr;       // passes to leave out, faults to put in, the width of vectors; may be null
  std::vector<std::string> custom_op_libs;  // shared libraries with the user's operators
  std::vector<CustomOp> custom_ops;         // operators that are known without opening their library
  std::vector<std::string> extra_flags;     // for the C++ compiler, after Kiln's own
  bool graph_is_final = false;              // the program is as the passes over the graph left it
  FaultInjector inject;                     // for tests of the debug tools only: lowered, loops and source are used
  std::string stop_after;                   // a pass's name: what comes after it is not made
  bool keep_texts = false;                  // of the program after every pass
  bool keep_record = false;                 // what passes note, and the loops as they were lowered
  CompileObserver* observer = nullptr;      // told of every pass (of the first target) and of the code of every target
  std::function<void(const std::string& pass)> progress;
};

class Compilation {
 public:
  // The program and the settings must outlive it. Throws K0403 for a target that nobody knows.
  Compilation(const Program& program, CompilationOptions options);
  Compilation(const Compilation&) = delete;

  const Program& program() const { return program_; }
  const codegen::Backend& backend() const { return codegen::backend_for(options_.device); }
  const std::vector<codegen::Target>& targets() const { return targets_; }
  const loops::FaultInjection& fault() const { return fault_; }
  const std::vector<PassReport>& reports() const;  // of the passes that have run so far, for the first target

  const Program& graph();               // after its passes, with the constants that folding made
  const loops::LoopProgram& lowered();  // the plain Loops: as lowering made them. To be asked for before what follows
  const loops::LoopProgram& loops();    // lowered and inlined, for no target yet
  const Pipeline& passes(size_t target = 0);  // all of them at the end: reports, decisions, merged values
  const loops::LoopProgram& scheduled(size_t target = 0);
  const codegen::GeneratedCode& code(size_t target = 0);  // its steps are the kernels of scheduled(target)
  const BuiltPlan& plan(size_t target = 0);               // with the names of the program's outputs

  // Code for loops of the caller's own, as that of the program's is made.
  codegen::GeneratedCode generate(const loops::LoopProgram& loops, size_t target = 0) const;
  BuildRequest build_request(const codegen::GeneratedCode& code) const;

 private:
  struct ForTarget {
    std::unique_ptr<Pipeline> passes;
    std::unique_ptr<loops::LoopProgram> scheduled;
    std::optional<codegen::GeneratedCode> code;
    std::optional<BuiltPlan> plan;
  };
  Pipeline& through(PassStage stage);

  const Program& program_;
  CompilationOptions options_;
  loops::FaultInjection fault_;
  std::vector<codegen::Target> targets_;
  std::unique_ptr<Pipeline> shared_;  // what all targets have in common
  std::unique_ptr<loops::LoopProgram> lowered_;
  std::vector<ForTarget> results_;
};

// The vectors that cpp.simdlen asks for, in bits; 0: the target's own.
int simdlen_of(const Settings* settings);
const std::vector<std::string>& pattern_passes();  // that pattern_matcher turns off
enum class ProductPrecision { highest, high, medium };
ProductPrecision product_precision(const Settings* settings);  // float32_matmul_precision

}  // namespace kiln
