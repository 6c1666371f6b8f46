#include "runtime/value_saver.h"

#include <unistd.h>

#include <atomic>

#include "base/error.h"
#include "base/file.h"
#include "base/fork_mutex.h"
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
      : filter_(std::move(filter)), directory_(std::move(directory)), log_(log) {
    if (!directory_.empty()) return;
    directory_ = join_path(temporary_root(), "aoti_torch");
    private_ = true;
  }

  bool wants(const char* name) const override { return filter_.matches(name); }

  kiln_hook_answer observe(kiln_hook_when when, const kiln_step& step) override {
    if (stopped_) return KILN_HOOK_CONTINUE;
    try {
      save(when, step);
    } catch (const Error& error) {
      // The run itself does not need the files.
      if (!stopped_.exchange(true))
        log_.write(KILN_LOG_WARNING, str("values of kernels' arguments are not saved (from ", step.name, " of run ",
                                         step.run, " on): ", error.message()));
    }
    return KILN_HOOK_CONTINUE;
  }

 private:
  void save(kiln_hook_when when, const kiln_step& step) {
    const std::string folder = folder_of(step);
    std::string kernel = file_part(step.name);
    for (size_t i = 0; i < step.loop_depth; ++i) kernel += str(i ? "_" : ".iteration_", step.iterations[i]);
    if (when == KILN_BEFORE_STEP)
      write_file_atomic(join_path(folder, kernel + ".step.json"), step_json(step), FileAccess::owner);
    for (size_t i = 0; i < step.arg_count; ++i) {
      const kiln_step_arg& arg = step.args[i];
      if (when == KILN_BEFORE_STEP && arg.access == 2) continue;  // holds what somebody left there
      const std::string name =
          str(when_text(when), "_", kernel, "_", file_part(arg.name), "_", device_name(arg.tensor.device), ".pt");
      write_file_atomic(join_path(folder, name), tensor_file(host_tensor(step, arg)), FileAccess::owner);
    }
  }

  std::string folder_of(const kiln_step& step) {
    {
      std::unique_lock lock(mutex_);
      const bool first = !made_;
      if (first) make_directory();
      made_ = true;
      lock.unlock();  // the log may be the user's
      if (first) log_.write(KILN_LOG_INFO, str("saving values of kernels' arguments to ", directory_));
    }
    if (step.run <= 1) return directory_;
    const std::string folder = join_path(directory_, str("run_", step.run));
    make_private_directory(folder);
    return folder;
  }

  // The default place is known to all users of the machine: it must be ours. Where another user has taken the name,
  // ours has the user's number.
  void make_directory() {
    if (!private_) return make_directories(directory_, 0700);
    try {
      make_private_directory(directory_);
    } catch (const Error&) {
      directory_ += str("_", geteuid());
      make_private_directory(directory_);
    }
  }

  KernelFilter filter_;
  std::string directory_;
  Log log_;
  BriefMutex mutex_;
  bool private_ = false, made_ = false;
  std::atomic<bool> stopped_ = false;
};

}  // namespace

std::unique_ptr<StepObserver> make_value_saver(KernelFilter filter, const std::string& directory, const Log& log) {
  return std::make_unique<ValueSaver>(std::move(filter), directory, log);
}

}  // namespace kiln::runtime
