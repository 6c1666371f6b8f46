#include "base/log_selection.h"

#include <algorithm>

#include "base/error.h"

namespace kiln {
namespace {

struct Name {
  const char* name;
  const char* says;  // empty: PyTorch's, with nothing to say here
};

constexpr Name components[] = {
    {"all", "every component"},
    {"inductor", "the compiler: passes, kernels, times; with + each pass and the decisions"},
    {"dynamic", "symbols of sizes: ranges, where they come from"},
    {"cache", "the kernel cache: hits and misses"},
    {"export", "what was read from the .pt2"},
    {"aot", ""},
    {"async_compile", "the C++ compiler's jobs"},
    {"autograd", ""},
    {"c10d", ""},
    {"ddp", ""},
    {"distributed", ""},
    {"dtensor", ""},
    {"dynamo", ""},
    {"fake_tensor", ""},
    {"flex_gemm", ""},
    {"fsdp", ""},
    {"native_dsl", ""},
    {"onnx", ""},
    {"pp", ""},
    {"torch", ""},
};

constexpr Name artifacts[] = {
    {"fusion", "each fusion that was made or refused, with the reason"},
    {"schedule", "how each kernel runs: axes, items, lanes, templates"},
    {"output_code", "the whole generated code"},
    {"kernel_code", "the generated code, kernel by kernel, with origins"},
    {"guards", "what inputs must satisfy, with the reason"},
    {"perf_hints", "kernels that could be faster, and what stands in the way"},
    {"autotuning", "choices of templates and their parameters"},
    {"graph", "the graph as it was read, as a table of nodes"},
    {"graph_code", "the graph as it was read, as Python"},
    {"graph_sizes", "sizes of every value of the graph"},
    {"aot_graphs", "the graph after the graph passes, as Python"},
    {"post_grad_graphs", "the graph after the graph passes, as Python"},
    {"ir_pre_fusion", "the Loops before fusion"},
    {"ir_post_fusion", "the Loops after fusion and scheduling"},
    {"inductor_metrics", "counts of nodes, kernels and bytes"},
    {"annotation", ""},
    {"aot_graphs_effects", ""},
    {"aot_joint_graph", ""},
    {"auto_chunker", ""},
    {"autotuning_inputs", ""},
    {"benchmarking", ""},
    {"bytecode", ""},
    {"caching", ""},
    {"compiled_autograd", ""},
    {"compiled_autograd_verbose", ""},
    {"compute_dependencies", ""},
    {"cudagraph_static_inputs", ""},
    {"cudagraphs", ""},
    {"custom_format_test_artifact", ""},
    {"ddp_graphs", ""},
    {"graph_breaks", ""},
    {"graph_code_verbose", ""},
    {"graph_region_expansion", ""},
    {"hierarchical_compile", ""},
    {"incremental", ""},
    {"loop_ordering", ""},
    {"loop_tiling", ""},
    {"native_dsl_compile", ""},
    {"node_runtime_estimation", ""},
    {"not_implemented", ""},
    {"onnx_diagnostics", ""},
    {"overlap", ""},
    {"overlap_scheduling", ""},
    {"partitioned_scatter", ""},
    {"pre_grad_graphs", ""},
    {"recompiles", ""},
    {"recompiles_verbose", ""},
    {"side_effects", ""},
    {"sym_node", ""},
    {"trace_bytecode", ""},
    {"trace_call", ""},
    {"trace_shape_events", ""},
    {"trace_source", ""},
    {"verbose_guards", ""},
};

template <class Table>
bool contains(const Table& table, std::string_view name) {
  return std::any_of(std::begin(table), std::end(table), [&](const Name& row) { return name == row.name; });
}

[[noreturn]] void fail_unknown_log(std::string_view entry) {
  std::vector<std::string> names;
  for (const Name& row : components) names.emplace_back(row.name);
  for (const Name& row : artifacts) names.emplace_back(row.name);
  const std::string near = nearest(entry, names);
  std::sort(names.begin(), names.end());
  fail_user("K0143",
            str("Invalid log settings: ", entry,
                ", must be a comma separated list of fully qualified module names, registered log names or "
                "registered artifact names.\n",
                near.empty() ? "" : str("  The nearest is ", quote(near), "."),
                "  For more info on various settings, try TORCH_LOGS=\"help\"\n  Valid settings: ", join(names, ", ")));
}

// Modules of PyTorch stand for the component that does their work here.
std::string component_of_module(std::string_view module) {
  if (starts_with(module, "torch._inductor")) return "inductor";
  if (starts_with(module, "torch.fx.experimental.symbolic_shapes")) return "dynamic";
  if (starts_with(module, "torch.export") || starts_with(module, "torch._export")) return "export";
  return "torch";
}

}  // namespace

LogSelection::LogSelection(const std::vector<std::string>& entries) {
  // What an entry says of more than itself comes first, whatever the order: "-fusion,+inductor" is without fusion.
  std::vector<std::string> sorted = entries;
  const auto reach = [](std::string_view entry) {
    entry = trim(entry);
    if (!entry.empty() && (entry.front() == '+' || entry.front() == '-')) entry = trim(entry.substr(1));
    return entry == "all" ? 0 : contains(artifacts, entry) ? 2 : 1;
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const std::string& a, const std::string& b) { return reach(a) < reach(b); });
  for (const std::string& entry : sorted) take(trim(entry));
}

