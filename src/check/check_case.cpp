#include "check/check_case.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "check/check_case_files.h"
#include "compile/program_device.h"
#include "graph_passes/written_inputs.h"
#include "ops/op_record.h"
#include "pt2/reader.h"
#include "types/device_names.h"

namespace kiln {
namespace {

// Thrown to leave a case at its first failure.
struct CaseFailure {
  std::string stage, message;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The fp64 reference, run only when a value is out of tolerance. Where it cannot run, nothing is rescued.
class Fp64Reference {
 public:
  Fp64Reference(const Program& program, const ExecutableOptions& options) : program_(program), options_(options) {
    options_.backend = Backend::interpret;
    options_.fp64 = true;
  }
  // The result of the last of these calls, made in a row on a fresh instance.
  const CallResult* after(const std::vector<const std::vector<Datum>*>& calls) {
    if (calls_ == calls) return result_ ? &*result_ : nullptr;
    calls_ = calls;
    result_.reset();
    try {
      const std::unique_ptr<Executable> executable = make_executable(program_, options_);
      for (const std::vector<Datum>* inputs : calls) result_ = executable->call(*inputs);
    } catch (const Error&) {
      result_.reset();
    }
    return result_ ? &*result_ : nullptr;
  }

 private:
  const Program& program_;
  ExecutableOptions options_;
  std::vector<const std::vector<Datum>*> calls_;
  std::optional<CallResult> result_;
};

class CaseRun {
 public:
  CaseRun(const CaseFiles& files, const CaseOptions& options, CaseResult& result)
      : files_(files), options_(options), result_(result) {
    compare_.rtol = options.rtol ? options.rtol : files.rtol;
    compare_.atol = options.atol ? options.atol : files.atol;
    compare_.shapes_only = files.shapes_only;
  }

  void run() {
    result_.stage = "read";
    program_ = read_pt2(files_.model);
    if (options_.executable.backend != Backend::compiled && options_.executable.device.empty() &&
        exported_device(program_) != DeviceType::cpu)
      moved_ = true, program_ = moved_to_cpu(program_);  // the references are nowhere else
    // The program that was moved does not say any more what it is to be compiled for.
    ExecutableOptions executable = options_.executable;
    if (executable.backend == Backend::compiled)
      executable.device = device_type_name(compile_device(program_, executable.device));
    if (auto placed = placed_program(program_, options_.executable.device, options_.executable.note))
      moved_ = true, program_ = std::move(*placed);
    reference_.emplace(program_, options_.executable);
    result_.stage = options_.executable.backend == Backend::interpret ? "read" : "compile";
    const auto begin = std::chrono::steady_clock::now();
    executable_ = make_executable(program_, executable);
    result_.compile_seconds = seconds_since(begin);
    if (files_.bare) return compare_with_interpreter();
    for (size_t i = 0; i < files_.calls.size(); ++i) single_call(i);
    sequence();
    for (const CaseFiles::BadInputs& bad : files_.bad_inputs) refused(bad);
  }

 private:
  void single_call(size_t i) {
    const CaseFiles::Call& call = files_.calls[i];
    result_.stage = str("call ", i);
    executable_->reset();
    const CallResult got = executable_->call(on_device(call.inputs));
    compare_outputs(got, call.expected, {&call.inputs});
    compare_inputs(got, call);
    if (call.state) {
      take(
          compare_state(with_constants(got.state), *call.state, compare_, [&](const std::string& name) -> const Datum* {
            const CallResult* reference = reference_->after({&call.inputs});
            if (!reference || !reference->state.count(name)) return nullptr;
            state_reference_ = Datum{reference->state.at(name)};
            return &state_reference_;
          }));
    }
    ++result_.calls;
  }

  std::vector<Datum> on_device(std::vector<Datum> inputs) const {
    if (moved_) move_to_cpu(inputs);
    return inputs;
  }

