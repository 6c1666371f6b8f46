#include "runtime/value_saver.h"

#include <mutex>

#include "base/file.h"
#include "runtime/saved_tensor.h"
#include "runtime/step_text.h"

namespace kiln::runtime {
namespace {

// Names of buffers come from the user's program: none may leave the directory.
std::string file_part(std::string_view name) {
  std::string out(name);
  for (char& c : out)
    if (c == '/' || c == '\\' || static_cast<unsigned char>(c) < 32) c = '_';
  return out;
}

std::string step_json(const kiln_step& step) {
  std::string text = str("{\"step\": ", step.number, ", \"name\": ", quote(step.name), ", \"run\": ", step.run,
                         ", \"seed\": ", quote(std::to_string(step.seed)), ", \"symbols\": {");
  for (size_t i = 0; i < step.symbol_count; ++i)
    text += str(i ? ", " : "", quote(step.symbol_names[i]), ": ", step.symbol_values[i]);
  return text + "}}\n";
}

class ValueSaver : public StepObserver {
 public:
  ValueSaver(KernelFilter filter, std::string directory, Log log)
      : filter_(std::move(filter)), directory_(std::move(directory)), log_(log) {}

  bool wants(const char* name) const override { return filter_.matches(name); }

  kiln_hook_answer observe(kiln_hook_when when, const kiln_step& step) override {
    const std::string folder = folder_of(step);
    std::string kernel = file_part(step.name);
    for (size_t i = 0; i < step.loop_depth; ++i) kernel += str(i ? "_" : ".iteration_", step.iterations[i]);
    if (when == KILN_BEFORE_STEP) write_file_atomic(join_path(folder, kernel + ".step.json"), step_json(step));
    for (size_t i = 0; i < step.arg_count; ++i) {
      const kiln_step_arg& arg = step.args[i];
      if (when == KILN_BEFORE_STEP && arg.access == 2) continue;  // holds what somebody left there
      const std::string name =
          str(when_text(when), "_", kernel, "_", file_part(arg.name), "_", device_name(arg.tensor.device), ".pt");
      write_file_atomic(join_path(folder, name), tensor_file(arg.tensor));
    }
    return KILN_HOOK_CONTINUE;
  }

 private:
  std::string folder_of(const kiln_step& step) {
    std::lock_guard lock(mutex_);
    if (!said_) log_.write(KILN_LOG_INFO, str("saving values of kernels' arguments to ", directory_));
    said_ = true;
    std::string folder = step.run <= 1 ? directory_ : join_path(directory_, str("run_", step.run));
    make_directories(folder);
    return folder;
  }

  KernelFilter filter_;
  std::string directory_;
  Log log_;
  std::mutex mutex_;
  bool said_ = false;
};

}  // namespace

std::unique_ptr<StepObserver> make_value_saver(KernelFilter filter, const std::string& directory, const Log& log) {
  return std::make_unique<ValueSaver>(std::move(filter),
                                      directory.empty() ? join_path(temporary_root(), "aoti_torch") : directory, log);
}

}  // namespace kiln::runtime
