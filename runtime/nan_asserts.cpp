#include "runtime/nan_asserts.h"

#include <cctype>
#include <set>

#include "base/error.h"
#include "runtime/step_text.h"
#include "runtime/tensor_statistics.h"

namespace kiln::runtime {
namespace {

std::string bad_text(const BadElement& bad, const TensorStatistics& s) {
  return str(number_text(bad.value), bad.imaginary ? " (imaginary part)" : "", " at ", index_text(bad.index), " (",
             s.nan, " NaN, ", s.infinite, " Inf of ", s.count, ")");
}

// The names of values in the text of a graph: "%relu_3".
std::set<std::string> value_names(std::string_view text) {
  std::set<std::string> names;
  for (size_t at = text.find('%'); at != std::string_view::npos; at = text.find('%', at)) {
    size_t end = ++at;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_')) ++end;
    names.emplace(text.substr(at, end - at));
  }
  return names;
}

class NanAsserts : public StepObserver {
 public:
  explicit NanAsserts(NanAssertsNeeds needs)
      : origins_(std::move(needs.origins)),
        origins_of_(std::move(needs.origins_of)),
        values_(value_names(needs.graph_text)),
        bad_(needs.infinities ? BadValues::not_finite : BadValues::nan) {
    for (const std::string& line : split(needs.merged_text, '\n'))
      if (const size_t tab = line.find('\t'); tab != std::string::npos && values_.contains(line.substr(0, tab)))
        values_.insert(line.substr(tab + 1));
  }

  bool wants(const char*) const override { return true; }

  kiln_hook_answer observe(kiln_hook_when when, const kiln_step& step) override {
    for (size_t i = 0; i < step.arg_count; ++i) {
      const kiln_step_arg& arg = step.args[i];
      // Before: what it reads. After: what it wrote; its other arguments are as they were.
      if (when == KILN_BEFORE_STEP ? not_yet_written(arg) : arg.access == 1) continue;
      // What a part of an operator holds does not count; who wrote it was asked whether it is one.
      if (when == KILN_BEFORE_STEP ? *arg.producer && !named_in_program(arg) : is_part(step, arg)) continue;
      if (const auto bad = first_bad_element(host_tensor(step, arg), bad_)) fail(when, step, arg, *bad);
    }
    return KILN_HOOK_CONTINUE;
  }

 private:
  bool named_in_program(const kiln_step_arg& arg) const {
    return values_.empty() || arg.role != KILN_ROLE_TEMP || values_.contains(arg.name);
  }
  // Known to be no value of the exported program: it has no name of its, and comes from an operator of another name.
  bool is_part(const kiln_step& step, const kiln_step_arg& arg) const {
    return !named_in_program(arg) && step.origin_count > 0 && !named_origin(step, arg.name);
  }

  [[noreturn]] void fail(kiln_hook_when when, const kiln_step& step, const kiln_step_arg& arg,
                         const BadElement& bad) const {
    const bool before = when == KILN_BEFORE_STEP;
    const TensorStatistics statistics = tensor_statistics(host_tensor(step, arg), 0);
    std::string text = str(bad_ == BadValues::nan ? "NaN " : "NaN or Inf ", before ? "before" : "after", " kernel ",
                           step.name, " (step ", step.number, ", run ", step.run, iterations_text(step), "): argument ",
                           arg.name, " holds ", bad_text(bad, statistics));
    text += before ? already_bad(arg) : made_here(step);
    // A mask of -inf is meant so.
    if (before && !*arg.producer && statistics.nan == 0)
      text +=
          "\n  where that is meant (a mask), nan_asserts_infinities=0 (KILN_NAN_ASSERTS_INFINITIES) stops at NaN alone";
    fail_user("K0637", text + origins_text(step, origins_->of(step, arg.name)));
  }

  // The values of the program among its inputs were looked at before; parts of operators were not.
  std::string made_here(const kiln_step& step) const {
    for (size_t i = 0; i < step.arg_count; ++i) {
      const kiln_step_arg& arg = step.args[i];
      if (arg.access != 1 || named_in_program(arg)) continue;
      if (const auto bad = first_bad_element(host_tensor(step, arg), bad_))
        return str("\n  its argument ", arg.name, ", a part of an operator, held ",
                   bad_text(*bad, tensor_statistics(host_tensor(step, arg), 0)), " before: ", arg.producer, " wrote it",
                   origins_of_(arg.producer));
    }
    return "\n  the kernel's inputs held none: this kernel made it";
  }

  std::string already_bad(const kiln_step_arg& arg) const {
    if (*arg.producer)
      return str("\n  it was already there before the launch: ", arg.producer, " wrote it", origins_of_(arg.producer));
    switch (arg.role) {
      case KILN_ROLE_INPUT:
        return str("\n  it was already in input ", arg.name, " of the model");
      case KILN_ROLE_CONSTANT:
        return str("\n  it was already in the constant ", arg.name);
      case KILN_ROLE_DERIVED:
        return str("\n  it was already in ", arg.name, ", which was prepared from constants when they were loaded");
      default:
        return "\n  no step of this run has written this memory: the kernel reads what was never computed";
    }
  }

  std::shared_ptr<const ValueOrigins> origins_;
  std::function<std::string(const char*)> origins_of_;
  std::set<std::string> values_;
  BadValues bad_;
};

}  // namespace

std::unique_ptr<StepObserver> make_nan_asserts(NanAssertsNeeds needs) {
  return std::make_unique<NanAsserts>(std::move(needs));
}

}  // namespace kiln::runtime
