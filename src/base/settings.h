// The settings of Kiln: one table (settings_table.cpp) says for each its key, environment variable, phase, default and
// meaning; a Settings object holds the values of one command or one loaded package.
//
// A value comes from --config K=V (or the C and Python interfaces), else from the environment, else from the table.
// Phase C settings are used while compiling; given where a package is loaded or run they are an error that says so.
// Keys that PyTorch's Inductor has and Kiln has no use for are accepted with a note; a key nobody knows is an error
// that names the nearest. Notes are collected, not printed: the caller decides where they go.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

enum class Phase : uint8_t { compile = 1, run = 2, both = 3 };
enum class SettingType : uint8_t { boolean, integer, text, list };

struct Setting {
  const char* key;          // the environment variable's own name where there is no configuration key
  const char* environment;  // "" when there is none; one variable may set several keys
  Phase phase;
  SettingType type;
  const char* default_text;  // "None": not set
  const char* meaning;
  bool built = true;           // false: accepted, with a note that the capability does not exist yet
  bool about_machine = false;  // where things are on this machine: may stand in the environment in any phase
};

std::span<const Setting> settings_table();
std::span<const char* const> ignored_inductor_keys();  // sorted

class Settings {
 public:
  using Environment = std::function<const char*(const char*)>;
  // `phase`: what the command does (`both`: compiles and runs).
  explicit Settings(Phase phase) : phase_(phase) {}

  void set(std::string_view key, std::string_view value);  // throws K0140 (unknown), K0141 (phase), K0142 (value)
  void set(std::string_view assignment);                   // "K=V", as after --config
  // Takes what the environment sets. What was set by `set` stays. An error only for what differs from the default.
  void read_environment(const Environment& lookup);
  void read_environment();  // of this process

  bool get_bool(std::string_view key) const;                            // of a number: not 0
  int64_t get_int(std::string_view key) const;                          // must have a value
  std::optional<int64_t> get_optional_int(std::string_view key) const;  // nothing: "None"
  std::string get_string(std::string_view key) const;                   // "" for "None"
  std::vector<std::string> get_list(std::string_view key) const;        // split at commas, spaces ignored
  std::string text(const Setting& setting) const;                       // of any type, as `set` takes it
  bool given(std::string_view key) const;                               // by set or by the environment
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void store(const Setting& setting, std::string_view value);
  void note_once(std::string_view key, std::string text);
  std::string value_of(std::string_view key, SettingType type) const;

  Phase phase_;
  std::map<std::string, std::string, std::less<>> values_;
  std::set<std::string, std::less<>> noted_;
  std::vector<std::string> notes_;
};

}  // namespace kiln
