#include "minify/trial_tasks.h"

namespace kiln::minify {

ProbeOptions probe_options(const MinifyOptions& options, ProbeMode mode, const Settings& settings) {
  ProbeOptions out;
  out.mode = mode;
  out.accuracy = options.accuracy;
  out.rtol = options.rtol;
  out.atol = options.atol;
  out.settings = &settings;
  out.custom_op_libs = options.custom_op_libs;
  out.device = options.device;
  return out;
}

Trials::Task probe_task(const Program& program, const ProbeOptions& options, const Signature& signature, int tries) {
  return [&program, &signature, options, tries](const auto& entering) {
    Failure failure;
    for (int t = 0; t < tries; ++t) {
      failure = probe(program, options, entering);
      if (matches(signature, failure)) break;
    }
    return failure;
  };
}

double seconds_of(const TrialResult& result, const std::string& stage) {
  const auto found = result.seconds.find(stage);
  return found == result.seconds.end() ? 0 : found->second;
}

}  // namespace kiln::minify
