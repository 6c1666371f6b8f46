#include "judge.h"

#include <cmath>
#include <set>

#include "../campaign/arguments.h"
#include "base/file.h"
#include "base/zip.h"
#include "check/compare.h"
#include "compile/compile.h"
#include "executable/package_executable.h"
#include "inspect/inspect.h"
#include "package/plan_io.h"
#include "pt2/reader.h"
#include "pt2/tensor_files.h"

namespace kiln::mutants {
namespace {

constexpr double most_elements = 1 << 18;  // of all values together; the reference takes its time

// Sizes at the export's values of the symbols.
SymbolValues hints_of(const Program& program) {
  SymbolValues hints;
  for (const auto& [name, info] : program.symbols) {
    const int64_t low = std::max<int64_t>(info.range.low, 0), high = std::max(info.range.high, low);
    hints[name] = std::clamp<int64_t>(info.hint.value_or(3), low, high);
  }
  return hints;
}

double elements(const Value& value, const SymbolValues& hints) {
  double count = 0;
  if (value.kind == ValueKind::tensor) {
    count = 1;
    try {
      for (const Expr& size : value.type.sizes) count *= std::abs(static_cast<double>(evaluate(size, hints)));
    } catch (const Error&) {
      return 1;
    }
  }
  for (const Value* item : value.items)
    if (item != nullptr) count += elements(*item, hints);
  return count;
}

double elements(const Graph& graph, const SymbolValues& hints) {
  double count = 0;
  for (const Value* input : graph.inputs) count += elements(*input, hints);
  for (const auto& node : graph.nodes) {
    for (const Value* result : node->results) count += elements(*result, hints);
    for (const auto& named : node->args)
      if (named.arg.is_graph() && named.arg.as_graph()) count += elements(*named.arg.as_graph(), hints);
  }
  return count;
}

double elements(const std::vector<Datum>& inputs) {
  double count = 0;
  for (const Datum& datum : inputs)
    if (datum.is_tensor()) count += static_cast<double>(datum.tensor().numel());
  return count;
}

// Inputs of the types that the program declares.
std::vector<Datum> made_inputs(const Program& program) {
  const SymbolValues hints = hints_of(program);
  std::vector<Datum> out;
  for (size_t i = 0; i < program.graph.inputs.size(); ++i) {
    const Value& value = *program.graph.inputs[i];
    const InputSpec& spec = program.input_specs[i];
    if (spec.kind == InputKind::constant_value) {
      const Argument& constant = spec.constant;
      if (constant.is_scalar())
        out.push_back({constant.as_scalar()});
      else if (const auto* text = std::get_if<std::string>(&constant.value))
        out.push_back({*text});
      else
        out.emplace_back();
    }
    if (spec.kind != InputKind::user) continue;
    if (value.kind != ValueKind::tensor) {
      out.push_back({Scalar(evaluate(value.expr, hints))});
      continue;
    }
    std::vector<int64_t> sizes;
    for (const Expr& size : value.type.sizes) sizes.push_back(evaluate(size, hints));
    Tensor tensor = Tensor::empty(value.type.dtype, sizes);
    tensor.device = value.type.device;
    for (int64_t e = 0; e < tensor.numel(); ++e)
      tensor.set_item(
          e, is_float(tensor.dtype) ? Scalar(static_cast<double>((e * 7 + 3) % 11) / 4 - 1) : Scalar((e * 7 + 3) % 2));
    out.push_back({std::move(tensor)});
  }
  return out;
}

bool refusal(const Error& error) {
  // K0411: the C++ compiler did not take what Kiln generated, which is no refusal.
  return error.kind() != ErrorKind::bug && error.code() != "K0411";
}

Verdict from(const std::exception& thrown, const std::string& stage) {
  const auto* error = dynamic_cast<const Error*>(&thrown);
  const bool refused = error != nullptr && refusal(*error);
  return {refused ? Outcome::refused : Outcome::failed, str(stage, ": ", thrown.what())};
}

// What the fp64 reference gave, as the f32 reference would have said it.
Datum narrowed(const Datum& wide, const Datum& like) {
  if (wide.is_tensor() && like.is_tensor()) return {convert(wide.tensor(), like.tensor().dtype)};
  return wide;
}

// The strides of a tensor without elements say nothing, and each backend has its own.
std::vector<Datum> without_empty_strides(std::vector<Datum> data) {
  for (Datum& datum : data)
    if (datum.is_tensor() && datum.tensor().numel() == 0) {
      Tensor tensor = datum.tensor();
      tensor.strides = contiguous_strides(tensor.sizes);
      datum = {std::move(tensor)};
    }
  return data;
}

Comparison compare_calls(const CallResult& got, const CallResult& expected) {
  Comparison all =
      compare_lists("output", without_empty_strides(got.outputs), without_empty_strides(expected.outputs), {});
  all.add(compare_lists("input", got.inputs, expected.inputs, {}));
  // A package knows of buffers only those that the program changes.
  std::map<std::string, Tensor> changed;
  for (const auto& [name, tensor] : expected.state)
    if (got.state.contains(name)) changed.emplace(name, tensor);
  all.add(compare_state(got.state, changed, {}));
  return all;
}

// Kernels of tiny tensors are not worth the optimiser's time; the cache makes equal ones cheap.
CompileOptions compile_options() {
  CompileOptions options;
  options.settings = &campaign::KernelCache::settings();
  options.extra_flags = {"-O1"};
  return options;
}

PackageOptions package_options() {
  PackageOptions options;
  options.ignore_environment = true;
  // Each buffer ends at a page that nobody may touch.
  options.settings = {"PYTORCH_NO_CUDA_MEMORY_CACHING=1", "cpp.threads=1", "verify_weights=1"};
  return options;
}

class ModelJudge {
 public:
  ModelJudge(const Base& base, const std::string& directory) : base_(base), directory_(directory) {}

