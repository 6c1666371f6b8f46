#include "check/check_case.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/file.h"
#include "base/file_kind.h"
#include "base/given_settings.h"
#include "base/json.h"
#include "check/bundle.h"
#include "check/case_calls.h"
#include "check/check_case_files.h"
#include "check/rounding_noise.h"
#include "compile/compilation.h"
#include "compile/program_device.h"
#include "graph/walk.h"
#include "graph_passes/written_inputs.h"
#include "ops/op_record.h"
#include "pt2/reader.h"
#include "types/device_names.h"

namespace kiln {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Of the floats that a graph has values of, the one with the largest epsilon; of complex numbers their parts count.
// 8-bit floats are what is stored, not what is computed in.
std::optional<DType> least_exact(const Graph& graph) {
  std::optional<DType> out;
  const auto see = [&](const Value* value) {
    if (!value || value->kind != ValueKind::tensor || dtype_bytes(value->type.dtype) == 1) return;
    const double epsilon = dtype_epsilon(value->type.dtype);
    if (epsilon > (out ? dtype_epsilon(*out) : 0)) out = value->type.dtype;
  };
  for (const Value* input : graph.inputs) see(input);
  for_each_node(graph, [&](const Node& node) {
    for (const Value* result : node.results) {
      see(result);
      for (const Value* item : result->items) see(item);
    }
  });
  return out;
}

// The fp64 reference, and its samples of what rounding does, run only when a value is out of tolerance. Where they
// cannot run, nothing is rescued.
class Fp64Reference {
 public:
  Fp64Reference(const Program& program, const ExecutableOptions& options) : program_(program), options_(options) {
    options_.backend = Backend::interpret;
    options_.fp64 = true;
  }
  // The result of the last of these calls, made in a row on a fresh instance.
  const CallResult* after(const std::vector<const std::vector<Datum>*>& calls, int sample) {
    if (calls_ != calls) results_.clear();
    calls_ = calls;
    const auto [found, is_new] = results_.try_emplace(sample);
    std::optional<CallResult>& result = found->second;
    if (is_new) try {
        const std::unique_ptr<Executable> executable =
            sample == 0 ? make_executable(program_, options_)
                        : rounded_executable(program_, options_.custom_op_libs, sample);
        for (const std::vector<Datum>* inputs : calls) result = executable->call(*inputs);
      } catch (const Error&) {
        result.reset();
      }
    return result ? &*result : nullptr;
  }

 private:
  const Program& program_;
  ExecutableOptions options_;
  std::vector<const std::vector<Datum>*> calls_;
  std::map<int, std::optional<CallResult>> results_;  // by sample
};

class CaseRun {
 public:
  CaseRun(CaseFiles& files, const CaseOptions& options, CaseResult& result)
      : files_(files), options_(options), result_(result) {}

  void run() {
    result_.stage = "read";
    program_ = read_pt2(files_.model);
    complete_inputs(files_, program_);
    computed_in_ = least_exact(program_.graph);
    if (options_.executable.backend != Backend::compiled && options_.executable.device.empty() &&
        exported_device(program_) != DeviceType::cpu)
      moved_ = true, program_ = moved_to_cpu(program_);  // the references are nowhere else
    // The program that was moved does not say any more what it is to be compiled for.
    ExecutableOptions placed = options_.executable;
    if (placed.backend == Backend::compiled) placed.device = device_type_name(compile_device(program_, placed.device));
    if (auto moved = placed_program(program_, options_.executable.device, options_.executable.note))
      moved_ = true, program_ = std::move(*moved);
    Fp64Reference reference(program_, options_.executable);
    result_.stage = options_.executable.backend == Backend::interpret ? "read" : "compile";
    const auto begin = std::chrono::steady_clock::now();
    const std::unique_ptr<Executable> executable = make_executable(program_, placed);
    result_.compile_seconds = seconds_since(begin);
    CaseCalls calls(files_, *executable, compare_options());
    calls.reference = [&](const std::vector<const std::vector<Datum>*>& made, int sample) {
      return reference.after(made, sample);
    };
    calls.placed = [&](std::vector<Datum> inputs) { return on_device(std::move(inputs)); };
    calls.written = [&] { return inputs_written(); };
    // A backend lists the buffers that the program writes; any other is as in the file.
    calls.whole_state = [&](std::map<std::string, Tensor> state) { return with_constants(std::move(state)); };
    try {
      files_.bare ? compare_with_interpreter(calls) : calls.run();
    } catch (...) {
      take(calls);
      throw;
    }
    take(calls);
  }

 private:
  CompareOptions compare_options() const {
    CompareOptions out;
    out.rtol = options_.rtol ? options_.rtol : files_.rtol;
    out.atol = options_.atol ? options_.atol : files_.atol;
    out.shapes_only = files_.shapes_only;
    out.computed_in = computed_in_;
    out.rounded_factors = options_.executable.backend != Backend::interpret &&
                          product_precision(options_.executable.settings) != ProductPrecision::highest;
    return out;
  }

  void take(const CaseCalls& calls) {
    if (!calls.stage.empty()) result_.stage = calls.stage;
    result_.calls = calls.calls, result_.rescued = calls.rescued, result_.worst = calls.worst;
  }

