#include "base/idle_settings.h"

#include "base/environment.h"
#include "base/text.h"

namespace kiln {

std::vector<std::string> idle_settings(const Settings& settings, bool minifies) {
  const int64_t printer = settings.get_int("aot_inductor.debug_intermediate_value_printer");
  const bool dumps = settings.get_bool("aot_inductor.dump_aoti_minifier") ||
                     settings.given("TORCHDYNAMO_REPRO_AFTER") || settings.get_int("aot_inductor.repro_level") >= 3;
  const struct {
    const char* key;
    bool acts;
    const char* needs;
  } rows[] = {
      {"aot_inductor.filtered_kernel_names", printer > 0, "aot_inductor.debug_intermediate_value_printer"},
      {"intermediate_value_dir", printer == 1, "aot_inductor.debug_intermediate_value_printer=1"},
      {"intermediate_value_style", printer == 2, "aot_inductor.debug_intermediate_value_printer=2"},
      {"nan_asserts_infinities", settings.get_bool("nan_asserts"), "nan_asserts (TORCHINDUCTOR_NAN_ASSERTS)"},
      {"fault_values", settings.given("fault_dir"), "fault_dir (KILN_FAULT_DIR)"},
      {"TORCH_LOGS_OUT", settings.given("TORCH_LOGS"), "TORCH_LOGS"},
      {"debug_dir_root", minifies || dumps || settings.get_bool("debug") || settings.get_bool("trace.enabled"),
       "debug (TORCH_COMPILE_DEBUG)"},
      {"aot_inductor.repro_level", dumps, "aot_inductor.dump_aoti_minifier (DUMP_AOTI_MINIFIER)"},
  };
  std::vector<std::string> notes;
  for (const auto& row : rows)
    if (!row.acts && settings.given(row.key))
      notes.push_back(str("setting ", row.key, " does nothing without ", row.needs));
  // What is about the machine and is in the environment is meant for whichever command uses it.
  const bool builds = settings.phase() != Phase::run || settings.get_bool("check_bounds");
  for (const Setting& setting : settings_table())
    if (!builds && setting.about_machine && setting.phase == Phase::both && settings.given(setting.key) &&
        !said_by_environment(settings, setting))
      notes.push_back(str("setting ", setting.key, " does nothing without check_bounds: a run compiles nothing else"));
  return notes;
}

}  // namespace kiln
