// What trials of the minifier do: probe one program as the options say.
#pragma once
#include "minify/minify.h"
#include "minify/trials.h"

namespace kiln::minify {

// `settings` must outlive the result.
ProbeOptions probe_options(const MinifyOptions& options, ProbeMode mode, const Settings& settings);
// Up to `tries` runs, until one fails with the signature. `program` and `signature` must outlive the task.
Trials::Task probe_task(const Program& program, const ProbeOptions& options, const Signature& signature, int tries);
double seconds_of(const TrialResult& result, const std::string& stage);

}  // namespace kiln::minify
