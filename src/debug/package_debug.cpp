#include "debug/package_debug.h"

#include "base/inflate.h"
#include "codegen/backend.h"
#include "executable/package_executable.h"
#include "ops/op_record.h"
#include "package/plan_io.h"
#include "pt2/tensor_files.h"

namespace kiln {
namespace {

// The numbers of a buffer of fixed size.
std::vector<int64_t> fixed(const std::vector<Expr>& exprs) {
  std::vector<int64_t> out;
  for (const Expr& e : exprs) out.push_back(evaluate(e, {}));
  return out;
}

// Operators of the user's own, subgraphs included.
void collect_custom(const Graph& graph, std::vector<std::string>& names) {
  for (const auto& node : graph.nodes) {
    if (!Registry::instance().find(node->target)) names.push_back(node->target);
    for (const auto& named : node->args)
      if (named.arg.is_graph()) collect_custom(*named.arg.as_graph(), names);
  }
}

}  // namespace

PackageDebug::PackageDebug(const std::string& path) {
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
  read_constants(path);
  read_merges();
}

// The target whose code the runtime takes on this machine: its plan and its part of the debug section are meant.
void PackageDebug::choose_target() {
  const std::vector<std::string> names = codegen::cpu_backend().target_names();  // the widest first
  const auto host = std::find(names.begin(), names.end(), codegen::cpu_backend().host_target_name());
  for (auto name = host; name != names.end(); ++name)
    for (const format::CodeObject& code : plan_.code) {
      if (code.target != *name) continue;
      if (code.plan.empty()) return;
      own_debug_ = str("debug/", code.target, "/");
      format::Plan own = format::read_plan(as_bytes(*entry(code.plan)));
      plan_ = std::move(own);
      return;
    }
}

const loops::Buffer* PackageDebug::buffer(const std::string& name) const {
  const auto found = buffers_.find(name);
  return found == buffers_.end() ? nullptr : found->second;
}

std::optional<std::string> PackageDebug::entry(const std::string& name) const {
  if (!own_debug_.empty() && starts_with(name, "debug/"))
    if (auto own = find(own_debug_ + name.substr(6))) return own;
  return find(name);
}

std::optional<std::string> PackageDebug::find(const std::string& name) const {
  for (const ZipReader* zip : {zip_.get(), sidecar_.get()}) {
    if (!zip) continue;
    for (const std::string& candidate : {name, folder_ + name})
      if (const ZipEntry* found = zip->find(candidate)) return std::string(as_text(zip->read(*found).bytes));
  }
  return std::nullopt;
}

void PackageDebug::read_constants(const std::string& path) {
  for (const loops::Buffer& buffer : steps_->program().buffers) {
    if (buffer.role != loops::BufferRole::constant) continue;
    for (const format::Constant& constant : plan_.constants) {
      if (constant.name != buffer.constant) continue;
      Tensor tensor;
      tensor.dtype = buffer.dtype;
      tensor.sizes = fixed(buffer.sizes), tensor.strides = fixed(buffer.strides);
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
  graph_ = std::make_unique<Program>(parse_program(*text));
  std::vector<std::string> custom;
  collect_custom(graph_->graph, custom);
  resolve_operators(graph_->graph, custom);
  return *graph_;
}

std::string PackageDebug::origin_text(int32_t step_number) const {
  std::string text;
  for (const format::StepOrigin& step : origins_.steps) {
    if (step.number != step_number) continue;
    for (size_t i = 0; i < step.lines.size(); ++i) {
      if (!step.lines[i].empty()) text += str("\n  --> ", step.lines[i]);
      text += str("\n  operator ", step.ops[i], " · node ", step.nodes[i],
                  step.modules[i].empty() ? "" : str(" · module ", step.modules[i]));
    }
  }
  return text;
}

}  // namespace kiln
