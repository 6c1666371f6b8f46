#include "runtime/printer.h"

#include <atomic>
#include <cstdio>

#include "base/error.h"
#include "base/json.h"
#include "runtime/element.h"
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
  Printer(bool names_only, bool written_only, KernelFilter filter, Log log)
      : names_only_(names_only), written_only_(written_only), filter_(std::move(filter)), log_(log) {}

  bool wants(const char* name) const override { return filter_.matches(name); }

  kiln_hook_answer observe(kiln_hook_when when, const kiln_step& step) override {
    if (names_only_ ? when == KILN_AFTER_STEP : written_only_ && when == KILN_BEFORE_STEP) return KILN_HOOK_CONTINUE;
    std::string line = first_line(step);
    std::string text = str("[ ", when_text(when), " - ", step.name, " ] run ", step.run, iterations_text(step),
                           line.empty() ? "" : "  ", line);
    if (!names_only_) text += arguments(when, step);
    log_.write(KILN_LOG_INFO, text);
    return KILN_HOOK_CONTINUE;
  }

 private:
  std::string arguments(kiln_hook_when when, const kiln_step& step) const {
    size_t name_width = 0, source_width = 0;
    for (size_t i = 0; i < step.arg_count; ++i) {
      if (written_only_ && (step.args[i].access & 2) == 0) continue;
      name_width = std::max(name_width, std::string_view(step.args[i].name).size());
      source_width = std::max(source_width, source_of(step.args[i]).size());
    }
    std::string text;
    for (size_t i = 0; i < step.arg_count; ++i) {
      const kiln_step_arg& arg = step.args[i];
      if (written_only_ && (arg.access & 2) == 0) continue;
      text += str("\n  ", pad(arg.name, name_width), "  ", pad(access_text(arg.access), 7), "  ",
                  pad(source_of(arg), source_width), "  ", tensor_text(arg.tensor));
      const bool unwritten = when == KILN_BEFORE_STEP && not_yet_written(arg);
      text += unwritten ? "  (not yet written)" : values(host_tensor(step, arg), std::string(name_width + 4, ' '));
    }
    return text;
  }

  static std::string values(const DLTensor& tensor, const std::string& indent) {
    const TensorStatistics s = tensor_statistics(tensor, shown_elements);
    if (s.count == 0) return "  (empty)";
    auto field = [](const char* name, const std::string& value) { return str(name, " ", pad(value, 12), " "); };
    auto count = [](const char* name, int64_t value) { return str(name, " ", pad(std::to_string(value), 8), " "); };
    std::string more = static_cast<size_t>(s.count) > s.first.size() ? ", …]" : "]";
    return str("\n", indent, field("min", s.minimum_text()), field("max", s.maximum_text()),
               field("mean", number_text(s.mean)), field("std", number_text(s.deviation)), count("nan", s.nan),
               count("inf", s.infinite), count("zero", s.zero), "checksum ", checksum_text(s.checksum), "\n", indent,
               "[", join(s.first_texts(), ", "), more);
  }

  bool names_only_, written_only_;
  KernelFilter filter_;
  Log log_;
};

// One line per value that a step wrote.
class ValueLines : public StepObserver {
 public:
  ValueLines(PrinterStyle style, KernelFilter filter, std::shared_ptr<const ValueOrigins> origins, Log log)
      : style_(style), filter_(std::move(filter)), origins_(std::move(origins)), log_(log) {}

  bool wants(const char* name) const override { return filter_.matches(name); }

  kiln_hook_answer observe(kiln_hook_when when, const kiln_step& step) override {
    if (when == KILN_BEFORE_STEP || (step.run == 0 && !style_.init)) return KILN_HOOK_CONTINUE;
    std::string lines;
    for (size_t i = 0; i < step.arg_count; ++i) {
      if ((step.args[i].access & 2) == 0) continue;
      lines += str(lines.empty() ? "" : "\n", style_.json ? json_line(step, step.args[i]) : row(step, step.args[i]));
    }
    if (lines.empty()) return KILN_HOOK_CONTINUE;
    if (!style_.json && !headed_.exchange(true)) lines = heading() + "\n" + lines;
    log_.write(KILN_LOG_INFO, lines);
    return KILN_HOOK_CONTINUE;
  }

