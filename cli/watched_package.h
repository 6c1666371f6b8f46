// A package that a command runs: what settings tell of it before it runs (TORCH_LOGS, the debug directory, the trace),
// and what they keep of a failure (the minifier's directory, the trace).
#pragma once
#include "debug/tell_package.h"
#include "minify/dump.h"
#include "options.h"

namespace kiln::cli {

class WatchedPackage {
 public:
  // `settings` must outlive it.
  WatchedPackage(const std::string& path, const Settings& settings, const ParsedOptions& options);
  // The inputs of the calls, before the first.
  void begin(const std::vector<Datum>& inputs);
  void finished(const CallResult& result) { dump_.finished(result); }
  void failed(const Error& error);
  void fault(const std::string& text);  // a signal inside a kernel
  // Does `work`; an error of it is kept, and thrown on.
  template <typename Work>
  auto watch(const Work& work) {
    try {
      return work();
    } catch (const Error& error) {
      failed(error);
      throw;
    }
  }

 private:
  const Settings& settings_;
  minify::DumpOnFailure dump_;
};

}  // namespace kiln::cli
