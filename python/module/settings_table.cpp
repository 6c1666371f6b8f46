#include "settings_table.h"

#include <nanobind/stl/string.h>

#include "base/error.h"
#include "base/settings.h"
#include "errors.h"

namespace nb = nanobind;

namespace kiln::python {
namespace {

const char* type_name(SettingType type) {
  constexpr const char* names[] = {"bool", "int", "str", "list"};
  return names[static_cast<size_t>(type)];
}

nb::list table() {
  nb::list out;
  for (const Setting& setting : settings_table()) {
    nb::dict row;
    row["key"] = setting.key;
    row["environment"] = setting.environment;
    row["compile"] = setting.phase != Phase::run;
    row["run"] = setting.phase != Phase::compile;
    row["type"] = type_name(setting.type);
    row["default"] = setting.default_text;
    row["meaning"] = setting.meaning;
    row["values"] = setting.values;
    out.append(row);
  }
  return out;
}

nb::list ignored() {
  nb::list out;
  for (const char* key : ignored_inductor_keys()) out.append(key);
  return out;
}

// Raises what --config would: an unknown key (with the nearest), a value that cannot be.
void check_setting(const std::string& key, const std::string& value) {
  try {
    Settings(Phase::both).set(key, value);
  } catch (const Error& error) {
    try {
      raise(ErrorClass::argument, error.code().c_str(), error.message());
    } catch (const PythonError&) {
      nb::raise_python_error();
    }
  }
}

// The value as the environment has it now, or None.
nb::object from_environment(const std::string& key) {
  Settings settings(Phase::both);
  settings.read_environment();
  if (!settings.given(key)) return nb::none();
  for (const Setting& setting : settings_table())
    if (key == setting.key) return nb::str(settings.text(setting).c_str());
  return nb::none();
}

}  // namespace

void bind_settings(nb::module_& module) {
  module.def("settings_table", table);
  module.def("ignored_settings", ignored);
  module.def("check_setting", check_setting);
  module.def("setting_from_environment", from_environment);
}

}  // namespace kiln::python
