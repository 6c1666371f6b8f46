// What the shells complete, read from the tables of commands and settings: a script for a shell is a way of writing
// this down, and knows no command by itself.
#pragma once
#include <string>
#include <vector>

#include "options.h"

namespace kiln::cli {

// What may stand somewhere: one of the words, the name of a file, KEY=VALUE of a setting, a setting's name; `nothing`
// that can be foreseen (a number, a text).
struct CompletedValue {
  enum Kind { nothing, words, files, assignment, setting } kind = nothing;
  std::vector<std::string> list;  // of `words`
};

struct CompletedOption {
  std::string name, short_name, help;
  bool takes_value = false, repeatable = false;
  std::string value_name;
  CompletedValue value;
};

struct CompletedCommand {
  std::string name, summary;
  std::vector<CompletedOption> options;
  CompletedValue positional;
};

struct CompletedSetting {
  std::string key, meaning;
  std::vector<std::string> values;  // empty: any
};

struct CompletionTable {
  std::vector<CompletedCommand> commands;
  std::vector<CompletedSetting> settings;
};

CompletionTable completion_table(const std::vector<CommandSpec>& commands);

std::string bash_completion(const CompletionTable& table);
std::string zsh_completion(const CompletionTable& table);
std::string fish_completion(const CompletionTable& table);

}  // namespace kiln::cli
