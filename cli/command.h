// The commands of `kiln`: each has a table of options and a function that does the work (one file each). commands.cpp
// lists them. A command's function throws UsageError (exit code 2) or kiln::Error (exit code 1); otherwise it gives the
// exit code itself.
#pragma once
#include <functional>

#include "base/settings.h"
#include "options.h"

namespace kiln::cli {

struct Command {
  CommandSpec spec;
  int (*run)(const ParsedOptions& options) = nullptr;
};

Command compile_command();
Command run_command();
Command check_command();
Command interpret_command();
Command inspect_command();
Command passes_command();
Command bisect_command();
Command replay_command();
Command profile_command();
Command bench_command();
Command compare_command();
Command report_command();
Command cache_command();
Command minify_command();

Command settings_command();
Command completion_command();

std::vector<Command> all_commands();

// A pass that the command line names must exist: a typo would print nothing.
void check_pass_name(const std::string& name);

// Kiln, ABI, C++ compiler found, CPU features, NVRTC and driver if present.
std::string version_text();

// What --config and the environment say, for a command of this phase. Notes go to stderr; those of a command that only
// loads packages are the runtime's. `minifies`: what is about the minifier's directory is not idle.
Settings settings_of(const ParsedOptions& options, Phase phase, bool minifies = false);

// Nothing that is given stays silently without effect: a note for each setting that has another value than its default
// and for which `acts` says no.
void note_settings_without_effect(const Settings& settings, const char* who,
                                  const std::function<bool(const Setting&)>& acts);
bool acts_everywhere(const Setting& setting);
// Of an interpreter, which runs no kernels: the settings of runs, and where nothing is compiled either those of
// compiles.
void note_settings_of_kernels(const Settings& settings, const char* interpreter, bool compiles);
// Of a command that neither compiles nor runs: what --config says, and `acts` (a key) does not act for. The environment
// is for other commands too.
Settings settings_of_reader(const ParsedOptions& options, const char* command, std::string_view acts = "");

}  // namespace kiln::cli
