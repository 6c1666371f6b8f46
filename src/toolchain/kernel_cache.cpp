#include "toolchain/kernel_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"

namespace kiln {
namespace {
constexpr size_t hash_characters = 64;
}

std::string KernelCache::default_directory() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && xdg[0] == '/') return std::string(xdg) + "/kiln";
  if (const char* home = std::getenv("HOME"); home && home[0] == '/') return std::string(home) + "/.cache/kiln";
  return "";
}

KernelCache::KernelCache(std::string directory) : directory_(std::move(directory)) {
  if (directory_.empty()) return;
  try {
    make_directories(directory_, 0700);
  } catch (const Error& error) {
    problem_ = error.message();
    return;
  }
  struct stat info;
  if (stat(directory_.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    problem_ = str(directory_, " is no directory");
  } else if (info.st_uid != geteuid()) {
    problem_ = str(directory_, " belongs to another user");
  } else if (info.st_mode & 0022) {
    problem_ = str(directory_, " can be written by others");
  } else {
    usable_ = true;
  }
}

std::optional<std::string> KernelCache::get(const std::string& key) const {
  if (!usable_) return std::nullopt;
  std::string path = join_path(directory_, key);
  if (!file_exists(path)) return std::nullopt;
  try {
    std::string contents = read_file(path);
    if (contents.size() < hash_characters) return std::nullopt;
    std::string bytes = contents.substr(hash_characters);
    if (sha256_hex(std::string_view(bytes)) != contents.substr(0, hash_characters)) return std::nullopt;
    return bytes;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void KernelCache::put(const std::string& key, std::string_view bytes) const {
  if (!usable_) return;
  try {
    write_file_atomic(join_path(directory_, key), sha256_hex(bytes) + std::string(bytes));
  } catch (const Error&) {
    // A full or read-only disk makes the next compile slower, nothing else.
  }
}

}  // namespace kiln
