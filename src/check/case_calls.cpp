#include "check/case_calls.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace kiln {

void CaseCalls::run() {
  for (size_t i = 0; i < files.calls.size(); ++i) single_call(i);
  sequence();
  for (const CaseFiles::BadInputs& bad : files.bad_inputs) refused(bad);
}

void CaseCalls::single_call(size_t i) {
  const CaseFiles::Call& call = files.calls[i];
  stage = str("call ", i);
  executable.reset();
  const CallResult got = executable.call(on_device(call.inputs));
  compare_outputs(got, call.expected, {&call.inputs});
  compare_inputs(got, call);
  if (call.state) compare_states(got, call);
  ++calls;
}

void CaseCalls::compare_inputs(const CallResult& got, const CaseFiles::Call& call) {
  if (!call.mutated) {
    const Comparison unchanged = compare_unchanged(got.inputs, call.inputs);
    return take(unchanged.ok() || !written ? unchanged : compare_unchanged(got.inputs, call.inputs, written()));
  }
  take(compare_lists("input after the call", got.inputs, *call.mutated, compare,
                     [&](size_t k, int sample) -> const Datum* {
                       const CallResult* truth = reference_after({&call.inputs}, sample);
                       return truth && k < truth->inputs.size() ? &truth->inputs[k] : nullptr;
                     }));
}

void CaseCalls::compare_states(const CallResult& got, const CaseFiles::Call& call) {
  Datum kept;
  take(compare_state(whole_state ? whole_state(got.state) : got.state, *call.state, compare,
                     [&](const std::string& name, int sample) -> const Datum* {
                       const CallResult* truth = reference_after({&call.inputs}, sample);
                       if (!truth || !truth->state.count(name)) return nullptr;
                       kept = Datum{truth->state.at(name)};
                       return &kept;
                     }));
}

// inputs_0, inputs_1, …, inputs_0 in a row on one instance.
void CaseCalls::sequence() {
  if (!files.sequence) return;
  std::vector<const std::vector<Datum>*> all, made;
  for (const CaseFiles::Call& call : files.calls) all.push_back(&call.inputs);
  if (!all.empty()) all.push_back(all.front());
  stage = "sequence";
  if (files.sequence->size() != all.size())
    throw CaseFailure{"read", str("expected_sequence.pt has ", files.sequence->size(),
                                  " calls, the case has inputs for ", all.size())};
  executable.reset();
  for (size_t i = 0; i < all.size(); ++i) {
    stage = str("sequence call ", i);
    made.push_back(all[i]);
    compare_outputs(executable.call(on_device(*all[i])), (*files.sequence)[i], made);
    ++calls;
  }
}

void CaseCalls::refused(const CaseFiles::BadInputs& bad) {
  stage = bad.name;
  if (!bad.refusal.empty()) {
    ++calls;
    return;
  }
  executable.reset();
  try {
    executable.call(bad.inputs);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::bug) throw;
    ++calls;
    return;
  }
  throw CaseFailure{bad.name, "these inputs must be refused, but the call went through"};
}

void CaseCalls::compare_outputs(const CallResult& got, const std::vector<Datum>& expected,
                                const std::vector<const std::vector<Datum>*>& made) {
  take(compare_lists("output", got.outputs, expected, compare, [&](size_t k, int sample) -> const Datum* {
    const CallResult* truth = reference_after(made, sample);
    return truth && k < truth->outputs.size() ? &truth->outputs[k] : nullptr;
  }));
}

void CaseCalls::take(const Comparison& comparison) {
  rescued += comparison.rescued;
  worst = std::max(worst, comparison.worst);
  if (!comparison.ok()) throw CaseFailure{stage, comparison.failure};
}

}  // namespace kiln
