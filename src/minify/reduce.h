// The search for a smaller program with the same failure.
//
// Large cuts come first: halves (and the middle half) of the nodes, then delta debugging down to single nodes; then, on
// what is left, everything else that makes a program simpler, until nothing helps any more. In the end no node can be
// removed alone.
//
// Every step is a list of candidates in the order of preference; they are tried in parallel child processes, and a
// candidate counts only if it fails with the pinned signature. Results are remembered by content.
#pragma once
#include <memory>

#include "minify/edits.h"
#include "minify/probe.h"
#include "minify/trials.h"

namespace kiln::minify {

struct ReduceOptions {
  ProbeOptions probe;
  Signature signature;
  int tries = 1;  // a failure that comes back only sometimes is looked for several times
  int64_t recorded_bytes = int64_t{2} << 30;
  double recording_seconds = 60;
  bool only_nodes = false;  // remove nodes, nothing else
  bool prove = false;       // in the end: every operator is left out once, alone, and the failure must be gone
  std::string hint;         // the node that the failure names
  std::optional<RecordedValues> recorded;  // of the program, where they are known
  // The program became smaller.
  std::function<void(const Program& best)> smaller;
  std::function<void(const std::string& step)> progress;
};

class Reducer {
 public:
  Reducer(Program program, Trials& trials, ReduceOptions options);
  // Throws Interrupted; what was found until then is there all the same.
  void run();

  const Program& best() const { return best_; }
  // All programs that were accepted, in order, the first one included. They share weights.
  const std::vector<std::shared_ptr<const Program>>& accepted() const { return accepted_; }
  int tried() const { return tried_; }
  const Failure& failure() const { return failure_; }  // of the best, as last seen
  // After run() with `prove`: leaving out any one operator loses the failure. Operators that no program can do without
  // (their results can be no inputs) are counted.
  bool proved() const { return proved_; }
  int not_removable() const { return not_removable_; }
  // Candidates of the proof that were cut off by a limit before they showed anything: then nothing is proved.
  int undecided() const { return undecided_; }

 private:
  enum class Verdict : uint8_t { same, other, undecided };
  Verdict verdict_of(const Failure& failure) const;
  using Maker = std::function<std::optional<Program>()>;
  // The number of the first candidate that fails the same way; it is the best then.
  std::optional<size_t> try_all(const std::vector<Maker>& makers);
  void accept(Program program);
  void record();

  void use_hint();
  void drop_symbols();
  bool reduce_nodes();
  bool reduce_outputs();
  bool apply_in_chunks(const std::function<std::vector<Edit>()>& edits);
  bool apply_groups();
  bool reduce_sizes();
  bool reduce_symbols();
  bool reduce_number(int64_t from, int64_t least, const std::function<Program(int64_t at, int64_t to)>& with);
  bool use_subgraph();
  bool reduce_once();
  // False: a smaller program was found instead. True: none was; proved() says whether that is certain.
  bool prove_minimal();
  void say(const std::string& step) const;

  Program best_;
  Trials& trials_;
  ReduceOptions options_;
  RecordedValues recorded_;
  std::map<std::string, Verdict> known_;  // by content
  std::vector<std::shared_ptr<const Program>> accepted_;
  std::set<std::string> filled_;  // constants that were made simple
  Failure failure_;
  int tried_ = 0, not_removable_ = 0, undecided_ = 0;
  bool proved_ = false;
};

}  // namespace kiln::minify
