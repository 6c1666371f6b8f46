#include "runtime/code_loader.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace kiln::runtime {
namespace {

class SharedObject : public CodeModule {
 public:
  SharedObject(void* handle, int descriptor) : handle_(handle), descriptor_(descriptor) {}
  ~SharedObject() override {
    dlclose(handle_);
    if (descriptor_ >= 0) close(descriptor_);
  }
  void* symbol(const std::string& name) const override { return dlsym(handle_, name.c_str()); }

 private:
  void* handle_;
  // Stays open: the loader knows the object by /proc/<pid>/fd/<n>, and a reused number would find the old code again.
  int descriptor_;
};

bool write_all(int fd, ByteSpan bytes) {
  while (!bytes.empty()) {
    ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

std::string loader_error() {
  const char* text = dlerror();
  return text ? text : "unknown reason";
}

std::unique_ptr<CodeModule> from_memory_file(ByteSpan bytes, std::string& why) {
  int fd = memfd_create("kiln-kernels", MFD_CLOEXEC);
  if (fd < 0) {
    why = str("memfd_create: ", std::strerror(errno));
    return nullptr;
  }
  void* handle = nullptr;
  if (!write_all(fd, bytes)) {
    why = str("writing to the memory file: ", std::strerror(errno));
  } else {
    handle = dlopen(str("/proc/", getpid(), "/fd/", fd).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) why = loader_error();
  }
  if (handle) return std::make_unique<SharedObject>(handle, fd);
  close(fd);
  return nullptr;
}

std::unique_ptr<CodeModule> from_temporary_file(ByteSpan bytes, std::string& why) {
  std::string path = join_path(temporary_root(), "kiln-XXXXXX");
  int fd = mkostemp(path.data(), O_CLOEXEC);  // mode 0600
  if (fd < 0) {
    why = str(path, ": ", std::strerror(errno));
    return nullptr;
  }
  void* handle = nullptr;
  if (!write_all(fd, bytes) || fchmod(fd, 0700) != 0) {
    why = str(path, ": ", std::strerror(errno));
  } else {
    handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) why = loader_error();
  }
  unlink(path.c_str());
  close(fd);
  return handle ? std::make_unique<SharedObject>(handle, -1) : nullptr;
}

}  // namespace

std::unique_ptr<CodeModule> load_shared_object(ByteSpan bytes, const std::string& label) {
  std::string memory_reason, file_reason;
  if (auto module = from_memory_file(bytes, memory_reason)) return module;
  if (auto module = from_temporary_file(bytes, file_reason)) return module;
  fail_user("K0512",
            str("the code ", label, " could not be loaded: from an anonymous memory file: ", memory_reason,
                "; from a temporary file in ", temporary_root(), ": ", file_reason,
                ". A policy of this system (noexec mount, SELinux, seccomp) may forbid new executable code, or "
                "the code is damaged; TMPDIR may name a directory that allows it"));
}

std::unique_ptr<CodeModule> load_kept_object(ByteSpan bytes, const std::string& path) {
  make_directories(parent_path(path), 0700);
  const bool there = file_exists(path) && read_file(path) == as_text(bytes);
  if (!there) write_file_atomic(path, as_text(bytes));
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) fail_user("K0512", str("the code in ", path, " could not be loaded: ", loader_error()));
  return std::make_unique<SharedObject>(handle, -1);
}

std::unique_ptr<CodeModule> open_shared_object(const std::string& path) {
  // Without a slash dlopen would search the system's library path instead of taking the file.
  std::string file = path.find('/') == std::string::npos ? str("./", path) : path;
  if (is_stream(file)) fail_user("K0513", str("the library ", path, " could not be loaded: not a regular file"));
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) fail_user("K0513", str("the library ", path, " could not be loaded: ", loader_error()));
  return std::make_unique<SharedObject>(handle, -1);
}

}  // namespace kiln::runtime
