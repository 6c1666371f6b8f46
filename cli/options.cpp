#include "options.h"

#include <charconv>
#include <cmath>
#include <cstdint>

#include "base/suggest.h"
#include "base/text.h"
#include "base/text_width.h"

namespace kiln::cli {
namespace {

constexpr size_t help_width = 100;

std::vector<OptionSpec> all_options(const CommandSpec& command) {
  std::vector<OptionSpec> options = command.options;
  options.insert(options.end(), shared_options().begin(), shared_options().end());
  return options;
}

[[noreturn]] void unknown_option(const CommandSpec& command, const std::string& name) {
  std::vector<std::string> names;
  for (const OptionSpec& option : all_options(command)) names.push_back(option.name);
  throw UsageError(str("'kiln ", command.name, "' has no option ", name, nearest_hint(name, names)));
}

OptionSpec find_option(const CommandSpec& command, const std::string& name) {
  for (const OptionSpec& option : all_options(command))
    if (option.name == name || (!option.short_name.empty() && option.short_name == name)) return option;
  unknown_option(command, name);
}

// The short option that the argument begins with, if it takes a value; otherwise the whole argument.
std::string short_name_of(const CommandSpec& command, const std::string& arg) {
  for (const OptionSpec& option : all_options(command))
    if (!option.short_name.empty() && !option.value.empty() && starts_with(arg, option.short_name))
      return option.short_name;
  return arg;
}

std::string usage_line(const CommandSpec& command) {
  std::string line = str("kiln ", command.name);
  if (!command.positional.empty()) line += str(" ", command.positional);
  for (const OptionSpec& option : command.options) {
    line += str(" [", option.short_name.empty() ? option.name : option.short_name);
    if (!option.value.empty()) line += str(" ", option.value);
    line += option.repeatable ? "]…" : "]";
  }
  return line;
}

// Breaks at spaces so that no line is longer than `width`; lines after the first are indented.
std::string wrapped(const std::string& text, size_t indent, size_t width) {
  std::string out, line;
  for (const std::string& word : split(text, ' ')) {
    if (!line.empty() && indent + line.size() + 1 + word.size() > width) {
      out += line + "\n" + std::string(indent, ' ');
      line.clear();
    }
    line += line.empty() ? word : " " + word;
  }
  return out + line;
}

}  // namespace

const std::vector<OptionSpec>& shared_options() {
  static const std::vector<OptionSpec> options = {
      {"--config", "", "K=V", "sets a configuration key, as PyTorch spells it", true},
      {"--quiet", "-q", "", "says no more than the result: no notes, no progress, and of text for people the last word",
       false},
      {"--help", "-h", "", "shows this text", false},
  };
  return options;
}

std::optional<std::string> ParsedOptions::value(const std::string& name) const {
  const auto found = given_.find(name);
  if (found == given_.end()) return std::nullopt;
  return found->second.back();
}

std::string ParsedOptions::value_or(const std::string& name, const std::string& otherwise) const {
  return value(name).value_or(otherwise);
}

std::vector<std::string> ParsedOptions::values(const std::string& name) const {
  const auto found = given_.find(name);
  return found == given_.end() ? std::vector<std::string>{} : found->second;
}

std::optional<int64_t> ParsedOptions::integer(const std::string& name, int64_t least, int64_t most) const {
  const std::optional<std::string> text = value(name);
  if (!text) return std::nullopt;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || end != text->data() + text->size() || number < least || number > most)
    throw UsageError(str(name, " takes a whole number from ", least, " to ", most, ", not '", *text, "'"));
  return number;
}

std::optional<double> ParsedOptions::number(const std::string& name, double least) const {
  const std::optional<std::string> text = value(name);
  if (!text) return std::nullopt;
  double number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || end != text->data() + text->size() || !std::isfinite(number) || number < least)
    throw UsageError(str(name, " takes a number of at least ", least, ", not '", *text, "'"));
  return number;
}

std::vector<std::string*> ParsedOptions::read_files(const CommandSpec& command) {
  std::vector<std::string*> out;
  if (command.takes_files)
    for (std::string& path : positional) out.push_back(&path);
  for (const OptionSpec& option : command.options)
    if (const auto found = given_.find(option.name); option.file == FileUse::read && found != given_.end())
      for (std::string& path : found->second) out.push_back(&path);
  return out;
}

ParsedOptions parse_options(const CommandSpec& command, const std::vector<std::string>& args) {
  ParsedOptions parsed;
  bool options_end = false;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (options_end || arg.size() < 2 || arg[0] != '-') {
      parsed.positional.push_back(arg);
      continue;
    }
    if (arg == "--") {
      options_end = true;
      continue;
    }
    const bool is_long = starts_with(arg, "--");
    const size_t equals = is_long ? arg.find('=') : std::string::npos;
    // "-j4": the letter and its value in one.
    const std::string name = is_long ? arg.substr(0, equals) : short_name_of(command, arg);
    const OptionSpec option = find_option(command, name);
    if (parsed.has(option.name) && !option.repeatable) throw UsageError(str(option.name, " is given twice"));
    const auto add = [&](const std::string& text) {
      // "-" is the standard output where a file is written, and the standard input where one is read
      // (standard_input.h).
      parsed.add(option.name, option.file == FileUse::written && text == "-" ? "/dev/stdout" : text);
    };
    if (option.value.empty()) {
      if (equals != std::string::npos) throw UsageError(str(option.name, " takes no value"));
      parsed.add(option.name, "");
    } else if (equals != std::string::npos) {
      add(arg.substr(equals + 1));
    } else if (name.size() < arg.size()) {
      add(arg.substr(name.size()));
    } else if (i + 1 < args.size()) {
      add(args[++i]);
    } else {
      throw UsageError(str(option.name, " needs a value: ", option.name, " ", option.value));
    }
  }
  if (command.takes_files) parsed.input_files = parsed.positional;
  for (const OptionSpec& option : command.options)
    for (const std::string& path : parsed.values(option.name))
      if (option.file == FileUse::read) parsed.input_files.push_back(path);
  if (parsed.has("--help")) return parsed;
  if (parsed.positional.size() < command.least)
    throw UsageError(str("'kiln ", command.name, "' needs ", command.positional));
  if (parsed.positional.size() > command.most)
    throw UsageError(
        str("'kiln ", command.name, "' does not know what to do with '", parsed.positional[command.most], "'"));
  return parsed;
}

std::string wrapped_usage(const CommandSpec& command) { return wrapped(usage_line(command), 11, help_width); }

std::string command_help(const CommandSpec& command) {
  std::string text = str(command.summary, "\n\nusage: ", wrapped_usage(command), "\n");
  if (!command.details.empty()) {
    text += "\n";
    for (const std::string& paragraph : split(command.details, '\n')) text += wrapped(paragraph, 0, help_width) + "\n";
  }
  text += "\noptions:\n";
  constexpr size_t column = 30;
  for (const OptionSpec& option : all_options(command)) {
    std::string left = "  " + (option.short_name.empty() ? option.name : str(option.short_name, ", ", option.name));
    if (!option.value.empty()) left += " " + option.value;
    const size_t width = text_width(left);
    left += width + 2 > column ? "\n" + std::string(column, ' ') : std::string(column - width, ' ');
    text += left + wrapped(option.help + (option.repeatable ? " (repeatable)" : ""), column, help_width) + "\n";
  }
  if (!command.examples.empty()) text += "\nexamples:\n";
  for (const std::string& example : command.examples) text += "  " + example + "\n";
  return text;
}

}  // namespace kiln::cli
