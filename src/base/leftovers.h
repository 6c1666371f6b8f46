// What this process has made and must not leave behind: temporary directories and files that do not have their name
// yet. Their destructors remove them; a signal that ends the process runs no destructors, so the command `kiln` asks
// for handlers that do it. A library never installs handlers by itself.
#pragma once
#include <string>

namespace kiln {

// One path on the list, for as long as this lives. More paths than the list has room for are not on it.
class Leftover {
 public:
  explicit Leftover(const std::string& path);
  Leftover(const Leftover&) = delete;
  Leftover& operator=(const Leftover&) = delete;
  ~Leftover();

 private:
  int slot_ = -1;
};

// A process that has to end with this one, on the list for as long as this lives: a compiler would go on writing to
// what is removed.
class LeftoverProcess {
 public:
  explicit LeftoverProcess(int pid);
  LeftoverProcess(const LeftoverProcess&) = delete;
  LeftoverProcess& operator=(const LeftoverProcess&) = delete;
  ~LeftoverProcess();

 private:
  int slot_ = -1;
};

// From now on SIGINT, SIGTERM and SIGHUP, unless they are ignored, remove what is on the list before they do what they
// did before: end the process, or call the handler of another library that has such a list. Once is enough.
void remove_leftovers_on_signals();
bool leftovers_go_on_signals();  // it was called

// Removes what AtomicFile (base/file.h) began to write for this path and a process ended without finishing (kill -9).
// What is still being written is locked, and stays.
void remove_unfinished(const std::string& path);

}  // namespace kiln
