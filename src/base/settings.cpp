#include "base/settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/error.h"

namespace kiln {
namespace {

const Setting* find_setting(std::string_view key) {
  for (const Setting& setting : settings_table())
    if (key == setting.key) return &setting;
  return nullptr;
}

bool is_ignored(std::string_view key) {
  const auto keys = ignored_inductor_keys();
  return std::binary_search(keys.begin(), keys.end(), key,
                            [](std::string_view a, std::string_view b) { return a < b; });
}

std::optional<bool> read_bool(std::string_view value) {
  const std::string word = lower_case(value);
  for (const char* yes : {"1", "true", "yes", "on"})
    if (word == yes) return true;
  for (const char* no : {"0", "false", "no", "off", "none", ""})
    if (word == no) return false;
  return std::nullopt;
}

std::optional<int64_t> read_int(std::string_view value) {
  if (value == "True" || value == "true") return 1;
  if (value == "False" || value == "false") return 0;
  if (!value.empty() && value.front() == '+') value.remove_prefix(1);
  int64_t number = 0;
  const auto result = std::from_chars(value.data(), value.data() + value.size(), number);
  if (result.ec != std::errc() || result.ptr != value.data() + value.size()) return std::nullopt;
  return number;
}

bool is_none(std::string_view value) { return value.empty() || value == "None"; }

// What makes two spellings of a value the same ("True" and "1").
std::string canonical(const Setting& setting, std::string_view value) {
  value = trim(value);
  if (setting.type == SettingType::boolean) {
    const auto read = read_bool(value);
    if (!read) fail_user("K0142", str(setting.key, " is on or off (1 or 0), not ", quote(value)));
    return *read ? "1" : "0";
  }
  if (is_none(value)) return "None";
  if (setting.type != SettingType::integer) return std::string(value);
  const auto read = read_int(value);
  if (!read) fail_user("K0142", str(setting.key, " is a whole number, not ", quote(value)));
  return std::to_string(*read);
}

[[noreturn]] void fail_unknown(std::string_view key) {
  std::vector<std::string> known;
  for (const Setting& setting : settings_table()) known.emplace_back(setting.key);
  for (const char* ignored : ignored_inductor_keys()) known.emplace_back(ignored);
  fail_user("K0140", str("there is no setting ", quote(key), "; the nearest is ", quote(nearest(key, known))));
}

[[noreturn]] void fail_phase(const Setting& setting, std::string_view name) {
  fail_user("K0141", str(name, " acts while a model is compiled (", setting.meaning,
                         "); a package that exists already must be compiled again with it"));
}

}  // namespace

void Settings::set(std::string_view assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos)
    fail_user("K0142", str("a setting is given as KEY=VALUE, not ", quote(assignment)));
  set(trim(assignment.substr(0, equals)), assignment.substr(equals + 1));
}

void Settings::set(std::string_view key, std::string_view value) {
  const Setting* setting = find_setting(key);
  if (setting == nullptr) {
    if (!is_ignored(key)) fail_unknown(key);
    return note_once(key, str("setting ", key, " of PyTorch's Inductor has no use in Kiln and is ignored"));
  }
  if (setting->phase == Phase::compile && phase_ == Phase::run) fail_phase(*setting, key);
  store(*setting, value);
}

void Settings::store(const Setting& setting, std::string_view value) {
  std::string text = canonical(setting, value);
  if (!setting.built && text != canonical(setting, setting.default_text))
    note_once(setting.key, str("setting ", setting.key, " (", setting.meaning, ") is not built yet and does nothing"));
  values_.insert_or_assign(setting.key, std::move(text));
}

void Settings::read_environment(const Environment& lookup) {
  for (const Setting& setting : settings_table()) {
    if (*setting.environment == '\0' || values_.contains(setting.key)) continue;
    const char* value = lookup(setting.environment);
    if (value == nullptr) continue;
    if (setting.phase == Phase::compile && phase_ == Phase::run) {
      if (setting.about_machine || canonical(setting, value) == canonical(setting, setting.default_text)) continue;
      fail_phase(setting, setting.environment);
    }
    store(setting, value);
  }
}

void Settings::read_environment() {
  read_environment([](const char* name) -> const char* { return std::getenv(name); });
}

void Settings::note_once(std::string_view key, std::string text) {
  if (noted_.emplace(key).second) notes_.push_back(std::move(text));
}

std::string Settings::value_of(std::string_view key, SettingType type) const {
  const Setting* setting = find_setting(key);
  KILN_CHECK(setting != nullptr && setting->type == type, str("no such setting of this type: ", key));
  const auto found = values_.find(key);
  return found != values_.end() ? found->second : canonical(*setting, setting->default_text);
}

bool Settings::get_bool(std::string_view key) const {
  const Setting* setting = find_setting(key);
  if (setting != nullptr && setting->type == SettingType::integer) return get_optional_int(key).value_or(0) != 0;
  return value_of(key, SettingType::boolean) == "1";
}

std::optional<int64_t> Settings::get_optional_int(std::string_view key) const {
  const std::string value = value_of(key, SettingType::integer);
  return is_none(value) ? std::nullopt : read_int(value);
}

int64_t Settings::get_int(std::string_view key) const {
  const auto value = get_optional_int(key);
  if (!value) fail_user("K0142", str(key, " needs a value"));
  return *value;
}

std::string Settings::get_string(std::string_view key) const {
  const std::string value = value_of(key, SettingType::text);
  return is_none(value) ? "" : value;
}

std::vector<std::string> Settings::get_list(std::string_view key) const {
  const std::string value = value_of(key, SettingType::list);
  std::vector<std::string> out;
  if (is_none(value)) return out;
  for (const std::string& part : split(value, ','))
    if (const std::string_view word = trim(part); !word.empty()) out.emplace_back(word);
  return out;
}

std::string Settings::text(const Setting& setting) const {
  switch (setting.type) {
    case SettingType::boolean:
      return get_bool(setting.key) ? "1" : "0";
    case SettingType::integer: {
      const auto value = get_optional_int(setting.key);
      return value ? std::to_string(*value) : "None";
    }
    case SettingType::text:
      return get_string(setting.key);
    case SettingType::list:
      return join(get_list(setting.key), ",");
  }
  return "";
}

bool Settings::given(std::string_view key) const { return values_.contains(key); }

}  // namespace kiln
