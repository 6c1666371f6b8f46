#include "runtime/printer.h"

#include <cstdio>

#include "runtime/step_text.h"
#include "runtime/tensor_statistics.h"

namespace kiln::runtime {
namespace {

constexpr size_t shown_elements = 8;

std::string pad(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

const char* access_text(int32_t access) { return access == 1 ? "read" : access == 2 ? "written" : "updated"; }

std::string checksum_text(uint64_t checksum) {
  char buffer[20];
  std::snprintf(buffer, sizeof buffer, "%016llx", static_cast<unsigned long long>(checksum));
  return buffer;
}

class Printer : public StepObserver {
 public:
  Printer(bool names_only, KernelFilter filter, Log log)
      : names_only_(names_only), filter_(std::move(filter)), log_(log) {}

  bool wants(const char* name) const override { return filter_.matches(name); }

  kiln_hook_answer observe(kiln_hook_when when, const kiln_step& step) override {
    if (names_only_ && when == KILN_AFTER_STEP) return KILN_HOOK_CONTINUE;
    std::string line = first_line(step);
    std::string text = str("[ ", when_text(when), " - ", step.name, " ] run ", step.run, iterations_text(step),
                           line.empty() ? "" : "  ", line);
    if (!names_only_) text += arguments(when, step);
    log_.write(KILN_LOG_INFO, text);
    return KILN_HOOK_CONTINUE;
  }

 private:
  static std::string arguments(kiln_hook_when when, const kiln_step& step) {
    size_t name_width = 0, source_width = 0;
    for (size_t i = 0; i < step.arg_count; ++i) {
      name_width = std::max(name_width, std::string_view(step.args[i].name).size());
      source_width = std::max(source_width, source_of(step.args[i]).size());
    }
    std::string text;
    for (size_t i = 0; i < step.arg_count; ++i) {
      const kiln_step_arg& arg = step.args[i];
      text += str("\n  ", pad(arg.name, name_width), "  ", pad(access_text(arg.access), 7), "  ",
                  pad(source_of(arg), source_width), "  ", tensor_text(arg.tensor));
      const bool unwritten = when == KILN_BEFORE_STEP && not_yet_written(arg);
      text += unwritten ? "  (not yet written)" : values(arg.tensor, std::string(name_width + 4, ' '));
    }
    return text;
  }

  static std::string values(const DLTensor& tensor, const std::string& indent) {
    const TensorStatistics s = tensor_statistics(tensor, shown_elements);
    if (s.count == 0) return "  (empty)";
    auto field = [](const char* name, double value) { return str(name, " ", pad(number_text(value), 12), " "); };
    auto count = [](const char* name, int64_t value) { return str(name, " ", pad(std::to_string(value), 8), " "); };
    std::string more = static_cast<size_t>(s.count) > s.first.size() ? ", …]" : "]";
    return str("\n", indent, field("min", s.minimum), field("max", s.maximum), field("mean", s.mean),
               field("std", s.deviation), count("nan", s.nan), count("inf", s.infinite), count("zero", s.zero),
               "checksum ", checksum_text(s.checksum), "\n", indent, "[", join_map(s.first, ", ", number_text), more);
  }

  bool names_only_;
  KernelFilter filter_;
  Log log_;
};

}  // namespace

std::unique_ptr<StepObserver> make_printer(bool names_only, KernelFilter filter, const Log& log) {
  return std::make_unique<Printer>(names_only, std::move(filter), log);
}

}  // namespace kiln::runtime