void LogSelection::take(std::string_view entry) {
  if (entry.empty()) return;
  const std::string_view whole = entry;
  LogLevel level = LogLevel::info;
  if (entry.front() == '+' || entry.front() == '-') {
    level = entry.front() == '+' ? LogLevel::debug : LogLevel::error;
    entry = trim(entry.substr(1));
  }
  if (entry == "help") {
    help_ = true;
  } else if (contains(artifacts, entry)) {
    artifacts_[std::string(entry)] = level != LogLevel::error;
  } else {
    std::string component(entry);
    if (!contains(components, entry)) {
      if (!starts_with(entry, "torch.") && !starts_with(entry, "kiln.")) fail_unknown_log(whole);
      component = component_of_module(entry);
    }
    components_[component] = level;
    if (component == "all" || component == "inductor")
      for (const char* part : {"fusion", "schedule"}) artifacts_[part] = level == LogLevel::debug;
  }
  any_ =
      std::any_of(artifacts_.begin(), artifacts_.end(), [](const auto& one) { return one.second; }) ||
      std::any_of(components_.begin(), components_.end(), [](const auto& one) { return one.second <= LogLevel::info; });
}

bool LogSelection::wants(std::string_view component, LogLevel level) const {
  auto found = components_.find(component);
  if (found == components_.end()) found = components_.find("all");
  return level >= (found == components_.end() ? LogLevel::warning : found->second);
}

bool LogSelection::artifact(std::string_view name) const {
  const auto found = artifacts_.find(name);
  return found != artifacts_.end() && found->second;
}

std::string LogSelection::help_text() {
  std::string out =
      "TORCH_LOGS is a list: +NAME (everything), NAME, -NAME (errors only; an artifact is turned off).\n"
      "TORCH_LOGS_OUT=FILE writes the log to a file.\n\ncomponents:\n";
  std::string others;
  auto list = [&](const Name& row) {
    if (*row.says == '\0') {
      others += str(others.empty() ? "" : ", ", row.name);
      return;
    }
    std::string name = str("  ", row.name);
    name.resize(20, ' ');
    out += name + row.says + "\n";
  };
  for (const Name& row : components) list(row);
  out += "\nartifacts:\n";
  for (const Name& row : artifacts) list(row);
  return out + "\naccepted, with nothing to say in Kiln: " + others + "\n";
}

}  // namespace kiln
