// The settings of Kiln: one table (settings_table.cpp) says for each its key, environment variable, phase, default and
// meaning; a Settings object holds the values of one command or one loaded package.
//
// A value comes from --config K=V (or the C and Python interfaces), else from the environment, else from what the
// package was compiled with, else from the table.
// Phase C settings are used while compiling; given explicitly where a package is loaded or run they are an error that
// says so, in the environment they are simply not for that phase. Phase R settings given to a compile become the
// package's own defaults.
// Keys that PyTorch's Inductor has and Kiln has no use for are accepted with a note; a key nobody knows is an error
// that names the nearest, a variable of PyTorch's that nobody knows a note. Nothing that is given is silently without
// effect. Notes are collected, not printed: the caller decides where they go.
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
// What a value does. `not_built`: nothing yet, and a note says so. `always_so`: Kiln knows only the default, and a note
// says so of another value.
enum class SettingUse : uint8_t { acts, not_built, always_so };

struct Setting {
  const char* key;          // the environment variable's own name where there is no configuration key
  const char* environment;  // "" when there is none; one variable may set several keys
  Phase phase;
  SettingType type;
  const char* default_text;  // "None": not set
  const char* meaning;
  SettingUse use = SettingUse::acts;
  bool about_machine = false;  // where things are on this machine: no part of what a compile or a run is
  // What a value may be besides the default, alternatives separated by '|': words, numbers, "0..3", "1..". Empty:
  // whatever the type allows.
  const char* values = "";
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
  // Takes what the environment sets for this phase. What was set by `set` stays.
  void read_environment(const Environment& lookup);
  void read_environment();  // of this process; variables that look like settings and are none get a note
  // What a package was compiled with: counts where nothing else is said.
  void set_package_default(std::string_view assignment);

  bool get_bool(std::string_view key) const;                            // of a number: not 0
  int64_t get_int(std::string_view key) const;                          // must have a value
  std::optional<int64_t> get_optional_int(std::string_view key) const;  // nothing: "None"
  std::string get_string(std::string_view key) const;                   // "" for "None"
  std::vector<std::string> get_list(std::string_view key) const;        // split at commas, spaces ignored
  std::string text(const Setting& setting) const;                       // of any type, as `set` takes it
  bool given(std::string_view key) const;                               // by set or by the environment
  Phase phase() const { return phase_; }
  const std::vector<std::string>& notes() const { return notes_; }
  // Notes for variables ("NAME=value") whose names look like settings and are none.
  void note_unknown_variables(const std::vector<std::string>& variables);

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
