#include "pt2/node_metadata.h"

#include <charconv>

#include "base/error.h"

namespace kiln {
namespace {

// Frames of generated code and of PyTorch itself say nothing to the user, whose own lines are around them.
bool is_foreign(const SourceLine& frame) {
  return starts_with(frame.file, "<eval_with_key>") || starts_with(frame.file, "torch/") ||
         frame.file.find("/site-packages/torch/") != std::string::npos ||
         frame.file.find("/dist-packages/torch/") != std::string::npos;
}

}  // namespace

std::vector<SourceLine> parse_stack_trace(std::string_view text) {
  std::vector<SourceLine> frames;
  for (const std::string& raw : split(text, '\n')) {
    const std::string_view line = trim(raw);
    constexpr std::string_view file_start = "File \"", line_start = "\", line ";
    const size_t file_end = line.find(line_start);
    if (starts_with(line, file_start) && file_end != std::string_view::npos) {
      SourceLine frame;
      frame.file = line.substr(file_start.size(), file_end - file_start.size());
      const std::string_view rest = line.substr(file_end + line_start.size());
      std::from_chars(rest.data(), rest.data() + rest.size(), frame.line);
      if (const size_t in = rest.find(", in "); in != std::string_view::npos) frame.function = rest.substr(in + 5);
      frames.push_back(std::move(frame));
    } else if (!frames.empty() && frames.back().text.empty() &&
               line.find_first_not_of("^~ ") != std::string_view::npos) {
      frames.back().text = line;  // not the markers that newer Pythons print below it
    }
  }
  std::vector<SourceLine> own;
  for (const SourceLine& frame : frames)
    if (!is_foreign(frame)) own.push_back(frame);
  return own.empty() ? frames : own;
}

std::string parse_module_path(std::string_view text) {
  // Entries "key,path,type", outermost first; a type may hold commas, a path does not.
  const std::vector<std::string> entries = split(text, ';');
  for (size_t i = entries.size(); i-- > 0;) {
    const std::vector<std::string> fields = split(entries[i], ',');
    if (fields.size() < 3 || fields[0] == fields[1]) continue;  // a placeholder that torch.export puts in
    return fields[1];
  }
  return "";
}

Json node_metadata_json(const Node& node) {
  Json out = Json::object();
  if (node.origins.empty()) return out;
  const Origin& origin = node.origins[0];
  std::string trace;
  for (const SourceLine& frame : origin.stack) {
    trace += str("  File \"", frame.file, "\", line ", frame.line, ", in ", frame.function, "\n");
    if (!frame.text.empty()) trace += str("    ", frame.text, "\n");
  }
  if (!trace.empty()) out.set("stack_trace", trace);
  // A path with a comma or a semicolon would not read back.
  if (origin.module_path.empty() || origin.module_path.find_first_of(",;()[]") != std::string::npos) return out;
  constexpr std::string_view module_class = ",torch.nn.modules.module.Module";
  std::string stack = str("L__self__,", module_class), key = "L__self__", path;
  for (const std::string& part : split(origin.module_path, '.')) {
    path += path.empty() ? part : "." + part;
    key += "_" + part;
    stack += str(";", key, ",", path, module_class);
  }
  out.set("nn_module_stack", stack);
  return out;
}

}  // namespace kiln
