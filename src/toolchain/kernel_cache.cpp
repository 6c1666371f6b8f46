#include "toolchain/kernel_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "base/environment.h"
#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"

namespace kiln {
namespace {
constexpr size_t hash_characters = 64;

// <64 hex digits>.so holds kernels, .cubin those of a GPU, <64 hex digits>.tune measured choices; anything else is not
// an entry.
std::string kind_of(const std::string& name) {
  if (name.size() < hash_characters) return "";
  for (size_t i = 0; i < hash_characters; ++i)
    if (!isxdigit(static_cast<unsigned char>(name[i]))) return "";
  const std::string suffix = name.substr(hash_characters);
  return suffix == ".so" || suffix == ".cubin" ? "kernels" : suffix == ".tune" ? "tuning" : "";
}
}  // namespace

std::string KernelCache::default_directory() {
  const std::string root = user_cache_root();
  return root.empty() ? "" : root + "/kiln";
}

KernelCache::KernelCache(std::string directory, uint64_t most_bytes)
    : directory_(std::move(directory)), most_bytes_(most_bytes) {
  if (directory_.empty()) return;
  try {
    make_directories(directory_, 0700);
  } catch (const Error& error) {
    problem_ = error.message();
    return;
  }
  struct stat info, link;
  if (stat(directory_.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    problem_ = str(directory_, " is no directory");
  } else if (info.st_uid != geteuid()) {
    problem_ = str(directory_, " belongs to another user");
  } else if (lstat(directory_.c_str(), &link) == 0 && link.st_uid != geteuid() && link.st_uid != 0) {
    problem_ = str(directory_, " is a link of another user");  // the user's own link to a larger disk is fine
  } else if (info.st_mode & 0022) {
    problem_ = str(directory_, " can be written by others");
  } else {
    usable_ = true;
  }
}

std::optional<std::string> KernelCache::get(const std::string& key) const {
  if (!usable_) return std::nullopt;
  std::string path = join_path(directory_, key);
  struct stat info;
  // Another user's entry could only be there if the directory was open to others at some time.
  if (lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid()) return std::nullopt;
  try {
    std::string contents = read_file(path);
    if (contents.size() < hash_characters) return std::nullopt;
    std::string bytes = contents.substr(hash_characters);
    if (sha256_hex(std::string_view(bytes)) != contents.substr(0, hash_characters)) return std::nullopt;
    utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // used now
    return bytes;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::vector<CacheEntry> KernelCache::entries() const {
  std::vector<CacheEntry> out;
  if (!usable_) return out;
  for (const std::string& name : list_directory(directory_)) {
    const std::string kind = kind_of(name);
    struct stat info;
    if (kind.empty() || lstat(join_path(directory_, name).c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    out.push_back({name, kind, static_cast<uint64_t>(info.st_size), static_cast<int64_t>(info.st_mtime)});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const CacheEntry& a, const CacheEntry& b) { return a.modified > b.modified; });
  return out;
}

std::vector<CacheEntry> KernelCache::clear() const {
  std::vector<CacheEntry> removed;
  for (CacheEntry& entry : entries())
    if (unlink(join_path(directory_, entry.name).c_str()) == 0) removed.push_back(std::move(entry));
  return removed;
}

// Down to three quarters, so that not every entry after that looks through all of them. Others may do the same at the
// same time: what is gone already is gone.
void KernelCache::make_room(const std::string& newest) const {
  std::vector<CacheEntry> all = entries();
  uint64_t bytes = 0;
  for (const CacheEntry& entry : all) bytes += entry.bytes;
  if (bytes <= most_bytes_) return;
  for (size_t i = all.size(); i-- > 0 && bytes > most_bytes_ / 4 * 3;) {
    if (all[i].name == newest) continue;  // its second may be others' too
    unlink(join_path(directory_, all[i].name).c_str());
    bytes -= all[i].bytes;
  }
}

std::string KernelCache::put(const std::string& key, std::string_view bytes) const {
  if (!usable_) return "";
  try {
    write_file_atomic(join_path(directory_, key), sha256_hex(bytes) + std::string(bytes), FileAccess::owner);
    make_room(key);
  } catch (const Error& error) {
    return error.message();  // a full or read-only disk makes the next compile slower, nothing else
  }
  return "";
}

}  // namespace kiln
