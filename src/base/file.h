// Files and directories: mapping, reading, atomic writing, temporary directories, paths.
//
// Every failure is the user's (K01xx) and names the path and the system's own words for what went wrong.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

using ByteSpan = std::span<const std::byte>;
inline ByteSpan as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view as_text(ByteSpan bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// A whole file, mapped read-only. Lives as long as somebody shares it; an empty file gives an empty span.
class MappedFile {
 public:
  static std::shared_ptr<const MappedFile> open(const std::string& path);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();
  ByteSpan bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, ByteSpan bytes) : path_(std::move(path)), bytes_(bytes) {}
  std::string path_;
  ByteSpan bytes_;
};

std::string read_file(const std::string& path);

// Writes beside the target and renames when finished: readers see the old file or the new one, never a part.
// Destroyed without `commit`, it leaves nothing behind.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();
  void write(ByteSpan bytes);
  void commit();

 private:
  std::string path_, temporary_;
  int descriptor_ = -1;
};
void write_file_atomic(const std::string& path, std::string_view contents);

void make_directories(const std::string& path, unsigned mode = 0777);  // existing ones are fine
void remove_tree(const std::string& path);                             // nothing there is fine
bool file_exists(const std::string& path);
bool is_directory(const std::string& path);
std::vector<std::string> list_directory(const std::string& path);  // names, sorted, without . and ..

// A new private (0700) directory under the system's temporary directory, removed with all it holds unless kept.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(std::string_view prefix = "kiln");
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory();
  const std::string& path() const { return path_; }
  void keep() { keep_ = true; }

 private:
  std::string path_;
  bool keep_ = false;
};
std::string temporary_root();  // $TMPDIR or /tmp

std::string join_path(std::string_view directory, std::string_view name);
std::string file_name(std::string_view path);    // "a/b.tar.gz" -> "b.tar.gz"
std::string parent_path(std::string_view path);  // "a/b" -> "a", "b" -> ".", "/b" -> "/"
std::string extension(std::string_view path);    // ".gz", lower case; "" when there is none
std::string stem(std::string_view path);         // "b.tar"

}  // namespace kiln
