#include <algorithm>
#include <cstdio>
#include <ctime>

#include "base/text.h"
#include "command.h"
#include "json_output.h"
#include "toolchain/kernel_cache.h"

namespace kiln::cli {
namespace {

std::string age_text(int64_t modified) {
  const int64_t seconds = std::max<int64_t>(0, static_cast<int64_t>(time(nullptr)) - modified);
  if (seconds < 120) return str(seconds, " s ago");
  if (seconds < 7200) return str(seconds / 60, " min ago");
  return seconds < 172800 ? str(seconds / 3600, " h ago") : str(seconds / 86400, " days ago");
}

uint64_t bytes_of(const std::vector<CacheEntry>& entries) {
  uint64_t bytes = 0;
  for (const CacheEntry& entry : entries) bytes += entry.bytes;
  return bytes;
}

void show_statistics(const KernelCache& cache, const std::vector<CacheEntry>& entries) {
  size_t kernels = 0;
  for (const CacheEntry& entry : entries) kernels += entry.kind == "kernels";
  printf("directory  %s\n", cache.directory().empty() ? "none" : cache.directory().c_str());
  if (!cache.problem().empty()) printf("not used   %s\n", cache.problem().c_str());
  printf("entries    %zu (%zu of kernels, %zu of tuning)\n", entries.size(), kernels, entries.size() - kernels);
  printf("size       %s\n", bytes_text(bytes_of(entries)).c_str());
}

Json entries_json(const std::vector<CacheEntry>& entries) {
  Json list = Json::array();
  for (const CacheEntry& entry : entries) {
    Json one = Json::object();
    one.set("name", entry.name), one.set("kind", entry.kind), one.set("bytes", entry.bytes);
    one.set("modified", entry.modified);
    list.push(std::move(one));
  }
  return list;
}

void show_entries(const std::vector<CacheEntry>& entries) {
  for (const CacheEntry& entry : entries)
    printf("%-8s %10s  %-14s %s\n", entry.kind.c_str(), bytes_text(entry.bytes).c_str(),
           age_text(entry.modified).c_str(), entry.name.c_str());
}

int use_cache(const ParsedOptions& options) {
  const Settings settings = settings_of_reader(options, "cache", "cache_dir");
  const std::string& what = options.positional[0];
  if (what != "stat" && what != "ls" && what != "clear")
    throw UsageError(str("'kiln cache ", what, "': there are stat, ls and clear"));
  const std::string wish = settings.get_string("cache_dir");
  const KernelCache cache(wish.empty() ? KernelCache::default_directory() : wish);
  const JsonOutput json(options);
  const std::vector<CacheEntry> entries = what == "clear" ? cache.clear() : cache.entries();
  if (!json.instead_of_text()) {
    if (what == "stat") show_statistics(cache, entries);
    if (what == "ls") show_entries(entries);
    if (what == "clear")
      printf("%zu %s removed, %s\n", entries.size(), entries.size() == 1 ? "entry" : "entries",
             bytes_text(bytes_of(entries)).c_str());
  }
  Json root = json.document("cache");
  root.set("directory", cache.directory().empty() ? Json() : Json(cache.directory()));
  root.set("problem", cache.problem().empty() ? Json() : Json(cache.problem()));
  root.set("bytes", bytes_of(entries));
  root.set(what == "clear" ? "removed" : "entries", entries_json(entries));
  json.write(root);
  return 0;
}

}  // namespace

Command cache_command() {
  CommandSpec spec;
  spec.name = "cache";
  spec.positional = "stat|ls|clear";
  spec.takes_files = false;
  spec.least = spec.most = 1;
  spec.summary = "shows and clears the kernel and tuning caches";
  spec.details =
      "The cache is under the user's cache directory, or where cache_dir (KILN_CACHE_DIR) says. 'clear' removes the "
      "entries of the cache and nothing else that may lie there.";
  spec.options = {JsonOutput::option()};
  spec.examples = {"kiln cache stat", "kiln cache ls --json -", "kiln cache clear"};
  return {spec, use_cache};
}

}  // namespace kiln::cli
