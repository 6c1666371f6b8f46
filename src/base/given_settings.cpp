#include "base/given_settings.h"

#include "base/text.h"

namespace kiln {

std::vector<GivenSetting> given_settings(const Settings& settings) {
  std::vector<GivenSetting> out;
  for (const Setting& setting : settings_table())
    if (settings.given(setting.key)) out.push_back({&setting, settings.text(setting)});
  return out;
}

std::vector<std::string> compile_assignments(const Settings& settings) {
  std::vector<std::string> out;
  for (const GivenSetting& given : given_settings(settings))
    if (given.setting->phase == Phase::compile && !given.setting->about_machine)
      out.push_back(str(given.setting->key, "=", given.text));
  return out;
}

std::vector<std::string> run_assignments(const Settings& settings) {
  std::vector<std::string> out;
  for (const GivenSetting& given : given_settings(settings))
    if (given.setting->phase == Phase::run) out.push_back(str(given.setting->key, "=", given.text));
  return out;
}

}  // namespace kiln
