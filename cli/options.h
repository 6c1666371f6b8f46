// Command lines: one table per command says which options it takes; parsing, help and "did you mean" follow from it.
#pragma once
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace kiln::cli {

// The command line is wrong. Ends the program with exit code 2 and a hint at the help.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class FileUse { none, read, written };

struct OptionSpec {
  std::string name;        // "--device"
  std::string short_name;  // "-o"; may be empty
  std::string value;       // how the help calls its value: "PKG"; empty: the option is a flag
  std::string help;
  bool repeatable = false;
  FileUse file = FileUse::none;  // whether the value names a file (or directory), and what is done with it
};

struct CommandSpec {
  std::string name;            // "compile"
  std::string positional;      // as the usage line has it: "MODEL.pt2"; empty: none
  size_t least = 0, most = 0;  // how many positional arguments
  bool takes_files = true;     // the positional arguments name files or directories to read
  std::string summary;         // one line
  std::string details;         // paragraphs for `kiln compile --help`; may be empty
  std::vector<OptionSpec> options;
  std::vector<std::string> examples;
};

// `--config K=V`, `--quiet` and `--help`, which every command takes.
const std::vector<OptionSpec>& shared_options();

class ParsedOptions {
 public:
  std::vector<std::string> positional;
  std::vector<std::string> input_files;  // what the command line names to be read: positional arguments, options
  std::string standard_input;            // the file that the standard input was put into; empty: it is not read
  bool has(const std::string& name) const { return given_.count(name) > 0; }
  std::optional<std::string> value(const std::string& name) const;
  std::string value_or(const std::string& name, const std::string& otherwise) const;
  std::vector<std::string> values(const std::string& name) const;
  // Numbers; a UsageError names the option when the text is not one or lies outside the range.
  std::optional<int64_t> integer(const std::string& name, int64_t least, int64_t most) const;
  std::optional<double> number(const std::string& name, double least) const;
  // Each value that names a file to read: of the positional arguments and of options, to be changed in place.
  std::vector<std::string*> read_files(const CommandSpec& command);
  void add(const std::string& name, std::string text) { given_[name].push_back(std::move(text)); }

 private:
  std::map<std::string, std::vector<std::string>> given_;
};

// Takes "--opt value", "--opt=value", "-o value", "-ovalue", and "--" before positional arguments that begin with a
// dash. With --help present nothing else is demanded.
ParsedOptions parse_options(const CommandSpec& command, const std::vector<std::string>& args);

std::string command_help(const CommandSpec& command);
std::string wrapped_usage(const CommandSpec& command);  // its usage line, broken at the width of a terminal

}  // namespace kiln::cli
