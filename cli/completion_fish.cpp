#include "base/text.h"
#include "completion.h"

namespace kiln::cli {
namespace {

constexpr const char* fish_head = R"(# Completion for fish: made by 'kiln completion fish'.
function __kiln_is # COMMAND: whether the line is one of this command; '': none is given yet
  set -l words (commandline -opc)
  test "$words[2]" = "$argv[1]"
end
)";

std::string fish_quote(std::string text) {
  return str("'", replace_all(replace_all(std::move(text), "\\", "\\\\"), "'", "\\'"), "'");
}

// As options of `complete`; a value that cannot be foreseen has no files offered.
std::string fish_value(const CompletedValue& value) {
  switch (value.kind) {
    case CompletedValue::words:
      return str(" -x -a ", fish_quote(join(value.list, " ")));
    case CompletedValue::files:
      return " -r -F";
    case CompletedValue::assignment:
      return " -x -a '(__kiln_assignments)'";
    case CompletedValue::setting:
      return " -x -a '(__kiln_settings)'";
    case CompletedValue::nothing:
      break;
  }
  return " -x";
}

std::string fish_line(const std::string& condition, const std::string& rest) {
  return str("complete -c kiln -n ", fish_quote(condition), rest, "\n");
}

}  // namespace

std::string fish_completion(const CompletionTable& table) {
  std::string text = fish_head;
  text += "function __kiln_settings\n";
  for (const CompletedSetting& setting : table.settings)
    text += str("  printf '%s\\t%s\\n' ", fish_quote(setting.key), " ", fish_quote(setting.meaning), "\n");
  text += "end\nfunction __kiln_assignments\n";
  for (const CompletedSetting& setting : table.settings) {
    const std::vector<std::string> values = setting.values.empty() ? std::vector<std::string>{""} : setting.values;
    for (const std::string& value : values)
      text += str("  printf '%s\\t%s\\n' ", fish_quote(str(setting.key, "=", value)), " ", fish_quote(setting.meaning),
                  "\n");
  }
  text += "end\ncomplete -c kiln -f\n";
  const std::string first = "__kiln_is ''";
  text += fish_line(first, " -l help -s h -d 'shows the commands'") +
          fish_line(first, " -l version -d 'shows the version'");
  text += fish_line(first, " -a help -d 'shows the options of a command'");
  for (const CompletedCommand& command : table.commands) {
    text += fish_line(first, str(" -a ", command.name, " -d ", fish_quote(command.summary)));
    text += fish_line("__kiln_is help", str(" -a ", command.name, " -d ", fish_quote(command.summary)));
    const std::string inside = str("__kiln_is ", command.name);
    for (const CompletedOption& option : command.options) {
      std::string rest = str(" -l ", option.name.substr(2));
      if (!option.short_name.empty()) rest += str(" -s ", option.short_name.substr(1));
      if (option.takes_value) rest += fish_value(option.value);
      text += fish_line(inside, str(rest, " -d ", fish_quote(option.help)));
    }
    if (command.positional.kind == CompletedValue::files)
      text += fish_line(inside, " -F");
    else if (command.positional.kind != CompletedValue::nothing)
      text += fish_line(inside, fish_value(command.positional));
  }
  return text;
}

}  // namespace kiln::cli
