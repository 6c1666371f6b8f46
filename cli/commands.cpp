// The one list of commands, in the order in which the help shows them.
#include "command.h"

namespace kiln::cli {

std::vector<Command> all_commands() {
  return {compile_command(), run_command(),    check_command(),    interpret_command(),
          inspect_command(), passes_command(), bisect_command(),   replay_command(),
          profile_command(), bench_command(),  compare_command(),  report_command(),
          cache_command(),   minify_command(), settings_command(), completion_command()};
}

}  // namespace kiln::cli
