#include "runtime/nan_asserts.h"

#include "base/error.h"
#include "runtime/step_text.h"
#include "runtime/tensor_statistics.h"

namespace kiln::runtime {
namespace {

std::string bad_text(const BadElement& bad, const TensorStatistics& s) {
  return str(number_text(bad.value), bad.imaginary ? " (imaginary part)" : "", " at ", index_text(bad.index), " (",
             s.nan, " NaN, ", s.infinite, " Inf of ", s.count, ")");
}

class NanAsserts : public StepObserver {
 public:
  explicit NanAsserts(std::function<std::string(const char*)> origins_of) : origins_of_(std::move(origins_of)) {}

  bool wants(const char*) const override { return true; }

  kiln_hook_answer observe(kiln_hook_when when, const kiln_step& step) override {
    for (size_t i = 0; i < step.arg_count; ++i) {
      const kiln_step_arg& arg = step.args[i];
      // Before: what it reads. After: what it wrote; its other arguments are as they were.
      if (when == KILN_BEFORE_STEP ? not_yet_written(arg) : arg.access == 1) continue;
      if (const auto bad = first_bad_element(arg.tensor)) fail(when, step, arg, *bad);
    }
    return KILN_HOOK_CONTINUE;
  }

 private:
  [[noreturn]] void fail(kiln_hook_when when, const kiln_step& step, const kiln_step_arg& arg,
                         const BadElement& bad) const {
    const bool before = when == KILN_BEFORE_STEP;
    std::string text = str("NaN or Inf ", before ? "before" : "after", " kernel ", step.name, " (step ", step.number,
                           ", run ", step.run, iterations_text(step), "): argument ", arg.name, " holds ",
                           bad_text(bad, tensor_statistics(arg.tensor, 0)));
    text += before ? already_bad(arg) : "\n  the kernel's inputs held none: this kernel made it";
    fail_user("K0637", text + origins_text(step));
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

  std::function<std::string(const char*)> origins_of_;
};

}  // namespace

std::unique_ptr<StepObserver> make_nan_asserts(std::function<std::string(const char*)> origins_of) {
  return std::make_unique<NanAsserts>(std::move(origins_of));
}

}  // namespace kiln::runtime
