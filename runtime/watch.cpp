#include "runtime/watch.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/checked_steps.h"
#include "runtime/clean_parts.h"
#include "runtime/fault_signals.h"
#include "runtime/nan_asserts.h"
#include "runtime/printer.h"
#include "runtime/run_trace.h"
#include "runtime/step_text.h"
#include "runtime/value_saver.h"

namespace kiln::runtime {
namespace {

// The source lines of a step by its name.
std::string lines_of(const Program& program, const format::Origins& origins, std::string_view name) {
  std::string text;
  for (const PreparedStep& prepared : program.steps) {
    if (prepared.step->name != name) continue;
    for (const format::StepOrigin& origin : origins.steps)
      if (origin.number == prepared.step->number)
        for (const std::string& line : origin.lines)
          if (const std::string one = str("\n    ", line);
              !line.empty() && (text + "\n").find(one + "\n") == std::string::npos)
            text += one;
  }
  return text;
}

// A text of the debug section; "": it is not there.
std::string debug_text(const PackageFiles* files, const char* name) {
  try {
    const auto found = files ? files->entry(str("debug/", name)) : std::nullopt;
    return found ? std::string(reinterpret_cast<const char*>(found->data()), found->size()) : "";
  } catch (const Error&) {
    return "";  // damaged: the checks do without, and are stricter
  }
}

std::string origin_lines(const format::Origins& origins, int32_t number) {
  std::string text;
  for (const format::StepOrigin& step : origins.steps) {
    if (step.number != number) continue;
    std::vector<kiln_origin> list;
    for (size_t i = 0; i < step.lines.size(); ++i)
      list.push_back({step.nodes[i].c_str(), step.ops[i].c_str(), step.modules[i].c_str(), step.lines[i].c_str()});
    kiln_step view{};
    view.origins = list.data(), view.origin_count = list.size();
    text += origins_text(view);
  }
  return text;
}

}  // namespace

Watch::Watch(const DebugOptions& options, const Program& program, const format::Origins& origins,
             std::shared_ptr<const PackageFiles> files, const std::string& target, const Device& device, const Log& log)
    : on_(options.any()) {
  if (options.name_faults)
    for (const PreparedStep& step : program.steps)
      places_.push_back(str(step.visible ? "kernel " : "step ", step.step->name, " (step ", step.step->number, ")",
                            origin_lines(origins, step.step->number)));
  if (any()) install_fault_handlers();
  if (!on_) return;
  // First: the others look at what it has cleaned.
  if (options.printer_mode == 1 || options.printer_mode == 2 || options.nan_asserts)
    if (auto cleaner = make_part_cleaner(program.plan)) observers_.push_back(std::move(cleaner));
  if (options.printer_mode != 0) add_printer(options, program, origins, log);
  if (options.nan_asserts)
    observers_.push_back(make_nan_asserts(
        {std::make_shared<ValueOrigins>(origins),
         [&program, &origins](const char* name) { return lines_of(program, origins, name); },
         debug_text(files.get(), "graph.txt"), debug_text(files.get(), "merged_values.txt"), options.infinities}));
  if (options.check_bounds) {
    observers_.push_back(make_checked_steps(files.get()));
    checked_code_ = CheckedCode::make(files.get(), program.plan, target, device, options.build_tools, log);
    if (checked_code_)
      for (const format::Kernel& kernel : program.plan.kernels)
        checked_.push_back(checked_code_->function(kernel.symbol));
  }
  if (!options.fault_dir.empty())
    faults_ =
        std::make_unique<FaultWriter>(options.fault_dir, options.fault_values, program.plan, origins, files, target);
  // Last: what the others do at a step is not the step's time.
  if (!options.trace_dir.empty()) add_trace(options, program, log);
}

const void* Watch::checked_code(const PreparedStep& step) const {
  const int32_t kernel = step.step->kind == format::StepKind::kernel ? step.step->kernel : format::none;
  return kernel >= 0 && static_cast<size_t>(kernel) < checked_.size() ? checked_[static_cast<size_t>(kernel)] : nullptr;
}

void Watch::add_trace(const DebugOptions& options, const Program& program, const Log& log) {
  try {
    observers_.push_back(make_run_trace(options.trace_dir, options.printer_mode == 2 || options.nan_asserts, program));
  } catch (const Error& error) {
    log.write(KILN_LOG_WARNING, str("no trace: ", error.message()));  // the run does not need it
  }
}

void Watch::add_printer(const DebugOptions& options, const Program& program, const format::Origins& origins,
                        const Log& log) {
  const KernelFilter filter(options.printer_filter);
  const PrinterStyle style = parse_printer_style(options.printer_style);
  std::vector<std::string> names;
  for (const PreparedStep& step : program.steps)
    if (step.visible) names.push_back(step.step->name);
  std::vector<std::string> idle;  // a part of the filter may be the one that was meant
  for (const std::string& pattern : filter.patterns())
    if (std::none_of(names.begin(), names.end(), [&](const std::string& name) { return glob_match(pattern, name); }))
      idle.push_back(pattern);
  if (!idle.empty())
    log.write(KILN_LOG_WARNING, str("aot_inductor.filtered_kernel_names: ", join(idle, ", "),
                                    " matches no kernel of "
                                    "this package; its kernels are: ",
                                    join(names, ", ")));
  observers_.push_back(options.printer_mode == 1 ? make_value_saver(filter, options.save_dir, log)
                                                 : make_printer(options.printer_mode == 3, style, filter,
                                                                std::make_shared<ValueOrigins>(origins), log));
}

bool Watch::wants(const char* step_name) const {
  return std::any_of(observers_.begin(), observers_.end(),
                     [&](const auto& observer) { return observer->wants(step_name); });
}

}  // namespace kiln::runtime
