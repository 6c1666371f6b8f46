#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>

#include "base/error.h"

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
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
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

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  temporary_ = path_ + ".XXXXXX";
  descriptor_ = ::mkostemp(temporary_.data(), O_CLOEXEC);
  if (descriptor_ < 0) fail_file("K0104", "write", path_, errno);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(descriptor_, 0666 & ~mask);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
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
  const int number = descriptor_;
  descriptor_ = -1;
  if (::close(number) != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary_.c_str());
    fail_file("K0104", "write", path_, error);
  }
}

void write_file_atomic(const std::string& path, std::string_view contents) {
  AtomicFile file(path);
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

void remove_tree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail_user("K0106", str("cannot remove ", path, ": ", error.message()));
}

bool file_exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
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

std::string temporary_root() {
  const char* root = std::getenv("TMPDIR");
  return root != nullptr && *root != '\0' ? root : "/tmp";
}

TemporaryDirectory::TemporaryDirectory(std::string_view prefix) {
  path_ = join_path(temporary_root(), str(prefix, "_XXXXXX"));
  if (::mkdtemp(path_.data()) == nullptr) fail_file("K0105", "make the directory", path_, errno);
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  if (!keep_) fs::remove_all(path_, ignored);
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
