#include "runtime/checked_steps.h"

#include "base/error.h"
#include "runtime/checked_code.h"
#include "runtime/step_text.h"

namespace kiln::runtime {
namespace {

class CheckedSteps : public StepObserver {
 public:
  CheckedSteps(const kiln_debug_library& library, void* checked) : library_(library), checked_(checked) {}
  ~CheckedSteps() override { library_.close(checked_); }

  bool wants(const char*) const override { return true; }

  kiln_hook_answer observe(kiln_hook_when when, const kiln_step& step) override {
    if (when == KILN_AFTER_STEP) return KILN_HOOK_CONTINUE;
    kiln_step here = step;
    std::vector<kiln_step_arg> args(step.args, step.args + step.arg_count);
    for (size_t i = 0; i < args.size(); ++i) args[i].tensor = host_tensor(step, step.args[i]);
    here.args = args.data();
    const int32_t done = library_.run(checked_, &here);
    if (done < 0)
      throw Error(ErrorKind::user, library_.error_code(),
                  str(library_.error(), "\n  step ", step.name, ", run ", step.run, iterations_text(step)));
    return done ? KILN_HOOK_REPLACE : KILN_HOOK_CONTINUE;
  }

 private:
  const kiln_debug_library& library_;
  void* checked_;
};

}  // namespace

std::unique_ptr<StepObserver> make_checked_steps(const PackageFiles* files) {
  const auto loops = files ? files->entry("debug/loops.txt") : std::nullopt;
  if (!loops)
    fail_user("K0639",
              "check_bounds needs debug/loops.txt of the package's debug section, which was stripped: put the "
              "sidecar <package>.debug beside the package, or compile without --strip-debug");
  const kiln_debug_library& library = open_debug_library();
  void* checked = library.open(reinterpret_cast<const char*>(loops->data()), loops->size());
  if (!checked) throw Error(ErrorKind::user, library.error_code(), library.error());
  return std::make_unique<CheckedSteps>(library, checked);
}

}  // namespace kiln::runtime