  void compare_inputs(const CallResult& got, const CaseFiles::Call& call) {
    if (!call.mutated) {
      const Comparison unchanged = compare_unchanged(got.inputs, call.inputs);
      return take(unchanged.ok() ? unchanged : compare_unchanged(got.inputs, call.inputs, inputs_written()));
    }
    take(compare_lists("input after the call", got.inputs, *call.mutated, compare_, [&](size_t k) -> const Datum* {
      const CallResult* reference = reference_->after({&call.inputs});
      return reference && k < reference->inputs.size() ? &reference->inputs[k] : nullptr;
    }));
  }

  // Which of the user's inputs the program writes to.
  std::vector<bool> inputs_written() const {
    Program program = program_.clone();
    std::vector<std::string> others;  // custom operators: what they write to is in their library
    for (const auto& node : program.graph.nodes)
      if (!Registry::instance().find(node->target)) others.push_back(node->target);
    resolve_operators(program.graph, others);
    const std::set<const Value*> by_nodes = written_inputs(program.graph);
    std::vector<bool> out;
    for (size_t i = 0; i < program.input_specs.size(); ++i) {
      const InputKind kind = program.input_specs[i].kind;
      if (kind != InputKind::user && kind != InputKind::constant_value) continue;
      const Value* input = program.graph.inputs[i];
      const auto writes = [&](const OutputSpec& spec) {
        return spec.kind == OutputKind::user_input_mutation && spec.target == input->name;
      };
      out.push_back(by_nodes.contains(input) ||
                    std::any_of(program.output_specs.begin(), program.output_specs.end(), writes));
    }
    return out;
  }

  // inputs_0, inputs_1, …, inputs_0 in a row on one instance.
  void sequence() {
    if (!files_.sequence) return;
    std::vector<const std::vector<Datum>*> all;
    for (const CaseFiles::Call& call : files_.calls) all.push_back(&call.inputs);
    if (!all.empty()) all.push_back(all.front());
    result_.stage = "sequence";
    if (files_.sequence->size() != all.size())
      throw CaseFailure{"read", str("expected_sequence.pt has ", files_.sequence->size(),
                                    " calls, the case has inputs for ", all.size())};
    executable_->reset();
    std::vector<const std::vector<Datum>*> made;
    for (size_t i = 0; i < all.size(); ++i) {
      result_.stage = str("sequence call ", i);
      made.push_back(all[i]);
      compare_outputs(executable_->call(on_device(*all[i])), (*files_.sequence)[i], made);
      ++result_.calls;
    }
  }

  void refused(const CaseFiles::BadInputs& bad) {
    result_.stage = bad.name;
    if (!bad.refusal.empty()) {
      ++result_.calls;
      return;
    }
    executable_->reset();
    try {
      executable_->call(bad.inputs);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::bug) throw;
      ++result_.calls;
      return;
    }
    throw CaseFailure{bad.name, "these inputs must be refused, but the call went through"};
  }

  void compare_with_interpreter() {
    if (program_.sample_inputs.empty() && has_user_inputs())
      throw CaseFailure{"read", "the model carries no sample inputs to run it on"};
    ExecutableOptions interpret = options_.executable;
    interpret.backend = Backend::interpret;
    result_.stage = "reference interpreter";
    const CallResult expected = make_executable(program_, interpret)->call(program_.sample_inputs);
    result_.stage = "call on the sample inputs";
    const CallResult got = executable_->call(program_.sample_inputs);
    compare_outputs(got, expected.outputs, {&program_.sample_inputs});
    take(compare_lists("input after the call", got.inputs, expected.inputs, compare_));
    take(compare_state(with_constants(got.state), expected.state, compare_));
    ++result_.calls;
  }

  // A backend lists the buffers that the program writes; any other is as in the file.
  std::map<std::string, Tensor> with_constants(std::map<std::string, Tensor> state) const {
    state.insert(program_.constants.begin(), program_.constants.end());
    return state;
  }

  bool has_user_inputs() const {
    return std::any_of(program_.input_specs.begin(), program_.input_specs.end(),
                       [](const InputSpec& spec) { return spec.kind == InputKind::user; });
  }

  void compare_outputs(const CallResult& got, const std::vector<Datum>& expected,
                       const std::vector<const std::vector<Datum>*>& calls) {
    take(compare_lists("output", got.outputs, expected, compare_, [&](size_t k) -> const Datum* {
      const CallResult* reference = reference_->after(calls);
      return reference && k < reference->outputs.size() ? &reference->outputs[k] : nullptr;
    }));
  }

