#include "completion.h"

#include <cstdio>

#include "base/settings.h"
#include "base/text.h"
#include "command.h"
#include "compile/pipeline.h"

namespace kiln::cli {
namespace {

// "stat|ls|clear" are words to choose from; "MODEL.pt2|PKG" are not.
std::vector<std::string> words_of(const std::string& text) {
  if (text.find('|') == std::string::npos || lower_case(text) != text) return {};
  return split(text, '|');
}

CompletedValue value_of(const OptionSpec& option) {
  if (option.value == "K=V") return {CompletedValue::assignment, {}};
  if (option.value == "PASS") {
    CompletedValue passes{CompletedValue::words, {}};
    for (const PassListing& pass : list_passes()) passes.list.push_back(pass.name);
    if (option.name == "--dump-after") passes.list.emplace_back("all");
    return passes;
  }
  if (option.name == "--device") return {CompletedValue::words, {"cpu", "cuda"}};
  if (option.name == "--target") return {CompletedValue::words, known_targets()};
  if (auto words = words_of(option.value); !words.empty()) return {CompletedValue::words, std::move(words)};
  if (option.file != FileUse::none || option.value == "DIR" || ends_with(option.name, "-dir"))
    return {CompletedValue::files, {}};
  return {};
}

CompletedValue positional_of(const CommandSpec& command) {
  if (command.most == 0) return {};
  if (command.positional == "[NAME]") return {CompletedValue::setting, {}};
  if (auto words = words_of(command.positional); !words.empty()) return {CompletedValue::words, std::move(words)};
  return {CompletedValue::files, {}};
}

std::vector<std::string> values_of(const Setting& setting) {
  if (setting.type == SettingType::boolean && !*setting.values) return {"0", "1"};
  std::vector<std::string> values;
  if (*setting.values)
    for (const std::string& value : split(setting.values, '|'))
      if (value.find("..") == std::string::npos) values.push_back(value);  // a range of numbers
  return values;
}

int print_completion(const ParsedOptions& options) {
  std::vector<CommandSpec> specs;
  for (const Command& command : all_commands()) specs.push_back(command.spec);
  const CompletionTable table = completion_table(specs);
  const std::string& shell = options.positional[0];
  if (shell == "bash")
    fputs(bash_completion(table).c_str(), stdout);
  else if (shell == "zsh")
    fputs(zsh_completion(table).c_str(), stdout);
  else if (shell == "fish")
    fputs(fish_completion(table).c_str(), stdout);
  else
    throw UsageError(str("'kiln completion ", shell, "': there are bash, zsh and fish"));
  return 0;
}

}  // namespace

CompletionTable completion_table(const std::vector<CommandSpec>& commands) {
  CompletionTable table;
  for (const CommandSpec& command : commands) {
    CompletedCommand made{command.name, command.summary, {}, positional_of(command)};
    for (const auto* options : {&command.options, &shared_options()})
      for (const OptionSpec& option : *options)
        made.options.push_back({option.name, option.short_name, option.help, !option.value.empty(), option.repeatable,
                                option.value, value_of(option)});
    table.commands.push_back(std::move(made));
  }
  for (const Setting& setting : settings_table())
    table.settings.push_back({setting.key, setting.meaning, values_of(setting)});
  return table;
}

Command completion_command() {
  CommandSpec spec;
  spec.name = "completion";
  spec.positional = "bash|zsh|fish";
  spec.least = spec.most = 1;
  spec.summary = "prints a script that makes a shell complete commands, options and settings";
  spec.details =
      "An installed Kiln has it where the shells look. For another one, have the shell read it when it starts: for "
      "bash "
      "in ~/.bashrc, for fish as ~/.config/fish/completions/kiln.fish, for zsh as _kiln in a folder of $fpath.";
  spec.examples = {"source <(kiln completion bash)", "kiln completion fish > ~/.config/fish/completions/kiln.fish"};
  return {spec, print_completion};
}

}  // namespace kiln::cli
