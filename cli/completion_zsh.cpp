#include "base/script_text.h"
#include "base/text.h"
#include "completion.h"

namespace kiln::cli {
namespace {

constexpr const char* zsh_tail = R"(_kiln_setting() { compadd -- ${(k)_kiln_settings} }
_kiln_assignment() {
  local key
  if [[ $PREFIX == *=* ]]; then
    key=${PREFIX%%=*}
    compset -P '*='
    compadd -- ${=_kiln_settings[$key]}
  else
    compadd -S = -- ${(k)_kiln_settings}
  fi
}
_kiln() {
  local curcontext=$curcontext state line
  typeset -A opt_args
  _arguments -C '(- *)--help[shows the commands]' '(- *)--version[shows the version]' '1:command:->command' '*::argument:->argument'
  case $state in
    command) _describe -t commands command _kiln_commands ;;
    argument) (( $+functions[_kiln_$words[1]] )) && _kiln_$words[1] ;;
  esac
}
_kiln "$@"
)";

// In a specification of _arguments: quoted for the shell, with what has a meaning there escaped.
std::string zsh_text(std::string text) {
  for (const char* special : {"\\", "[", "]", ":"}) text = replace_all(text, special, str("\\", special));
  return text;
}

std::string zsh_action(const CompletedValue& value) {
  switch (value.kind) {
    case CompletedValue::words:
      return str("(", join(value.list, " "), ")");
    case CompletedValue::files:
      return "_files";
    case CompletedValue::assignment:
      return "_kiln_assignment";
    case CompletedValue::setting:
      return "_kiln_setting";
    case CompletedValue::nothing:
      break;
  }
  return " ";
}

std::string zsh_option(const CompletedOption& option) {
  const std::string value =
      option.takes_value ? str(":", zsh_text(option.value_name), ":", zsh_action(option.value)) : "";
  const std::string rest = str("[", zsh_text(option.help), "]", value);
  const auto spec = [&](const std::string& name, const char* mark, const std::string& excluded) {
    return str(" \\\n    ", shell_quote(str(option.repeatable ? "*" : excluded, name, mark, rest)));
  };
  const std::string both = option.short_name.empty() ? "" : str("(", option.short_name, " ", option.name, ")");
  std::string text = spec(option.name, option.takes_value ? "=" : "", both);
  if (!option.short_name.empty()) text += spec(option.short_name, option.takes_value ? "+" : "", both);
  return text;
}

}  // namespace

std::string zsh_completion(const CompletionTable& table) {
  std::string text =
      "#compdef kiln\n# Completion for zsh: made by 'kiln completion zsh'.\ntypeset -gA _kiln_settings=(\n";
  for (const CompletedSetting& setting : table.settings)
    text += str("  ", shell_quote(setting.key), " ", shell_quote(join(setting.values, " ")), "\n");
  text += ")\ntypeset -ga _kiln_commands=(\n";
  for (const CompletedCommand& command : table.commands)
    text += str("  ", shell_quote(str(command.name, ":", zsh_text(command.summary))), "\n");
  text += "  'help:shows the options of a command'\n)\n";
  text += "_kiln_help() { _describe -t commands command _kiln_commands }\n";
  for (const CompletedCommand& command : table.commands) {
    text += str("_kiln_", command.name, "() {\n  _arguments");
    for (const CompletedOption& option : command.options) text += zsh_option(option);
    if (command.positional.kind != CompletedValue::nothing)
      text += str(" \\\n    ", shell_quote(str("*:argument:", zsh_action(command.positional))));
    text += "\n}\n";
  }
  return text + zsh_tail;
}

}  // namespace kiln::cli
