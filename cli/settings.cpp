#include "base/settings.h"

#include <cstdio>
#include <cstdlib>

#include "base/environment.h"
#include "base/error.h"
#include "base/idle_settings.h"
#include "command.h"
#include "console.h"

namespace kiln::cli {
namespace {

const char* phase_text(Phase phase) {
  return phase == Phase::compile ? "compile" : phase == Phase::run ? "run" : "both";
}

// A setting that has no key of PyTorch's goes by its variable's name.
std::string names_text(const Setting& setting, const char* mark) {
  std::string text = str(mark, setting.key, mark);
  if (*setting.environment && std::string_view(setting.environment) != setting.key)
    text += str(*mark ? "<br>" : "  ", mark, setting.environment, mark);
  return text;
}

std::string use_text(const Setting& setting) {
  if (setting.use == SettingUse::not_built) return " (not built yet: a note says so)";
  if (setting.use == SettingUse::always_so) return " (always so: another value is a note)";
  return "";
}

// docs/settings.md holds this table; a test compares the two.
std::string markdown() {
  std::string text = "| key, environment | acts in | default | values | meaning |\n| --- | --- | --- | --- | --- |\n";
  static constexpr const char* types[] = {"0, 1", "a whole number", "text", "a list, separated by commas"};
  for (const Setting& setting : settings_table()) {
    const std::string values = *setting.values ? replace_all(setting.values, "|", ", ")
                                               : std::string(types[static_cast<size_t>(setting.type)]);
    text += str("| ", names_text(setting, "`"), " | ", phase_text(setting.phase), " | ", setting.default_text, " | ",
                values, " | ", replace_all(setting.meaning, "|", "\\|"), use_text(setting), " |\n");
  }
  return text;
}

int list_settings(const ParsedOptions& options) {
  if (options.has("--markdown")) {
    fputs(markdown().c_str(), stdout);
    return 0;
  }
  const Settings settings = settings_of(options, Phase::both);
  const std::string pattern = options.positional.empty() ? "*" : str("*", options.positional[0], "*");
  int shown = 0;
  for (const Setting& setting : settings_table()) {
    if (!glob_match(pattern, setting.key) && !glob_match(pattern, setting.environment)) continue;
    ++shown;
    const std::string value = settings.text(setting);
    printf("%s = %s%s\n    %s%s; acts in: %s\n", names_text(setting, "").c_str(),
           value.empty() ? "None" : value.c_str(),
           settings.given(setting.key) ? str("  (given; default ", setting.default_text, ")").c_str() : "",
           setting.meaning, use_text(setting).c_str(), phase_text(setting.phase));
  }
  if (shown == 0) fail_user("K0192", str("no setting has '", options.positional[0], "' in its name"));
  return 0;
}

}  // namespace

Settings settings_of(const ParsedOptions& options, Phase phase, bool minifies) {
  Settings settings(phase);
  for (const std::string& assignment : options.values("--config")) {
    if (assignment.find('=') == std::string::npos)
      throw UsageError(str("--config takes KEY=VALUE, not '", assignment, "'"));
    settings.set(assignment);
  }
  settings.read_environment();
  // Errors may be made anywhere in the process, by the runtime's too: the environment is what all of it sees.
  if (settings.get_bool("TORCH_SHOW_CPP_STACKTRACES")) setenv("TORCH_SHOW_CPP_STACKTRACES", "1", 1);
  // Where a package is loaded, the runtime reads the same settings and says the same.
  if (phase != Phase::run) {
    tell_notes(settings.notes());
    tell_notes(idle_settings(settings, minifies));
  }
  return settings;
}

void note_settings_without_effect(const Settings& settings, const char* who,
                                  const std::function<bool(const Setting&)>& acts) {
  for (const Setting& setting : settings_table()) {
    const bool off = settings.text(setting) == Settings(Phase::both).text(setting);
    // What is about the machine and is in the environment is meant for whichever command uses it.
    const bool general = setting.about_machine && said_by_environment(settings, setting);
    if (off || general || setting.use != SettingUse::acts || acts(setting)) continue;
    const char* const why = setting.phase == Phase::compile ? " compiles nothing"
                            : setting.phase == Phase::run   ? " runs no kernels"
                                                            : " neither compiles nor runs kernels";
    tell_note(str("setting ", setting.key, " does nothing here: ", who, why, " (", setting.meaning, ")"));
  }
}

bool acts_everywhere(const Setting& setting) { return std::string_view(setting.key) == "TORCH_SHOW_CPP_STACKTRACES"; }

void note_settings_of_kernels(const Settings& settings, const char* interpreter, bool compiles) {
  note_settings_without_effect(settings, interpreter, [&](const Setting& setting) {
    return setting.phase == Phase::both || (compiles && setting.phase == Phase::compile);
  });
}

Settings settings_of_reader(const ParsedOptions& options, const char* command, std::string_view acts) {
  Settings settings = settings_of(options, Phase::both);
  Settings said(Phase::both);
  for (const std::string& assignment : options.values("--config")) said.set(assignment);
  note_settings_without_effect(said, command,
                               [&](const Setting& setting) { return acts == setting.key || acts_everywhere(setting); });
  return settings;
}

Command settings_command() {
  CommandSpec spec;
  spec.name = "settings";
  spec.positional = "[NAME]";
  spec.takes_files = false;
  spec.most = 1;
  spec.summary = "lists the settings, or those with NAME in their name";
  spec.details =
      "Every setting with its key (for --config and the interfaces), its environment variable, its value as the "
      "environment and --config give it now, and whether it acts while compiling, while running, or both.";
  spec.options = {{"--markdown", "", "", "prints the table of docs/settings.md", false}};
  spec.examples = {"kiln settings", "kiln settings printer", "TORCHINDUCTOR_NAN_ASSERTS=1 kiln settings nan"};
  return {spec, list_settings};
}

}  // namespace kiln::cli
