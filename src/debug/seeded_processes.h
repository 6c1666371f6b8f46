// For tests only: work spread over child processes. Bisect forks, and wants no other threads around.
#pragma once
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace kiln::seeded {

// What it throws, where it throws.
inline std::string said_by(const std::function<std::string(size_t)>& work, size_t i) {
  try {
    return work(i);
  } catch (const std::exception& error) {
    return error.what();
  }
}

// What `work` gives for every number below `count`; empty where its process died.
inline std::vector<std::string> in_processes(size_t count, const std::function<std::string(size_t)>& work) {
  constexpr int processes = 2;
  TemporaryDirectory folder;
  void* shared = mmap(nullptr, sizeof(std::atomic<size_t>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  KILN_CHECK(shared != MAP_FAILED, "no shared memory");
  auto* next = new (shared) std::atomic<size_t>(0);
  fflush(nullptr);
  std::vector<pid_t> children;
  for (int p = 0; p < processes; ++p) {
    const pid_t child = fork();
    KILN_CHECK(child >= 0, "no child process");
    if (child == 0) {
      for (size_t i = (*next)++; i < count; i = (*next)++)
        write_file_atomic(join_path(folder.path(), std::to_string(i)), said_by(work, i));
      _exit(0);
    }
    children.push_back(child);
  }
  for (pid_t child : children) waitpid(child, nullptr, 0);
  munmap(shared, sizeof(std::atomic<size_t>));
  std::vector<std::string> out(count);
  for (size_t i = 0; i < count; ++i)
    if (const std::string path = join_path(folder.path(), std::to_string(i)); file_exists(path))
      out[i] = read_file(path);
  return out;
}

}  // namespace kiln::seeded
