#include "base/settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/environment.h"
#include "base/error.h"
#include "base/suggest.h"

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

// One alternative of Setting::values: "accuracy", "4", "0..3", "1..".
bool fits(std::string_view alternative, std::string_view value) {
  const size_t dots = alternative.find("..");
  if (dots == std::string_view::npos) return alternative == value;
  const auto number = read_int(value), low = read_int(alternative.substr(0, dots));
  const auto high = read_int(alternative.substr(dots + 2));
  return number && low && *number >= *low && (!high || *number <= *high);
}

std::string alternative_text(std::string_view alternative) {
  const size_t dots = alternative.find("..");
  if (dots == std::string_view::npos) return std::string(alternative);
  if (dots + 2 == alternative.size()) return str("at least ", alternative.substr(0, dots));
  return str(alternative.substr(0, dots), " to ", alternative.substr(dots + 2));
}

void check_value(const Setting& setting, std::string_view value) {
  if (*setting.values == '\0' || value == setting.default_text) return;
  const std::vector<std::string> alternatives = split(setting.values, '|');
  std::string known;
  for (size_t i = 0; i < alternatives.size(); ++i) {
    if (fits(alternatives[i], value)) return;
    known += str(i == 0 ? "" : i + 1 == alternatives.size() ? " or " : ", ", alternative_text(alternatives[i]));
  }
  fail_user("K0142", str(setting.key, " is ", known, ", not ", quote(value), ": ", setting.meaning));
}

// What makes two spellings of a value the same ("True" and "1").
std::string canonical(const Setting& setting, std::string_view value) {
  value = trim(value);
  if (setting.type == SettingType::boolean) {
    const auto read = parse_bool(value);
    if (!read) fail_user("K0142", str(setting.key, " is on or off (1 or 0), not ", quote(value)));
    return *read ? "1" : "0";
  }
  if (is_none(value)) return "None";
  std::string text(value);
  if (setting.type == SettingType::integer) {
    const auto read = read_int(value);
    if (!read) fail_user("K0142", str(setting.key, " is a whole number, not ", quote(value)));
    text = std::to_string(*read);
  }
  if (setting.type != SettingType::list) {
    check_value(setting, text);
    return text;
  }
  for (const std::string& part : split(text, ','))
    if (const std::string_view word = trim(part); !word.empty()) check_value(setting, word);
  return text;
}

[[noreturn]] void fail_unknown(std::string_view key) {
  std::vector<std::string> known;
  for (const Setting& setting : settings_table()) known.emplace_back(setting.key);
  for (const char* ignored : ignored_inductor_keys()) known.emplace_back(ignored);
  fail_user("K0140", str("there is no setting '", key, "'", nearest_hint(key, known), " ('kiln settings' lists them)"));
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
  if (text != canonical(setting, setting.default_text)) {
    if (setting.use == SettingUse::not_built)
      note_once(setting.key,
                str("setting ", setting.key, " (", setting.meaning, ") is not built yet and does nothing"));
    if (setting.use == SettingUse::always_so)
      note_once(setting.key, str("setting ", setting.key, " is always ", setting.default_text, " in Kiln (",
                                 setting.meaning, "): ", text, " changes nothing"));
  }
  values_.insert_or_assign(setting.key, std::move(text));
}

void Settings::read_environment(const Environment& lookup) {
  for (const Setting& setting : settings_table()) {
    if (*setting.environment == '\0' || values_.contains(setting.key)) continue;
    if (setting.phase == Phase::compile && phase_ == Phase::run) continue;
    if (const char* value = lookup(setting.environment)) store(setting, value);
  }
}

void Settings::read_environment() {
  read_environment([](const char* name) -> const char* { return std::getenv(name); });
  note_unknown_variables(environment_assignments());
}

namespace {

// "; the setting cpp.threads …" for KILN_THREADS: one whose name, or the part behind its dot, the variable's words
// have.
std::string setting_hint(const std::string& variable) {
  const std::vector<std::string> words = split(lower_case(variable), '_');
  for (const Setting& setting : settings_table()) {
    const std::string key = lower_case(setting.key);
    const std::vector<std::string> named = split(key.substr(key.rfind('.') + 1), '_');
    const auto is_said = [&](const std::string& word) {
      return std::find(words.begin() + 1, words.end(), word) != words.end();
    };
    if (!std::all_of(named.begin(), named.end(), is_said)) continue;
    return *setting.environment == '\0' ? str("; the setting ", setting.key, " has no variable: give --config ",
                                              setting.key, "=…, or it in the settings of your call")
                                        : str("; the setting ", setting.key, " is read from ", setting.environment);
  }
  return "";
}

}  // namespace

void Settings::note_unknown_variables(const std::vector<std::string>& variables) {
  std::vector<std::string> known;
  for (const Setting& setting : settings_table())
    if (*setting.environment != '\0') known.emplace_back(setting.environment);
  for (const std::string& variable : variables) {
    const std::string name = variable.substr(0, variable.find('='));
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (name == "TORCHINDUCTOR_CACHE_DIR") continue;  // PyTorch sets it itself, in every process that imports Inductor
    const auto begins = [&](const char* prefix) { return starts_with(name, prefix); };
    const bool inductors = begins("TORCHINDUCTOR_") || begins("AOT_INDUCTOR_") || begins("AOTINDUCTOR_") ||
                           begins("AOTI_") || begins("DUMP_AOTI_");
    // Programs around Kiln have variables of these kinds too: worth a word only where a setting may have been meant.
    const bool may_be = begins("TORCH") || begins("CUDA_") || begins("PYTORCH_");
    std::string hint = nearest_hint(name, known);
    if (hint.empty() && (inductors || begins("KILN_"))) hint = setting_hint(name);
    if (inductors || begins("KILN_") || (may_be && !hint.empty()))
      note_once(name, str("environment variable ", name, " is no setting of Kiln and does nothing", hint));
  }
}

void Settings::set_package_default(std::string_view assignment) {
  const size_t equals = std::min(assignment.find('='), assignment.size() - 1);
  const std::string_view key = assignment.substr(0, equals);
  if (values_.contains(key)) return;
  const Setting* setting = find_setting(key);
  if (setting == nullptr || setting->phase == Phase::compile)  // of another version of Kiln
    return note_once(key,
                     str("the package was compiled with ", assignment, ", which this version of Kiln does not know"));
  store(*setting, assignment.substr(equals + 1));
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
