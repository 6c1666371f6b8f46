// libkiln_tools.so's table. The command `kiln` has it inside and does all of this itself.
#include <mutex>

#include "base/error.h"
#include "check/bundle.h"
#include "debug/package_debug.h"
#include "debug/profile.h"
#include "debug/tell_package.h"
#include "kiln/tools_library.h"
#include "loops/work_count.h"

using namespace kiln;

namespace {

struct LastError {
  std::string text, code;
};
LastError& last_error() {
  thread_local LastError error;
  return error;
}

// Runs f; an error is kept for error() and gives `otherwise`.
template <class Result, class F>
Result kept(Result otherwise, F f) noexcept {
  try {
    return f();
  } catch (const Error& error) {
    last_error() = {error.message(), error.code()};
  } catch (const std::exception& error) {
    last_error() = {error.what(), "K0900"};
  }
  return otherwise;
}

class Tools {
 public:
  Tools(const char* package, const kiln_load_options& options, kiln_log_fn log, void* log_user)
      : package_(package), settings_(Phase::run), log_(log), log_user_(log_user) {
    for (size_t i = 0; i < options.setting_count; ++i) settings_.set(std::string_view(options.settings[i]));
    if (!options.ignore_environment) settings_.read_environment();
    for (const std::string& note : tell_of_package(package_, settings_)) say(note);
  }

  // The runtime's text has the code in front, except where the contract fixes how it begins.
  void failed(const char* code, const char* text) {
    const std::string prefix = str("error[", code, "]: ");
    trace_error(Error(ErrorKind::user, code, starts_with(text, prefix) ? text + prefix.size() : text), settings_);
  }

  // The runtime holds a lock of its own that keeps forks away.
  bool work(const kiln_step& step, double* operations, double* bytes) {
    const std::lock_guard lock(mutex_);
    StepInterpreter& steps = debug().steps();
    const loops::Kernel* kernel = steps.kernel(step.name);
    if (!kernel) return false;
    SymbolValues symbols;
    for (size_t i = 0; i < step.symbol_count; ++i) symbols[step.symbol_names[i]] = step.symbol_values[i];
    const Work work = count_work(*kernel, steps.program().buffers, symbols);
    *operations = work.flops, *bytes = work.bytes;
    return true;
  }

 private:
  PackageDebug& debug() {
    if (!debug_) debug_ = std::make_unique<PackageDebug>(package_);
    return *debug_;
  }
  void say(const std::string& text) const { log_(log_user_, KILN_LOG_INFO, text.c_str()); }

  std::string package_;
  Settings settings_;
  kiln_log_fn log_;
  void* log_user_;
  std::mutex mutex_;
  std::unique_ptr<PackageDebug> debug_;
};

void* open_tools(const char* package, const kiln_load_options* options, kiln_log_fn log, void* log_user) {
  return kept<void*>(nullptr, [&]() -> void* { return new Tools(package, *options, log, log_user); });
}

int run_self_test(kiln_model* model, const kiln_runtime_calls* runtime, kiln_test_file_fn file, void* user,
                  const char* label, kiln_self_test_summary* out) {
  return kept<int>(0, [&] {
    const CaseFiles files = read_bundle(label, [&](const std::string& name) -> std::optional<ByteSpan> {
      size_t size = 0;
      const void* bytes = file(user, name.c_str(), &size);
      if (!bytes) return std::nullopt;
      return ByteSpan(static_cast<const std::byte*>(bytes), size);
    });
    PackageExecutable executable(model, *runtime);
    const SelfTest result = self_test(files, executable);
    out->calls = result.calls, out->worst = result.worst;
    return 1;
  });
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const kiln_tools_library* kiln_tools_entry(void) {
  static const kiln_tools_library library = {
      KILN_TOOLS_LIBRARY_VERSION,
      open_tools,
      [](void* tools) { delete static_cast<Tools*>(tools); },
      [](void* tools, const char* code, const char* text) {
        kept<int>(0, [&] { return static_cast<Tools*>(tools)->failed(code, text), 0; });
      },
      [](void* tools, const kiln_step* step, double* operations, double* bytes) {
        return kept<int>(0, [&] { return static_cast<Tools*>(tools)->work(*step, operations, bytes) ? 1 : 0; });
      },
      [](double* operations, double* bytes) {
        const MachineLimits limits = measure_machine();
        *operations = limits.gflops, *bytes = limits.gbs;
      },
      run_self_test,
      [] { return last_error().text.c_str(); },
      [] { return last_error().code.c_str(); },
  };
  return &library;
}
