#include "base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/leftovers.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_file(const char* code, std::string_view what, const std::string& path, int error) {
  fail_user(code, str("cannot ", what, " ", path, ": ", std::strerror(error)));
}

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

// Opens an existing regular file; its size comes with it.
Descriptor open_regular(const std::string& path, size_t& size) {
  if (path.find('\0') != std::string::npos) fail_user("K0101", "a file name holds a zero byte");
  // Without O_NONBLOCK opening a pipe waits for a writer, and a name that is no regular file must not hold anybody up.
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  if (file.number < 0) fail_file("K0101", "open", path, errno);
  struct stat info {};
  if (::fstat(file.number, &info) != 0) fail_file("K0101", "open", path, errno);
  if (S_ISDIR(info.st_mode)) fail_file("K0101", "open", path, EISDIR);
  if (!S_ISREG(info.st_mode)) fail_user("K0101", str("cannot open ", path, ": not a regular file"));
  size = static_cast<size_t>(info.st_size);
  Descriptor out{file.number};
  file.number = -1;
  return out;
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  size_t size = 0;
  Descriptor file = open_regular(path, size);
  ByteSpan bytes;
  if (size != 0) {
    void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
    if (memory == MAP_FAILED) fail_file("K0102", "map", path, errno);
    bytes = {static_cast<const std::byte*>(memory), size};
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(path, bytes));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::string read_file(const std::string& path) {
  size_t size = 0;
  Descriptor file = open_regular(path, size);
  // Files of /proc are said to be empty and are not.
  const bool unknown = size == 0;
  std::string out(unknown ? 4096 : size, '\0');
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::read(file.number, out.data() + done, out.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_file("K0103", "read", path, errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
    if (unknown && done == out.size()) out.resize(2 * done);
  }
  out.resize(done);
  return out;
}

namespace {

// 16 hexadecimal digits that nobody can guess, so that nobody can be there first.
std::string random_digits() {
  uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) {
    static uint64_t calls = 0;
    number = static_cast<uint64_t>(::getpid()) << 32 | ++calls;
  }
  char digits[20];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  return digits;
}

// In a directory that all may write to (/tmp), something of another user may have been planted to be followed. The
// system refuses to open it there (protected_symlinks), and so do we, who read links ourselves.
void refuse_planted(const std::string& path, const std::string& place, const struct stat& info) {
  struct stat folder {};
  if (info.st_uid == ::geteuid() || ::stat(parent_path(place).c_str(), &folder) != 0) return;
  const bool open_to_all = (folder.st_mode & S_ISVTX) && (folder.st_mode & S_IWOTH);
  if (open_to_all && info.st_uid != folder.st_uid)
    fail_user("K0104", str("cannot write ", path, ": ", place, " was put there by another user"));
}

// "/proc/self/fd/1" and the like.
int descriptor_number(const std::string& path) {
  std::string_view rest = path;
  const auto skip = [&rest](const std::string& prefix) {
    if (!starts_with(rest, prefix)) return false;
    rest.remove_prefix(prefix.size());
    return true;
  };
  if (!skip("/dev/fd/") && !skip("/proc/self/fd/") && !skip("/proc/thread-self/fd/") &&
      !skip(str("/proc/", ::getpid(), "/fd/")))
    return -1;
  if (rest.empty() || rest.size() > 7 || rest.find_first_not_of("0123456789") != std::string_view::npos) return -1;
  return std::atoi(std::string(rest).c_str());
}

// Where a path leads: a descriptor of this process, or a place that is no link (and may not exist).
struct Destination {
  int descriptor = -1;
  std::string place;
  struct stat info {};
  bool exists = false;
};

Destination follow(const std::string& path) {
  Destination out;
  out.place = path;
  for (int links = 0; links <= 40; ++links) {
    out.descriptor = descriptor_number(out.place);
    if (out.descriptor >= 0) return out;
    if (::lstat(out.place.c_str(), &out.info) != 0) return out;
    refuse_planted(path, out.place, out.info);
    if (!S_ISLNK(out.info.st_mode)) {
      out.exists = true;
      return out;
    }
    char target[4096];
    const ssize_t length = ::readlink(out.place.c_str(), target, sizeof target);
    if (length <= 0 || static_cast<size_t>(length) == sizeof target) fail_file("K0104", "write", path, errno);
    out.place = join_path(parent_path(out.place), std::string_view(target, static_cast<size_t>(length)));
  }
  fail_file("K0104", "write", path, ELOOP);
}

// How the name of a file begins that is to become this one: beside it even where its name is as long as a name may be.
std::string unfinished_name(const std::string& target) { return file_name(target).substr(0, 200) + "."; }

// Whoever looks for what is unfinished may take the file before the lock is ours: then it has no name any more. Where
// the file system has no locks, nobody takes it either.
bool lock_unfinished(int descriptor) {
  struct stat info {};
  ::flock(descriptor, LOCK_EX);
  return ::fstat(descriptor, &info) != 0 || info.st_nlink > 0;
}

}  // namespace

int named_descriptor(const std::string& path) {
  try {
    return follow(path).descriptor;
  } catch (const Error&) {
    return -1;  // writing to it says why
  }
}

bool is_stream(const std::string& path) {
  if (named_descriptor(path) >= 0) return true;
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

AtomicFile::AtomicFile(std::string path, FileAccess access) : path_(std::move(path)) {
  if (path_.empty()) fail_user("K0104", "cannot write a file without a name");
  if (path_.find('\0') != std::string::npos) fail_user("K0104", "cannot write: a file name holds a zero byte");
  target_ = path_;
  if (access == FileAccess::owner)
    write_beside(0600);
  else
    write_where_it_leads();
}

void AtomicFile::write_where_it_leads() {
  const Destination to = follow(path_);
  if (to.descriptor >= 0) {
    if (to.descriptor == STDOUT_FILENO) std::fflush(stdout);  // what was printed before stands before
    return write_through(::fcntl(to.descriptor, F_DUPFD_CLOEXEC, 3));
  }
  if (to.exists && S_ISDIR(to.info.st_mode)) fail_file("K0104", "write", path_, EISDIR);
  if (to.exists && !S_ISREG(to.info.st_mode))
    return write_through(::open(to.place.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  target_ = to.place;
  write_beside(0666);
  // A file that the user has closed to others stays so.
  if (to.exists) ::fchmod(descriptor_, to.info.st_mode & 0777);
}

void AtomicFile::write_through(int descriptor) {
  if (descriptor < 0) fail_file("K0104", "write", path_, errno);
  descriptor_ = descriptor;
}

void AtomicFile::write_beside(unsigned mode) {
  for (int tries = 0; descriptor_ < 0; ++tries) {
    temporary_ = join_path(parent_path(target_), str(unfinished_name(target_), random_digits()));
    left_ = std::make_unique<Leftover>(temporary_);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (descriptor_ < 0 && (errno != EEXIST || tries > 100)) fail_file("K0104", "write", path_, errno);
    if (descriptor_ >= 0 && !lock_unfinished(descriptor_)) {
      ::close(std::exchange(descriptor_, -1));
      if (tries > 100) fail_file("K0104", "write", path_, ENOENT);
    }
  }
}

void remove_unfinished(const std::string& path) {
  const Destination to = follow(path);
  if (to.descriptor >= 0 || (to.exists && !S_ISREG(to.info.st_mode))) return;
  const std::string begin = unfinished_name(to.place);
  std::error_code error;
  for (fs::directory_iterator at(parent_path(to.place), error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.size() != begin.size() + 16 || !starts_with(name, begin)) continue;
    if (name.find_first_not_of("0123456789abcdef", begin.size()) != std::string::npos) continue;
    const Descriptor file{::open(at->path().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
    struct stat info {};
    if (file.number < 0 || ::fstat(file.number, &info) != 0) continue;
    if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid()) continue;
    if (::flock(file.number, LOCK_EX | LOCK_NB) == 0) ::unlink(at->path().c_str());
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_file("K0104", "write", path_, errno);
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
}

void AtomicFile::commit() {
  const int number = std::exchange(descriptor_, -1);
  const Descriptor still_locked{::fcntl(number, F_DUPFD_CLOEXEC, 3)};  // until the file has its name
  const bool closed = ::close(number) == 0;
  if (closed && (temporary_.empty() || ::rename(temporary_.c_str(), target_.c_str()) == 0)) return left_.reset();
  const int error = errno;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  fail_file("K0104", "write", path_, error);
}

void write_file_atomic(const std::string& path, std::string_view contents, FileAccess access) {
  AtomicFile file(path, access);
  file.write(as_bytes(contents));
  file.commit();
}

void make_directories(const std::string& path, unsigned mode) {
  if (path.empty() || is_directory(path)) return;
  const std::string parent = parent_path(path);
  if (parent != path && parent != ".") make_directories(parent, mode);
  if (::mkdir(path.c_str(), static_cast<mode_t>(mode)) != 0 && !(errno == EEXIST && is_directory(path)))
    fail_file("K0105", "make the directory", path, errno);
}

void make_private_directory(const std::string& path) {
  make_directories(path, 0700);
  std::string name = path;
  while (name.size() > 1 && name.back() == '/') name.pop_back();  // "link/" would be followed
  const Descriptor folder{::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  struct stat info {};
  if (folder.number < 0 && (errno == ELOOP || errno == ENOTDIR))
    fail_user("K0145", str(path, " is a link, not a directory of this user"));
  if (folder.number < 0 || ::fstat(folder.number, &info) != 0) fail_file("K0145", "use the directory", path, errno);
  if (info.st_uid != ::geteuid()) fail_user("K0145", str(path, " belongs to another user"));
  if ((info.st_mode & 0077) != 0 && ::fchmod(folder.number, 0700) != 0)
    fail_file("K0145", "close to others the directory", path, errno);
}

void remove_tree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail_user("K0106", str("cannot remove ", path, ": ", error.message()));
}

bool file_exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
}

bool same_file(const std::string& one, const std::string& other) {
  struct stat first {
  }, second{};
  return ::stat(one.c_str(), &first) == 0 && ::stat(other.c_str(), &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

bool is_directory(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::vector<std::string> list_directory(const std::string& path) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename().string());
  if (error) fail_user("K0107", str("cannot list ", path, ": ", error.message()));
  std::sort(names.begin(), names.end());
  return names;
}

namespace {

constexpr std::string_view kept_prefix = "kiln-kept";

// "kiln-build_0123456789abcdef": no name that anybody gives by hand.
bool is_temporary_name(std::string_view name) {
  const size_t mark = name.rfind('_');
  if (mark == std::string_view::npos || name.size() != mark + 17 || !starts_with(name, "kiln")) return false;
  if (name.substr(0, mark) == kept_prefix) return false;
  return name.substr(mark + 1).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

TemporaryDirectory::TemporaryDirectory(std::string_view prefix) {
  for (int tries = 0;; ++tries) {
    path_ = join_path(temporary_root(), str(prefix, "_", random_digits()));
    left_ = std::make_unique<Leftover>(path_);
    if (::mkdir(path_.c_str(), 0700) != 0) {
      if (errno == EEXIST && tries < 100) continue;
      fail_file("K0105", "make the directory", path_, errno);
    }
    // Whoever looks for strays may take it before the lock is ours: then its last name is gone, and we make another.
    // Where the file system has no locks, nobody takes it for a stray either.
    struct stat info {};
    lock_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (lock_ >= 0) ::flock(lock_, LOCK_EX);
    if (lock_ >= 0 && ::fstat(lock_, &info) == 0 && info.st_nlink > 0) return;
    if (lock_ >= 0) ::close(lock_);
    if (tries >= 100) fail_file("K0105", "make the directory", path_, ENOENT);
  }
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  if (!keep_) fs::remove_all(path_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

const std::string& TemporaryDirectory::keep() {
  if (keep_) return path_;
  const std::string name = file_name(path_);
  const std::string kept = join_path(parent_path(path_), str(kept_prefix, name.substr(name.rfind('_'))));
  if (::rename(path_.c_str(), kept.c_str()) == 0) path_ = kept;
  left_.reset();
  keep_ = true;
  return path_;
}

std::vector<std::string> remove_stray_directories() {
  std::vector<std::string> removed;
  std::error_code error;
  for (fs::directory_iterator at(temporary_root(), error), end; !error && at != end; at.increment(error)) {
    const std::string path = at->path().string();
    if (!is_temporary_name(at->path().filename().string())) continue;
    const Descriptor folder{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
    struct stat info {};
    if (folder.number < 0 || ::fstat(folder.number, &info) != 0 || info.st_uid != ::geteuid()) continue;
    if (::flock(folder.number, LOCK_EX | LOCK_NB) != 0) continue;  // in use
    std::error_code ignored;
    if (fs::remove_all(path, ignored) != static_cast<std::uintmax_t>(-1)) removed.push_back(path);
  }
  return removed;
}

std::string join_path(std::string_view directory, std::string_view name) {
  if (directory.empty() || (!name.empty() && name.front() == '/')) return std::string(name);
  return directory.back() == '/' ? str(directory, name) : str(directory, "/", name);
}

std::string file_name(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos || path == "/" ? path : path.substr(slash + 1));
}

std::string parent_path(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(slash == 0 ? "/" : path.substr(0, slash));
}

std::string extension(std::string_view path) {
  const std::string name = file_name(path);
  const size_t dot = name.rfind('.');
  return dot == std::string::npos || dot == 0 ? "" : lower_case(std::string_view(name).substr(dot));
}

std::string stem(std::string_view path) {
  const std::string name = file_name(path);
  const size_t dot = name.rfind('.');
  return dot == std::string::npos || dot == 0 ? name : name.substr(0, dot);
}

}  // namespace kiln
