// Compiled code on disk, found by content: the key is the hash of source, flags, compiler identity and ABI. The
// directory is private (0700, owner checked); entries are written by rename and carry a hash that is checked when they
// are read, so a damaged or foreign entry is a miss, never wrong code. It does not grow for ever: past its limit, those
// that were not used for longest go.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

struct CacheEntry {
  std::string name;
  std::string kind;  // kernels, tuning
  uint64_t bytes = 0;
  int64_t modified = 0;  // seconds since 1970
};

class KernelCache {
 public:
  // Empty path: no cache. A directory that is not ours or not private is not used; `problem` says why.
  explicit KernelCache(std::string directory, uint64_t most_bytes = uint64_t{2} << 30);
  static std::string default_directory();  // $XDG_CACHE_HOME/kiln or ~/.cache/kiln; empty when there is no home
  bool usable() const { return usable_; }
  const std::string& problem() const { return problem_; }
  const std::string& directory() const { return directory_; }
  std::optional<std::string> get(const std::string& key) const;
  // Why it was not kept, which is no error; empty: it was, or there is no cache.
  std::string put(const std::string& key, std::string_view bytes) const;
  // Files that have the names of entries, newest first; others in the directory are not ours.
  std::vector<CacheEntry> entries() const;
  std::vector<CacheEntry> clear() const;  // removes them; gives those that were removed

 private:
  void make_room(const std::string& newest) const;
  std::string directory_, problem_;
  uint64_t most_bytes_;
  bool usable_ = false;
};

}  // namespace kiln