  Verdict run(const Mutant& mutant) {
    const std::string path = join_path(directory_, "mutant.pt2");
    write_file_atomic(path, mutant.bytes);
    try {
      program_ = read_pt2(path);
      inspect_program(program_, "mutant");
      return compute();
    } catch (const std::exception& thrown) {
      return from(thrown, "read");
    }
  }

 private:
  // The file's own sample inputs; the case's where there are none; what the program asks for where those do not fit.
  bool choose_inputs() {
    std::vector<std::vector<Datum>> candidates = {program_.sample_inputs};
    if (program_.sample_inputs.empty() && !base_.inputs_path.empty())
      candidates[0] = read_tensor_file(base_.inputs_path).items;
    for (const bool made : {false, true}) {
      if (made) candidates.push_back(made_inputs(program_));
      inputs_ = candidates.back();
      if (elements(inputs_) > most_elements) return false;
      try {
        expected_ = interpret(false);
        return true;
      } catch (const Error& error) {
        if (!refusal(error)) throw;
        interpreter_refuses_ = str("interpret: ", error.what());
        unsupported_ = error.kind() == ErrorKind::unsupported;
      }
    }
    return true;
  }

  CallResult interpret(bool fp64) {
    ExecutableOptions options;
    options.backend = Backend::interpret;
    options.fp64 = fp64;
    CallResult result = make_executable(program_, options)->call(inputs_);
    interpreter_refuses_.clear();
    return result;
  }

  Verdict compute() {
    if (elements(program_.graph, hints_of(program_)) > most_elements) return compile_only();
    try {
      if (!choose_inputs()) return compile_only();
    } catch (const std::exception& thrown) {
      return from(thrown, "interpret");
    }
    const std::string package = join_path(directory_, "mutant.kiln.pt2");
    CallResult got;
    std::string stage = "compile";
    try {
      compile(program_, package, compile_options());
      stage = "load";
      PackageExecutable executable(package, package_options());
      stage = "run";
      got = executable.call(inputs_);
    } catch (const std::exception& thrown) {
      return from(thrown, stage);
    }
    if (!interpreter_refuses_.empty())
      return {unsupported_ ? Outcome::refused : Outcome::failed,
              str("the compiled program runs, the reference refuses: ", interpreter_refuses_)};
    return compared(got);
  }

  Verdict compared(const CallResult& got) {
    const Comparison plain = compare_calls(got, expected_);
    if (plain.ok()) return {Outcome::right, ""};
    CallResult wide;
    try {
      wide = interpret(true);
    } catch (const std::exception& thrown) {
      return {Outcome::failed, str("differs: ", plain.failure, "; fp64: ", thrown.what())};
    }
    for (size_t i = 0; i < wide.outputs.size(); ++i) wide.outputs[i] = narrowed(wide.outputs[i], expected_.outputs[i]);
    for (size_t i = 0; i < wide.inputs.size(); ++i) wide.inputs[i] = narrowed(wide.inputs[i], expected_.inputs[i]);
    for (auto& [name, tensor] : wide.state) tensor = convert(tensor, expected_.state.at(name).dtype);
    // Nearer to the truth than the narrow reference is right; a reference that moves by itself proves nothing.
    if (compare_calls(got, wide).ok()) return {Outcome::right, ""};
    if (!compare_calls(wide, expected_).ok()) return {Outcome::unstable, plain.failure};
    if (moved_by_rounding(wide)) return {Outcome::unstable, plain.failure};
    return {Outcome::failed, str("differs: ", plain.failure)};
  }

