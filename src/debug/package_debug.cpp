#include "debug/package_debug.h"

#include "base/cpu_levels.h"
#include "base/inflate.h"
#include "base/json.h"
#include "codegen/backend.h"
#include "executable/package_executable.h"
#include "graph/walk.h"
#include "lower/lower.h"
#include "ops/op_record.h"
#include "package/plan_io.h"
#include "package/target_plan.h"
#include "pt2/tensor_files.h"

namespace kiln {
namespace {

// The numbers of a buffer of fixed size.
std::vector<int64_t> fixed(const std::vector<Expr>& exprs) {
  std::vector<int64_t> out;
  for (const Expr& e : exprs) out.push_back(evaluate(e, {}));
  return out;
}

std::vector<std::string> lines_of(const std::optional<std::string>& text) {
  std::vector<std::string> out = split(text.value_or(""), '\n');
  std::erase(out, "");
  return out;
}

// Operators of the user's own, subgraphs included.
void collect_custom(const Graph& graph, std::vector<std::string>& names) {
  for_each_node(graph, [&](const Node& node) {
    if (!Registry::instance().find(node.target)) names.push_back(node.target);
  });
}

}  // namespace

PackageDebug::PackageDebug(const std::string& path, const std::string& weights) {
  require_package(path);
  file_ = MappedFile::open(path);
  zip_ = std::make_unique<ZipReader>(file_->bytes(), path, inflate_entry);
  for (const ZipEntry& e : zip_->entries())
    if (e.name.find("data/kiln/") != std::string::npos && ends_with(e.name, "/plan"))
      folder_ = e.name.substr(0, e.name.size() - 4);
  plan_ = format::read_plan(as_bytes(*entry("plan")));
  choose_target();
  const std::string sidecar = path + ".debug";
  if (!entry("debug/loops.txt") && file_exists(sidecar)) {
    sidecar_file_ = MappedFile::open(sidecar);
    sidecar_ = std::make_unique<ZipReader>(sidecar_file_->bytes(), sidecar, inflate_entry);
    if (entry("build_id") != plan_.build_id)
      fail_user("K0541", str(sidecar, " is the debug section of another build (", entry("build_id").value_or("none"),
                             "); the package is ", plan_.build_id));
  }
  const auto loops = entry("debug/loops.txt");
  if (!loops)
    fail_user("K0540", str(path, " has no debug section (it was compiled with --strip-debug) and ", sidecar,
                           " is not there: this tool needs the loops and the graph that lie in it"));
  if (const auto origins = entry("debug/origins")) origins_ = format::read_origins(as_bytes(*origins));
  steps_ = std::make_unique<StepInterpreter>(*loops);
  for (const loops::Buffer& buffer : steps_->program().buffers) buffers_[buffer.name] = &buffer;
  compile_settings_ = lines_of(entry("debug/settings.txt"));
  read_constants(path, weights);
  read_merges();
}

// The target whose code the runtime takes on this machine: its plan and its part of the debug section are meant.
void PackageDebug::choose_target() {
  for (const format::CodeObject& object : plan_.code) {
    targets_.push_back(object.target);
    plan_entries_.push_back(object.plan.empty() ? "plan" : object.plan);
  }
  if (targets_.empty()) {
    targets_.push_back(codegen::backend_for(plan_.device).host_target_name());
    plan_entries_.emplace_back("plan");
    return;
  }
  target_ = plan_for_this_machine(plan_).target;
  plan_ = plan_of_target(target_);
}

format::Plan PackageDebug::plan_of_target(size_t target) const {
  return format::read_plan(as_bytes(*find(plan_entries_.at(target))));
}

const loops::Buffer* PackageDebug::buffer(const std::string& name) const {
  const auto found = buffers_.find(name);
  return found == buffers_.end() ? nullptr : found->second;
}

std::optional<std::string> PackageDebug::entry(const std::string& name) const {
  if (starts_with(name, "debug/"))
    if (auto own = entry_of_target(target_, name.substr(6))) return own;
  return find(name);
}

// The first target's lie in the section itself, another's in a folder of its own.
std::optional<std::string> PackageDebug::entry_of_target(size_t target, const std::string& name) const {
  return find(target == 0 ? "debug/" + name : str("debug/", targets_.at(target), "/", name));
}

std::optional<std::string> PackageDebug::find(const std::string& name) const {
  for (const ZipReader* zip : {zip_.get(), sidecar_.get()}) {
    if (!zip) continue;
    for (const std::string& candidate : {name, folder_ + name})
      if (const ZipEntry* found = zip->find(candidate)) return std::string(as_text(zip->read(*found).bytes));
  }
  return std::nullopt;
}

void PackageDebug::read_constants(const std::string& path, const std::string& weights) {
  other_weights_ = !weights.empty();
  std::unique_ptr<PackageExecutable> loaded;  // once something is there in packed form only, or not in the package
  for (const loops::Buffer& buffer : steps_->program().buffers) {
    if (buffer.role != loops::BufferRole::constant) continue;
    for (const format::Constant& constant : plan_.constants) {
      if (constant.name != buffer.constant) continue;
      Tensor tensor;
      tensor.dtype = buffer.tensor_dtype();
      tensor.sizes = fixed(buffer.tensor_sizes()), tensor.strides = fixed(buffer.tensor_strides());
      if (constant.packed_in != format::none || other_weights_) {
        PackageOptions options;
        options.ignore_environment = true;
        options.settings = {"verify_weights=1"};  // as of every entry that is read here
        options.weights = weights;
        if (!loaded) loaded = std::make_unique<PackageExecutable>(path, options);
        Tensor plain = Tensor::empty_strided(tensor.dtype, tensor.sizes, tensor.strides);
        loaded->read_constant(constant.name, plain);
        constants_[constant.name] = std::move(plain);
        continue;
      }
      const ZipEntry* stored = constant.entry.empty() ? nullptr : zip_->find(constant.entry);
      if (!stored && constant.bytes > 0) continue;  // a fault bundle carries no weights
      ByteSpan bytes = stored ? zip_->read(*stored).bytes : ByteSpan();
      if (static_cast<uint64_t>(constant.storage_offset + constant.bytes) > bytes.size())
        fail_user("K0524", str("constant ", constant.name, " of ", path, " lies outside its entry"));
      tensor.storage = storage_over(
          bytes.subspan(static_cast<size_t>(constant.storage_offset), static_cast<size_t>(constant.bytes)), file_);
      constants_[constant.name] = tensor;
    }
  }
}

void PackageDebug::read_merges() {
  for (const std::string& line : split(entry("debug/merged_values.txt").value_or(""), '\n'))
    if (const size_t tab = line.find('\t'); tab != std::string::npos)
      merged_[line.substr(0, tab)] = line.substr(tab + 1);
}

const Program& PackageDebug::graph() {
  if (graph_) return *graph_;
  const auto text = entry("debug/lowered_graph.txt");
  if (!text)
    fail_user("K0540",
              "the debug section of this package has no debug/lowered_graph.txt: it was written by an older "
              "Kiln; compile the model again");
  // Without the weights: what they hold may be what is wrong with the package.
  graph_ = std::make_unique<Program>(parse_program(*text));
  if (const auto manifest = entry("manifest.json")) {
    const Json json = parse_json(*manifest, "manifest.json");
    if (const Json* spec = json.find_value("out_spec")) graph_->out_spec = spec->as_string();
  }
  std::vector<std::string> custom;
  collect_custom(graph_->graph, custom);
  resolve_operators(graph_->graph, custom);
  return *graph_;
}

const std::map<const Value*, std::string>& PackageDebug::buffers_of_values() {
  if (value_buffers_) return *value_buffers_;
  value_buffers_.emplace();
  std::map<const Value*, std::string> names;
  try {
    lower(graph(), &names);
  } catch (const Error&) {
    return *value_buffers_;  // a graph that another version lowered: values go by their own names
  }
  for (const auto& [value, name] : names) {
    const loops::Buffer* found = buffer(name);
    const auto text = [](const std::vector<Expr>& sizes) {
      return join_map(sizes, ", ", [](const Expr& size) { return size.text(); });
    };
    if (found && found->dtype == value->type.dtype && text(found->sizes) == text(value->type.sizes))
      value_buffers_->emplace(value, name);
  }
  return *value_buffers_;
}

Compilation& PackageDebug::compilation() {
  if (compilation_) return *compilation_;
  settings_ = std::make_unique<Settings>(Phase::compile);
  for (const std::string& assignment : compile_settings_) settings_->set(assignment);
  CompilationOptions options;
  options.device = plan_.device;
  options.targets = targets_;
  options.settings = settings_.get();
  options.graph_is_final = true;
  std::vector<std::string> custom;
  collect_custom(graph().graph, custom);
  for (const std::string& name : custom) options.custom_ops.push_back({name, {}});
  // What the C++ compiler was given beyond the target's own flags; the first line has the lanes.
  const std::vector<std::string> flags = lines_of(find(str("debug/output_code_", targets_[0], ".flags")));
  const codegen::Backend& backend = codegen::backend_for(plan_.device);
  const codegen::Target target = backend.target(targets_[0], simdlen_of(settings_.get()));
  const size_t own = 1 + backend.generate({}, target).flags.size();
  if (flags.size() > own) options.extra_flags.assign(flags.begin() + static_cast<std::ptrdiff_t>(own), flags.end());
  compilation_ = std::make_unique<Compilation>(graph(), std::move(options));
  return *compilation_;
}

std::string PackageDebug::origin_text(int32_t step_number) const {
  std::string text;
  for (const format::StepOrigin& step : origins_.steps) {
    if (step.number != step_number) continue;
    for (size_t i = 0; i < step.lines.size(); ++i) {
      if (!step.lines[i].empty() && (i == 0 || step.lines[i] != step.lines[i - 1]))
        text += str("\n  --> ", step.lines[i]);
      text += str("\n  operator ", step.ops[i], " · node ", step.nodes[i],
                  step.modules[i].empty() ? "" : str(" · module ", step.modules[i]));
    }
  }
  return text;
}

}  // namespace kiln
