#include "json_output.h"

#include "base/file.h"
#include "base/text.h"
#include "console.h"

namespace kiln::cli {

JsonOutput::JsonOutput(const ParsedOptions& options) {
  const auto path = options.value("--json");
  if (!path) return;
  wanted_ = true;
  instead_ = *path == "-" || named_descriptor(*path) == named_descriptor("/dev/stdout");
  place_ = output_path(instead_ ? "/dev/stdout" : *path);
}

void JsonOutput::write(const std::string& text) const {
  if (!wanted_) return;
  write_file_atomic(place_, ends_with(text, "\n") ? text : text + "\n");
}

OptionSpec JsonOutput::option() {
  return {"--json", "",
          "F",      "writes everything to this file as JSON; -: to standard output, instead of the text",
          false,    FileUse::written};
}

}  // namespace kiln::cli
