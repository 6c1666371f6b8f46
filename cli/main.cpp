// `kiln`: finds the command, parses its options, and turns errors into messages and exit codes.
//   0 done   1 failed (the message says why)   2 the command line is wrong
#include <cstdio>
#include <exception>

#include "base/error.h"
#include "base/leftovers.h"
#include "base/suggest.h"
#include "command.h"
#include "console.h"
#include "lost_context.h"
#include "output_files.h"
#include "standard_input.h"

namespace kiln::cli {
namespace {

std::string overall_help() {
  std::string text =
      "kiln compiles exported PyTorch programs (.pt2) ahead of time and runs and examines the results.\n\n"
      "usage: kiln COMMAND [options]\n\ncommands:\n";
  for (const Command& command : all_commands()) {
    std::string name = "  " + command.spec.name;
    name.resize(14, ' ');
    text += name + command.spec.summary + "\n";
  }
  text +=
      "\n  --help       shows this text; 'kiln help COMMAND' shows a command's options\n"
      "  --version    Kiln, ABI, C++ compiler, CPU features, NVRTC and driver\n\nexamples:\n"
      "  kiln compile model.pt2              writes model.kiln.pt2\n"
      "  kiln run model.kiln.pt2             runs it on the model's sample inputs\n"
      "  kiln check cases/ --jobs 4          compares with what PyTorch computed\n";
  return text;
}

const Command* find_command(const std::vector<Command>& all, const std::string& name) {
  for (const Command& command : all)
    if (command.spec.name == name) return &command;
  return nullptr;
}

[[noreturn]] void unknown_command(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : all_commands()) names.push_back(command.spec.name);
  if (!starts_with(name, "-")) throw UsageError(str("there is no command '", name, "'", nearest_hint(name, names)));
  throw UsageError(str("kiln has no option '", name, "' of its own", nearest_hint(name, {"--version", "--help"}),
                       " (they are --help and --version; a command's options stand behind it)"));
}

// `kiln help`, `kiln help run`.
int help(const std::vector<std::string>& args) {
  if (args.size() < 2) {
    fputs(overall_help().c_str(), stdout);
    return 0;
  }
  const std::vector<Command> all = all_commands();
  const Command* command = find_command(all, args[1]);
  if (!command) unknown_command(args[1]);
  fputs(command_help(command->spec).c_str(), stdout);
  return 0;
}

int dispatch(const std::vector<std::string>& args) {
  if (args.empty()) {
    fputs(overall_help().c_str(), stderr);
    return 2;
  }
  const std::string& name = args[0];
  if (name == "--help" || name == "-h" || name == "help") return help(args);
  if (name == "--version") {
    fputs(version_text().c_str(), stdout);
    return 0;
  }
  const std::vector<Command> all = all_commands();
  const Command* command = find_command(all, name);
  if (!command) unknown_command(name);
  ParsedOptions options = parse_options(command->spec, {args.begin() + 1, args.end()});
  if (!options.has("--help")) {
    if (options.has("--quiet")) be_quiet();
    check_output_options(command->spec, options);
    StandardInput standard_input;
    standard_input.put_in_place(command->spec, options);
    return command->run(options);
  }
  fputs(command_help(command->spec).c_str(), stdout);
  return 0;
}

// How the command is called, for one that was called wrongly.
std::string usage_of(const std::vector<std::string>& args) {
  const std::vector<Command> all = all_commands();
  const Command* command = args.empty() ? nullptr : find_command(all, args[0]);
  if (!command) return "  'kiln help' lists the commands\n";
  return str("  usage: ", wrapped_usage(command->spec), "\n  'kiln help ", args[0], "' explains the options\n");
}

// The text that users look for comes first, verbatim, where the contract fixes it ("Error: input_handles[0]: …").
std::string error_text(const Error& error) {
  const std::string text = error.what();
  if (!starts_with(error.message(), "Error: ")) return text;
  return replace_all(text, str("error[", error.code(), "]: "), "") + str("\n  code ", error.code());
}

bool takes_weights(const std::vector<std::string>& args) {
  const std::vector<Command> all = all_commands();
  const Command* command = args.empty() ? nullptr : find_command(all, args[0]);
  return command && std::any_of(command->spec.options.begin(), command->spec.options.end(),
                                [](const OptionSpec& option) { return option.name == "--weights"; });
}

int guarded(const std::vector<std::string>& args) {
  try {
    return dispatch(args);
  } catch (const UsageError& error) {
    fprintf(stderr, "error[K0190]: %s\n%s", error.what(), usage_of(args).c_str());
    return 2;
  } catch (const Error& error) {
    fflush(stdout);
    fprintf(stderr, "%s\n", error_text(error).c_str());
    if (error.code() == "K0720" && takes_weights(args))
      tell_note("--weights F gives them, from a file with a state dict (.pt, .safetensors, .npz)");
    if (error.code() == "K0777")  // this process can do nothing with the GPU any more; others can
      if (const std::string who = name_lost_kernel(args); !who.empty()) fprintf(stderr, "%s\n", who.c_str());
    return 1;
  } catch (const std::bad_alloc&) {
    fputs("error[K0901]: out of memory\n", stderr);
    return 1;
  } catch (const std::exception& error) {
    fprintf(stderr, "error[K0900]: %s (this is a bug in Kiln; please report it)\n", error.what());
    return 1;
  }
}

}  // namespace

}  // namespace kiln::cli

int main(int argc, char** argv) {
  kiln::cli::open_standard_descriptors();
  kiln::remove_leftovers_on_signals();
  const int code = kiln::cli::guarded({argv + 1, argv + argc});
  const bool written = kiln::cli::standard_output_is_written();
  return code == 0 && !written ? 1 : code;
}
