// libkiln_tools.so's table. The command `kiln` has it inside and does all of this itself.
#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/error.h"
#include "debug/flop_count.h"
#include "debug/package_debug.h"
#include "debug/profile.h"
#include "debug/tell_package.h"
#include "driver/executable_dlpack.h"
#include "kiln/tools_library.h"
#include "minify/dump.h"
#include "minify/package_program.h"

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

Datum datum_of(const kiln_value& value) {
  switch (value.kind) {
    case KILN_TENSOR:
      return Datum{tensor_from_dlpack(*value.as.tensor)};
    case KILN_INT:
      return Datum{Scalar(value.as.integer)};
    case KILN_FLOAT:
      return Datum{Scalar(value.as.floating)};
    case KILN_BOOL:
      return Datum{Scalar(value.as.boolean != 0)};
    case KILN_STRING:
      return Datum{std::string(value.as.string)};
    default:
      return Datum{};
  }
}

class Tools {
 public:
  Tools(const char* package, const kiln_load_options& options, kiln_log_fn log, void* log_user)
      : package_(package), settings_(Phase::run), log_(log), log_user_(log_user) {
    for (size_t i = 0; i < options.setting_count; ++i) settings_.set(std::string_view(options.settings[i]));
    if (!options.ignore_environment) settings_.read_environment();
    libraries_.assign(options.custom_op_libraries, options.custom_op_libraries + options.custom_op_library_count);
    dump();  // a wrong value is an error of loading
    for (const std::string& note : tell_of_package(package_, settings_)) say(note);
  }

  minify::DumpOnFailure dump() {
    return {settings_, libraries_, [this] { return minify::program_of_package(package_); },
            [this](const std::string& text) { say(text); }, [this] { return minify::settings_of_package(package_); }};
  }

  void load_failed(const char* code, const char* text) {
    dump().failed();
    trace_error(Error(ErrorKind::user, code, text), settings_);
  }

  double operations(const kiln_step& step) {
    const std::lock_guard lock(mutex_);
    const loops::Kernel* kernel = debug().steps().kernel(step.name);
    if (!kernel) return -1;
    SymbolValues symbols;
    for (size_t i = 0; i < step.symbol_count; ++i) symbols[step.symbol_names[i]] = step.symbol_values[i];
    return count_flops(*kernel, symbols);
  }

  const Settings& settings() const { return settings_; }

  // A model with buffers that runs change gives the reference's results in its first run only.
  bool comparable() {
    if (settings_.get_int("aot_inductor.repro_level") != 4 || runs_.fetch_add(1) == 0) return true;
    const std::lock_guard lock(mutex_);
    const auto& constants = debug().plan().constants;
    return std::none_of(constants.begin(), constants.end(), [](const format::Constant& c) { return c.mutated; });
  }

 private:
  PackageDebug& debug() {
    if (!debug_) debug_ = std::make_unique<PackageDebug>(package_);
    return *debug_;
  }
  void say(const std::string& text) const { log_(log_user_, KILN_LOG_INFO, text.c_str()); }

  std::string package_;
  Settings settings_;
  std::vector<std::string> libraries_;
  kiln_log_fn log_;
  void* log_user_;
  std::mutex mutex_;
  std::atomic<int64_t> runs_{0};
  std::unique_ptr<PackageDebug> debug_;
};

// One run. The dump has the inputs as they were before it; the caller's own say what it made of them.
struct Call {
  minify::DumpOnFailure dump;
  const kiln_value* inputs;
  size_t input_count;
  bool comparable;  // with the reference, which starts from the buffers of the package
};

std::vector<Datum> data_of(const kiln_value* values, size_t count) {
  std::vector<Datum> data;
  for (size_t i = 0; i < count; ++i) data.push_back(datum_of(values[i]));
  return data;
}

void* open_tools(const char* package, const kiln_load_options* options, kiln_log_fn log, void* log_user) {
  return kept<void*>(nullptr, [&]() -> void* { return new Tools(package, *options, log, log_user); });
}

void* before(void* tools, const kiln_value* inputs, size_t count) {
  return kept<void*>(nullptr, [&]() -> void* {
    auto* self = static_cast<Tools*>(tools);
    auto call = std::make_unique<Call>(Call{self->dump(), inputs, count, self->comparable()});
    if (!call->dump.wanted() && self->settings().get_string("TORCH_TRACE").empty()) return nullptr;
    if (call->dump.wanted()) {
      call->dump.set_inputs(data_of(inputs, count));
      call->dump.before();
    }
    return call.release();
  });
}

void after(void* tools, void* data, kiln_status status, const char* code, const char* text, const kiln_value* outputs,
           size_t count) {
  kept<int>(0, [&] {
    const std::unique_ptr<Call> call(static_cast<Call*>(data));
    if (status != KILN_OK) {
      call->dump.failed();
      // The runtime's text has the code in front, except where the contract fixes how it begins.
      const std::string prefix = str("error[", code, "]: ");
      trace_error(Error(ErrorKind::user, code, starts_with(text, prefix) ? text + prefix.size() : text),
                  static_cast<Tools*>(tools)->settings());
      return 0;
    }
    if (!call->comparable) return 0;
    CallResult result;
    result.outputs = data_of(outputs, count);
    result.inputs = data_of(call->inputs, call->input_count);
    call->dump.finished(result);
    return 0;
  });
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const kiln_tools_library* kiln_tools_entry(void) {
  static const kiln_tools_library library = {
      KILN_TOOLS_LIBRARY_VERSION,
      open_tools,
      [](void* tools) { delete static_cast<Tools*>(tools); },
      [](void* tools, const char* code, const char* text) {
        kept<int>(0, [&] { return static_cast<Tools*>(tools)->load_failed(code, text), 0; });
      },
      before,
      after,
      [](void* tools, const kiln_step* step) {
        return kept<double>(-1, [&] { return static_cast<Tools*>(tools)->operations(*step); });
      },
      [](double* operations, double* bytes) {
        const MachineLimits limits = measure_machine();
        *operations = limits.gflops, *bytes = limits.gbs;
      },
      [] { return last_error().text.c_str(); },
      [] { return last_error().code.c_str(); },
  };
  return &library;
}
