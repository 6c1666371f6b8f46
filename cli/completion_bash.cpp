#include "base/script_text.h"
#include "base/text.h"
#include "completion.h"

namespace kiln::cli {
namespace {

// Readline hands words over that are broken at '=' and ':' ("--config a=b" is four). Here a word ends at white space;
// of a reply readline wants only what comes after its own last break.
constexpr const char* bash_head = R"(# Completion for bash: made by 'kiln completion bash'.
_kiln_is_set() { # VALUES…: what begins like the current word
  local value
  for value in "$@"; do
    [[ $value == "$current"* ]] && COMPREPLY+=("${value#"$broken_off"}")
  done
}
_kiln_file() {
  local file
  compopt -o filenames 2>/dev/null
  while IFS= read -r file; do
    COMPREPLY+=("$file")
  done < <(compgen -f -- "${current#"$broken_off"}")
}
)";

constexpr const char* bash_tail = R"(_kiln() {
  local line=${COMP_LINE:0:COMP_POINT} word=${COMP_WORDS[COMP_CWORD]} words current previous='' command='' broken_off=''
  local options='' positional='' values='' i
  COMPREPLY=()
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=('')
  current=${words[${#words[@]} - 1]}
  ((${#words[@]} > 1)) && previous=${words[${#words[@]} - 2]}
  [[ $word == [=:] ]] && word=''
  [[ $current == *"$word" ]] && broken_off=${current%"$word"}
  for ((i = 1; i < ${#words[@]} - 1; ++i)); do
    [[ ${words[i]} == -* ]] || { command=${words[i]}; break; }
  done
  if [[ -z $command || ($command == help && $previous == help) ]]; then
    _kiln_is_set $_kiln_commands $([[ -z $command ]] && echo help --help --version)
    return
  fi
  if [[ $current == --*=* ]]; then
    previous=${current%%=*}
    current=${current#*=}
    broken_off=${broken_off#"$previous="}
  fi
  _kiln_command "$command" || return
  if [[ $previous == -* ]] && _kiln_value "$command" "$previous"; then
    positional=$values
  elif [[ $current == -* ]]; then
    _kiln_is_set $options
    return
  fi
  case $positional in
    '') ;;
    @files) _kiln_file ;;
    @setting) _kiln_is_set "${!_kiln_settings[@]}" ;;
    @assignment)
      if [[ $current == *=* ]]; then
        values=
        for i in ${_kiln_settings[${current%%=*}]}; do values+=" ${current%%=*}=$i"; done
        _kiln_is_set $values
      else
        compopt -o nospace 2>/dev/null
        _kiln_is_set "${!_kiln_settings[@]}"
        COMPREPLY=("${COMPREPLY[@]/%/=}")
      fi
      ;;
    *) _kiln_is_set $positional ;;
  esac
}
complete -F _kiln kiln
)";

std::string bash_value(const CompletedValue& value) {
  switch (value.kind) {
    case CompletedValue::words:
      return join(value.list, " ");
    case CompletedValue::files:
      return "@files";
    case CompletedValue::assignment:
      return "@assignment";
    case CompletedValue::setting:
      return "@setting";
    case CompletedValue::nothing:
      break;
  }
  return "";
}

}  // namespace

std::string bash_completion(const CompletionTable& table) {
  std::string text = bash_head;
  std::vector<std::string> names;
  for (const CompletedCommand& command : table.commands) names.push_back(command.name);
  text += str("_kiln_commands='", join(names, " "), "'\n", "declare -gA _kiln_settings=(\n");
  for (const CompletedSetting& setting : table.settings)
    text += str("  [", shell_quote(setting.key), "]=", shell_quote(join(setting.values, " ")), "\n");
  text += ")\n_kiln_command() { # COMMAND: its options, and what it is about\n  case $1 in\n";
  for (const CompletedCommand& command : table.commands) {
    std::vector<std::string> options;
    for (const CompletedOption& option : command.options) options.push_back(option.name);
    text += str("    ", command.name, ") options=", shell_quote(join(options, " ")),
                " positional=", shell_quote(bash_value(command.positional)), " ;;\n");
  }
  text +=
      "    *) return 1 ;;\n  esac\n}\n_kiln_value() { # COMMAND OPTION: what the option takes; fails where it takes "
      "nothing\n  case \"$1 $2\" in\n";
  for (const CompletedCommand& command : table.commands)
    for (const CompletedOption& option : command.options) {
      if (!option.takes_value) continue;
      text += str("    '", command.name, " ", option.name, "'");
      if (!option.short_name.empty()) text += str(" | '", command.name, " ", option.short_name, "'");
      text += str(") values=", shell_quote(bash_value(option.value)), " ;;\n");
    }
  return text + "    *) return 1 ;;\n  esac\n}\n" + bash_tail;
}

}  // namespace kiln::cli
