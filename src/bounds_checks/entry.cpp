// libkiln_debug.so: the checked run as the runtime opens it (kiln/debug_library.h).
#include <cstdlib>

#include "base/leftovers.h"
#include "bounds_checks/checked_build.h"
#include "bounds_checks/step_interpreter.h"
#include "kiln/debug_library.h"

namespace {

using kiln::StepInterpreter;

struct LastError {
  std::string text, code;
};
LastError& last_error() {
  thread_local LastError error;
  return error;
}

void remember() noexcept {
  try {
    throw;
  } catch (const kiln::Error& error) {
    const std::string prefix = kiln::str("error[", error.code(), "]: "), text = error.what();
    last_error() = {kiln::starts_with(text, prefix) ? text.substr(prefix.size()) : text, error.code()};
  } catch (const std::exception& error) {
    last_error() = {error.what(), "K0900"};
  }
}

void* open_checked(const char* loops, size_t bytes) {
  try {
    return new StepInterpreter(std::string_view(loops, bytes));
  } catch (...) {
    remember();
    return nullptr;
  }
}

int32_t run_checked(void* checked, const kiln_step* step) {
  try {
    return static_cast<StepInterpreter*>(checked)->run(*step) ? 1 : 0;
  } catch (...) {
    remember();
    return -1;
  }
}

void* build_checked(const char* const* units, const size_t* unit_bytes, size_t unit_count, const char* const* flags,
                    size_t flag_count, int32_t lanes, const char* compiler) {
  try {
    std::vector<std::string> texts;
    for (size_t i = 0; i < unit_count; ++i) texts.emplace_back(units[i], unit_bytes[i]);
    return new kiln::CheckedBuild(texts, {flags, flags + flag_count}, lanes, compiler);
  } catch (...) {
    remember();
    return nullptr;
  }
}

void* build_object(const char* const* units, const size_t* unit_bytes, size_t unit_count, const char* const* flags,
                   size_t flag_count, const void* object, size_t object_bytes, const void** made, size_t* made_bytes,
                   const char* nvrtc) {
  try {
    std::vector<std::string> texts;
    for (size_t i = 0; i < unit_count; ++i) texts.emplace_back(units[i], unit_bytes[i]);
    auto built = std::make_unique<std::string>(kiln::checked_device_code(
        texts, {flags, flags + flag_count}, {static_cast<const char*>(object), object_bytes}, nvrtc));
    *made = built->data(), *made_bytes = built->size();
    return built.release();
  } catch (...) {
    remember();
    return nullptr;
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const kiln_debug_library* kiln_debug_entry(void) {
  static const kiln_debug_library library = {
      KILN_DEBUG_LIBRARY_VERSION,
      open_checked,
      [](void* checked) { delete static_cast<StepInterpreter*>(checked); },
      run_checked,
      build_checked,
      [](void* built) { delete static_cast<kiln::CheckedBuild*>(built); },
      [](void* built, const char* symbol) { return static_cast<kiln::CheckedBuild*>(built)->function(symbol); },
      build_object,
      [](void* built) { delete static_cast<std::string*>(built); },
      [] { return last_error().text.c_str(); },
      [] { return last_error().code.c_str(); },
      kiln::remove_leftovers_on_signals,
  };
  return &library;
}
