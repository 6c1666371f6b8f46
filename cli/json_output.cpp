#include "json_output.h"

#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "console.h"

namespace kiln::cli {

JsonOutput::JsonOutput(const ParsedOptions& options) {
  const auto path = options.value("--json");
  if (!path) return;
  wanted_ = true;
  instead_ = named_descriptor(*path) == STDOUT_FILENO;
  place_ = output_path(*path);
}

Json JsonOutput::document(const char* command) {
  Json root = Json::object();
  root.set("kind", str("kiln ", command)), root.set("version", 1);
  return root;
}

void JsonOutput::add(Json& document, const Json& facts) {
  for (const JsonMember& member : facts.members()) document.set(member.key, member.value);
}

void JsonOutput::write(const Json& document) const {
  if (wanted_) write_file_atomic(place_, json_text(document, JsonStyle::pretty));
}

OptionSpec JsonOutput::option() {
  return {"--json", "",
          "F",      "writes everything to this file as JSON; -: to standard output, instead of the text",
          false,    FileUse::written};
}

}  // namespace kiln::cli