  void take(const Comparison& comparison) {
    result_.rescued += comparison.rescued;
    result_.worst = std::max(result_.worst, comparison.worst);
    if (!comparison.ok()) throw CaseFailure{result_.stage, comparison.failure};
  }

  const CaseFiles& files_;
  const CaseOptions& options_;
  CaseResult& result_;
  CompareOptions compare_;
  Program program_;
  std::optional<Fp64Reference> reference_;
  Datum state_reference_;
  bool moved_ = false;  // to the CPU, where the inputs go too
  std::unique_ptr<Executable> executable_;
};

// "mylib.foo needs …" in one line, with the user's source line where it is known.
std::string one_line(const Error& error) {
  std::string text = str("error[", error.code(), "]: ", replace_all(error.message(), "\n", "; "));
  if (!error.where().op.empty() && error.message().find(error.where().op) == std::string::npos)
    text += str(" (", error.where().op, ")");
  if (error.where().source.known()) text += str(" at ", error.where().source.file, ":", error.where().source.line);
  if (!error.where().pass.empty()) text += str(" in pass ", error.where().pass);
  return text;
}

// What the case needs and this run does not offer; empty: nothing.
std::string missing_need(const std::string& need, const CaseOptions& options) {
  if (need == "custom operators")
    return options.executable.custom_op_libs.empty() ? "needs custom operators: give --custom-op-lib" : "";
  if (device_type_from_name(need) == DeviceType::cuda)
    return device_type_from_name(options.executable.device) == DeviceType::cuda ? "" : "needs --device cuda";
  return str("needs ", quote(need), ", which this Kiln does not know");
}

bool is_case_directory(const std::string& path) { return file_exists(join_path(path, "model.pt2")); }

}  // namespace

const char* case_status_name(CaseStatus status) {
  return status == CaseStatus::passed ? "passed" : status == CaseStatus::failed ? "failed" : "skipped";
}

CaseResult check_case(const std::string& path, const CaseOptions& options) {
  CaseResult result;
  result.path = path;
  result.stage = "read";
  const auto begin = std::chrono::steady_clock::now();
  try {
    const CaseFiles files = read_case_files(path);
    for (const std::string& need : files.needs) {
      const std::string missing = missing_need(need, options);
      if (missing.empty()) continue;
      result.status = CaseStatus::skipped;
      result.message = missing;
      return result;
    }
    CaseOptions noted = options;
    noted.executable.note = [&](const std::string& note) {
      if (std::find(result.notes.begin(), result.notes.end(), note) == result.notes.end()) result.notes.push_back(note);
      if (options.executable.note) options.executable.note(note);
    };
    CaseRun(files, noted, result).run();
    result.status = CaseStatus::passed;
    result.stage.clear();
  } catch (const CaseFailure& failure) {
    result.stage = failure.stage;
    result.message = failure.message;
  } catch (const Error& error) {
    result.message = one_line(error);
    result.code = error.code();
    result.op = error.where().op;
  } catch (const std::exception& error) {
    result.message = str("a bug in Kiln: ", error.what());
  }
  result.seconds = seconds_since(begin);
  return result;
}

std::vector<std::string> find_cases(const std::vector<std::string>& paths) {
  std::vector<std::string> cases;
  for (const std::string& path : paths) {
    if (!is_directory(path)) {
      if (!file_exists(path)) fail_user("K0170", str(path, ": there is no such file or directory"));
      if (extension(path) != ".pt2") fail_user("K0170", str(path, ": neither a .pt2 nor a directory with cases"));
      cases.push_back(path);
      continue;
    }
    if (is_case_directory(path)) {
      cases.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
      if (entry.is_directory() && is_case_directory(entry.path().string())) found.push_back(entry.path().string());
    if (found.empty()) fail_user("K0170", str(path, ": holds no case (a directory with a model.pt2)"));
    std::sort(found.begin(), found.end());
    cases.insert(cases.end(), found.begin(), found.end());
  }
  return cases;
}

}  // namespace kiln