  std::vector<Datum> on_device(std::vector<Datum> inputs) const {
    if (moved_) move_to_cpu(inputs);
    return inputs;
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

  void compare_with_interpreter(CaseCalls& calls) const {
    if (program_.sample_inputs.empty() && has_user_inputs())
      throw CaseFailure{"read", "the model carries no sample inputs to run it on"};
    ExecutableOptions interpret = options_.executable;
    interpret.backend = Backend::interpret;
    calls.stage = "reference interpreter";
    CallResult expected = make_executable(program_, interpret)->call(program_.sample_inputs);
    calls.stage = "call on the sample inputs";
    const CallResult got = calls.executable.call(program_.sample_inputs);
    if (draws_numbers()) take_drawn(interpret, got, expected);
    calls.compare_outputs(got, expected.outputs, {&program_.sample_inputs});
    calls.take(compare_lists("input after the call", got.inputs, expected.inputs, calls.compare));
    calls.take(compare_state(with_constants(got.state), expected.state, calls.compare));
    ++calls.calls;
  }

  bool draws_numbers() const {
    bool out = false;
    for_each_node(program_.graph, [&](const Node& node) {
      const OpRecord* op = Registry::instance().find(node.target);
      out |= op && op->random;
    });
    return out;
  }

  // What the reference itself gives otherwise where it draws other numbers has no value that could be expected: there
  // what is got counts, if its kind and sizes are right.
  void take_drawn(ExecutableOptions interpret, const CallResult& got, CallResult& expected) const {
    interpret.seed = 1;
    const CallResult other = make_executable(program_, interpret)->call(program_.sample_inputs);
    CompareOptions kinds, values;
    kinds.shapes_only = true, values.rtol = values.atol = 0;
    bool drawn = false;
    const auto take = [&](const Datum& mine, Datum& wanted, const Datum& again) {
      if (compare("", again, wanted, values).ok() || !compare("", mine, wanted, kinds).ok()) return;
      wanted = mine, drawn = true;
    };
    for (size_t i = 0; i < std::min(got.outputs.size(), expected.outputs.size()); ++i)
      take(got.outputs[i], expected.outputs[i], other.outputs[i]);
    for (size_t i = 0; i < std::min(got.inputs.size(), expected.inputs.size()); ++i)
      take(got.inputs[i], expected.inputs[i], other.inputs[i]);
    for (auto& [name, tensor] : expected.state) {
      Datum wanted{tensor};
      if (!got.state.count(name) || !other.state.count(name)) continue;
      take(Datum{got.state.at(name)}, wanted, Datum{other.state.at(name)});
      tensor = wanted.tensor();
    }
    if (drawn && options_.executable.note)
      options_.executable.note("of values that the program draws at random only kinds and sizes are compared");
  }

  std::map<std::string, Tensor> with_constants(std::map<std::string, Tensor> state) const {
    state.insert(program_.constants.begin(), program_.constants.end());
    return state;
  }

  bool has_user_inputs() const {
    return std::any_of(program_.input_specs.begin(), program_.input_specs.end(),
                       [](const InputSpec& spec) { return spec.kind == InputKind::user; });
  }

  CaseFiles& files_;
  const CaseOptions& options_;
  CaseResult& result_;
  Program program_;
  std::optional<DType> computed_in_;
  bool moved_ = false;  // to the CPU, where the inputs go too
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

// A package that carries a test, as it is: no compiler, no model, no reference.
void check_package(const std::string& path, const CaseOptions& options, CaseResult& result) {
  if (options.executable.backend != Backend::compiled)
    throw CaseFailure{"read", "a package is run as it is: --backend compiled"};
  const CaseFiles files = read_package_bundle(path);
  result.stage = "load";
  PackageOptions package_options;
  package_options.ignore_environment = options.executable.settings != nullptr;
  if (options.executable.settings) package_options.settings = run_assignments(*options.executable.settings);
  package_options.custom_op_libs = options.executable.custom_op_libs;
  PackageExecutable package(path, package_options);
  result.stage = "self-test";
  const SelfTest test = self_test(files, package, options.rtol, options.atol);
  result.calls = test.calls, result.worst = test.worst;
}

bool is_case_directory(const std::string& path) { return file_exists(join_path(path, "model.pt2")); }

}  // namespace

const char* case_status_name(CaseStatus status) {
  return status == CaseStatus::passed ? "passed" : status == CaseStatus::failed ? "failed" : "skipped";
}

bool is_package_case(const std::string& path) {
  return file_exists(path) && !is_directory(path) && file_kind_of(path) == FileKind::kiln_package;
}

CaseResult check_case(const std::string& path, const CaseOptions& options) {
  CaseResult result;
  result.path = path;
  result.stage = "read";
  const auto begin = std::chrono::steady_clock::now();
  try {
    if (is_package_case(path)) {
      check_package(path, options, result);
      result.status = CaseStatus::passed;
      result.stage.clear();
      result.seconds = seconds_since(begin);
      return result;
    }
    CaseFiles files = read_case_files(path);
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
      if (extension(path) != ".pt2" && !is_package_case(path))
        fail_user("K0170", str(path, ": neither a .pt2 nor a directory with cases"));
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
