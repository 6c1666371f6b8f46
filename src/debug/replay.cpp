#include "debug/replay.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/inflate.h"
#include "base/json.h"
#include "base/suggest.h"
#include "base/zip.h"
#include "custom/dlpack.h"
#include "debug/step_copy.h"
#include "debug/tensor_difference.h"
#include "debug/written_parts.h"
#include "executable/package_executable.h"
#include "package/plan_io.h"
#include "package/step_plan.h"
#include "pt2/tensor_files.h"
#include "trace/plan_text.h"
#include "types/device_names.h"

namespace kiln {
namespace {

// An archive that holds a plan, opened for reading its entries.
struct OpenPackage {
  explicit OpenPackage(const std::string& path)
      : file((require_package(path), MappedFile::open(path))), zip(file->bytes(), path, inflate_entry) {
    for (const ZipEntry& entry : zip.entries())
      if (entry.name.find("data/kiln/") != std::string::npos && ends_with(entry.name, "/plan"))
        folder = entry.name.substr(0, entry.name.size() - 4);
    plan = format::read_plan(zip.read(zip.at(folder + "plan")).bytes);
  }
  const ZipEntry* find(const std::string& name) const {
    const ZipEntry* whole = zip.find(name);
    return whole ? whole : zip.find(folder + name);
  }
  std::shared_ptr<const MappedFile> file;
  ZipReader zip;
  std::string folder;
  format::Plan plan;
};

// Numbers of a step plan's expressions that mention no symbol, or those given.
std::optional<int64_t> number_of(const format::Plan& plan, format::ExprIndex e, const SymbolValues& symbols) {
  std::vector<int64_t> stack;
  for (const format::ExprInstruction& in : plan.exprs[static_cast<size_t>(e)].code) {
    if (in.code == format::ExprCode::constant) {
      stack.push_back(in.operand);
      continue;
    }
    if (in.code == format::ExprCode::symbol) {
      const auto found = symbols.find(plan.symbols[static_cast<size_t>(in.operand)].name);
      if (found == symbols.end()) return std::nullopt;
      stack.push_back(found->second);
      continue;
    }
    if (stack.size() < 2) return std::nullopt;
    const int64_t b = stack.back();
    stack.pop_back();
    int64_t& a = stack.back();
    if (in.code == format::ExprCode::add)
      a += b;
    else if (in.code == format::ExprCode::sub)
      a -= b;
    else if (in.code == format::ExprCode::mul)
      a *= b;
    else if (in.code == format::ExprCode::max)
      a = std::max(a, b);
    else
      return std::nullopt;
  }
  return stack.size() == 1 ? std::optional(stack[0]) : std::nullopt;
}

// Values for a bundle that was written without: the same every time, small enough for any operator.
Tensor made_up(DType dtype, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  Tensor tensor = Tensor::empty_strided(dtype, sizes, strides);
  uint64_t state = 88172645463325252u;
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    if (is_integral(dtype))
      tensor.set_item(i, Scalar(static_cast<int64_t>(state & 1)));
    else
      tensor.set_item(i, Scalar(static_cast<double>(state >> 40) * 0x1p-23 - 1));
  }
  return tensor;
}

std::vector<Datum> made_up_inputs(const OpenPackage& package, const Json& fault) {
  SymbolValues symbols;
  for (const JsonMember& member : fault.at("symbols").members()) symbols[member.key] = member.value.as_int();
  std::vector<Datum> out;
  for (const format::Input& input : package.plan.inputs) {
    if (input.what != format::InputWhat::tensor) {
      out.push_back(Datum{Scalar(symbols[input.name])});
      continue;
    }
    const format::Buffer& buffer = package.plan.buffers[static_cast<size_t>(input.buffer)];
    std::vector<int64_t> sizes, strides;
    for (format::ExprIndex e : buffer.sizes) sizes.push_back(number_of(package.plan, e, symbols).value_or(1));
    for (format::ExprIndex e : buffer.strides) strides.push_back(number_of(package.plan, e, symbols).value_or(1));
    out.push_back(Datum{made_up(static_cast<DType>(buffer.dtype), sizes, strides)});
  }
  return out;
}

std::string about(const Json& fault) {
  const std::string message = fault.at("message").as_string();
  std::string text = str("fault in ", fault.at("kind").as_string(), " ", fault.at("kernel").as_string(), " (step ",
                         fault.at("step").as_int(), ", run ", fault.at("run").as_int(), ") of ",
                         fault.at("package").as_string(), ", build ", fault.at("build_id").as_string(), ", Kiln ",
                         fault.at("kiln").as_string(), ", code for ", fault.at("target").as_string(), "\n");
  for (const std::string& line : split(message, '\n')) text += str("  | ", line, "\n");
  for (const Json& arg : fault.at("arguments").items())
    text += str("  ", arg.at("name").as_string(), "  ", arg.at("source").as_string(), "  ", arg.at("type").as_string(),
                "\n");
  return text;
}

std::vector<Datum> run_step(const std::string& path, const std::vector<Datum>& inputs, const ReplayOptions& options,
                            std::vector<Datum>* after = nullptr) {
  PackageOptions load;
  load.settings = options.settings;
  load.custom_op_libs = options.custom_op_libs;
  PackageExecutable executable(path, load);
  CallResult result = executable.call(inputs);
  if (after) *after = result.inputs;
  return result.outputs;
}

const format::Step* find_named(const std::vector<format::Step>& block, const std::string& name) {
  const format::Step* found = nullptr;
  for_each_step(block, [&](const format::Step& step, int) {
    if (!found && step.name == name) found = &step;
  });
  return found;
}

void names_in(const std::vector<format::Step>& block, std::vector<std::string>& names) {
  for_each_step(block, [&](const format::Step& step, int) { names.push_back(step.name); });
}

// Of what the step writes, buffers that other steps write as well, each its part (a concatenation in place).
std::set<std::string> written_in_parts(const format::Plan& plan, const format::Step& step) {
  std::map<int32_t, int> writers;
  for_each_step(plan.steps, [&](const format::Step& other, int) {
    for (const format::KernelArg& used : format::buffers_used(other)) writers[used.buffer] += writes(used.access);
  });
  std::set<std::string> names;
  for (const format::KernelArg& used : format::buffers_used(step))
    if (used.access == Access::write && writers[used.buffer] > 1)
      names.insert(plan.buffers[static_cast<size_t>(used.buffer)].name);
  return names;
}

// What the step has not written, from what was saved.
void complete(const Tensor& got, const Tensor& saved) {
  Tensor to = got;  // the same memory
  const Tensor poison = poisoned_tensor(got.dtype, got.sizes, got.strides, poison_byte);
  for (int64_t i = 0; i < got.numel(); ++i)
    if (same_bits(got, poison, i)) to.set_item(i, saved.item(i));
}

// The step cut out of its package, as a package of its own.
void write_step_package(const OpenPackage& package, const format::StepPlan& step, const std::string& path) {
  const std::string root = step.plan.model_name, prefix = str(root, "/data/kiln/", root, "/");
  AtomicFile file(path);
  ZipWriter zip([&](ByteSpan bytes) { file.write(bytes); });
  zip.add(prefix + "plan", format::write_plan(step.plan));
  std::vector<std::string> copied = {"debug/loops.txt", "debug/origins", "debug/lowered_graph.txt"};
  for (const format::CodeObject& code : step.plan.code) copied.push_back(code.entry);
  for (const format::CustomLibrary& library : step.plan.custom_libraries) copied.push_back(library.entry);
  for (const std::string& name : copied)
    if (const ZipEntry* entry = package.find(name))
      zip.add(starts_with(name, prefix) ? name : prefix + name, package.zip.read(*entry).bytes);
  zip.finish();
  file.commit();
}

// Names end with the device that the value was on.
Tensor saved_tensor(const std::string& directory, const std::string& when, const std::string& kernel,
                    const std::string& buffer) {
  const std::string stem = str(when, "_", kernel, "_", replace_all(buffer, "/", "_"), "_");
  std::string name = stem + "cpu.pt";
  for (const std::string& entry : list_directory(directory))
    if (starts_with(entry, stem) && ends_with(entry, ".pt") &&
        device_from_text(std::string_view(entry).substr(stem.size(), entry.size() - stem.size() - 3)))
      name = entry;
  const std::string path = join_path(directory, name);
  const TensorFile file = read_tensor_file(path);
  if (file.items.size() != 1 || !file.items[0].is_tensor()) fail_user("K0675", str(path, " does not hold one tensor"));
  return file.items[0].tensor();
}

}  // namespace