 private:
  static std::string type_of(const DLTensor& tensor) {
    const auto dtype = dtype_of(tensor.dtype);
    return str(dtype ? dtype_torch_name(*dtype) : "?", " ", dims_text(tensor.shape, tensor.ndim));
  }
  static std::string heading() {
    return str(pad("run", 4), pad("value", 24), "  ", pad("type", 22), "  ", pad("min", 11), " ", pad("max", 11), " ",
               pad("mean", 11), " ", pad("std", 11), " ", pad("nan", 6), " ", pad("inf", 6), " from");
  }
  std::string row(const kiln_step& step, const kiln_step_arg& arg) const {
    const TensorStatistics s = tensor_statistics(host_tensor(step, arg), 0);
    auto number = [&](const std::string& value) { return pad(s.count == 0 ? "-" : value, 11); };
    const std::string run = str(step.run, iterations_text(step));
    std::string text = str(run.size() < 4 ? pad(run, 4) : run + "  ", pad(arg.name, 24), "  ",
                           pad(type_of(arg.tensor), 22), "  ", number(s.minimum_text()), " ", number(s.maximum_text()),
                           " ", number(number_text(s.mean)), " ", number(number_text(s.deviation)), " ",
                           pad(std::to_string(s.nan), 6), " ", pad(std::to_string(s.infinite), 6), " ", step.name);
    if (const kiln_origin* origin = origins_->of(step, arg.name))
      text += str(*origin->module ? "  " : "", origin->module, *origin->line ? "  " : "", origin->line);
    else if (step.origin_count > 0)
      text += str("  one of its ", step.origin_count, " operators");
    return text;
  }
  std::string json_line(const kiln_step& step, const kiln_step_arg& arg) const {
    const TensorStatistics s = tensor_statistics(host_tensor(step, arg), shown_elements);
    Json record = Json::object(), sizes = Json::array(), strides = Json::array(), iterations = Json::array(),
         first = Json::array();
    for (int32_t d = 0; d < arg.tensor.ndim; ++d) sizes.push(arg.tensor.shape[d]), strides.push(arg.tensor.strides[d]);
    for (size_t i = 0; i < step.loop_depth; ++i) iterations.push(step.iterations[i]);
    for (double value : s.first)
      if (s.exact_first.empty()) first.push(value);
    for (const std::string& value : s.exact_first) first.push(Json::BigInteger{value});
    const auto dtype = dtype_of(arg.tensor.dtype);
    record.set("run", static_cast<int64_t>(step.run)), record.set("step", static_cast<int64_t>(step.number));
    record.set("iterations", std::move(iterations)), record.set("kernel", step.name), record.set("value", arg.name);
    record.set("dtype", dtype ? dtype_torch_name(*dtype) : "?");
    record.set("sizes", std::move(sizes)), record.set("strides", std::move(strides));
    record.set("count", s.count), record.set("min", number_json(s.minimum, s.exact_minimum));
    record.set("max", number_json(s.maximum, s.exact_maximum));
    record.set("mean", s.mean), record.set("std", s.deviation), record.set("nan", s.nan), record.set("inf", s.infinite);
    record.set("zero", s.zero), record.set("checksum", checksum_text(s.checksum)),
        record.set("first", std::move(first));
    if (const kiln_origin* origin = origins_->of(step, arg.name)) {
      record.set("module", origin->module), record.set("op", origin->op), record.set("node", origin->node);
      record.set("line", origin->line);
    }
    return json_text(record);
  }

  PrinterStyle style_;
  KernelFilter filter_;
  std::shared_ptr<const ValueOrigins> origins_;
  Log log_;
  std::atomic<bool> headed_{false};
};

}  // namespace

PrinterStyle parse_printer_style(const std::vector<std::string>& words) {
  PrinterStyle style;
  for (const std::string& word : words) {
    const std::string name = lower_case(word);
    if (name == "written")
      style.written = true;
    else if (name == "table")
      style.table = true;
    else if (name == "json")
      style.json = true;
    else if (name == "init")
      style.init = true;
    else
      fail_user("K0142", str("intermediate_value_style takes written, table, json and init, not '", word, "'"));
  }
  if (style.table && style.json) fail_user("K0142", "intermediate_value_style is table or json, not both");
  return style;
}

std::unique_ptr<StepObserver> make_printer(bool names_only, PrinterStyle style, KernelFilter filter,
                                           std::shared_ptr<const ValueOrigins> origins, const Log& log) {
  if (!names_only && (style.table || style.json))
    return std::make_unique<ValueLines>(style, std::move(filter), std::move(origins), log);
  return std::make_unique<Printer>(names_only, style.written, std::move(filter), log);
}

}  // namespace kiln::runtime
