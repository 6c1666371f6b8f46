#include "compile/source_paths.h"

#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "graph/walk.h"

namespace kiln {
namespace {

std::string absolute(const std::string& path) {
  char here[4096];
  if (starts_with(path, "/") || !getcwd(here, sizeof here)) return path;
  return path == "." ? std::string(here) : join_path(here, path);
}

// From the last folder whose name starts so, with that folder; empty: there is none.
std::string from_folder(const std::string& path, std::string_view start) {
  const size_t at = path.rfind(str("/", start));
  return at == std::string::npos || path.find('/', at + 1) == std::string::npos ? "" : path.substr(at + 1);
}

void shorten(Graph& graph, const std::vector<std::string>& bases) {
  for_each_node(graph, [&](Node& node) {
    for (Origin& origin : node.origins)
      for (SourceLine& line : origin.stack) line.file = short_source_path(line.file, bases);
  });
}

}  // namespace

std::string short_source_path(const std::string& path, const std::vector<std::string>& bases) {
  if (!starts_with(path, "/")) return path;  // relative, or "<eval_with_key>.7"
  for (const char* packages : {"site-packages/", "dist-packages/"})
    if (const std::string found = from_folder(path, packages); !found.empty()) return found;
  for (const std::string& base : bases)
    if (base.size() > 1 && starts_with(path, base + "/")) return path.substr(base.size() + 1);
  if (path.find("/lib/python") != std::string::npos) return from_folder(path, "python");
  return join_path(file_name(parent_path(path)), file_name(path)).substr(parent_path(path) == "/" ? 1 : 0);
}

void shorten_source_paths(Program& program, const std::string& model_directory) {
  shorten(program.graph, {absolute("."), absolute(model_directory)});
}

}  // namespace kiln