std::string Replay::text() const {
  if (fault.is_object()) return "the step ran to its end\n";
  std::string out;
  for (const Compared& one : compared)
    out += str(one.name,
               one.difference.empty() ? " is as it was saved" : str(" differs from the saved value ", one.difference),
               "\n");
  return out;
}

Replay replay_bundle(const std::string& path, const ReplayOptions& options,
                     const std::function<void(const std::string&)>& say) {
  const OpenPackage package(path);
  const ZipEntry* entry = package.find("fault.json");
  if (!entry)
    fail_user("K0676", str(path,
                           " is no fault bundle: it has no fault.json (of a whole package, give --kernel and "
                           "--from)"));
  Replay replay;
  replay.fault = parse_json(as_text(package.zip.read(*entry).bytes), entry->name);
  say(about(replay.fault));
  auto inputs = package_sample_inputs(path);
  if (!inputs) {
    say("the bundle holds no values: running on numbers made up for these shapes\n");
    inputs = made_up_inputs(package, replay.fault);
    replay.made_up = true;
  }
  replay.outputs = run_step(path, *inputs, options);
  return replay;
}

Replay replay_kernel(const std::string& path, const std::string& kernel, const std::string& directory,
                     const ReplayOptions& options) {
  const OpenPackage package(path);
  // Of a kernel in a loop the files of each iteration have its number.
  const std::string plain = kernel.substr(0, kernel.find(".iteration_"));
  const format::Step* step = find_named(package.plan.steps, plain);
  if (!step) step = find_named(package.plan.init, plain);
  std::vector<std::string> names;
  names_in(package.plan.steps, names);
  if (!step)
    fail_user("K0677", str(path, " has no kernel ", kernel, nearest_hint(kernel, names),
                           "; its kernels are: ", join(names, ", ")));
  const format::StepPlan cut = format::step_plan(package.plan, *step);
  const std::string about_step = join_path(directory, kernel + ".step.json");
  if (!file_exists(about_step)) {
    std::vector<std::string> iterations;
    for (const std::string& entry : list_directory(directory))
      if (starts_with(entry, kernel + ".iteration_") && ends_with(entry, ".step.json"))
        iterations.push_back(entry.substr(0, entry.size() - 10));
    std::sort(iterations.begin(), iterations.end());
    if (!iterations.empty())
      fail_user("K0678", str(kernel, " runs in a loop: give one iteration of those that ", directory, " holds, ",
                             iterations.front(), iterations.size() > 1 ? str(" … ", iterations.back()) : ""));
    fail_user("K0678", str(directory, " holds no saved values of ", kernel, " (", kernel,
                           ".step.json is missing): run "
                           "the package with AOT_INDUCTOR_DEBUG_INTERMEDIATE_VALUE_PRINTER=1"));
  }
  const Json symbols = parse_json(read_file(about_step), about_step).at("symbols");
  std::vector<Datum> inputs;
  for (const format::Input& input : cut.plan.inputs) {
    if (input.what == format::InputWhat::tensor)
      inputs.push_back(Datum{saved_tensor(directory, "before_launch", kernel, input.name)});
    else
      inputs.push_back(Datum{Scalar(symbols.at(input.name).as_int())});
  }
  TemporaryDirectory temporary;
  const std::string alone = join_path(temporary.path(), "step.kiln.pt2");
  write_step_package(package, cut, alone);
  Replay replay;
  std::vector<Datum> after;
  const std::set<std::string> in_parts = written_in_parts(package.plan, *step);
  ReplayOptions run = options;
  // Memory is poison then, and where a buffer still is that it is another step's.
  if (!in_parts.empty()) run.settings.emplace_back("PYTORCH_NO_CUDA_MEMORY_CACHING=1");
  replay.outputs = run_step(alone, inputs, run, &after);
  const auto compare = [&](const std::string& buffer, const Tensor& got) {
    const Tensor saved = saved_tensor(directory, "after_launch", kernel, buffer);
    if (in_parts.contains(buffer) && saved.sizes == got.sizes) complete(got, saved);
    const auto difference = find_difference(got, saved, {}, {});
    replay.compared.push_back({buffer, difference ? difference->text() : ""});
  };
  for (size_t i = 0; i < replay.outputs.size(); ++i) compare(cut.plan.outputs[i].name, replay.outputs[i].tensor());
  for (size_t i = 0; i < cut.plan.inputs.size(); ++i)
    if (cut.plan.inputs[i].mutated) compare(cut.plan.inputs[i].name, after[i].tensor());
  return replay;
}

}  // namespace kiln
