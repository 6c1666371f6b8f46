#include "runtime/printer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "runtime/element.h"

namespace kiln::runtime {
namespace {

constexpr size_t shown_elements = 8;

std::string list(const int64_t* items, int32_t count) {
  std::string text = "[";
  for (int32_t i = 0; i < count; ++i) text += str(i ? ", " : "", items[i]);
  return text + "]";
}

std::string number(double value) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.6g", value);
  return buffer;
}

std::string pad(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

const char* access_text(int32_t access) { return access == 1 ? "read" : access == 2 ? "written" : "updated"; }

class Printer : public StepObserver {
 public:
  Printer(int mode, std::vector<std::string> filter, Log log) : mode_(mode), filter_(std::move(filter)), log_(log) {}

  bool wants(const char* name) const override {
    if (filter_.empty()) return true;
    return std::any_of(filter_.begin(), filter_.end(),
                       [&](const std::string& pattern) { return glob_match(pattern, name); });
  }

  kiln_hook_answer observe(kiln_hook_when when, const kiln_step& step) override {
    if (mode_ == 3) {
      if (when == KILN_BEFORE_STEP) log_.write(KILN_LOG_INFO, str("[ before_launch - ", step.name, " ]", place(step)));
      return KILN_HOOK_CONTINUE;
    }
    std::string text =
        str("[ ", when == KILN_BEFORE_STEP ? "before_launch" : "after_launch", " - ", step.name, " ]", place(step));
    size_t width = 0;
    for (size_t i = 0; i < step.arg_count; ++i) width = std::max(width, std::string_view(step.args[i].name).size());
    for (size_t i = 0; i < step.arg_count; ++i) text += argument(step.args[i], width, when);
    log_.write(KILN_LOG_INFO, text);
    return KILN_HOOK_CONTINUE;
  }

 private:
  static std::string place(const kiln_step& step) {
    std::string text = step.iteration > 0 ? str(" iteration ", step.iteration) : std::string();
    for (size_t i = 0; i < step.origin_count; ++i)
      if (*step.origins[i].line) return str(text, "  ", step.origins[i].line);
    return text;
  }

  static std::string argument(const kiln_step_arg& arg, size_t width, kiln_hook_when when) {
    const DLTensor& tensor = arg.tensor;
    auto dtype = dtype_of(tensor.dtype);
    std::string text = str("\n  ", pad(arg.name, width), "  ", pad(access_text(arg.access), 7), "  ",
                           dtype ? dtype_torch_name(*dtype) : "?", " ", list(tensor.shape, tensor.ndim), " strides ",
                           list(tensor.strides, tensor.ndim));
    if (when == KILN_BEFORE_STEP && arg.access == 2) return text + "  (not yet written)";
    TensorStatistics s = tensor_statistics(tensor, shown_elements);
    if (s.count == 0) return text + "  (empty)";
    std::string indent = str("\n", std::string(width + 4, ' '));
    text += str(indent, "min ", pad(number(s.minimum), 12), " max ", pad(number(s.maximum), 12), " mean ",
                pad(number(s.mean), 12), " std ", pad(number(s.deviation), 12), " nan ", s.nan, "  inf ", s.infinite,
                "  zero ", s.zero);
    return text + str(indent, "[", join_map(s.first, ", ", number),
                      static_cast<size_t>(s.count) > s.first.size() ? ", …]" : "]");
  }

  int mode_;
  std::vector<std::string> filter_;
  Log log_;
};

}  // namespace

TensorStatistics tensor_statistics(const DLTensor& tensor, size_t first_count) {
  TensorStatistics s;
  auto dtype = dtype_of(tensor.dtype);
  if (!dtype) return s;
  s.count = 1;
  for (int32_t d = 0; d < tensor.ndim; ++d) s.count *= tensor.shape[d];
  int64_t item = dtype_bytes(*dtype), finite = 0;
  std::vector<int64_t> index(static_cast<size_t>(tensor.ndim));
  auto* at = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
  double m2 = 0;
  s.minimum = s.maximum = s.mean = std::nan("");
  for (int64_t n = 0; n < s.count; ++n) {
    double value = element_value(*dtype, at);
    if (s.first.size() < first_count) s.first.push_back(value);
    s.nan += std::isnan(value);
    s.infinite += std::isinf(value);
    s.zero += value == 0;
    if (!std::isnan(value)) {
      s.minimum = std::isnan(s.minimum) ? value : std::min(s.minimum, value);
      s.maximum = std::isnan(s.maximum) ? value : std::max(s.maximum, value);
    }
    if (std::isfinite(value)) {  // Welford
      double before = finite ? s.mean : 0, delta = value - before;
      ++finite;
      s.mean = before + delta / static_cast<double>(finite);
      m2 += delta * (value - s.mean);
    }
    for (size_t d = index.size(); d-- > 0;) {
      at += tensor.strides[d] * item;
      if (++index[d] < tensor.shape[d]) break;
      at -= tensor.shape[d] * tensor.strides[d] * item;
      index[d] = 0;
    }
  }
  s.deviation = finite > 1 ? std::sqrt(m2 / static_cast<double>(finite - 1)) : std::nan("");
  return s;
}

std::unique_ptr<StepObserver> make_printer(const Program& program, int mode, const std::vector<std::string>& filter,
                                           const Log& log) {
  if (mode == 0) return nullptr;
  if (mode < 0 || mode > 3)
    fail_user("K0142", str("aot_inductor.debug_intermediate_value_printer is 0, 1, 2 or 3, not ", mode));
  if (mode == 1) {
    log.write(KILN_LOG_WARNING,
              "aot_inductor.debug_intermediate_value_printer=1 (saving values) is not built yet; 2 prints them");
    return nullptr;
  }
  std::vector<std::string> names;
  for (const PreparedStep& step : program.steps)
    if (step.visible) names.push_back(step.step->name);
  auto printer = std::make_unique<Printer>(mode, filter, log);
  if (std::none_of(names.begin(), names.end(), [&](const std::string& name) { return printer->wants(name.c_str()); }))
    log.write(KILN_LOG_WARNING, str("aot_inductor.filtered_kernel_names=", join(filter, ","),
                                    " matches no kernel of this package; its kernels are: ", join(names, ", ")));
  return printer;
}

}  // namespace kiln::runtime
