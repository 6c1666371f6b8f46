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

class Leftover;  // base/leftovers.h

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

// Who may read what is written.
//   as_usual: as the umask says; symbolic links are followed, as any program does with a path that the user gave
//   owner: 0600, and what lies at the path is replaced, never followed: for places where others could plant something
enum class FileAccess { as_usual, owner };

// Writes beside the target and renames when finished: readers see the old file or the new one, never a part.
// Destroyed without `commit`, it leaves nothing behind. What is no regular file (a device, a pipe, a descriptor such as
// /dev/stdout) is written through, never replaced.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path, FileAccess access = FileAccess::as_usual);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();
  void write(ByteSpan bytes);
  void commit();

 private:
  void write_where_it_leads();
  void write_through(int descriptor);
  void write_beside(unsigned mode);

  std::string path_;                // as the caller named it, for messages
  std::string target_;              // what is renamed to: links followed
  std::string temporary_;           // empty: written through
  std::unique_ptr<Leftover> left_;  // the temporary file, until it has its name
  int descriptor_ = -1;
};
void write_file_atomic(const std::string& path, std::string_view contents, FileAccess access = FileAccess::as_usual);
// Writing there writes through: a device, a pipe, a descriptor of this process.
bool is_stream(const std::string& path);
// The descriptor of this process that the path names (/dev/stdout, /dev/fd/3, a link to one), or -1.
int named_descriptor(const std::string& path);

void make_directories(const std::string& path, unsigned mode = 0777);  // existing ones are fine
// Makes what is missing with 0700. The directory itself must be this user's, no link, and closed to others: one of ours
// that is open to others is closed. Throws K0145 where somebody else made it.
void make_private_directory(const std::string& path);
void remove_tree(const std::string& path);  // nothing there is fine
bool file_exists(const std::string& path);
bool same_file(const std::string& one, const std::string& other);  // both are there: the same device and number
bool is_directory(const std::string& path);
std::vector<std::string> list_directory(const std::string& path);  // names, sorted, without . and ..

// A new private (0700) directory under the system's temporary directory, removed with all it holds unless kept. While
// it is in use it is locked; remove_stray_directories removes those that nobody has locked.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(std::string_view prefix = "kiln");
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory();
  const std::string& path() const { return path_; }
  // Leaves the directory for the user, under a name that nobody sweeps, and says which.
  const std::string& keep();

 private:
  std::string path_;
  std::unique_ptr<Leftover> left_;
  int lock_ = -1;
  bool keep_ = false;
};
// Removes what TemporaryDirectory made for this user and a process ended without removing (kill -9). Gives the names.
std::vector<std::string> remove_stray_directories();
std::string temporary_root();  // $TMPDIR or /tmp

std::string join_path(std::string_view directory, std::string_view name);
std::string file_name(std::string_view path);    // "a/b.tar.gz" -> "b.tar.gz"
std::string parent_path(std::string_view path);  // "a/b" -> "a", "b" -> ".", "/b" -> "/"
std::string extension(std::string_view path);    // ".gz", lower case; "" when there is none
std::string stem(std::string_view path);         // "b.tar"

}  // namespace kiln