  // Inputs and weights that are off by a rounding error each give as different a result: sums of large numbers that
  // cancel. The program is not needed any more after this.
  bool moved_by_rounding(const CallResult& wide) {
    for (auto& [name, tensor] : program_.constants) tensor = nudged(tensor);
    for (Datum& input : inputs_)
      if (input.is_tensor()) input = Datum{nudged(input.tensor())};
    try {
      CallResult moved = interpret(true);
      for (size_t i = 0; i < moved.outputs.size(); ++i) moved.outputs[i] = narrowed(moved.outputs[i], wide.outputs[i]);
      return !compare_calls(moved, wide).ok();
    } catch (const std::exception&) {
      return false;
    }
  }

  static Tensor nudged(const Tensor& tensor) {
    if (tensor.dtype != DType::f32 || !tensor.contiguous()) return tensor;
    constexpr float unit = std::numeric_limits<float>::epsilon();
    Tensor out = tensor.clone();
    for (int64_t i = 0; i < out.numel(); ++i) out.as<float>()[i] *= i % 2 == 0 ? 1 + unit : 1 - unit / 2;
    return out;
  }

  Verdict compile_only() {
    try {
      CompileOptions options = compile_options();
      options.goal = CompileGoal::generated;
      compile(program_, join_path(directory_, "mutant.kiln.pt2"), options);
    } catch (const std::exception& thrown) {
      return from(thrown, "compile");
    }
    return {Outcome::not_run, ""};
  }

  const Base& base_;
  const std::string& directory_;
  Program program_;
  std::vector<Datum> inputs_;
  CallResult expected_;
  std::string interpreter_refuses_;
  bool unsupported_ = false;
};

// Whether loading the package would run code that is not the runtime's.
bool runs_kernels(const std::string& path) {
  const auto file = MappedFile::open(path);
  const ZipReader zip(file->bytes(), path);
  for (const ZipEntry& entry : zip.entries())
    if (ends_with(entry.name, "/plan"))
      if (!format::read_plan(zip.stored(entry)).init.empty()) return true;
  return false;
}

}  // namespace

const char* outcome_name(Outcome outcome) {
  static constexpr const char* names[outcomes] = {"right", "not run", "unstable", "refused", "failed"};
  return names[static_cast<size_t>(outcome)];
}

Verdict judge_model(const Mutant& mutant, const Base& base, const std::string& directory) {
  return ModelJudge(base, directory).run(mutant);
}

Base package_of(const Base& model, const std::string& directory) {
  const std::string path = join_path(directory, "model.pt2"), package = join_path(directory, "model.kiln.pt2");
  write_file_atomic(path, model.bytes);
  compile(path, package, compile_options());
  return {model.name, read_file(package), model.inputs_path};
}

PackageJudge::PackageJudge(const Base& base, const std::string& directory)
    : path_(join_path(directory, "mutant.kiln.pt2")) {
  write_file_atomic(path_, base.bytes);
  // The case's inputs rather than the package's samples: an export may have an example that no call may bring (an
  // expanded tensor that the program writes to).
  if (!base.inputs_path.empty())
    inputs_ = read_tensor_file(base.inputs_path).items;
  else if (auto sample = package_sample_inputs(path_))
    inputs_ = std::move(*sample);
  expected_ = PackageExecutable(path_, package_options()).call(inputs_);
}

Verdict PackageJudge::judge(const Mutant& mutant) {
  write_file_atomic(path_, mutant.bytes);
  Verdict inspected;
  try {
    inspect_file(path_);
  } catch (const std::exception& thrown) {
    inspected = from(thrown, "inspect");
    if (inspected.outcome == Outcome::failed) return inspected;
  }
  try {
    // Loading runs the plan's init: kernels that do not know this plan.
    if (!mutant.run && runs_kernels(path_)) return inspected;
    PackageExecutable executable(path_, package_options());
    if (!mutant.run) return inspected;
    const Comparison same = compare_calls(executable.call(inputs_), expected_);
    return {same.ok() ? Outcome::right : Outcome::failed, same.failure};
  } catch (const std::exception& thrown) {
    return from(thrown, "load and run");
  }
}

}  // namespace kiln::mutants
