// Who watches a compile: the debug directory, the logs, the trace. The driver tells them what happens, in order; where
// nobody watches, nothing is collected and no text is made.
//
// What an observer is given lives only during the call. An observer must not fail a compile that would have succeeded:
// what it cannot write it says in `problem`.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/settings.h"
#include "codegen/backend.h"
#include "graph/graph.h"
#include "loop_passes/decisions.h"
#include "loops/loops.h"
#include "package/format.h"

namespace kiln {

struct CompileStart {
  std::string model_path;  // empty: not from a file
  std::string package_path;
  std::string device;
  std::vector<std::string> targets;
  const Program* program = nullptr;
  // Of a package that exists: what was recorded when it was compiled is told again.
  struct Recorded {
    std::string kiln_version;
    std::vector<std::string> settings;
  };
  std::optional<Recorded> recorded;
};

struct PassEvent {
  std::string name, stage;          // stage: graph, lower, loops, schedule
  double start_ms = 0, run_ms = 0;  // start: of the passes alone, without observers
  bool recorded = false;            // told again: there are no times, and program and loops only where they were kept
  bool changed = false;
  const Program* program = nullptr;  // as it is after the pass
  const loops::LoopProgram* loops = nullptr;
  std::vector<const loops::Decision*> decisions;
  std::vector<std::string> notes;  // of graph passes
};

struct CodeEvent {
  const codegen::Target* target = nullptr;
  const codegen::GeneratedCode* code = nullptr;
  const loops::LoopProgram* loops = nullptr;
  const format::Plan* plan = nullptr;  // of the first target: the plan serves all
  const format::Origins* origins = nullptr;
  // Values of the graph that live in the buffer of another.
  const std::vector<std::pair<std::string, std::string>>* merged = nullptr;
  bool recorded = false;  // as the package has it; `code` then has no steps
};

// A run of the C++ compiler.
struct JobEvent {
  std::string name;  // "kernels 2 of 5", "link", "cache"
  std::string target;
  double start_ms = 0, run_ms = 0;
  bool from_cache = false;
};

struct CompileEnd {
  double seconds = 0, schedule_seconds = 0, toolchain_seconds = 0, package_seconds = 0;
  int kernels = 0, kernels_compiled = 0;
  bool from_cache = false;
  uint64_t package_bytes = 0;
};

class CompileObserver {
 public:
  virtual ~CompileObserver() = default;
  virtual void started(const CompileStart&) {}
  virtual void pass_done(const PassEvent&) {}
  virtual void code_made(const CodeEvent&) {}  // before the C++ compiler sees it
  virtual void job_done(const JobEvent&) {}
  virtual void finished(const CompileEnd&) {}
  virtual void failed(const Error&) {}
  // Lines to tell the user at the end: where something was written, or why it could not be.
  virtual std::vector<std::string> notes() const { return {}; }
};

// All observers as one.
class CompileObservers : public CompileObserver {
 public:
  void add(std::unique_ptr<CompileObserver> observer) { list_.push_back(std::move(observer)); }
  // One that may not be possible (its directory cannot be written): then a note says so.
  template <class Make>
  void add_if_possible(const char* what, Make make) {
    try {
      add(make());
    } catch (const Error& error) {
      problems_.push_back(str(what, ": ", error.message()));
    }
  }
  bool empty() const { return list_.empty(); }
  void started(const CompileStart& event) override {
    each([&](CompileObserver& o) { o.started(event); });
  }
  void pass_done(const PassEvent& event) override {
    each([&](CompileObserver& o) { o.pass_done(event); });
  }
  void code_made(const CodeEvent& event) override {
    each([&](CompileObserver& o) { o.code_made(event); });
  }
  void job_done(const JobEvent& event) override {
    each([&](CompileObserver& o) { o.job_done(event); });
  }
  void finished(const CompileEnd& event) override {
    each([&](CompileObserver& o) { o.finished(event); });
  }
  void failed(const Error& error) override {
    each([&](CompileObserver& o) { o.failed(error); });
  }
  std::vector<std::string> notes() const override;

 private:
  // What one of them cannot do (a full disk, a directory that is read-only) is a note, not the end of the compile.
  template <class F>
  void each(F f) {
    for (const auto& observer : list_) {
      try {
        f(*observer);
      } catch (const Error& error) {
        problems_.push_back(error.message());
      }
    }
  }
  std::vector<std::unique_ptr<CompileObserver>> list_;
  std::vector<std::string> problems_;
};

// What the settings ask for: debug, trace.enabled, TORCH_LOGS, TORCH_TRACE. Throws K0143 on unknown names of logs.
CompileObservers compile_observers(const Settings& settings);

}  // namespace kiln
