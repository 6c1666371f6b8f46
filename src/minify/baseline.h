// What a search begins with: the program as users run it, and the failure that it shows, pinned. Of a large program the
// part that `kiln bisect` blames (minify/suspects.h), if it fails by itself.
#pragma once
#include "minify/phase.h"
#include "minify/recorded_values.h"
#include "minify/trial_tasks.h"

namespace kiln::minify {

struct Start {
  Program program;
  bool part = false;                       // it is what bisecting blames, not the whole
  std::optional<RecordedValues> recorded;  // of the whole, while the search begins with it
  double reference_seconds = 0;            // of the whole
  TrialResult first;                       // the first trial of the program that failed
  Signature signature;                     // of no failure until it is pinned
  int tries = 1;                           // runs that a candidate gets
  std::string sometimes;                   // "4 of 10 runs", of what fails only then
  int tried = 0;                           // candidates so far
};

class Baseline {
 public:
  // `as_given` are the user's settings, `own` those with a kernel cache of the minifier's own. All must outlive this.
  Baseline(Start& start, const MinifyOptions& options, const Settings& as_given, const Settings& own, Trials& trials)
      : start_(start), options_(options), as_given_(as_given), own_(own), trials_(trials) {}

  // Sets the limits of the trials, too. Throws K0680 where there is nothing to minify, K0685 where that cannot be told.
  void find();

 private:
  void record();
  bool slow() const;
  void check_failure(int total) const;
  bool use_suspects();
  bool blamed(const Failure& failure) const;
  void take_part(Program part, const TrialResult& result);
  void exclude_rounding(const ProbeOptions& as_users_do);
  void count_runs(const ProbeOptions& as_users_do, int total);
  void set_limits();
  TrialResult run(const Program& program, const ProbeOptions& options) {
    return trials_.run(probe_task(program, options, start_.signature, 1));
  }
  void progress(const std::string& text) const { show_phase(trials_, options_.progress, text); }
  void say(const std::string& line) const {
    if (options_.say) options_.say(line);
  }

  Start& start_;
  const MinifyOptions& options_;
  const Settings &as_given_, &own_;
  Trials& trials_;
};

}  // namespace kiln::minify
